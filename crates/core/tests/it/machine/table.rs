//! Tables for `decide`: a state, an event, and what follows.

use helix_agents_core::machine::{
    AgentLimits, Effect, EffectKind, Event, RunEnd, RunState, decide,
};
use serde_json::{Value, json};

use super::{facts, with};

/// A run of a session, before its first event.
fn fresh() -> Value {
    json!({
        "sessionId": "s", "rootSessionId": "s", "runId": "run-1", "agentType": "agent",
        "fence": 1, "turn": 1, "steps": 0, "attempt": 1, "effects": 0,
    })
}

fn state(keys: Value) -> RunState {
    serde_json::from_value(with(fresh(), keys)).unwrap()
}

/// A run in its first step, with its calls in these states. Effects up to 9 were given.
fn open(calls: &str) -> RunState {
    let open = json!({ "id": "step-1", "calls": calls });
    state(json!({ "open": open, "effects": 9 }))
}

fn event(keys: Value) -> Event {
    serde_json::from_value(with(json!({ "n": 0, "step": 1 }), keys)).unwrap()
}

fn called(index: u32) -> Event {
    event(json!({ "n": 5, "what": "called", "index": index, "standing": "t", "size": 1 }))
}

fn failed(retryable: bool) -> Event {
    let error = json!({
        "code": "provider_overloaded", "category": "provider", "retryable": retryable,
        "message": "m", "detail": "d",
    });
    event(json!({ "n": 1, "what": "model_failed", "error": error, "now": 1_000 }))
}

/// Describes effects in a short text.
fn words(effects: &[Effect]) -> String {
    let words = effects.iter().map(|effect| {
        let first = if effect.first { "first " } else { "" };
        let what = match &effect.kind {
            EffectKind::Model {
                attempt,
                last_step,
                forced,
                corrections_left,
                resync,
            } => {
                let mut text = format!("model {attempt} left {corrections_left}");
                for (is, word) in [(last_step, "last"), (forced, "forced"), (resync, "resync")] {
                    if *is {
                        text = format!("{text} {word}");
                    }
                }
                text
            }
            EffectKind::Tool { index, unknown } => {
                format!("tool {index}{}", if *unknown { " unknown" } else { "" })
            }
            EffectKind::Child { index } => format!("child {index}"),
            EffectKind::Settle {} => "settle".to_owned(),
            EffectKind::Sleep { until } => format!("sleep {}", until.as_millis()),
            EffectKind::End { as_ } => match as_ {
                RunEnd::Suspended {} => "end suspended".to_owned(),
                RunEnd::Failed { error } => format!("end failed {}", error.code),
                RunEnd::Stopped {} => "end stopped".to_owned(),
                other => format!("{other:?}"),
            },
            other => format!("{other:?}"),
        };
        format!("{first}{what}")
    });
    words.collect::<Vec<_>>().join(", ")
}

fn calls(state: &RunState) -> String {
    let open = state.open.as_ref();
    open.map(|open| open.calls.to_string()).unwrap_or_default()
}

/// Each row: the states of the calls, the event, the effects, and the new states of the calls.
#[test]
fn each_event_of_a_call_leads_to_the_next_effects() {
    let started = Event::started;
    let replied = |letters: &str| {
        let open = json!({ "id": "step-1", "calls": letters });
        event(json!({ "n": 9, "what": "replied", "open": open }))
    };
    let answered = |letters: &str| {
        let open = json!({ "id": "step-1", "calls": letters });
        event(json!({ "n": 9, "what": "answered", "open": open }))
    };
    let waits = |index: u32| {
        event(json!({ "n": 5, "what": "called", "index": index, "standing": "c", "size": 0 }))
    };
    let child = |index: u32| {
        event(json!({ "n": 5, "what": "called", "index": index, "standing": "k", "size": 0 }))
    };
    // The outcome of the child for which effect 8 waits.
    let taken = |index: u32, standing: &str| {
        event(json!({ "n": 8, "what": "called", "index": index, "standing": standing, "size": 1 }))
    };
    let awaiting = |letters: &str| {
        let open = json!({ "id": "step-1", "calls": letters });
        state(json!({ "open": open, "effects": 9, "awaited": { "0": 8 } }))
    };
    let fatal = |index: u32| {
        event(json!({
            "n": 5, "what": "called", "index": index, "standing": "t", "size": 1, "fatal": true,
        }))
    };
    let starting = |letters: &str| state(json!({ "open": { "id": "step-1", "calls": letters } }));
    let doing = |letters: &str| {
        let open = json!({ "id": "step-1", "calls": letters });
        state(json!({ "open": open, "effects": 9, "doing": 9 }))
    };
    let rows = [
        // Regular calls run at once; those that may finish the turn run after them, one by one.
        (starting("rr"), started(), "tool 0, tool 1", "xx"),
        (starting("rRr"), started(), "tool 0, tool 2", "xRx"),
        (starting("RR"), started(), "tool 0", "XR"),
        (starting("tR"), started(), "tool 1", "tX"),
        (starting("tt"), started(), "settle", "tt"),
        (doing(""), replied("rcR"), "tool 0", "xcR"),
        (doing(""), replied("ca"), "end suspended", "ca"),
        (open("xx"), called(0), "", "tx"),
        (open("tx"), called(1), "settle", "tt"),
        (open("xR"), called(0), "tool 1", "tX"),
        (open("XR"), called(0), "tool 1", "TX"),
        (open("tXT"), called(1), "settle", "tTT"),
        // No call that may finish the turn begins while a regular call is pending.
        (open("xcR"), called(0), "end suspended", "tcR"),
        (open("xsR"), called(0), "end suspended", "tsR"),
        (open("xx"), waits(0), "", "cx"),
        (open("x"), waits(0), "end suspended", "c"),
        (open("tX"), waits(1), "end suspended", "tC"),
        // A child that was started is awaited, once; then its call has its result, or waits with the child.
        (open("xx"), child(0), "child 0", "wx"),
        (open("wx"), child(0), "", "wx"),
        (open("wx"), called(1), "", "wt"),
        (awaiting("wx"), taken(0, "t"), "", "tx"),
        (awaiting("wt"), taken(0, "t"), "settle", "tt"),
        (awaiting("wc"), taken(0, "t"), "end suspended", "tc"),
        (awaiting("wt"), taken(0, "s"), "end suspended", "st"),
        (awaiting("ws"), taken(0, "t"), "end suspended", "ts"),
        (awaiting("wR"), taken(0, "t"), "tool 1", "tX"),
        // Calls of companion tools begin one after another, beside the regular ones.
        (starting("1r1"), started(), "tool 0, tool 1", "3x1"),
        (open("3x1"), called(0), "tool 2", "9x3"),
        (open("3x1"), called(1), "", "3t1"),
        (open("31"), child(0), "child 0, tool 1", "73"),
        (open("3R"), called(0), "tool 1", "9X"),
        (open("93"), called(1), "settle", "99"),
        (awaiting("7R"), taken(0, "s"), "end suspended", "8R"),
        (starting("62"), started(), "child 0, tool 1 unknown", "73"),
        // A process that takes over waits for the children beside the calls that are left.
        (starting("krs"), started(), "child 0, tool 1", "wxs"),
        (starting("ksR"), started(), "child 0", "wsR"),
        (doing("ts"), answered("tk"), "child 1", "tw"),
        // A call that was started before a crash is resolved, not simply run.
        (starting("ruU"), started(), "tool 0, tool 1 unknown", "xxU"),
        (starting("tU"), started(), "tool 1 unknown", "tX"),
        // Answers that arrived before the run could suspend.
        (doing("tca"), answered("tta"), "end suspended", "tta"),
        (doing("tca"), answered("ttr"), "tool 2", "ttx"),
        (doing("tcR"), answered("ttR"), "tool 2", "ttX"),
        (doing("tc"), answered("tt"), "settle", "tt"),
        // A call that ends the run: running calls are awaited, and no other call begins.
        (open("xx"), fatal(0), "", "tx"),
        (open("xcR"), fatal(0), "settle", "tcR"),
    ];
    for (before, event, effects, after) in rows {
        let row = format!("{} and {event:?}", calls(&before));
        let (state, given) = decide(&facts(), before, event);
        assert_eq!(
            (words(&given).as_str(), calls(&state)),
            (effects, after.to_owned()),
            "{row}"
        );
    }
}

#[test]
fn a_fatal_call_settles_when_the_last_sibling_ends() {
    let open = json!({ "id": "step-1", "calls": "txcR", "fatal": true });
    let (state, effects) = decide(&facts(), state(json!({ "open": open })), called(1));
    assert_eq!(
        (words(&effects).as_str(), calls(&state)),
        ("settle", "ttcR".to_owned())
    );
}

#[test]
fn a_settled_step_is_followed_by_the_next_model_call() {
    let settled = |keys: Value| {
        let base = json!({ "n": 9, "what": "settled", "steps": 1, "corrections": 0 });
        event(with(base, keys))
    };
    // A call that was the last one settles its step itself.
    for before in [open("tx"), with_doing(open("tt"))] {
        let (state, effects) = decide(&facts(), before, settled(json!({})));
        assert_eq!((state.steps, state.open), (1, None));
        assert_eq!(words(&effects), "model 1 left 2");
    }
    let (state, effects) = decide(
        &facts(),
        open("tx"),
        settled(json!({ "ended": "completed" })),
    );
    assert!(state.is_ended() && effects.is_empty());
    let forced = settled(json!({ "corrections": 1 }));
    let (_, effects) = decide(&facts(), open("tx"), forced);
    assert_eq!(words(&effects), "model 1 left 1 forced");
}

fn with_doing(mut state: RunState) -> RunState {
    state.doing = Some(state.effects);
    state
}

/// The last allowed step is marked; steps in which an output is missing do not count.
#[test]
fn the_last_allowed_step_is_marked_as_the_last() {
    let two = with(
        serde_json::to_value(facts()).unwrap(),
        json!({ "maxSteps": 2 }),
    );
    let two: AgentLimits = serde_json::from_value(two).unwrap();
    for (keys, effect) in [
        (json!({ "steps": 0 }), "model 1 left 2"),
        (json!({ "steps": 1 }), "model 1 left 2 last"),
        (
            json!({ "steps": 2, "corrections": 1 }),
            "model 1 left 1 forced",
        ),
        (
            json!({ "steps": 3, "corrections": 2 }),
            "model 1 left 0 forced",
        ),
        // A fresh budget begins after the steps before it.
        (json!({ "steps": 2, "budgetFrom": 2 }), "model 1 left 2"),
        (
            json!({ "steps": 3, "budgetFrom": 2 }),
            "model 1 left 2 last",
        ),
        (json!({ "first": true }), "first model 1 left 2"),
        (json!({ "resync": true }), "model 1 left 2 resync"),
    ] {
        let (_, effects) = decide(&two, state(keys), Event::started());
        assert_eq!(words(&effects), effect);
    }
}

/// Waits 1, 2 and 4 seconds, or as long as the provider asks for; then the turn fails.
#[test]
fn a_failed_model_call_is_retried_with_back_off() {
    for (attempt, event, effect) in [
        (1, failed(true), "sleep 2000"),
        (2, failed(true), "sleep 3000"),
        (3, failed(true), "sleep 5000"),
        (4, failed(true), "end failed provider_overloaded"),
        (1, failed(false), "end failed provider_overloaded"),
    ] {
        let before = state(json!({ "attempt": attempt, "effects": 1, "doing": 1 }));
        let (_, effects) = decide(&facts(), before, event);
        assert_eq!(words(&effects), effect, "attempt {attempt}");
    }
    let asks = with(
        serde_json::to_value(failed(true)).unwrap(),
        json!({ "retryAfterMs": 90_000 }),
    );
    let before = state(json!({ "effects": 1, "doing": 1 }));
    let (state, effects) = decide(&facts(), before, serde_json::from_value(asks).unwrap());
    assert_eq!(words(&effects), "sleep 91000");
    let slept = event(json!({ "n": 2, "what": "slept" }));
    let (state, effects) = decide(&facts(), state, slept);
    assert_eq!(
        (words(&effects).as_str(), state.attempt),
        ("model 2 left 2", 2)
    );
}

/// After a stop request nothing new begins, and running calls are awaited.
#[test]
fn a_stop_waits_for_running_calls() {
    let (state, effects) = decide(&facts(), open("xxrR"), called(0).with_stop(true));
    assert_eq!(
        (words(&effects).as_str(), calls(&state)),
        ("", "txrR".to_owned())
    );
    let (_, effects) = decide(&facts(), state, called(1));
    assert_eq!(words(&effects), "end stopped");
    let before = with_doing(open("tt"));
    let settled = event(json!({ "n": 9, "what": "settled", "steps": 1, "corrections": 0 }));
    let (_, effects) = decide(&facts(), before, settled.with_stop(true));
    assert_eq!(words(&effects), "end stopped");
    let before = state_doing_model();
    let (_, effects) = decide(&facts(), before, failed(true).with_stop(true));
    assert_eq!(words(&effects), "end stopped");
}

fn state_doing_model() -> RunState {
    state(json!({ "effects": 1, "doing": 1 }))
}

/// An event that belongs to no effect in progress changes nothing.
#[test]
fn an_event_without_an_effect_in_progress_changes_nothing() {
    let settled = |n: u32, step: u32| {
        event(json!({ "n": n, "step": step, "what": "settled", "steps": step, "corrections": 0 }))
    };
    let other_step = event(json!({
        "n": 5, "step": 2, "what": "called", "index": 0, "standing": "t", "size": 1,
    }));
    let ended = state(json!({ "ended": "completed", "effects": 9, "doing": 9 }));
    for (before, event) in [
        (open("tx"), called(0)),
        (open("cx"), called(0)),
        (open("x"), called(7)),
        (open("x"), other_step),
        (open("x"), settled(9, 2)),
        (open("tc"), settled(9, 1)),
        (open("x"), Event::started()),
        (open("x"), event(json!({ "n": 9, "what": "slept" }))),
        (with_doing(open("tt")), settled(8, 1)),
        (
            with_doing(open("tt")),
            event(json!({ "n": 8, "what": "ended", "status": "failed" })),
        ),
        (ended.clone(), Event::started()),
        (ended, settled(9, 1)),
    ] {
        let (after, effects) = decide(&facts(), before.clone(), event.clone());
        assert_eq!((after, effects), (before, Vec::new()), "{event:?}");
    }
}
