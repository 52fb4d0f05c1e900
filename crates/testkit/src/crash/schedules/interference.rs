//! Tasks that answer, stop and append messages while runs are performed.

use std::sync::Arc;

use helix_agents_core::message::{Message, UserMessage};
use helix_agents_core::store::{Sessions, StoreError};

use super::context::{ScheduleContext, WriteOutcome, is_temporary};
use crate::yields;

/// The message that is appended while a run is performed.
pub(super) const BESIDE: &str = "By the way.";

/// Starts the tasks that the schedule asks for.
pub(super) fn begin(context: &Arc<ScheduleContext>) {
    let spawner = &context.spawner;
    if context.eager {
        let context = Arc::clone(context);
        spawner.spawn(async move { answer(&context).await });
    }
    if context.stop.is_some() {
        let context = Arc::clone(context);
        spawner.spawn(async move { stop(&context).await });
    }
    if context.append {
        let context = Arc::clone(context);
        spawner.spawn(async move { append(&context).await });
    }
}

/// Yields at most so many times. Returns false when the play is over.
async fn moment(context: &ScheduleContext, most: usize) -> bool {
    yields(context.dice.below(most)).await;
    !context.ledger().over
}

/// Answers open questions at random moments, also those that others answer.
async fn answer(context: &ScheduleContext) {
    for _ in 0..12 {
        if !moment(context, 40).await {
            return;
        }
        let open = match context.open_questions() {
            Ok(open) => open,
            Err(why) => return context.ledger().violations.push(why),
        };
        let place = context.dice.below(open.len());
        let Some(call) = open.get(place) else {
            continue;
        };
        match context.answer(call).await {
            // The run may have ended meanwhile; the final checks judge that.
            Ok(_) => {}
            Err(error) if is_temporary(&error) => {}
            Err(error) => {
                let said = format!("an answer was refused: {error}");
                return context.ledger().violations.push(said);
            }
        }
    }
}

/// Requests a stop of the current run, once.
async fn stop(context: &ScheduleContext) {
    let Some(kind) = context.stop else { return };
    let store = context.flaky().store.as_ref();
    for _ in 0..8 {
        if !moment(context, 80).await {
            return;
        }
        let sessions = Sessions::new(store, context.clock.as_ref());
        let asked = sessions
            .request_stop(&context.world.session, kind, None)
            .await;
        let mut ledger = context.ledger();
        match asked {
            Ok(None) | Err(StoreError::NotFound { .. }) => {}
            Ok(Some(run)) => {
                if context.is_of_root(&run) {
                    ledger.stops.push((run, kind));
                }
                ledger.stop = WriteOutcome::Yes;
                return;
            }
            Err(StoreError::Unavailable { .. }) => {
                ledger.stop = WriteOutcome::Perhaps;
                return;
            }
            Err(error) => {
                let said = format!("a stop was refused: {error}");
                return ledger.violations.push(said);
            }
        }
    }
}

/// Appends a message to the history, once, whatever state the session is in.
async fn append(context: &ScheduleContext) {
    let store = context.flaky().store.as_ref();
    for _ in 0..8 {
        if !moment(context, 60).await {
            return;
        }
        let message = [Message::User(UserMessage::new(BESIDE))];
        let sessions = Sessions::new(store, context.clock.as_ref());
        let appended = sessions
            .append_messages(&context.world.session, &message, None)
            .await;
        let mut ledger = context.ledger();
        match appended {
            Err(StoreError::NotFound { .. } | StoreError::Refused { .. }) => {}
            Ok(_) => {
                ledger.appended = WriteOutcome::Yes;
                return;
            }
            Err(StoreError::Unavailable { .. }) => {
                ledger.appended = WriteOutcome::Perhaps;
                return;
            }
            Err(error) => {
                let said = format!("a message was refused: {error}");
                return ledger.violations.push(said);
            }
        }
    }
}
