//! Randomly generated runs: replayed, with repeated events, and measured.

use std::collections::BTreeSet;

use helix_agents_core::machine::{CallStatus, Effect, EffectKind, Event, RunEnd, RunState, decide};
use helix_agents_core::session::CallPhase;
use helix_agents_core::stored::encode;
use proptest::prelude::*;
use proptest::sample::Index;
use serde_json::{Value, json};

use super::{facts, with};

fn start() -> RunState {
    serde_json::from_value(json!({
        "sessionId": "s", "rootSessionId": "s", "runId": "run-1", "agentType": "agent",
        "fence": 1, "turn": 1, "steps": 0, "attempt": 1, "first": true, "effects": 0,
    }))
    .unwrap()
}

/// The record of a run: every event, and what followed it.
#[derive(Debug)]
struct Recorded {
    events: Vec<Event>,
    followed: Vec<(RunState, Vec<Effect>)>,
}

/// Chooses a random event for an effect.
fn event_of(effect: &Effect, state: &RunState, dice: &mut impl FnMut(usize) -> usize) -> Event {
    let at = &effect.at;
    let settled = |ended: Option<&str>, corrections: u32| {
        let settled = json!({ "what": "settled", "steps": at.step, "corrections": corrections });
        match ended {
            Some(ended) => with(settled, json!({ "ended": ended })),
            None => settled,
        }
    };
    let stands = state.open.as_ref().map(|open| open.calls.to_string());
    let stands = stands.unwrap_or_default();
    let what = match &effect.kind {
        EffectKind::Model { .. } => match dice(6) {
            0 => settled(Some("completed"), state.corrections),
            1 => settled(None, state.corrections + 1),
            2 => {
                let error = json!({
                    "code": "provider_overloaded", "category": "provider",
                    "retryable": dice(4) > 0, "message": "m", "detail": "d",
                });
                json!({ "what": "model_failed", "error": error, "now": 1_000 })
            }
            _ => {
                let count = 1 + dice(5);
                let letters = ['r', 'r', 'r', 't', 'c', 'a', 'R', 'R', '1', '1', '9'];
                let mut calls: String = (0..count).map(|_| letters[dice(11)]).collect();
                if calls.chars().all(|call| matches!(call, 't' | '9')) {
                    calls.push('r');
                }
                json!({ "what": "replied", "open": { "id": "step-1", "calls": calls } })
            }
        },
        EffectKind::Tool { index, .. } => {
            let others = stands.char_indices();
            let mut others = others.filter(|(place, _)| *place != *index as usize);
            let is_last = others.all(|(_, call)| matches!(call, 't' | 'T' | '9'));
            match dice(8) {
                0..=2 if is_last => settled(None, state.corrections),
                3 if is_last => settled(Some("completed"), state.corrections),
                4 => json!({ "what": "called", "index": index, "standing": "c", "size": 0 }),
                6 => json!({ "what": "called", "index": index, "standing": "k", "size": 0 }),
                dice => json!({
                    "what": "called", "index": index, "standing": "t", "size": 9,
                    "fatal": dice == 5,
                }),
            }
        }
        EffectKind::Child { index } => {
            let standing = if dice(4) == 0 { "s" } else { "t" };
            json!({ "what": "called", "index": index, "standing": standing, "size": 9 })
        }
        EffectKind::Settle {} => {
            let fatal = state.open.as_ref().is_some_and(|open| open.fatal);
            let ended = if fatal { Some("failed") } else { None };
            settled(ended, state.corrections)
        }
        EffectKind::Sleep { .. } => json!({ "what": "slept" }),
        EffectKind::End {
            as_: RunEnd::Suspended {},
        } if dice(3) > 0 => {
            // Some answers arrived: a client's is a result, a person's approves the call.
            let calls: String = stands
                .chars()
                .map(|call| match call {
                    'c' if dice(2) == 0 => 't',
                    'a' if dice(2) == 0 => 'r',
                    's' if dice(2) == 0 => 'k',
                    '4' if dice(2) == 0 => '9',
                    '8' if dice(2) == 0 => '6',
                    'C' => 'T',
                    other => other,
                })
                .collect();
            json!({ "what": "answered", "open": { "id": "step-1", "calls": calls } })
        }
        EffectKind::End { as_ } => {
            let status = match as_ {
                RunEnd::Suspended {} => "suspended_client_tool",
                RunEnd::Failed { .. } => "failed",
                _ => "interrupted",
            };
            json!({ "what": "ended", "status": status })
        }
        other => panic!("no run asks for {other:?}"),
    };
    let stop = dice(40) == 0;
    let base = json!({ "n": at.n, "step": at.step, "stop": stop });
    serde_json::from_value(with(base, what)).unwrap()
}

/// Drives a run with random outcomes, effects answered in any order.
fn record(choices: &[Index]) -> Recorded {
    let mut choices = choices.iter();
    let mut dice = |sides: usize| choices.next().map_or(0, |choice| choice.index(sides));
    let mut recorded = Recorded {
        events: Vec::new(),
        followed: Vec::new(),
    };
    let mut under_way: Vec<Effect> = Vec::new();
    let mut state = start();
    let mut event = Event::started();
    for _ in 0..60 {
        recorded.events.push(event.clone());
        let (next, effects) = decide(&facts(), state, event);
        recorded.followed.push((next.clone(), effects.clone()));
        state = next;
        under_way.extend(effects);
        if under_way.is_empty() {
            break;
        }
        let effect = under_way.remove(dice(under_way.len()));
        event = event_of(&effect, &state, &mut dice);
    }
    recorded
}

fn choices() -> impl Strategy<Value = Vec<Index>> {
    proptest::collection::vec(any::<Index>(), 0..240)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..Default::default() })]

    /// The same events give the same states and effects, also through their stored form.
    #[test]
    fn a_replayed_log_rebuilds_states_and_effects(choices in choices()) {
        let recorded = record(&choices);
        let log = serde_json::to_string(&recorded.events).unwrap();
        let log: Vec<Event> = serde_json::from_str(&log).unwrap();
        let mut state = start();
        for (event, followed) in log.into_iter().zip(&recorded.followed) {
            let (next, effects) = decide(&facts(), state, event);
            prop_assert_eq!(&(next.clone(), effects), followed);
            let text = encode(&next).unwrap();
            state = helix_agents_core::stored::decode(&text).unwrap();
        }
    }

    /// An event that is repeated, at any later time, changes nothing.
    #[test]
    fn a_repeated_event_changes_nothing(choices in choices()) {
        let recorded = record(&choices);
        for (at, (state, _)) in recorded.followed.iter().enumerate() {
            for event in &recorded.events[..=at] {
                let (after, effects) = decide(&facts(), state.clone(), event.clone());
                prop_assert_eq!((&after, effects), (state, Vec::new()), "{:?}", event);
            }
        }
    }

    /// Effects are numbered once, one that is not a tool is exclusive, and calls that may finish
    /// the turn run one at a time, when every regular call has its result.
    #[test]
    fn effects_respect_the_call_phases(choices in choices()) {
        let recorded = record(&choices);
        let mut seen = BTreeSet::new();
        let mut greeted = 0;
        for (state, effects) in &recorded.followed {
            for effect in effects {
                prop_assert!(seen.insert(effect.at.n), "an effect has a number of its own");
                let is_tool = matches!(
                    effect.kind,
                    EffectKind::Tool { .. } | EffectKind::Child { .. }
                );
                greeted += usize::from(effect.first && is_tool);
                prop_assert!(is_tool || effects.len() == 1);
                prop_assert!(is_tool || state.doing == Some(effect.at.n));
            }
            let open = state.open.iter();
            let calls: Vec<_> = open.flat_map(|open| open.calls.as_slice()).collect();
            let running = |phase| {
                let of = calls.iter().filter(move |call| call.phase == phase);
                of.filter(|call| call.standing == CallStatus::Running).count()
            };
            let finishing = running(CallPhase::Finish);
            prop_assert!(finishing <= 1);
            prop_assert!(running(CallPhase::Companion) <= 1);
            let first = calls.iter().filter(|call| call.phase != CallPhase::Finish);
            let all_done = first.into_iter().all(|call| call.standing == CallStatus::Terminal);
            prop_assert!(finishing == 0 || all_done);
            prop_assert!(state.ended.is_none() || effects.is_empty());
        }
        prop_assert!(greeted <= 1, "a run begins once");
    }
}

/// However many calls a reply makes, and however long its names are, the run state stays small.
#[test]
fn a_step_of_two_thousand_calls_is_a_small_run_state() {
    let long = "x".repeat(200);
    let calls: String = "ruxcastRUXT".chars().cycle().take(2_000).collect();
    let state: RunState = serde_json::from_value(with(
        serde_json::to_value(start()).unwrap(),
        json!({
            "sessionId": long, "rootSessionId": long, "runId": long, "agentType": "a".repeat(64),
            "open": { "id": long, "calls": calls }, "effects": u32::MAX, "steps": u32::MAX,
            "doing": u32::MAX, "fence": u64::MAX,
        }),
    ))
    .unwrap();
    let text = encode(&state).unwrap();
    assert!(text.len() < 16 * 1024, "{} bytes", text.len());
    let back: RunState = helix_agents_core::stored::decode(&text).unwrap();
    assert_eq!(back, state);
    let value: Value = serde_json::from_str(&text).unwrap();
    assert!(value.is_array());
}
