//! The list of agents.

use axum::Json;
use axum::extract::State;
use helix_agents_core::agent::AnyAgent;
use serde::Serialize;
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
}

/// A tool of an agent.
#[derive(Debug, Serialize, ToSchema)]
struct ToolView {
    name: String,
    description: String,
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
        let schema = tool.schema();
        ToolView {
            name: schema.name,
            description: schema.description,
        }
    });
    tools.collect()
}
