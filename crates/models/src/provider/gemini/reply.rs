//! Streamed replies of Gemini.
//!
//! Every event is a piece of the reply with some whole parts. Texts and thoughts go on from event to event;
//! a part with a signature is one of its own, and is given back as such.

use std::collections::VecDeque;

use helix_agents_core::model::{ModelError, ModelErrorKind, ModelEvent, TokenUsage};
use helix_agents_core::step::StopReason;
use serde_json::{Map, Value, json};

use super::messages::{MODEL, PART, SIGNATURE};
use super::response::{Candidate, FunctionCall, Part, Response};
use crate::provider::Provider;
use crate::provider::failure::ProviderFailure;
use crate::provider::sse::SseEvent;
use crate::provider::wire::{ReadError, ReplyReader};

/// A reply as far as it is here.
#[derive(Debug)]
pub(super) struct GeminiReply {
    model: String,
    /// The number of calls.
    calls: usize,
    open: Open,
    stopped: Option<StopReason>,
    /// The tokens of this response and of those before it.
    usage: TokenUsage,
    /// The tokens of the responses before.
    before: TokenUsage,
    rest: Rest,
}

/// The rest of a reply that is longer than one response of the provider may be.
#[derive(Debug, Default)]
struct Rest {
    /// The latest token that the rest can be asked for with.
    token: Option<String>,
    /// Whether the response ended before the reply did.
    is_due: bool,
    /// The token that this response was asked for with.
    asked: Option<String>,
    /// The length of the first request without its end, where a token is added.
    first: Option<usize>,
}

/// The part that may still grow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Open {
    Nothing,
    Text,
    Thought,
}

impl GeminiReply {
    pub(super) fn new(model: &str) -> Self {
        Self {
            model: model.to_owned(),
            calls: 0,
            open: Open::Nothing,
            stopped: None,
            usage: TokenUsage::default(),
            before: TokenUsage::default(),
            rest: Rest::default(),
        }
    }

    /// Returns what is kept with a part, for requests to the same model.
    fn kept(&self, more: Option<(&str, Value)>) -> Value {
        let mut ours = Map::new();
        ours.insert(MODEL.to_owned(), self.model.as_str().into());
        ours.extend(more.map(|(name, value)| (name.to_owned(), value)));
        json!({ (Provider::Gemini.name()): ours })
    }

    /// Ends the part that may still grow, unless it is of this kind.
    fn end_other(&mut self, kind: Open, out: &mut VecDeque<ModelEvent>) {
        if self.open == kind {
            return;
        }
        match std::mem::replace(&mut self.open, Open::Nothing) {
            Open::Nothing => {}
            Open::Text => out.push_back(ModelEvent::TextEnd {
                provider_metadata: None,
            }),
            Open::Thought => out.push_back(ModelEvent::ThinkingEnd {
                signature: None,
                redacted: None,
                provider_metadata: Some(self.kept(None)),
            }),
        }
    }

    fn part(&mut self, mut part: Part, out: &mut VecDeque<ModelEvent>) -> Result<(), ReadError> {
        let signature = part.thought_signature.take();
        let signature = signature.filter(|signature| !signature.is_empty());
        if let Some(call) = part.function_call {
            self.end_other(Open::Nothing, out);
            return self.call(call, signature, out);
        }
        if let Some((name, value)) = part.of_gemini_alone() {
            self.end_other(Open::Nothing, out);
            let mut part = Map::new();
            part.insert(name.to_owned(), value);
            part.extend(signature.map(|signature| (SIGNATURE.to_owned(), signature.into())));
            out.push_back(ModelEvent::TextEnd {
                provider_metadata: Some(self.kept(Some((PART, part.into())))),
            });
            return Ok(());
        }
        let kind = if part.thought {
            Open::Thought
        } else {
            Open::Text
        };
        let text = part.text.unwrap_or_default();
        if text.is_empty() && signature.is_none() {
            return Ok(());
        }
        // What came before a part with a signature is another part.
        self.end_other(
            if signature.is_some() {
                Open::Nothing
            } else {
                kind
            },
            out,
        );
        if !text.is_empty() {
            self.open = kind;
            out.push_back(match kind {
                Open::Thought => ModelEvent::Thinking(text),
                _ => ModelEvent::Text(text),
            });
        }
        if let Some(signature) = signature {
            self.open = Open::Nothing;
            out.push_back(match kind {
                Open::Thought => ModelEvent::ThinkingEnd {
                    signature: Some(signature),
                    redacted: None,
                    provider_metadata: Some(self.kept(None)),
                },
                _ => ModelEvent::TextEnd {
                    provider_metadata: Some(self.kept(Some((SIGNATURE, signature.into())))),
                },
            });
        }
        Ok(())
    }

    fn call(
        &mut self,
        call: FunctionCall,
        signature: Option<String>,
        out: &mut VecDeque<ModelEvent>,
    ) -> Result<(), ReadError> {
        if call.partial_args.is_some() || call.will_continue {
            let detail = "gemini sent the arguments of a call in pieces, which its own API does not; \
                          remove `streamFunctionCallArguments` from the provider options";
            return Err(ModelError::new(ModelErrorKind::Invalid, detail).into());
        }
        let number = self.calls;
        self.calls += 1;
        out.push_back(ModelEvent::CallStart {
            id: call.id.filter(|id| !id.is_empty()),
            name: call.name,
        });
        if let Some(arguments) = call.args {
            out.push_back(ModelEvent::CallArguments {
                call: number,
                delta: arguments.to_string(),
            });
        }
        let signature = signature.map(|signature| (SIGNATURE, signature.into()));
        out.push_back(ModelEvent::CallEnd {
            call: number,
            provider_metadata: signature.map(|signature| self.kept(Some(signature))),
        });
        Ok(())
    }

    fn candidate(
        &mut self,
        candidate: Candidate,
        out: &mut VecDeque<ModelEvent>,
    ) -> Result<(), ReadError> {
        for part in candidate.content.unwrap_or_default().parts {
            self.part(part, out)?;
        }
        if candidate.continuation_token.is_some() {
            self.rest.token = candidate.continuation_token;
        }
        let reason = candidate.finish_reason;
        let is_given =
            |reason: &String| !matches!(reason.as_str(), "" | "FINISH_REASON_UNSPECIFIED");
        if let Some(reason) = reason.filter(is_given) {
            self.stopped = Some(stop_reason(&reason)?);
            self.rest.is_due = reason == "CONTINUATION";
        }
        Ok(())
    }
}

impl ReplyReader for GeminiReply {
    fn read(
        &mut self,
        event: SseEvent<'_>,
        out: &mut VecDeque<ModelEvent>,
    ) -> Result<(), ReadError> {
        // An error may come as the array that a response without events is.
        if event.data.starts_with('[') {
            let failure = ProviderFailure::of_body(event.data.as_bytes());
            return Err(ReadError::Provider(failure));
        }
        let response: Response =
            serde_json::from_str(event.data).map_err(|error| ReadError::malformed(&error))?;
        if let Some(error) = response.error {
            return Err(ReadError::Provider(ProviderFailure::of_error(&error)));
        }
        // The counts are those of the whole response so far.
        if let Some(usage) = response.usage_metadata.map(TokenUsage::from) {
            let mut total = self.before;
            total += usage;
            if total != self.usage {
                self.usage = total;
                out.push_back(ModelEvent::Usage(total));
            }
        }
        if response.prompt_feedback.is_some_and(|it| it.is_blocked()) {
            self.stopped = Some(StopReason::ContentFilter);
        }
        // A request asks for one reply; a server that sends several is heard once.
        let mut candidates = response.candidates.into_iter();
        match candidates.find(|candidate| candidate.index == 0) {
            Some(candidate) => self.candidate(candidate, out),
            None => Ok(()),
        }
    }

    fn rest(&mut self, sent: &[u8]) -> Option<Vec<u8>> {
        // A stream that broke has a token, too; whether to try again is for the loop to decide.
        if !std::mem::take(&mut self.rest.is_due) {
            return None;
        }
        let token = self.rest.token.take().filter(|token| !token.is_empty())?;
        // A provider that gives the same token again makes no progress.
        if self.rest.asked.as_ref() == Some(&token) {
            return None;
        }
        let head = sent.strip_suffix(b"}")?;
        let first = *self.rest.first.get_or_insert(head.len());
        let mut body = head.get(..first)?.to_vec();
        body.extend(br#","continuationToken":"#);
        serde_json::to_writer(&mut body, &token).ok()?;
        body.push(b'}');
        self.rest.asked = Some(token);
        self.stopped = None;
        self.before = self.usage;
        Some(body)
    }

    fn end(&mut self, out: &mut VecDeque<ModelEvent>) -> Result<(), ReadError> {
        // A stream has no last event; one without a reason was cut off. Events may follow the one with the
        // reason, and some servers give a reason with each.
        let Some(reason) = self.stopped.take() else {
            return Ok(());
        };
        self.end_other(Open::Nothing, out);
        let stop_reason = match reason {
            StopReason::EndTurn if self.calls > 0 => StopReason::ToolUse,
            reason => reason,
        };
        out.push_back(ModelEvent::Finished {
            stop_reason,
            usage: self.usage,
        });
        Ok(())
    }
}

fn stop_reason(reason: &str) -> Result<StopReason, ReadError> {
    Ok(match reason {
        "STOP" => StopReason::EndTurn,
        // A reply that goes on and has no token for its rest is not whole, either.
        "MAX_TOKENS" | "CONTINUATION" => StopReason::MaxTokens,
        "SAFETY"
        | "RECITATION"
        | "BLOCKLIST"
        | "PROHIBITED_CONTENT"
        | "SPII"
        | "IMAGE_SAFETY"
        | "IMAGE_PROHIBITED_CONTENT"
        | "IMAGE_RECITATION" => StopReason::ContentFilter,
        "LANGUAGE" | "TOO_MANY_TOOL_CALLS" => StopReason::Error,
        // The model wrote what cannot be read. It seldom does so twice, so the call is worth another attempt.
        "MALFORMED_FUNCTION_CALL" | "MALFORMED_RESPONSE" | "UNEXPECTED_TOOL_CALL" => {
            let detail = format!(
                "gemini ended its reply with {reason}: the model wrote a call or a text that cannot be read"
            );
            return Err(ModelError::new(ModelErrorKind::Transport, detail).into());
        }
        _ => StopReason::Unknown,
    })
}
