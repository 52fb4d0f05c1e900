//! Tests of `approval_if`: every form of rule, and a rule that fails.

use std::num::ParseIntError;

use helix_agents::__private::{schemars, serde};
use helix_agents::{ToolCx, ToolError, ToolResult, toolset};
use serde_json::{Value, json};

use crate::support::{asks, give_way, tool};

struct Bank {
    limit: u64,
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
#[serde(crate = "helix_agents::__private::serde")]
#[schemars(crate = "helix_agents::__private::schemars")]
struct Transfer {
    cents: u64,
    to: String,
}

#[derive(serde::Deserialize)]
#[serde(crate = "helix_agents::__private::serde")]
struct State {
    limit: u64,
}

#[toolset]
impl Bank {
    /// A rule on the input.
    #[tool(approval_if = |a| a.cents > 100)]
    async fn plain(&self, cents: u64) -> ToolResult<u64> {
        Ok(cents)
    }

    /// A rule that uses the toolset.
    #[tool(approval_if = |a| a.cents > self.limit)]
    async fn of_self(&self, cents: u64) -> ToolResult<u64> {
        Ok(cents)
    }

    /// A rule that uses the context, and leaves its error type open.
    #[tool(approval_if = |a, cx| Ok(a.cents > cx.get_state::<State>()?.limit))]
    async fn of_state(&self, cents: u64) -> ToolResult<u64> {
        Ok(cents)
    }

    /// A rule with its own error type.
    #[tool(approval_if = |a| a.cents.parse::<u64>().map(|cents| cents > 100))]
    async fn fallible(&self, cents: String) -> ToolResult<String> {
        Ok(cents)
    }

    /// An async closure that borrows everything it can.
    #[tool(approval_if = async |a, cx| {
        give_way().await;
        a.cents > self.limit && cx.call_id().as_str() == "call"
    })]
    async fn with_async(&self, cents: u64) -> ToolResult<u64> {
        Ok(cents)
    }

    /// A closure that returns a future.
    #[tool(approval_if = |a, cx| async move {
        give_way().await;
        let cents = a.cents.parse::<u64>()?;
        Ok(cents > cx.get_state::<State>()?.limit)
    })]
    async fn with_future(&self, cents: String) -> ToolResult<String> {
        Ok(cents)
    }

    /// A rule that returns early.
    #[tool(approval_if = |a| -> Result<bool, ParseIntError> {
        if a.cents.is_empty() {
            return Ok(false);
        }
        Ok(a.cents.parse::<u64>()? > 100)
    })]
    async fn early(&self, cents: String) -> ToolResult<String> {
        Ok(cents)
    }

    /// A rule on a whole struct.
    #[tool(approval_if = |Transfer { cents, to }, _| *cents > 100 || to == "stranger")]
    async fn whole(&self, #[args] transfer: Transfer) -> ToolResult<u64> {
        Ok(transfer.cents)
    }

    /// A rule that always fails.
    #[tool(approval_if = |_, _| Err(ToolError::fatal("no")))]
    async fn broken(&self) -> ToolResult<()> {
        Ok(())
    }

    /// Needs approval for every call.
    #[tool(approval)]
    async fn always(&self, cx: &ToolCx) -> ToolResult<String> {
        Ok(cx.idempotency_key().to_owned())
    }
}

fn asked(name: &str, arguments: &Value) -> bool {
    asks(&tool(Bank { limit: 100 }, name), arguments)
}

#[test]
fn a_rule_decides_about_each_call() {
    for name in ["plain", "of_self", "of_state", "with_async"] {
        assert!(!asked(name, &json!({"cents": 100})), "{name}");
        assert!(asked(name, &json!({"cents": 101})), "{name}");
    }
    for name in ["fallible", "with_future", "early"] {
        assert!(!asked(name, &json!({"cents": "100"})), "{name}");
        assert!(asked(name, &json!({"cents": "101"})), "{name}");
    }
    assert!(!asked("early", &json!({"cents": ""})));
    assert!(!asked("whole", &json!({"cents": 1, "to": "friend"})));
    assert!(asked("whole", &json!({"cents": 1, "to": "stranger"})));
    assert!(asked("always", &json!({})));
}

#[test]
fn a_rule_that_fails_means_ask() {
    for name in ["fallible", "with_future", "early"] {
        assert!(asked(name, &json!({"cents": "a lot"})), "{name}");
    }
    assert!(asked("broken", &json!({})));
}

#[test]
fn arguments_that_cannot_be_parsed_mean_ask() {
    assert!(asked("plain", &json!({"cents": "a lot"})));
    assert!(asked("plain", &json!({"cents": 1, "dollars": 2})));
}
