//! A one-shot channel for the result of work on another thread: the task that awaits it does not block
//! its own.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use crate::operation_error::OperationError;

struct Shared<T> {
    state: Mutex<State<T>>,
}

struct State<T> {
    result: Option<Result<T, OperationError>>,
    waker: Option<Waker>,
    is_awaited: bool,
}

impl<T> Shared<T> {
    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Makes the two ends of a channel.
pub(crate) fn channel<T>() -> (ResultSender<T>, ResultFuture<T>) {
    let state = Mutex::new(State {
        result: None,
        waker: None,
        is_awaited: true,
    });
    let shared = Arc::new(Shared { state });
    (ResultSender(Arc::clone(&shared)), ResultFuture(shared))
}

/// The sending end. One that is dropped without a result sends a failure, so that nobody waits for
/// ever.
pub(crate) struct ResultSender<T>(Arc<Shared<T>>);

impl<T> ResultSender<T> {
    /// Whether the other end still exists.
    pub(crate) fn is_awaited(&self) -> bool {
        self.0.lock().is_awaited
    }

    /// Sends the result and wakes the task that awaits it.
    pub(crate) fn send(self, result: Result<T, OperationError>) {
        self.0.lock().result = Some(result);
    }
}

impl<T> Drop for ResultSender<T> {
    fn drop(&mut self) {
        let waker = {
            let mut state = self.0.lock();
            let closed = || {
                Err(OperationError::internal(
                    "the store was closed before it had answered",
                ))
            };
            state.result.get_or_insert_with(closed);
            state.waker.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

/// The receiving end, a future of the result. Work that has not begun when it is dropped is skipped.
#[must_use = "a future does nothing unless it is awaited"]
pub(crate) struct ResultFuture<T>(Arc<Shared<T>>);

impl<T> Future for ResultFuture<T> {
    type Output = Result<T, OperationError>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut state = self.0.lock();
        if let Some(result) = state.result.take() {
            return Poll::Ready(result);
        }
        state.waker = Some(context.waker().clone());
        Poll::Pending
    }
}

impl<T> Drop for ResultFuture<T> {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.is_awaited = false;
        // Values are dropped outside of the lock: their own drop may take long.
        let left = (state.result.take(), state.waker.take());
        drop(state);
        drop(left);
    }
}
