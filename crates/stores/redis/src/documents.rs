//! The documents of this store that core has no stored form for.

use std::sync::Arc;

use helix_agents_core::message::Message;
use helix_agents_core::session::{Answer, OpenCall};
use helix_agents_core::state::StepWrites;
use helix_agents_core::stored::Stored;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// One user message, or all messages of a step.
#[derive(Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct StoredMessages(pub(crate) Vec<Message>);

impl Stored for StoredMessages {
    const KIND: &'static str = "redis_messages";
    const VERSION: u32 = 1;
}

/// A version of a state.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum StoredState {
    /// The whole value.
    Whole(Arc<Value>),
    /// The writes that make it of the version before. All versions after `from` are such writes.
    Writes { from: u64, writes: StepWrites },
}

impl Stored for StoredState {
    const KIND: &'static str = "redis_state";
    const VERSION: u32 = 1;
}

/// A call of the open step that was written after the step.
#[derive(Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct StoredOpenCall(pub(crate) OpenCall);

impl Stored for StoredOpenCall {
    const KIND: &'static str = "redis_open_call";
    const VERSION: u32 = 1;
}

/// The answer to a pending call.
#[derive(Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct StoredAnswer(pub(crate) Answer);

impl Stored for StoredAnswer {
    const KIND: &'static str = "redis_answer";
    const VERSION: u32 = 1;
}

/// When and how a call was answered.
#[derive(Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct StoredAnswered(pub(crate) helix_agents_core::store::AnsweredCall);

impl Stored for StoredAnswered {
    const KIND: &'static str = "redis_answered";
    const VERSION: u32 = 1;
}
