use std::sync::Arc;

use helix_agents_core::message::{FilePart, Message, UserMessage};
use helix_agents_core::session::{PendingCall, RunStatus, RunTrigger};
use helix_agents_core::store::{Change, Fence, Field, Page, SessionStore};
use helix_agents_core::stream::{Sequence, StreamManager, StreamWriter};
use helix_agents_store_sqlite::SqliteStore;
use helix_agents_testkit::block_on;
use serde_json::{Value, json};

use crate::builders::{NOW, append_user, count, create, delta, id, on, run, step};
use crate::folder::Folder;

const BLOBS: &str = "SELECT count(*) FROM blob";

/// proves: SES-09
#[test]
fn a_large_value_is_stored_once_and_deleted_with_its_last_use() {
    let folder = Folder::new();
    let path = folder.file("helix.db");
    block_on(async {
        let store = SqliteStore::open(&path).await.unwrap();
        let image = format!("data:image/png;base64,{}", "iVBOR".repeat(50_000));
        let said = |text: &str| {
            UserMessage::new(text).with_file(FilePart::new(image.clone(), "image/png"))
        };
        for session in ["a", "b"] {
            let session_id = create(&store, session).await;
            for text in ["first", "second"] {
                let commit = on(session).then(Change::AppendUser(said(text)));
                store.commit(commit).await.unwrap();
            }
            let messages = store
                .messages(session_id.as_root(), Page::ALL)
                .await
                .unwrap()
                .items;
            let expected = ["first", "second"].map(|text| Message::User(said(text)));
            assert_eq!(messages, expected);
        }
        assert_eq!(count(&path, BLOBS), 1);
        assert_eq!(count(&path, "SELECT count(*) FROM blob_use"), 4);

        store.commit(on("a").then(Change::Delete)).await.unwrap();
        assert_eq!(count(&path, BLOBS), 1, "the other session still has it");
        store
            .commit(on("b").then(Change::Truncate(1)))
            .await
            .unwrap();
        assert_eq!(count(&path, BLOBS), 1, "one message still has it");
        store
            .commit(on("b").then(Change::Truncate(0)))
            .await
            .unwrap();
        assert_eq!(count(&path, BLOBS), 0);
        assert_eq!(count(&path, "SELECT count(*) FROM blob_use"), 0);
    });
}

#[test]
fn a_large_delta_is_deleted_with_its_discarded_attempt() {
    let folder = Folder::new();
    let path = folder.file("helix.db");
    block_on(async {
        let store = SqliteStore::open(&path).await.unwrap();
        let session = create(&store, "s").await;
        let writer = StreamWriter::new(session.clone(), session.clone(), Fence(0));
        let large = |letter: &str| delta(&session, &letter.repeat(100_000));
        let both = vec![large("a"), large("b")];
        store.append_deltas(&writer, both).await.unwrap();
        assert_eq!(count(&path, BLOBS), 2);
        for (after, kept) in [(Sequence(1), 1), (Sequence::START, 0)] {
            let sorry = delta(&session, "sorry");
            store.discard_deltas(&writer, after, sorry).await.unwrap();
            assert_eq!(count(&path, BLOBS), kept);
            assert_eq!(count(&path, "SELECT count(*) FROM blob_use"), kept);
        }
    });
}

#[test]
fn every_kind_of_value_may_be_large() {
    let folder = Folder::new();
    let path = folder.file("helix.db");
    block_on(async {
        let store = SqliteStore::open(&path).await.unwrap();
        let session = create(&store, "s").await;
        let text = |seed: usize| format!("{seed} ~/{}", "long \"text\" \u{e9}\n".repeat(9_000));
        let list: Value = (0..40_000).map(|n| json!([n, "~a/b"])).collect();
        let state = json!({ "a/b~c": [text(1), { "": text(2) }], "list": list });
        let mut record = run(&session);
        // It continues with the step that is open.
        record.trigger = RunTrigger::Continue;
        record.status = RunStatus::SuspendedClientTool;
        record.output = Some(json!(text(3)));
        let input = json!({ "input": text(4) });
        let pending =
            PendingCall::client(session.clone(), record.id.clone(), id("c"), "t", input, NOW);
        let [mut reply, _] = step(&session, 1);
        for (_, change) in &mut reply.changes {
            if let Change::OpenStep(Some(open)) = change {
                let open = Arc::make_mut(open);
                open.message.metadata.insert("m".to_owned(), json!(text(5)));
            }
        }
        let open_step = reply.changes.iter().find_map(|(_, change)| match change {
            Change::OpenStep(step) => step.clone(),
            _ => None,
        });
        let commit = reply
            .then(Change::SetState(Arc::new(state.clone())))
            .then(Change::StartRun(Box::new(record.clone())))
            .then(Change::Pending(Box::new(pending.clone())))
            .then(Change::Set(Field::Output(Some(json!(text(6))))))
            .then(append_user(&text(7)))
            .say(delta(&session, &text(8)));
        store.commit(commit).await.unwrap();

        let snapshot = store.load(session.as_root()).await.unwrap().unwrap();
        assert_eq!(*snapshot.state.custom_state, state);
        assert_eq!(snapshot.run, Some(record));
        assert_eq!(snapshot.open_step, open_step.map(Arc::unwrap_or_clone));
        assert_eq!(snapshot.state.pending_client_tool_calls["c"], pending);
        assert_eq!(snapshot.state.output, Some(json!(text(6))));
        let messages = store
            .messages(session.as_root(), Page::ALL)
            .await
            .unwrap()
            .items;
        assert_eq!(messages, [Message::User(UserMessage::new(text(7)))]);
        let chunks = StreamManager::read(&store, &session, Sequence::START, 9)
            .await
            .unwrap();
        assert_eq!(chunks[0].chunk, delta(&session, &text(8)));
        assert_eq!(
            count(&path, BLOBS),
            9,
            "eight texts, and the rest of the state"
        );

        // Replacing or deleting a value releases its parts.
        let commit = on("s")
            .then(Change::OpenStep(None))
            .then(Change::RemovePending(id("c")))
            .then(Change::Set(Field::Output(None)))
            .then(Change::Truncate(0))
            .then(Change::Run(Box::new(run(&session))));
        store.commit(commit).await.unwrap();
        store.trim(&session, Sequence(1)).await.unwrap();
        assert_eq!(count(&path, BLOBS), 3, "of the state");
        store.commit(on("s").then(Change::Delete)).await.unwrap();
        assert_eq!(count(&path, BLOBS), 0);
    });
}
