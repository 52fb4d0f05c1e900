//! Who drives which run.

use std::collections::BTreeSet;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError, Weak};

use helix_agents_core::RunId;
use helix_agents_core::notify::Notify;
use helix_agents_core::perform::Ports;
use helix_agents_core::store::SessionStore;

/// What an engine knows of the runs in one store: which are driven, so that two who wait for a child do not both drive
/// it, and which ever were.
pub(super) struct DrivenRuns {
    /// While this is here, no other store has its address.
    store: Weak<dyn SessionStore>,
    runs: Mutex<Runs>,
    bell: Notify,
}

#[derive(Default)]
struct Runs {
    driven: BTreeSet<RunId>,
    begun: BTreeSet<RunId>,
}

/// The engines whose stores are there. Each test has its own: what wakes the tasks of one must not wake those of
/// another, or a seed would not decide the order.
static ENGINES: LazyLock<Mutex<Vec<Arc<DrivenRuns>>>> = LazyLock::new(Mutex::default);

impl DrivenRuns {
    /// The runs in the store of these ports. Each simulated process has a store of its own, except in random
    /// schedules.
    pub(super) fn of(ports: &Ports) -> Arc<Self> {
        let mut all = lock(&ENGINES);
        all.retain(|one| one.store.strong_count() > 0);
        let address = Arc::as_ptr(&ports.store).cast::<()>();
        let mut known = all.iter();
        if let Some(one) = known.find(|one| one.store.as_ptr().cast::<()>() == address) {
            return Arc::clone(one);
        }
        let one = Arc::new(Self {
            store: Arc::downgrade(&ports.store),
            runs: Mutex::default(),
            bell: Notify::new(),
        });
        all.push(Arc::clone(&one));
        one
    }

    /// Notes that a run is driven; `None` if somebody drives it already.
    pub(super) fn begin(self: &Arc<Self>, run: &RunId) -> Option<Driven> {
        let is_first = {
            let mut runs = lock(&self.runs);
            runs.begun.insert(run.clone());
            runs.driven.insert(run.clone())
        };
        // Not made before it is known: its end is told.
        is_first.then(|| Driven {
            runs: Arc::clone(self),
            run: run.clone(),
        })
    }

    /// Whether somebody drives the run, or ever did.
    pub(super) fn has_begun(&self, run: &RunId) -> bool {
        lock(&self.runs).begun.contains(run)
    }

    /// Resolves when nobody drives the run any more.
    pub(super) async fn left(&self, run: &RunId) {
        loop {
            let heard = self.bell.heard();
            if !lock(&self.runs).driven.contains(run) {
                return;
            }
            heard.await;
        }
    }
}

/// A run that is being driven.
pub(super) struct Driven {
    runs: Arc<DrivenRuns>,
    run: RunId,
}

impl Drop for Driven {
    fn drop(&mut self) {
        lock(&self.runs.runs).driven.remove(&self.run);
        self.runs.bell.ring();
    }
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}
