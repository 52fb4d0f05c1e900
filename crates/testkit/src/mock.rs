//! A model with a queue of replies.

use std::collections::VecDeque;
use std::future::ready;
use std::sync::{Mutex, MutexGuard, PoisonError};

use futures_util::stream;
use helix_agents_core::id::SessionId;
use helix_agents_core::message::Message;
use helix_agents_core::model::{
    EventStream, Model, ModelError, ModelErrorKind, ModelEvent, ModelRequest, TokenUsage,
    ToolChoice,
};
use helix_agents_core::step::{FINISH_TOOL, StopReason};
use helix_agents_core::transcript::Transcript;
use serde_json::Value;

/// A model with prepared replies. It records every request it receives ([`MockModel::seen`]).
///
/// [`MockModel::new`] begins a conversation: the next reply is chosen by the number of replies that the
/// session already has, so it is the same after a crash and in every session.
/// [`MockModel::replies`] is a queue with one reply per attempt, which may be a failure.
///
/// ```
/// use helix_agents_testkit::MockModel;
/// use serde_json::json;
///
/// let model = MockModel::new()
///     .calls("refund", json!({ "order_id": "42", "cents": 5000 }))
///     .says("Refunded.");
/// ```
///
/// An attempt that finds no reply left fails with [`ModelErrorKind::Invalid`].
#[derive(Debug, Default)]
pub struct MockModel {
    inner: Mutex<Inner>,
    /// The replies of a conversation, in order.
    conversation: Vec<PreparedReply>,
    native_output: bool,
}

/// A reply of a conversation.
#[derive(Debug, Clone)]
enum PreparedReply {
    Text(String),
    Calls(Vec<(String, Value)>),
}

#[derive(Debug, Default)]
struct Inner {
    replies: VecDeque<MockReply>,
    seen: Vec<SeenRequest>,
}

impl MockModel {
    /// Creates a model without replies; add them with `says`, `calls` and `finishes`.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a reply with this text to the conversation.
    #[must_use]
    pub fn says(mut self, text: impl Into<String>) -> Self {
        self.conversation.push(PreparedReply::Text(text.into()));
        self
    }

    /// Adds a reply that calls a tool to the conversation.
    #[must_use]
    pub fn calls(mut self, tool: impl Into<String>, arguments: impl Into<Value>) -> Self {
        let call = (tool.into(), arguments.into());
        self.conversation.push(PreparedReply::Calls(vec![call]));
        self
    }

    /// Adds a call to the last reply of the conversation, so that the model calls several tools at once.
    #[must_use]
    pub fn and_calls(mut self, tool: impl Into<String>, arguments: impl Into<Value>) -> Self {
        match self.conversation.last_mut() {
            Some(PreparedReply::Calls(calls)) => {
                calls.push((tool.into(), arguments.into()));
                self
            }
            _ => self.calls(tool, arguments),
        }
    }

    /// Adds a reply that gives the agent's typed output, by a call of `__finish__`.
    #[must_use]
    pub fn finishes(self, output: impl Into<Value>) -> Self {
        self.calls(FINISH_TOOL, output)
    }

    /// Creates a model that gives these replies, one per attempt, in this order.
    #[must_use]
    pub fn replies(replies: impl IntoIterator<Item = MockReply>) -> Self {
        Self {
            inner: Mutex::new(Inner {
                replies: replies.into_iter().collect(),
                seen: Vec::new(),
            }),
            ..Self::default()
        }
    }

    /// The reply of the conversation to a history.
    fn next_of_conversation(&self, history: &Transcript) -> Option<MockReply> {
        let is_reply = |message: &&Message| matches!(message, Message::Assistant(_));
        let at = history.iter().filter(is_reply).count();
        Some(match self.conversation.get(at)? {
            PreparedReply::Text(text) => MockReply::text(text),
            PreparedReply::Calls(calls) => {
                let mut reply = MockReply::new(End::Finished);
                for (n, (tool, arguments)) in calls.iter().enumerate() {
                    reply.push_call(Some(&format!("call-{at}-{n}")), tool, arguments);
                }
                reply
            }
        })
    }

    /// Makes the model claim that it supports native output.
    #[must_use]
    pub fn with_native_output(mut self) -> Self {
        self.native_output = true;
        self
    }

    /// Every request so far, oldest first.
    #[must_use]
    pub fn seen(&self) -> Vec<SeenRequest> {
        self.lock().seen.clone()
    }

    /// How many replies are left.
    #[must_use]
    pub fn replies_left(&self) -> usize {
        self.lock().replies.len()
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Model for MockModel {
    fn name(&self) -> &str {
        "test/mock"
    }

    fn stream<'a>(&'a self, request: ModelRequest<'a>) -> EventStream<'a> {
        let mut inner = self.lock();
        inner.seen.push(SeenRequest::new(&request));
        let queued = inner.replies.pop_front();
        match queued.or_else(|| self.next_of_conversation(request.prompt.history())) {
            Some(reply) => Box::pin(stream::iter(reply.into_events())),
            None => {
                let number = inner.seen.len();
                let detail = format!("the mock has no reply left for request {number}; add one");
                let error = ModelError::new(ModelErrorKind::Invalid, detail);
                Box::pin(stream::once(ready(Err(error))))
            }
        }
    }

    fn supports_native_output(&self) -> bool {
        self.native_output
    }
}

/// One reply of a [`MockModel`].
///
/// ```
/// use helix_agents_core::model::{ModelErrorKind, TokenUsage};
/// use helix_agents_testkit::{MockModel, MockReply};
///
/// let model = MockModel::replies([
///     MockReply::error(ModelErrorKind::Overloaded),
///     MockReply::text("Refunded.").with_usage(TokenUsage::new(120, 18)),
/// ]);
/// assert_eq!(model.replies_left(), 2);
/// ```
#[derive(Debug)]
pub struct MockReply {
    events: Vec<ModelEvent>,
    calls: usize,
    stop_reason: Option<StopReason>,
    usage: TokenUsage,
    end: End,
}

#[derive(Debug)]
enum End {
    Finished,
    Failed(ModelError),
    Dropped,
}

impl MockReply {
    fn new(end: End) -> Self {
        Self {
            events: Vec::new(),
            calls: 0,
            stop_reason: None,
            usage: TokenUsage::default(),
            end,
        }
    }

    /// A reply with this text and no calls.
    #[must_use]
    pub fn text(text: impl Into<String>) -> Self {
        let mut reply = Self::new(End::Finished);
        reply.events.push(ModelEvent::Text(text.into()));
        reply
    }

    /// A reply that makes these calls: id, tool, arguments.
    #[must_use]
    pub fn calls<'c>(calls: impl IntoIterator<Item = (&'c str, &'c str, Value)>) -> Self {
        Self::new(End::Finished).with_calls(calls)
    }

    /// A call of `__finish__` with this output.
    #[must_use]
    pub fn finish(output: impl Into<Value>) -> Self {
        Self::new(End::Finished).with_finish(output)
    }

    /// A failure of this kind, before any event of a reply.
    #[must_use]
    pub fn error(kind: ModelErrorKind) -> Self {
        Self::failure(ModelError::new(kind, "the mock was told to fail"))
    }

    /// This failure, before any event of a reply.
    #[must_use]
    pub fn failure(error: ModelError) -> Self {
        Self::new(End::Failed(error))
    }

    /// Adds calls to the reply: id, tool, arguments.
    #[must_use]
    pub fn with_calls<'c>(
        mut self,
        calls: impl IntoIterator<Item = (&'c str, &'c str, Value)>,
    ) -> Self {
        for (id, tool, arguments) in calls {
            self.push_call(Some(id), tool, &arguments);
        }
        self
    }

    /// Adds a call of `__finish__`.
    #[must_use]
    pub fn with_finish(mut self, output: impl Into<Value>) -> Self {
        self.push_call(None, FINISH_TOOL, &output.into());
        self
    }

    /// Sets why the model stopped; by default `tool_use` for a reply with calls, else `end_turn`.
    #[must_use]
    pub fn with_stop_reason(mut self, reason: StopReason) -> Self {
        self.stop_reason = Some(reason);
        self
    }

    /// Sets the token usage of the reply, or of the failure; zero by default.
    #[must_use]
    pub fn with_usage(mut self, usage: TokenUsage) -> Self {
        self.usage = usage;
        self
    }

    /// Makes the attempt fail after the events so far.
    #[must_use]
    pub fn then_fail(mut self, error: ModelError) -> Self {
        self.end = End::Failed(error);
        self
    }

    /// Ends the stream after the events so far without a finish event, as a dropped connection does.
    #[must_use]
    pub fn then_drop(mut self) -> Self {
        self.end = End::Dropped;
        self
    }

    fn push_call(&mut self, id: Option<&str>, tool: &str, arguments: &Value) {
        let call = self.calls;
        self.calls += 1;
        self.events.extend([
            ModelEvent::CallStart {
                id: id.map(str::to_owned),
                name: tool.to_owned(),
            },
            ModelEvent::CallArguments {
                call,
                delta: arguments.to_string(),
            },
            ModelEvent::CallEnd {
                call,
                provider_metadata: None,
            },
        ]);
    }

    fn into_events(self) -> impl Iterator<Item = Result<ModelEvent, ModelError>> + Send {
        let stop_reason = self.stop_reason.unwrap_or(match self.calls {
            0 => StopReason::EndTurn,
            _ => StopReason::ToolUse,
        });
        let used = ModelEvent::Usage(self.usage);
        let is_paid = !matches!(self.end, End::Finished) && self.usage != TokenUsage::default();
        let used = is_paid.then_some(Ok(used));
        let end = match self.end {
            End::Finished => Some(Ok(ModelEvent::Finished {
                stop_reason,
                usage: self.usage,
            })),
            End::Failed(error) => Some(Err(error)),
            End::Dropped => None,
        };
        used.into_iter()
            .chain(self.events.into_iter().map(Ok))
            .chain(end)
    }
}

/// A request as a [`MockModel`] saw it. Exhaustive, so that a test can write one down and compare.
///
/// ```
/// use helix_agents_testkit::MockModel;
///
/// fn offered(model: &MockModel) -> Vec<String> {
///     model.seen().last().map(|request| request.tools.clone()).unwrap_or_default()
/// }
/// assert!(offered(&MockModel::new().says("Hi.")).is_empty());
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct SeenRequest {
    /// The name of the agent that made the request.
    pub agent_type: String,
    /// The session of the run.
    pub session_id: SessionId,
    /// The system prompt, as it was sent.
    pub system: String,
    /// All messages of the prompt, oldest first.
    pub messages: Vec<Message>,
    /// The session's state at the time of the request.
    pub state: Value,
    /// The names of the tools on offer.
    pub tools: Vec<String>,
    /// Whether the model may, must or must not call one.
    pub tool_choice: ToolChoice,
    /// Whether the provider's native structured output was requested.
    pub native_output: bool,
    /// The number of the attempt within its model call.
    pub attempt: u32,
}

impl SeenRequest {
    fn new(request: &ModelRequest<'_>) -> Self {
        Self {
            agent_type: request.agent_type.to_owned(),
            session_id: request.session_id.clone(),
            system: request.prompt.system().to_owned(),
            messages: request.prompt.history().iter().cloned().collect(),
            state: request.state.clone(),
            tools: request.tools.iter().map(|tool| tool.name.clone()).collect(),
            tool_choice: request.tool_choice.clone(),
            native_output: request.native_output.is_some(),
            attempt: request.attempt,
        }
    }
}
