//! Stored messages as UI messages: all of them, the latest, or a page.

use helix_agents_core::memory::MemoryStore;
use helix_agents_core::message::{AssistantMessage, AssistantPart, Message, ToolCall, UserMessage};
use helix_agents_core::step::{ToolResultInput, create_tool_result_message};
use helix_agents_core::store::{NewSession, Sessions};
use helix_agents_core::time::Timestamp;
use helix_agents_testkit::{VirtualClock, block_on};
use helix_agents_wire::{ConvertOptions, UiMessage, UiMessageStore};
use serde_json::json;

use crate::kit::{call, session};

/// A turn with a call and its result: four messages.
fn turn(number: usize) -> [Message; 4] {
    let id = format!("c{number}");
    let calls = AssistantPart::ToolCall(ToolCall::new(call(&id), "look", json!({})));
    let result = create_tool_result_message(ToolResultInput {
        tool_call_id: call(&id),
        tool_name: "look".into(),
        result: Ok(json!(number)),
    });
    [
        Message::User(UserMessage::new(format!("Question {number}"))),
        Message::Assistant(AssistantMessage::new(vec![calls])),
        Message::Tool(result),
        Message::Assistant(AssistantMessage::text(format!("Answer {number}"))),
    ]
}

/// All messages at once, the latest turns, and pages of whole turns show the same messages with the same ids; on no page
/// a call is without its result. More messages than are read at once.
///
/// proves: TRN-05
#[test]
fn a_history_is_the_same_whole_and_in_pages() {
    const TURNS: usize = 150;
    let store = MemoryStore::new();
    let clock = VirtualClock::new(Timestamp::from_millis(1));
    let sessions = Sessions::new(&store, &clock);
    let id = session("root");
    block_on(async {
        sessions
            .create_session(&id, NewSession::of("agent"))
            .await
            .unwrap();
        let messages: Vec<_> = (0..TURNS).flat_map(turn).collect();
        sessions
            .append_messages(&id, &messages, None)
            .await
            .unwrap();

        let reader = UiMessageStore::new(&store, ConvertOptions::new("agent"));
        let key = id.as_root();
        let all = reader.all(key, 4 * TURNS).await.unwrap();
        assert_eq!(all.len(), 2 * TURNS);
        let is_open = |one: &UiMessage| {
            serde_json::to_string(one)
                .unwrap()
                .contains("input-available")
        };
        for limit in [1, 7, TURNS, 2 * TURNS] {
            let mut paged = Vec::new();
            let mut offset = 0;
            loop {
                let page = reader.page(key, 4 * TURNS, (offset, limit)).await.unwrap();
                assert_eq!(page.total, TURNS);
                assert_eq!(page.messages.len(), 2 * limit.min(TURNS - offset));
                assert!(!page.messages.iter().any(is_open));
                paged.extend(page.messages);
                offset += limit;
                if !page.has_more {
                    break;
                }
            }
            assert_eq!(paged, all);
        }
        let (latest, has_more) = reader.latest(key, 4 * TURNS, usize::MAX).await.unwrap();
        assert_eq!((latest, has_more), (all.clone(), false));
        let (latest, has_more) = reader.latest(key, 4 * TURNS, 1).await.unwrap();
        assert_eq!((&latest[..], has_more), (&all[all.len() - 2..], true));
        // A bubble in flight is left out by its place.
        let (before, _) = reader.latest(key, 4 * TURNS - 3, usize::MAX).await.unwrap();
        assert_eq!(before[..], all[..all.len() - 1]);
    });
}
