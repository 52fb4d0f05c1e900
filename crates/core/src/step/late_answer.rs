//! The message with which the model is told of an answer that came after its deadline.

use crate::bounds::up_to;
use crate::id::CallId;
use crate::message::UserMessage;
use crate::session::{CallBinding, PendingKind, Submission};

/// The most bytes of a late answer that the model is told.
const MAX_TOLD_BYTES: usize = 16 * 1024;

/// Returns the hidden message that tells the model of an answer to a call that has timed out.
pub(crate) fn late_answer_message(
    call: &CallId,
    asked: &CallBinding,
    answer: &Submission,
) -> UserMessage {
    let tool = &asked.tool_name;
    let reported = "after its deadline, when it had already been reported as timed out.";
    let undecided = |what: &str, why: Option<&str>| {
        let why = why.map(|why| format!(" ({})", told(why)));
        let why = why.unwrap_or_default();
        format!("Call {call} of {tool} was {what} after its deadline{why}; it was not executed.")
    };
    UserMessage::hidden(match answer {
        Submission::ApprovalResponse {
            approved, reason, ..
        } => {
            let what = if *approved { "approved" } else { "denied" };
            undecided(what, reason.as_deref())
        }
        Submission::ClientToolResult { error, .. } if asked.kind == PendingKind::Approval => {
            undecided("given up", error.as_deref())
        }
        Submission::ClientToolResult {
            error: Some(text), ..
        } => {
            let text = told(text);
            format!("The client failed at call {call} of {tool} {reported} Its error: {text}")
        }
        Submission::ClientToolResult { result, .. } => {
            let text = match result {
                Some(serde_json::Value::String(text)) => told(text),
                Some(other) => told(&other.to_string()),
                None => "null".to_owned(),
            };
            format!("The client answered call {call} of {tool} {reported} Its answer: {text}")
        }
        Submission::Expired { .. } => format!("Call {call} of {tool} has timed out."),
    })
}

/// Returns the beginning of a text, with a remark if there is more.
pub(crate) fn told(text: &str) -> String {
    let shown = up_to(text, MAX_TOLD_BYTES);
    if shown.len() == text.len() {
        return text.to_owned();
    }
    format!(
        "{shown} [cut off: these are {} of {} bytes]",
        shown.len(),
        text.len()
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::id::{ApprovalId, RunId, SessionId};
    use crate::session::PendingCall;
    use crate::time::Timestamp;

    fn asked() -> PendingCall {
        let session = SessionId::new("s").unwrap();
        let (run, call) = (RunId::new("r").unwrap(), CallId::new("c1").unwrap());
        PendingCall::client(
            session,
            run,
            call,
            "pick_color",
            json!({}),
            Timestamp::default(),
        )
    }

    fn message(asked: &PendingCall, answer: &Submission) -> String {
        let binding = CallBinding::of(asked);
        let told = late_answer_message(&asked.tool_call_id, &binding, answer);
        assert!(told.is_hidden());
        told.content
    }

    #[test]
    fn a_late_answer_is_told_with_its_content() {
        let asked = asked();
        let call = || asked.tool_call_id.clone();
        assert_eq!(
            message(
                &asked,
                &Submission::result(call(), json!({ "color": "red" }))
            ),
            "The client answered call c1 of pick_color after its deadline, when it had already been \
             reported as timed out. Its answer: {\"color\":\"red\"}"
        );
        assert_eq!(
            message(&asked, &Submission::error(call(), "no screen")),
            "The client failed at call c1 of pick_color after its deadline, when it had already been \
             reported as timed out. Its error: no screen"
        );
    }

    #[test]
    fn a_late_decision_is_told_with_its_reason() {
        let approval = ApprovalId::new("a1").unwrap();
        let asked = asked().needing_approval(approval.clone());
        let call = || asked.tool_call_id.clone();
        let decision = |approved, reason: Option<&str>| {
            let reason = reason.map(str::to_owned);
            message(
                &asked,
                &Submission::decision(call(), approval.clone(), approved, reason),
            )
        };
        assert_eq!(
            decision(true, None),
            "Call c1 of pick_color was approved after its deadline; it was not executed."
        );
        assert_eq!(
            decision(false, Some("too much")),
            "Call c1 of pick_color was denied after its deadline (too much); it was not executed."
        );
        assert_eq!(
            message(&asked, &Submission::error(call(), "on leave")),
            "Call c1 of pick_color was given up after its deadline (on leave); it was not executed."
        );
    }

    #[test]
    fn a_large_answer_is_cut_off() {
        let asked = asked();
        let large = "ä".repeat(MAX_TOLD_BYTES);
        let told = message(
            &asked,
            &Submission::result(asked.tool_call_id.clone(), json!(large)),
        );
        assert!(told.len() < MAX_TOLD_BYTES + 300, "{}", told.len());
        assert!(told.ends_with("ä [cut off: these are 16384 of 32768 bytes]"));
    }
}
