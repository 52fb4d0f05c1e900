//! Requests that are refused, and user code that panics.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use helix_agents_core::agent::ResolveError;
use helix_agents_core::entries::{EntryError, Execute, Expects};
use helix_agents_core::hooks::{AgentHooks, AgentStart, BeforeTool, HookCx, HookResult};
use helix_agents_core::runtime::{Outcome, RunOptions, Runtime, RuntimeError, RuntimeExt};
use helix_agents_core::session::RunTrigger;
use helix_agents_core::store::StoreError;
use helix_agents_runtime_local::LocalRuntime;
use serde_json::json;

use crate::kit::{Gate, Place, desk, runs, session};

#[tokio::test]
async fn an_unknown_agent_is_named_and_nothing_is_written() {
    for place in Place::all() {
        let runtime = place.runtime().await;
        let agent = desk(&Gate::new());
        let request = Execute::new(&agent, "hello").in_session(session("s"));
        let refused = runtime.start(request, RunOptions::default()).await;
        let Err(RuntimeError::Agent(ResolveError::NotFound(error))) = refused else {
            panic!("unexpected: {refused:?}");
        };
        assert_eq!(error.name, "desk");
        let found = runtime
            .backend()
            .store
            .load(session("s").as_root())
            .await
            .unwrap();
        assert_eq!(found.map(|found| found.state.session_id), None);
    }
}

/// A session is resumed by its own agent, whoever asks.
#[tokio::test]
async fn a_session_whose_agent_is_unknown_is_not_resumed() {
    for place in Place::all() {
        let agent = desk(&Gate::new());
        let knows = place.runtime().await;
        let request = Execute::new(&agent, "pay").in_session(session("s"));
        let options = RunOptions::default();
        let handle = knows.execute_with(&agent, request, options).await.unwrap();
        let pause = handle.result().await.unwrap().suspended().unwrap();
        let yes = pause.pending()[0].approve();
        knows.submit_tool_result(yes).await.unwrap();

        let other = place.runtime().await;
        let refused = other.resume(&session("s"), RunOptions::default()).await;
        assert!(
            matches!(refused, Err(RuntimeError::Agent(ResolveError::NotFound(_)))),
            "{refused:?}"
        );
        assert_eq!(runs(other.backend(), &session("s")).await.len(), 1);
        let resumed = knows.resume(&session("s"), RunOptions::default()).await;
        let ended = knows.ended(&resumed.unwrap()).await.unwrap();
        assert!(ended.status.is_ended());
    }
}

#[tokio::test]
async fn a_session_that_is_not_there_is_named() {
    let runtime = Place::memory().runtime().await;
    let refused = runtime.resume(&session("s"), RunOptions::default()).await;
    assert!(
        matches!(
            refused,
            Err(RuntimeError::Entry(EntryError::Store(
                StoreError::NotFound { .. }
            )))
        ),
        "{refused:?}"
    );
}

#[tokio::test]
async fn a_session_runs_once_at_a_time() {
    for place in Place::all() {
        let gate = Gate::new();
        let agent = desk(&gate);
        let runtime = place.runtime().await;
        let request = Execute::new(&agent, "wait").in_session(session("s"));
        let start = |runtime: &LocalRuntime| {
            let (runtime, agent, request) = (runtime.clone(), agent.clone(), request.clone());
            async move {
                let options = RunOptions::default();
                runtime.execute_with(&agent, request, options).await
            }
        };
        let handle = start(&runtime).await.unwrap();
        gate.reached().await;
        for refused in [
            start(&runtime).await,
            start(&place.runtime().await).await,
            runtime.resume_with(&agent, &session("s")).await,
        ] {
            let Err(RuntimeError::Entry(EntryError::AlreadyRunning { run, .. })) = refused else {
                panic!("unexpected: {refused:?}");
            };
            assert_eq!(run, *handle.run_id());
        }
        gate.open();
        let outcome = handle.result().await.unwrap();
        assert_eq!(outcome, Outcome::Done(json!("waited: done")));
        let refused = runtime.resume_with(&agent, &session("s")).await;
        assert!(
            matches!(
                refused,
                Err(RuntimeError::Entry(EntryError::AlreadyCompleted { .. }))
            ),
            "{refused:?}"
        );
        assert_eq!(runs(runtime.backend(), &session("s")).await.len(), 1);
    }
}

#[tokio::test]
async fn a_tool_that_panics_fails_and_the_run_goes_on() {
    for place in Place::all() {
        let runtime = place.runtime().await;
        let agent = desk(&Gate::new());
        let handle = runtime.execute(&agent, "boom").await.unwrap();
        let Outcome::Done(text) = handle.result().await.unwrap() else {
            panic!("the turn goes on");
        };
        let text = text.as_str().unwrap();
        assert!(
            text.starts_with("told: ") && text.contains("failed"),
            "{text}"
        );
        assert!(!text.contains("fell over"), "details go to the log: {text}");
        let usage = handle.usage().await.unwrap();
        assert_eq!((usage.tools.calls, usage.tools.failures), (1, 1));
    }
}

/// Hooks that panic, and count how often.
struct Falls(Arc<AtomicUsize>);

impl Falls {
    fn fall(&self) -> ! {
        self.0.fetch_add(1, Ordering::SeqCst);
        panic!("the hook fell over")
    }
}

#[async_trait]
impl AgentHooks for Falls {
    async fn on_agent_start(&self, _: &AgentStart<'_>, _: &HookCx) -> HookResult {
        self.fall()
    }

    async fn before_tool(&self, _: &BeforeTool<'_>, _: &HookCx) -> HookResult {
        self.fall()
    }
}

#[tokio::test]
async fn a_hook_that_panics_fails_nothing_else() {
    for place in Place::all() {
        let (gate, fell) = (Gate::new(), Arc::default());
        gate.open();
        let agent = desk(&gate);
        let runtime = place.runtime().await;
        let options = RunOptions::default().hooks(Falls(Arc::clone(&fell)));
        let request = Execute::new(&agent, "wait");
        let handle = runtime
            .execute_with(&agent, request, options)
            .await
            .unwrap();
        let outcome = handle.result().await.unwrap();
        assert_eq!(outcome, Outcome::Done(json!("waited: done")));
        assert_eq!(fell.load(Ordering::SeqCst), 2, "both were called");
    }
}

#[test]
fn without_tokio_nothing_is_started() {
    let (runtime, agent) = helix_agents_testkit::block_on(async {
        (Place::memory().runtime().await, desk(&Gate::new()))
    });
    let request = Execute::new(&agent, "hello").in_session(session("s"));
    helix_agents_testkit::block_on(async {
        runtime.agents().keep(&agent);
        let refused = runtime.start(request, RunOptions::default()).await;
        let Err(RuntimeError::Host { why }) = refused else {
            panic!("unexpected: {refused:?}");
        };
        assert!(why.contains("tokio runtime"), "{why}");
        let found = runtime
            .backend()
            .store
            .load(session("s").as_root())
            .await
            .unwrap();
        assert!(found.is_none());
    });
}

/// A server starts a session once, however often it is asked to; and continues only what is there.
#[tokio::test]
async fn a_turn_begins_only_in_a_session_of_the_kind_it_expects() {
    for place in Place::all() {
        let agent = desk(&Gate::new());
        let runtime = place.builder().await.agent(&agent).build();
        let start = async |expects| {
            let request = Execute::new(&agent, "hello").in_session(session("s"));
            let request = request.expecting(expects);
            let run = runtime.start(request, RunOptions::default()).await?;
            runtime.ended(&run).await
        };
        let refused = start(Expects::Existing).await.unwrap_err();
        let RuntimeError::Entry(EntryError::Store(error)) = refused else {
            panic!("unexpected: {refused:?}");
        };
        assert!(matches!(error, StoreError::NotFound { .. }), "{error}");
        assert_eq!(start(Expects::New).await.unwrap().turn, 1);
        let refused = start(Expects::New).await.unwrap_err();
        let RuntimeError::Entry(EntryError::Store(error)) = refused else {
            panic!("unexpected: {refused:?}");
        };
        assert!(matches!(error, StoreError::AlreadyExists { .. }), "{error}");
        let next = start(Expects::Existing).await.unwrap();
        assert_eq!((next.turn, next.trigger), (2, RunTrigger::WithMessage));
        let next = start(Expects::Any).await.unwrap();
        assert_eq!((next.turn, next.trigger), (3, RunTrigger::Execute));
        assert_eq!(runs(runtime.backend(), &session("s")).await.len(), 3);
    }
}
