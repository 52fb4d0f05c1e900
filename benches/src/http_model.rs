//! A model of the framework over the client that the hand-written loops use.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::sync::Arc;

use futures_util::stream;
use helix_agents_core::message::{AssistantMessage, AssistantPart, Message};
use helix_agents_core::model::{
    EventStream, MessageFormat, Model, ModelError, ModelErrorKind, ModelEvent, ModelRequest,
    TokenUsage, ToolSchema,
};
use helix_agents_core::step::StopReason;
use serde::Serialize;

use crate::openai::{ChatChunk, Client, Delta, Reply};
use crate::sqlite::Outcome;

/// A model of the server, by its name there.
#[derive(Debug)]
pub(crate) struct HttpModel {
    pub(crate) client: Arc<Client>,
    pub(crate) name: String,
}

/// The room that is made for a body without its messages.
const USUAL_HEAD: usize = 1 << 10;

/// Writes a tool as the server is told of it.
fn write_tool(tool: &ToolSchema, out: &mut Vec<u8>) -> Outcome<()> {
    out.extend(br#"{"type":"function","function":{"name":"#);
    serde_json::to_writer(&mut *out, &tool.name)?;
    out.extend(br#","description":"#);
    serde_json::to_writer(&mut *out, &tool.description)?;
    out.extend(br#","parameters":"#);
    out.extend(tool.input.text().as_bytes());
    out.extend(b"}}");
    Ok(())
}

#[derive(Serialize)]
#[serde(tag = "role", rename_all = "lowercase")]
enum WireMessage<'a> {
    System {
        content: &'a str,
    },
    User {
        content: &'a str,
    },
    Assistant {
        content: Cow<'a, str>,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        tool_calls: Vec<WireCall<'a>>,
    },
    Tool {
        tool_call_id: &'a str,
        content: &'a str,
    },
}

#[derive(Serialize)]
struct WireCall<'a> {
    id: &'a str,
    #[serde(flatten)]
    call: WireFunction<'a>,
}

#[derive(Serialize)]
#[serde(tag = "type", content = "function", rename_all = "lowercase")]
enum WireFunction<'a> {
    Function { name: &'a str, arguments: &'a str },
}

/// The text of a message, which is copied only if it has several parts.
fn text(message: &AssistantMessage) -> Cow<'_, str> {
    let mut texts = message.parts.iter().filter_map(|part| match part {
        AssistantPart::Text { text, .. } => Some(text.as_str()),
        _ => None,
    });
    match (texts.next(), texts.next()) {
        (None, _) => Cow::Borrowed(""),
        (Some(text), None) => Cow::Borrowed(text),
        _ => Cow::Owned(message.content().unwrap_or_default()),
    }
}

fn wire_message(message: &Message) -> Option<WireMessage<'_>> {
    Some(match message {
        Message::User(user) => WireMessage::User {
            content: &user.content,
        },
        Message::Assistant(reply) => {
            let calls = reply.tool_calls().map(|call| WireCall {
                id: call.id.as_str(),
                call: WireFunction::Function {
                    name: &call.name,
                    arguments: call.arguments.text(),
                },
            });
            WireMessage::Assistant {
                content: text(reply),
                tool_calls: calls.collect(),
            }
        }
        Message::Tool(result) => WireMessage::Tool {
            tool_call_id: result.tool_call_id.as_str(),
            content: &result.content,
        },
        _ => return None,
    })
}

fn broken(error: &impl ToString) -> ModelError {
    ModelError::new(ModelErrorKind::Transport, error.to_string())
}

/// The messages of a conversation, with commas between them.
#[derive(Debug, Clone, PartialEq)]
struct OpenAiMessages;

impl MessageFormat for OpenAiMessages {
    fn render(
        &self,
        message: &Message,
        previous: Option<&Message>,
        out: &mut Vec<u8>,
    ) -> Result<(), ModelError> {
        if previous.is_some() {
            out.push(b',');
        }
        let wire = wire_message(message).ok_or_else(|| broken(&"a message of an unknown kind"))?;
        serde_json::to_writer(out, &wire).map_err(|error| broken(&error))
    }
}

impl HttpModel {
    fn body(&self, request: &ModelRequest<'_>) -> Outcome<Vec<u8>> {
        let mut body = Vec::with_capacity(USUAL_HEAD);
        body.extend(br#"{"stream":true,"model":"#);
        serde_json::to_writer(&mut body, &self.name)?;
        body.extend(br#","tools":["#);
        for (place, tool) in request.tools.iter().enumerate() {
            if place > 0 {
                body.push(b',');
            }
            write_tool(tool, &mut body)?;
        }
        body.extend(br#"],"messages":["#);
        let (system, history) = (request.prompt.system(), request.prompt.history());
        if !system.is_empty() {
            serde_json::to_writer(&mut body, &WireMessage::System { content: system })?;
            body.push(b',');
        }
        history.render_into(&OpenAiMessages, &mut body)?;
        body.extend(b"]}");
        Ok(body)
    }
}

impl Model for HttpModel {
    fn stream<'a>(&'a self, request: ModelRequest<'a>) -> EventStream<'a> {
        // It is moved with every event, so it is kept in a place of its own.
        let attempt = Box::new(Attempt {
            client: &self.client,
            body: Some(self.body(&request)),
            reply: None,
            received: Received::default(),
        });
        Box::pin(stream::unfold(Some(attempt), |attempt| async move {
            let mut attempt = attempt?;
            match attempt.next().await {
                Ok(event) => Some((Ok(event?), Some(attempt))),
                Err(error) => Some((Err(broken(&error)), None)),
            }
        }))
    }

    fn name(&self) -> &str {
        &self.name
    }
}

/// One attempt of a model call, from its request to the end of its reply.
struct Attempt<'a> {
    client: &'a Client,
    /// Taken when the request is sent.
    body: Option<Outcome<Vec<u8>>>,
    reply: Option<Reply<'a>>,
    received: Received,
}

impl Attempt<'_> {
    async fn next(&mut self) -> Outcome<Option<ModelEvent>> {
        if let Some(body) = self.body.take() {
            self.reply = Some(self.client.post(&body?).await?);
        }
        loop {
            if let Some(event) = self.received.ready.pop_front() {
                return Ok(Some(event));
            }
            let Some(reply) = &mut self.reply else {
                return Ok(None);
            };
            match reply.next().await? {
                Some(event) => {
                    if let Some(chunk) = ChatChunk::read(event)? {
                        self.received.push(chunk);
                    }
                }
                None => {
                    self.reply = None;
                    self.received.finish();
                }
            }
        }
    }
}

/// The part of a reply that was received so far.
#[derive(Default)]
struct Received {
    /// The events that were not given out yet.
    ready: VecDeque<ModelEvent>,
    /// The number of calls that have begun.
    calls: usize,
    usage: Option<TokenUsage>,
}

impl Received {
    fn push(&mut self, chunk: ChatChunk<'_>) {
        for choice in chunk.choices {
            self.push_delta(choice.delta);
        }
        if let Some(usage) = chunk.usage {
            let usage = TokenUsage::new(usage.prompt_tokens, usage.completion_tokens);
            self.usage = Some(usage);
        }
    }

    fn push_delta(&mut self, delta: Delta<'_>) {
        if let Some(content) = delta.content
            && !content.0.is_empty()
        {
            let content = content.0.into_owned();
            self.ready.push_back(ModelEvent::Text(content));
        }
        for call in delta.tool_calls {
            if let Some(name) = call.function.name {
                self.calls += 1;
                self.ready.push_back(ModelEvent::CallStart {
                    id: call.id.map(|id| id.0.into_owned()),
                    name: name.0.into_owned(),
                });
            }
            if !call.function.arguments.0.is_empty() {
                self.ready.push_back(ModelEvent::CallArguments {
                    call: call.index,
                    delta: call.function.arguments.0.into_owned(),
                });
            }
        }
    }

    /// Ends the reply. Without a usage it was cut off, and its stream ends without its last event.
    fn finish(&mut self) {
        let Some(usage) = self.usage else { return };
        let ends = (0..self.calls).map(|call| ModelEvent::CallEnd {
            call,
            provider_metadata: None,
        });
        self.ready.extend(ends);
        let stop_reason = match self.calls {
            0 => StopReason::EndTurn,
            _ => StopReason::ToolUse,
        };
        self.ready
            .push_back(ModelEvent::Finished { stop_reason, usage });
    }
}
