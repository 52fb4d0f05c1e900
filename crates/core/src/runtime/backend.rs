//! Where sessions and streams are.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use super::RuntimeError;
use crate::entries::waiting_run;
use crate::id::RunId;
use crate::memory::MemoryStore;
use crate::meter::Meter;
use crate::session::RunRecord;
use crate::store::{CheckWritable, Lookup, SessionKey, SessionStore, StoreError, WatchStops};
use crate::stream::{
    Outbox, RelayLeftovers, Relayed, Retention, StreamError, StreamLog, StreamManager,
};
use crate::time::Clock;

/// How often it is looked whether a run has ended while its stream cannot be reached.
const LOOK: Duration = Duration::from_millis(250);

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
    /// Relays what other processes left in the outbox; `None` when the streams are the store's own.
    pub leftovers: Option<Arc<dyn RelayLeftovers>>,
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
            leftovers: None,
            writable: None,
            meter: None,
            holder: None,
        }
    }

    /// Keeps the streams in another place than the store, whose outbox this is ([`Relayed`]). What removes the
    /// deltas of past turns is said anew, because that is the business of the streams.
    #[must_use]
    pub fn streaming_to(
        self,
        outbox: impl Outbox + 'static,
        log: impl StreamLog + 'static,
    ) -> Self {
        let relayed = Relayed::new(self.store, Arc::new(outbox), Arc::new(log));
        let relayed = Arc::new(relayed);
        Self {
            store: Arc::clone(&relayed) as Arc<dyn SessionStore>,
            streams: Arc::clone(&relayed) as Arc<dyn StreamManager>,
            leftovers: Some(relayed),
            retention: None,
            ..self
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

    /// Adds something else that must be writable, like streams that are kept elsewhere: no turn begins without them.
    #[must_use]
    pub fn also_checked_by(mut self, writable: impl CheckWritable + 'static) -> Self {
        let other: Arc<dyn CheckWritable> = Arc::new(writable);
        self.writable = Some(match self.writable.take() {
            Some(first) => Arc::new(Both(first, other)),
            None => other,
        });
        self
    }

    /// Gives measurements of runs to this meter.
    #[must_use]
    #[doc(hidden)]
    pub fn measured_by(mut self, meter: Arc<dyn Meter>) -> Self {
        self.meter = Some(meter);
        self
    }

    /// Waits until a run has ended, wherever it is performed. A run whose messages wait for the end of
    /// another run is waited for, too. The stream tells when to look; while it cannot be reached, the clock does.
    ///
    /// # Errors
    /// When the store cannot be read, or has no such run.
    pub async fn run_ended(
        &self,
        session: SessionKey<'_>,
        run: &RunId,
        clock: &dyn Clock,
    ) -> Result<RunRecord, RuntimeError> {
        // Every look at the run comes after the look at the stream from which on changes are waited for: what happens
        // in between is not missed. Nothing is known of the stream at first, so the first wait ends at once.
        let mut known = None;
        loop {
            match started(&*self.store, session, run).await? {
                Started::Run(record) if record.status.is_ended() => return Ok(*record),
                Started::Run(_) | Started::Waits => {}
                Started::Unknown => {
                    return Err(RuntimeError::NoSuchRun {
                        session: session.session.clone(),
                        run: run.clone(),
                    });
                }
            }
            let changed = match self.streams.changed(session.root, known).await {
                Ok(()) => self.streams.info(session.root).await,
                Err(error) => Err(error),
            };
            known = match changed {
                Ok(info) => info,
                Err(StreamError::Store(error)) if error.may_pass() => {
                    tracing::debug!(event = "stream.unavailable", session = %session.root, %error);
                    clock.sleep_until(clock.now().saturating_add(LOOK)).await;
                    None
                }
                Err(error) => return Err(error.into()),
            };
        }
    }
}

/// Two places that must both be writable.
#[derive(Debug)]
struct Both(Arc<dyn CheckWritable>, Arc<dyn CheckWritable>);

#[cfg_attr(target_arch = "wasm32", async_trait(?Send))]
#[cfg_attr(not(target_arch = "wasm32"), async_trait)]
impl CheckWritable for Both {
    async fn check_writable(&self) -> Result<(), StoreError> {
        self.0.check_writable().await?;
        self.1.check_writable().await
    }
}

/// Whether a run was started.
pub(super) enum Started {
    /// It was: its record.
    Run(Box<RunRecord>),
    /// Its messages wait for the end of another run.
    Waits,
    /// There is no such run.
    Unknown,
}

/// Looks whether a run was started.
pub(super) async fn started(
    store: &dyn SessionStore,
    session: SessionKey<'_>,
    run: &RunId,
) -> Result<Started, StoreError> {
    let record = async || {
        let found = store.runs(session, Lookup::One(run.clone())).await?;
        Ok::<_, StoreError>(found.items.into_iter().next())
    };
    if let Some(record) = record().await? {
        return Ok(Started::Run(Box::new(record)));
    }
    let found = store.load(session).await?;
    if found.is_some_and(|found| waiting_run(&found.inbox) == Some(run)) {
        return Ok(Started::Waits);
    }
    // It may have started between the two looks.
    let record = record().await?;
    Ok(record.map_or(Started::Unknown, |record| Started::Run(Box::new(record))))
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
