//! Tool options that exclude each other, said once.
//!
//! `#[toolset]` compiles this very file (a link in the macro crate), so that a mistake is an error of
//! the compiler in the words of [`ToolBuilder::build`](crate::tool::ToolBuilder::build). It must not
//! use other modules.

/// Two options of a tool that cannot be used together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct ExclusiveOptions {
    /// The name of one option.
    pub first: &'static str,
    /// The name of the other option.
    pub second: &'static str,
    /// The advice for using one of them.
    pub remedy: &'static str,
}

const fn pair(first: &'static str, second: &'static str, remedy: &'static str) -> ExclusiveOptions {
    ExclusiveOptions {
        first,
        second,
        remedy,
    }
}

/// All pairs. `approval_if` counts as `approval` too.
const EXCLUSIVE: [ExclusiveOptions; 8] = [
    pair(
        "client",
        "finish_with",
        "a client's answer cannot end the turn; let the model end it",
    ),
    pair(
        "client",
        "approval",
        "let the client ask its user before it answers",
    ),
    pair(
        "approval",
        "approval_if",
        "keep `approval` to ask about every call, or `approval_if` to let the rule decide",
    ),
    pair(
        "approval",
        "finish_with",
        "ask about the tool that has the effect, and finish with another one",
    ),
    pair(
        "client",
        "timeout",
        "use `deadline` to limit how long the client may take",
    ),
    pair(
        "client",
        "reconcile",
        "the client's answer is the outcome; there is nothing to reconcile",
    ),
    pair(
        "client",
        "idempotent",
        "a client's call is never run by us, so it is never run twice",
    ),
    pair(
        "client",
        "on_unknown",
        "a client's call stays open until it is answered; use `deadline` to limit that",
    ),
];

/// The remedy for a `deadline` on a tool that asks nobody.
pub(crate) const DEADLINE_REMEDY: &str = "use `timeout` to limit how long the call itself may take";

/// Returns the first pair of which both options are given.
#[must_use]
pub fn exclusive_options(is_given: impl Fn(&str) -> bool) -> Option<ExclusiveOptions> {
    EXCLUSIVE.into_iter().find(|pair| {
        let both_ask = pair.second == "approval_if";
        let is_first = is_given(pair.first)
            || (pair.first == "approval" && !both_ask && is_given("approval_if"));
        let is_second =
            is_given(pair.second) || (pair.second == "approval" && is_given("approval_if"));
        is_first && is_second
    })
}
