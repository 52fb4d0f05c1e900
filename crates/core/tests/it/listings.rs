//! Tests of the verbs that list sessions and messages.

use std::sync::Arc;

use helix_agents_core::memory::MemoryStore;
use helix_agents_core::runtime::{Messages, Runtime, RuntimeExt, Turn};
use helix_agents_core::store::{Page, Paged, SessionQuery};
use helix_agents_core::tool::Tool;
use helix_agents_core::{Agent, ErrorCode, Message, UserId};
use helix_agents_testkit::{MockModel, MockReply, ThreadRuntime, block_on};
use serde_json::json;

fn runtime() -> Arc<dyn Runtime> {
    Arc::new(ThreadRuntime::new(MemoryStore::new()))
}

fn texts(messages: Paged<Message>) -> Vec<String> {
    let text = |message| match message {
        Message::User(user) => format!("user: {}", user.content),
        Message::Assistant(reply) => format!("agent: {}", reply.content().unwrap_or_default()),
        Message::Tool(result) => format!("{}: {}", result.tool_name, result.content),
        other => panic!("another kind of message: {other:?}"),
    };
    messages.into_iter().map(text).collect()
}

#[test]
fn the_messages_of_a_session_are_read_whole_or_by_page() {
    let model = MockModel::new().calls("look", json!({})).says("Blue.");
    let look = Tool::raw(
        "look",
        "Looks.",
        json!({ "type": "object" }),
        |_, _| async { Ok(json!("blue")) },
    );
    let agent = Agent::builder("teller").model(model).tools(look);
    let agent: Agent = agent.build().unwrap();
    let runtime = runtime();
    block_on(async {
        let run = runtime.execute(&agent, "Look.").await.unwrap();
        run.output().await.unwrap();
        let session = run.session_id();
        let all = runtime.messages(session).await.unwrap();
        assert_eq!((all.total, all.has_more), (4, false));
        let all = texts(all);
        assert_eq!(
            all,
            ["user: Look.", "agent: ", "look: blue", "agent: Blue."]
        );
        let page = Messages::of(session).page(Page::new(1, 2));
        let page = runtime.messages(page).await.unwrap();
        assert_eq!((page.total, page.has_more), (4, true));
        assert_eq!(texts(page), all[1..3]);
    });
}

#[test]
fn a_step_that_waits_is_not_in_the_messages() {
    let model = MockModel::new().calls("browser", json!({})).says("Done.");
    let browser = Tool::client_raw("browser", "Looks.", json!({ "type": "object" }));
    let agent = Agent::builder("teller").model(model).tools(browser);
    let agent: Agent = agent.build().unwrap();
    let runtime = runtime();
    block_on(async {
        let run = runtime.execute(&agent, "Look.").await.unwrap();
        let pause = run.outcome().await.unwrap().suspended().unwrap();
        let session = pause.session();
        let waiting = runtime.messages(session).await.unwrap();
        assert_eq!(texts(waiting), ["user: Look."]);
        let answer = pause.pending()[0].result("seen");
        runtime.submit(answer).await.unwrap();
        let resumed = runtime.resume(&agent, session).await.unwrap();
        resumed.output().await.unwrap();
        assert_eq!(runtime.messages(session).await.unwrap().total, 4);
    });
}

#[test]
fn messages_of_no_session_are_an_error() {
    block_on(async {
        let missing = runtime().messages("nowhere").await.unwrap_err();
        assert_eq!(missing.code(), ErrorCode::SessionNotFound);
        assert_eq!(missing.session_id().unwrap().as_str(), "nowhere");
        let mistake = runtime().messages("two words").await.unwrap_err();
        assert_eq!(mistake.code(), ErrorCode::ValidationError);
    });
}

#[test]
fn the_sessions_of_a_user_are_listed_newest_first() {
    let model = MockModel::replies((0..3).map(|_| MockReply::text("Hi.")));
    let agent: Agent = Agent::builder("teller").model(model).build().unwrap();
    let runtime = runtime();
    block_on(async {
        for (session, user) in [("one", "alice"), ("two", "bob"), ("three", "alice")] {
            let turn = Turn::new("Hi").session(session).user(user);
            let run = runtime.execute(&agent, turn).await.unwrap();
            run.output().await.unwrap();
        }
        let names = |found: Paged<helix_agents_core::session::SessionState>| {
            let ids = found.into_iter().map(|session| session.session_id);
            ids.map(|id| id.as_str().to_owned()).collect::<Vec<_>>()
        };
        let all = runtime.sessions(SessionQuery::default()).await.unwrap();
        assert_eq!(names(all), ["three", "two", "one"]);
        let of_alice = SessionQuery {
            user_id: Some(UserId::new("alice").unwrap()),
            page: Page::first(1),
            ..SessionQuery::default()
        };
        let found = runtime.sessions(of_alice).await.unwrap();
        assert_eq!((found.total, found.has_more), (2, true));
        assert_eq!(names(found), ["three"]);
    });
}
