//! Runs the rule of `approval_if`, whatever it gives.

use helix_agents_core::{ToolCx, ToolError, ToolResult};

/// Asks a rule. The bound is what tells the compiler the types of the closure's parameters.
pub fn ask<In, V>(input: &In, cx: &ToolCx, rule: impl FnOnce(&In, &ToolCx) -> V) -> Verdict<V> {
    Verdict(rule(input, cx))
}

/// Asks a rule that is an async closure.
pub async fn ask_async<In, V>(
    input: &In,
    cx: &ToolCx,
    rule: impl AsyncFnOnce(&In, &ToolCx) -> V,
) -> Verdict<V> {
    Verdict(rule(input, cx).await)
}

/// The value that an approval rule returned, before it is turned into a
/// [`ToolResult<bool>`](ToolResult).
#[derive(Debug)]
pub struct Verdict<V>(V);

impl Verdict<ToolResult<bool>> {
    /// The same as [`IntoVerdict::into_verdict`], but found first. So `|a, cx| Ok(..?)`, which
    /// leaves its error type open, gets the one that `?` has in every tool.
    ///
    /// # Errors
    /// The error that the rule returned.
    pub fn into_verdict(self) -> ToolResult<bool> {
        self.0
    }
}

/// Turns every type that a rule may return into the verdict whether the call needs an approval.
pub trait IntoVerdict<V> {
    /// Whether the call needs an approval.
    ///
    /// # Errors
    /// Why the rule failed.
    fn into_verdict(self) -> ToolResult<bool>
    where
        V: Answer;
}

impl<V> IntoVerdict<V> for Verdict<V> {
    fn into_verdict(self) -> ToolResult<bool>
    where
        V: Answer,
    {
        self.0.answer()
    }
}

/// A type that an approval rule may return.
#[diagnostic::on_unimplemented(
    message = "the rule of `approval_if` gives `{Self}`",
    label = "give a `bool`, or a `Result<bool, E>`"
)]
pub trait Answer: sealed::Sealed {
    /// Whether the call needs an approval.
    ///
    /// # Errors
    /// Why the rule failed.
    fn answer(self) -> ToolResult<bool>;
}

impl Answer for bool {
    fn answer(self) -> ToolResult<bool> {
        Ok(self)
    }
}

impl<E: Into<ToolError>> Answer for Result<bool, E> {
    fn answer(self) -> ToolResult<bool> {
        self.map_err(Into::into)
    }
}

mod sealed {
    pub trait Sealed {}

    impl Sealed for bool {}
    impl<E> Sealed for Result<bool, E> {}
}
