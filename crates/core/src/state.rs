//! The state of a session: changing it, recording the changes, and applying them.
//!
//! A state is a JSON object. Tools and hooks change it through a [`Draft`], which records what was
//! changed. A draft yields [`StepWrites`], the list that is stored, and from the same changes RFC
//! 6902 patches, which clients apply; so the two cannot drift apart.
//!
//! - [`merge_writes`]: merges the writes of parallel tools in the model's order.
//! - [`apply_writes`]: applies stored writes to a state.
//!
//! Nothing here copies a state to change it. Changing, reporting, merging and applying cost as much
//! as the change, however large the state is; only a change of a typed state and reading a whole state
//! process all of it.

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
    draft::Draft,
    error::{JsonKind, StateError},
    merge::{ConflictReason, Merged, StateConflict, Writer, merge_writes},
    op::{StateOp, StepWrites},
    patch::PatchOp,
    pointer::{IntoPointer, Pointer},
};
// Used by the loop and by tests; tools change the state through their context.
#[doc(hidden)]
pub use self::{
    diff::diff,
    draft::ArrayMode,
    json::{check_state, to_json},
    number::IntoNumber,
    patch::{apply_patch, to_rfc6902},
    tracker::StateTracker,
};
pub(crate) use self::{json::check_whole, patch::apply_all};
