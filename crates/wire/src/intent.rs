//! The answers in what a client sends back.

use helix_agents_core::session::{PendingCall, PendingKind, Submission};
use helix_agents_core::time::Timestamp;
use helix_agents_core::{ApprovalId, CallId};
use serde_json::{Map, Value};

use crate::IncomingMessage;

/// The answers that a client sends, found in the parts of its last assistant message.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct ResumeIntents {
    /// Answers to calls that wait for one.
    pub intents: Vec<Submission>,
    /// Calls that the client has answered, and that do not wait: they were answered before, timed out, or belong to a
    /// turn that is over. The whole message comes back with every request, so most of them are no answers at all.
    pub rejected: Vec<RejectedAnswer>,
    /// Whether a user message follows.
    pub has_trailing_user_message: bool,
}

/// An answer to a call that does not wait for one.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct RejectedAnswer {
    /// The call, as the client names it.
    pub tool_call_id: String,
    /// The answer: a call that has timed out may still be answered late.
    pub submission: Option<Submission>,
}

/// An answer that does not fit the call that it names. Nothing of the request may be stored then.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the answer to call {call} {why}")]
#[non_exhaustive]
pub struct IntentError {
    /// The call.
    pub call: CallId,
    /// What does not fit.
    pub why: &'static str,
}

/// Finds the answers to the calls that wait in a session's tree. Everything else in the messages is ignored: the
/// server has it.
///
/// A call is known by its id and its tool's name; a call of a sub-agent whose id another call of the tree has is known
/// by its session, too, as [`StreamTransformer`](crate::StreamTransformer) writes it. A decision names its request,
/// and repeats the arguments that were approved.
///
/// # Errors
/// [`IntentError`] if an answer is of the wrong kind, names another request, or has other arguments.
pub fn extract_resume_intent(
    messages: &[IncomingMessage],
    pending: &[PendingCall],
) -> Result<ResumeIntents, IntentError> {
    let mut found = ResumeIntents {
        has_trailing_user_message: messages.last().is_some_and(IncomingMessage::is_user),
        ..ResumeIntents::default()
    };
    let assistant = messages.iter().rev().find(|one| one.role == "assistant");
    let parts = assistant.map_or(&[][..], |message| &message.parts);
    let last_step = parts
        .iter()
        .rposition(|part| text(part, "type") == Some("step-start"));
    // Where the bubble has a call of that id already, a sub-agent's has another.
    let has_own_id = |call: &&PendingCall| {
        let id = format!("{}/{}", call.session_id, call.tool_call_id);
        parts
            .iter()
            .any(|part| text(part, "toolCallId") == Some(&id))
    };
    for (index, part) in parts.iter().enumerate() {
        let Some(answer) = Answered::of(part) else {
            continue;
        };
        let decided = pending.iter().find(|call| answer.decides(call));
        let is_named = |call: &&PendingCall| answer.names(call, has_own_id(call));
        let call = decided.or_else(|| pending.iter().find(is_named));
        if let Some(call) = call.filter(|call| call.answer.is_none()) {
            found.intents.push(answer.to(call, has_own_id(&call))?);
        } else if last_step.is_none_or(|step| index > step) {
            found.rejected.push(RejectedAnswer {
                tool_call_id: answer.id.to_owned(),
                submission: answer.unbound(),
            });
        }
    }
    Ok(found)
}

/// Returns the calls whose deadline has passed, and that nobody has answered.
#[must_use]
pub fn find_expired_pending<'a>(
    pending: impl IntoIterator<Item = &'a PendingCall>,
    now: Timestamp,
) -> Vec<CallId> {
    let open = pending.into_iter().filter(|call| call.answer.is_none());
    let expired = open.filter(|call| call.deadline.is_some_and(|deadline| deadline <= now));
    expired.map(|call| call.tool_call_id.clone()).collect()
}

/// A part of a call that has an answer.
struct Answered<'a> {
    part: &'a Map<String, Value>,
    id: &'a str,
    tool: &'a str,
    state: &'a str,
}

impl<'a> Answered<'a> {
    fn of(part: &'a Map<String, Value>) -> Option<Self> {
        let kind = text(part, "type")?;
        let tool = match kind.strip_prefix("tool-") {
            Some(name) => name,
            None if kind == "dynamic-tool" => text(part, "toolName")?,
            None => return None,
        };
        let state = text(part, "state")?;
        let is_set = |key| part.get(key) == Some(&Value::Bool(true));
        // What the server ran, nobody answers.
        let is_ours = is_set("providerExecuted") || is_set("preliminary");
        let is_answer = matches!(
            state,
            "output-available" | "output-error" | "approval-responded"
        );
        (is_answer && !is_ours).then_some(Self {
            part,
            id: text(part, "toolCallId")?,
            tool,
            state,
        })
    }

    /// Whether it is the decision about this call.
    fn decides(&self, call: &PendingCall) -> bool {
        let asked = call.approval_id.as_ref().map(ApprovalId::as_str);
        self.state == "approval-responded" && asked.is_some() && asked == self.approval("id")
    }

    /// Whether the part is that of this call. `has_own_id` is whether that has an id with its session in this message.
    fn names(&self, call: &PendingCall, has_own_id: bool) -> bool {
        let is_named = match self.id.rsplit_once('/') {
            Some((session, id)) => {
                id == call.tool_call_id.as_str() && session == call.session_id.as_str()
            }
            None => self.id == call.tool_call_id.as_str() && !has_own_id,
        };
        is_named && self.tool == call.tool_name.as_str()
    }

    fn approval(&self, key: &str) -> Option<&'a str> {
        self.part.get("approval")?.get(key)?.as_str()
    }

    /// The answer to the call that the part names, whatever that is.
    fn unbound(&self) -> Option<Submission> {
        let id = self.id.rsplit_once('/').map_or(self.id, |(_, id)| id);
        let call = CallId::new(id).ok()?;
        Some(match self.state {
            "output-available" => {
                Submission::result(call, self.part.get("output").cloned().unwrap_or_default())
            }
            "output-error" => Submission::error(call, text(self.part, "errorText")?),
            _ => {
                let approval = ApprovalId::new(self.approval("id")?).ok()?;
                let approved = self.part.get("approval")?.get("approved")?.as_bool()?;
                let reason = self.approval("reason").map(str::to_owned);
                Submission::decision(call, approval, approved, reason)
            }
        })
    }

    fn to(&self, call: &PendingCall, has_own_id: bool) -> Result<Submission, IntentError> {
        let refuse = |why| IntentError {
            call: call.tool_call_id.clone(),
            why,
        };
        let tool_call_id = call.tool_call_id.clone();
        let digest = Some(call.digest.clone());
        let run_id = Some(call.run_id.clone());
        if call.kind == PendingKind::Client {
            let client = |result, error| Submission::ClientToolResult {
                tool_call_id,
                result,
                error,
                digest,
                run_id,
            };
            return match self.state {
                "output-available" => {
                    let output = self.part.get("output").cloned();
                    Ok(client(Some(output.unwrap_or_default()), None))
                }
                "output-error" => {
                    let error = text(self.part, "errorText").filter(|error| !error.is_empty());
                    Ok(client(
                        None,
                        Some(error.unwrap_or("the client failed").to_owned()),
                    ))
                }
                _ => Err(refuse(
                    "is a decision, and the call waits for a client's result",
                )),
            };
        }
        if self.state != "approval-responded" {
            return Err(refuse(
                "is a result, and the call waits for a person's decision",
            ));
        }
        let Some(approval_id) = call.approval_id.clone() else {
            return Err(refuse(
                "cannot be given: the call has no request for approval",
            ));
        };
        if self.approval("id") != Some(approval_id.as_str()) {
            return Err(refuse("names another request for approval"));
        }
        if !self.names(call, has_own_id) {
            return Err(refuse("names another call than its request for approval"));
        }
        let input = self.part.get("input");
        if !input.is_some_and(|input| same_json(input, &call.input)) {
            return Err(refuse("has other arguments than those that were shown"));
        }
        let approved = self
            .part
            .get("approval")
            .and_then(|one| one.get("approved"));
        let Some(approved) = approved.and_then(Value::as_bool) else {
            return Err(refuse("does not say whether it is approved"));
        };
        Ok(Submission::ApprovalResponse {
            tool_call_id,
            approval_id,
            approved,
            reason: self.approval("reason").map(str::to_owned),
            digest,
            run_id,
        })
    }
}

fn text<'a>(part: &'a Map<String, Value>, key: &str) -> Option<&'a str> {
    part.get(key)?.as_str()
}

/// Whether two values are the same for a browser, which knows one kind of number.
#[must_use]
pub fn same_json(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => {
            one == other || one.as_f64().is_some_and(|one| Some(one) == other.as_f64())
        }
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len()
                && one
                    .iter()
                    .zip(other)
                    .all(|(one, other)| same_json(one, other))
        }
        (Value::Object(one), Value::Object(other)) => {
            let is_same = |(key, value): (&String, &Value)| {
                other.get(key).is_some_and(|other| same_json(value, other))
            };
            one.len() == other.len() && one.iter().all(is_same)
        }
        _ => one == other,
    }
}
