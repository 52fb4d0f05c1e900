//! Hosts that violate their contract. The crash test has to notice.

use async_trait::async_trait;
use helix_agents_core::machine::{CallStatus, Effect, EffectKind, Event, EventKind};
use helix_agents_core::perform::{Attempt, PerformError, Ports, perform};
use helix_agents_core::session::{CallState, EffectState};
use helix_agents_core::store::{Change, Commit, Precondition};
use helix_agents_testkit::crash::{CrashTest, Scenario};
use helix_agents_testkit::{Host, block_on, scenarios};

/// Writes to the session of an effect without any precondition.
async fn meddle(effect: &Effect, ports: &Ports, change: Change) {
    let at = &effect.at;
    let commit = Commit::new(at.root_session_id.clone(), ports.clock.now())
        .when(Precondition::Fence(at.fence))
        .then(change);
    ports.store.commit(commit).await.unwrap();
}

/// Runs a call again whose result is durable.
struct RunsTwice;

#[async_trait]
impl Host for RunsTwice {
    async fn perform(&self, effect: Effect, ports: &Ports) -> Result<Event, PerformError> {
        let event = perform(&effect, Attempt::First, ports).await?;
        let session = &effect.at.session_id;
        let open = ports
            .store
            .load(session.as_root())
            .await?
            .unwrap()
            .open_step;
        let (EffectKind::Tool { index, .. }, Some(open)) = (&effect.kind, open) else {
            return Ok(event);
        };
        let (call, finished) = open.call(*index as usize).unwrap();
        let mut again = finished.clone();
        again.state = CallState::Ready;
        again.result = None;
        if let Some(effect) = &mut again.effect {
            effect.state = EffectState::Intended;
        }
        let id = call.id.clone();
        meddle(
            &effect,
            ports,
            Change::OpenCall(*index, id, Box::new(again)),
        )
        .await;
        perform(&effect, Attempt::First, ports).await
    }
}

/// Reports the result of a call without having waited for it.
struct SettlesEarly;

#[async_trait]
impl Host for SettlesEarly {
    async fn perform(&self, effect: Effect, ports: &Ports) -> Result<Event, PerformError> {
        let EffectKind::Tool { index, .. } = effect.kind else {
            return perform(&effect, Attempt::First, ports).await;
        };
        Ok(Event::of(
            &effect.at,
            EventKind::Called {
                index,
                standing: CallStatus::Terminal,
                finishes: false,
                size: 0,
                fatal: false,
            },
        ))
    }
}

/// Loses a durable reply, and requests it again.
struct BuysTwice;

#[async_trait]
impl Host for BuysTwice {
    async fn perform(&self, effect: Effect, ports: &Ports) -> Result<Event, PerformError> {
        let event = perform(&effect, Attempt::First, ports).await?;
        if !matches!(event.what, EventKind::Replied { .. }) {
            return Ok(event);
        }
        meddle(&effect, ports, Change::OpenStep(None)).await;
        meddle(&effect, ports, Change::Effect(0, None)).await;
        perform(&effect, Attempt::First, ports).await
    }
}

/// Returns the violations that the crash test finds with a host.
fn verdict(scenario: Scenario, host: impl Host + 'static) -> Vec<String> {
    let test = CrashTest::new(scenario).on(host);
    block_on(test.every_point(super::store)).violations
}

#[test]
fn a_host_that_runs_a_finished_call_again_is_noticed() {
    let violations = verdict(scenarios::three_tools_in_parallel(), RunsTwice);
    let again = violations.iter().filter(|text| text.contains("was run"));
    assert!(again.count() > 0, "{violations:#?}");
}

#[test]
fn a_host_that_settles_before_results_are_durable_is_noticed() {
    let violations = verdict(scenarios::three_tools_in_parallel(), SettlesEarly);
    let early = violations.iter().filter(|text| text.contains("instead of"));
    assert!(early.count() > 0, "{violations:#?}");
}

#[test]
fn a_host_that_buys_a_reply_twice_is_noticed() {
    let violations = verdict(scenarios::three_tools_in_parallel(), BuysTwice);
    let twice = violations
        .iter()
        .filter(|text| text.contains("the model was asked") || text.contains("was repeated"));
    assert!(twice.count() > 0, "{violations:#?}");
}
