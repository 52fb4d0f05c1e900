//! Limits of depth and size of stored values.

use std::sync::Arc;

use helix_agents_core::bounds::{Bounds, MAX_DEPTH, MAX_TEXT_BYTES};
use helix_agents_core::entries::ExecuteRequest;
use helix_agents_core::error::ErrorCode;
use helix_agents_core::hooks::HookCx;
use helix_agents_core::message::Message;
use helix_agents_core::runtime::RunOptions;
use helix_agents_core::session::RunStatus;
use helix_agents_core::state::{StateError, apply_patch};
use helix_agents_core::stream::ChunkPayload;
use helix_agents_core::tool::{Reconciled, ToolCx, ToolError};
use helix_agents_core::usage::{CustomUsage, UsageKind};
use serde_json::{Value, json};

use super::agents::{Gate, Log, agent, browser, calling, gated, of_model, tool};
use super::recording::taken_over;
use super::recording_hooks::RecordingHooks;
use super::subject::session;
use super::{MockReply, RuntimeSubject};
use crate::MockModel;

/// A value nested this many levels deep.
fn nested(levels: usize) -> Value {
    // Not by `json!`, which copies what it is given, with one call inside of another.
    (0..levels).fold(json!(1), |inner, _| Value::Array(vec![inner]))
}

/// Values nested this many levels deep, in every shape that is written or read differently.
fn shapes(levels: usize) -> Vec<Value> {
    let in_array = |inner, _| json!([inner]);
    let in_object = |inner, _| json!({ "in": inner });
    let turn_by_turn = |inner, level: usize| match level % 3 {
        0 => json!([0, inner, "]}"]),
        _ => json!({ "a/b~": inner, "b": [] }),
    };
    let innermost = [json!([]), json!({}), json!([null])];
    // A text of this size is kept apart from the rest of its row by some stores.
    let large = json!(["x".repeat(70_000) + "\"\\\u{1}€"]);
    let arrays = innermost.map(|inner| (1..levels).fold(inner, in_array));
    let objects = (1..levels).fold(json!({}), in_object);
    let mixed = (1..levels).fold(large, turn_by_turn);
    Vec::from(arrays)
        .into_iter()
        .chain([objects, mixed])
        .collect()
}

/// A runtime over the same store with low limits, and the largest size that it accepts.
async fn narrow(on: &RuntimeSubject) -> (RuntimeSubject, usize) {
    let on = on.narrowed(256 * 1024).await;
    let most = Bounds::of(on.backend().streams.limits()).max_bytes();
    assert_eq!(most, 128 * 1024);
    (on, most)
}

/// A text whose JSON has this many bytes.
fn text_of(bytes: usize) -> String {
    // Two bytes of JSON for each of the first ones, and one for the others: what is counted is JSON.
    let escapes = bytes / 10;
    "\"".repeat(escapes) + &"x".repeat(bytes - 2 - 2 * escapes)
}

/// The lines of the calls' results, in the model's order.
async fn results(on: &RuntimeSubject) -> Vec<String> {
    let told = on.transcript_lines().await.into_iter();
    told.filter(|line| line.starts_with('c')).collect()
}

fn too_deep(call: &str) -> String {
    format!(
        r#"{call}=error: {{"error":"The call ran, but its result could not be kept: it is nested deeper than {MAX_DEPTH} levels."}}"#
    )
}

/// A result that cannot be stored becomes an error which states that the call ran: for a single
/// call, for one of several, and for one that would end the turn.
pub async fn the_model_reads_that_a_result_cannot_be_stored(on: &RuntimeSubject) {
    let (on, most) = &narrow(on).await;
    let most = *most;
    let replies = [
        calling([("c1", "deep")]),
        calling([("c2", "deeper"), ("c3", "large"), ("c4", "endless")]),
        calling([("c5", "last")]),
        calling([("c6", "talks"), ("c7", "fits")]),
        MockReply::text("done"),
    ];
    let tools = [
        tool("deep", async |_, _| Ok(nested(MAX_DEPTH + 1))).read_only(),
        tool("deeper", async |_, _| Ok(nested(127))),
        tool(
            "large",
            move |_, _| async move { Ok(json!(text_of(most + 1))) },
        ),
        tool("endless", async |_, _| Ok(nested(50_000))),
        tool("last", async |_, _| Ok(nested(MAX_DEPTH + 1))).finish_with(),
        tool("talks", async |_, _| {
            Err(ToolError::tell_model("no ".repeat(MAX_TEXT_BYTES)))
        }),
        tool("fits", move |_, _| async move { Ok(json!(text_of(most))) }),
    ];
    let agent = agent(replies).tools(tools).build().unwrap();
    let run = on.turn(&agent, "go").await;
    assert_eq!((run.status, run.output), (RunStatus::Completed, None));
    let results = results(on).await;
    let large = format!(
        r#"c3=error: {{"error":"The call ran, but its result could not be kept: it has {} bytes of JSON, and at most {most} are kept."}}"#,
        most + 1
    );
    assert_eq!(
        results[..5],
        [
            too_deep("c1"),
            too_deep("c2"),
            large,
            too_deep("c4"),
            too_deep("c5"),
        ]
    );
    assert!(results[5].starts_with(r#"c6=error: {"error":"no no "#));
    assert!(results[5].ends_with("bytes in all]\"}"));
    assert_eq!(results[6], format!("c7=success: {}", text_of(most)));
    let used = on.usage().await.into_iter();
    let failed = used.filter(|entry| matches!(entry.kind, UsageKind::Tool { success: false, .. }));
    assert_eq!(failed.count(), 6, "they ran, and gave no result");
    on.everything().await;
}

/// The result of a reconciler is held to the same bounds: the model reads that the call ran.
pub async fn the_model_reads_that_a_reconciled_result_cannot_be_stored(on: &RuntimeSubject) {
    let gate = Gate::default();
    let charge = gated("charge", &gate)
        .reconcile(async |_: Value, _: ToolCx| Ok(Reconciled::Done(nested(MAX_DEPTH + 1))));
    let replies = [calling([("c1", "charge")]), MockReply::text("done")];
    let agent = agent(replies).tools(charge).build().unwrap();
    on.start(&agent, "go").await;
    gate.reached(1).await;
    let ended = taken_over(on, &agent).await;
    assert_eq!(ended.ended, Some(RunStatus::Completed));
    assert_eq!(results(on).await, [too_deep("c1")]);
    gate.open();
    on.everything().await;
}

/// Chunks, usage and state changes beyond the bounds are refused to the tool, which continues.
pub async fn tool_output_beyond_the_bounds_is_refused_to_the_tool(on: &RuntimeSubject) {
    let (on, most) = &narrow(on).await;
    let most = *most;
    let log = Log::default();
    let noting = log.clone();
    let talks = tool("talks", move |_, cx: ToolCx| {
        let log = noting.clone();
        let cause = |error: ToolError| match error.source() {
            Some(cause) => cause.to_string(),
            None => "nothing".to_owned(),
        };
        let note = move |refused: Result<(), ToolError>| {
            log.note(cause(refused.expect_err("it is refused")));
        };
        async move {
            let used = |data| {
                let mut usage = CustomUsage::new("pages", 1.0);
                usage.data = Some(data);
                usage
            };
            cx.emit("small", json!(1))?;
            note(cx.emit("deep", nested(MAX_DEPTH + 1)));
            note(cx.emit("large", text_of(most)));
            note(cx.record_usage(used(nested(MAX_DEPTH + 1))));
            note(cx.record_usage(used(json!(text_of(most)))));
            note(cx.edit_state(|draft| draft.set("/deep", nested(MAX_DEPTH))));
            note(cx.edit_state(|draft| {
                draft.set("/small", 1)?;
                draft.set("/large", text_of(most / 2))
            }));
            note(cx.update_state(|state: &mut Value| state["large"] = json!(text_of(most / 2))));
            // A value may be put in the place of another as often as anybody likes.
            for _ in 0..5 {
                cx.edit_state(|draft| draft.set("/one", text_of(most / 2 - 100)))?;
            }
            cx.edit_state(|draft| draft.set("/two", text_of(most / 2 - 100)))?;
            note(cx.edit_state(|draft| draft.set("/three", text_of(500))));
            cx.edit_state(|draft| draft.set("/one", "short"))?;
            cx.edit_state(|draft| draft.set("/three", text_of(500)))?;
            cx.record_usage(used(json!("few")))?;
            cx.emit("last", json!(2))?;
            Ok(json!("said"))
        }
    });
    let replies = [calling([("c1", "talks")]), MockReply::text("done")];
    let agent = agent(replies).tools(talks).build().unwrap();
    let run = on.turn(&agent, "go").await;
    assert_eq!(run.status, RunStatus::Completed);
    assert_eq!(results(on).await, ["c1=success: said"]);
    let refused = log.take();
    for (line, what) in refused.iter().zip([
        "the value at `` is nested deeper",
        "an event has ",
        "an entry of usage is nested deeper",
        "an entry of usage has ",
        "the value at `/deep` is nested deeper",
        "a change of the state has ",
        "a change of the state has ",
        "what a call or hook writes to the state has ",
    ]) {
        assert!(line.starts_with(what), "{line} begins with {what}");
    }
    assert_eq!(refused.len(), 8);
    let two = text_of(most / 2 - 100);
    let expected = json!({ "one": "short", "two": two, "three": text_of(500) });
    assert!(
        on.state().await == expected,
        "what was refused left nothing"
    );
    assert_eq!(events(on).await, ["small", "last"]);
    let used = on.usage().await.into_iter();
    let used = used.filter(|entry| matches!(entry.kind, UsageKind::Custom(_)));
    assert_eq!(used.count(), 1);
    reads_the_state(on, json!({})).await;
}

/// The names of the events in the stream.
async fn events(on: &RuntimeSubject) -> Vec<String> {
    let payloads = on.payloads().await.into_iter();
    let names = payloads.filter_map(|payload| match payload {
        ChunkPayload::Custom { event_name, .. } => Some(event_name),
        _ => None,
    });
    names.collect()
}

/// Checks that a reader who applies all patches has the session's state.
async fn reads_the_state(on: &RuntimeSubject, mut state: Value) {
    for payload in on.payloads().await {
        if let ChunkPayload::StatePatch { patches } = payload {
            apply_patch(&mut state, &patches).unwrap();
        }
    }
    assert!(state == on.state().await, "readers have the state");
}

/// Chunks and state changes beyond the bounds are refused to the hook, and the run continues.
pub async fn hook_output_beyond_the_bounds_is_refused_to_the_hook(on: &RuntimeSubject) {
    let (on, most) = &narrow(on).await;
    let most = *most;
    let log = Log::default();
    let noting = log.clone();
    let hooks = RecordingHooks::doing(&Log::default(), move |line, cx: &HookCx| {
        let hook = line.split(' ').next().unwrap_or_default().to_owned();
        let mut refused = 0;
        let mut count = |refusal: Result<(), StateError>| refused += u8::from(refusal.is_err());
        count(cx.emit("deep", nested(MAX_DEPTH + 1)));
        count(cx.emit("large", text_of(most)));
        count(cx.edit_state(|draft| draft.set("/deep", nested(MAX_DEPTH))));
        count(cx.edit_state(|draft| draft.set("/large", text_of(most / 2))));
        count(cx.update_state(|state: &mut Value| state["large"] = json!(text_of(most / 2))));
        count(cx.edit_state(|draft| draft.push("/by", &hook)));
        count(cx.emit("small", json!(&hook)));
        noting.note(format!("{hook} {refused}"));
    });
    let replies = [calling([("c1", "quick")]), MockReply::text("done")];
    let quick = tool("quick", async |_, cx: ToolCx| {
        cx.edit_state(|draft| draft.set("/ran", true))?;
        Ok(json!("done"))
    });
    let agent = agent(replies)
        .tools(quick)
        .initial_state(json!({ "by": [] }))
        .hooks(hooks)
        .build()
        .unwrap();
    let run = on.turn(&agent, "go").await;
    assert_eq!(run.status, RunStatus::Completed);
    let called = log.take();
    assert!(called.len() >= 9, "{called:?}");
    assert!(called.iter().all(|line| line.ends_with(" 5")), "{called:?}");
    let state = on.state().await;
    let keys: Vec<_> = state.as_object().unwrap().keys().cloned().collect();
    assert_eq!(keys, ["by", "ran"]);
    let told = events(on).await;
    assert!(told.iter().all(|name| name == "small"));
    reads_the_state(on, json!({ "by": [] })).await;
}

/// An output that cannot be stored is requested again, whichever way the model gave it.
pub async fn an_output_that_cannot_be_stored_is_requested_again(on: &RuntimeSubject) {
    let schema = json!({ "type": "object" });
    let output = |levels: usize| json!({ "answer": nested(levels - 1) });
    for native in [true, false] {
        let replies = [MAX_DEPTH + 1, 140, MAX_DEPTH].map(|levels| match native {
            true => MockReply::text(output(levels).to_string()),
            false => MockReply::finish(output(levels)),
        });
        let model = MockModel::replies([MockReply::text("soon")].into_iter().chain(replies));
        let model = Arc::new(match native {
            true => model.with_native_output(),
            false => model,
        });
        let agent = of_model(&model)
            .output_schema(schema.clone())
            .max_completion_retries(3)
            .build()
            .unwrap();
        let run = on.turn(&agent, "go").await;
        assert_eq!(run.status, RunStatus::Completed, "native: {native}");
        assert_eq!((model.seen().len(), run.corrections), (4, 3));
        assert_eq!(run.output, Some(output(MAX_DEPTH)));
        assert_eq!(on.snapshot().await.state.output, run.output);
        on.everything().await;
    }
}

/// The model reads that its arguments cannot be stored, and the tool never gets them.
pub async fn the_model_reads_that_arguments_cannot_be_stored(on: &RuntimeSubject) {
    let (on, most) = &narrow(on).await;
    let most = *most;
    let deep = |levels: usize| json!({ "in": nested(levels - 1) });
    let replies = [
        MockReply::calls([
            ("c1", "echo", deep(MAX_DEPTH + 1)),
            ("c2", "echo", deep(140)),
            ("c3", "echo", json!({ "in": text_of(most) })),
            ("c4", "echo", deep(MAX_DEPTH)),
            ("c5", "echo", json!({ "in": text_of(most - 7) })),
        ]),
        MockReply::text("done"),
    ];
    let echo = tool("echo", async |_, _| Ok(json!("ran")));
    let agent = agent(replies).tools(echo).build().unwrap();
    let run = on.turn(&agent, "go").await;
    assert_eq!(run.status, RunStatus::Completed);
    let results = results(on).await;
    for (line, why) in results.iter().zip([
        "are a text (nested deeper than 100 levels)",
        "are a text (recursion limit exceeded",
        "the argument text has ",
    ]) {
        assert!(line.contains(why), "{line} says {why}");
        assert!(line.contains("=error: "), "{line}");
    }
    assert_eq!(results[3..], ["c4=success: ran", "c5=success: ran"]);
    let chunks = on.chunks().await;
    on.backend()
        .streams
        .limits()
        .check(&chunks.into_iter().map(|it| it.chunk).collect::<Vec<_>>())
        .expect("every chunk is one that the stream takes");
}

/// A turn with a state or message metadata that cannot be stored is refused.
pub async fn a_turn_with_values_that_cannot_be_stored_is_refused(on: &RuntimeSubject) {
    let agent = agent([MockReply::text("one")]).build().unwrap();
    on.keep(&agent);
    let request = || ExecuteRequest::new(&agent, "go").in_session(session());
    let start = async |request| on.runtime.start(request, RunOptions::default()).await;
    let deep = request().with_state(json!({ "deep": nested(MAX_DEPTH) }));
    let large = request().with_state(json!({ "large": text_of(9 * 1024 * 1024) }));
    let mut initial = request();
    initial.initial_state = Some(Arc::new(json!({ "deep": nested(126) })));
    for request in [deep, large, initial] {
        on.refuses(ErrorCode::StateInvalid, async || start(request).await)
            .await;
    }
    let mut said = request();
    said.messages[0]
        .metadata
        .insert("deep".to_owned(), nested(MAX_DEPTH));
    on.refuses(ErrorCode::ValidationError, async || start(said).await)
        .await;
    let fits = request().with_state(json!({ "deep": nested(MAX_DEPTH - 1) }));
    let run = start(fits).await.unwrap();
    assert_eq!(on.ended(&run).await.status, RunStatus::Completed);
}

/// A value just within the bounds is stored wherever it occurs, and can be read again by any
/// process.
pub async fn values_within_the_bounds_are_stored_and_read_again(on: &RuntimeSubject) {
    let all: Arc<[Value]> = shapes(MAX_DEPTH).into();
    let under: Arc<[Value]> = shapes(MAX_DEPTH - 1).into();
    let mut replies = Vec::new();
    for (n, inner) in under.iter().enumerate() {
        let arguments = || json!({ "in": inner });
        let ids = ["a", "b", "c"].map(|call| format!("{call}{n}"));
        replies.push(MockReply::calls([
            (ids[0].as_str(), "gives", arguments()),
            (ids[1].as_str(), "gives", arguments()),
            (ids[2].as_str(), "browser", arguments()),
        ]));
        replies.push(calling([("end", "ends")]));
    }
    let (gives_all, gives_under) = (Arc::clone(&all), Arc::clone(&under));
    let gives = tool("gives", move |_, cx: ToolCx| {
        let (all, under) = (Arc::clone(&gives_all), Arc::clone(&gives_under));
        async move {
            let (which, n) = cx.call_id().as_str().split_at(1);
            let n: usize = n.parse()?;
            cx.emit("event", &all[n])?;
            let mut usage = CustomUsage::new("pages", 1.0);
            usage.data = Some(all[n].clone());
            cx.record_usage(usage)?;
            let key = format!("/{which}{n}");
            cx.edit_state(|draft| draft.set(key, &under[n]))?;
            Ok(all[n].clone())
        }
    });
    let ended = Arc::clone(&all);
    let ends = tool("ends", move |_, cx: ToolCx| {
        let ended = Arc::clone(&ended);
        let n = match cx.call_id().as_str().split_once('_') {
            None => 0,
            Some((_, n)) => n.parse::<usize>().unwrap_or_default() - 1,
        };
        async move { Ok(ended[n].clone()) }
    });
    let hooked = Arc::clone(&under);
    let hooks = RecordingHooks::doing(&Log::default(), move |line, cx: &HookCx| {
        if line.starts_with("before_llm") {
            let wrote = cx.edit_state(|draft| draft.set("/hook", &hooked[4]));
            wrote.and_then(|()| cx.emit("hook", &hooked[4])).unwrap();
        }
    });
    let agent = agent(replies)
        .tools([gives, ends.finish_with(), browser("browser")])
        .initial_state(json!({ "first": under[4] }))
        .hooks(hooks)
        .build()
        .unwrap();
    let mut expected = json!({ "first": under[4], "hook": under[4] });
    for (n, value) in all.iter().enumerate() {
        let run = on.turn(&agent, "go").await;
        assert_eq!(run.status, RunStatus::SuspendedStepPartial);
        // The open step holds results and writes, and is read by every resume.
        let elsewhere = on.restarted().await;
        let waits = elsewhere.waiting(&format!("c{n}")).await;
        assert_eq!(waits.input, json!({ "in": under[n] }));
        elsewhere.answered(waits.result(value.clone())).await;
        let run = elsewhere.resumed().await;
        assert_eq!(run.status, RunStatus::Completed);
        assert_eq!(run.output.as_ref(), Some(value));
        for call in ["a", "b"] {
            expected[format!("{call}{n}")] = under[n].clone();
        }
        assert!(elsewhere.state().await == expected, "shape {n}");
        let results = elsewhere.messages().await.into_iter();
        let kept = results.filter(|it| matches!(it, Message::Tool(it) if it.value() == *value));
        assert!(kept.count() >= 4, "shape {n}");
        on.everything().await;
    }
    reads_the_state(on, json!({ "first": under[4] })).await;
}
