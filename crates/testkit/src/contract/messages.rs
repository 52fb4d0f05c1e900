//! Messages: appended in whole steps, each at its position.

use std::sync::Arc;

use helix_agents_core::message::{AssistantPart, Message, Thinking};
use helix_agents_core::store::{Change, NewCheckpoint, Page, SessionQuery, StoreError};
use helix_agents_core::stored::encode;
use helix_agents_core::time::Clock;

use super::Subject;
use super::builders::{
    accepted, call, calling, changed, checkpoint, commit, created, paired, result, run, session,
    step_of, user_message,
};

/// A user message and three steps of one, two and no calls: 1, 2, 3 and 1 messages.
fn history() -> Vec<Message> {
    let mut messages = vec![user_message("question")];
    messages.extend(step_of(&["c-1"]));
    messages.extend(step_of(&["c-2", "c-3"]));
    messages.extend(step_of(&[]));
    messages
}

/// Messages are appended at the end, counted, and read in their order.
///
/// proves: STO-05, SES-01
pub async fn messages_are_kept_in_order(on: &Subject) {
    let id = created(on, "s").await;
    let wanted = history();
    for (at, part) in [&wanted[..1], &wanted[1..6], &wanted[6..]]
        .into_iter()
        .enumerate()
    {
        let committed = on
            .sessions()
            .append_messages(&id, part, None)
            .await
            .unwrap();
        assert_eq!(committed.message_count, [1, 6, 7][at]);
    }
    let found = on
        .elsewhere()
        .store
        .messages(id.as_root(), Page::ALL)
        .await
        .unwrap();
    assert_eq!(
        (found.items, found.total, found.has_more),
        (wanted, 7, false)
    );
    assert_eq!(on.sessions().get_message_count(&id).await.unwrap(), 7);
    let other = created(on, "t").await;
    assert_eq!(on.sessions().get_message_count(&other).await.unwrap(), 0);
}

/// Every page of every size is the corresponding part of the whole history.
///
/// proves: STO-05
pub async fn pages_of_messages_are_parts_of_the_whole(on: &Subject) {
    let id = created(on, "s").await;
    let all = history();
    on.sessions()
        .append_messages(&id, &all, None)
        .await
        .unwrap();
    for offset in 0..=all.len() + 1 {
        for limit in 0..=all.len() + 1 {
            let page = Page::new(offset, limit);
            let found = on.store.messages(id.as_root(), page).await.unwrap();
            let wanted: Vec<_> = all.iter().skip(offset).take(limit).cloned().collect();
            assert_eq!(
                found.has_more,
                offset + wanted.len() < all.len(),
                "{page:?}"
            );
            assert_eq!((found.items, found.total), (wanted, all.len()), "{page:?}");
        }
    }
}

/// A page ends at its limit of bytes, after at least one message, and reading page after page gives
/// all messages.
pub async fn pages_of_messages_end_with_their_bytes(on: &Subject) {
    let id = created(on, "s").await;
    let mut all = vec![
        user_message(&"a".repeat(1000)),
        user_message(&"b".repeat(1000)),
    ];
    all.extend(step_of(&["c-1", "c-2"]));
    all.push(user_message(&"c".repeat(5000)));
    all.push(user_message("d"));
    on.sessions()
        .append_messages(&id, &all, None)
        .await
        .unwrap();
    let page = async |offset, bytes| {
        let page = Page::new(offset, usize::MAX).within(bytes);
        let found = on.elsewhere().store.messages(id.as_root(), page).await;
        found.unwrap()
    };
    let whole = page(0, usize::MAX).await;
    assert_eq!((whole.items, whole.has_more), (all.clone(), false));
    assert_eq!(page(0, 1500).await.items, all[..1]);
    assert_eq!(page(0, 2500).await.items[..2], all[..2]);
    // A limit below one message gives one message.
    for bytes in [0, 1, 700, 1500, 3000] {
        let mut got = Vec::new();
        while got.len() < all.len() {
            let found = page(got.len(), bytes).await;
            assert!(
                !found.items.is_empty(),
                "after {} of {bytes} bytes",
                got.len()
            );
            got.extend(found.items);
            assert_eq!(found.total, all.len());
            assert_eq!(found.has_more, got.len() < all.len());
        }
        assert_eq!(got, all, "{bytes}");
    }
}

/// A page of sessions ends at its limit of bytes.
pub async fn pages_of_sessions_end_with_their_bytes(on: &Subject) {
    for name in ["s", "t", "u"] {
        created(on, name).await;
    }
    let list = async |offset, bytes| {
        let page = Page::new(offset, 10).within(bytes);
        let query = SessionQuery {
            page,
            ..SessionQuery::default()
        };
        let found = on.store.list(&query).await.unwrap();
        (found.items.len(), found.total, found.has_more)
    };
    assert_eq!(list(0, 1).await, (1, 3, true));
    assert_eq!(list(2, 1).await, (1, 3, false));
    assert_eq!(list(0, usize::MAX).await, (3, 3, false));
}

/// Messages are not capped as lists of sessions are, and thinking can be left out.
pub async fn many_messages_are_read_at_once(on: &Subject) {
    let id = created(on, "s").await;
    let mut wanted = Vec::new();
    for turn in 0..50 {
        let mut part = vec![user_message(&format!("question {turn}"))];
        for step in 0..3 {
            part.extend(step_of(&[&format!("c-{turn}-{step}")]));
        }
        on.sessions()
            .append_messages(&id, &part, None)
            .await
            .unwrap();
        wanted.extend(part);
    }
    let mut last = calling(&[]);
    Arc::make_mut(&mut last.parts)
        .push(AssistantPart::Thinking(Thinking::new("hm").signed("by me")));
    Arc::make_mut(&mut last.parts).push(AssistantPart::text("done"));
    wanted.push(Message::Assistant(last));
    on.sessions()
        .append_messages(&id, &wanted[350..], None)
        .await
        .unwrap();
    let found = on.store.messages(id.as_root(), Page::ALL).await.unwrap();
    assert_eq!((found.items.len(), found.items == wanted), (351, true));
    let found = on
        .sessions()
        .get_messages(&id, Page::new(350, 1), false)
        .await
        .unwrap();
    let Some(Message::Assistant(shown)) = found.items.first() else {
        panic!("the last message is the model's: {found:?}");
    };
    assert_eq!((shown.parts.len(), found.total), (1, 351));
}

/// A call without its result and a result without its call are refused.
///
/// proves: STO-05
pub async fn messages_without_whole_steps_are_refused(on: &Subject) {
    let id = created(on, "s").await;
    let unpaired = [
        vec![Message::Assistant(calling(&["c-1"]))],
        vec![user_message("a"), Message::Tool(result("c-1"))],
        vec![
            Message::Assistant(calling(&["c-1", "c-2"])),
            Message::Tool(result("c-2")),
        ],
        vec![
            Message::Assistant(calling(&["c-1"])),
            user_message("b"),
            Message::Tool(result("c-1")),
        ],
        vec![
            Message::Assistant(calling(&["c-1"])),
            Message::Tool(result("c-9")),
        ],
    ];
    for messages in unpaired {
        let refusal = on.sessions().append_messages(&id, &messages, None).await;
        assert!(
            matches!(refusal, Err(StoreError::Invalid { .. })),
            "{messages:?} gives {refusal:?}"
        );
    }
    let found = on.store.load(id.as_root()).await.unwrap().unwrap();
    assert_eq!((found.message_count, found.state.version), (0, 1));
    let nobody = on
        .sessions()
        .append_messages(&session("t"), &[user_message("a")], None)
        .await;
    assert!(
        matches!(nobody, Err(StoreError::NotFound { .. })),
        "{nobody:?}"
    );
}

/// Exactly one of the appends at one position wins, and the others are stale.
///
/// proves: STO-05
pub async fn exactly_one_of_the_appends_at_one_position_wins(on: &Subject) {
    const WRITERS: usize = 8;
    let id = created(on, "s").await;
    for round in 0..5 {
        let outcomes = on.at_once(WRITERS, async |on, index| {
            let message = user_message(&format!("{round} by {index}"));
            on.sessions()
                .append_messages(&id, &[message], Some(round))
                .await
        });
        let won = outcomes.iter().filter(|outcome| outcome.is_ok()).count();
        assert_eq!(won, 1, "one append per place: {outcomes:?}");
        for lost in outcomes.into_iter().filter_map(Result::err) {
            assert!(matches!(lost, StoreError::Refused { .. }), "{lost:?}");
        }
    }
    assert_eq!(on.sessions().get_message_count(&id).await.unwrap(), 5);
    let found = on.store.messages(id.as_root(), Page::ALL).await.unwrap();
    for (round, message) in found.items.iter().enumerate() {
        let Message::User(said) = message else {
            panic!("only users spoke: {message:?}");
        };
        assert!(
            said.content.starts_with(&format!("{round} by ")),
            "{said:?}"
        );
    }
}

/// A cut inside a step is rounded down, so that no step is split.
///
/// proves: STO-05
pub async fn a_cut_is_rounded_down_to_whole_steps(on: &Subject) {
    let all = history();
    // user | c-1 call, result | c-2 and c-3 calls, two results | text
    let kept = [0, 1, 1, 3, 3, 3, 6, 7, 7];
    for (count, keep) in kept.into_iter().enumerate() {
        let id = created(on, &format!("s-{count}")).await;
        on.sessions()
            .append_messages(&id, &all, None)
            .await
            .unwrap();
        let committed = on.sessions().truncate_messages(&id, count).await.unwrap();
        assert_eq!(committed.message_count, keep, "cut to {count}");
        let found = on.store.messages(id.as_root(), Page::ALL).await.unwrap();
        assert_eq!((&found.items[..], found.total), (&all[..keep], keep));
        // What is appended then goes right behind.
        let after = on
            .sessions()
            .append_messages(&id, &[user_message("on")], Some(keep))
            .await;
        assert_eq!(after.unwrap().message_count, keep + 1);
    }
}

/// A cut and the append that follows it are one commit.
pub async fn a_cut_and_an_append_are_one_change(on: &Subject) {
    let id = created(on, "s").await;
    on.sessions()
        .append_messages(&id, &history(), None)
        .await
        .unwrap();
    let again = commit(on, &id)
        .then(Change::Truncate(3))
        .then(Change::AppendStep(paired(&["c-4"])));
    let receipt = accepted(on, again).await;
    assert_eq!(receipt.sessions[&id].message_count, 5);
    let mut wanted = history()[..3].to_vec();
    wanted.extend(step_of(&["c-4"]));
    assert_eq!(
        on.store
            .messages(id.as_root(), Page::ALL)
            .await
            .unwrap()
            .items,
        wanted
    );
}

/// Call ids are never used twice in a session, so those of cut messages are remembered.
pub async fn call_ids_of_cut_messages_stay_used(on: &Subject) {
    let id = created(on, "s").await;
    on.sessions()
        .append_messages(&id, &history(), None)
        .await
        .unwrap();
    assert!(
        on.store
            .extras(id.as_root())
            .await
            .unwrap()
            .retired_call_ids
            .is_empty()
    );
    on.sessions().truncate_messages(&id, 3).await.unwrap();
    let extra = Change::RetireCallIds(vec![call("c-9"), call("c-9")]);
    changed(on, &id, extra).await;
    let mut retired = on
        .store
        .extras(id.as_root())
        .await
        .unwrap()
        .retired_call_ids;
    retired.sort();
    assert_eq!(retired, ["c-2", "c-3", "c-9"].map(call));
    let mut transcript = on.sessions().transcript(&id).await.unwrap();
    assert_eq!(transcript.len(), 3);
    for used in ["c-1", "c-2", "c-9"] {
        assert!(
            transcript.push_step(paired(&[used])).is_err(),
            "{used} was used"
        );
    }
    assert!(transcript.push_step(paired(&["c-4"])).is_ok());
}

/// Messages are stored once: neither a checkpoint nor a run copies them.
///
/// proves in part: SES-09
pub async fn a_checkpoint_names_messages_and_copies_none(on: &Subject) {
    let id = created(on, "s").await;
    let mut count = 0;
    for turn in 0..4_u32 {
        let said = [user_message(&"x".repeat(10_000))];
        count = on
            .sessions()
            .append_messages(&id, &said, None)
            .await
            .unwrap()
            .message_count;
        let new = NewCheckpoint::new(checkpoint(&format!("cp-{turn}")), run("run"));
        let made = on.sessions().create_checkpoint(&id, new).await.unwrap();
        assert_eq!(
            (made.message_count, made.timestamp),
            (count, on.clock.now())
        );
        let stored = encode(&made).unwrap();
        assert!(
            stored.len() < 500,
            "a checkpoint is small whatever was said: {stored}"
        );
    }
    assert_eq!(
        on.store
            .messages(id.as_root(), Page::ALL)
            .await
            .unwrap()
            .total,
        count
    );
}
