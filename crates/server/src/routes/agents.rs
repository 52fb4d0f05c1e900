//! The list of agents.

use axum::Json;
use axum::extract::State;
use helix_agents_core::agent::AnyAgent;
use helix_agents_core::tool::{ApprovalMode, ExecutedBy};
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use crate::ApiError;
use crate::builder::App;
use crate::caller::Caller;

/// The agents that can be started.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AgentsView {
    agents: Vec<AgentView>,
    /// The agent of chats that name none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    default_agent_type: Option<String>,
}

/// One agent of the list.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct AgentView {
    agent_type: String,
    description: String,
    tools: Vec<ToolView>,
    /// Messages that show what it can do; absent if there are none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    examples: Vec<String>,
}

/// A tool of an agent.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct ToolView {
    name: String,
    description: String,
    kind: ToolKindView,
    approval: ApprovalView,
    /// The schema of the arguments.
    #[schema(value_type = Object)]
    input_schema: Value,
    /// The schema of the result, where that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>, nullable = false)]
    output_schema: Option<Value>,
}

/// Who runs a tool.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum ToolKindView {
    Server,
    Client,
    SubAgent,
}

impl From<ExecutedBy> for ToolKindView {
    fn from(by: ExecutedBy) -> Self {
        match by {
            ExecutedBy::Server => Self::Server,
            ExecutedBy::Client => Self::Client,
            ExecutedBy::SubAgent => Self::SubAgent,
        }
    }
}

/// Whether a person must approve a call.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum ApprovalView {
    Never,
    Always,
    When,
}

impl From<ApprovalMode> for ApprovalView {
    fn from(mode: ApprovalMode) -> Self {
        match mode {
            ApprovalMode::Never => Self::Never,
            ApprovalMode::Always => Self::Always,
            ApprovalMode::When => Self::When,
        }
    }
}

pub(crate) async fn agents(
    State(app): State<App>,
    caller: Caller,
) -> Result<Json<AgentsView>, ApiError> {
    caller.may_do(&app).await?;
    let registry = app.runtime.agents();
    let agents = registry.names().into_iter().map(|name| {
        let agent = registry.get(&name);
        // The tools of an agent from a factory are known only once there is a session.
        AgentView {
            agent_type: name,
            description: agent
                .as_ref()
                .map(|agent| agent.description().to_owned())
                .unwrap_or_default(),
            tools: agent.as_ref().map(tools).unwrap_or_default(),
            examples: agent
                .map(|agent| agent.examples().to_vec())
                .unwrap_or_default(),
        }
    });
    let agents = agents.collect();
    Ok(Json(AgentsView {
        agents,
        default_agent_type: app.default_agent.clone(),
    }))
}

fn tools(agent: &AnyAgent) -> Vec<ToolView> {
    let tools = agent.tools().iter().map(|tool| {
        let (schema, spec) = (tool.schema(), tool.spec());
        ToolView {
            name: schema.name,
            description: schema.description,
            kind: spec.executed_by.into(),
            approval: spec.options.approval.into(),
            input_schema: spec.input.json().clone(),
            output_schema: spec.output.as_ref().map(|schema| schema.json().clone()),
        }
    });
    tools.collect()
}
