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

// Contents of a run state and of an event, which a host passes on unread.
#[doc(hidden)]
pub use calls::{CallRef, CallStatus, Calls};
pub use decide::decide;
pub use effect::{Effect, EffectAddress, EffectKind, RunEnd};
pub use event::Event;
#[doc(hidden)]
pub use event::{EventKind, TurnProgress};
pub use facts::AgentLimits;
pub(crate) use rebuild::started_calls;
#[doc(hidden)]
pub use state::OpenStepRef;
pub use state::RunState;
