//! Blocking work inside tools.

use std::any::Any;

use helix_agents_core::{ToolError, ToolResult};

/// Runs work that blocks its thread on a thread where it delays no other run.
///
/// Tools share their threads with other runs, so use this to read a large file or to compute for a
/// second. A panic inside is a failure of the tool. Work that has started runs to its end, even if
/// the tool is no longer awaited.
///
/// ```
/// # use helix_agents_core::ToolResult;
/// use helix_agents_runtime_local::blocking;
///
/// async fn lines(path: String) -> ToolResult<usize> {
///     blocking(move || Ok(std::fs::read_to_string(path)?.lines().count())).await
/// }
/// ```
///
/// # Errors
/// The error of the work itself, or a [`ToolError`] if it panics.
pub async fn blocking<T, F>(work: F) -> ToolResult<T>
where
    T: Send + 'static,
    F: FnOnce() -> ToolResult<T> + Send + 'static,
{
    let host = tokio::runtime::Handle::try_current()?;
    match host.spawn_blocking(work).await {
        Ok(result) => result,
        Err(error) => Err(ToolError::failed(match error.try_into_panic() {
            Ok(payload) => format!(
                "blocking work panicked: {}",
                panic_message(payload.as_ref())
            ),
            Err(error) => error.to_string(),
        })),
    }
}

/// Returns the message of a panic.
fn panic_message(payload: &(dyn Any + Send)) -> &str {
    let text = payload.downcast_ref::<&str>().copied();
    let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("no message")
}
