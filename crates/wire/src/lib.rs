//! The bridge to front ends that use the Vercel AI SDK.
//!
//! Our chunks and messages are our own; a stock AI SDK client understands another stream and other messages. This
//! crate has their types ([`UiChunk`], [`UiMessage`], [`Snapshot`]) and the conversion in both directions, and does
//! no I/O: the chat routes of the server are written with it, and so can those of another server be.
//!
//! - [`StreamTransformer`] turns the chunks of a turn into the chunks of one assistant message, its *bubble*.
//! - [`convert_messages`] turns stored messages into UI messages, with the ids that the stream gave them.
//! - [`extract_resume_intent`] finds the answers in what a client sends back, and [`find_expired_pending`] the
//!   calls that nobody can answer any more.
//! - [`SseWriter`] frames a stream.
//!
//! Only what every client of versions 6 and 7 accepts is written: no unknown type, no unknown field, no `null` for
//! a field that may be left out. None of these types is ever stored.

mod chunk;
mod convert;
mod data;
mod error;
mod history;
mod intent;
mod message;
mod position;
mod replay;
mod request;
mod snapshot;
mod sse;
mod tools;
mod transformer;
#[cfg(test)]
mod typescript;

pub use chunk::{DataChunk, FinishReason, UiChunk};
pub use convert::{ConvertOptions, begins_turn, bubble_id, convert_messages};
pub use error::{FrontendError, HelixStreamError};
pub use history::{UiMessageStore, UiMessages};
pub use intent::{
    IntentError, RejectedAnswer, ResumeIntents, extract_resume_intent, find_expired_pending,
    same_json,
};
pub use message::{DataPart, ToolApproval, ToolState, UiMessage, UiPart, UiRole};
pub use position::{ResumePosition, extract_resume_position};
pub use replay::replay_message;
pub use request::{ChatRequest, IncomingMessage, Trigger};
pub use snapshot::{PendingView, Snapshot, SnapshotError, SnapshotStatus};
pub use sse::{AI_SDK_UI_HEADER, SSE_HEADERS, SseWriter};
pub use tools::{ToolKind, ToolKinds};
pub use transformer::{StreamTransformer, TransformerOptions};
