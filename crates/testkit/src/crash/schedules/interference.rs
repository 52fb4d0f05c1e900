//! What others do beside the runs.

use std::sync::Arc;

use helix_agents_core::message::{Message, UserMessage};
use helix_agents_core::store::{Sessions, StoreError};

use super::context::{Once, Stage, is_temporary};
use crate::yields;

/// What somebody appends beside the run.
pub(super) const BESIDE: &str = "By the way.";

/// Lets others begin.
pub(super) fn begin(stage: &Arc<Stage>) {
    let spawner = &stage.spawner;
    if stage.eager {
        let stage = Arc::clone(stage);
        spawner.spawn(async move { answer(&stage).await });
    }
    if stage.stop.is_some() {
        let stage = Arc::clone(stage);
        spawner.spawn(async move { stop(&stage).await });
    }
    if stage.append {
        let stage = Arc::clone(stage);
        spawner.spawn(async move { append(&stage).await });
    }
}

/// Waits for a moment. False: there is nothing more to come.
async fn moment(stage: &Stage, most: usize) -> bool {
    yields(stage.dice.below(most)).await;
    !stage.ledger().over
}

/// Answers whatever is asked, whoever else does.
async fn answer(stage: &Stage) {
    for _ in 0..12 {
        if !moment(stage, 40).await {
            return;
        }
        let open = match stage.open_questions() {
            Ok(open) => open,
            Err(why) => return stage.ledger().violations.push(why),
        };
        let place = stage.dice.below(open.len());
        let Some(call) = open.get(place) else {
            continue;
        };
        match stage.answer(call).await {
            // It ended meanwhile, which is for the others to judge.
            Ok(_) => {}
            Err(error) if is_temporary(&error) => {}
            Err(error) => {
                let said = format!("an answer was refused: {error}");
                return stage.ledger().violations.push(said);
            }
        }
    }
}

/// Asks the run that goes on to stop, once.
async fn stop(stage: &Stage) {
    let Some(kind) = stage.stop else { return };
    let store = stage.flaky().store.as_ref();
    for _ in 0..8 {
        if !moment(stage, 80).await {
            return;
        }
        let sessions = Sessions::new(store, stage.clock.as_ref());
        let asked = sessions
            .request_stop(&stage.world.session, kind, None)
            .await;
        let mut ledger = stage.ledger();
        match asked {
            Ok(None) | Err(StoreError::NotFound { .. }) => {}
            Ok(Some(run)) => {
                ledger.stops.push((run, kind));
                ledger.stop = Once::Yes;
                return;
            }
            Err(StoreError::Unavailable { .. }) => {
                ledger.stop = Once::Perhaps;
                return;
            }
            Err(error) => {
                let said = format!("a stop was refused: {error}");
                return ledger.violations.push(said);
            }
        }
    }
}

/// Appends a message to the history, whatever goes on in the session.
async fn append(stage: &Stage) {
    let store = stage.flaky().store.as_ref();
    for _ in 0..8 {
        if !moment(stage, 60).await {
            return;
        }
        let message = [Message::User(UserMessage::new(BESIDE))];
        let sessions = Sessions::new(store, stage.clock.as_ref());
        let appended = sessions
            .append_messages(&stage.world.session, &message, None)
            .await;
        let mut ledger = stage.ledger();
        match appended {
            Err(StoreError::NotFound { .. } | StoreError::Refused { .. }) => {}
            Ok(_) => {
                ledger.appended = Once::Yes;
                return;
            }
            Err(StoreError::Unavailable { .. }) => {
                ledger.appended = Once::Perhaps;
                return;
            }
            Err(error) => {
                let said = format!("a message was refused: {error}");
                return ledger.violations.push(said);
            }
        }
    }
}
