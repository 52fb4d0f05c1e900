//! The loop of a run, as a pure function.
//!
//! [`decide`] takes a [`RunState`] and an [`Event`] and returns the next state and the [`Effect`]s
//! to perform. It reads no clock and awaits nothing: a host performs the effects, in whatever
//! process and order suits its engine, and feeds their events back. All three are small and hold
//! references only; the content is in the store.

mod calls;
mod decide;
mod effect;
mod event;
mod facts;
mod rebuild;
mod state;

pub use calls::{CallRef, CallStatus, Calls};
pub use decide::decide;
pub use effect::{Effect, EffectAddress, EffectKind, RunEnd};
pub use event::{Event, EventKind, Settled};
pub use facts::AgentLimits;
pub use rebuild::started_calls;
pub use state::{OpenStepRef, RunState};
