//! Budgets: when a run is paused, what is counted, and how the session continues.

use std::sync::Arc;

use helix_agents_core::budget::{Budget, BudgetScope, BudgetUnit, Budgets};
use helix_agents_core::entries::{EntryError, ExecuteRequest, ResumeMode, ResumeRequest};
use helix_agents_core::error::{Coded, ErrorCode};
use helix_agents_core::model::{ModelError, ModelErrorKind, TokenUsage};
use helix_agents_core::runtime::{RunOptions, RuntimeError, StartedRun};
use helix_agents_core::session::{RunRecord, RunStatus, SessionStatus};
use helix_agents_core::step::StopCause;
use helix_agents_core::stream::ChunkPayload;
use helix_agents_core::tool::Tool;
use helix_agents_core::usage::UsageRollup;

use super::agents::{Log, agent, calling, noted, of_model};
use super::delegating::{helper, tasks};
use super::subject::session;
use super::{MockReply, RuntimeSubject};
use crate::MockModel;

fn steps(limit: u64) -> Budget {
    Budget::new().steps(limit)
}

async fn resume_with(
    on: &RuntimeSubject,
    budgets: impl Into<Budgets>,
) -> Result<StartedRun, RuntimeError> {
    let request = ResumeRequest::new(&session(), ResumeMode::Continue).budget(budgets);
    on.runtime
        .resume_session(request, RunOptions::default())
        .await
}

/// Sends the next message, which may be refused.
async fn send_with(
    on: &RuntimeSubject,
    text: &str,
    budgets: Budgets,
) -> Result<StartedRun, RuntimeError> {
    let request = ExecuteRequest::by_name("agent", vec![text.into()])
        .in_session(session())
        .budget(budgets);
    on.runtime.start(request, RunOptions::default()).await
}

fn is_refused(result: &Result<StartedRun, RuntimeError>) -> bool {
    matches!(
        result,
        Err(RuntimeError::Entry(error @ EntryError::BudgetExhausted { .. }))
            if error.code() == ErrorCode::BudgetExhausted
    )
}

async fn used(on: &RuntimeSubject, scope: BudgetScope, unit: BudgetUnit) -> u64 {
    let ledger = on.snapshot().await.budget;
    ledger.map_or(0, |ledger| ledger.used(&session(), scope).get(unit))
}

/// Asserts that a budget paused the session.
async fn assert_paused(on: &RuntimeSubject, run: &RunRecord) {
    assert_eq!(
        (run.status, run.completion_reason),
        (RunStatus::Interrupted, Some(StopCause::Budget))
    );
    let found = on.snapshot().await;
    assert_eq!(found.state.status, SessionStatus::Paused);
    let context = found.state.interrupt_context.expect("it is interrupted");
    assert_eq!(context.reason.as_deref(), Some("budget"));
    assert_eq!(found.open_step, None);
    let accounts = found.budget.expect("there are limits");
    assert!(
        accounts.sessions.values().all(|it| it.reserved.is_none()),
        "nothing is reserved while no run is in progress"
    );
    let told = on.payloads().await.pop();
    let reason = Some("budget".to_owned());
    assert_eq!(told, Some(ChunkPayload::RunInterrupted { reason }));
}

/// A run whose budget leaves no room for the next model call is interrupted, and its session is paused. A resume
/// is refused until it raises the limit, in another process, too. Then the turn goes on where it stopped.
///
/// proves in part: BUD-01
/// proves: SES-06
pub async fn a_run_that_reaches_its_budget_is_paused_until_it_is_raised(on: &RuntimeSubject) {
    let log = Log::default();
    let replies = [calling([("c1", "note")]), MockReply::text("done")];
    let agent = agent(replies).tools(noted("note", &log)).budget(steps(1));
    let run = on.turn(&agent.build().unwrap(), "go").await;
    assert_paused(on, &run).await;

    let on = on.restarted().await;
    assert!(is_refused(&on.try_resume().await));
    assert!(is_refused(&on.try_resume_as(ResumeMode::Retry).await));
    assert!(is_refused(&resume_with(&on, steps(1)).await));
    assert_eq!(on.runs().await.len(), 1, "a refused resume writes nothing");

    let resumed = resume_with(&on, steps(2)).await.unwrap();
    let run = on.ended(&resumed).await;
    assert_eq!((run.status, run.step_count), (RunStatus::Completed, 2));
    assert_eq!(
        on.transcript_lines().await,
        [
            "user: go",
            "assistant: c1=note{}",
            "c1=success: done",
            "assistant: done",
        ]
    );
    assert_eq!(log.take().len(), 1);
    assert_eq!(used(&on, BudgetScope::Run, BudgetUnit::Steps).await, 2);
}

/// The budget of a session is shared by its turns. A message that finds none of it left pauses the session before
/// the model is asked; further messages are refused unless they raise the limit.
///
/// proves in part: BUD-01
pub async fn the_budget_of_a_session_is_shared_by_its_turns(on: &RuntimeSubject) {
    let model = Arc::new(MockModel::replies(["one", "two"].map(MockReply::text)));
    let limits = Budgets::new().session(steps(1)).tree(steps(9));
    let agent = of_model(&model).budget(limits).build().unwrap();
    assert_eq!(on.turn(&agent, "one").await.status, RunStatus::Completed);
    let run = on.turn(&agent, "two").await;
    assert_paused(on, &run).await;
    assert_eq!(model.seen().len(), 1, "the model was not asked");

    let on = on.restarted().await;
    assert!(is_refused(&on.try_start(&agent, "three").await));
    assert!(is_refused(&send_with(&on, "three", steps(9).into()).await));
    let raised = Budgets::new().session(steps(2));
    let run = send_with(&on, "three", raised).await.unwrap();
    assert_eq!(on.ended(&run).await.status, RunStatus::Completed);
    assert_eq!(used(&on, BudgetScope::Session, BudgetUnit::Steps).await, 2);
    assert_eq!(used(&on, BudgetScope::Tree, BudgetUnit::Steps).await, 2);
    assert_eq!(used(&on, BudgetScope::Session, BudgetUnit::Tokens).await, 0);
}

/// Each message begins a new budget of the run, also after a pause. A limit that a request sets for its run is gone
/// with the turn.
///
/// proves in part: BUD-01
pub async fn a_message_begins_a_new_budget_of_the_run(on: &RuntimeSubject) {
    let log = Log::default();
    let note = || calling([("c", "note")]);
    let replies = [note(), note(), MockReply::text("b"), note(), note()];
    let agent = agent(replies).tools(noted("note", &log)).budget(steps(2));
    let agent = agent.build().unwrap();
    let run = on.turn(&agent, "one").await;
    assert_paused(on, &run).await;
    let run = on.turn(&agent, "two").await;
    assert_eq!(run.status, RunStatus::Completed);
    let run = send_with(on, "three", steps(1).into()).await.unwrap();
    let run = on.ended(&run).await;
    assert_paused(on, &run).await;
    assert_eq!(run.step_count, 1);
    let run = on.turn(&agent, "four").await;
    assert_eq!(run.step_count, 1, "there is no reply left");
    assert_eq!(run.status, RunStatus::Failed);
}

/// The tokens of every attempt of a model call are counted once, and nothing stays reserved.
///
/// proves in part: BUD-01
pub async fn a_budget_counts_every_attempt_of_a_model_call(on: &RuntimeSubject) {
    let gone = || ModelError::new(ModelErrorKind::Transport, "gone");
    let failing = |output| {
        let reply = MockReply::text("he").with_usage(TokenUsage::new(70, output));
        reply.then_fail(gone())
    };
    let replies = [
        failing(1),
        failing(2),
        MockReply::text("hello").with_usage(TokenUsage::new(70, 5)),
    ];
    let wide = Budget::new().steps(10).tokens(50_000);
    let agent = agent(replies).budget(Budgets::new().run(wide).tree(wide));
    let run = on.turn(&agent.build().unwrap(), "go").await;
    assert_eq!(run.status, RunStatus::Completed);

    let on = on.restarted().await;
    let recorded: UsageRollup = on.usage().await.iter().collect();
    assert_eq!(recorded.tokens.total(), 71 + 72 + 75);
    for scope in [BudgetScope::Run, BudgetScope::Tree] {
        assert_eq!(used(&on, scope, BudgetUnit::Tokens).await, 71 + 72 + 75);
        assert_eq!(used(&on, scope, BudgetUnit::Steps).await, 1);
    }
    let ledger = on.snapshot().await.budget.unwrap();
    let report = ledger.report(&session(), &session()).unwrap();
    assert_eq!(report.session, None, "nothing limits the session");
    assert_eq!(report.tree.unwrap().reserved.tokens, 0);
}

/// A model call is made only if the budget has room for the longest reply that it may give.
///
/// proves in part: BUD-01
pub async fn a_call_is_reserved_with_its_longest_reply(on: &RuntimeSubject) {
    let model = Arc::new(MockModel::replies([
        calling([("c1", "note")]).with_usage(TokenUsage::new(900, 100)),
        MockReply::text("done").with_usage(TokenUsage::new(1_200, 9)),
    ]));
    let log = Log::default();
    let mut config = helix_agents_core::model::ModelConfig::default();
    config.max_output_tokens = Some(500);
    let agent = of_model(&model)
        .tools(noted("note", &log))
        .model_config(config)
        .budget(Budget::new().tokens(2_499));
    let run = on.turn(&agent.build().unwrap(), "go").await;
    assert_paused(on, &run).await;
    assert_eq!(model.seen().len(), 1);
    let refused = on.snapshot().await.budget.unwrap().sessions[&session()]
        .refused
        .clone()
        .unwrap();
    // The tokens so far, and a prompt as long as the last one and its reply, and another reply.
    assert_eq!(
        (refused.unit, refused.limit, refused.needed),
        (BudgetUnit::Tokens, 2_499, 1_000 + 1_000 + 500)
    );

    let resumed = resume_with(on, Budget::new().tokens(2_500)).await.unwrap();
    assert_eq!(on.ended(&resumed).await.status, RunStatus::Completed);
    assert_eq!(used(on, BudgetScope::Run, BudgetUnit::Tokens).await, 2_209);
}

/// Calls of a reply that do not fit into the budget are not executed; those before them are. Then the run is paused.
///
/// proves in part: BUD-01
pub async fn tool_calls_beyond_the_budget_are_not_executed(on: &RuntimeSubject) {
    let log = Log::default();
    let replies = [
        calling([("c1", "note"), ("c2", "note"), ("c3", "note")]),
        MockReply::text("done"),
    ];
    let limit = Budget::new().tool_calls(2);
    let agent = agent(replies).tools(noted("note", &log)).budget(limit);
    let run = on.turn(&agent.build().unwrap(), "go").await;
    assert_paused(on, &run).await;
    assert_eq!(log.take().len(), 2);
    let lines = on.transcript_lines().await;
    assert_eq!(lines[2..4], ["c1=success: done", "c2=success: done"]);
    assert!(lines[4].starts_with("c3=not_executed"), "{lines:?}");
    assert_eq!(used(on, BudgetScope::Run, BudgetUnit::ToolCalls).await, 2);

    let on = on.restarted().await;
    assert!(is_refused(&resume_with(&on, limit).await));
    let resumed = resume_with(&on, Budget::new().tool_calls(3)).await.unwrap();
    assert_eq!(on.ended(&resumed).await.status, RunStatus::Completed);
}

/// A budget in micro-dollars needs a model whose prices are known: nothing is silently unlimited.
///
/// proves in part: BUD-01
pub async fn a_budget_in_micro_dollars_needs_prices(on: &RuntimeSubject) {
    let limit = Budget::new().micro_dollars(1_000);
    let agent = agent([MockReply::text("hi")])
        .budget(limit)
        .build()
        .unwrap();
    on.keep(&agent);
    let refused = on.try_start(&agent, "go").await.unwrap_err();
    assert_eq!(refused.code(), ErrorCode::DefinitionInvalid);
}

/// Sub-agents that are done keep no account in the header of the root, also those with limits of their own. What they
/// used stays counted in the tree.
///
/// proves in part: SUB-01
pub async fn sub_agents_that_are_done_keep_no_account(on: &RuntimeSubject) {
    let replies = ["One.", "Two.", "Three."].map(MockReply::text);
    let child = helper("helper", replies).budget(Budgets::new().session(steps(5)));
    let child = child.build().unwrap();
    let replies = [
        tasks([("c1", "subagent__helper"), ("c2", "subagent__helper")]),
        tasks([("c3", "subagent__helper")]),
        MockReply::text("done"),
    ];
    let agent = agent(replies)
        .tools(Tool::sub_agent(&child))
        .budget(Budgets::new().tree(steps(50)))
        .build()
        .unwrap();
    let run = on.turn(&agent, "go").await;
    assert_eq!(run.status, RunStatus::Completed);
    let ledger = on.snapshot().await.budget.expect("the tree has limits");
    let kept: Vec<_> = ledger.sessions.keys().cloned().collect();
    assert_eq!(kept, [session()]);
    assert_eq!(used(on, BudgetScope::Tree, BudgetUnit::Steps).await, 6);
}
