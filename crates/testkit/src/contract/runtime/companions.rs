//! Persistent sub-agents, and the tools with which an agent works with them.

use std::sync::Arc;

use helix_agents_core::agent::Agent;
use helix_agents_core::model::TokenUsage;
use helix_agents_core::session::{
    ChildMode, ChildStatus, RunStatus, SubSessionRef, companion_address,
};
use helix_agents_core::store::{Page, SessionKey, Sessions};
use helix_agents_core::tool::{PersistentAgent, Tool};
use helix_agents_core::usage::{UsageKind, UsageRollup};
use serde_json::{Value, json};

use super::agents::{Gate, agent, gated};
use super::delegating::{helper, tasks};
use super::subject::session;
use super::{MockReply, RuntimeSubject};
use crate::MockModel;

/// A call of a companion tool.
pub(super) fn companion(id: &str, tool: &str, arguments: Value) -> MockReply {
    MockReply::calls([(id, format!("companion__{tool}").as_str(), arguments)])
}

/// A call that starts an agent under a name.
pub(super) fn spawn(id: &str, agent: &str, name: &str) -> MockReply {
    let arguments = json!({ "agent": agent, "name": name, "initialMessage": "Begin." });
    companion(id, "spawnAgent", arguments)
}

/// A call that addresses an agent.
pub(super) fn ask(id: &str, tool: &str, name: &str) -> MockReply {
    companion(id, tool, json!({ "name": name }))
}

/// A call that sends a message.
pub(super) fn message(id: &str, name: &str, text: &str) -> MockReply {
    companion(id, "sendMessage", json!({ "name": name, "message": text }))
}

/// An agent that works at a gate, and says what it was told last.
pub(super) fn worker(name: &str, gate: &Gate, replies: &[&str]) -> Agent {
    let work = MockReply::calls([("w1", "work", json!({}))]);
    let said = replies.iter().map(|text| MockReply::text(*text));
    let replies = std::iter::once(work).chain(said);
    helper(name, replies)
        .tools(gated("work", gate))
        .build()
        .unwrap()
}

impl RuntimeSubject {
    /// The result of a call, as JSON.
    pub(super) async fn result_of(&self, call: &str) -> Value {
        let lines = self.transcript_lines().await;
        let begin = format!("{call}=success: ");
        let line = lines.iter().find_map(|line| line.strip_prefix(&begin));
        let line = line.unwrap_or_else(|| panic!("{call} has no result in {lines:#?}"));
        serde_json::from_str(line).unwrap_or_else(|_| json!(line))
    }

    /// The error of a call.
    pub(super) async fn error_of(&self, call: &str) -> String {
        let lines = self.transcript_lines().await;
        let begin = format!("{call}=error: ");
        let line = lines.iter().find_map(|line| line.strip_prefix(&begin));
        line.unwrap_or_else(|| panic!("{call} has no error in {lines:#?}"))
            .to_owned()
    }

    /// The reference to a persistent child.
    pub(super) async fn companion(&self, name: &str) -> SubSessionRef {
        let all = self.children(&session()).await;
        let found = all.iter().find(|child| child.name.as_deref() == Some(name));
        found
            .unwrap_or_else(|| panic!("{name} is missing in {all:#?}"))
            .clone()
    }
}

/// A blocking companion gives its output where it was started. It keeps its session, and with it its memory, for the
/// messages that follow.
///
/// proves: PER-01, PER-03, PER-04, USG-01
pub async fn a_blocking_companion_answers_where_it_is_asked(on: &RuntimeSubject) {
    let model = Arc::new(MockModel::replies([
        MockReply::text("A poem.").with_usage(TokenUsage::new(7, 5)),
        MockReply::text("A better poem.").with_usage(TokenUsage::new(11, 2)),
    ]));
    let writer = Agent::builder("writer")
        .model(Arc::clone(&model))
        .build()
        .unwrap();
    let replies = [
        companion(
            "c1",
            "spawnAgent",
            json!({ "agent": "writer", "initialMessage": "Write a poem." }),
        ),
        message("c2", "writer-1", "Better!"),
        ask("c3", "getChildStatus", "writer-1"),
        MockReply::text("done"),
    ];
    let agent = agent(replies)
        .persistent_agents([PersistentAgent::blocking(&writer)])
        .build()
        .unwrap();
    let run = on.turn(&agent, "go").await;
    assert_eq!(run.status, RunStatus::Completed);
    let address = companion_address(&session(), "writer-1");
    let report = |output: &str| {
        json!({
            "name": "writer-1",
            "address": address,
            "agent": "writer",
            "mode": "blocking",
            "status": "completed",
            "output": output,
        })
    };
    assert_eq!(on.result_of("c1").await, report("A poem."));
    assert_eq!(on.result_of("c2").await, report("A better poem."));
    assert_eq!(on.result_of("c3").await, report("A better poem."));

    let link = on.companion("writer-1").await;
    assert_eq!((link.mode, link.blocking), (ChildMode::Persistent, true));
    assert_eq!(link.status, ChildStatus::Completed);
    assert_ne!(link.session_id.as_str(), address, "its id is minted");
    let child = on.child(&link.session_id).await;
    assert_eq!(child.state.parent_session_id, Some(session()));
    assert_eq!(child.state.root(), &session());
    assert_eq!(
        child.run.as_ref().map(|run| (run.turn, run.step_count)),
        Some((2, 1))
    );
    assert_eq!(child.message_count, 4);
    // The second time, the model saw what came before.
    let seen = model.seen();
    let said: Vec<_> = seen[1]
        .messages
        .iter()
        .map(|one| format!("{one:?}"))
        .collect();
    assert_eq!(said.len(), 3, "{said:#?}");

    let usage = on.usage().await;
    let parts = usage
        .iter()
        .filter(|entry| matches!(entry.kind, UsageKind::Subagent { .. }));
    assert_eq!(parts.count(), 2);
    let used: UsageRollup = usage.iter().collect();
    assert_eq!((used.tokens.input, used.tokens.output), (18, 7));
}

/// What the companion of a companion uses counts for all above it, for each once, under the name of its own child.
///
/// proves: USG-01
pub async fn the_usage_of_a_companion_counts_for_all_above(on: &RuntimeSubject) {
    let deep = [MockReply::text("Deep.").with_usage(TokenUsage::new(100, 10))];
    let deep = helper("deep", deep).build().unwrap();
    let sub = [MockReply::text("Helped.").with_usage(TokenUsage::new(1000, 20))];
    let sub = helper("sub", sub).build().unwrap();
    let replies = [
        spawn("a1", "deep", "carl").with_usage(TokenUsage::new(7, 5)),
        tasks([("a2", "subagent__sub")]).with_usage(TokenUsage::new(0, 0)),
        MockReply::text("Found.").with_usage(TokenUsage::new(11, 2)),
    ];
    let scout = helper("scout", replies)
        .tools(Tool::sub_agent(&sub))
        .persistent_agents([PersistentAgent::blocking(&deep)])
        .build()
        .unwrap();
    let replies = [
        spawn("c1", "scout", "anna").with_usage(TokenUsage::new(1, 1)),
        MockReply::text("done").with_usage(TokenUsage::new(2, 2)),
    ];
    let agent = agent(replies)
        .persistent_agents([PersistentAgent::blocking(&scout)])
        .build()
        .unwrap();
    let run = on.turn(&agent, "go").await;
    assert_eq!(run.status, RunStatus::Completed);
    let entries = on.usage().await;
    let used: UsageRollup = entries.iter().collect();
    assert_eq!((used.tokens.input, used.tokens.output), (1121, 40));
    let names = entries.iter().filter_map(|entry| match &entry.kind {
        UsageKind::Subagent { name, .. } => Some(name.as_str()),
        _ => None,
    });
    assert!(names.clone().all(|name| name == "scout"), "{entries:#?}");
    assert_eq!(
        names.count(),
        5,
        "two of its own calls, one each below, and an empty one"
    );
    let scout = on.companion("anna").await.session_id;
    let root = session();
    let key = SessionKey::new(&root, &scout);
    let entries = on
        .backend()
        .store
        .usage(key, Page::ALL)
        .await
        .unwrap()
        .items;
    let used: UsageRollup = entries.iter().collect();
    assert_eq!((used.tokens.input, used.tokens.output), (1118, 37));
}

/// A non-blocking companion works beside its caller, and a hidden message tells that it is done, at the next step.
///
/// proves: PER-03, ORD-03
pub async fn a_non_blocking_companion_tells_when_it_is_done(on: &RuntimeSubject) {
    let (work, rest) = (Gate::default(), Gate::default());
    let scout = worker("scout", &work, &["It is there."]);
    let replies = [
        spawn("c1", "scout", "anna"),
        MockReply::calls([("c2", "rest", json!({}))]),
        MockReply::text("done"),
    ];
    let agent = agent(replies)
        .tools(gated("rest", &rest))
        .persistent_agents([PersistentAgent::non_blocking(&scout)])
        .build()
        .unwrap();
    let run = on.start(&agent, "go").await;
    // Both work at the same time.
    rest.reached(1).await;
    work.reached(1).await;
    let link = on.companion("anna").await;
    assert_eq!((link.mode, link.blocking), (ChildMode::Persistent, false));
    assert_eq!(link.status, ChildStatus::Running);
    work.open();
    on.comes_to(&link.session_id, RunStatus::Completed).await;
    rest.open();
    assert_eq!(on.ended(&run).await.status, RunStatus::Completed);
    let address = companion_address(&session(), "anna");
    let begun = json!({ "name": "anna", "address": address, "status": "running" });
    assert_eq!(on.result_of("c1").await, begun);
    let lines = on.transcript_lines().await;
    let notice = "hidden: The agent named anna has completed. Its output: It is there.";
    assert_eq!(lines[4..], ["c2=success: done", notice, "assistant: done"]);
    assert_eq!(on.companion("anna").await.status, ChildStatus::Completed);
    let said = on.said().await;
    for line in ["agent: subagent_start c1", "scout: subagent_end c1"] {
        assert!(
            said.contains(&line.to_owned()),
            "{line} is missing in {said:#?}"
        );
    }
}

/// A companion that is done when its caller rests leaves a message for the next turn, and starts no run.
///
/// proves: PER-03
pub async fn a_companion_that_is_done_later_starts_no_run(on: &RuntimeSubject) {
    let gate = Gate::default();
    let scout = worker("scout", &gate, &["It is there."]);
    let model = Arc::new(MockModel::replies([
        spawn("c1", "scout", "anna"),
        MockReply::text("one"),
        MockReply::text("two"),
    ]));
    let agent = super::agents::of_model(&model)
        .persistent_agents([PersistentAgent::non_blocking(&scout)])
        .build()
        .unwrap();
    on.turn(&agent, "go").await;
    gate.open();
    let link = on.companion("anna").await;
    on.comes_to(&link.session_id, RunStatus::Completed).await;
    let notice = "hidden: The agent named anna has completed. Its output: It is there.";
    assert_eq!(on.transcript_lines().await[3..], ["assistant: one", notice]);
    assert_eq!(on.runs().await.len(), 1);
    on.turn(&agent, "And?").await;
    let lines = on.transcript_lines().await;
    assert_eq!(lines[4..], [notice, "user: And?", "assistant: two"]);
}

/// Calls of companion tools in one reply are made in its order, beside the other calls.
///
/// proves: ORD-03, PER-02
pub async fn companion_calls_of_one_reply_are_made_in_its_order(on: &RuntimeSubject) {
    let (work, rest) = (Gate::default(), Gate::default());
    let scout = worker("scout", &work, &["Found."]);
    let begin = json!({ "agent": "scout", "name": "anna", "initialMessage": "Begin." });
    let replies = [
        MockReply::calls([
            ("c1", "rest", json!({})),
            ("c2", "companion__spawnAgent", begin.clone()),
            ("c3", "companion__getChildStatus", json!({ "name": "anna" })),
            ("c4", "companion__spawnAgent", begin),
        ]),
        MockReply::text("done"),
    ];
    let agent = agent(replies)
        .tools(gated("rest", &rest))
        .persistent_agents([PersistentAgent::non_blocking(&scout)])
        .build()
        .unwrap();
    let run = on.start(&agent, "go").await;
    rest.reached(1).await;
    // It works while the other call of the same reply is not over.
    work.reached(1).await;
    rest.open();
    on.ended(&run).await;
    assert_eq!(on.result_of("c3").await["status"], "running");
    let refused = on.error_of("c4").await;
    assert!(refused.contains("an agent named anna already"), "{refused}");
    work.open();
    let link = on.companion("anna").await;
    on.comes_to(&link.session_id, RunStatus::Completed).await;
}

/// A message to a companion at work interrupts it, and it goes on with the message.
///
/// proves: PER-02, PER-04
pub async fn a_message_interrupts_a_companion_at_work(on: &RuntimeSubject) {
    let (work, rest) = (Gate::default(), Gate::default());
    let scout = worker("scout", &work, &["Found the other."]);
    let replies = [
        spawn("c1", "scout", "anna"),
        MockReply::calls([("c2", "rest", json!({}))]),
        message("c3", "anna", "Look for the other."),
        ask("c4", "waitForResult", "anna"),
        MockReply::text("done"),
    ];
    let other = helper("other", [MockReply::text("Unused.")])
        .build()
        .unwrap();
    let agent = agent(replies)
        .tools(gated("rest", &rest))
        .persistent_agents([
            PersistentAgent::non_blocking(&scout),
            PersistentAgent::blocking(&other),
        ])
        .build()
        .unwrap();
    let run = on.start(&agent, "go").await;
    work.reached(1).await;
    rest.open();
    let run = on.ended(&run).await;
    assert_eq!(run.status, RunStatus::Completed);
    let sent = json!({ "name": "anna", "status": "running", "interrupted": true });
    assert_eq!(on.result_of("c3").await, sent);
    assert_eq!(on.result_of("c4").await["output"], "Found the other.");
    let link = on.companion("anna").await;
    let runs = on.runs_of(&link.session_id).await;
    assert_eq!(
        runs,
        [(1, RunStatus::Interrupted), (2, RunStatus::Completed)]
    );
    // What its caller did to it is no news. That it is done is, also when its caller waited for it.
    let lines = on.transcript_lines().await;
    let told = lines.iter().filter(|line| line.contains("The agent named"));
    assert_eq!(told.count(), 1, "{lines:#?}");
}

/// A bad name, an unknown one and one that is taken are errors that the model reads.
///
/// proves: PER-02
pub async fn a_bad_name_of_a_companion_is_an_error(on: &RuntimeSubject) {
    let writer = helper("writer", [MockReply::text("Written.")])
        .build()
        .unwrap();
    let replies = [
        spawn("c1", "writer", "a b"),
        spawn("c2", "writer", "anna"),
        spawn("c3", "writer", "anna"),
        ask("c4", "getChildStatus", "bob"),
        message("c5", "bob", "Hello?"),
        spawn("c6", "nobody", "carl"),
        MockReply::text("done"),
    ];
    let agent = agent(replies)
        .persistent_agents([PersistentAgent::blocking(&writer)])
        .build()
        .unwrap();
    let run = on.turn(&agent, "go").await;
    assert_eq!(run.status, RunStatus::Completed);
    for (call, text) in [
        ("c1", "cannot be the name"),
        ("c3", "an agent named anna already"),
        ("c4", "You have started: anna."),
        ("c5", "You have started: anna."),
        ("c6", "nobody"),
    ] {
        let error = on.error_of(call).await;
        assert!(error.contains(text), "{call}: {error}");
    }
    assert_eq!(on.children(&session()).await.len(), 1);
}

/// The companions of an agent are listed with their status; the address of one leads to it from its parent.
///
/// proves: PER-01, PER-02
pub async fn companions_are_listed_and_found_by_address(on: &RuntimeSubject) {
    let gate = Gate::default();
    let writer = helper("writer", [MockReply::text("Written.")])
        .build()
        .unwrap();
    let scout = worker("scout", &gate, &["Found."]);
    let address = companion_address(&session(), "anna");
    let replies = [
        spawn("c1", "writer", "anna"),
        spawn("c2", "scout", "bob"),
        companion("c3", "listChildren", json!({})),
        ask("c4", "getChildStatus", &address),
        MockReply::text("done"),
    ];
    let agent = agent(replies)
        .persistent_agents([
            PersistentAgent::blocking(&writer),
            PersistentAgent::non_blocking(&scout).description("Finds things."),
        ])
        .build()
        .unwrap();
    on.turn(&agent, "go").await;
    let listed = on.result_of("c3").await;
    let listed = listed["children"].as_array().unwrap().clone();
    let told = |one: &Value| {
        let part = |key: &str| one[key].as_str().unwrap_or_default().to_owned();
        [part("name"), part("agent"), part("mode"), part("status")].join(" ")
    };
    let listed: Vec<_> = listed.iter().map(told).collect();
    assert_eq!(
        listed,
        [
            "anna writer blocking completed",
            "bob scout non-blocking running",
        ]
    );
    assert_eq!(on.result_of("c4").await["output"], "Written.");
    gate.open();
    let link = on.companion("bob").await;
    on.comes_to(&link.session_id, RunStatus::Completed).await;
}

/// The name of a companion that was deleted is free.
///
/// proves in part: PER-01, SES-11
pub async fn the_name_of_a_deleted_companion_is_free(on: &RuntimeSubject) {
    let scout = helper(
        "scout",
        [MockReply::text("Seen."), MockReply::text("Again.")],
    );
    let replies = [
        spawn("c1", "scout", "anna"),
        MockReply::text("one"),
        spawn("c2", "scout", "anna"),
        MockReply::text("two"),
    ];
    let agent = agent(replies)
        .persistent_agents([PersistentAgent::blocking(&scout.build().unwrap())])
        .build()
        .unwrap();
    on.turn(&agent, "go").await;
    let first = on.companion("anna").await.session_id;
    let store = on.backend().store.as_ref();
    let sessions = Sessions::new(store, on.clock.as_ref());
    assert!(sessions.delete_session(&first).await.unwrap());
    assert_eq!(on.children(&session()).await, []);
    on.turn(&agent, "again").await;
    assert_eq!(on.result_of("c2").await["output"], "Again.");
    assert_ne!(on.companion("anna").await.session_id, first);
}
