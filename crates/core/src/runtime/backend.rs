//! Where sessions and streams are.

use std::fmt;
use std::sync::Arc;

use super::RuntimeError;
use crate::id::RunId;
use crate::memory::MemoryStore;
use crate::meter::Meter;
use crate::session::RunRecord;
use crate::store::{CheckWritable, Lookup, SessionKey, SessionStore, WatchStops};
use crate::stream::{Retention, StreamManager};

/// Where sessions and streams are. Every store of ours turns into one.
///
/// ```
/// use helix_agents::prelude::*;
/// use helix_agents::Backend;
///
/// let runtime = LocalRuntime::new(Backend::new(MemoryStore::new()).held_by("worker-1"));
/// ```
#[derive(Clone)]
#[non_exhaustive]
pub struct Backend {
    /// Stores sessions.
    pub store: Arc<dyn SessionStore>,
    /// Stores the streams of chunks.
    pub streams: Arc<dyn StreamManager>,
    /// Delivers requests to stop a run.
    pub stops: Arc<dyn WatchStops>,
    /// Removes the deltas of past turns; `None` when the store cannot.
    pub retention: Option<Arc<dyn Retention>>,
    /// The port that checks whether the store can be written, for stores that have one.
    pub writable: Option<Arc<dyn CheckWritable>>,
    /// Receives the measurements of runs, where somebody takes them.
    pub meter: Option<Arc<dyn Meter>>,
    /// The name under which the store knows this process, where it can tell when that is gone. A
    /// runtime takes leases under this name, `:`, and a number of its own.
    pub holder: Option<String>,
}

impl Backend {
    /// A store that is all three.
    #[must_use]
    pub fn new<S>(store: S) -> Self
    where
        S: SessionStore + StreamManager + WatchStops + 'static,
    {
        let store = Arc::new(store);
        Self {
            store: Arc::clone(&store) as Arc<dyn SessionStore>,
            streams: Arc::clone(&store) as Arc<dyn StreamManager>,
            stops: store,
            retention: None,
            writable: None,
            meter: None,
            holder: None,
        }
    }

    /// Says under which name the store knows this process.
    #[must_use]
    pub fn held_by(mut self, holder: impl Into<String>) -> Self {
        self.holder = Some(holder.into());
        self
    }

    /// Says what removes the deltas of past turns.
    #[must_use]
    pub fn retained_by(mut self, retention: impl Retention + 'static) -> Self {
        self.retention = Some(Arc::new(retention));
        self
    }

    /// Says what tells whether the store can be written.
    #[must_use]
    pub fn checked_by(mut self, writable: impl CheckWritable + 'static) -> Self {
        self.writable = Some(Arc::new(writable));
        self
    }

    /// Gives measurements of runs to this meter.
    #[must_use]
    #[doc(hidden)]
    pub fn measured_by(mut self, meter: Arc<dyn Meter>) -> Self {
        self.meter = Some(meter);
        self
    }

    /// Waits until a run has ended, wherever it is performed.
    ///
    /// # Errors
    /// When the store cannot be read, or has no such run.
    pub async fn run_ended(
        &self,
        session: SessionKey<'_>,
        run: &RunId,
    ) -> Result<RunRecord, RuntimeError> {
        loop {
            // The stream is looked at first: what happens after this is not missed.
            let known = self.streams.info(session.root).await?;
            let found = self.store.runs(session, Lookup::One(run.clone())).await?;
            let Some(record) = found.items.into_iter().next() else {
                return Err(RuntimeError::NoSuchRun {
                    session: session.session.clone(),
                    run: run.clone(),
                });
            };
            if record.status.is_ended() {
                return Ok(record);
            }
            self.streams.changed(session.root, known).await?;
        }
    }
}

impl From<MemoryStore> for Backend {
    fn from(store: MemoryStore) -> Self {
        Self::new(store.clone()).retained_by(store)
    }
}

impl fmt::Debug for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Backend")
            .field("store", &self.store)
            .field("holder", &self.holder)
            .finish_non_exhaustive()
    }
}
