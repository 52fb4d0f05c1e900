//! The state of a session: changing it, recording the changes, and applying them.
//!
//! A state is a JSON object. Tools and hooks change it through a [`Draft`], which records what was
//! changed. A draft yields [`StepWrites`], the list that is stored, and from the same changes RFC
//! 6902 patches, which clients apply; so the two cannot drift apart.
//!
//! - [`StateTracker`]: tracks a state over several updates. An update takes effect whole or not at all.
//! - [`merge_writes`]: merges the writes of parallel tools in the model's order.
//! - [`apply_writes`]: applies stored writes to a state; [`apply_patch`] applies patches,
//!   as a client does.
//! - [`diff`]: the changes between two states.
//! - [`to_json`]: rejects values that JSON cannot represent instead of storing `null`.
//!
//! Nothing here copies a state to change it. Changing, reporting, merging and applying cost as much
//! as the change, however large the state is; only [`diff`], [`StateTracker::update_typed`] and
//! reading a whole state process all of it.

mod apply;
mod changes;
mod diff;
mod draft;
mod error;
mod json;
mod merge;
mod number;
mod op;
mod overlay;
mod patch;
mod pointer;
mod tracker;

pub use crate::bounds::MAX_DEPTH;

pub use self::{
    apply::apply_writes,
    diff::diff,
    draft::{ArrayMode, Draft},
    error::{JsonKind, StateError},
    json::{check_state, to_json},
    merge::{ConflictReason, Merged, StateConflict, Writer, merge_writes},
    number::IntoNumber,
    op::{StateOp, StepWrites},
    patch::{PatchOp, apply_patch, to_rfc6902},
    pointer::{IntoPointer, Pointer},
    tracker::StateTracker,
};
pub(crate) use self::{json::check_whole, patch::apply_all};
