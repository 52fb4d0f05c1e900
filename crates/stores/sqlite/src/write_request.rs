//! A write that waits for its turn, and its answer.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use crate::change_notifier::Mark;
use crate::operation_error::{Fail, again, caught};
use crate::write_connection::Desk;

/// Whether a write may have to be done again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Attempt {
    /// It is done once.
    Only,
    /// Others share its transaction; when one of them breaks it, this is done again on its own.
    Shared,
}

/// What is done inside a transaction.
pub(crate) trait Work<T>: FnMut(&Desk, Attempt) -> Result<T, Fail> + Send {}
impl<T, F: FnMut(&Desk, Attempt) -> Result<T, Fail> + Send> Work<T> for F {}

/// How a write went, for whoever carries it out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It is written.
    Written,
    /// It does not fit, or it panicked; what it wrote is to be undone.
    Refused,
    /// SQLite failed.
    Broken,
    /// Nobody waits for it any more; it was not begun.
    Abandoned,
}

/// A queued write of any type.
pub(crate) trait Queued: Send + Sync {
    /// Does it.
    fn run(&self, desk: &Desk, attempt: Attempt) -> Verdict;
    /// Hands the outcome to who waits; `failure`: the transaction failed after all.
    fn settle(&self, failure: Option<&rusqlite::Error>);
    /// Lets who waits look again.
    fn wake(&self);
    /// Whose listeners are told of it.
    fn touched(&self) -> &[Mark];
}

/// A write and the place for its outcome.
pub(crate) struct Ticket<T> {
    touched: Vec<Mark>,
    state: Mutex<State<T>>,
}

struct State<T> {
    /// Taken while it is done, and for good when nobody waits.
    work: Option<Box<dyn Work<T>>>,
    outcome: Option<Result<T, Fail>>,
    is_settled: bool,
    waker: Option<Waker>,
}

impl<T> Ticket<T> {
    pub(crate) fn new(touched: Vec<Mark>, work: Box<dyn Work<T>>) -> Self {
        Self {
            touched,
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

    /// The outcome, once there is one.
    pub(crate) fn poll(&self, context: &mut Context<'_>) -> Poll<Result<T, Fail>> {
        let mut state = self.lock();
        if state.is_settled
            && let Some(outcome) = state.outcome.take()
        {
            return Poll::Ready(outcome);
        }
        state.waker = Some(context.waker().clone());
        Poll::Pending
    }

    /// Nobody waits any more. What has begun is finished; what has not never begins.
    pub(crate) fn abandon(&self) {
        let work = self.lock().work.take();
        drop(work);
    }
}

impl<T: Send> Queued for Ticket<T> {
    fn run(&self, desk: &Desk, attempt: Attempt) -> Verdict {
        let Some(mut work) = self.lock().work.take() else {
            return Verdict::Abandoned;
        };
        let outcome = caught(|| work(desk, attempt));
        let verdict = match &outcome {
            Ok(_) => Verdict::Written,
            Err(fail) if fail.is_fault() => Verdict::Broken,
            Err(_) => Verdict::Refused,
        };
        let mut state = self.lock();
        state.work = Some(work);
        state.outcome = Some(outcome);
        verdict
    }

    fn settle(&self, failure: Option<&rusqlite::Error>) {
        let waker = {
            let mut state = self.lock();
            // A refusal stands, whatever became of the transaction.
            let was_refused = matches!(&state.outcome, Some(Err(fail)) if !fail.is_fault());
            if let Some(error) = failure
                && !was_refused
            {
                state.outcome = Some(Err(Fail::Sqlite(again(error))));
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

    fn touched(&self) -> &[Mark] {
        &self.touched
    }
}
