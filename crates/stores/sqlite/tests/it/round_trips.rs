use std::sync::Arc;

use helix_agents_core::message::{
    AssistantMessage, AssistantPart, FilePart, Message, ResultStatus, Thinking, ToolCall,
    ToolMessage, UserMessage,
};
use helix_agents_core::model::TokenUsage;
use helix_agents_core::state::{StateOp, StepWrites};
use helix_agents_core::step::{ToolResultInput, create_tool_result_message};
use helix_agents_core::store::{Change, Page, SessionStore, StoreError};
use helix_agents_core::transcript::PairedStep;
use helix_agents_core::usage::{CustomUsage, UsageEntry, UsageKind};
use helix_agents_store_sqlite::SqliteStore;
use helix_agents_testkit::block_on;
use serde_json::{Value, json};

use crate::builders::{NOW, count, create, id, on, run};
use crate::folder::Folder;

fn result(call: &str, result: Result<Value, &str>, status: ResultStatus) -> ToolMessage {
    let mut message = create_tool_result_message(ToolResultInput {
        tool_call_id: id(call),
        tool_name: "t".into(),
        result: result.map_err(str::to_owned),
    });
    message.status = status;
    message
}

fn call(name: &str, arguments: Value) -> ToolCall {
    ToolCall::new(id(name), "t", arguments)
}

/// proves: SES-07
#[test]
fn every_kind_of_message_is_read_back_as_it_was_written() {
    let users = [
        UserMessage::new(""),
        UserMessage::new("a \"quoted\"\n\u{0}\u{1f600} text"),
        UserMessage::hidden("a correction"),
        UserMessage::new("x").with_id(id("m1")),
        UserMessage::new("x").with_file(FilePart::new("data:,hi", "text/plain").named("hi.txt")),
    ];
    let mut redacted = Thinking::new("");
    redacted.redacted = Some("secret".to_owned());
    redacted.provider_metadata = Some(json!({ "k": [1, 2.5, -0.0, 1e300] }));
    let mut marked = call("c5", json!([]));
    marked.provider_metadata = Some(json!("sig"));
    let mut tagged = AssistantMessage::text("x");
    tagged.metadata.insert("model".to_owned(), json!("a/b"));
    let tool_call = |one: ToolCall| AssistantPart::ToolCall(one);
    let steps = [
        (AssistantMessage::new(Vec::new()), vec![]),
        (AssistantMessage::text("only text"), vec![]),
        (tagged, vec![]),
        (
            AssistantMessage::new(vec![
                AssistantPart::Thinking(Thinking::new("hm").signed("sig")),
                AssistantPart::Thinking(redacted),
                AssistantPart::text("one"),
                tool_call(call("c1", json!({ "a": 18_446_744_073_709_551_615_u64 }))),
                AssistantPart::text("two"),
                AssistantPart::Text {
                    text: String::new(),
                    provider_metadata: Some(json!({ "signature": "s" })),
                },
                tool_call(call("c2", json!("text"))),
                tool_call(call("c3", json!(null))),
                tool_call(call("c4", json!({}))),
                tool_call(marked),
                tool_call(call("c6", json!(1))),
            ]),
            vec![
                result("c1", Ok(json!({ "b": [1, 0.1] })), ResultStatus::Success),
                result("c2", Ok(json!("verbatim")), ResultStatus::Success),
                result("c3", Err("it broke"), ResultStatus::Error),
                result("c4", Err("no"), ResultStatus::Denied),
                result("c5", Ok(json!("late")), ResultStatus::TimedOut),
                result("c6", Ok(json!(null)), ResultStatus::Unknown),
            ],
        ),
    ];
    let folder = Folder::new();
    block_on(async {
        let store = SqliteStore::open(folder.file("helix.db")).await.unwrap();
        let session = create(&store, "s").await;
        let mut commit = on("s");
        let mut expected: Vec<Message> = Vec::new();
        for user in users {
            expected.push(Message::User(user.clone()));
            commit = commit.then(Change::AppendUser(user));
        }
        for (said, results) in steps {
            expected.push(Message::Assistant(said.clone()));
            expected.extend(results.iter().cloned().map(Message::Tool));
            let step = PairedStep::new(said, results).unwrap();
            commit = commit.then(Change::AppendStep(step));
        }
        store.commit(commit).await.unwrap();
        let all = store.messages(session.as_root(), Page::ALL).await.unwrap();
        assert_eq!(all.items, expected);
        for offset in 0..=expected.len() + 1 {
            for limit in [0, 1, 2, 5] {
                let page = store
                    .messages(session.as_root(), Page::new(offset, limit))
                    .await;
                let part: Vec<_> = expected.iter().skip(offset).take(limit).cloned().collect();
                assert_eq!(page.unwrap().items, part, "{offset} {limit}");
            }
        }
    });
}

#[test]
fn every_kind_of_usage_is_read_back_with_its_run() {
    let folder = Folder::new();
    block_on(async {
        let store = SqliteStore::open(folder.file("helix.db")).await.unwrap();
        let session = create(&store, "s").await;
        let mut tokens = TokenUsage::new(7, 8);
        tokens.reasoning = Some(3);
        let mut written = tokens;
        written.cache_write = Some(2);
        let kinds = [
            UsageKind::Tokens {
                model: "a/b".into(),
                tokens: written,
                micro_dollars: None,
            },
            UsageKind::Tokens {
                model: "a/b".into(),
                tokens: TokenUsage::new(u64::MAX, 0),
                micro_dollars: Some(7),
            },
            UsageKind::Tokens {
                model: "".into(),
                tokens,
                micro_dollars: None,
            },
            UsageKind::Tool {
                name: "t".to_owned().into(),
                success: false,
                duration_ms: 12,
            },
            UsageKind::ClientToolWaitMs {
                name: "t".to_owned().into(),
                wait_ms: 5,
            },
            UsageKind::Subagent {
                name: "helper".to_owned(),
                tokens,
                micro_dollars: Some(12),
            },
            UsageKind::Custom(CustomUsage::new("requests", 0.1)),
        ];
        let known = run(&session);
        let start = on("s").then(Change::StartRun(Box::new(known.clone())));
        store.commit(start).await.unwrap();
        let mut expected = Vec::new();
        for (number, kind) in kinds.into_iter().enumerate() {
            let runs = [known.id.clone(), id("a-run-without-a-record")];
            let entries = runs.map(|run| {
                let usage = id(&format!("{run}-{number}"));
                UsageEntry {
                    id: usage,
                    run_id: run,
                    step: 2,
                    timestamp: NOW,
                    kind: kind.clone(),
                }
            });
            let [one, two] = entries.clone().map(Change::Usage);
            store.commit(on("s").then(one).then(two)).await.unwrap();
            expected.extend(entries);
        }
        let all = store.usage(session.as_root(), Page::ALL).await.unwrap();
        assert_eq!(all.items, expected);
        for offset in 0..=expected.len() {
            let page = store
                .usage(session.as_root(), Page::new(offset, 3))
                .await
                .unwrap();
            let part: Vec<_> = expected.iter().skip(offset).take(3).cloned().collect();
            assert_eq!((page.items, page.total), (part, expected.len()));
        }
    });
}

fn writes(path: &str, value: Value) -> Change {
    let path = path.parse().unwrap();
    Change::WriteState(StepWrites::from(vec![StateOp::Append { path, value }]))
}

#[test]
fn a_state_is_stored_whole_from_time_to_time() {
    let folder = Folder::new();
    let path = folder.file("helix.db");
    block_on(async {
        let store = SqliteStore::open(&path).await.unwrap();
        let session = create(&store, "s").await;
        let text = "x".repeat(20_000);
        let state = json!({ "text": text, "list": [] });
        let set = on("s").then(Change::SetState(Arc::new(state.clone())));
        store.commit(set).await.unwrap();
        for number in 0..200 {
            let commit = on("s").then(writes("/list", json!(number)));
            store.commit(commit).await.unwrap();
        }
        let error = store.commit(on("s").then(writes("/text", json!(1)))).await;
        assert!(matches!(error, Err(StoreError::State { .. })));
        for version in 0..=200_usize {
            let at = u64::try_from(version).unwrap() + 2;
            let expected = json!({ "text": text, "list": (0..version).collect::<Vec<_>>() });
            assert_eq!(
                *store.state_at(session.as_root(), at).await.unwrap(),
                expected
            );
        }
        let whole = count(&path, "SELECT count(*) FROM state WHERE whole = 1");
        assert_eq!(whole, 3, "created, set, and once the writes weigh as much");
        let bytes = count(&path, "SELECT sum(length(data)) FROM state");
        assert!(bytes < 120_000, "{bytes}");
    });
}
