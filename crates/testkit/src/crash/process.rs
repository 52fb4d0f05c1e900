//! A process: everything that dies with it.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use helix_agents_core::agent::AgentRegistry;
use helix_agents_core::entries::{Entries, Performer};
use helix_agents_core::hooks::AgentHooks;
use helix_agents_core::id::IdSource;
use helix_agents_core::machine::AgentFacts;
use helix_agents_core::perform::Ports;
use helix_agents_core::runtime::Backend;
use helix_agents_core::time::Clock;
use helix_agents_core::{Agent, SessionId};

use super::killable_store::KillableStore;
use super::observer::Observer;
use super::{KillSwitch, Scenario};
use crate::{SequentialIds, VirtualClock};

/// How long a process that is gone is waited for.
pub(super) const LEASE: Duration = Duration::from_secs(10);

/// What a scenario's agent is made in: for tools that answer questions, or die, by themselves.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct World {
    /// Passes points at which the process may die.
    pub switch: KillSwitch,
    /// The store as this process sees it.
    pub backend: Backend,
    /// The time.
    pub clock: Arc<VirtualClock>,
    /// Where ids come from.
    pub ids: Arc<SequentialIds>,
    /// The session that is played in.
    pub session: SessionId,
}

impl World {
    /// The entries, for a tool that submits answers.
    #[must_use]
    pub fn entries(&self) -> Entries {
        Entries::new(
            Arc::clone(&self.backend.store),
            Arc::clone(&self.backend.streams),
            Arc::clone(&self.clock) as Arc<dyn Clock>,
            Arc::clone(&self.ids) as Arc<dyn IdSource>,
        )
    }
}

/// A process that plays a scenario.
pub(super) struct Process {
    pub(super) entries: Entries,
    pub(super) ports: Ports,
    pub(super) facts: AgentFacts,
    pub(super) agent: Agent,
    pub(super) performer: Performer,
}

impl Process {
    /// Starts one.
    pub(super) fn start(
        scenario: &Scenario,
        world: &World,
        durable: &Backend,
        observer: &Observer,
        number: usize,
    ) -> Self {
        let backend = KillableStore::wrap(durable, &world.switch);
        let world = World {
            backend: backend.clone(),
            ..world.clone()
        };
        let performer = Performer::new("crash-test").leased(format!("process-{number}"), LEASE);
        Self::over(scenario, &world, &backend, observer, performer)
    }

    /// One whose agent lives in this world, and whose effects go to this backend.
    pub(super) fn over(
        scenario: &Scenario,
        world: &World,
        backend: &Backend,
        observer: &Observer,
        performer: Performer,
    ) -> Self {
        let agent = (scenario.agent)(world);
        let agents = Arc::new(AgentRegistry::new());
        agents.replace(&agent);
        let mut ports = Ports::new(
            Arc::clone(&backend.store),
            Arc::clone(&backend.streams),
            Arc::clone(&world.clock) as Arc<dyn Clock>,
            Arc::clone(&world.ids) as Arc<dyn IdSource>,
            agents,
        );
        let mortal = KillBeforeTool(world.switch.clone());
        ports.execution_hooks = vec![
            Arc::new(observer.clone()) as Arc<dyn AgentHooks>,
            Arc::new(mortal),
        ];
        let world = World {
            backend: backend.clone(),
            ..world.clone()
        };
        Self {
            entries: world.entries(),
            ports,
            facts: AgentFacts::of(&agent),
            agent,
            performer,
        }
    }
}

/// A process can also die right before a tool runs.
struct KillBeforeTool(KillSwitch);

#[async_trait]
impl AgentHooks for KillBeforeTool {
    async fn before_tool(
        &self,
        payload: &helix_agents_core::hooks::BeforeTool<'_>,
        _: &helix_agents_core::hooks::HookCx,
    ) -> helix_agents_core::hooks::HookResult {
        self.0
            .pass(&format!("before {} runs", payload.call.name))
            .await;
        Ok(())
    }
}
