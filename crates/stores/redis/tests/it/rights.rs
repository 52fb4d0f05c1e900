//! Users of the server who may not do everything.

use std::sync::Arc;

use helix_agents_core::SessionId;
use helix_agents_core::memory::MemoryStore;
use helix_agents_core::message::UserMessage;
use helix_agents_core::store::{Change, Commit, NewSession, Page, SessionStore, Sessions};
use helix_agents_core::stream::{Relayed, StreamManager, StreamStatus};
use helix_agents_core::time::Timestamp;
use helix_agents_store_redis::{Error, RedisConfig, RedisStore, RedisStreams};
use helix_agents_test_servers::{RedisServer, RedisSettings};
use helix_agents_testkit::VirtualClock;

use crate::stores::{block_on, command, open, private, quick};

const NOW: Timestamp = Timestamp::from_millis(1_700_000_000_000);

/// The address with a user who has these rights.
async fn user(server: &RedisServer, rights: &[&str]) -> String {
    let mut words = vec!["ACL", "SETUSER", "app", "on", ">word"];
    words.extend(rights);
    command(&server.url(), &words).await;
    server.url().replace("redis://", "redis://app:word@")
}

async fn created(store: &RedisStore) -> SessionId {
    let clock = VirtualClock::new(NOW);
    let id = SessionId::new("order").unwrap();
    let new = NewSession::of("helper");
    let sessions = Sessions::new(store, &clock);
    sessions.create_session(&id, new).await.unwrap();
    id
}

/// A user without channels, as new users are unless they are given some: commits are made and acknowledged, and
/// those who wait look by themselves.
#[test]
fn a_user_without_channels_writes_and_waits() {
    let Some(server) = private(RedisSettings::quick()) else {
        return;
    };
    block_on(async {
        let url = user(&server, &["~*", "+@all"]).await;
        let here = open(&url, quick("silent")).await;
        let there = open(&url, quick("silent")).await;
        let id = created(&here).await;
        let known = there.info(&id).await.unwrap();
        let wait = there.changed(&id, known);
        let said = Commit::new(id.clone(), NOW)
            .then(Change::AppendUser(UserMessage::new("hello")))
            .stream(StreamStatus::Active);
        let (waited, made) = futures_util::future::join(wait, here.commit(said)).await;
        waited.unwrap();
        made.unwrap();
        let found = there.messages(id.as_root(), Page::ALL).await.unwrap();
        assert_eq!(found.items.len(), 1);
    });
}

/// A user who lacks a command is refused when the store is opened: it would end a commit in its middle.
#[test]
fn a_user_who_lacks_a_command_is_refused() {
    let Some(server) = private(RedisSettings::quick()) else {
        return;
    };
    block_on(async {
        for (missing, named) in [
            ("-@keyspace", "UNLINK"),
            ("-xadd", "XADD"),
            ("-zinter", "ZINTER"),
        ] {
            let url = user(&server, &["reset"]).await;
            let rights = ["on", ">word", "~*", "&*", "+@all", missing];
            assert_eq!(url, user(&server, &rights).await);
            match RedisStore::open_with(&url, quick("lacking")).await {
                Err(error @ Error::NotPermitted { .. }) => {
                    assert!(error.to_string().contains(named), "{error}");
                }
                other => panic!("{missing}: {other:?}"),
            }
        }
    });
}

/// A user without the dangerous commands, as applications often are: the store is opened on trust, and only so.
#[test]
fn a_user_without_dangerous_commands_is_opened_on_trust() {
    let Some(server) = private(RedisSettings::quick()) else {
        return;
    };
    block_on(async {
        let url = user(&server, &["~*", "&*", "+@all", "-@dangerous"]).await;
        match RedisStore::open_with(&url, RedisConfig::new()).await {
            Err(Error::SettingsHidden { .. }) => {}
            other => panic!("{other:?}"),
        }
        let store = open(&url, quick("trusted").trust_server()).await;
        created(&store).await;
    });
}

/// What relays write needs no other commands than those that are looked at when streams are opened.
#[test]
fn streams_need_no_commands_that_are_not_checked() {
    let Some(server) = private(RedisSettings::quick()) else {
        return;
    };
    block_on(async {
        let rights = ["~*", "&*", "+@all", "-del", "-pexpire"];
        let url = user(&server, &rights).await;
        let streams = RedisStreams::open_with(&url, quick("relays")).await;
        let streams = streams.unwrap();
        let store = Arc::new(MemoryStore::new().with_outbox());
        let process = Relayed::new(store.clone(), store, Arc::new(streams.clone()));
        let clock = VirtualClock::new(NOW);
        let id = SessionId::new("order").unwrap();
        let sessions = Sessions::new(&process, &clock);
        let new = NewSession::of("helper");
        sessions.create_session(&id, new).await.unwrap();
        let said = Commit::new(id.clone(), NOW).stream(StreamStatus::Paused);
        process.commit(said).await.unwrap();
        let said = streams.info(&id).await.unwrap();
        assert_eq!(said.map(|info| info.status), Some(StreamStatus::Paused));
        let delete = Commit::new(id.clone(), NOW).then(Change::Delete);
        process.commit(delete).await.unwrap();
        assert_eq!(streams.info(&id).await.unwrap(), None);
    });
}
