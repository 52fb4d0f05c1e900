//! Tests that every option reaches the tool.

use std::time::Duration;

use helix_agents::core::tool::Reconciled;
use helix_agents::{ApprovalMode, ExecutedBy, IntoTools, OnUnknown, ToolResult, ToolSpec, toolset};
use serde_json::json;

use crate::support::{call, tool};

const LONG: Duration = Duration::from_secs(7_777);

struct Desk {
    greeting: &'static str,
}

const DESK: Desk = Desk { greeting: "red" };

struct Answer;

#[toolset]
impl Desk {
    /// Has no options.
    #[tool]
    async fn plain(&self) -> ToolResult<()> {
        Ok(())
    }

    /// Has options.
    #[tool(idempotent, strict, timeout = "30s", on_unknown = "pause", reconcile = Desk::look)]
    async fn careful(&self) -> ToolResult<()> {
        Ok(())
    }

    async fn look(&self) -> ToolResult<Reconciled<()>> {
        Ok(Reconciled::Unknown)
    }

    /// Has other options.
    #[tool(read_only, on_unknown = "tell_model", timeout = Duration::from_millis(5), name = "look")]
    async fn other(&self) -> ToolResult<()> {
        Ok(())
    }

    /// Is gated.
    #[tool(approval, deadline = LONG)]
    async fn gated(&self) -> ToolResult<()> {
        Ok(())
    }

    /// Is gated by a rule.
    #[tool(deadline = "2h", approval_if = |_| true,)]
    async fn ruled(&self) -> ToolResult<()> {
        Ok(())
    }

    /// Ends the turn.
    #[tool(finish_with)]
    async fn done(&self) -> ToolResult<()> {
        Ok(())
    }

    /// Ask the person for a colour.
    #[tool(client, read_only, strict, deadline = "1d")]
    pub async fn pick_color(
        &self,
        /// The colours to choose from.
        palette: Vec<String>,
    ) -> ToolResult<Answer>;

    /// Is never compiled.
    #[cfg(any())]
    #[tool]
    async fn never(&self, what: DoesNotExist) -> ToolResult<()> {
        what
    }

    /// Is compiled in its place.
    #[tool(name = "never")]
    async fn instead(&self) -> ToolResult<()> {
        Ok(())
    }

    /// Is never compiled either.
    #[cfg(any())]
    #[tool(name = "never")]
    async fn neither(&self) -> ToolResult<()> {
        Ok(())
    }
}

/// A client tool generates no method, so its name is free.
impl Desk {
    fn pick_color(&self) -> &'static str {
        self.greeting
    }
}

#[test]
fn a_plain_tool_has_no_options() {
    let plain = tool(DESK, "plain");
    let spec = plain.spec();
    assert_eq!(spec.executed_by, ExecutedBy::Server);
    assert_eq!(spec.options.approval, ApprovalMode::Never);
    assert_eq!(
        [
            spec.options.finish_with,
            spec.options.idempotent,
            spec.options.read_only
        ],
        [false; 3]
    );
    assert_eq!([spec.options.strict, spec.has_reconcile], [false; 2]);
    assert_eq!([spec.options.deadline, spec.options.timeout], [None; 2]);
    assert_eq!(spec.options.on_unknown, None);
}

/// Checks that a tool differs from the plain one only in its name, its description and `change`.
fn is_plain_but(name: &str, description: &str, change: impl FnOnce(&mut ToolSpec)) {
    let mut expected = ToolSpec::clone(tool(DESK, "plain").spec());
    expected.name = name.to_owned();
    expected.description = description.to_owned();
    change(&mut expected);
    assert_eq!(**tool(DESK, name).spec(), expected);
}

#[test]
fn every_option_reaches_the_tool() {
    is_plain_but("careful", "Has options.", |spec| {
        spec.options.idempotent = true;
        spec.options.strict = true;
        spec.options.timeout = Some(Duration::from_secs(30));
        spec.options.on_unknown = Some(OnUnknown::Pause);
        spec.has_reconcile = true;
    });
    is_plain_but("look", "Has other options.", |spec| {
        spec.options.read_only = true;
        spec.options.on_unknown = Some(OnUnknown::TellModel);
        spec.options.timeout = Some(Duration::from_millis(5));
    });
    is_plain_but("gated", "Is gated.", |spec| {
        spec.options.approval = ApprovalMode::Always;
        spec.options.deadline = Some(LONG);
    });
    is_plain_but("ruled", "Is gated by a rule.", |spec| {
        spec.options.approval = ApprovalMode::When;
        spec.options.deadline = Some(Duration::from_secs(7_200));
    });
    is_plain_but("done", "Ends the turn.", |spec| {
        spec.options.finish_with = true;
    });
}

#[test]
fn a_client_tool_is_run_elsewhere() {
    let pick = tool(DESK, "pick_color");
    let spec = pick.spec();
    assert_eq!(spec.executed_by, ExecutedBy::Client);
    assert_eq!(spec.description, "Ask the person for a colour.");
    assert_eq!([spec.options.read_only, spec.options.strict], [true; 2]);
    assert_eq!(spec.options.deadline, Some(Duration::from_secs(86_400)));
    assert_eq!(
        spec.input.json(),
        &json!({
            "type": "object",
            "properties": {
                "palette": {
                    "type": "array",
                    "items": {"type": "string"},
                    "description": "The colours to choose from.",
                },
            },
            "required": ["palette"],
            "additionalProperties": false,
        })
    );
    assert!(pick.executor().is_none());
    assert_eq!(DESK.pick_color(), "red");
    let told = call(&pick, json!({"palette": ["red"]})).unwrap_err();
    assert!(told.contains("run by the client"), "{told}");
}

#[test]
fn tools_keep_the_order_of_the_methods() {
    let tools = DESK.into_tools().unwrap();
    let names: Vec<_> = tools.iter().map(helix_agents::Tool::name).collect();
    let expected = [
        "plain",
        "careful",
        "look",
        "gated",
        "ruled",
        "done",
        "pick_color",
        "never",
    ];
    assert_eq!(names, expected);
}
