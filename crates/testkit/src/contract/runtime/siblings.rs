//! Sub-agents that work for one caller at the same time.

use std::collections::BTreeSet;
use std::sync::Arc;

use helix_agents_core::CallId;
use helix_agents_core::agent::Agent;
use helix_agents_core::budget::{Budget, BudgetUnit, Budgets};
use helix_agents_core::model::{ModelEvent, TokenUsage};
use helix_agents_core::session::RunStatus;
use helix_agents_core::step::StopReason;
use helix_agents_core::stream::ChunkPayload;
use helix_agents_core::tool::Tool;

use super::agents::{Gate, Log, agent, browser, noted};
use super::delegating::tasks;
use super::stepwise_model::{ModelStep, StepwiseModel};
use super::{MockReply, RuntimeSubject};

/// The names of the calls of a caller with many sub-agents.
const CALLS: [&str; 8] = ["c1", "c2", "c3", "c4", "c5", "c6", "c7", "c8"];

fn finished(stop_reason: StopReason) -> ModelStep {
    let usage = TokenUsage::new(1, 1);
    ModelStep::Emit(ModelEvent::Finished { stop_reason, usage })
}

fn says(text: &str) -> ModelStep {
    ModelStep::Emit(ModelEvent::Text(text.to_owned()))
}

/// A reply that calls a tool so often, with the ids `call_0`, `call_1` and so on, and ends behind a gate.
fn numbered(tool: &str, calls: usize, gate: &Gate) -> Vec<ModelStep> {
    let mut steps = vec![says("Asking.")];
    for call in 0..calls {
        steps.extend([
            ModelStep::Emit(ModelEvent::CallStart {
                id: Some(format!("call_{call}")),
                name: tool.to_owned(),
            }),
            ModelStep::Emit(ModelEvent::CallEnd {
                call,
                provider_metadata: None,
            }),
        ]);
    }
    steps.extend([ModelStep::Wait(gate.clone()), finished(StopReason::ToolUse)]);
    steps
}

/// Models that number their calls ask for one id at the same time. Each reply is paid for once: all the calls wait, under
/// ids of their own, and readers are told those.
///
/// proves: SUB-03
/// proves in part: SUS-07
pub async fn many_sub_agents_ask_at_the_same_time(on: &RuntimeSubject) {
    let gate = Gate::default();
    let asks = CALLS.map(|_| numbered("ask", 1, &gate));
    let heard = CALLS.map(|_| vec![says("Heard."), finished(StopReason::EndTurn)]);
    let model = Arc::new(StepwiseModel::new(asks.into_iter().chain(heard)));
    let helper = Agent::builder("helper").model(Arc::clone(&model));
    let helper = helper.tools(browser("ask")).build().unwrap();
    let calls = CALLS.map(|id| (id, "subagent__helper"));
    let agent = agent([tasks(calls), MockReply::text("done")])
        .tools(Tool::sub_agent(&helper))
        .build();
    let run = on.start(&agent.unwrap(), "go").await;
    gate.reached(CALLS.len()).await;
    gate.open();
    let paused = on.ended(&run).await;
    assert_eq!(paused.status, RunStatus::SuspendedAwaitingChildren);
    assert_eq!(model.asked().len(), CALLS.len(), "no reply is bought again");
    let questions = on.pending().await;
    let ids = questions.iter().map(|it| it.tool_call_id.clone());
    let ids: BTreeSet<_> = ids.collect();
    assert_eq!(ids.len(), CALLS.len());
    let named = |id: &&CallId| id.as_str() == "call_0";
    assert_eq!(ids.iter().filter(named).count(), 1);
    assert!(ids.iter().all(|id| id.as_str().starts_with("call_0")));
    let told = on.payloads().await;
    let told_ids = told.iter().filter_map(|it| match it {
        ChunkPayload::ToolArgStreamStart { tool_call_id, .. } => Some(tool_call_id.clone()),
        _ => None,
    });
    let told_ids: Vec<_> = told_ids
        .filter(|id| id.as_str().starts_with("call_"))
        .collect();
    assert_eq!(told_ids.len(), CALLS.len(), "{told_ids:?}");
    assert_eq!(told_ids.into_iter().collect::<BTreeSet<_>>(), ids);
    let asking =
        |it: &&ChunkPayload| matches!(it, ChunkPayload::TextDelta { delta } if delta == "Asking.");
    assert_eq!(told.iter().filter(asking).count(), CALLS.len());
    for question in questions {
        on.answered(question.result("yes")).await;
    }
    let run = on.resumed().await;
    assert_eq!(run.status, RunStatus::Completed);
    let lines = on.transcript_lines().await;
    let heard = CALLS.map(|id| format!("{id}=success: Heard."));
    assert_eq!(lines[2..10], heard);
}

/// Sub-agents that reply at the same time do not share the last tool calls of the tree's budget twice.
///
/// proves in part: BUD-01
pub async fn the_tool_calls_of_a_tree_are_counted_once(on: &RuntimeSubject) {
    let (gate, log) = (Gate::default(), Log::default());
    let works = [(); 3].map(|()| numbered("note", 3, &gate));
    let done = [(); 3].map(|()| vec![says("Done."), finished(StopReason::EndTurn)]);
    let model = StepwiseModel::new(works.into_iter().chain(done));
    let helper = Agent::builder("helper").model(Arc::new(model));
    let helper = helper.tools(noted("note", &log)).build().unwrap();
    let calls = ["c1", "c2", "c3"].map(|id| (id, "subagent__helper"));
    // Those of the caller count, too.
    let limit = Budget::new().tool_calls(3 + 4);
    let agent = agent([tasks(calls), MockReply::text("done")])
        .tools(Tool::sub_agent(&helper))
        .budget(Budgets::new().tree(limit))
        .build();
    let run = on.start(&agent.unwrap(), "go").await;
    gate.reached(3).await;
    gate.open();
    on.ended(&run).await;
    assert_eq!(log.take().len(), 4);
    let ledger = on.snapshot().await.budget.expect("the tree has a limit");
    assert_eq!(ledger.tree.get(BudgetUnit::ToolCalls), 7);
}
