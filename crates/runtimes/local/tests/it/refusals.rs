//! Tests of refused requests and of user code that panics.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use helix_agents_core::agent::ResolveError;
use helix_agents_core::entries::{EntryError, ExecuteRequest, ExpectedSession};
use helix_agents_core::hooks::{AgentHooks, AgentStart, BeforeTool, HookCx, HookResult};
use helix_agents_core::runtime::{Outcome, RunOptions, Runtime, RuntimeError, RuntimeExt, Turn};
use helix_agents_core::session::RunTrigger;
use helix_agents_core::store::StoreError;
use helix_agents_runtime_local::LocalRuntime;

use crate::kit::{Gate, Place, cause, desk, runs, session};

#[tokio::test]
async fn an_unknown_agent_is_named_and_nothing_is_written() {
    for place in Place::all() {
        let runtime = place.runtime().await;
        let agent = desk(&Gate::new());
        let request = ExecuteRequest::new(&agent, "hello").in_session(session("s"));
        let refused = runtime.start(request, RunOptions::default()).await;
        let Some(RuntimeError::Agent(ResolveError::NotFound(error))) = cause(&refused) else {
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

/// A session is resumed only with its own agent.
#[tokio::test]
async fn a_session_whose_agent_is_unknown_is_not_resumed() {
    for place in Place::all() {
        let agent = desk(&Gate::new());
        let knows = place.runtime().await;
        let request = Turn::new("pay").session(session("s"));
        let handle = knows.execute(&agent, request).await.unwrap();
        let pause = handle.outcome().await.unwrap().suspended().unwrap();
        let yes = pause.pending()[0].approve();
        knows.submit(yes).await.unwrap();

        let other = place.runtime().await;
        let refused = other
            .resume_session((&session("s")).into(), RunOptions::default())
            .await;
        assert!(
            matches!(
                cause(&refused),
                Some(RuntimeError::Agent(ResolveError::NotFound(_)))
            ),
            "{refused:?}"
        );
        assert_eq!(runs(other.backend(), &session("s")).await.len(), 1);
        let resumed = knows
            .resume_session((&session("s")).into(), RunOptions::default())
            .await;
        let ended = knows.ended(&resumed.unwrap()).await.unwrap();
        assert!(ended.status.is_ended());
    }
}

#[tokio::test]
async fn the_error_for_a_missing_session_names_it() {
    let runtime = Place::memory().runtime().await;
    let refused = runtime
        .resume_session((&session("s")).into(), RunOptions::default())
        .await;
    assert!(
        matches!(
            cause(&refused),
            Some(RuntimeError::Entry(EntryError::Store(
                StoreError::NotFound { .. }
            )))
        ),
        "{refused:?}"
    );
}

#[tokio::test]
async fn a_session_has_at_most_one_run_at_a_time() {
    for place in Place::all() {
        let gate = Gate::new();
        let agent = desk(&gate);
        let runtime = place.runtime().await;
        let start = async |runtime: &LocalRuntime| {
            let turn = Turn::new("wait").session(session("s"));
            runtime.execute(&agent, turn).await
        };
        let handle = start(&runtime).await.unwrap();
        gate.reached().await;
        for refused in [
            start(&runtime).await,
            start(&place.runtime().await).await,
            runtime.resume(&agent, session("s")).await,
        ] {
            let Some(RuntimeError::Entry(EntryError::AlreadyRunning { run, .. })) = cause(&refused)
            else {
                panic!("unexpected: {refused:?}");
            };
            assert_eq!(run, handle.run_id());
        }
        gate.open();
        let outcome = handle.outcome().await.unwrap();
        assert_eq!(outcome, Outcome::Done("waited: done".to_owned()));
        let refused = runtime.resume(&agent, session("s")).await;
        assert!(
            matches!(
                cause(&refused),
                Some(RuntimeError::Entry(EntryError::AlreadyCompleted { .. }))
            ),
            "{refused:?}"
        );
        assert_eq!(runs(runtime.backend(), &session("s")).await.len(), 1);
    }
}

#[tokio::test]
async fn a_tool_that_panics_fails_and_the_run_continues() {
    for place in Place::all() {
        let runtime = place.runtime().await;
        let agent = desk(&Gate::new());
        let handle = runtime.execute(&agent, "boom").await.unwrap();
        let Outcome::Done(text) = handle.outcome().await.unwrap() else {
            panic!("the turn must not end");
        };
        let text = text.as_str();
        assert!(
            text.starts_with("told: ") && text.contains("failed"),
            "{text}"
        );
        assert!(!text.contains("fell over"), "details go to the log: {text}");
        let usage = handle.usage().await.unwrap();
        assert_eq!((usage.tools.calls, usage.tools.failures), (1, 1));
    }
}

/// Hooks that panic and count their calls.
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
async fn a_panicking_hook_does_not_fail_the_run() {
    for place in Place::all() {
        let (gate, fell) = (Gate::new(), Arc::default());
        gate.open();
        let agent = desk(&gate);
        let runtime = place.runtime().await;
        let request = Turn::new("wait").hooks(Falls(Arc::clone(&fell)));
        let handle = runtime.execute(&agent, request).await.unwrap();
        let outcome = handle.outcome().await.unwrap();
        assert_eq!(outcome, Outcome::Done("waited: done".to_owned()));
        assert_eq!(fell.load(Ordering::SeqCst), 2, "both were called");
    }
}

#[test]
fn outside_of_tokio_no_run_is_started() {
    let (runtime, agent) = helix_agents_testkit::block_on(async {
        (Place::memory().runtime().await, desk(&Gate::new()))
    });
    let request = ExecuteRequest::new(&agent, "hello").in_session(session("s"));
    helix_agents_testkit::block_on(async {
        runtime.agents().keep(&agent).unwrap();
        let refused = runtime.start(request, RunOptions::default()).await;
        let Some(RuntimeError::Host { why }) = cause(&refused) else {
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

/// A server can start a session only once, and can continue only an existing session.
#[tokio::test]
async fn a_turn_begins_only_in_a_session_of_the_kind_it_expects() {
    for place in Place::all() {
        let agent = desk(&Gate::new());
        let runtime = place.builder().await.agent(&agent).build();
        let start = async |expects| {
            let request = ExecuteRequest::new(&agent, "hello").in_session(session("s"));
            let request = request.expecting(expects);
            let run = runtime.start(request, RunOptions::default()).await?;
            runtime.ended(&run).await
        };
        let refused = start(ExpectedSession::Existing).await.unwrap_err();
        let RuntimeError::Entry(EntryError::Store(error)) = refused else {
            panic!("unexpected: {refused:?}");
        };
        assert!(matches!(error, StoreError::NotFound { .. }), "{error}");
        assert_eq!(start(ExpectedSession::New).await.unwrap().turn, 1);
        let refused = start(ExpectedSession::New).await.unwrap_err();
        let RuntimeError::Entry(EntryError::AlreadyStarted { .. }) = refused else {
            panic!("unexpected: {refused:?}");
        };
        let next = start(ExpectedSession::Existing).await.unwrap();
        assert_eq!((next.turn, next.trigger), (2, RunTrigger::WithMessage));
        let next = start(ExpectedSession::Any).await.unwrap();
        assert_eq!((next.turn, next.trigger), (3, RunTrigger::Execute));
        assert_eq!(runs(runtime.backend(), &session("s")).await.len(), 3);
    }
}
