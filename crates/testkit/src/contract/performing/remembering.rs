//! A host that remembers what its effects read and wrote still sees the writes of others.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use helix_agents_core::message::Message;
use helix_agents_core::session::RunStatus;
use helix_agents_core::store::Change;
use serde_json::json;

use super::super::Subject;
use super::super::builders::{changed, sets, user_message};
use super::super::runtime::agents::{Log, calling, noted, of_model, tool};
use super::faulty_store::{CommitFate, FaultyStore};
use super::run_driver::{RunDriver, session_id};
use crate::{MockModel, MockReply};

/// A message and a state change are committed during a call: the model is shown both in its next
/// request.
pub async fn writes_of_others_are_shown_to_the_model(on: &Subject) {
    let model = Arc::new(MockModel::replies([
        calling([("c1", "note")]),
        calling([("c2", "set")]),
        MockReply::text("done"),
    ]));
    let appends = {
        let on = on.clone();
        tool("note", move |_, _| {
            let on = on.clone();
            async move {
                let more = [user_message("by the way")];
                let sessions = on.sessions();
                sessions
                    .append_messages(&session_id(), &more, None)
                    .await
                    .unwrap();
                Ok(json!("noted"))
            }
        })
    };
    let sets = {
        let on = on.clone();
        tool("set", move |_, _| {
            let on = on.clone();
            async move {
                changed(&on, &session_id(), Change::WriteState(sets("mood", "calm"))).await;
                Ok(json!("set"))
            }
        })
    };
    let agent = of_model(&model)
        .tools(appends)
        .tools(sets)
        .initial_state(json!({ "mood": "tense" }))
        .build()
        .unwrap();
    let mut driver = RunDriver::new(on, agent).await;
    driver.ports = driver.ports.clone().remembering();
    driver.drive().await;
    assert_eq!(driver.run().await.status, RunStatus::Completed);
    let seen = model.seen();
    assert!(
        seen[1].messages.contains(&user_message("by the way")),
        "the model reads the message"
    );
    assert_eq!(seen[2].state, json!({ "mood": "calm" }));
    let history = driver.messages().await;
    let roles: Vec<_> = history.iter().map(role).collect();
    assert_eq!(seen[2].messages, history[..history.len() - 1]);
    assert_eq!(
        roles,
        [
            "user",
            "user",
            "assistant",
            "tool",
            "assistant",
            "tool",
            "assistant"
        ]
    );
}

/// Another process cuts the history during a call and appends as many messages as were cut: the
/// model is shown the new messages, not the old ones.
pub async fn a_message_that_was_replaced_meanwhile_is_shown_to_the_model(on: &Subject) {
    let model = Arc::new(MockModel::replies([
        calling([("c1", "edit")]),
        MockReply::text("done"),
    ]));
    let edits = {
        let on = on.clone();
        tool("edit", move |_, _| {
            let on = on.clone();
            async move {
                let sessions = on.sessions();
                sessions.truncate_messages(&session_id(), 0).await.unwrap();
                let instead = [user_message("stop")];
                sessions
                    .append_messages(&session_id(), &instead, Some(0))
                    .await
                    .unwrap();
                Ok(json!("edited"))
            }
        })
    };
    let agent = of_model(&model).tools(edits).build().unwrap();
    let mut driver = RunDriver::new(on, agent).await;
    driver.ports = driver.ports.clone().remembering();
    driver.drive().await;
    let history = driver.messages().await;
    assert_eq!(history[0], user_message("stop"));
    let seen = model.seen();
    assert_eq!(seen[1].messages, history[..history.len() - 1]);
}

fn role(message: &Message) -> &'static str {
    match message {
        Message::User(_) => "user",
        Message::Assistant(_) => "assistant",
        _ => "tool",
    }
}

/// After a commit fails or its acknowledgement is lost, remembered values are no longer used.
pub async fn the_memory_of_a_host_does_not_outlive_a_failed_commit(on: &Subject) {
    let faults: [fn() -> CommitFate; 3] = [
        || CommitFate::Failed,
        || CommitFate::Unacknowledged,
        || CommitFate::Full,
    ];
    for fails in faults {
        let log = Log::default();
        let model = Arc::new(MockModel::replies([
            calling([("c1", "note"), ("c2", "note")]),
            calling([("c3", "note")]),
            MockReply::text("done"),
        ]));
        let agent = of_model(&model).tools(noted("note", &log)).build().unwrap();
        let again = AtomicBool::new(false);
        let store = FaultyStore::new(on, move |_| {
            // Every other commit.
            match again.fetch_xor(true, Ordering::SeqCst) {
                false => fails(),
                true => CommitFate::Made,
            }
        });
        let mut driver = RunDriver::on(store, on, agent, Vec::new()).await;
        driver.ports = driver.ports.clone().remembering();
        driver.drive().await;
        assert_eq!(driver.run().await.status, RunStatus::Completed);
        assert_eq!(log.take(), ["note c1 {}", "note c2 {}", "note c3 {}"]);
        assert_eq!(model.seen().len(), 3, "no reply is bought twice");
        assert_eq!(driver.messages().await.len(), 7);
        on.sessions().delete_session(&session_id()).await.unwrap();
    }
}
