//! Models around models: each is a model itself.

mod fallback;
mod limits;
mod priced;
mod recorder;

pub use fallback::Fallback;
pub use limits::{Limited, Limiter};
pub use priced::Priced;
pub use recorder::{Recorder, RecorderError};
