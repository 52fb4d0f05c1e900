//! What the tests share: a context, a way to wait, and a way to find a tool.

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use helix_agents::core::shared_state::SharedState;
use helix_agents::{IntoTools, Tool, ToolCx};
use serde_json::{Value, json};

/// Polls until there is a result. Nothing here waits for anything but itself.
pub(crate) fn block_on<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    let mut cx = Context::from_waker(Waker::noop());
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut cx) {
            return output;
        }
    }
}

/// Gives way once, so that a future is polled a second time.
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

/// The tool of this name.
pub(crate) fn tool(toolset: impl IntoTools, name: &str) -> Tool {
    let tools = toolset.into_tools().unwrap();
    tools.into_iter().find(|tool| tool.name() == name).unwrap()
}

/// Calls a tool: its output, or what the model is told.
pub(crate) fn call(tool: &Tool, arguments: Value) -> Result<Value, String> {
    block_on(tool.call(arguments, context())).map_err(|error| error.model_text().to_owned())
}

/// Whether a call needs approval.
pub(crate) fn asks(tool: &Tool, arguments: &Value) -> bool {
    block_on(tool.needs_approval(arguments, &context()))
}
