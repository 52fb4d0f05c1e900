//! Asks the user at the terminal about pending calls.

use std::io::{self, Write};

use helix_agents_core::entries::ToolAnswer;
use helix_agents_core::session::{PendingCall, PendingKind};
use serde_json::Value;

use crate::input::Input;
use crate::screen::{Look, Screen, shortened};
use crate::signals::Signals;

/// The maximum length of a tool description that is shown.
const DESCRIPTION: usize = 300;

/// The reply to a question.
pub(crate) enum Reply {
    /// The answer that the user gave, to be submitted.
    Answer(Box<ToolAnswer>),
    /// The user postponed the answer.
    Later,
    /// The process was asked to end.
    Ended,
}

/// Asks about a pending call. The purpose of its tool is shown as the configuration describes it,
/// never as the model does.
pub(crate) async fn about(
    screen: &Screen,
    call: &PendingCall,
    description: Option<&str>,
    input: &mut Input,
    signals: &mut Signals,
) -> anyhow::Result<Reply> {
    let what = format!("{} {}", call.tool_name, call.input);
    loop {
        let (question, hint) = match call.kind {
            PendingKind::Approval => (
                format!("Run {what}?"),
                "y = yes, n [reason] = no, enter = later: ",
            ),
            _ => (
                format!("What is the result of {what}?"),
                "JSON or text, !text = it failed, enter = later: ",
            ),
        };
        input.forget();
        if let Some(description) = description {
            let description = shortened(description, DESCRIPTION);
            screen.note(Look::Bold, format!("{}: {description}", call.tool_name))?;
        }
        screen.note(Look::Yellow, question)?;
        write!(io::stderr(), "{}", screen.on_err(Look::Dim, hint))?;
        io::stderr().flush()?;
        let line = tokio::select! {
            biased;
            () = signals.next() => {
                writeln!(io::stderr())?;
                return Ok(Reply::Ended);
            }
            line = input.next() => line?,
        };
        let Some(line) = line else {
            writeln!(io::stderr())?;
            return Ok(Reply::Later);
        };
        match understood(call, line.trim()) {
            ParsedInput::Answer(answer) => return Ok(Reply::Answer(answer)),
            ParsedInput::Later => return Ok(Reply::Later),
            ParsedInput::Invalid(why) => screen.note(Look::Red, why)?,
        }
    }
}

enum ParsedInput {
    Answer(Box<ToolAnswer>),
    Later,
    /// The input is invalid; the text says what to do instead.
    Invalid(&'static str),
}

fn understood(call: &PendingCall, line: &str) -> ParsedInput {
    let answer = |answer| ParsedInput::Answer(Box::new(answer));
    if line.is_empty() {
        return ParsedInput::Later;
    }
    if call.kind != PendingKind::Approval {
        return match line.strip_prefix('!') {
            Some(error) => answer(call.error(error.trim())),
            None => {
                match serde_json::from_str::<Value>(line) {
                    Ok(value) => answer(call.result(value)),
                    // Most likely a part of a larger value.
                    Err(_) if line.starts_with(['{', '[']) => {
                        ParsedInput::Invalid("this is not JSON; write all of it on one line")
                    }
                    Err(_) => answer(call.result(line)),
                }
            }
        };
    }
    let (word, reason) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    match word.to_ascii_lowercase().as_str() {
        "y" | "yes" => answer(call.approve()),
        "n" | "no" if reason.trim().is_empty() => answer(call.deny("no reason was given")),
        "n" | "no" => answer(call.deny(reason.trim())),
        "l" | "later" => ParsedInput::Later,
        _ => ParsedInput::Invalid("please answer y, n, or enter"),
    }
}

#[cfg(test)]
mod tests {
    use helix_agents_core::time::Timestamp;
    use helix_agents_core::{ApprovalId, CallId, RunId, SessionId};
    use serde_json::json;

    use super::*;

    fn client() -> PendingCall {
        let session = SessionId::new("s").unwrap();
        let (run, call) = (RunId::new("r").unwrap(), CallId::new("c").unwrap());
        PendingCall::client(session, run, call, "pick", json!({}), Timestamp::default())
    }

    fn answer_of(call: &PendingCall, line: &str) -> Option<ToolAnswer> {
        match understood(call, line) {
            ParsedInput::Answer(answer) => Some(*answer),
            ParsedInput::Later | ParsedInput::Invalid(_) => None,
        }
    }

    #[test]
    fn an_approval_is_answered_with_yes_or_no() {
        let call = client().needing_approval(ApprovalId::new("a").unwrap());
        for yes in ["y", "Yes"] {
            assert_eq!(answer_of(&call, yes), Some(call.approve()));
        }
        assert_eq!(answer_of(&call, "n too much "), Some(call.deny("too much")));
        assert_eq!(
            answer_of(&call, "no"),
            Some(call.deny("no reason was given"))
        );
        assert!(matches!(understood(&call, ""), ParsedInput::Later));
        for unclear in ["yeah", "{}", "ny"] {
            assert!(
                matches!(understood(&call, unclear), ParsedInput::Invalid(_)),
                "{unclear}"
            );
        }
    }

    #[test]
    fn a_client_result_is_json_or_text() {
        let call = client();
        assert_eq!(
            answer_of(&call, "{\"a\":1}"),
            Some(call.result(json!({ "a": 1 })))
        );
        assert_eq!(
            answer_of(&call, "red and blue"),
            Some(call.result("red and blue"))
        );
        assert_eq!(answer_of(&call, "! it broke"), Some(call.error("it broke")));
        for not in ["", "{", "[1,"] {
            assert_eq!(answer_of(&call, not), None, "{not}");
        }
    }
}
