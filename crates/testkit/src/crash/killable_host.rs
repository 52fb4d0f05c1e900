//! A host that can be killed before and after each effect.

use async_trait::async_trait;
use helix_agents_core::machine::{Effect, Event, RunState};
use helix_agents_core::perform::{PerformError, Ports};

use super::KillSwitch;
use crate::Host;

/// A host that can be killed before and after each effect.
pub(super) struct KillableHost<'a> {
    pub(super) host: &'a dyn Host,
    pub(super) switch: &'a KillSwitch,
}

#[async_trait]
impl Host for KillableHost<'_> {
    async fn perform(&self, effect: Effect, ports: &Ports) -> Result<Event, PerformError> {
        let name = match serde_json::to_value(&effect.kind) {
            Ok(kind) => kind
                .get("do")
                .and_then(|name| name.as_str())
                .unwrap_or("?")
                .to_owned(),
            Err(_) => "?".to_owned(),
        };
        let step = effect.at.step;
        self.switch
            .pass(&format!("before {name} of step {step}"))
            .await;
        let event = self.host.perform(effect, ports).await?;
        self.switch
            .pass(&format!("after {name} of step {step}"))
            .await;
        Ok(event)
    }

    fn keep(&self, state: RunState) -> RunState {
        self.host.keep(state)
    }
}
