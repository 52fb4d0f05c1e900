//! Budgets over HTTP.

use helix_agents_core::budget::Budget;
use helix_agents_core::runtime::Runtime;
use helix_agents_core::{Agent, AgentRegistry};
use helix_agents_testkit::MockModel;
use serde_json::{Value, json};

use crate::kit::{ADMIN, Place};

fn start(agent: &str, budget: &Value) -> Value {
    json!({ "sessionId": "s", "agentType": agent, "message": "look", "budget": budget })
}

fn resume(budget: &Value) -> Value {
    json!({ "sessionId": "s", "budget": budget })
}

/// Starts session `s` with a budget that leaves room for one step, and waits until it is paused.
async fn paused(place: &Place) {
    let budget = json!({ "run": { "steps": 1, "tokens": 90_000 } });
    place.post("/start", start("desk", &budget)).await.ok();
    place.settled("s").await;
}

/// proves in part: BUD-01
/// proves in part: SES-06
#[tokio::test]
async fn a_session_that_a_budget_has_paused_is_resumed_with_a_higher_limit() {
    let place = Place::new();
    paused(&place).await;
    let status = place.get("/status?sessionId=s").await.ok();
    assert_eq!(status["status"], "paused");
    assert_eq!(status["runStatus"], "interrupted");
    let runs = place.get("/sessions/s/runs").await.ok();
    assert_eq!(runs["items"][0]["completionReason"], "budget");
    let usage = place.get("/sessions/s/usage").await.ok();
    assert_eq!(
        usage["budget"],
        json!({ "run": {
            "limit": { "steps": 1, "tokens": 90_000 },
            "used": { "steps": 1, "tokens": 12 },
            "reserved": { "steps": 0, "tokens": 0 },
        } })
    );

    let plain = place.post("/resume", json!({ "sessionId": "s" })).await;
    plain.is(409, "BUDGET_EXHAUSTED");
    let same = resume(&json!({ "run": { "steps": 1 } }));
    let same = place.post("/resume", same).await;
    same.is(409, "BUDGET_EXHAUSTED");
    let raised = resume(&json!({ "run": { "steps": 2 } }));
    place.post("/resume", raised).await.ok();
    place.settled("s").await;
    let status = place.get("/status?sessionId=s").await.ok();
    assert_eq!(status["status"], "completed");
    let usage = place.get("/sessions/s/usage").await.ok();
    assert_eq!(usage["budget"]["run"]["used"]["tokens"], 12 + 23);
}

#[tokio::test]
async fn a_budget_with_unknown_keys_or_without_room_is_refused() {
    let place = Place::new();
    for budget in [
        json!({ "run": { "dollars": 1 } }),
        json!({ "month": { "steps": 1 } }),
        json!({ "run": { "steps": 0 } }),
        json!({ "session": { "tokens": -1 } }),
    ] {
        let refused = place.post("/start", start("desk", &budget)).await;
        refused.is(400, "VALIDATION_ERROR");
    }
}

/// Registers an agent that the operator limits to one step.
fn cap(agents: &AgentRegistry) {
    let model = MockModel::new().calls("nothing", json!({})).says("done");
    let agent = Agent::builder("capped")
        .model(model)
        .budget(Budget::new().steps(1))
        .build();
    agents.replace(&agent.unwrap());
}

/// A user may not set a limit above the one of the agent; an administrator may.
///
/// proves in part: BUD-01
#[tokio::test]
async fn only_an_administrator_raises_the_limit_of_an_agent() {
    let place = Place::new();
    cap(place.runtime.agents());
    let two = json!({ "run": { "steps": 2 } });
    let refused = place.post("/start", start("capped", &two)).await;
    refused.is(403, "FORBIDDEN");
    let lower = json!({ "run": { "steps": 1 }, "session": { "steps": 7 } });
    place.post("/start", start("capped", &lower)).await.ok();
    place.settled("s").await;
    let refused = place.post("/resume", resume(&two)).await;
    refused.is(403, "FORBIDDEN");
    let raised = place
        .ask(ADMIN, "POST", "/resume", Some(resume(&two)))
        .await;
    raised.ok();
    place.settled("s").await;
    let status = place.get("/status?sessionId=s").await.ok();
    assert_eq!(status["status"], "completed");
}
