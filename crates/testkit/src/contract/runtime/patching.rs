//! State patches: a reader of the stream has the same state as the store.

use std::sync::Arc;

use helix_agents_core::hooks::HookCx;
use helix_agents_core::session::RunStatus;
use helix_agents_core::state::apply_patch;
use helix_agents_core::store::{Lookup, Sessions};
use helix_agents_core::stream::ChunkPayload;
use serde_json::{Value, json};

use super::agents::{Gate, Log, agent, browser, calling, tool};
use super::recording_hooks::RecordingHooks;
use super::subject::session;
use super::{MockReply, RuntimeSubject};

/// Appends to a list, counts, and sets what others set, too. The one that is told to wait does so
/// before it writes the last.
fn writer(gate: &Gate) -> helix_agents_core::tool::ToolBuilder {
    let gate = gate.clone();
    tool("write", move |arguments, cx| {
        let gate = gate.clone();
        async move {
            let by = cx.call_id().as_str().to_owned();
            cx.edit_state(|draft| draft.push("/items", &by))?;
            cx.edit_state(|draft| draft.increment("/count", 1))?;
            if arguments.get("waits").is_some() {
                gate.pass_or_stop(&cx).await;
            }
            cx.edit_state(|draft| {
                draft.set("/last", &by)?;
                draft.set(format!("/of~1{by}").as_str(), json!({ "a/b": [1] }))
            })?;
            Ok(json!("written"))
        }
    })
}

/// Compares a client that applies every patch with the server's state at each commit of a step and
/// at each pause. Returns the number of comparisons.
async fn follows(on: &RuntimeSubject) -> usize {
    let store = &on.backend().store;
    let mut client = Arc::clone(&store.state_at(session().as_root(), 1).await.unwrap());
    let mut held = 0;
    for payload in on.payloads().await {
        match payload {
            ChunkPayload::StatePatch { patches } => {
                apply_patch(Arc::make_mut(&mut client), &patches).unwrap();
            }
            // It is told in the commit of a step and of a pause, behind the patches.
            ChunkPayload::CheckpointCreated { checkpoint_id } => {
                let one = Lookup::One(checkpoint_id);
                let found = store
                    .checkpoints(session().as_root(), one)
                    .await
                    .unwrap()
                    .items;
                let version = found[0].state_version;
                let server = store.state_at(session().as_root(), version).await.unwrap();
                assert_eq!(client, server, "at state version {version}");
                held += 1;
            }
            _ => {}
        }
    }
    assert_eq!(Value::clone(&client), on.state().await);
    held
}

/// A client that applies the patches as they arrive has the server's state after every step and at
/// every pause: with parallel calls that append, count and overwrite each other's values, with
/// hooks that write, and across a pause.
///
/// proves: STT-08
pub async fn a_client_that_applies_patches_has_the_servers_state(on: &RuntimeSubject) {
    let gate = Gate::default();
    let writes = RecordingHooks::doing(&Log::default(), |line, cx: &HookCx| {
        let word = line.split(' ').next().unwrap_or_default().to_owned();
        cx.edit_state(|draft| {
            draft.set("/hook", &word)?;
            draft.increment("/hooks", 1)
        })
        .unwrap();
    });
    let replies = [
        MockReply::calls([
            ("c1", "write", json!({ "waits": true })),
            ("c2", "write", json!({})),
        ]),
        calling([
            ("c3", "browser"),
            ("c4", "write"),
            ("c5", "pay"),
            ("c6", "write"),
        ]),
        MockReply::text("done"),
    ];
    let pays = tool("pay", async |_, cx: helix_agents_core::ToolCx| {
        cx.edit_state(|draft| draft.remove("/last").map(drop))?;
        cx.edit_state(|draft| draft.push("/items", "paid"))?;
        Ok(json!("paid"))
    });
    let tools = [writer(&gate), browser("browser"), pays.approval()];
    let agent = agent(replies)
        .tools(tools)
        .hooks(writes)
        .initial_state(json!({ "items": [], "count": 0, "hooks": 0 }))
        .build()
        .unwrap();
    let run = on.start(&agent, "go").await;
    // The first in the model's order writes last: readers see its write over the one that counts.
    on.until_told("tool_end c2").await;
    gate.reached(1).await;
    on.until("what the first writes while it runs", |it| {
        let ChunkPayload::StatePatch { patches } = it else {
            return false;
        };
        json!(patches).to_string().contains(r#""value":"c1""#)
    })
    .await;
    gate.open();
    let paused = on.ended(&run).await;
    assert_eq!(paused.status, RunStatus::SuspendedStepPartial);
    assert_eq!(follows(on).await, 2, "a step and a pause");
    let state = on.state().await;
    assert_eq!((&state["last"], &state["count"]), (&json!("c6"), &json!(4)));
    let conflicts = on.payloads().await.into_iter();
    let conflicts = conflicts.filter(|it| matches!(it, ChunkPayload::StateConflict { .. }));
    assert_eq!(conflicts.count(), 2, "of c1 and c2, and of c4 and c6");

    on.answered(on.waiting("c3").await.result("here")).await;
    on.answered(on.waiting("c5").await.approve()).await;
    on.restarted().await.resumed().await;
    assert_eq!(follows(on).await, 4);
    let state = on.state().await;
    assert_eq!(
        (&state["items"], &state["count"], state.get("last")),
        (&json!(["c1", "c2", "c4", "c6", "paid"]), &json!(4), None)
    );
    assert_eq!(state["of/c4"], json!({ "a/b": [1] }));
}

/// Patches reach readers while the tool runs, not only when it has ended.
pub async fn patches_are_streamed_while_the_tool_runs(on: &RuntimeSubject) {
    let gate = Gate::default();
    let replies = [
        MockReply::calls([("c1", "write", json!({ "waits": true }))]),
        MockReply::text("done"),
    ];
    let agent = agent(replies)
        .tools(writer(&gate))
        .initial_state(json!({ "items": [], "count": 0 }))
        .build()
        .unwrap();
    let run = on.start(&agent, "go").await;
    on.until_told("state_patch").await;
    gate.reached(1).await;
    let before = on.state().await;
    assert_eq!(
        before,
        json!({ "items": [], "count": 0 }),
        "it is not committed"
    );
    gate.open();
    on.ended(&run).await;
    assert_eq!(follows(on).await, 2);
}

/// State changes of a turn that fails are streamed, too.
pub async fn a_failed_turn_leaves_a_client_with_the_servers_state(on: &RuntimeSubject) {
    let gate = Gate::default();
    gate.open();
    let writes = RecordingHooks::doing(&Log::default(), |line, cx: &HookCx| {
        cx.edit_state(|draft| draft.set("/hook", line)).unwrap();
    });
    let replies = [
        calling([("c1", "write"), ("c2", "write")]),
        MockReply::error(helix_agents_core::model::ModelErrorKind::Auth),
    ];
    let agent = agent(replies)
        .tools(writer(&gate))
        .hooks(writes)
        .initial_state(json!({ "items": [], "count": 0 }))
        .build()
        .unwrap();
    let run = on.turn(&agent, "go").await;
    assert_eq!(run.status, RunStatus::Failed);
    assert_eq!(follows(on).await, 1);
    assert_eq!(on.state().await["hook"], json!("fail provider_auth"));
}

/// A run that is stopped in the middle of a step keeps the state changes of its calls, and so does
/// a client.
pub async fn a_stopped_turn_leaves_a_client_with_the_servers_state(on: &RuntimeSubject) {
    let gate = Gate::default();
    let writing = |id: &'static str| (id, "write", json!({ "waits": true }));
    let replies = [MockReply::calls([writing("c1"), writing("c2")])];
    let agent = agent(replies)
        .tools(writer(&gate))
        .initial_state(json!({ "items": [], "count": 0 }))
        .build()
        .unwrap();
    let run = on.start(&agent, "go").await;
    gate.reached(2).await;
    let sessions = Sessions::new(&*on.backend().store, &*on.clock);
    let asked = sessions.set_interrupt_flag(&session(), None).await;
    asked.unwrap();
    gate.open();
    assert_eq!(on.ended(&run).await.status, RunStatus::Interrupted);
    assert_eq!(follows(on).await, 1);
    let state = on.state().await;
    assert_eq!(
        (&state["items"], &state["count"]),
        (&json!(["c1", "c2"]), &json!(2))
    );
}

/// A tool may emit more than one chunk holds: readers receive all of it, in order.
///
/// proves: STR-01
pub async fn a_tool_may_emit_more_than_a_chunk_holds(on: &RuntimeSubject) {
    let gate = Gate::default();
    let bytes = 64 * 1024;
    let on = &on.narrowed(bytes).await;
    let waits = gate.clone();
    let large = tool("large", move |_, cx: helix_agents_core::ToolCx| {
        let gate = waits.clone();
        async move {
            cx.emit("small", json!(1))?;
            for _ in 0..3 {
                cx.emit("large", "x".repeat(bytes / 3))?;
            }
            cx.edit_state(|draft| draft.set("/text", "x".repeat(bytes / 8)))?;
            cx.edit_state(|draft| draft.set("/text", "short"))?;
            gate.pass().await;
            cx.emit("last", json!(2))?;
            Ok(json!("x".repeat(bytes / 4)))
        }
    });
    let replies = [calling([("c1", "large")]), MockReply::text("done")];
    let agent = agent(replies).tools(large).build().unwrap();
    let run = on.start(&agent, "go").await;
    on.until_told("custom").await;
    gate.reached(1).await;
    gate.open();
    assert_eq!(on.ended(&run).await.status, RunStatus::Completed);
    assert_eq!(follows(on).await, 2);
    let told = super::lines::names(&on.payloads().await);
    assert_eq!(
        told[2..10],
        [
            "custom",
            "custom",
            "custom",
            "custom",
            "state_patch",
            "state_patch",
            "custom",
            "tool_end c1"
        ]
    );
}
