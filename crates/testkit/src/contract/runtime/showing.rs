//! Visibility of writes of hooks and tools, to the model, to readers and to rules.

use std::sync::Arc;
use std::time::Duration;

use helix_agents_core::Agent;
use helix_agents_core::hooks::HookCx;
use helix_agents_core::message::Message;
use helix_agents_core::model::{ModelConfig, ModelEvent, TokenUsage};
use helix_agents_core::session::RunStatus;
use helix_agents_core::step::{FINISH_TOOL, StopReason};
use helix_agents_core::store::Sessions;
use helix_agents_core::stream::ChunkPayload;
use helix_agents_core::tool::ToolCx;
use serde_json::{Value, json};

use super::agents::{Gate, Log, agent, answer_schema, calling, echo, noted, of_model, tool};
use super::recording_hooks::RecordingHooks;
use super::stepwise_model::{ModelStep, StepwiseModel};
use super::subject::{calls, session};
use super::{MockReply, RuntimeSubject};
use crate::MockModel;

/// Hooks that count in the state how often one of them was called.
fn counting(word: &'static str) -> RecordingHooks {
    RecordingHooks::doing(&Log::default(), move |line, cx: &HookCx| {
        if line.starts_with(word) {
            cx.edit_state(|draft| draft.increment("/count", 1)).unwrap();
        }
    })
}

/// A state change that a hook makes right before a model call is in the state and in the prompt of
/// that call.
pub async fn the_model_is_shown_state_changes_of_the_hook_before_it(on: &RuntimeSubject) {
    let model = Arc::new(MockModel::replies([
        calling([("c1", "echo")]),
        MockReply::text("done"),
    ]));
    let agent = of_model(&model)
        .tools(echo("echo"))
        .hooks(counting("before_llm"))
        .system_prompt_from_state(|state: &Value| format!("You see {state}."))
        .initial_state(json!({ "count": 0 }))
        .build()
        .unwrap();
    on.turn(&agent, "go").await;
    let seen: Vec<_> = model
        .seen()
        .into_iter()
        .map(|it| (it.state, it.system))
        .collect();
    let shown = |n: u64| {
        let system = format!(r#"You see {{"count":{n}}}."#);
        (json!({ "count": n }), system)
    };
    assert_eq!(seen, [shown(1), shown(2)]);
}

/// A state change that a hook makes after the reply is streamed before the first call of the reply
/// begins, and approval rules see it.
pub async fn state_changes_of_a_hook_after_a_reply_come_before_its_calls(on: &RuntimeSubject) {
    let log = Log::default();
    let by_state = async |_: Value, cx: ToolCx| Ok(cx.state().get()?["count"] == json!(1));
    let tools = [
        noted("plain", &log),
        noted("by_state", &log).approval_if(by_state),
    ];
    let agent = agent([calling([("c1", "plain"), ("c2", "by_state")])])
        .tools(tools)
        .hooks(counting("after_llm"))
        .initial_state(json!({ "count": 0 }))
        .build()
        .unwrap();
    on.turn(&agent, "go").await;
    let asked = on.pending().await.into_iter();
    let asked: Vec<_> = asked.map(|it| it.tool_call_id).collect();
    assert_eq!(asked, calls(&["c2"]), "the rule sees what the hook wrote");
    let payloads = on.payloads().await;
    let first = |is_it: fn(&ChunkPayload) -> bool| payloads.iter().position(is_it);
    let patch = first(|it| matches!(it, ChunkPayload::StatePatch { .. }));
    let start = first(|it| matches!(it, ChunkPayload::ToolStart { .. }));
    assert!(patch.is_some() && patch < start, "{payloads:?}");
}

/// A model call that exceeds its timeout has failed, and is retried.
pub async fn a_model_that_takes_too_long_is_asked_again(on: &RuntimeSubject) {
    let gate = Gate::default();
    let text = |text: &str| ModelStep::Emit(ModelEvent::Text(text.to_owned()));
    let (stop_reason, usage) = (StopReason::EndTurn, TokenUsage::new(1, 1));
    let model = Arc::new(StepwiseModel::new([
        vec![text("well "), ModelStep::Wait(gate.clone())],
        vec![
            text("done"),
            ModelStep::Emit(ModelEvent::Finished { stop_reason, usage }),
        ],
    ]));
    let mut config = ModelConfig::default();
    let allowed = Duration::from_millis(700);
    config.timeout = Some(allowed);
    let agent = Agent::builder("agent").model(Arc::clone(&model));
    let agent = agent.model_config(config).build().unwrap();
    let run = on.turn(&agent, "go").await;
    assert_eq!(run.status, RunStatus::Completed);
    assert_eq!(on.transcript_lines().await, ["user: go", "assistant: done"]);
    let asked = model.asked();
    assert_eq!(
        asked.iter().map(|it| it.attempt).collect::<Vec<_>>(),
        [1, 2]
    );
    let waited = asked[1].at.since(asked[0].at);
    assert!(waited >= allowed + Duration::from_secs(1), "{waited:?}");
    gate.open();
}

/// A stop rule that panics does not end the turn.
pub async fn a_rule_that_panics_ends_no_turn(on: &RuntimeSubject) {
    let agent = agent([calling([("c1", "echo")]), MockReply::text("done")])
        .tools(echo("echo"))
        .stop_when(|_| panic!("the rule is broken"))
        .build()
        .unwrap();
    let run = on.turn(&agent, "go").await;
    assert_eq!((run.status, run.step_count), (RunStatus::Completed, 2));
    assert_eq!(on.transcript_lines().await[3..], ["assistant: done"]);
}

/// A result that does not fit the schema of its tool is an error that the model reads.
pub async fn the_model_reads_that_a_result_breaks_its_schema(on: &RuntimeSubject) {
    let tools = [
        tool("good", async |_, _| Ok(json!({ "answer": 1 }))).output_schema(answer_schema()),
        tool("bad", async |_, _| Ok(json!({ "answer": "one" }))).output_schema(answer_schema()),
    ];
    let replies = [
        calling([("c1", "good"), ("c2", "bad")]),
        MockReply::text("done"),
    ];
    let agent = agent(replies).tools(tools).build().unwrap();
    on.turn(&agent, "go").await;
    assert_eq!(
        on.transcript_lines().await[2..4],
        [
            r#"c1=success: {"answer":1}"#,
            r#"c2=error: {"error":"The tool gave a result that does not fit its own schema."}"#,
        ]
    );
}

/// The model is shown the correction of its rejected output, also by a host that remembers.
pub async fn the_model_reads_why_its_output_was_refused(on: &RuntimeSubject) {
    let model = Arc::new(MockModel::replies([
        MockReply::text("I think it is two."),
        MockReply::calls([("f1", FINISH_TOOL, json!({ "answer": 2 }))]),
    ]));
    let agent = of_model(&model)
        .output_schema(answer_schema())
        .build()
        .unwrap();
    on.turn(&agent, "go").await;
    let history = on.messages().await;
    let shown = model.seen().pop().unwrap().messages;
    assert!(matches!(shown.last(), Some(Message::User(_))), "{shown:?}");
    assert_eq!(shown, history[..3]);
}

/// The id of a call that was cut off is not used again: a model that repeats it gets another.
pub async fn a_call_id_that_was_cut_off_is_not_used_again(on: &RuntimeSubject) {
    let replies = [
        calling([("c1", "echo")]),
        MockReply::text("done"),
        calling([("c1", "echo")]),
        MockReply::text("done"),
    ];
    let agent = agent(replies).tools(echo("echo")).build().unwrap();
    on.turn(&agent, "one").await;
    let sessions = Sessions::new(&*on.backend().store, &*on.clock);
    sessions.truncate_messages(&session(), 1).await.unwrap();
    on.restarted().await.turn(&agent, "two").await;
    assert_eq!(
        on.transcript_lines().await[2..4],
        ["assistant: c1_2=echo{}", "c1_2=success: {}"]
    );
}

/// A turn that must still give its output must give it after an interruption, too: the run that
/// continues it asks for nothing else, and has only the remaining attempts.
pub async fn an_owed_output_is_owed_after_an_interruption(on: &RuntimeSubject) {
    let gate = Gate::default();
    let text = |text: &str| ModelStep::Emit(ModelEvent::Text(text.to_owned()));
    let finished = || {
        let (stop_reason, usage) = (StopReason::EndTurn, TokenUsage::new(1, 1));
        ModelStep::Emit(ModelEvent::Finished { stop_reason, usage })
    };
    let model = Arc::new(StepwiseModel::new([
        vec![text("two"), finished()],
        vec![
            text("two, I say"),
            ModelStep::Wait(gate.clone()),
            finished(),
        ],
        vec![text("still two"), finished()],
        vec![text("two it is"), finished()],
        vec![text("never asked"), finished()],
    ]));
    let agent = Agent::builder("agent").model(Arc::clone(&model));
    let agent = agent
        .output_schema(answer_schema())
        .max_completion_retries(2)
        .build()
        .unwrap();
    let run = on.start(&agent, "go").await;
    gate.reached(1).await;
    let sessions = Sessions::new(&*on.backend().store, &*on.clock);
    let asked = sessions.set_interrupt_flag(&session(), None).await;
    asked.unwrap();
    assert_eq!(on.ended(&run).await.status, RunStatus::Interrupted);
    let resumed = on.resumed().await;
    assert_eq!(resumed.status, RunStatus::Failed);
    // The reply that was cut off was not judged, so it does not count.
    assert_eq!(model.asked().len(), 4, "no more than were left");
    assert_eq!(resumed.corrections, 2);
}
