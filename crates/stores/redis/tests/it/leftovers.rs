//! What stays of sessions that were deleted.

use helix_agents_core::SessionId;
use helix_agents_core::message::UserMessage;
use helix_agents_core::store::{Change, Commit, NewSession, SessionStore, Sessions};
use helix_agents_core::stream::StreamStatus;
use helix_agents_core::time::Timestamp;
use helix_agents_test_servers::RedisSettings;
use helix_agents_testkit::VirtualClock;

use crate::stores::{block_on, list, open, private, quick};

/// A server would fill up with what deleted sessions leave: nothing stays but what the shards have once.
///
/// proves in part: SES-13
#[test]
fn deleted_sessions_leave_nothing() {
    let Some(server) = private(RedisSettings::quick()) else {
        return;
    };
    block_on(async {
        let config = quick("left").shards(16).keep_all_deltas();
        let store = open(&server.url(), config).await;
        let now = Timestamp::from_millis(1_700_000_000_000);
        let clock = VirtualClock::new(now);
        let sessions = Sessions::new(&store, &clock);
        for round in 0..3 {
            let root = SessionId::new("order").unwrap();
            let mut new = NewSession::of("helper");
            new.tags = vec!["tagged".to_owned()];
            sessions.create_session(&root, new).await.unwrap();
            // With so many, some are in other shards than their root.
            for number in 0..6 {
                let child = SessionId::new(format!("child-{number}")).unwrap();
                let mut new = NewSession::of("helper");
                new.family = Some((root.clone(), root.clone()));
                sessions.create_session(&child, new).await.unwrap();
                if round == 1 {
                    assert!(sessions.delete_session(&child).await.unwrap());
                    assert_eq!(store.root_of(&child).await.unwrap(), None);
                }
            }
            let said = Commit::new(root.clone(), now)
                .then(Change::AppendUser(UserMessage::new("hello")))
                .stream(StreamStatus::Ended);
            store.commit(said).await.unwrap();
            assert!(list(&server.url(), &["KEYS", "*"]).await.len() > 10);
            assert!(sessions.delete_session(&root).await.unwrap());
            let mut left = list(&server.url(), &["KEYS", "*"]).await;
            left.retain(|key| !key.ends_with("}:meta") && !key.ends_with("}:q:agents"));
            assert_eq!(left, ["{left:00}:layout"]);
        }
    });
}
