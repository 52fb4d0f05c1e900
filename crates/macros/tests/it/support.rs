//! Shared helpers: a context, a small executor, and a lookup of tools.

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use helix_agents::core::shared_state::SharedState;
use helix_agents::{IntoTools, Tool, ToolCx};
use serde_json::{Value, json};

/// Polls a future until it is ready. The futures of these tests depend on nothing outside.
pub(crate) fn block_on<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    let mut cx = Context::from_waker(Waker::noop());
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut cx) {
            return output;
        }
    }
}

/// Yields once, so that a future is polled a second time.
pub(crate) async fn give_way() {
    let mut gave = false;
    std::future::poll_fn(|_| {
        if std::mem::replace(&mut gave, true) {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    })
    .await;
}

/// The context of a call in a session whose state is `{"limit": 100}`.
pub(crate) fn context() -> ToolCx {
    let [session, run, call] = ["session", "run", "call"];
    ToolCx::builder(
        session.parse().unwrap(),
        run.parse().unwrap(),
        call.parse().unwrap(),
    )
    .state(SharedState::new(Arc::new(json!({"limit": 100}))).unwrap())
    .build()
}

/// Returns the tool of this name.
pub(crate) fn tool(toolset: impl IntoTools, name: &str) -> Tool {
    let tools = toolset.into_tools().unwrap();
    tools.into_iter().find(|tool| tool.name() == name).unwrap()
}

/// Calls a tool; returns its output, or the error text for the model.
pub(crate) fn call(tool: &Tool, arguments: Value) -> Result<Value, String> {
    block_on(tool.call(arguments, context())).map_err(|error| error.model_text().to_owned())
}

/// Whether a call needs approval.
pub(crate) fn asks(tool: &Tool, arguments: &Value) -> bool {
    block_on(tool.needs_approval(arguments, &context()))
}
