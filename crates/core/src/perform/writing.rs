//! The commits of effects: what they hold, and how they are made.

use std::sync::Arc;

use super::patience::Patience;
use super::recorded::recorded;
use super::work::{Work, forget, read, remember};
use super::{PerformError, Ports};
use crate::id::{AgentId, IdSourceExt};
use crate::machine::{At, Effect, EffectKind, Event};
use crate::session::{Checkpoint, OpenCall, OpenStep, SessionStatus};
use crate::store::{
    Change, Commit, Committed, EffectPlace, OpenMark, Precondition, Receipt, Snapshot, StoreError,
};
use crate::stream::{Chunk, ChunkBase, ChunkPayload};
use crate::time::Timestamp;

/// The commit of an effect. It cannot be made by a run that was taken over, nor once the effect, or a
/// later one of its run, was committed.
pub(super) fn begin(effect: &Effect, work: &Work, now: Timestamp) -> Commit {
    let at = &effect.at;
    let session = || at.session_id.clone();
    let commit = fenced(at, now);
    match (&effect.kind, &work.open) {
        (EffectKind::Tool { index, .. }, Some(open)) => {
            let (step, index) = (open.id.clone(), *index);
            let place = usize::try_from(index).ok();
            let call = place.and_then(|place| open.calls.get(place));
            let attempt = call.map_or(0, OpenCall::attempts);
            let open = Precondition::OpenCall {
                step,
                index,
                attempt,
            };
            commit.when_in(session(), open)
        }
        _ => {
            let place = EffectPlace::new(at.run_id.clone(), at.step, at.n, work.attempt);
            commit
                .when_in(session(), Precondition::Effect(place))
                .then_in(session(), Change::Effect(at.n, None))
        }
    }
}

/// A commit of a run, which a run that was taken over cannot make.
pub(super) fn fenced(at: &At, now: Timestamp) -> Commit {
    Commit::new(at.root_session_id.clone(), now)
        .when_in(at.session_id.clone(), Precondition::Fence(at.fence))
}

/// The open step is as it was read: no call has come to anything since.
pub(super) fn as_read(commit: Commit, at: &At, open: Option<&OpenStep>) -> Commit {
    let open = open.map(OpenMark::of);
    commit.when_in(at.session_id.clone(), Precondition::Open(open))
}

/// Adds changes of the effect's session.
pub(super) fn then(commit: Commit, at: &At, changes: impl IntoIterator<Item = Change>) -> Commit {
    let changes = changes.into_iter();
    changes.fold(commit, |commit, change| {
        commit.then_in(at.session_id.clone(), change)
    })
}

/// Tells readers something.
pub(super) fn say(
    commit: Commit,
    base: &Arc<ChunkBase>,
    now: Timestamp,
    payloads: impl IntoIterator<Item = ChunkPayload>,
) -> Commit {
    let payloads = payloads.into_iter();
    payloads.fold(commit, |commit, payload| {
        commit.say(Chunk::new(Arc::clone(base), now, payload))
    })
}

/// A checkpoint of what the session is after a commit, and the chunk that tells of it.
pub(super) fn checkpoint(
    at: &At,
    ports: &Ports,
    now: Timestamp,
) -> Result<(Checkpoint, ChunkPayload), PerformError> {
    let checkpoint = Checkpoint::new(
        ports.ids.checkpoint_id()?,
        at.session_id.clone(),
        at.run_id.clone(),
        SessionStatus::Active,
        now,
    );
    let created = ChunkPayload::CheckpointCreated {
        checkpoint_id: checkpoint.id.clone(),
    };
    Ok((checkpoint, created))
}

/// The base of an effect's chunks.
pub(super) fn base(at: &At) -> Arc<ChunkBase> {
    Arc::new(ChunkBase::new(
        AgentId::of_session(&at.session_id),
        &at.agent_type,
        at.session_id.clone(),
        at.run_id.clone(),
        at.step,
    ))
}

/// What a commit came to.
pub(super) enum Written {
    /// It was made, and the session is this now.
    Now(Committed),
    /// It, or that of another attempt, had been made before: this is what it came to.
    Before(Event),
}

/// Makes the commit of an effect. While the store cannot be reached it is tried again: what was paid
/// for is not thrown away. A commit whose acknowledgement was lost is never made again before a look
/// has shown that it was not made.
///
/// `commit` puts it together: once, and again when it has to be made again. It gives the same commit
/// each time, with the same ids and instants.
pub(super) async fn write(
    effect: &Effect,
    ports: &Ports,
    commit: impl Fn() -> Commit,
) -> Result<Written, PerformError> {
    match make(effect, ports, commit, |found| recorded(effect, found)).await? {
        Made::Now(committed) => Ok(Written::Now(committed)),
        Made::Before(event) => Ok(Written::Before(event)),
    }
}

/// What became of a commit.
pub(super) enum Made<T> {
    /// It was made, and the session is this now.
    Now(Committed),
    /// It had been made before, as a look has shown.
    Before(T),
}

/// Makes a commit that `commit` puts together; `made` finds out by what is stored whether it was made
/// before.
pub(super) async fn make<T>(
    effect: &Effect,
    ports: &Ports,
    commit: impl Fn() -> Commit,
    made: impl Fn(&Snapshot) -> Option<T>,
) -> Result<Made<T>, PerformError> {
    let at = &effect.at;
    let mut patience = Patience::new(ports);
    let limits = ports.streams.limits();
    loop {
        ports.held(at).await?;
        let error = match ports.store.commit(commit().fitting(limits)).await {
            Ok(receipt) => {
                let sequence = receipt.sequence;
                remember(ports, |memo| {
                    if let Some(work) = memo {
                        work.sequence = Some(sequence);
                    }
                });
                return Ok(Made::Now(of_session(receipt, at)));
            }
            Err(error) => error,
        };
        forget(ports);
        let is_overtaken = is_overtaken(effect, &error);
        if !is_overtaken {
            // Also when the patience is over: what was made is told.
            let over = patience.bear(error, ports).await.err();
            if let Some(error) = over {
                return Err(error);
            }
        }
        let found = read(at, ports).await?;
        if let Some(before) = made(&found) {
            return Ok(Made::Before(before));
        }
        if is_overtaken {
            return Err(PerformError::Overtaken {
                session: at.session_id.clone(),
            });
        }
    }
}

/// Whether an effect, or a call, was committed by another attempt.
fn is_overtaken(effect: &Effect, error: &StoreError) -> bool {
    let StoreError::Refused { expected, .. } = error else {
        return false;
    };
    match expected {
        Precondition::Effect(_) | Precondition::OpenCall { .. } => true,
        // Somebody else's reply is there.
        Precondition::Open(None) => matches!(effect.kind, EffectKind::Model { .. }),
        _ => false,
    }
}

fn of_session(mut receipt: Receipt, at: &At) -> Committed {
    receipt.sessions.remove(&at.session_id).unwrap_or_default()
}
