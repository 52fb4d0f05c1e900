//! Run states, events and effects: engines keep them between two steps of a workflow.

use helix_agents_core::machine::{Effect, Event, RunState};
use serde_json::{Value, json};

use super::records::RUN_STATUSES;

/// Returns the object with some of its keys set.
fn with(base: &Value, keys: Value) -> Value {
    let mut all = base.clone();
    let (Value::Object(all_keys), Value::Object(keys)) = (&mut all, keys) else {
        return all;
    };
    all_keys.extend(keys);
    all
}

pub(super) fn error() -> Value {
    json!({
        "code": "provider_overloaded", "category": "provider", "retryable": true,
        "message": "The model is overloaded.", "detail": "503",
    })
}

pub(super) fn states() -> Vec<RunState> {
    let fresh = json!({
        "sessionId": "s1", "rootSessionId": "s1", "runId": "run-1", "agentType": "support",
        "fence": 1, "turn": 1, "steps": 0, "attempt": 1, "first": true, "effects": 0,
    });
    let open = json!({ "id": "step-1", "calls": "ruxcastRUXT" });
    let mut all = vec![
        fresh.clone(),
        with(
            &fresh,
            json!({ "doing": 1, "effects": 1, "corrections": 2, "resync": true }),
        ),
        with(
            &fresh,
            json!({ "open": open, "stop": true, "first": false }),
        ),
        with(
            &fresh,
            json!({ "open": with(&open, json!({ "fatal": true })) }),
        ),
        with(
            &fresh,
            json!({ "open": with(&open, json!({ "calls": "kws" })), "awaited": { "1": 4 } }),
        ),
    ];
    all.push(with(&fresh, json!({ "broken": error() })));
    all.push(with(&fresh, json!({ "steps": 4, "budgetFrom": 3 })));
    all.extend(RUN_STATUSES.map(|status| with(&fresh, json!({ "ended": status }))));
    serde_json::from_value(Value::Array(all)).unwrap()
}

pub(super) fn events() -> Vec<Event> {
    let open = json!({ "id": "step-1", "calls": "rt", "fatal": false });
    let settled = json!({ "n": 3, "step": 1, "what": "settled", "steps": 1, "corrections": 0 });
    let failed = json!({ "n": 1, "step": 1, "what": "model_failed", "error": error(), "now": 5 });
    serde_json::from_value(json!([
        { "n": 0, "what": "started" },
        { "n": 1, "step": 1, "stop": true, "what": "replied", "open": open },
        failed,
        with(&failed, json!({ "retryAfterMs": 250 })),
        { "n": 2, "step": 1, "what": "called", "index": 0, "standing": "t", "size": 12 },
        { "n": 2, "step": 1, "what": "called", "index": 1, "standing": "c", "size": 0, "fatal": true },
        { "n": 2, "step": 1, "what": "called", "index": 2, "standing": "s", "size": 0 },
        { "n": 2, "step": 1, "what": "called", "index": 3, "standing": "t", "size": 4, "finishes": true },
        { "n": 2, "step": 1, "what": "broke", "error": error(), "index": 0 },
        { "n": 3, "step": 1, "what": "broke", "error": error() },
        settled,
        with(&settled, json!({ "ended": "completed" })),
        { "n": 4, "step": 1, "what": "slept" },
        { "n": 4, "step": 1, "stop": true, "what": "cut" },
        { "n": 4, "step": 1, "what": "budget_exhausted" },
        { "n": 5, "step": 1, "what": "answered", "open": open },
        { "n": 6, "step": 1, "what": "ended", "status": "suspended_client_tool" },
    ]))
    .unwrap()
}

pub(super) fn effects() -> Vec<Effect> {
    let at = json!({
        "sessionId": "s1", "rootSessionId": "root", "runId": "run-1", "agentType": "support",
        "fence": 4, "step": 2, "n": 7,
    });
    serde_json::from_value(json!([
        {
            "at": at, "first": true, "do": "model", "attempt": 2, "lastStep": true, "forced": true,
            "correctionsLeft": 1, "resync": true,
        },
        { "at": at, "do": "tool", "index": 3, "unknown": true },
        { "at": at, "do": "settle" },
        { "at": at, "do": "children" },
        { "at": at, "do": "child", "index": 2 },
        { "at": at, "do": "sleep", "until": 1500 },
        { "at": at, "do": "end", "as": { "status": "suspended" } },
        { "at": at, "do": "end", "as": { "status": "failed", "error": error() } },
        { "at": at, "do": "end", "as": { "status": "stopped" } },
        { "at": at, "do": "end", "as": { "status": "budget_exhausted" } },
    ]))
    .unwrap()
}
