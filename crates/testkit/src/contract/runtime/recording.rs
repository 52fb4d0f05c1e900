//! Checkpoints, usage, and chunks of tools.

use std::sync::Arc;

use helix_agents_core::agent::Agent;
use helix_agents_core::entries::{Entries, Performer};
use helix_agents_core::id::IdSource;
use helix_agents_core::machine::{AgentLimits, RunState};
use helix_agents_core::message::ResultStatus;
use helix_agents_core::model::TokenUsage;
use helix_agents_core::perform::Ports;
use helix_agents_core::session::{RunStatus, SessionStatus};
use helix_agents_core::store::{Change, Commit};
use helix_agents_core::stream::ChunkPayload;
use helix_agents_core::time::Timestamp;
use helix_agents_core::tool::{ToolCx, ToolError};
use helix_agents_core::usage::{CustomUsage, UsageKind, UsageRollup};
use serde_json::json;

use super::super::runner::in_time;
use super::agents::{Gate, Log, agent, browser, calling, echo, gated, noted, tool};
use super::subject::session;
use super::{MockReply, RuntimeSubject};
use crate::{SequentialIds, drive};

/// Every step leaves one checkpoint, which names messages and state by numbers; so does a pause.
pub async fn every_step_leaves_one_checkpoint(on: &RuntimeSubject) {
    let counts = tool("count", async |_, cx: ToolCx| {
        cx.edit_state(|draft| draft.increment("/count", 1))?;
        Ok(json!("done"))
    });
    let replies = [
        calling([("c1", "count")]),
        calling([("c2", "browser")]),
        MockReply::text("done"),
    ];
    let agent = agent(replies)
        .tools([counts, browser("browser")])
        .initial_state(json!({ "count": 0 }))
        .build()
        .unwrap();
    on.turn(&agent, "go").await;
    on.answered(on.waiting("c2").await.result(1)).await;
    on.resumed().await;
    let found = on.checkpoints().await;
    let of = |it: &helix_agents_core::session::Checkpoint| {
        (
            it.step_count,
            it.message_count,
            it.open_step.is_some(),
            it.status,
        )
    };
    assert_eq!(
        found.iter().map(of).collect::<Vec<_>>(),
        [
            (1, 3, false, SessionStatus::Active),
            (1, 3, true, SessionStatus::Active),
            (2, 5, false, SessionStatus::Active),
            (3, 6, false, SessionStatus::Completed),
        ]
    );
    let store = &on.backend().store;
    for checkpoint in &found {
        let at = store
            .state_at(session().as_root(), checkpoint.state_version)
            .await;
        assert_eq!(*at.unwrap(), json!({ "count": 1 }));
    }
    let told = on.payloads().await.into_iter().filter_map(|it| match it {
        ChunkPayload::CheckpointCreated { checkpoint_id } => Some(checkpoint_id),
        _ => None,
    });
    let ids = found.iter().map(|it| it.id.clone());
    assert_eq!(told.collect::<Vec<_>>(), ids.collect::<Vec<_>>());
}

/// A run whose process is gone is taken over from its last checkpoint: committed work is not
/// repeated, a call that may have taken effect is not repeated, and the first process cannot write.
///
/// proves: CKP-01
pub async fn a_lost_run_continues_from_its_last_checkpoint(on: &RuntimeSubject) {
    let (gate, log) = (Gate::default(), Log::default());
    let replies = [
        calling([("c1", "noted")]),
        calling([("c2", "gated"), ("c3", "noted")]),
        MockReply::text("done"),
    ];
    let tools = [noted("noted", &log), gated("gated", &gate)];
    let agent = agent(replies).tools(tools).build().unwrap();
    let lost = on.start(&agent, "go").await;
    gate.reached(1).await;
    on.until_told("tool_end c3").await;
    assert_eq!(on.checkpoints().await.len(), 1);

    let ended = taken_over(on, &agent).await;
    assert_eq!(ended.run_id, lost.run_id, "it is the same run");
    assert_eq!(ended.ended, Some(RunStatus::Completed));
    assert_eq!(on.runs().await.len(), 1);
    let of = |it: helix_agents_core::session::Checkpoint| (it.step_count, it.message_count);
    let checkpoints: Vec<_> = on.checkpoints().await.into_iter().map(of).collect();
    assert_eq!(checkpoints, [(1, 3), (2, 6), (3, 7)], "one for each step");
    let mut ran = log.take();
    ran.sort();
    assert_eq!(ran, ["noted c1 {}", "noted c3 {}"]);
    assert_eq!(
        on.transcript_lines().await,
        [
            "user: go",
            "assistant: c1=noted{}",
            "c1=success: done",
            "assistant: c2=gated{} c3=noted{}",
            r#"c2=unknown: {"error":"The outcome is unknown. The call may or may not have taken effect. Do not repeat it before checking."}"#,
            "c3=success: done",
            "assistant: done",
        ]
    );
    let before = on.everything().await;
    gate.open();
    let _ = in_time("the first process is told", on.runtime.ended(&lost)).await;
    assert_eq!(
        on.everything().await,
        before,
        "the superseded process cannot write"
    );
}

/// Takes over the run of a process that is gone, and drives it to its end.
pub(super) async fn taken_over(on: &RuntimeSubject, agent: &Agent) -> RunState {
    let elsewhere = on.restarted().await;
    let backend = elsewhere.backend();
    let ids = Arc::new(IdsOfAnotherProcess(SequentialIds::new()));
    let entries = Entries::new(
        Arc::clone(&backend.store),
        Arc::clone(&backend.streams),
        Arc::clone(&on.clock),
        Arc::clone(&ids) as Arc<dyn IdSource>,
    );
    let ports = Ports::new(
        Arc::clone(&backend.store),
        Arc::clone(&backend.streams),
        Arc::clone(&on.clock),
        ids,
        Arc::clone(elsewhere.runtime.agents()),
    );
    // Another process of the same kind.
    let host = on.runs().await.remove(0).host;
    let performer = Performer::new(host);
    let state = entries.recover(&session(), &performer).await.unwrap();
    let facts = AgentLimits::of(agent);
    let ended = in_time("the run ends", drive(&facts, state, &ports)).await;
    ended.unwrap()
}

/// Ids of another process.
#[derive(Debug)]
struct IdsOfAnotherProcess(SequentialIds);

impl IdSource for IdsOfAnotherProcess {
    fn next(&self, prefix: &str) -> String {
        self.0.next(&format!("{prefix}-elsewhere"))
    }
}

/// Tokens, tool calls and usage recorded by tools are stored with the session, for each run and
/// step, and can be summed.
///
/// proves in part: USG-01
pub async fn usage_is_stored_with_the_session(on: &RuntimeSubject) {
    let searches = tool("search", async |_, cx: ToolCx| {
        cx.record_usage(CustomUsage::new("search_requests", 2.0))?;
        Ok(json!("found"))
    });
    let fails = tool("fails", async |_, _| Err(ToolError::tell_model("no")));
    let replies = [
        calling([("c1", "search"), ("c2", "fails")]).with_usage(TokenUsage::new(100, 10)),
        MockReply::text("done").with_usage(TokenUsage::new(120, 5)),
    ];
    let agent = agent(replies).tools([searches, fails]).build().unwrap();
    let run = on.turn(&agent, "go").await;
    let entries = on.usage().await;
    assert!(entries.iter().all(|entry| entry.run_id == run.id));
    let tokens = |tokens| UsageKind::Tokens {
        model: "test/mock".into(),
        tokens,
        micro_dollars: None,
    };
    let tool = |name: &str, success| UsageKind::Tool {
        name: name.into(),
        success,
        duration_ms: 0,
    };
    let expected = [
        (1, tokens(TokenUsage::new(100, 10))),
        (1, tool("fails", false)),
        (1, tool("search", true)),
        (
            1,
            UsageKind::Custom(CustomUsage::new("search_requests", 2.0)),
        ),
        (2, tokens(TokenUsage::new(120, 5))),
    ];
    let mut found: Vec<_> = entries
        .iter()
        .map(|entry| {
            let mut kind = entry.kind.clone();
            if let UsageKind::Tool { duration_ms, .. } = &mut kind {
                *duration_ms = 0;
            }
            (entry.step, kind)
        })
        .collect();
    // Calls of a step end in any order.
    let mut expected = Vec::from(expected);
    let key = |it: &(u32, UsageKind)| format!("{it:?}");
    found.sort_by_key(key);
    expected.sort_by_key(key);
    assert_eq!(found, expected);
    let rollup: UsageRollup = entries.iter().collect();
    assert_eq!(rollup.tokens, TokenUsage::new(220, 15));
    assert_eq!((rollup.tools.calls, rollup.tools.failures), (2, 1));
}

/// A tool reads and writes the state, emits chunks, records usage, knows its caller, and receives
/// the signal to stop.
///
/// proves in part: AGT-03
pub async fn a_tool_can_use_everything_in_its_context(on: &RuntimeSubject) {
    let log = Log::default();
    let noting = log.clone();
    let looks = tool("looks", move |_, cx: ToolCx| {
        let log = noting.clone();
        async move {
            let before: serde_json::Value = cx.get_state()?;
            cx.update_state(|state: &mut serde_json::Value| state["n"] = json!(2))?;
            let after: serde_json::Value = cx.get_state()?;
            log.note(format!("{before} {after}"));
            log.note(format!(
                "{} {} {} {} {}",
                cx.agent_type(),
                cx.session_id(),
                cx.call_id(),
                cx.step(),
                cx.abort_signal().is_aborted()
            ));
            log.note(cx.idempotency_key());
            cx.emit("progress", json!({ "percent": 50 }))?;
            cx.record_usage(CustomUsage::new("pages", 1.0))?;
            Ok(json!("seen"))
        }
    });
    let replies = [calling([("c1", "looks")]), MockReply::text("done")];
    let agent = agent(replies)
        .tools(looks)
        .initial_state(json!({ "n": 1 }))
        .build()
        .unwrap();
    let run = on.turn(&agent, "go").await;
    let call = super::super::builders::call("c1");
    let key = helix_agents_core::canonical::idempotency_key(&session(), &run.id, &call);
    assert_eq!(
        log.take(),
        [
            r#"{"n":1} {"n":2}"#.to_owned(),
            "agent session c1 1 false".to_owned(),
            key,
        ]
    );
    assert_eq!(on.state().await, json!({ "n": 2 }));
    let event = ChunkPayload::Custom {
        event_name: "progress".to_owned(),
        data: json!({ "percent": 50 }),
    };
    assert!(on.payloads().await.contains(&event));
    let pages = UsageKind::Custom(CustomUsage::new("pages", 1.0));
    assert!(on.usage().await.iter().any(|entry| entry.kind == pages));
}

/// A call keeps its idempotency key when a later run performs it. A session that is created after a
/// session with the same id was deleted has other keys for the same calls.
pub async fn every_call_has_a_unique_idempotency_key(on: &RuntimeSubject) {
    let log = Log::default();
    let pay = || {
        let log = log.clone();
        tool("pay", move |_, cx: ToolCx| {
            log.note(cx.idempotency_key());
            async { Ok(json!("paid")) }
        })
    };
    let call = super::super::builders::call("c1");
    let mut keys = Vec::new();
    for _ in 0..2 {
        let replies = [calling([("c1", "pay")]), MockReply::text("done")];
        let agent = agent(replies).tools(pay().approval()).build().unwrap();
        let paused = on.turn(&agent, "go").await;
        on.answered(on.waiting("c1").await.approve()).await;
        on.resumed().await;
        let key = helix_agents_core::canonical::idempotency_key(&session(), &paused.id, &call);
        assert_eq!(log.take(), [key.as_str()]);
        keys.push(key);
        let gone = Commit::new(session(), Timestamp::default()).then(Change::Delete);
        on.backend().store.commit(gone).await.unwrap();
    }
    assert_ne!(keys[0], keys[1]);
}

/// A long history reaches the model whole, in any process.
pub async fn a_long_history_is_kept_and_shown_whole(on: &RuntimeSubject) {
    let model =
        Arc::new(crate::MockModel::replies((0..60).flat_map(|_| {
            [calling([("call", "echo")]), MockReply::text("done")]
        })));
    let agent = super::agents::of_model(&model);
    let agent = agent.tools(echo("echo")).build().unwrap();
    for turn in 0..60 {
        let run = on.turn(&agent, &format!("{turn}")).await;
        assert_eq!(run.status, RunStatus::Completed);
    }
    let messages = on.messages().await;
    assert_eq!(messages.len(), 240);
    let seen = model.seen();
    let last = seen.last().expect("it was asked");
    assert_eq!(last.messages, messages[..239]);
    let results = messages.iter().filter_map(|message| match message {
        helix_agents_core::Message::Tool(result) => Some(result.status),
        _ => None,
    });
    assert_eq!(
        results.filter(|it| *it == ResultStatus::Success).count(),
        60
    );
}
