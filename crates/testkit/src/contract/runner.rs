//! How a case runs its futures: on many threads at once, and not for ever.

use std::fmt;
use std::future::{Future, poll_fn};
use std::panic::resume_unwind;
use std::pin::{Pin, pin};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Barrier, Mutex, PoisonError};
use std::task::{Poll, Waker};
use std::thread;
use std::time::Duration;

/// Long enough for a busy machine, short enough for whoever waits for the test.
const PATIENCE: Duration = Duration::from_secs(20);

/// A future as a [`Runner`] takes it.
pub type Task<'a> = Pin<Box<dyn Future<Output = ()> + 'a>>;

type BlockOn = dyn for<'a> Fn(Task<'a>) + Send + Sync;

/// Runs futures to their end, on the thread that asks.
#[derive(Clone)]
pub struct Runner(Arc<BlockOn>);

impl Runner {
    /// Runs futures by this function.
    pub fn new(block_on: impl for<'a> Fn(Task<'a>) + Send + Sync + 'static) -> Self {
        Self(Arc::new(block_on))
    }

    /// Runs a future to its end.
    pub(super) fn block_on<T>(&self, future: impl Future<Output = T>) -> T {
        let mut output = None;
        (self.0)(Box::pin(async { output = Some(future.await) }));
        output.expect("the runner of the contract suite must run a future to its end")
    }

    /// Does the same on so many threads, which are let go at one instant.
    pub(super) fn at_once<T: Send>(
        &self,
        threads: usize,
        work: impl AsyncFn(usize) -> T + Sync,
    ) -> Vec<T> {
        let barrier = Barrier::new(threads);
        let (work, barrier) = (&work, &barrier);
        thread::scope(|scope| {
            let started: Vec<_> = (0..threads)
                .map(|index| {
                    scope.spawn(move || {
                        barrier.wait();
                        self.block_on(work(index))
                    })
                })
                .collect();
            started
                .into_iter()
                .map(|thread| thread.join().unwrap_or_else(|panic| resume_unwind(panic)))
                .collect()
        })
    }
}

impl Default for Runner {
    fn default() -> Self {
        Self::new(|task| crate::block_on(task))
    }
}

impl fmt::Debug for Runner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Runner")
    }
}

/// Waits for a future, but not for ever: a case that hangs is a case that fails.
///
/// # Panics
/// When nothing came in time; `demand` says what should have.
pub(super) async fn in_time<T>(demand: &str, future: impl Future<Output = T>) -> T {
    let alarm = Arc::new(Mutex::new(Alarm::default()));
    // Dropped with this future, which ends the thread.
    let (_done, done) = mpsc::channel::<()>();
    let rings = Arc::clone(&alarm);
    thread::spawn(move || {
        if done.recv_timeout(PATIENCE) == Err(RecvTimeoutError::Timeout) {
            let mut alarm = rings.lock().unwrap_or_else(PoisonError::into_inner);
            alarm.rang = true;
            alarm.waker.take().into_iter().for_each(Waker::wake);
        }
    });
    let mut future = pin!(future);
    poll_fn(|context| {
        if let Poll::Ready(output) = future.as_mut().poll(context) {
            return Poll::Ready(output);
        }
        let mut alarm = alarm.lock().unwrap_or_else(PoisonError::into_inner);
        assert!(!alarm.rang, "nothing within {PATIENCE:?}: {demand}");
        alarm.waker = Some(context.waker().clone());
        Poll::Pending
    })
    .await
}

#[derive(Default)]
struct Alarm {
    rang: bool,
    waker: Option<Waker>,
}
