//! A model with one route per agent.

use std::collections::BTreeMap;
use std::future::ready;
use std::sync::Arc;

use futures_util::stream;
use helix_agents_core::model::{EventStream, Model, ModelError, ModelErrorKind, ModelRequest};

/// A model that passes every request to the model of the requesting agent.
///
/// Parent and child agents run at the same time; with one queue between them, who gets which reply
/// would be a matter of luck.
///
/// ```
/// use std::sync::Arc;
///
/// use helix_agents_testkit::{MockModel, RoutingModel};
///
/// let models = RoutingModel::new()
///     .route("writer", Arc::new(MockModel::new().says("A draft.")))
///     .route("critic", Arc::new(MockModel::new().says("Too long.")));
/// ```
#[derive(Debug, Clone, Default)]
pub struct RoutingModel {
    routes: BTreeMap<String, Arc<dyn Model>>,
}

impl RoutingModel {
    /// Creates a model without routes.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the model of an agent, and replaces an earlier one.
    #[must_use]
    pub fn route(mut self, agent_type: impl Into<String>, model: Arc<dyn Model>) -> Self {
        self.routes.insert(agent_type.into(), model);
        self
    }

    fn no_route(&self, agent_type: &str) -> ModelError {
        let known: Vec<_> = self.routes.keys().map(String::as_str).collect();
        let known = match known.as_slice() {
            [] => "no agents".to_owned(),
            known => known.join(", "),
        };
        ModelError::new(
            ModelErrorKind::Invalid,
            format!("no model is routed to agent {agent_type:?}; there are routes for {known}"),
        )
    }
}

impl Model for RoutingModel {
    fn name(&self) -> &str {
        "test/routing"
    }

    fn stream<'a>(&'a self, request: ModelRequest<'a>) -> EventStream<'a> {
        match self.routes.get(request.agent_type) {
            Some(model) => model.stream(request),
            None => Box::pin(stream::once(ready(Err(self.no_route(request.agent_type))))),
        }
    }

    /// True only if the models of all agents support it, because the question names no agent.
    fn supports_native_output(&self) -> bool {
        !self.routes.is_empty()
            && self
                .routes
                .values()
                .all(|model| model.supports_native_output())
    }
}
