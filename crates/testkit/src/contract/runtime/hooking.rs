//! Hooks: which are called, in which order, and their state writes.

use helix_agents_core::hooks::HookCx;
use helix_agents_core::model::ModelErrorKind;
use helix_agents_core::runtime::RunOptions;
use helix_agents_core::session::RunStatus;
use helix_agents_core::tool::Tool;
use serde_json::json;

use super::agents::{Gate, Log, agent, browser, calling, noted, tool};
use super::delegating::{helper, tasks};
use super::recording_hooks::RecordingHooks;
use super::subject::session;
use super::{MockReply, RuntimeSubject};

/// A tool that writes to the state, and logs its runs.
fn writes(name: &'static str, log: &Log) -> helix_agents_core::tool::ToolBuilder {
    let log = log.clone();
    tool(name, move |_, cx| {
        let log = log.clone();
        async move {
            log.note(format!("execute {}", cx.call_id()));
            let by = cx.call_id().clone();
            cx.edit_state(|draft| draft.set("/by", by))?;
            Ok(json!("done"))
        }
    })
}

/// The hooks of a call have a fixed order: before the tool, the tool, its state change, its
/// message, after the tool; also for an approved call. A denied call has the last two.
///
/// proves in part: HKS-01
pub async fn the_hooks_of_a_call_come_in_one_order(on: &RuntimeSubject) {
    let log = Log::default();
    let replies = [
        calling([("c1", "writes")]),
        calling([("c2", "guarded")]),
        calling([("c3", "guarded")]),
        MockReply::text("done"),
    ];
    let tools = [writes("writes", &log), writes("guarded", &log).approval()];
    let agent = agent(replies)
        .tools(tools)
        .hooks(RecordingHooks::new(&log))
        .build()
        .unwrap();
    on.turn(&agent, "go").await;
    assert_eq!(
        log.take(),
        [
            r#"start ["go"]"#,
            "before_llm 1 attempt 1",
            "after_llm 1 ToolUse",
            "before_tool writes c1",
            "execute c1",
            r#"on_state_change c1 {"by":"c1"}"#,
            "on_message assistant",
            "on_message c1",
            "after_tool c1 Success",
            "before_llm 2 attempt 1",
            "after_llm 2 ToolUse",
            "suspended Approval [c2]",
        ]
    );
    on.answered(on.waiting("c2").await.approve()).await;
    on.restarted().await.resumed().await;
    assert_eq!(
        log.take(),
        [
            "resumed Approval [c2]",
            "before_tool guarded c2",
            "execute c2",
            r#"on_state_change c2 {"by":"c2"}"#,
            "on_message assistant",
            "on_message c2",
            "after_tool c2 Success",
            "before_llm 3 attempt 1",
            "after_llm 3 ToolUse",
            "suspended Approval [c3]",
        ]
    );
    on.answered(on.waiting("c3").await.deny("no")).await;
    on.restarted().await.resumed().await;
    assert_eq!(
        log.take(),
        [
            "resumed Approval [c3]",
            "on_message assistant",
            "on_message c3",
            "after_tool c3 Denied",
            "before_llm 4 attempt 1",
            "after_llm 4 EndTurn",
            "on_message assistant",
            "complete  after 4",
        ]
    );
}

/// With parallel calls, messages and after-hooks follow the model's order, not the order in which
/// the calls end.
///
/// proves: HKS-02
pub async fn after_hooks_follow_the_models_order(on: &RuntimeSubject) {
    let (log, gate) = (Log::default(), Gate::default());
    let waits = gate.clone();
    let late = tool("late", move |_, _| {
        let gate = waits.clone();
        async move {
            gate.pass().await;
            Ok(json!("done"))
        }
    });
    let replies = [
        calling([
            ("c1", "late"),
            ("c2", "noted"),
            ("c3", "late"),
            ("c4", "noted"),
        ]),
        MockReply::text("done"),
    ];
    let tools = [late, noted("noted", &Log::default())];
    let agent = agent(replies)
        .tools(tools)
        .hooks(RecordingHooks::new(&log))
        .build()
        .unwrap();
    let run = on.start(&agent, "go").await;
    gate.reached(2).await;
    on.until_told("tool_end c2").await;
    on.until_told("tool_end c4").await;
    gate.open();
    on.ended(&run).await;
    let hooks = log.take().into_iter();
    let after =
        hooks.filter(|line| line.starts_with("on_message c") || line.starts_with("after_t"));
    assert_eq!(
        after.collect::<Vec<_>>(),
        [
            "on_message c1",
            "after_tool c1 Success",
            "on_message c2",
            "after_tool c2 Success",
            "on_message c3",
            "after_tool c3 Success",
            "on_message c4",
            "after_tool c4 Success",
        ]
    );
}

/// Hooks are called for the start, the end and the failure of a turn, and before and after every
/// model call.
///
/// proves in part: HKS-03
pub async fn hooks_see_the_start_the_end_and_the_failure_of_a_turn(on: &RuntimeSubject) {
    let log = Log::default();
    let replies = [
        MockReply::calls([("f1", "__finish__", json!({ "answer": 1 }))]),
        MockReply::error(ModelErrorKind::Auth),
    ];
    let agent = agent(replies)
        .output_schema(super::agents::answer_schema())
        .hooks(RecordingHooks::new(&log))
        .build()
        .unwrap();
    on.turn(&agent, "one").await;
    assert_eq!(
        log.take(),
        [
            r#"start ["one"]"#,
            "before_llm 1 attempt 1",
            "after_llm 1 ToolUse",
            "on_message assistant",
            "on_message f1",
            "after_tool f1 Success",
            r#"complete {"answer":1} after 1"#,
        ]
    );
    on.turn(&agent, "two").await;
    assert_eq!(
        log.take(),
        [
            r#"start ["two"]"#,
            "before_llm 1 attempt 1",
            "fail provider_auth",
        ]
    );
}

/// The agent's hooks are called before those of the execution, each group in the order it was
/// given.
///
/// proves in part: HKS-04
pub async fn the_agents_hooks_come_before_the_executions(on: &RuntimeSubject) {
    let log = Log::default();
    let named = |name: &'static str| {
        let to = log.clone();
        RecordingHooks::doing(&Log::default(), move |line, _| {
            to.note(format!("{name} {line}"));
        })
    };
    let agent = agent([MockReply::text("done")])
        .hooks(named("agent-1"))
        .hooks(named("agent-2"))
        .build()
        .unwrap();
    on.keep(&agent);
    let request =
        helix_agents_core::entries::ExecuteRequest::new(&agent, "go").in_session(session());
    let options = RunOptions::default()
        .hooks(named("execution-1"))
        .hooks(named("execution-2"));
    let run = on.runtime.start(request, options).await.unwrap();
    on.ended(&run).await;
    let told = log.take();
    let lines = [
        r#"start ["go"]"#,
        "before_llm 1 attempt 1",
        "after_llm 1 EndTurn",
        "on_message assistant",
        "complete  after 1",
    ];
    let whose = ["agent-1", "agent-2", "execution-1", "execution-2"];
    let expected = lines
        .iter()
        .flat_map(|line| whose.map(|who| format!("{who} {line}")));
    assert_eq!(told, expected.collect::<Vec<_>>());
}

/// State changes of hooks, whichever hook makes them, are committed with the step, and later hooks
/// see them.
///
/// proves in part: HKS-05
pub async fn state_changes_of_hooks_are_committed_with_the_step(on: &RuntimeSubject) {
    let log = Log::default();
    let adds = RecordingHooks::doing(&log, |line, cx: &HookCx| {
        let word = line.split(' ').next().unwrap_or_default().to_owned();
        cx.edit_state(|draft| draft.push("/told", word)).unwrap();
    });
    let replies = [
        calling([("c1", "writes")]),
        calling([("c2", "browser")]),
        MockReply::text("done"),
    ];
    let tools = [writes("writes", &Log::default()), browser("browser")];
    let agent = agent(replies)
        .tools(tools)
        .hooks(adds)
        .initial_state(json!({ "told": [] }))
        .build()
        .unwrap();
    on.turn(&agent, "go").await;
    let told = async || on.state().await["told"].clone();
    let first = json!([
        "start",
        "before_llm",
        "after_llm",
        "before_tool",
        "on_state_change",
        "on_message",
        "on_message",
        "after_tool",
        "before_llm",
        "after_llm",
        "suspended",
    ]);
    assert_eq!(told().await, first);
    on.answered(on.waiting("c2").await.result("here")).await;
    on.restarted().await.resumed().await;
    let mut all = first.as_array().cloned().unwrap_or_default();
    let second = [
        "resumed",
        "on_message",
        "on_message",
        "after_tool",
        "before_llm",
        "after_llm",
        "on_message",
        "complete",
    ];
    all.extend(second.map(|word| json!(word)));
    assert_eq!(told().await, json!(all));

    // Each version of the state is one of a commit that also wrote the step.
    for checkpoint in on.checkpoints().await {
        let store = &on.backend().store;
        let at = store
            .state_at(session().as_root(), checkpoint.state_version)
            .await;
        let told = at.unwrap()["told"].as_array().map_or(0, Vec::len);
        assert!(told > 0);
    }
}

/// A caller that goes on because the sub-agents for which it waited are done tells its hooks once.
///
/// proves in part: HKS-01
pub async fn a_caller_that_waited_for_sub_agents_is_resumed(on: &RuntimeSubject) {
    let log = Log::default();
    let waiting = |name: &str, call: &str| {
        let replies = [calling([(call, "ask")]), MockReply::text("Asked.")];
        helper(name, replies).tools(browser("ask")).build().unwrap()
    };
    let calls = [("c1", "subagent__one"), ("c2", "subagent__other")];
    let agent = agent([tasks(calls), MockReply::text("done")])
        .tools(Tool::sub_agent(&waiting("one", "a1")))
        .tools(Tool::sub_agent(&waiting("other", "b1")))
        .hooks(RecordingHooks::new(&log))
        .build();
    on.turn(&agent.unwrap(), "go").await;
    for call in ["a1", "b1"] {
        on.answered(on.waiting(call).await.result("yes")).await;
    }
    log.take();
    on.restarted().await.resumed().await;
    // The hooks of a caller are called in the runs of its sub-agents, too.
    let mut resumed = log.take();
    resumed.retain(|line| line.starts_with("resumed AwaitingChildren"));
    assert_eq!(resumed, ["resumed AwaitingChildren []"]);
}

/// A hook that fails or panics does not fail the run.
pub async fn a_failing_hook_does_not_fail_the_run(on: &RuntimeSubject) {
    let log = Log::default();
    let breaks = RecordingHooks::doing(&Log::default(), |_, _| panic!("the hook is broken"));
    let replies = [calling([("c1", "noted")]), MockReply::text("done")];
    let agent = agent(replies)
        .tools(noted("noted", &log))
        .hooks(breaks)
        .build()
        .unwrap();
    let run = on.turn(&agent, "go").await;
    assert_eq!(run.status, RunStatus::Completed);
    assert_eq!(log.take(), ["noted c1 {}"]);
}

/// Hooks are called for a pause and for its end, with the reason and the calls concerned.
///
/// proves in part: SUS-08
pub async fn hooks_see_a_pause_and_its_end_with_their_calls(on: &RuntimeSubject) {
    let log = Log::default();
    let replies = [
        calling([
            ("c1", "noted"),
            ("c2", "browser"),
            ("c3", "pay"),
            ("c4", "nobody"),
        ]),
        MockReply::text("done"),
    ];
    let quiet = Log::default();
    let tools = [
        noted("noted", &quiet),
        browser("browser"),
        noted("pay", &quiet).approval(),
    ];
    let agent = agent(replies)
        .tools(tools)
        .hooks(RecordingHooks::new(&log))
        .build()
        .unwrap();
    on.turn(&agent, "go").await;
    let of = |word: &str| {
        let lines = log.take().into_iter();
        lines
            .filter(|line| line.starts_with(word))
            .collect::<Vec<_>>()
    };
    assert_eq!(of("suspended"), ["suspended ClientTool [c2, c3]"]);
    on.answered(on.waiting("c2").await.result("here")).await;
    on.answered(on.waiting("c3").await.deny("no")).await;
    on.resumed().await;
    assert_eq!(of("resumed"), ["resumed ClientTool [c2, c3]"]);
}

/// The hooks of a model call are called again for a retry, the hook of the start of the turn is
/// not; the next step counts its attempts from the beginning.
pub async fn hooks_see_the_start_of_a_turn_once_despite_retries(on: &RuntimeSubject) {
    let log = Log::default();
    let replies = [
        MockReply::error(ModelErrorKind::Overloaded),
        calling([("c1", "noted")]),
        MockReply::text("done"),
    ];
    let agent = agent(replies)
        .tools(noted("noted", &Log::default()))
        .hooks(RecordingHooks::new(&log))
        .build()
        .unwrap();
    on.turn(&agent, "go").await;
    let told = log.take().into_iter();
    let told = told.filter(|line| line.starts_with("start") || line.starts_with("before_llm"));
    assert_eq!(
        told.collect::<Vec<_>>(),
        [
            r#"start ["go"]"#,
            "before_llm 1 attempt 1",
            "before_llm 1 attempt 2",
            "before_llm 2 attempt 1",
        ]
    );
}
