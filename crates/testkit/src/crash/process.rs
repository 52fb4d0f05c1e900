//! A simulated process, with everything that is lost when it dies.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use helix_agents_core::SessionId;
use helix_agents_core::agent::{AgentRegistry, AnyAgent};
use helix_agents_core::entries::{Entries, Performer};
use helix_agents_core::hooks::AgentHooks;
use helix_agents_core::id::IdSource;
use helix_agents_core::machine::AgentLimits;
use helix_agents_core::perform::Ports;
use helix_agents_core::runtime::Backend;
use helix_agents_core::time::Clock;

use super::killable_store::KillableStore;
use super::observer::Observer;
use super::people::People;
use super::{KillSwitch, Scenario};
use crate::{SequentialIds, VirtualClock};

/// The lease of a process, after which another one takes over.
pub(super) const LEASE: Duration = Duration::from_secs(10);

/// The process that the agent of a scenario runs in, for tools that submit answers or have kill points.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct World {
    /// The kill points of the process.
    pub switch: KillSwitch,
    /// The store as this process sees it.
    pub backend: Backend,
    /// The clock of the process.
    pub clock: Arc<VirtualClock>,
    /// The source of ids.
    pub ids: Arc<SequentialIds>,
    /// The session of the play.
    pub session: SessionId,
    pub(super) people: People,
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
    /// The world of those who act through this process, with the store that its effects use.
    pub(super) world: World,
    pub(super) entries: Entries,
    pub(super) ports: Ports,
    pub(super) facts: AgentLimits,
    pub(super) agent: AnyAgent,
    pub(super) performer: Performer,
}

impl Process {
    /// Starts a process whose store and host can be killed.
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

    /// Makes a process whose agent gets this world, and whose effects use this backend.
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
        )
        .with_stops(Arc::clone(&backend.stops))
        .with_performer(performer.clone());
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
            world,
            ports,
            facts: AgentLimits::of(&agent),
            agent,
            performer,
        }
    }
}

/// Hooks with a kill point right before each tool.
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
