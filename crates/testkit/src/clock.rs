//! A clock that a test controls.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use async_trait::async_trait;
use helix_agents_core::time::{Clock, Timestamp};

/// A clock that moves only when it is advanced.
///
/// It does not read the real time and needs no async runtime. Share it in an
/// [`Arc`](std::sync::Arc).
///
/// ```
/// use std::time::Duration;
///
/// use helix_agents_core::time::{Clock, Timestamp};
/// use helix_agents_testkit::VirtualClock;
///
/// let clock = VirtualClock::new(Timestamp::from_millis(0));
/// clock.advance(Duration::from_secs(1));
/// assert_eq!(clock.now(), Timestamp::from_millis(1000));
/// ```
#[derive(Debug)]
pub struct VirtualClock {
    inner: Mutex<Inner>,
    advances: Advances,
}

/// When the time moves by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Advances {
    Never,
    AtOnce,
    InOrder,
}

#[derive(Debug)]
struct Inner {
    now: Timestamp,
    /// Ordered by deadline, and by the start of the sleep where deadlines are equal.
    sleepers: BTreeMap<Sleeper, Waker>,
    /// The number of the last sleeper; sleepers of one instant wake in the order of their numbers.
    last_sleeper: u64,
    /// How often the time is held.
    holds: usize,
}

/// Holds the time of a [`VirtualClock`] until it is dropped.
#[derive(Debug)]
pub struct HeldTime<'a>(&'a VirtualClock);

impl Drop for HeldTime<'_> {
    fn drop(&mut self) {
        let mut inner = self.0.lock();
        inner.holds -= 1;
        let last = inner.sleepers.last_key_value();
        if inner.holds > 0 || self.0.advances != Advances::AtOnce || last.is_none() {
            return;
        }
        inner.now = last.map_or(inner.now, |((deadline, _), _)| inner.now.max(*deadline));
        let awake = inner.take_awake();
        drop(inner);
        awake.into_values().for_each(Waker::wake);
    }
}

type Sleeper = (Timestamp, u64);

impl VirtualClock {
    /// Creates a clock that shows this instant.
    #[must_use]
    pub fn new(now: Timestamp) -> Self {
        Self {
            inner: Mutex::new(Inner {
                now,
                sleepers: BTreeMap::new(),
                last_sleeper: 0,
                holds: 0,
            }),
            advances: Advances::Never,
        }
    }

    /// Makes every sleep advance the time to its deadline at once, so that nothing ever waits.
    #[must_use]
    pub fn auto_advance(mut self) -> Self {
        self.advances = Advances::AtOnce;
        self
    }

    /// Makes time pass from one deadline to the next while every task sleeps, in the order of the
    /// deadlines: of two concurrent sleeps the shorter ends first.
    ///
    /// Sleeps that wait for their turn are polled again and again, so every sleep that was begun must
    /// be polled or dropped.
    #[must_use]
    pub fn in_order(mut self) -> Self {
        self.advances = Advances::InOrder;
        self
    }

    /// Lets no time pass by itself until the result is dropped. For work that takes real time, like that of a store on a
    /// server: to those who sleep meanwhile it takes none.
    #[must_use]
    pub fn hold(&self) -> HeldTime<'_> {
        self.lock().holds += 1;
        HeldTime(self)
    }

    /// Moves the time forward, in one jump, and wakes every sleeper whose deadline has passed, in
    /// the order of the deadlines.
    ///
    /// A sleeper that goes back to sleep counts from the new time. To stop at every deadline on
    /// the way, advance from one [`VirtualClock::next_deadline`] to the next.
    pub fn advance(&self, by: Duration) {
        let mut inner = self.lock();
        inner.now = inner.now.saturating_add(by);
        let awake = inner.take_awake();
        drop(inner);
        awake.into_values().for_each(Waker::wake);
    }

    /// The number of sleeps in progress.
    #[must_use]
    pub fn sleepers(&self) -> usize {
        self.lock().sleepers.len()
    }

    /// The earliest deadline of the sleeps in progress; `None` when there is none.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Timestamp> {
        let inner = self.lock();
        let ((deadline, _), _) = inner.sleepers.first_key_value()?;
        Some(*deadline)
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // No waker is called under the lock, so nothing panics while it is held.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn take_awake(&mut self) -> BTreeMap<Sleeper, Waker> {
        let Some(next) = self.now.as_millis().checked_add(1) else {
            return std::mem::take(&mut self.sleepers);
        };
        let asleep = self.sleepers.split_off(&(Timestamp::from_millis(next), 0));
        std::mem::replace(&mut self.sleepers, asleep)
    }
}

#[cfg_attr(target_arch = "wasm32", async_trait(?Send))]
#[cfg_attr(not(target_arch = "wasm32"), async_trait)]
impl Clock for VirtualClock {
    fn now(&self) -> Timestamp {
        self.lock().now
    }

    async fn sleep_until(&self, deadline: Timestamp) {
        if self.advances == Advances::AtOnce && self.lock().holds == 0 {
            let ahead = deadline.since(self.now());
            self.advance(ahead);
        }
        Sleep {
            clock: self,
            deadline,
            sleeper: None,
        }
        .await;
    }
}

/// A sleep. It is forgotten when it is dropped.
struct Sleep<'a> {
    clock: &'a VirtualClock,
    deadline: Timestamp,
    sleeper: Option<Sleeper>,
}

impl Future for Sleep<'_> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let this = self.get_mut();
        let mut inner = this.clock.lock();
        if inner.now >= this.deadline {
            return Poll::Ready(());
        }
        if this.clock.advances == Advances::InOrder {
            let first = inner
                .sleepers
                .first_key_value()
                .map(|(sleeper, _)| *sleeper);
            if this.sleeper.is_some() && first == this.sleeper && inner.holds == 0 {
                inner.now = this.deadline;
                return Poll::Ready(());
            }
            // The shorter sleep comes first.
            context.waker().wake_by_ref();
        }
        let sleeper = *this.sleeper.get_or_insert_with(|| {
            inner.last_sleeper += 1;
            (this.deadline, inner.last_sleeper)
        });
        inner.sleepers.insert(sleeper, context.waker().clone());
        Poll::Pending
    }
}

impl Drop for Sleep<'_> {
    fn drop(&mut self) {
        if let Some(sleeper) = self.sleeper {
            self.clock.lock().sleepers.remove(&sleeper);
        }
    }
}
