//! Budgets on a store that loses acknowledgements.

use std::sync::Arc;

use helix_agents_core::budget::{Budget, BudgetScope, BudgetUnit, Budgets};
use helix_agents_core::model::{ModelError, ModelErrorKind, TokenUsage};
use helix_agents_core::session::RunStatus;
use serde_json::Value;

use super::super::Subject;
use super::super::runtime::agents::{Log, calling, noted, of_model};
use super::faulty_store::{CommitFate, FaultyStore};
use super::run_driver::{RunDriver, session_id};
use crate::{MockModel, MockReply};

/// The acknowledgement of every commit is lost, those of reservations, failures and replies among them: each model
/// call is counted once, and nothing stays reserved.
pub async fn a_budget_counts_commits_without_acknowledgement_once(on: &Subject) {
    let used = |reply: MockReply, input| reply.with_usage(TokenUsage::new(input, 10));
    let gone = ModelError::new(ModelErrorKind::Transport, "gone");
    let model = Arc::new(MockModel::replies([
        used(calling([("c1", "note"), ("c2", "note")]), 100),
        used(MockReply::text("he"), 200).then_fail(gone),
        used(MockReply::text("done"), 300),
    ]));
    let log = Log::default();
    let wide = Budget::new().steps(10).tokens(90_000).tool_calls(10);
    let agent = of_model(&model)
        // What the first call may use is not known before it.
        .system_prompt_from_state(|state: &Value| format!("You see {state}."))
        .tools(noted("note", &log))
        .budget(Budgets::new().session(wide).tree(wide))
        .build()
        .unwrap();
    let store = FaultyStore::new(on, |_| CommitFate::Unacknowledged);
    let mut driver = RunDriver::on(store, on, agent, Vec::new()).await;
    driver.drive().await;
    assert_eq!(driver.run().await.status, RunStatus::Completed);
    assert_eq!(log.take().len(), 2);
    let ledger = driver.found().await.budget.expect("there are limits");
    for scope in [BudgetScope::Session, BudgetScope::Tree] {
        let used = ledger.used(&session_id(), scope);
        let counts = [BudgetUnit::Tokens, BudgetUnit::Steps, BudgetUnit::ToolCalls];
        let counts = counts.map(|unit| used.get(unit));
        assert_eq!(counts, [110 + 210 + 310, 2, 2], "{scope}");
    }
    assert_eq!(ledger.sessions[&session_id()].reserved, None);
}
