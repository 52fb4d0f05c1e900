//! Calls that other agents answer.

use std::sync::Arc;
use std::time::Duration;

use helix_agents_core::agent::{Agent, AgentBuilder};
use helix_agents_core::model::{ModelErrorKind, TokenUsage};
use helix_agents_core::runtime::{RuntimeExt, Turn};
use helix_agents_core::session::{ChildStatus, RunRecord, RunStatus, SessionStatus, SubSessionRef};
use helix_agents_core::store::{Page, SessionKey, SessionQuery, Sessions, Snapshot};
use helix_agents_core::stream::{ChunkPayload, StreamStatus};
use helix_agents_core::tool::Tool;
use helix_agents_core::usage::UsageKind;
use helix_agents_core::{RunId, SessionId};
use serde_json::{Value, json};

use super::agents::{Gate, Log, agent, counting, gated, noted};
use super::lines::named;
use super::recording_hooks::RecordingHooks;
use super::subject::{calls, session};
use super::{MockReply, RuntimeSubject};
use crate::MockModel;

/// An agent that another one calls, with these replies.
pub(super) fn helper(name: &str, replies: impl IntoIterator<Item = MockReply>) -> AgentBuilder {
    Agent::builder(name)
        .model(Arc::new(MockModel::replies(replies)))
        .description("Helps.")
}

/// Calls of helpers, each with a task.
pub(super) fn tasks<const N: usize>(calls: [(&str, &str); N]) -> MockReply {
    MockReply::calls(calls.map(|(id, tool)| (id, tool, json!({ "message": "Help me." }))))
}

impl RuntimeSubject {
    /// The references to the children of a session, by their calls.
    pub(super) async fn children(&self, of: &SessionId) -> Vec<SubSessionRef> {
        let root = session();
        let key = SessionKey::new(&root, of);
        let mut found = self.backend().store.extras(key).await.unwrap().children;
        found.sort_by(|one, other| one.tool_call_id.cmp(&other.tool_call_id));
        found
    }

    /// The only child of a session.
    pub(super) async fn only_child(&self, of: &SessionId) -> Snapshot {
        let children = self.children(of).await;
        assert_eq!(children.len(), 1, "one child, never respawned");
        self.child(&children[0].session_id).await
    }

    pub(super) async fn child(&self, id: &SessionId) -> Snapshot {
        let root = session();
        let key = SessionKey::new(&root, id);
        let found = self.backend().store.load(key).await.unwrap();
        found.expect("the child is there")
    }

    /// Every chunk of the session's stream that is no piece of a text, with the agent it names.
    pub(super) async fn said(&self) -> Vec<String> {
        let chunks = self.chunks().await;
        let lines = chunks.iter().map(|stored| {
            let chunk = &stored.chunk;
            format!("{}: {}", chunk.base.agent_type, named(&chunk.payload))
        });
        lines
            .filter(|line| !line.contains("text_delta") && !line.contains("tool_arg_stream"))
            .collect()
    }

    /// Waits until the session's last run is over in the store, whoever performs it.
    pub(super) async fn comes_to(&self, of: &SessionId, status: RunStatus) -> RunRecord {
        self.comes_to_other(of, None, status).await
    }

    /// The same for a run that comes after this one.
    pub(super) async fn comes_to_another(
        &self,
        of: &SessionId,
        after: &RunId,
        status: RunStatus,
    ) -> RunRecord {
        self.comes_to_other(of, Some(after), status).await
    }

    /// Waits until the stream of the session has this status.
    pub(super) async fn stream_comes_to(&self, status: StreamStatus) {
        for _ in 0..LOOKS {
            if self.stream_status().await == Some(status) {
                return;
            }
            self.look_again().await;
        }
        panic!("the stream does not come to {status:?}")
    }

    async fn comes_to_other(
        &self,
        of: &SessionId,
        after: Option<&RunId>,
        status: RunStatus,
    ) -> RunRecord {
        let is_it = |run: &RunRecord| run.status == status && after.is_none_or(|id| run.id != *id);
        for _ in 0..LOOKS {
            let found = self.child(of).await;
            if let Some(run) = found.run.filter(is_it) {
                return run;
            }
            self.look_again().await;
        }
        panic!(
            "{of} does not come to {status:?}: {:?}",
            self.child(of).await.run
        )
    }

    /// Lets others work for a moment, also where the clock of the runtime is not the machine's.
    async fn look_again(&self) {
        std::thread::park_timeout(LOOK);
        self.wait(LOOK).await;
    }
}

/// How often, and how far apart, something is looked at that others do.
const LOOKS: usize = 10_000;
const LOOK: Duration = Duration::from_millis(1);

/// A sub-agent works in a session of its own; its output is the result of the call. Readers of the caller see it.
///
/// proves: SUB-01, SES-12, STT-09, USG-01
pub async fn a_sub_agents_output_is_the_result(on: &RuntimeSubject) {
    let used = TokenUsage::new(7, 5);
    let child = helper(
        "helper",
        [
            MockReply::calls([("h1", "count", json!({}))]).with_usage(used),
            MockReply::text("Helped."),
        ],
    )
    .tools(counting("count"))
    .initial_state(json!({ "count": 10 }));
    let replies = [tasks([("c1", "subagent__helper")]), MockReply::text("done")];
    let agent = agent(replies)
        .tools(Tool::sub_agent(&child.build().unwrap()))
        .initial_state(json!({ "count": 1 }))
        .build()
        .unwrap();
    let run = on.turn(&agent, "go").await;
    assert_eq!(run.status, RunStatus::Completed);
    assert_eq!(
        on.transcript_lines().await,
        [
            "user: go",
            r#"assistant: c1=subagent__helper{"message":"Help me."}"#,
            "c1=success: Helped.",
            "assistant: done",
        ]
    );
    let child = on.only_child(&session()).await;
    assert_eq!(child.state.agent_type, "helper");
    assert_eq!(child.state.parent_session_id, Some(session()));
    assert_eq!(child.state.root(), &session());
    assert_eq!(child.state.status, SessionStatus::Completed);
    assert_eq!(on.state().await, json!({ "count": 1 }));
    assert_eq!(*child.state.custom_state, json!({ "count": 11 }));
    let link = &on.children(&session()).await[0];
    assert_eq!(link.status, ChildStatus::Completed);
    assert_eq!(link.tool_call_id, calls(&["c1"])[0]);
    let entries = on.usage().await;
    let sub = entries.iter().find_map(|entry| match &entry.kind {
        UsageKind::Subagent { name, tokens, .. } => Some((name.clone(), *tokens)),
        _ => None,
    });
    let (name, tokens) = sub.expect("the usage of the child is recorded");
    assert_eq!(name, "helper");
    assert!(tokens.input >= used.input, "{tokens:?}");
    let said = on.said().await;
    let place = |line: &str| {
        let place = said.iter().position(|one| one == line);
        place.unwrap_or_else(|| panic!("{line} is missing in {said:#?}"))
    };
    let order = [
        "agent: tool_start c1",
        "agent: subagent_start c1",
        "helper: run_started",
        "helper: tool_start h1",
        "helper: tool_end h1",
        "agent: subagent_end c1",
        "agent: tool_end c1",
    ];
    let places = order.map(place);
    assert!(places.is_sorted(), "{said:#?}");
}

/// A sub-agent with an output of a type gives that as the result.
///
/// proves: SUB-01
pub async fn a_typed_output_of_a_sub_agent_is_the_result(on: &RuntimeSubject) {
    let schema = super::agents::answer_schema();
    let child = helper("helper", [MockReply::finish(json!({ "answer": 42 }))]);
    let child = child.output_schema(schema).build().unwrap();
    let replies = [tasks([("c1", "subagent__helper")]), MockReply::text("done")];
    let agent = agent(replies).tools(Tool::sub_agent(&child)).build();
    on.turn(&agent.unwrap(), "go").await;
    let lines = on.transcript_lines().await;
    assert_eq!(lines[2], r#"c1=success: {"answer":42}"#);
}

/// Sub-agents of one reply run side by side, beside tools. One that fails is an error of its own call.
///
/// proves: SUB-01, SUB-02
pub async fn a_sub_agent_that_fails_leaves_its_siblings_alone(on: &RuntimeSubject) {
    let log = Log::default();
    let good = helper("good", [MockReply::text("Fine.")]).build().unwrap();
    let bad = helper("bad", [MockReply::error(ModelErrorKind::Auth)]);
    let replies = [
        MockReply::calls([
            ("c1", "subagent__good", json!({ "message": "Help." })),
            ("c2", "subagent__bad", json!({ "message": "Help." })),
            ("c3", "note", json!({})),
        ]),
        MockReply::text("done"),
    ];
    let tools = [
        Tool::sub_agent(&good),
        Tool::sub_agent(&bad.build().unwrap()),
        noted("note", &log),
    ];
    let agent = agent(replies).tools(tools).build().unwrap();
    let run = on.turn(&agent, "go").await;
    assert_eq!(run.status, RunStatus::Completed);
    let lines = on.transcript_lines().await;
    assert_eq!(lines[2], "c1=success: Fine.");
    assert!(
        lines[3].starts_with(r#"c2=error: {"error":"The sub-agent failed: "#),
        "{lines:#?}"
    );
    assert_eq!(lines[4], "c3=success: done");
    let statuses = on.children(&session()).await;
    let statuses: Vec<_> = statuses.iter().map(|child| child.status).collect();
    assert_eq!(statuses, [ChildStatus::Completed, ChildStatus::Failed]);
}

/// A sub-agent that cannot be started is an error that the model reads, and no session is left behind.
///
/// proves: SUB-02
pub async fn a_sub_agent_that_cannot_be_started_is_an_error(on: &RuntimeSubject) {
    let gate = Gate::default();
    let missing = helper("missing", [MockReply::text("Never.")]);
    let replies = [
        MockReply::calls([("c0", "gate", json!({}))]),
        tasks([("c1", "subagent__missing")]),
        MockReply::text("done"),
    ];
    let agent = agent(replies)
        .tools(gated("gate", &gate))
        .tools(Tool::sub_agent(&missing.build().unwrap()))
        .build()
        .unwrap();
    let run = on.start(&agent, "go").await;
    gate.reached(1).await;
    assert!(on.runtime.agents().unregister("missing"));
    gate.open();
    let run = on.ended(&run).await;
    assert_eq!(run.status, RunStatus::Completed);
    let lines = on.transcript_lines().await;
    let text = r#"c1=error: {"error":"The sub-agent could not be started."}"#;
    assert_eq!(lines[4], text);
    assert!(on.children(&session()).await.is_empty());
    let said = on.said().await;
    assert!(
        said.contains(&"agent: tool_error c1".to_owned()),
        "{said:#?}"
    );
}

/// The hooks of the caller run around a sub-agent, and before its own.
///
/// proves: HKS-03, HKS-04
pub async fn hooks_of_the_caller_run_around_a_sub_agent(on: &RuntimeSubject) {
    let log = Log::default();
    let (of_caller, of_child) = (log.clone(), log.clone());
    let child = helper("helper", [MockReply::text("Helped.")]).hooks(RecordingHooks::doing(
        &Log::default(),
        move |line, _| {
            of_child.note(format!("child: {line}"));
        },
    ));
    let replies = [tasks([("c1", "subagent__helper")]), MockReply::text("done")];
    let agent = agent(replies)
        .tools(Tool::sub_agent(&child.build().unwrap()))
        .hooks(RecordingHooks::doing(&Log::default(), move |line, cx| {
            of_caller.note(format!("caller, of {}: {line}", cx.agent_type));
        }))
        .build();
    on.turn(&agent.unwrap(), "go").await;
    let lines = log.take();
    let of = |line: &str| {
        let place = lines.iter().position(|one| one.starts_with(line));
        place.unwrap_or_else(|| panic!("{line} is missing in {lines:#?}"))
    };
    let order = [
        "caller, of agent: before_sub_agent c1 helper",
        "caller, of helper: start",
        "child: start",
        "caller, of helper: complete",
        "child: complete",
        "caller, of agent: after_sub_agent c1 Success",
    ];
    assert!(order.map(of).is_sorted(), "{lines:#?}");
}

/// The hooks of an execution run for its sub-agents, too, after those of the agents.
///
/// proves: HKS-04
pub async fn hooks_of_an_execution_run_for_sub_agents(on: &RuntimeSubject) {
    let log = Log::default();
    let (of_execution, of_child) = (log.clone(), log.clone());
    let child = helper("helper", [MockReply::text("Helped.")]).hooks(RecordingHooks::doing(
        &Log::default(),
        move |line, _| {
            of_child.note(format!("child: {line}"));
        },
    ));
    let replies = [tasks([("c1", "subagent__helper")]), MockReply::text("done")];
    let agent = agent(replies)
        .tools(Tool::sub_agent(&child.build().unwrap()))
        .build()
        .unwrap();
    let hooks = RecordingHooks::doing(&Log::default(), move |line, cx| {
        of_execution.note(format!("execution, of {}: {line}", cx.agent_type));
    });
    let turn = Turn::new("go").session(session()).hooks(hooks);
    let run = on.runtime.execute(&agent, turn).await.unwrap();
    run.outcome().await.unwrap();
    let lines = log.take();
    let of = |line: &str| {
        let place = lines.iter().position(|one| one.starts_with(line));
        place.unwrap_or_else(|| panic!("{line} is missing in {lines:#?}"))
    };
    let order = [
        "execution, of agent: before_sub_agent c1 helper",
        "child: start",
        "execution, of helper: start",
        "child: complete",
        "execution, of helper: complete",
        "execution, of agent: after_sub_agent c1 Success",
    ];
    assert!(order.map(of).is_sorted(), "{lines:#?}");
}

/// A turn that a tool ends waits for the sub-agents of the same reply.
///
/// proves: ORD-02
pub async fn a_finishing_tool_waits_for_sub_agents(on: &RuntimeSubject) {
    let child = helper("helper", [MockReply::text("Helped.")])
        .build()
        .unwrap();
    let log = Log::default();
    let replies = [MockReply::calls([
        ("c1", "submit", json!({})),
        ("c2", "subagent__helper", json!({ "message": "Help." })),
    ])];
    let agent = agent(replies)
        .tools(noted("submit", &log).finish_with())
        .tools(Tool::sub_agent(&child))
        .build();
    let run = on.turn(&agent.unwrap(), "go").await;
    assert_eq!(run.status, RunStatus::Completed);
    assert_eq!(run.output, Some(Value::from("done")));
    let lines = on.transcript_lines().await;
    assert_eq!(lines[2..], ["c1=success: done", "c2=success: Helped."]);
    let child = on.only_child(&session()).await;
    let ended = child.run.and_then(|run| run.ended_at);
    assert!(ended <= run.ended_at, "{ended:?} {:?}", run.ended_at);
}

/// A session that is deleted takes the sessions of its sub-agents with it.
///
/// proves: SES-13
pub async fn sub_agents_are_deleted_with_their_caller(on: &RuntimeSubject) {
    let child = helper("helper", [MockReply::text("Helped.")])
        .build()
        .unwrap();
    let replies = [tasks([("c1", "subagent__helper")]), MockReply::text("done")];
    let agent = agent(replies).tools(Tool::sub_agent(&child)).build();
    on.turn(&agent.unwrap(), "go").await;
    let child = on.only_child(&session()).await.state.session_id;
    let (store, clock) = (on.backend().store.as_ref(), on.clock.as_ref());
    let query = SessionQuery {
        page: Page::first(10),
        ..SessionQuery::default()
    };
    assert_eq!(store.list(&query).await.unwrap().total, 2);
    Sessions::new(store, clock)
        .delete_session(&session())
        .await
        .unwrap();
    assert!(store.find(&child).await.unwrap().is_none());
}

/// Chunks of a sub-agent that ended carry its outcome.
///
/// proves: SUB-01
pub async fn readers_learn_how_a_sub_agent_ended(on: &RuntimeSubject) {
    let good = helper("good", [MockReply::text("Fine.")]).build().unwrap();
    let bad = helper("bad", [MockReply::error(ModelErrorKind::Auth)]);
    let calls = [("c1", "subagent__good"), ("c2", "subagent__bad")];
    let agent = agent([tasks(calls), MockReply::text("done")])
        .tools(Tool::sub_agent(&good))
        .tools(Tool::sub_agent(&bad.build().unwrap()))
        .build();
    on.turn(&agent.unwrap(), "go").await;
    let mut ends: Vec<_> = on
        .chunks()
        .await
        .into_iter()
        .filter_map(|stored| match stored.chunk.payload {
            ChunkPayload::SubagentEnd {
                sub_agent_type,
                success,
                result,
                ..
            } => Some((sub_agent_type, success, result)),
            _ => None,
        })
        .collect();
    ends.sort_by(|one, other| one.0.cmp(&other.0));
    let fine = ("good".to_owned(), true, Some(json!("Fine.")));
    assert_eq!(ends, [("bad".to_owned(), false, None), fine]);
}
