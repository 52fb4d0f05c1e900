//! The context limit: what happens to a conversation that becomes too long for its model.
//!
//! A model reads a limited number of tokens. An agent chooses what happens near that limit: its run fails,
//! or its earlier turns are left out of the prompt, or a model summarizes them. The history itself stays
//! whole. A hidden message in it says from which message on the prompt continues, and carries the summary,
//! so a reduction survives crashes, and a rewind or a branch takes it back with the messages around it.

mod policy;
mod size;
mod stand_in;

pub(crate) use policy::SummaryWriter;
pub use policy::{ContextPolicy, UnknownContextLimit};
pub(crate) use size::{PromptSize, message_bytes};
pub use stand_in::StandIn;
