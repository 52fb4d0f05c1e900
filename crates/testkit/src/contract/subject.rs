//! The backend that a case tests.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use helix_agents_core::lock::LockManager;
use helix_agents_core::store::{SessionStore, Sessions, WatchStops};
use helix_agents_core::stream::StreamManager;
use helix_agents_core::time::{Clock, Timestamp};

use super::reopening::Durability;
use super::runner::Runner;
use crate::VirtualClock;

/// The instant at which every case begins.
const DAWN: Timestamp = Timestamp::from_millis(1_700_000_000_000);

/// A fresh backend: the ports through which its one set of sessions is reached.
///
/// A backend that is one type for all three ports turns into a subject by itself. Otherwise:
///
/// ```
/// # use std::sync::Arc;
/// # use helix_agents_core::memory::MemoryStore;
/// use helix_agents_testkit::contract::Subject;
///
/// let store = Arc::new(MemoryStore::new());
/// let subject = Subject::of_ports(store.clone(), store.clone(), store.clone())
///     .also(MemoryStore::clone(&store)) // another way to the same data, as another process has
///     .keeping("a guard, like a folder that is removed when the case is over");
/// ```
#[derive(Debug, Clone)]
pub struct Subject {
    /// The port to the sessions.
    pub store: Arc<dyn SessionStore>,
    /// The port to their streams.
    pub streams: Arc<dyn StreamManager>,
    /// The port that delivers requests to stop.
    pub stops: Arc<dyn WatchStops>,
    /// The clock of the cases.
    pub clock: Arc<VirtualClock>,
    /// Whether others may see a commit a little before its chunks.
    pub(super) streams_follow: bool,
    pub(super) runner: Runner,
    pub(super) durability: Durability,
    elsewhere: Option<Arc<Subject>>,
    kept: Vec<Guard>,
}

impl Subject {
    /// Creates a subject from a backend that is three objects.
    #[must_use]
    pub fn of_ports(
        store: Arc<dyn SessionStore>,
        streams: Arc<dyn StreamManager>,
        stops: Arc<dyn WatchStops>,
    ) -> Self {
        Self {
            store,
            streams,
            stops,
            clock: Self::fresh_clock(),
            streams_follow: false,
            runner: Runner::default(),
            durability: Durability::default(),
            elsewhere: None,
            kept: Vec::new(),
        }
    }

    /// A clock that shows the instant at which every case begins, for a backend with a clock of its
    /// own: pass it to the backend, and to [`Subject::living_by`].
    #[must_use]
    pub fn fresh_clock() -> Arc<VirtualClock> {
        Arc::new(VirtualClock::new(DAWN))
    }

    /// Declares that the backend judges leases and due work by this clock. The cases use it, too.
    #[must_use]
    pub fn living_by(mut self, clock: Arc<VirtualClock>) -> Self {
        if let Some(elsewhere) = &mut self.elsewhere {
            *elsewhere = Arc::new(Self::clone(elsewhere).living_by(Arc::clone(&clock)));
        }
        self.clock = clock;
        self
    }

    /// Adds a second connection to the same data. Cases about several processes use both; without
    /// it they use the first one twice.
    #[must_use]
    pub fn also(mut self, elsewhere: impl Into<Self>) -> Self {
        let mut elsewhere = elsewhere.into();
        elsewhere.clock = Arc::clone(&self.clock);
        elsewhere.runner = self.runner.clone();
        self.elsewhere = Some(Arc::new(elsewhere));
        self
    }

    /// Declares that the streams are in another place than the sessions, so that others may see a commit a little
    /// before its chunks. The writer sees both.
    #[must_use]
    pub fn streaming_elsewhere(mut self) -> Self {
        if let Some(elsewhere) = &mut self.elsewhere {
            *elsewhere = Arc::new(Self::clone(elsewhere).streaming_elsewhere());
        }
        self.streams_follow = true;
        self
    }

    /// Keeps something alive until the case is over.
    #[must_use]
    pub fn keeping(mut self, guard: impl Any + Send + Sync) -> Self {
        self.kept.push(Guard::new(guard));
        self
    }

    /// The same data through the second connection, or through this one if there is none.
    #[must_use]
    pub fn elsewhere(&self) -> &Self {
        self.elsewhere.as_deref().unwrap_or(self)
    }

    /// The named operations on the sessions.
    #[must_use]
    pub fn sessions(&self) -> Sessions<'_> {
        Sessions::new(&*self.store, &*self.clock)
    }

    /// The time on the clock of the cases.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    pub(super) fn run_by(mut self, runner: Runner) -> Self {
        if let Some(elsewhere) = &mut self.elsewhere {
            *elsewhere = Arc::new(Self::clone(elsewhere).run_by(runner.clone()));
        }
        self.runner = runner;
        self
    }

    /// Runs `work` on so many threads at once, half of them on the second connection, and returns the
    /// results.
    pub(super) fn at_once<T: Send>(
        &self,
        threads: usize,
        work: impl AsyncFn(&Self, usize) -> T + Sync,
    ) -> Vec<T> {
        self.runner.at_once(threads, async |index| {
            let on = if index % 2 == 0 {
                self
            } else {
                self.elsewhere()
            };
            work(on, index).await
        })
    }
}

impl<S: SessionStore + StreamManager + WatchStops + 'static> From<S> for Subject {
    fn from(backend: S) -> Self {
        let backend = Arc::new(backend);
        Self::of_ports(backend.clone(), backend.clone(), backend)
    }
}

/// A fresh lock manager.
#[derive(Debug, Clone)]
pub struct LockSubject {
    /// The lock manager under test.
    pub locks: Arc<dyn LockManager>,
    /// The same locks through a second connection.
    pub elsewhere: Arc<dyn LockManager>,
    pub(super) runner: Runner,
    kept: Vec<Guard>,
}

impl LockSubject {
    /// Adds a second connection to the same locks.
    #[must_use]
    pub fn also(mut self, elsewhere: impl LockManager + 'static) -> Self {
        self.elsewhere = Arc::new(elsewhere);
        self
    }

    /// Keeps something alive until the case is over.
    #[must_use]
    pub fn keeping(mut self, guard: impl Any + Send + Sync) -> Self {
        self.kept.push(Guard::new(guard));
        self
    }

    pub(super) fn run_by(mut self, runner: Runner) -> Self {
        self.runner = runner;
        self
    }
}

impl<L: LockManager + 'static> From<L> for LockSubject {
    fn from(locks: L) -> Self {
        let locks: Arc<dyn LockManager> = Arc::new(locks);
        Self {
            elsewhere: Arc::clone(&locks),
            locks,
            runner: Runner::default(),
            kept: Vec::new(),
        }
    }
}

#[derive(Clone)]
pub(super) struct Guard(
    #[expect(dead_code, reason = "it is kept to be dropped in time")] Arc<dyn Any + Send + Sync>,
);

impl Guard {
    pub(super) fn new(guard: impl Any + Send + Sync) -> Self {
        Self(Arc::new(guard))
    }
}

impl fmt::Debug for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Kept")
    }
}
