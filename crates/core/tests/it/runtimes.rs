//! Typed outcomes of a runtime, hooks of a parent, and a thousand races.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use helix_agents_core::Agent;
use helix_agents_core::error::ErrorCode;
use helix_agents_core::hooks::{AgentHooks, AgentStart, HookCx, HookResult};
use helix_agents_core::memory::MemoryStore;
use helix_agents_core::model::{ModelErrorKind, TokenUsage};
use helix_agents_core::runtime::{Outcome, RuntimeExt, Turn};
use helix_agents_core::session::RunStatus;
use helix_agents_core::stream::{ChunkPayload, StreamItem, StreamStatus};
use helix_agents_core::tool::Tool;
use helix_agents_testkit::contract::{RuntimeSubject, runtime};
use helix_agents_testkit::{MockModel, MockReply, ThreadRuntime, block_on, drive};
use serde_json::json;

fn agent(replies: impl IntoIterator<Item = MockReply>) -> Agent {
    let browser = Tool::client_raw("browser", "Looks.", json!({ "type": "object" }));
    let agent = Agent::builder("agent").model(Arc::new(MockModel::replies(replies)));
    agent.tools(browser).build().unwrap()
}

/// A run ends with an output, a suspension or a failure, and its handle shows its text and usage.
#[test]
fn a_handle_returns_the_typed_outcome() {
    let runtime = ThreadRuntime::new(MemoryStore::new());
    let agent = agent([
        MockReply::calls([("c1", "browser", json!({}))]).with_usage(TokenUsage::new(3, 2)),
        MockReply::text("It is blue."),
        MockReply::error(ModelErrorKind::Auth),
    ]);
    block_on(async {
        let handle = runtime.execute(&agent, "Look.").await.unwrap();
        let pause = handle.outcome().await.unwrap().suspended().unwrap();
        assert_eq!(pause.status(), RunStatus::SuspendedClientTool);
        assert_eq!(
            (pause.session(), pause.run()),
            (handle.session_id(), handle.run_id())
        );
        assert_eq!(
            pause.pending(),
            runtime.pending(pause.session()).await.unwrap()
        );
        assert_eq!(handle.usage().await.unwrap().tokens, TokenUsage::new(3, 2));

        let answer = pause.pending()[0].result("blue");
        runtime.submit(answer).await.unwrap();
        let resumed = runtime.resume(&agent, pause.session()).await.unwrap();
        let outcome = resumed.outcome().await.unwrap();
        assert_eq!(outcome, Outcome::Done("It is blue.".to_owned()));
        let mut reader = resumed.reader(None);
        let mut said = Vec::new();
        while let Some(item) = reader.next().await.unwrap() {
            said.push(item);
        }
        let Some(StreamItem::Chunk(first)) = said.first() else {
            panic!("it begins with a chunk: {said:?}");
        };
        assert!(matches!(
            first.chunk.payload,
            ChunkPayload::RunStarted { .. }
        ));
        assert_eq!(first.chunk.base.run_id, *resumed.run_id());
        assert_eq!(said.last(), Some(&StreamItem::End(StreamStatus::Ended)));

        let failing = Turn::new("Again.");
        let failing = failing.session(pause.session().clone());
        let failed = runtime.execute(&agent, failing).await.unwrap();
        let Outcome::Failed(error) = failed.outcome().await.unwrap() else {
            panic!("it failed");
        };
        assert_eq!(error.code(), ErrorCode::ProviderAuth);
    });
}

struct Named(&'static str, Arc<Mutex<Vec<&'static str>>>);

#[async_trait]
impl AgentHooks for Named {
    async fn on_agent_start(&self, _: &AgentStart<'_>, _: &HookCx) -> HookResult {
        self.1.lock().unwrap().push(self.0);
        Ok(())
    }
}

/// Hooks of a parent run first, then the agent's own, then those of the execution.
///
/// proves in part: HKS-04
#[test]
fn hooks_of_a_parent_run_before_all_others() {
    let told = Arc::default();
    let named = |name| Named(name, Arc::clone(&told));
    let parents: Arc<dyn AgentHooks> = Arc::new(named("parent"));
    let runtime = ThreadRuntime::new(MemoryStore::new()).driven_by(Arc::new(
        move |facts, state, mut ports| {
            ports.parent_hooks.push(Arc::clone(&parents));
            Box::pin(async move { drive(&facts, state, &ports).await })
        },
    ));
    let model = MockModel::replies([MockReply::text("done")]);
    let agent = Agent::builder("agent").model(Arc::new(model));
    let agent = agent.hooks(named("agent")).build().unwrap();
    block_on(async {
        let request = Turn::new("go").hooks(named("execution"));
        let handle = runtime.execute(&agent, request).await.unwrap();
        handle.ended().await.unwrap();
    });
    assert_eq!(*told.lock().unwrap(), ["parent", "agent", "execution"]);
}

/// Runs a race many times, because one that goes right once may go wrong another time.
fn a_thousand_times(case: &impl AsyncFn(&RuntimeSubject)) {
    for _ in 0..1_000 {
        let runtime = ThreadRuntime::new(MemoryStore::new()).remembering();
        block_on(case(&RuntimeSubject::from(runtime)));
    }
}

#[test]
fn each_of_a_thousand_resume_races_has_one_winner() {
    a_thousand_times(&async |on: &RuntimeSubject| {
        runtime::exactly_one_of_many_resumes_runs(on).await;
    });
}

#[test]
fn each_of_a_thousand_answer_races_has_one_winner() {
    a_thousand_times(&async |on: &RuntimeSubject| {
        runtime::one_of_many_equal_answers_is_accepted(on).await;
    });
}
