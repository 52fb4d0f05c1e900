//! What another thread found out, for a task that must not wait for it on its own.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use crate::operation_error::Fail;

struct Shared<T> {
    state: Mutex<State<T>>,
}

struct State<T> {
    outcome: Option<Result<T, Fail>>,
    waker: Option<Waker>,
    is_wanted: bool,
}

impl<T> Shared<T> {
    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Two ends: what gives an answer, and what waits for it.
pub(crate) fn pair<T>() -> (Promise<T>, Answer<T>) {
    let state = Mutex::new(State {
        outcome: None,
        waker: None,
        is_wanted: true,
    });
    let shared = Arc::new(Shared { state });
    (Promise(Arc::clone(&shared)), Answer(shared))
}

/// Gives the answer. One that is dropped without doing so answers with a failure, so that nobody
/// waits for ever.
pub(crate) struct Promise<T>(Arc<Shared<T>>);

impl<T> Promise<T> {
    /// Whether anybody waits for it still.
    pub(crate) fn is_wanted(&self) -> bool {
        self.0.lock().is_wanted
    }

    pub(crate) fn keep(self, outcome: Result<T, Fail>) {
        self.0.lock().outcome = Some(outcome);
    }
}

impl<T> Drop for Promise<T> {
    fn drop(&mut self) {
        let waker = {
            let mut state = self.0.lock();
            let closed = || {
                Err(Fail::internal(
                    "the store was closed before it had answered",
                ))
            };
            state.outcome.get_or_insert_with(closed);
            state.waker.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

/// Waits for the answer. Safe to drop.
#[must_use = "a future does nothing unless it is awaited"]
pub(crate) struct Answer<T>(Arc<Shared<T>>);

impl<T> Future for Answer<T> {
    type Output = Result<T, Fail>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut state = self.0.lock();
        if let Some(outcome) = state.outcome.take() {
            return Poll::Ready(outcome);
        }
        state.waker = Some(context.waker().clone());
        Poll::Pending
    }
}

impl<T> Drop for Answer<T> {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.is_wanted = false;
        // What was found out is not kept for nobody, and not dropped under the lock.
        let left = (state.outcome.take(), state.waker.take());
        drop(state);
        drop(left);
    }
}
