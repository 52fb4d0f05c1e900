//! The verbs that users call on a runtime, on any runtime.

use std::sync::Arc;

use futures_util::StreamExt;
use helix_agents_core::entries::Continuation;
use helix_agents_core::memory::MemoryStore;
use helix_agents_core::model::{Model, ModelError, ModelErrorKind, ModelReply};
use helix_agents_core::runtime::{
    ChunkStream, NoOutput, Outcome, Pending, Runtime, RuntimeExt, Stop, TextStream, Turn,
};
use helix_agents_core::stream::{ChunkPayload, Sequence, StreamStatus};
use helix_agents_core::tool::Tool;
use helix_agents_core::{Agent, Error, ErrorCode, SessionId};
use helix_agents_testkit::{MockModel, MockReply, ThreadRuntime, block_on};
use serde::Deserialize;
use serde_json::{Value, json};

fn agent(replies: impl IntoIterator<Item = MockReply>) -> Agent {
    let pay = Tool::raw("pay", "Pays.", json!({ "type": "object" }), |_, _| async {
        Ok(json!({ "paid": true }))
    });
    let model = MockModel::replies(replies);
    let agent = Agent::builder("teller").model(Arc::new(model));
    agent.tools(pay.approval()).build().unwrap()
}

fn runtime() -> ThreadRuntime {
    ThreadRuntime::new(MemoryStore::new())
}

fn pays() -> MockReply {
    MockReply::calls([("c1", "pay", json!({}))])
}

/// A user writes this once, for any runtime.
async fn ask(runtime: &dyn Runtime, agent: &Agent, text: &str) -> Result<String, Error> {
    runtime.execute(agent, text).await?.output().await
}

#[test]
fn every_kind_of_runtime_has_the_verbs() {
    let agent = agent([
        MockReply::text("one"),
        MockReply::text("two"),
        MockReply::text("three"),
    ]);
    let concrete = runtime();
    let shared: Arc<dyn Runtime> = Arc::new(concrete.clone());
    block_on(async {
        let run = concrete.execute(&agent, "hello").await.unwrap();
        assert_eq!(run.output().await.unwrap(), "one");
        let run = shared.execute(&agent, String::from("hello")).await.unwrap();
        assert_eq!(run.output().await.unwrap(), "two");
        assert_eq!(ask(&*shared, &agent, "hello").await.unwrap(), "three");
    });
}

#[test]
fn the_next_turn_of_a_session_is_sent() {
    let agent = agent([MockReply::text("one"), MockReply::text("two")]);
    let runtime = runtime();
    block_on(async {
        let turn = Turn::new("Hi").session("chat-7").user("alice");
        let turn = turn
            .metadata("tenant", "acme")
            .metadata("level", 3)
            .tag("beta");
        let run = runtime.execute(&agent, turn).await.unwrap();
        assert_eq!(run.session_id().as_str(), "chat-7");
        run.output().await.unwrap();
        let found = runtime.backend().store.find(run.session_id()).await;
        let state = found.unwrap().unwrap().state;
        assert_eq!(state.user_id.unwrap().as_str(), "alice");
        assert_eq!(state.tags, ["beta"]);
        assert_eq!(state.metadata["tenant"], "acme");
        assert_eq!(state.metadata["level"], "3");

        let next = Turn::new("And shorter?").metadata("level", 4);
        let next = next.tag("beta").tag("new").user("bob");
        let run = runtime.send(&agent, "chat-7", next).await.unwrap();
        assert_eq!(run.output().await.unwrap(), "two");
        let found = runtime.backend().store.find(run.session_id()).await;
        let state = found.unwrap().unwrap().state;
        assert_eq!(state.user_id.unwrap().as_str(), "alice");
        assert_eq!(state.tags, ["beta", "new"]);
        assert_eq!(state.metadata["tenant"], "acme");
        assert_eq!(state.metadata["level"], "4");
        let unknown = runtime.send(&agent, "chat-8", "Hi").await.unwrap_err();
        assert_eq!(unknown.code(), ErrorCode::SessionNotFound);
        assert_eq!(unknown.session_id().unwrap().as_str(), "chat-8");
    });
}

#[test]
fn a_mistake_in_a_turn_is_reported_by_the_call() {
    let agent = agent([]);
    let runtime = runtime();
    block_on(async {
        for turn in [
            Turn::new("Hi").session("two words"),
            Turn::new("Hi").user(""),
        ] {
            let error = runtime.execute(&agent, turn).await.unwrap_err();
            assert_eq!(error.code(), ErrorCode::ValidationError, "{error:?}");
        }
        let error = runtime.pending(Pending::of_user("a b")).await.unwrap_err();
        assert_eq!(error.code(), ErrorCode::ValidationError);
        let error = runtime.interrupt("a b").await.unwrap_err();
        assert_eq!(error.code(), ErrorCode::ValidationError);
        let said = runtime.chunks("a b", 0).next().await;
        assert!(said.unwrap().is_err());
    });
}

#[test]
fn text_is_a_stream_that_owns_what_it_needs() {
    fn is_a_body<S: Send + Unpin + 'static>(stream: S) -> S {
        stream
    }
    let agent = agent([MockReply::text("Once upon a time."), pays()]);
    block_on(async {
        let mut text: TextStream = {
            let runtime = runtime();
            let run = runtime.execute(&agent, "A story.").await.unwrap();
            is_a_body(run.text())
        };
        let mut whole = String::new();
        while let Some(piece) = text.next().await {
            whole.push_str(&piece.unwrap());
        }
        assert_eq!(whole, "Once upon a time.");
        assert!(text.next().await.is_none());
    });
}

#[test]
fn a_failed_run_ends_its_text_with_the_error() {
    let agent = agent([MockReply::error(ModelErrorKind::Auth)]);
    let runtime = runtime();
    block_on(async {
        let run = runtime.execute(&agent, "Hi").await.unwrap();
        let error = run.text().next().await.unwrap().unwrap_err();
        assert_eq!(error.code(), ErrorCode::ProviderAuth);
        assert_eq!(error.run_id(), Some(run.run_id()));
        let output = run.output().await.unwrap_err();
        assert_eq!(output, error);
        assert!(matches!(run.outcome().await.unwrap(), Outcome::Failed(failed) if failed == error));
    });
}

async fn kinds(mut chunks: ChunkStream) -> (Vec<(Sequence, String)>, ChunkStream) {
    let mut all = Vec::new();
    while let Some(chunk) = chunks.next().await {
        let chunk = chunk.unwrap();
        let json = serde_json::to_value(&chunk.chunk).unwrap();
        all.push((chunk.sequence, json["type"].as_str().unwrap().to_owned()));
    }
    (all, chunks)
}

#[test]
fn a_reader_that_comes_back_reads_the_rest() {
    let agent = agent([MockReply::text("one"), MockReply::text("two")]);
    let runtime = runtime();
    block_on(async {
        let first = runtime.execute(&agent, "Hi").await.unwrap();
        let (of_first, _) = kinds(first.chunks()).await;
        let session: &SessionId = first.session_id();
        let second = runtime.send(&agent, session, "Hi").await.unwrap();
        let (of_second, chunks) = kinds(second.chunks()).await;
        assert_eq!(chunks.status(), Some(StreamStatus::Ended));
        assert_eq!(of_second[0].1, "run_started");
        assert!(of_second.iter().any(|(_, kind)| kind == "text_delta"));

        let (all, _) = kinds(runtime.chunks(session, 0)).await;
        assert_eq!(all, [of_first.clone(), of_second.clone()].concat());
        let (place, _) = of_first.last().unwrap();
        let (rest, chunks) = kinds(runtime.chunks(session, *place)).await;
        assert_eq!(rest, of_second);
        assert_eq!(chunks.cursor(), of_second.last().unwrap().0);

        let nowhere = runtime.chunks("nowhere", 0).next().await.unwrap();
        assert_eq!(nowhere.unwrap_err().code(), ErrorCode::SessionNotFound);
    });
}

#[test]
fn a_pause_is_an_outcome_that_somebody_else_answers() {
    let agent = agent([pays(), MockReply::text("Paid.")]);
    let runtime = runtime();
    block_on(async {
        let turn = Turn::new("Pay.").session("s").user("alice");
        let run = runtime.execute(&agent, turn).await.unwrap();
        let error = run.output().await.unwrap_err();
        assert_eq!(error.code(), ErrorCode::SessionAwaitingAnswers);
        assert!(error.to_string().contains("pay (c1)"), "{error}");
        assert!(matches!(
            error.downcast_ref(),
            Some(NoOutput::Suspended { .. })
        ));
        let Outcome::Suspended(pause) = run.outcome().await.unwrap() else {
            panic!("it waits for an approval");
        };
        assert_eq!(pause.pending().len(), 1);

        let nobody = runtime.pending(Pending::of_user("bob")).await.unwrap();
        assert!(nobody.is_empty());
        assert_eq!(runtime.pending(Pending::all().limit(0)).await.unwrap(), []);
        let of_session = runtime.pending(Pending::of_session("s")).await.unwrap();
        let of_user = runtime.pending(Pending::of_user("alice")).await.unwrap();
        assert_eq!(of_session, of_user);
        let early = runtime.resume(&agent, "s").await.unwrap_err();
        assert_eq!(early.code(), ErrorCode::SessionAwaitingAnswers);
        assert!(
            early.to_string().contains("answers to pay (c1);"),
            "{early}"
        );
        let early = runtime.send(&agent, "s", "And?").await.unwrap_err();
        assert!(
            early.to_string().contains("answers to pay (c1);"),
            "{early}"
        );
        let wrong = runtime.submit(of_user[0].approve().by("two words")).await;
        assert_eq!(wrong.unwrap_err().code(), ErrorCode::ValidationError);
        for call in of_user {
            let taken = runtime.submit(call.approve().by("bob")).await.unwrap();
            assert_eq!(taken.continuation, Continuation::CallerResumes);
        }
        assert_eq!(runtime.pending(Pending::all()).await.unwrap(), []);
        let resumed = runtime.resume(&agent, "s").await.unwrap();
        assert_eq!(resumed.output().await.unwrap(), "Paid.");
        let latest = runtime.handle(&agent, "s").await.unwrap().unwrap();
        assert_eq!(latest.run_id(), resumed.run_id());
        let decided = resumed.chunks().any(async |chunk| {
            let payload = chunk.unwrap().chunk.payload;
            matches!(payload, ChunkPayload::ToolApprovalResponse { decided_by: Some(user), .. }
                if user.as_str() == "bob")
        });
        assert!(decided.await);
        assert!(runtime.handle(&agent, "never").await.unwrap().is_none());
    });
}

#[test]
fn a_run_that_does_not_go_on_is_not_stopped() {
    let agent = agent([MockReply::text("one")]);
    let runtime = runtime();
    block_on(async {
        let run = runtime.execute(&agent, "Hi").await.unwrap();
        run.output().await.unwrap();
        let stop = Stop::of(run.session_id()).because("too late");
        assert_eq!(runtime.abort(stop).await.unwrap(), None);
        assert_eq!(runtime.interrupt(run.session_id()).await.unwrap(), None);
        let unknown = runtime.interrupt("nowhere").await.unwrap_err();
        assert_eq!(unknown.code(), ErrorCode::SessionNotFound);
    });
}

#[test]
fn another_agent_of_the_same_name_is_refused() {
    let (one, other) = (agent([MockReply::text("one")]), agent([]));
    let runtime = runtime();
    block_on(async {
        let run = runtime.execute(&one, "Hi").await.unwrap();
        run.output().await.unwrap();
        let refused = runtime.execute(&other, "Hi").await.unwrap_err();
        assert_eq!(refused.code(), ErrorCode::DefinitionInvalid);
        assert!(refused.to_string().contains("teller"), "{refused}");
        runtime
            .handle(&one.clone(), run.session_id())
            .await
            .unwrap();
    });
}

#[derive(Debug, Deserialize, PartialEq, schemars::JsonSchema)]
struct Report {
    lines: u32,
}

#[test]
fn an_output_has_the_type_of_its_agent() {
    let model = |reply| Arc::new(MockModel::replies([reply]));
    let finished = || MockReply::finish(json!({ "lines": 3 }));
    let typed = Agent::builder("typed").model(model(finished()));
    let typed: Agent<Report> = typed.output().build().unwrap();
    let schema = json!({ "type": "object", "properties": { "lines": { "type": "integer" } } });
    let json = Agent::builder("json").model(model(finished()));
    let json: Agent<Value> = json.output_schema(schema).build().unwrap();
    let silent: Agent = Agent::builder("silent")
        .model(model(MockReply::text("")))
        .build()
        .unwrap();
    let tool = Tool::raw("end", "Ends.", json!({ "type": "object" }), |_, _| async {
        Ok(json!({ "b": 1, "a": [true] }))
    });
    let calls = MockReply::calls([("c1", "end", json!({}))]);
    let ends = Agent::builder("ends").model(model(calls));
    let ends: Agent = ends.tools(tool.finish_with()).build().unwrap();
    let runtime = runtime();
    block_on(async {
        let run = runtime.execute(&typed, "go").await.unwrap();
        assert_eq!(run.output().await.unwrap(), Report { lines: 3 });
        let run = runtime.execute(&json, "go").await.unwrap();
        assert_eq!(run.output().await.unwrap(), json!({ "lines": 3 }));
        let run = runtime.execute(&silent, "go").await.unwrap();
        assert_eq!(run.output().await.unwrap(), "");
        let run = runtime.execute(&ends, "go").await.unwrap();
        assert_eq!(run.output().await.unwrap(), r#"{"a":[true],"b":1}"#);
    });
}

/// A tool reads the same facts about its session in whatever process it runs.
#[test]
fn a_tool_reads_the_user_the_tags_and_the_metadata() {
    #[derive(Debug, Deserialize, PartialEq)]
    struct Limits {
        most: u32,
    }
    let look = Tool::raw(
        "look",
        "Looks.",
        json!({ "type": "object" }),
        |_, cx: helix_agents_core::ToolCx| async move {
            let tenant: String = cx.metadata("tenant")?;
            let limits: Limits = cx.metadata("limits")?;
            let level: u32 = cx.metadata("level")?;
            let missing = cx.metadata::<String>("nothing").is_err();
            // A type that could be read from null is no `Option`.
            let missing = missing && cx.metadata::<Value>("nothing").is_err();
            let absent = cx.metadata::<Option<String>>("nothing")?;
            let optional = cx.metadata::<Option<u32>>("level")?;
            let misread = cx.metadata::<Option<u32>>("tenant").is_err();
            let wrong = cx.metadata::<u32>("tenant").is_err();
            let user = cx.user().map(ToString::to_string);
            Ok(json!([
                tenant,
                limits.most,
                level,
                user,
                cx.tags(),
                missing,
                wrong,
                [json!(absent), json!(optional), json!(misread)]
            ]))
        },
    );
    let calls = MockReply::calls([("c1", "look", json!({}))]);
    let model = MockModel::replies([calls]);
    let agent = Agent::builder("looks")
        .model(model)
        .tools(look.finish_with());
    let agent = agent.build().unwrap();
    let runtime = runtime();
    block_on(async {
        let turn = Turn::new("Hi").user("alice").tag("beta").tag("new");
        let turn = turn.metadata("tenant", "acme").metadata("level", 3);
        let turn = turn.metadata("limits", json!({ "most": 5 }));
        let run = runtime.execute(&agent, turn).await.unwrap();
        let wanted = json!([
            "acme",
            5,
            3,
            "alice",
            ["beta", "new"],
            true,
            true,
            [null, 3, true]
        ]);
        assert_eq!(run.output().await.unwrap(), wanted.to_string());
    });
}

#[derive(Debug, Default, serde::Serialize, Deserialize, PartialEq)]
struct Cart {
    refunds: u32,
    notes: Vec<String>,
}

#[test]
fn a_session_without_state_starts_from_the_default() {
    let count = Tool::raw(
        "count",
        "Counts.",
        json!({ "type": "object" }),
        |_, cx: helix_agents_core::ToolCx| async move {
            cx.update_state(|cart: &mut Cart| cart.refunds += 1)?;
            Ok(json!("counted"))
        },
    );
    let calls = |id| MockReply::calls([(id, "count", json!({}))]);
    let model = MockModel::replies([calls("c1"), calls("c2"), MockReply::text("done")]);
    let agent = Agent::builder("counts").model(model).tools(count);
    let agent = agent.build().unwrap();
    let runtime = runtime();
    block_on(async {
        let run = runtime.execute(&agent, "Hi").await.unwrap();
        run.output().await.unwrap();
        let found = runtime.backend().store.find(run.session_id()).await;
        let state = found.unwrap().unwrap().state.custom_state;
        assert_eq!(*state, json!({ "refunds": 2, "notes": [] }));
    });
}

#[test]
fn a_state_of_another_shape_is_not_replaced_by_the_default() {
    let state = helix_agents_core::shared_state::SharedState::new(Arc::new(json!({ "other": 1 })));
    let state = state.unwrap();
    let changed = state.update(|cart: &mut Cart| cart.refunds += 1);
    assert!(changed.is_err());
    assert_eq!(*state.get().unwrap(), json!({ "other": 1 }));
}

#[test]
fn an_async_function_is_a_model() {
    let model = Model::from_fn(|input| async move {
        let said = input.last_user_text().to_owned();
        if said == "fail" {
            return Err(ModelError::new(ModelErrorKind::Auth, "no key"));
        }
        match input.history.iter().count() {
            1 => Ok(ModelReply::call("echo", json!({ "text": said })).and_call("echo", json!({}))),
            _ => Ok(ModelReply::text(format!(
                "{} on {}",
                input.system, input.agent_type
            ))),
        }
    });
    let echo = Tool::raw(
        "echo",
        "Echoes.",
        json!({ "type": "object" }),
        |arguments, _| async { Ok(arguments) },
    );
    let agent = Agent::builder("function").model(model).tools(echo);
    let agent = agent.system_prompt("Be brief.").build().unwrap();
    let runtime = runtime();
    block_on(async {
        let run = runtime.execute(&agent, "hello").await.unwrap();
        assert_eq!(run.output().await.unwrap(), "Be brief. on function");
        let tools = run.usage().await.unwrap().tools;
        assert_eq!((tools.calls, tools.failures), (2, 0));
        let run = runtime.execute(&agent, "fail").await.unwrap();
        assert_eq!(
            run.output().await.unwrap_err().code(),
            ErrorCode::ProviderAuth
        );
    });
}

#[test]
fn an_agent_with_another_model_is_otherwise_the_same() {
    let agent = agent([]);
    let other = agent.with_model(MockModel::new().says("one").says("two"));
    assert_eq!((other.name(), other.tools().len()), ("teller", 1));
    block_on(async {
        for _ in 0..2 {
            // What the model says depends on the session alone.
            let run = runtime().execute(&other, "Hi").await.unwrap();
            assert_eq!(run.output().await.unwrap(), "one");
        }
    });
}
