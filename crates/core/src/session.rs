//! The stored records of a session: runs, open step, checkpoints, pending calls and children.
//!
//! These are data types. A session is a conversation; a run is one execution in it; the open step
//! is the last reply of the model while its calls are not all settled. Everything here is stored,
//! so every type has a format version (see [`crate::stored`]).

mod checkpoint;
mod child;
mod effect;
mod idempotency_key;
mod open_step;
mod pending;
mod run;
mod state;
mod status;
mod stop;
mod submission;
mod timeout;

pub use checkpoint::{Checkpoint, CheckpointSource};
#[doc(hidden)]
pub use child::{ChildLocation, ChildMode, ChildStatus, ChildWait};
pub use child::{PersistentChild, SessionAbove, SubSessionRef, companion_address};
// Contents of stored rows; stores pass them on unread, and only the loop writes them.
#[doc(hidden)]
pub use effect::{EffectRecord, EffectState};
pub use idempotency_key::IdempotencyKey;
pub use open_step::OpenStep;
#[doc(hidden)]
pub use open_step::{Approval, CallPhase, CallState, ChildCall, OpenCall, ReplyUsage};
pub use pending::{Answer, PendingCall, PendingKind, WaitingCall};
pub use run::{RunRecord, RunTrigger, Suspended};
#[doc(hidden)]
pub use run::{StepStart, TurnStart};
pub use state::{InterruptContext, SessionState};
#[doc(hidden)]
pub use state::{SessionMode, TracingContext, WorkspaceRef};
pub use status::{RunStatus, SessionStatus};
pub use stop::{StopKind, StopRequest};
pub use submission::{
    MAX_ERROR_BYTES, MAX_RESULT_BYTES, Submission, SubmissionError, SubmissionOutcome,
};
pub use timeout::{AnswerKind, CallBinding};
