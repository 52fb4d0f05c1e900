//! The rules of a commit, written once for all stores.
//!
//! A backend reads the headers of the sessions that a commit names, calls [`plan`], and writes the
//! new headers and the rows in one atomic step. Nothing here does any I/O.

mod applying;
mod labels;

use std::collections::BTreeMap;
use std::sync::Arc;

use super::header::Header;
use super::{Change, Commit, Fence, PerSession, Precondition, Receipt, Row, StoreError};
use crate::id::SessionId;
use crate::machine::CallStatus;
use crate::session::{RunStatus, SessionStatus};
use crate::stream::{
    Chunk, ChunkPayload, Sequence, StreamError, StreamLimits, StreamRewind, StreamStatus,
};
use crate::time::Timestamp;

use applying::{Applying, append_notices};

pub use labels::{MAX_LABEL_BYTES, MAX_METADATA_BYTES, MAX_METADATA_KEYS, MAX_TAGS};

/// The headers of the sessions that a commit names. A session that does not exist has none.
pub type Headers = PerSession<Arc<Header>>;

/// The writes that carry out a commit.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct Plan {
    /// The new header of each changed session; `None` if it is deleted.
    pub headers: PerSession<Option<Arc<Header>>>,
    /// The rows to write, in this order.
    pub rows: Vec<(SessionId, Row)>,
    /// The chunks to append to the root's stream, in this order.
    pub chunks: Vec<Chunk>,
    /// The new status of the root's stream.
    pub stream: Option<StreamStatus>,
    /// The chunks to remove from the root's stream before the others are appended. Sequences of removed
    /// chunks are not used again.
    pub rewind: Option<StreamRewind>,
    /// The fence at which new sessions begin from now on, because a session with a lower one is
    /// deleted. The store keeps the highest value there ever was: see [`plan`].
    pub floor: Option<Fence>,
}

impl Plan {
    /// Whether a session is deleted, even if it is created again.
    #[must_use]
    pub fn deletes(&self, session: &SessionId) -> bool {
        let mut rows = self.rows.iter();
        rows.any(|(of, row)| of == session && *row == Row::DeleteAll)
    }

    /// Returns the receipt once everything is written. `unchanged` are the headers that were only read.
    #[must_use]
    pub fn receipt(&self, unchanged: &Headers, sequence: Sequence) -> Receipt {
        let unchanged = unchanged
            .iter()
            .filter(|(id, _)| !self.headers.contains_key(*id));
        let changed = self.headers.iter();
        let changed = changed.filter_map(|(id, header)| Some((id, header.as_ref()?)));
        let sessions = unchanged.chain(changed);
        let sessions = sessions.map(|(id, header)| (id.clone(), header.committed()));
        Receipt {
            sessions: sessions.collect(),
            sequence,
        }
    }
}

/// Judges a commit and returns what to write.
///
/// `now` is the instant by the store's clock, or [`Commit::at`] for a store that has none: leases
/// are judged at it and begin at it. One clock judges all writers of a store, so a process whose
/// own clock is wrong cannot take a lease that is still valid.
///
/// `messages_kept` rounds a truncation down to whole steps: given a session and a count it returns
/// how many messages stay. A step is a message of the model and the tool messages that follow it, so:
/// start at the count, or at the number of messages if that is lower, and go down by one while the
/// message at that position (the first to be removed, counted from 0) is a
/// [`Message::Tool`](crate::message::Message::Tool). It is called at most once per truncation.
///
/// `floor` returns the highest [`Plan::floor`] that the store has seen under this root; a store may
/// keep one for all roots. It is called when a session is created, and the new session begins at
/// that fence: its id may have been used before, and a process that still performs a run of the
/// deleted session must not write to this one.
///
/// `limits` are those of the root's stream. Writing to the stream of a root that does not exist
/// is refused, and so is creating a session under it. The parent of a new session must exist
/// under the same root.
///
/// A session under another root is not visible to a commit, except that its id is taken. Creating a
/// session under a root modifies the root, so that a deletion based on an earlier read of the root
/// is refused and leaves no new session behind.
///
/// # Errors
/// [`StoreError::Refused`] for the first precondition that does not hold,
/// [`StoreError::ChunkTooLarge`], and the error of a change that is not possible; nothing is
/// to be written then.
pub fn plan(
    commit: Commit,
    headers: &Headers,
    now: Timestamp,
    limits: StreamLimits,
    mut floor: impl FnMut() -> Result<Fence, StoreError>,
    mut messages_kept: impl FnMut(&SessionId, usize) -> Result<usize, StoreError>,
) -> Result<Plan, StoreError> {
    for (session, precondition) in &commit.preconditions {
        let header = headers.get(session).map(|header| &**header);
        check(&commit.root, session, precondition, header, now)?;
    }
    let progressed = sessions_with_progress(&commit);
    let begins_child = commit.changes.iter().any(|(session, change)| {
        *session != commit.root && matches!(change, Change::StartRun(_) | Change::TakeOver)
    });
    check_chunks(&commit.root, &commit.chunks, limits)?;
    let creates_children = commit.creates_children();
    let needs_root = creates_children || commit.writes_stream();
    let new_children: BTreeMap<SessionId, SessionId> = commit
        .new_children()
        .map(|(session, parent)| (session.clone(), parent.clone()))
        .collect();
    let mut plan = Plan {
        rows: Vec::with_capacity(commit.changes.len()),
        chunks: commit.chunks,
        stream: commit.stream,
        rewind: commit.rewind,
        ..Plan::default()
    };
    // The sessions whose run this commit updates: a run that ends must not leave a step open.
    let mut with_run = PerSession::new();
    for (session, change) in commit.changes {
        if matches!(change, Change::Run(_)) {
            with_run.insert(session.clone(), ());
        }
        let header = plan
            .headers
            .get_or_insert_with(&session, || headers.get(&session).cloned());
        let mut step = Applying {
            root: &commit.root,
            session: &session,
            at: commit.at,
            now,
            rows: &mut plan.rows,
            raised: &mut plan.floor,
            floor: &mut floor,
            messages_kept: &mut messages_kept,
        };
        step.apply(header, change)?;
    }
    if needs_root {
        let root = match plan.headers.get(&commit.root) {
            Some(root) => root.as_ref(),
            None => headers.get(&commit.root),
        };
        let Some(root) = root.filter(|root| root.session.key().is_root()).cloned() else {
            return Err(StoreError::NotFound {
                session: commit.root,
            });
        };
        if creates_children {
            plan.headers.insert(commit.root.clone(), Some(root));
        }
    }
    if begins_child && !is_root_at_work(&plan, headers, &commit.root) {
        // A persistent child that works beside its root does not open the stream of a turn that is over.
        plan.stream = None;
    }
    keep_stream_open(&mut plan, &commit.root);
    if is_tree_at_rest(&plan, headers, &commit.root, &with_run) {
        plan.stream = Some(StreamStatus::Paused);
    }
    check_parents(&new_children, |parent| {
        let there = match plan.headers.get(parent) {
            Some(changed) => changed.as_ref(),
            None => headers.get(parent),
        };
        there.is_some_and(|there| *there.session.root() == commit.root)
    })?;
    for (session, header) in plan.headers.iter_mut() {
        if let Some(header) = header {
            let has_ended = with_run.contains_key(session) && !header.may_have_open_step();
            if has_ended && header.mark.open.is_some() {
                return Err(StoreError::Invalid {
                    session: session.clone(),
                    reason: STEP_IS_OPEN.to_owned(),
                });
            }
            // No step follows in this turn.
            if !header.notices.is_empty() && header.is_at_rest() {
                append_notices(Arc::make_mut(header), session, &mut plan.rows);
            }
            count_messages(&mut plan.chunks, session, header.messages);
            // One commit raises the version once, however many changes it makes.
            let before = headers
                .get(session)
                .map_or(0, |before| before.session.version);
            let header = Arc::make_mut(header);
            header.session.version = before + 1;
            header.session.updated_at = commit.at;
            if progressed.contains_key(session) {
                header.takeovers = 0;
            }
        }
    }
    Ok(plan)
}

/// Keeps the stream active at the end of a run while messages wait for the next one: its readers wait for
/// that run.
fn keep_stream_open(plan: &mut Plan, root: &SessionId) {
    let ends = matches!(
        plan.stream,
        Some(StreamStatus::Ended | StreamStatus::Failed)
    );
    let header = plan.headers.get(root).and_then(Option::as_ref);
    let waits = |header: &Arc<Header>| {
        // Messages do not end the pause of a session whose budget is used up.
        !header.inbox.is_empty() && header.session.status != SessionStatus::Paused
    };
    if ends && header.is_some_and(waits) {
        plan.stream = Some(StreamStatus::Active);
    }
}

/// Whether the root is running or suspended, or is not known here.
fn is_root_at_work(plan: &Plan, headers: &Headers, root: &SessionId) -> bool {
    let header = match plan.headers.get(root) {
        Some(changed) => changed.as_ref(),
        None => headers.get(root),
    };
    header.is_none_or(|root| !root.is_at_rest())
}

/// Whether a child that was continued by itself comes to rest under a root that still waits: readers are told that
/// nothing goes on. As far as the commit shows, no other session of the tree runs, or waits for nothing else any more:
/// where one does, the tree goes on there.
fn is_tree_at_rest(
    plan: &Plan,
    headers: &Headers,
    root: &SessionId,
    with_run: &PerSession<()>,
) -> bool {
    let header = |session: &SessionId| match plan.headers.get(session) {
        Some(changed) => changed.as_ref(),
        None => headers.get(session),
    };
    let rests =
        |session: &SessionId| session != root && header(session).is_some_and(|it| !it.is_running());
    let is_suspended = |header: &Header| {
        let run = header.run.as_ref();
        run.is_some_and(|run| run.status.is_suspended())
    };
    let goes_on =
        |header: &Arc<Header>| header.is_running() || is_suspended(header) && header.is_answered();
    let changed = plan.headers.iter().map(|(session, _)| session);
    let mut known = headers.iter().map(|(session, _)| session).chain(changed);
    plan.stream.is_none()
        && with_run.iter().any(|(session, ())| rests(session))
        && header(root).is_some_and(|root| is_suspended(root))
        && !known.any(|session| header(session).is_some_and(goes_on))
}

/// Checks that the parents of new sessions exist and lead to the root: deleting a root finds the
/// sessions under it through their parents.
fn check_parents(
    new_children: &BTreeMap<SessionId, SessionId>,
    is_there: impl Fn(&SessionId) -> bool,
) -> Result<(), StoreError> {
    for (session, parent) in new_children {
        if !is_there(parent) {
            return Err(StoreError::NotFound {
                session: parent.clone(),
            });
        }
        let above = std::iter::successors(Some(parent), |above| new_children.get(*above));
        if above.take(new_children.len() + 1).count() > new_children.len() {
            return Err(StoreError::Invalid {
                session: session.clone(),
                reason: "it is created as its own parent or ancestor".to_owned(),
            });
        }
    }
    Ok(())
}

/// Fills in the message count of the step-committed chunks of a session. The run that writes them
/// need not know it, because other writers may append to the history.
fn count_messages(chunks: &mut [Chunk], session: &SessionId, count: usize) {
    for chunk in chunks {
        if let ChunkPayload::StepCommitted { message_count } = &mut chunk.payload
            && chunk.base.session_id == *session
        {
            *message_count = count;
        }
    }
}

/// Returns the sessions whose run shows progress with this commit: it is made under the run's
/// fence, and does more than hold the lease, take the run over, or record that something begins. A take-over that
/// names a running run of another session shows that this one works for it: there is nothing else to do meanwhile.
fn sessions_with_progress(commit: &Commit) -> PerSession<()> {
    let fenced = commit.preconditions.iter();
    let fenced = fenced.filter(|(_, condition)| matches!(condition, Precondition::Fence(_)));
    let progressed = fenced.filter(|(session, _)| {
        let changes = commit.changes.iter().filter(|(of, _)| of == session);
        let (mut does, mut takes_over) = (false, false);
        for (_, change) in changes {
            match change {
                Change::TakeOver => takes_over = true,
                Change::Lease(_) | Change::Begin(_) | Change::Budget(_) => {}
                // A claimed call has produced nothing yet.
                Change::OpenCall(_, _, call) if CallStatus::of(call).is_unfinished() => {}
                _ => does = true,
            }
        }
        match takes_over {
            true => names_work_of_others(commit, session),
            false => does,
        }
    });
    progressed
        .map(|(session, _)| (session.clone(), ()))
        .collect()
}

/// Whether a commit is refused unless a run of another session is running.
fn names_work_of_others(commit: &Commit, session: &SessionId) -> bool {
    let mut others = commit.preconditions.iter().filter(|(of, _)| of != session);
    others.any(|(_, condition)| {
        matches!(condition, Precondition::Run(_, any) if any[..] == [RunStatus::Running])
    })
}

fn check(
    root: &SessionId,
    session: &SessionId,
    precondition: &Precondition,
    header: Option<&Header>,
    now: Timestamp,
) -> Result<(), StoreError> {
    let ours = header.filter(|header| header.session.root() == root);
    // An id is taken under whichever root it exists.
    let header = match precondition {
        Precondition::Absent => header,
        _ => ours,
    };
    let holds = match header {
        Some(header) => header.holds(precondition, now),
        None => match precondition {
            Precondition::Absent => true,
            // `NotFound` is clearer than `Refused`, unless the caller has read the session before.
            Precondition::Version(_) | Precondition::Fence(_) => false,
            _ => {
                return Err(StoreError::NotFound {
                    session: session.clone(),
                });
            }
        },
    };
    if holds {
        return Ok(());
    }
    if *precondition == Precondition::Absent {
        return Err(StoreError::AlreadyExists {
            session: session.clone(),
        });
    }
    Err(StoreError::Refused {
        session: session.clone(),
        expected: precondition.clone(),
        current: header.map(Header::current).unwrap_or_default(),
    })
}

/// Refuses chunks that exceed the limits of the stream.
fn check_chunks(
    root: &SessionId,
    chunks: &[Chunk],
    limits: StreamLimits,
) -> Result<(), StoreError> {
    limits.check(chunks).map_err(|error| match error {
        StreamError::ChunkTooLarge { bytes, limit } => StoreError::ChunkTooLarge {
            session: root.clone(),
            bytes,
            limit,
        },
        StreamError::Store(error) => error,
        StreamError::Superseded { session } | StreamError::Overtaken { session } => {
            StoreError::NotFound { session }
        }
    })
}

const STEP_IS_OPEN: &str =
    "a step of its last run is still open; resume or stop that run, or settle the step with it";
