//! Everything an effect reaches the world through.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::hold::Hold;
use super::memory::Memory;
use crate::abort::AbortSignal;
use crate::agent::AgentRegistry;
use crate::bounds::Bounds;
use crate::entries::Performer;
use crate::hooks::AgentHooks;
use crate::id::IdSource;
use crate::meter::Meter;
use crate::model::Model;
use crate::store::{SessionStore, WatchStops};
use crate::stream::StreamManager;
use crate::time::Clock;

/// How long a tool may take to end after its run was asked to stop, unless the host says otherwise.
pub const STOP_GRACE: Duration = Duration::from_secs(5);

/// Models by their names.
pub trait Models: Send + Sync + fmt::Debug {
    /// The model of this name.
    fn model(&self, name: &str) -> Option<Arc<dyn Model>>;

    /// Why there is no model of this name, and what to do, where more is known than that.
    fn why_missing(&self, _name: &str) -> Option<String> {
        None
    }
}

impl Models for BTreeMap<String, Arc<dyn Model>> {
    fn model(&self, name: &str) -> Option<Arc<dyn Model>> {
        self.get(name).cloned()
    }
}

/// Everything an effect reaches the world through.
#[derive(Clone)]
#[non_exhaustive]
pub struct Ports {
    /// The store of sessions.
    pub store: Arc<dyn SessionStore>,
    /// The store of streams.
    pub streams: Arc<dyn StreamManager>,
    /// The clock that effects read and wait by.
    pub clock: Arc<dyn Clock>,
    /// Where ids come from.
    pub ids: Arc<dyn IdSource>,
    /// The agents.
    pub agents: Arc<AgentRegistry>,
    /// The models that agents name.
    pub models: Arc<dyn Models>,
    /// Where a run hears that it is asked to stop while the model replies, a tool runs, or it waits.
    /// Without it a run looks when that is over.
    pub stops: Option<Arc<dyn WatchStops>>,
    /// Sent when the run is asked to stop, by a host that listens for the whole run. It spares every effect
    /// to listen by itself.
    pub stop: Option<AbortSignal>,
    /// Receives measurements, where somebody takes them.
    pub meter: Option<Arc<dyn Meter>>,
    /// Hooks of the parent, which come before the agent's own.
    pub parent_hooks: Vec<Arc<dyn AgentHooks>>,
    /// Hooks of this execution, which come after the agent's own.
    pub execution_hooks: Vec<Arc<dyn AgentHooks>>,
    /// Tells tools and hooks to stop.
    pub abort: AbortSignal,
    /// How long a tool may take to end after its run was asked to stop. Then it is left behind, and its
    /// outcome is unknown.
    pub stop_grace: Duration,
    /// Whether readers are warned when the deadline of a pending call is near. It costs a commit per call.
    pub warns_of_deadlines: bool,
    /// Who performs the children that a run starts. Without it, a host of the same kind that holds no lease.
    pub performer: Option<Performer>,
    /// Whether the run is held, for hosts that have leases; without it, it always is.
    pub hold: Option<Arc<Hold>>,
    pub(super) memory: Memory,
}

impl Ports {
    /// Ports without models by name, hooks, or memory.
    #[must_use]
    pub fn new(
        store: Arc<dyn SessionStore>,
        streams: Arc<dyn StreamManager>,
        clock: Arc<dyn Clock>,
        ids: Arc<dyn IdSource>,
        agents: Arc<AgentRegistry>,
    ) -> Self {
        Self {
            store,
            streams,
            clock,
            ids,
            agents,
            models: Arc::new(BTreeMap::new()),
            stops: None,
            stop: None,
            meter: None,
            parent_hooks: Vec::new(),
            execution_hooks: Vec::new(),
            abort: AbortSignal::default(),
            stop_grace: STOP_GRACE,
            warns_of_deadlines: false,
            performer: None,
            hold: None,
            memory: Memory::none(),
        }
    }

    /// The bounds of values that come from outside.
    pub(crate) fn bounds(&self) -> Bounds {
        Bounds::of(self.streams.limits())
    }

    /// The models that agents name.
    #[must_use]
    pub fn with_models(mut self, models: Arc<dyn Models>) -> Self {
        self.models = models;
        self
    }

    /// Where a run hears that it is asked to stop.
    #[must_use]
    pub fn with_stops(mut self, stops: Arc<dyn WatchStops>) -> Self {
        self.stops = Some(stops);
        self
    }

    /// Lets children that a run starts be performed by this one.
    #[must_use]
    pub fn with_performer(mut self, performer: Performer) -> Self {
        self.performer = Some(performer);
        self
    }

    /// Gives measurements to this meter.
    #[must_use]
    pub fn with_meter(mut self, meter: Option<Arc<dyn Meter>>) -> Self {
        self.meter = meter;
        self
    }

    /// The same ports without a memory.
    #[must_use]
    #[doc(hidden)]
    pub fn forgetful(mut self) -> Self {
        self.memory = Memory::none();
        self
    }

    /// The same ports for one run, with a memory of what its own effects read and wrote.
    ///
    /// Only for a host that performs every effect of a run itself, each once, under one fence: the
    /// memory spares it reading the history and the open step for every effect. Whatever goes wrong,
    /// the fence keeps a run that was taken over from writing.
    #[must_use]
    pub fn remembering(mut self) -> Self {
        self.memory = Memory::empty();
        self
    }
}

impl fmt::Debug for Ports {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ports")
            .field("store", &self.store)
            .field("agents", &self.agents)
            .finish_non_exhaustive()
    }
}
