//! Tests of the compiler errors.

use std::time::Duration;

use helix_agents::core::tool::Reconciled;
use helix_agents::{DefinitionError, OnUnknown, Tool, ToolBuilder, ToolCx};
use serde_json::{Value, json};

/// proves: AGT-02, AGT-06
#[test]
fn every_mistake_is_one_error_at_its_token() {
    trybuild::TestCases::new().compile_fail("tests/ui/*.rs");
}

fn client(name: &str) -> ToolBuilder {
    Tool::client_raw(name, "Made by hand.", json!({"type": "object"}))
}

fn server(name: &str) -> ToolBuilder {
    let echo = async |arguments: Value, _cx: ToolCx| Ok(arguments);
    Tool::raw(name, "Made by hand.", json!({"type": "object"}), echo)
}

/// proves: AGT-06
#[test]
fn exclusive_options_are_refused_in_the_words_of_core() {
    let second = Duration::from_secs(1);
    let unknown = async |_: Value, _: ToolCx| Ok(Reconciled::Unknown);
    // The names are those of the methods in the file whose errors are compared.
    let by_hand = [
        client("client_finish_with").finish_with(),
        client("client_approval").approval(),
        client("client_approval_if").approval_if(async |_: Value, _: ToolCx| Ok(true)),
        server("approval_finish_with").approval().finish_with(),
        client("client_timeout").timeout(second),
        client("client_reconcile").reconcile(unknown),
        client("client_idempotent").idempotent(),
        client("client_on_unknown").on_unknown(OnUnknown::Pause),
        server("deadline_alone").deadline(second),
    ];
    let compiler = include_str!("../ui/exclusive.stderr");
    for tool in by_hand {
        let error = tool.build().unwrap_err();
        assert!(
            matches!(
                error,
                DefinitionError::ExclusiveOptions { .. } | DefinitionError::UselessOption { .. }
            ),
            "{error}"
        );
        assert!(compiler.contains(&format!("error: {error}\n")), "{error}");
    }
}
