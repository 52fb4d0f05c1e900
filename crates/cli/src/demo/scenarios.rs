//! A demo agent that plays one scenario per message, for everybody who writes or tests a chat client.
//!
//! The message `scenario:NAME key=number ..` chooses the scenario: `scenario:slow n=40 ms=25` streams 40 words, one
//! every 25 ms. `tests/conformance/README.md` has the table. The model is not replaced by that of a provider.

mod model;
mod scenario;
#[cfg(test)]
mod tests;
mod tools;
mod turn;

use helix_agents_core::agent::{Agent, AnyAgent};
use serde_json::json;

use model::ScenariosModel;

pub(super) fn agent() -> anyhow::Result<AnyAgent> {
    let agent = Agent::builder("scenarios")
        .description("Plays scenarios for tests of chat clients; say `scenario:help`")
        .examples([
            "scenario:server-tool",
            "scenario:approval",
            "scenario:slow n=40 ms=50",
        ])
        .model(ScenariosModel)
        .tools(tools::all())
        .initial_state(json!({ "counter": 0, "items": [] }))
        .build()?;
    Ok(agent.erase())
}
