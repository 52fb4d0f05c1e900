use futures_util::future::join;
use helix_agents_core::Agent;
use helix_agents_core::agent::AgentRegistry;
use helix_agents_core::entries::ExecuteRequest;
use helix_agents_core::memory::MemoryStore;
use helix_agents_core::runtime::Backend;
use helix_agents_core::store::Fence;
use helix_agents_core::time::Timestamp;

use super::*;
use crate::{Dice, EveryTool, Faults, SequentialIds, UnreliableStore, VirtualClock, block_on};

/// A run that is in progress, on an engine without leases.
struct Begun {
    ports: Ports,
    session: SessionId,
}

impl Begun {
    async fn new() -> Self {
        let agent = Agent::builder("support").model(EveryTool).build().unwrap();
        let agent = agent.erase();
        let clock = VirtualClock::new(Timestamp::from_millis(1_700_000_000_000)).in_order();
        let clock = Arc::new(clock);
        // Every call lets others go on.
        let store: Backend = MemoryStore::new().into();
        let store = UnreliableStore::new(store, Arc::clone(&clock), Dice::new(1), Faults::none());
        let store = store.backend();
        let agents = Arc::new(AgentRegistry::new());
        agents.replace(&agent);
        let performer = Performer::new("engine");
        let ports = Ports::new(
            store.store,
            store.streams,
            clock,
            Arc::new(SequentialIds::new()),
            agents,
        );
        let ports = ports.with_performer(performer.clone());
        let entries = Entries::new(
            Arc::clone(&ports.store),
            Arc::clone(&ports.streams),
            Arc::clone(&ports.clock),
            Arc::clone(&ports.ids),
        );
        let session = SessionId::new("conversation").unwrap();
        let execute = ExecuteRequest::new(&agent, "Hi").in_session(session.clone());
        entries.execute(execute, &performer).await.unwrap();
        Self { ports, session }
    }

    async fn found(&self) -> Snapshot {
        let found = self.ports.store.load(self.session.as_root()).await;
        found.unwrap().unwrap()
    }

    /// Drives the run for a moment, and dies.
    async fn drive_and_die(&self) {
        let driven = drive_child(&Dies, self.found().await, &self.ports);
        let died = pin!(crate::yields(50));
        assert!(matches!(select(driven, died).await, Either::Right(_)));
    }
}

/// A host that never performs anything.
struct Dies;

#[async_trait]
impl Host for Dies {
    async fn perform(&self, _: Effect, _: &Ports) -> Result<Event, PerformError> {
        std::future::pending().await
    }
}

#[test]
fn two_who_wait_for_a_child_take_it_over_once() {
    block_on(async {
        let run = Begun::new().await;
        run.drive_and_die().await;
        let before = run.found().await;
        let wait = || drive_child(&PlainHost, before.clone(), &run.ports);
        let (one, other) = join(wait(), wait()).await;
        one.unwrap();
        other.unwrap();
        let after = run.found().await;
        assert_eq!(after.run.unwrap().status, RunStatus::Completed);
        assert_eq!(after.fence, Fence(before.fence.0 + 1), "one take-over");
    });
}

#[test]
fn a_run_that_was_begun_is_taken_over_even_if_it_left_nothing() {
    block_on(async {
        let run = Begun::new().await;
        let fresh = run.found().await;
        run.drive_and_die().await;
        let before = run.found().await;
        assert_eq!((before.mark.effect, before.fence), (0, fresh.fence));
        let driven = drive_child(&PlainHost, before, &run.ports).await;
        driven.unwrap();
        let after = run.found().await;
        assert_eq!(after.run.unwrap().status, RunStatus::Completed);
        assert_eq!(after.fence, Fence(fresh.fence.0 + 1), "it was taken over");
    });
}
