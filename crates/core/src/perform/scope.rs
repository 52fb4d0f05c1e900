//! The scope of an effect: where it belongs, and what it reaches the world through.

use std::sync::Arc;

use super::{PerformError, Ports, SessionView};
use crate::id::AgentId;
use crate::machine::{Effect, EffectAddress, Event, EventKind};
use crate::session::StopRequest;
use crate::stream::ChunkOrigin;
use crate::time::Timestamp;

/// An effect, its ports, and the base of the chunks that it writes.
#[derive(Clone, Copy)]
pub(super) struct Scope<'a> {
    pub(super) effect: &'a Effect,
    pub(super) ports: &'a Ports,
    pub(super) base: &'a Arc<ChunkOrigin>,
}

/// The base of the chunks of an effect.
pub(super) fn chunk_base(at: &EffectAddress) -> Arc<ChunkOrigin> {
    Arc::new(ChunkOrigin::new(
        AgentId::of_session(&at.session_id),
        &at.agent_type,
        at.session_id.clone(),
        at.run_id.clone(),
        at.step,
    ))
}

impl<'a> Scope<'a> {
    /// Where the effect belongs.
    pub(super) fn at(self) -> &'a EffectAddress {
        &self.effect.at
    }

    /// Reads the clock.
    pub(super) fn now(self) -> Timestamp {
        self.ports.clock.now()
    }

    /// The event that the effect gives.
    pub(super) fn event(self, what: EventKind) -> Event {
        Event::of(self.at(), what)
    }

    /// Whether a stored request asks this run to stop.
    pub(super) fn is_stopped_by(self, request: Option<&StopRequest>) -> bool {
        request.is_some_and(|request| request.run_id == self.at().run_id)
    }

    /// The error for something that the effect names and that is not stored.
    pub(super) fn missing(self, what: &'static str) -> PerformError {
        PerformError::Missing {
            session: self.at().session_id.clone(),
            what,
        }
    }

    /// The error for a session that changed beside the run in every try.
    pub(super) fn moving(self) -> PerformError {
        self.missing("an open step that stays the same for the length of a commit")
    }

    /// The error for a run that another process has.
    pub(super) fn superseded(self) -> PerformError {
        PerformError::Superseded {
            session: self.at().session_id.clone(),
        }
    }

    /// The error for an effect at which another attempt was faster.
    pub(super) fn overtaken(self) -> PerformError {
        PerformError::Overtaken {
            session: self.at().session_id.clone(),
        }
    }
}

/// The context of the work on an effect: its scope, its session, and the instant of its commit.
#[derive(Clone, Copy)]
pub(super) struct EffectContext<'a> {
    pub(super) scope: Scope<'a>,
    pub(super) view: &'a SessionView,
    /// The instant that everything in the commit bears.
    pub(super) now: Timestamp,
}

impl<'a> EffectContext<'a> {
    /// The context at the present instant.
    pub(super) fn new(scope: Scope<'a>, view: &'a SessionView) -> Self {
        let now = scope.now();
        Self { scope, view, now }
    }

    /// The same context at the present instant, for a commit after user code or the model ran.
    pub(super) fn renewed(self) -> Self {
        Self::new(self.scope, self.view)
    }

    /// Where the effect belongs.
    pub(super) fn at(self) -> &'a EffectAddress {
        self.scope.at()
    }

    /// The ports of the effect.
    pub(super) fn ports(self) -> &'a Ports {
        self.scope.ports
    }
}
