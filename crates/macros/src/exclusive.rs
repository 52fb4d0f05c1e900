//! Options that exclude each other.
//!
//! Core refuses the same pairs in `Tool::typed`, with the same messages; a test compares them.

use crate::errors::Errors;
use crate::options::{Given, Options};

/// Two options and what to do instead of using both.
const RULES: [(&str, &str, &str); 8] = [
    (
        "client",
        "finish_with",
        "a client's answer cannot end the turn; let the model end it",
    ),
    (
        "client",
        "approval",
        "let the client ask its user before it answers",
    ),
    (
        "approval",
        "finish_with",
        "gate the tool that has the effect, and finish with another one",
    ),
    (
        "client",
        "timeout",
        "use `deadline` to limit how long the client may take",
    ),
    (
        "client",
        "reconcile",
        "the client's answer is the outcome; there is nothing to reconcile",
    ),
    (
        "client",
        "idempotent",
        "a client's call is never run by us, so it is never run twice",
    ),
    (
        "client",
        "on_unknown",
        "a client's call stays open until it is answered; use `deadline`",
    ),
    // With the builder, the later of the two calls wins; here the order of options has no meaning.
    (
        "approval",
        "approval_if",
        "keep `approval` to ask about every call, or `approval_if` to let the rule decide",
    ),
];

/// Reports the first pair that excludes each other, at the option that was written second.
pub(crate) fn check(tool: &str, options: &Options, errors: &mut Errors) {
    let clash = RULES.into_iter().find_map(|(first, second, remedy)| {
        let place = later(options, first, second)?;
        Some((first, second, remedy, place))
    });
    if let Some((first, second, remedy, place)) = clash {
        errors.at(
            &place.token,
            format!("tool {tool}: `{first}` and `{second}` exclude each other; {remedy}"),
        );
        return;
    }
    // The value of `on_unknown` is checked when the tool is built.
    let somebody_answers = ["client", "approval", "on_unknown"]
        .into_iter()
        .find_map(|name| find(options, name));
    if let (None, Some((_, deadline))) = (somebody_answers, find(options, "deadline")) {
        errors.at(
            &deadline.token,
            format!(
                "tool {tool}: `deadline` has no effect on a call nobody is asked about; \
                 use `timeout` to limit how long the call itself may take"
            ),
        );
    }
}

/// Returns the later of two options if both were given.
fn later<'a>(options: &'a Options, first: &str, second: &str) -> Option<&'a Given> {
    let (one, first) = find(options, first)?;
    let (two, second) = find(options, second)?;
    (one != two).then_some(if one > two { first } else { second })
}

/// Returns an option and its position. `approval_if` counts as `approval`.
fn find<'a>(options: &'a Options, key: &str) -> Option<(usize, &'a Given)> {
    let exactly = |key: &str| {
        options
            .iter()
            .enumerate()
            .find(|(_, given)| given.key == key)
    };
    exactly(key).or_else(|| exactly("approval_if").filter(|_| key == "approval"))
}
