//! A commit: judged on remembered headers, and written in one round trip if the database has the same ones.

use std::collections::BTreeMap;
use std::sync::Arc;

use helix_agents_core::SessionId;
use helix_agents_core::store::{Change, Commit, Plan, Precondition, Receipt, StoreError, plan};
use helix_agents_core::stream::Sequence;
use helix_agents_core::time::Timestamp;

use crate::cuts;
use crate::headers::{self, ReadHeaders};
use crate::listeners::{Subject, Topic};
use crate::operation_error::OperationError;
use crate::remembered::{Known, KnownState};
use crate::store::Inner;
use crate::write::{self, Written};
use crate::write_plan::{self, PreparedCommit};

/// How often a commit is judged again because others were faster.
const ATTEMPTS: usize = 200;

/// The states that are remembered of the sessions of a commit.
pub(crate) type States = BTreeMap<SessionId, KnownState>;

/// Makes a commit.
///
/// A refusal is returned only if it was judged on headers that were read for this commit: remembered ones may be
/// out of date. A plan that was made on headers that are out of date is not written, and made again.
pub(crate) async fn commit(on: &Inner, commit: Commit) -> Result<Receipt, OperationError> {
    let _turn = on.turns.of(&commit.root).await;
    let sessions = commit.sessions();
    let mut is_fresh = !may_be_remembered(on, &commit);
    for _ in 0..ATTEMPTS {
        let mut states = States::new();
        let remembered = match is_fresh {
            true => None,
            false => remembered(on, &commit, &sessions, &mut states),
        };
        is_fresh = remembered.is_none();
        let read = match remembered {
            Some(read) => read,
            None => headers::read(on, &sessions).await?,
        };
        let planned = match planned(on, &commit, &read).await {
            Ok(plan) => write_plan::prepare(on, &commit.root, &read, plan, &mut states).await,
            Err(error) => Err(error),
        };
        let prepared = match planned {
            Ok(prepared) => prepared,
            // Somebody else may have changed what this process remembers.
            Err(OperationError::Refused(error)) if !is_fresh && is_judgement(&error) => {
                is_fresh = true;
                continue;
            }
            Err(error) => {
                remember(on, &read, states);
                return Err(error);
            }
        };
        let ended = ends_stream_at(on, &prepared, &read).await?;
        match write::commit(on, &commit.root, &prepared, ended).await? {
            Written::Done(sequence) => {
                // The end of a stream that this store had before is of no use.
                let is_sequence = prepared.leaves || !on.config.outbox;
                let sequence = Some(sequence).filter(|_| is_sequence).unwrap_or_default();
                return Ok(finish(on, &commit, &read, prepared, states, sequence));
            }
            Written::Conflict => is_fresh = true,
        }
    }
    Err(OperationError::overtaken(ATTEMPTS))
}

/// Whether an error is one of the rules, and not one of the database.
fn is_judgement(error: &StoreError) -> bool {
    !matches!(
        error,
        StoreError::Unavailable { .. } | StoreError::Backend { .. } | StoreError::Full { .. }
    )
}

/// Whether a commit may be judged on remembered headers, and by the time as this process knows it. Whether a lease has
/// lapsed is judged by a time that is read.
fn may_be_remembered(on: &Inner, commit: &Commit) -> bool {
    let mut conditions = commit.preconditions.iter();
    let asks_for_lease = conditions.any(|(_, one)| *one == Precondition::LeaseFree);
    let knows_time = on.config.clock.is_some() || on.clock.now().is_some();
    knows_time && !asks_for_lease
}

/// The headers that a commit names, if all of them are remembered. A session that the commit creates is taken to be
/// absent if it is not remembered.
fn remembered(
    on: &Inner,
    commit: &Commit,
    sessions: &[SessionId],
    states: &mut States,
) -> Option<ReadHeaders> {
    let creates = |session: &SessionId| {
        let mut changes = commit.changes.iter();
        changes.any(|(of, change)| of == session && matches!(change, Change::Create(_)))
    };
    let mut read = ReadHeaders {
        named: sessions.to_vec(),
        floor: on.remembered.floor(),
        ..ReadHeaders::default()
    };
    for session in sessions {
        match on.remembered.take(session) {
            Some(known) => {
                read.keys.insert(session.clone(), known.key);
                read.headers.insert(session.clone(), known.header);
                if let Some(state) = known.state {
                    states.insert(session.clone(), state);
                }
            }
            None if creates(session) => {}
            None => {
                remember(on, &read, std::mem::take(states));
                return None;
            }
        }
    }
    Some(read)
}

/// Remembers headers as they were read.
fn remember(on: &Inner, read: &ReadHeaders, mut states: States) {
    for (session, header) in read.headers.iter() {
        if let Some(key) = read.keys.get(session) {
            let known = Known {
                key: *key,
                header: Arc::clone(header),
                state: states.remove(session),
            };
            on.remembered.put(session.clone(), known);
        }
    }
}

async fn planned(on: &Inner, commit: &Commit, read: &ReadHeaders) -> Result<Plan, OperationError> {
    let now = now(on, read).await?;
    let kept = cuts::whole_steps(on, commit, read).await?;
    let whole_steps = |session: &SessionId, count: usize| {
        let kept = kept.get(&(session.clone(), count)).copied();
        kept.ok_or_else(|| StoreError::NotFound {
            session: session.clone(),
        })
    };
    let floor = || Ok(read.floor);
    let limits = on.config.limits;
    Ok(plan(
        commit.clone(),
        &read.headers,
        now,
        limits,
        floor,
        whole_steps,
    )?)
}

/// The time by which a commit is judged.
async fn now(on: &Inner, read: &ReadHeaders) -> Result<Timestamp, OperationError> {
    match read.now.filter(|_| on.config.clock.is_none()) {
        Some(now) => Ok(now),
        None => on.now().await,
    }
}

/// The time at which a turn ends with this commit, if it does.
async fn ends_stream_at(
    on: &Inner,
    prepared: &PreparedCommit,
    read: &ReadHeaders,
) -> Result<Option<Timestamp>, OperationError> {
    match prepared.ends_turn && on.config.keep_deltas.is_some() {
        true => Ok(Some(now(on, read).await?)),
        false => Ok(None),
    }
}

/// Remembers what was written, tells of it, and returns the receipt.
fn finish(
    on: &Inner,
    commit: &Commit,
    read: &ReadHeaders,
    prepared: PreparedCommit,
    mut states: States,
    sequence: Sequence,
) -> Receipt {
    let PreparedCommit { plan, keys, .. } = prepared;
    if let Some(floor) = plan.floor {
        on.remembered.floor_is(floor);
    }
    let changed = plan.headers.iter();
    let changed = changed.filter_map(|(session, header)| Some((session, header.as_ref()?)));
    let unchanged = read.headers.iter();
    let unchanged = unchanged.filter(|(session, _)| !plan.headers.contains_key(*session));
    for (session, header) in changed.chain(unchanged) {
        if let Some(key) = keys.get(session) {
            let known = Known {
                key: *key,
                header: Arc::clone(header),
                state: states.remove(session),
            };
            on.remembered.put(session.clone(), known);
        }
    }
    let mut told: Vec<Topic> = commit
        .stopped_sessions()
        .map(|session| Topic::new(Subject::Stops, session))
        .collect();
    if prepared.writes_stream || matches!(plan.headers.get(&commit.root), Some(None)) {
        told.push(Topic::new(Subject::Stream, &commit.root));
    }
    on.tell(told);
    plan.receipt(&read.headers, sequence)
}
