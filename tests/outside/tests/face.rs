//! The examples of the documentation, done by a stranger.

use std::sync::Arc;

use helix_agents::prelude::*;
use helix_agents::{ErrorCode, Messages, Page, PendingCall, SessionQuery, TextEvent};
use outside::{Cart, Report, analyst, support};

#[tokio::test]
async fn hello() -> anyhow::Result<()> {
    let agent = Agent::builder("assistant")
        .model("anthropic/claude-sonnet-4-5")
        .system_prompt("Be brief.")
        .build()?;
    let runtime = LocalRuntime::new(MemoryStore::new());
    // Without a key the agent is refused when it is first used.
    if std::env::var_os("ANTHROPIC_API_KEY").is_none() {
        let refused = runtime.execute(&agent, "What is a fence?").await;
        let refused = refused.unwrap_err();
        assert_eq!(refused.code(), ErrorCode::DefinitionInvalid);
        assert!(!refused.is_retryable());
        let text = refused.to_string();
        assert!(text.contains("anthropic/claude-sonnet-4-5"), "{text}");
        assert!(text.contains("ANTHROPIC_API_KEY"), "{text}");
    }

    let runtime = LocalRuntime::new(MemoryStore::new());
    let agent = agent.with_model(MockModel::new().says("A number."));
    let answer: String = runtime
        .execute(&agent, "What is a fence?")
        .await?
        .output()
        .await?;
    assert_eq!(answer, "A number.");
    Ok(())
}

#[tokio::test]
async fn streaming_into_anything() -> anyhow::Result<()> {
    fn into_body<S>(stream: S) -> S
    where
        S: Send + Unpin + 'static,
    {
        stream
    }
    let agent = support()?.with_model(MockModel::new().says("Once upon a time."));
    let runtime = LocalRuntime::new(MemoryStore::new());
    let run = runtime.execute(&agent, "Tell me a story.").await?;
    let (session, mut text) = (run.session_id().clone(), into_body(run.text()));
    let mut chunks = into_body(run.chunks());
    let mut events = into_body(run.text_events());
    drop(run);
    let mut whole = String::new();
    while let Some(piece) = text.next().await {
        whole.push_str(&piece?);
    }
    assert_eq!(whole, "Once upon a time.");
    let mut bubble = String::new();
    while let Some(event) = events.next().await {
        match event? {
            TextEvent::Delta(piece) => bubble.push_str(&piece),
            TextEvent::Truncate(length) => bubble.truncate(length),
        }
    }
    assert_eq!(bubble, whole);
    let first = chunks.next().await.unwrap()?;
    let mut rest = into_body(runtime.chunks(&session, first.sequence));
    assert!(rest.next().await.unwrap()?.sequence > first.sequence);
    Ok(())
}

#[tokio::test]
async fn the_next_message() -> anyhow::Result<()> {
    let agent = support()?.with_model(MockModel::new().says("Long.").says("Short."));
    let runtime: Arc<dyn Runtime> = Arc::new(LocalRuntime::new(MemoryStore::new()));
    let turn = Turn::new("Hi")
        .session("chat-7")
        .user("alice")
        .metadata("tenant", "acme")
        .tag("beta");
    let run = runtime.execute(&agent, turn).await?;
    assert_eq!(run.output().await?, "Long.");
    let session = run.session_id();
    let run = runtime.send(&agent, &session, "And shorter?").await?;
    assert_eq!(run.output().await?, "Short.");
    assert!(runtime.interrupt(session).await?.is_none());
    assert!(runtime.abort("chat-7").await?.is_none());
    assert!(runtime.handle(&agent, session).await?.is_some());

    assert_eq!(runtime.messages(session).await?.total, 4);
    let two = runtime.messages(Messages::of("chat-7").page(Page::first(2)));
    assert_eq!(two.await?.into_iter().count(), 2);
    let of_alice = SessionQuery {
        user_id: Some(UserId::new("alice")?),
        ..SessionQuery::default()
    };
    for found in runtime.sessions(of_alice).await? {
        assert_eq!(found.session_id, *session);
    }
    Ok(())
}

async fn notify(call: &PendingCall) {
    assert_eq!(call.tool_name, "refund");
}

#[tokio::test]
async fn people_in_the_loop_and_tools() -> anyhow::Result<()> {
    let model = MockModel::new()
        .calls("refund", json!({"order_id": "42", "cents": 50_000}))
        .says("Refunded.");
    let agent = support()?.with_model(model);
    let runtime = LocalRuntime::builder(MemoryStore::new())
        .agent(agent.clone())
        .build();
    let turn = Turn::new("broken").user("alice").metadata("tenant", "acme");
    let run = runtime.execute(&agent, turn).await?;
    match run.outcome().await? {
        Outcome::Done(answer) => anyhow::bail!("not asked: {answer}"),
        Outcome::Suspended(pause) => {
            for call in pause.pending() {
                notify(call).await;
            }
        }
        Outcome::Interrupted => anyhow::bail!("interrupted"),
        Outcome::Failed(error) => return Err(error.into()),
    }
    for call in runtime.pending(Pending::of_user("alice")).await? {
        runtime.submit(call.approve().by("bob")).await?;
    }
    let run = runtime.resume(&agent, run.session_id()).await?;
    assert_eq!(run.output().await?, "Refunded.");
    let store = &runtime.backend().store;
    let found = store.find(run.session_id()).await?.unwrap();
    assert_eq!(*found.state.custom_state, json!(Cart { refunds: 1 }));
    Ok(())
}

#[tokio::test]
async fn typed_output() -> anyhow::Result<()> {
    let model = MockModel::new().finishes(json!({"summary": "Good."}));
    let agent = analyst()?.with_model(model);
    let run = TestRuntime::new().execute(&agent, "How was it?").await?;
    let report: Report = run.output().await?;
    assert_eq!(report.summary, "Good.");
    Ok(())
}

#[tokio::test]
async fn tests_of_an_agent() -> anyhow::Result<()> {
    let support = support()?;
    let model = MockModel::new()
        .calls("refund", json!({"order_id": "42", "cents": 5000}))
        .says("Refunded.");
    let turn = Turn::new("broken").metadata("tenant", "acme");
    let run = TestRuntime::new()
        .execute(&support.with_model(model), turn)
        .await?;
    assert_eq!(run.output().await?, "Refunded.");
    CrashTest::of(&support).assert_survives().await;
    Ok(())
}
