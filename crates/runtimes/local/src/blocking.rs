//! Work that blocks.

use std::any::Any;

use helix_agents_core::{ToolError, ToolResult};

/// Does work that blocks its thread, where it holds up nobody.
///
/// A tool shares its thread with other runs; reading a large file or computing for a second belongs
/// in here. A panic inside is the tool's failure. Work that was begun goes on to its end, also when
/// the tool is no longer waited for.
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
/// What the work itself returns, and a [`ToolError`] when it panics.
pub async fn blocking<T, F>(work: F) -> ToolResult<T>
where
    T: Send + 'static,
    F: FnOnce() -> ToolResult<T> + Send + 'static,
{
    let host = tokio::runtime::Handle::try_current()?;
    match host.spawn_blocking(work).await {
        Ok(result) => result,
        Err(error) => Err(ToolError::failed(match error.try_into_panic() {
            Ok(payload) => format!("blocking work panicked: {}", said(payload.as_ref())),
            Err(error) => error.to_string(),
        })),
    }
}

/// What a panic said.
fn said(payload: &(dyn Any + Send)) -> &str {
    let text = payload.downcast_ref::<&str>().copied();
    let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("without a message")
}
