//! Runs the futures of a case: on many threads at once, and with a time limit.

use std::fmt;
use std::future::{Future, poll_fn};
use std::panic::resume_unwind;
use std::pin::{Pin, pin};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Arc, Barrier, Mutex, PoisonError};
use std::task::Waker;
use std::thread;
use std::time::Duration;

/// The time limit of a wait: long enough for a busy machine.
const PATIENCE: Duration = Duration::from_secs(20);

/// A future as a [`Runner`] takes it.
pub type Task<'a> = Pin<Box<dyn Future<Output = ()> + 'a>>;

type BlockOn = dyn for<'a> Fn(Task<'a>) + Send + Sync;

/// Runs futures to their end, on the calling thread.
#[derive(Clone)]
pub struct Runner(Arc<BlockOn>);

impl Runner {
    /// Runs futures with this function.
    pub fn new(block_on: impl for<'a> Fn(Task<'a>) + Send + Sync + 'static) -> Self {
        Self(Arc::new(block_on))
    }

    /// Runs a future to its end.
    pub(crate) fn block_on<T>(&self, future: impl Future<Output = T>) -> T {
        let mut output = None;
        (self.0)(Box::pin(async { output = Some(future.await) }));
        output.expect("the runner of the contract suite must run a future to its end")
    }

    /// Runs `work` on so many threads, which begin at the same instant.
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

/// Waits for a future with a time limit, so that a case that hangs fails.
///
/// # Panics
/// When the time is over. `demand` says what the case waited for.
pub(super) async fn in_time<T>(demand: &str, future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    let mut alarm = None;
    poll_fn(|context| {
        let polled = future.as_mut().poll(context);
        if polled.is_pending() {
            let rang = alarm.get_or_insert_with(Alarm::set).rang(context.waker());
            assert!(!rang, "no result within {PATIENCE:?}: {demand}");
        }
        polled
    })
    .await
}

/// A timer on a thread of its own, which ends when this is dropped.
struct Alarm {
    bell: Arc<Mutex<AlarmState>>,
    _dropped: Sender<()>,
}

#[derive(Default)]
struct AlarmState {
    rang: bool,
    waker: Option<Waker>,
}

impl Alarm {
    fn set() -> Self {
        let bell = Arc::new(Mutex::new(AlarmState::default()));
        let (_dropped, dropped) = mpsc::channel();
        let rings = Arc::clone(&bell);
        thread::spawn(move || {
            if dropped.recv_timeout(PATIENCE) == Err(RecvTimeoutError::Timeout) {
                let mut bell = rings.lock().unwrap_or_else(PoisonError::into_inner);
                bell.rang = true;
                bell.waker.take().into_iter().for_each(Waker::wake);
            }
        });
        Self { bell, _dropped }
    }

    /// Whether the time is over. If not, this waker is woken then.
    fn rang(&self, waker: &Waker) -> bool {
        let mut bell = self.bell.lock().unwrap_or_else(PoisonError::into_inner);
        bell.waker = Some(waker.clone());
        bell.rang
    }
}
