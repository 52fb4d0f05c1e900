//! A write in the queue of the writer, and its result.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use crate::change_notifier::SessionHash;
use crate::operation_error::{OperationError, catch_panic, duplicate};
use crate::write_connection::WriteConnection;

/// Whether a write has its transaction to itself. It tells the write whether it may be run again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TransactionKind {
    /// The write is alone in its transaction, and is not run again.
    Own,
    /// Other writes share the transaction. When one of them breaks it, this write is run again in a
    /// transaction of its own.
    Shared,
}

/// A function that writes inside a transaction. It may be called twice, see [`TransactionKind`].
pub(crate) trait WriteFn<T>:
    FnMut(&WriteConnection, TransactionKind) -> Result<T, OperationError> + Send
{
}
impl<T, F: FnMut(&WriteConnection, TransactionKind) -> Result<T, OperationError> + Send> WriteFn<T>
    for F
{
}

/// How a write ended, for the code that runs the transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WriteStatus {
    /// The write succeeded, and takes effect with the transaction.
    Written,
    /// The write was refused or panicked. Its part of the transaction must be undone.
    Refused,
    /// SQLite failed. The whole transaction must be rolled back.
    Broken,
    /// The caller no longer waits. The write was not started.
    Abandoned,
}

/// A [`WriteRequest`] of any result type, as the queue holds it.
pub(crate) trait QueuedWrite: Send + Sync {
    /// Runs the write inside the transaction under way, and keeps its result.
    fn run(&self, db: &WriteConnection, attempt: TransactionKind) -> WriteStatus;
    /// Hands the result to the caller. `failure` is the error with which the transaction ended, and
    /// takes the place of any result but a refusal.
    fn settle(&self, failure: Option<&rusqlite::Error>);
    /// Wakes the caller, so that it tries to take the connection itself.
    fn wake(&self);
    /// The sessions whose listeners are notified after the write.
    fn changed_sessions(&self) -> &[SessionHash];
}

/// A write that a caller waits for, and the place for its result.
pub(crate) struct WriteRequest<T> {
    changed_sessions: Vec<SessionHash>,
    state: Mutex<State<T>>,
}

struct State<T> {
    /// `None` while it runs, and once it has ended or the caller has left.
    work: Option<Box<dyn WriteFn<T>>>,
    outcome: Option<Result<T, OperationError>>,
    is_settled: bool,
    waker: Option<Waker>,
}

impl<T> WriteRequest<T> {
    pub(crate) fn new(changed_sessions: Vec<SessionHash>, work: Box<dyn WriteFn<T>>) -> Self {
        Self {
            changed_sessions,
            state: Mutex::new(State {
                work: Some(work),
                outcome: None,
                is_settled: false,
                waker: None,
            }),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The result, once the transaction has ended.
    pub(crate) fn poll(&self, context: &mut Context<'_>) -> Poll<Result<T, OperationError>> {
        let mut state = self.lock();
        if state.is_settled
            && let Some(outcome) = state.outcome.take()
        {
            return Poll::Ready(outcome);
        }
        state.waker = Some(context.waker().clone());
        Poll::Pending
    }

    /// Tells that the caller no longer waits. A write that has started is finished; one that has not
    /// is never started.
    pub(crate) fn abandon(&self) {
        let work = self.lock().work.take();
        drop(work);
    }
}

impl<T: Send> QueuedWrite for WriteRequest<T> {
    fn run(&self, db: &WriteConnection, attempt: TransactionKind) -> WriteStatus {
        let Some(mut work) = self.lock().work.take() else {
            return WriteStatus::Abandoned;
        };
        let outcome = catch_panic(|| work(db, attempt));
        let verdict = match &outcome {
            Ok(_) => WriteStatus::Written,
            Err(error) if error.breaks_transaction() => WriteStatus::Broken,
            Err(_) => WriteStatus::Refused,
        };
        let mut state = self.lock();
        state.work = Some(work);
        state.outcome = Some(outcome);
        verdict
    }

    fn settle(&self, failure: Option<&rusqlite::Error>) {
        let waker = {
            let mut state = self.lock();
            // A refusal is final, even if the transaction failed.
            let was_refused =
                matches!(&state.outcome, Some(Err(error)) if !error.breaks_transaction());
            if let Some(error) = failure
                && !was_refused
            {
                state.outcome = Some(Err(OperationError::Sqlite(duplicate(error))));
            }
            state.is_settled = true;
            state.work = None;
            state.waker.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    fn wake(&self) {
        let waker = self.lock().waker.take();
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    fn changed_sessions(&self) -> &[SessionHash] {
        &self.changed_sessions
    }
}
