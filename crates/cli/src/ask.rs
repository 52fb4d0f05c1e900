//! Asks the person at the terminal.

use std::io::{self, Write};

use helix_agents_core::entries::ToolAnswer;
use helix_agents_core::session::{PendingCall, PendingKind};
use serde_json::Value;

use crate::screen::{Look, Screen, shortened};
use crate::signals::Signals;
use crate::typed::Typed;

/// How much of a tool's description is shown.
const DESCRIPTION: usize = 300;

/// What came of a question.
pub(crate) enum Reply {
    /// An answer.
    Answer(Box<ToolAnswer>),
    /// Not now.
    Later,
    /// The process shall end.
    Ended,
}

/// Asks about a call that waits. What its tool is for is told as the configuration describes it,
/// never as the model does.
pub(crate) async fn about(
    screen: &Screen,
    call: &PendingCall,
    description: Option<&str>,
    typed: &mut Typed,
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
        typed.forget();
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
            line = typed.next() => line?,
        };
        let Some(line) = line else {
            writeln!(io::stderr())?;
            return Ok(Reply::Later);
        };
        match understood(call, line.trim()) {
            Understood::Answer(answer) => return Ok(Reply::Answer(answer)),
            Understood::Later => return Ok(Reply::Later),
            Understood::Nothing(why) => screen.note(Look::Red, why)?,
        }
    }
}

enum Understood {
    Answer(Box<ToolAnswer>),
    Later,
    /// What to do instead.
    Nothing(&'static str),
}

fn understood(call: &PendingCall, line: &str) -> Understood {
    let answer = |answer| Understood::Answer(Box::new(answer));
    if line.is_empty() {
        return Understood::Later;
    }
    if call.kind != PendingKind::Approval {
        return match line.strip_prefix('!') {
            Some(error) => answer(call.error(error.trim())),
            None => {
                match serde_json::from_str::<Value>(line) {
                    Ok(value) => answer(call.result(value)),
                    // Half of something larger, most likely.
                    Err(_) if line.starts_with(['{', '[']) => {
                        Understood::Nothing("this is not JSON; write all of it on one line")
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
        "l" | "later" => Understood::Later,
        _ => Understood::Nothing("please answer y, n, or enter"),
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

    fn said(call: &PendingCall, line: &str) -> Option<ToolAnswer> {
        match understood(call, line) {
            Understood::Answer(answer) => Some(*answer),
            Understood::Later | Understood::Nothing(_) => None,
        }
    }

    #[test]
    fn an_approval_is_a_yes_or_a_no() {
        let call = client().needing_approval(ApprovalId::new("a").unwrap());
        for yes in ["y", "Yes"] {
            assert_eq!(said(&call, yes), Some(call.approve()));
        }
        assert_eq!(said(&call, "n too much "), Some(call.deny("too much")));
        assert_eq!(said(&call, "no"), Some(call.deny("no reason was given")));
        assert!(matches!(understood(&call, ""), Understood::Later));
        for unclear in ["yeah", "{}", "ny"] {
            assert!(
                matches!(understood(&call, unclear), Understood::Nothing(_)),
                "{unclear}"
            );
        }
    }

    #[test]
    fn a_client_result_is_json_or_a_text() {
        let call = client();
        assert_eq!(
            said(&call, "{\"a\":1}"),
            Some(call.result(json!({ "a": 1 })))
        );
        assert_eq!(
            said(&call, "red and blue"),
            Some(call.result("red and blue"))
        );
        assert_eq!(said(&call, "! it broke"), Some(call.error("it broke")));
        for not in ["", "{", "[1,"] {
            assert_eq!(said(&call, not), None, "{not}");
        }
    }
}
