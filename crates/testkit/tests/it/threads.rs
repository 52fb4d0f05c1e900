//! The runtime of threads: what its caller is told, and what a restart finds.

use std::sync::Arc;

use helix_agents_core::Agent;
use helix_agents_core::entries::ExecuteRequest;
use helix_agents_core::machine::{Event, decide};
use helix_agents_core::memory::MemoryStore;
use helix_agents_core::perform::{Attempt, PerformError, perform};
use helix_agents_core::runtime::{RunOptions, Runtime, RuntimeError};
use helix_agents_core::session::RunStatus;
use helix_agents_testkit::{Driver, MockModel, MockReply, ThreadRuntime, block_on};

/// Performs the first effects of a run and gives up.
fn gives_up() -> Driver {
    Arc::new(|facts, state, ports| {
        Box::pin(async move {
            let (_, effects) = decide(&facts, state, Event::started());
            for effect in effects {
                perform(&effect, Attempt::First, &ports).await?;
            }
            Err(PerformError::NotBuilt { what: "the rest" })
        })
    })
}

/// A run whose host fails has stalled, and another process takes it over.
#[test]
fn a_stalled_run_is_taken_over() {
    let model = Arc::new(MockModel::replies([
        MockReply::calls([("c1", "nobody", serde_json::json!({}))]),
        MockReply::text("done"),
    ]));
    let agent = Agent::builder("agent").model(Arc::clone(&model));
    let agent = agent.build().unwrap();
    let first = ThreadRuntime::new(MemoryStore::new()).driven_by(gives_up());
    first.agents().keep(&agent).unwrap();
    block_on(async {
        let request = ExecuteRequest::new(&agent, "go");
        let run = first.start(request, RunOptions::default()).await.unwrap();
        let stalled = first.ended(&run).await;
        assert!(
            matches!(stalled, Err(RuntimeError::Stalled { .. })),
            "{stalled:?}"
        );
        let second = ThreadRuntime::new(first.backend().clone())
            .with_clock(Arc::clone(first.clock()))
            .with_ids(Arc::new(helix_agents_testkit::SequentialIds::new()));
        second.agents().keep(&agent).unwrap();
        let taken = second.recover(&run.session_id).await.unwrap();
        assert_eq!(taken, run, "it is the same run");
        let ended = second.ended(&taken).await.unwrap();
        assert_eq!((ended.status, ended.step_count), (RunStatus::Completed, 2));
        assert_eq!(model.seen().len(), 2, "no reply is bought twice");
    });
}
