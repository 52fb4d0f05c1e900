//! What opening a store refuses.

use std::net::TcpListener;
use std::time::{Duration, Instant};

use helix_agents_core::SessionId;
use helix_agents_core::store::{NewSession, SessionStore, Sessions};
use helix_agents_core::time::Timestamp;
use helix_agents_store_redis::{Durability, Error, RedisConfig, RedisStore};
use helix_agents_test_servers::{REDIS_CLUSTER, RedisSettings, shared};
use helix_agents_testkit::VirtualClock;

use crate::stores::{block_on, command, open, prefix, private, quick};

async fn refused(url: &str, config: RedisConfig) -> Error {
    match RedisStore::open_with(url, config).await {
        Err(error) => error,
        Ok(store) => panic!("{store:?} must be refused"),
    }
}

#[test]
fn a_server_that_cannot_be_reached_is_named_within_five_seconds() {
    // Nobody listens there, or somebody who never answers.
    let silent = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let closed = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let ports = [&silent, &closed].map(|one| one.local_addr().unwrap().port());
    drop(closed);
    for port in ports {
        let begun = Instant::now();
        let url = format!("redis://me:secret@127.0.0.1:{port}");
        let error = block_on(refused(&url, RedisConfig::new()));
        assert!(begun.elapsed() < Duration::from_secs(5), "{error:?}");
        assert!(matches!(error, Error::Unreachable { .. }), "{error:?}");
        let said = error.to_string();
        assert!(said.contains(&port.to_string()), "{said}");
        let all = format!("{error:?} {said}");
        assert!(!all.contains("secret"), "{all}");
    }
}

#[test]
fn addresses_and_prefixes_are_checked() {
    for (url, wanted) in [
        ("http://a", "http://a"),
        ("nothing", "nothing"),
        ("redis://a:b:c@d:x", "***"),
        ("me:secret@host:6379", "***@host:6379"),
        ("redis://me:secret,word@host:x", "***@host:x"),
        ("redis://a:1,redis://me:secret@host:x", "***@host:x"),
        ("unix:/no.sock?user=me&pass=secret&db=x", "unix:///no.sock"),
    ] {
        let error = block_on(refused(url, RedisConfig::new()));
        assert!(matches!(error, Error::BadUrl { .. }), "{error:?}");
        assert!(error.to_string().contains(wanted), "{error}");
        assert!(
            !format!("{error:?} {error}").contains("secret"),
            "{error:?}"
        );
    }
    let error = block_on(refused("redis://a", RedisConfig::new().prefix("a{b}")));
    assert!(matches!(error, Error::BadPrefix { .. }), "{error:?}");
}

#[test]
fn a_server_that_evicts_is_refused() {
    let Some(server) = private(RedisSettings::quick().set("maxmemory-policy", "allkeys-lru"))
    else {
        return;
    };
    for policy in ["allkeys-lru", "volatile-ttl"] {
        block_on(command(
            &server.url(),
            &["CONFIG", "SET", "maxmemory-policy", policy],
        ));
        let error = block_on(refused(&server.url(), quick("evicts")));
        assert!(matches!(error, Error::Evicts { .. }), "{error:?}");
        assert!(
            error
                .to_string()
                .contains("set `maxmemory-policy noeviction`"),
            "{error}"
        );
    }
}

#[test]
fn a_server_that_promises_less_is_refused() {
    let Some(server) = private(RedisSettings::quick()) else {
        return;
    };
    let url = server.url();
    let with = |durability| RedisConfig::new().durability(durability);
    block_on(async {
        let all = [
            Durability::Memory,
            Durability::EverySecond,
            Durability::Always,
        ];
        for (promised, (appendonly, appendfsync)) in
            [("no", "always"), ("yes", "everysec"), ("yes", "always")]
                .into_iter()
                .enumerate()
        {
            command(&url, &["CONFIG", "SET", "appendonly", appendonly]).await;
            command(&url, &["CONFIG", "SET", "appendfsync", appendfsync]).await;
            for (wanted, durability) in all.into_iter().enumerate() {
                if wanted <= promised {
                    open(&url, with(durability)).await;
                } else {
                    let error = refused(&url, with(durability)).await;
                    assert!(matches!(error, Error::LessDurable { .. }), "{error:?}");
                }
            }
        }
    });
}

#[test]
fn a_server_that_hides_its_settings_is_opened_on_trust() {
    let Some(server) = private(RedisSettings::quick()) else {
        return;
    };
    block_on(async {
        let rights = [
            "ACL", "SETUSER", "app", "on", ">word", "~*", "&*", "+@all", "-config",
        ];
        command(&server.url(), &rights).await;
        let url = server.url().replace("redis://", "redis://app:word@");
        let error = refused(&url, RedisConfig::new()).await;
        assert!(matches!(error, Error::SettingsHidden { .. }), "{error:?}");
        let store = open(&url, RedisConfig::new().trust_server()).await;
        assert_eq!(store.list(&Default::default()).await.unwrap().total, 0);
    });
}

#[test]
fn another_number_of_shards_is_refused() {
    let Some(server) = private(RedisSettings::quick()) else {
        return;
    };
    block_on(async {
        open(&server.url(), quick("one").shards(8)).await;
        let error = refused(&server.url(), quick("one").shards(16)).await;
        assert!(matches!(error, Error::OtherLayout { .. }), "{error:?}");
        assert!(error.to_string().contains("1/8"), "{error}");
        open(&server.url(), quick("two").shards(16)).await;
    });
}

/// A server that is spoken to in the newer protocol answers in other forms.
#[test]
fn a_server_is_opened_with_the_newer_protocol() {
    let Some(server) = private(RedisSettings::quick()) else {
        return;
    };
    block_on(async {
        let url = format!("{}?protocol=resp3", server.url());
        let error = refused(&url, RedisConfig::new()).await;
        assert!(matches!(error, Error::LessDurable { .. }), "{error:?}");
        let store = open(&url, quick("newer")).await;
        let id = SessionId::new("order").unwrap();
        let clock = VirtualClock::new(Timestamp::from_millis(1_700_000_000_000));
        let sessions = Sessions::new(&store, &clock);
        sessions
            .create_session(&id, NewSession::of("helper"))
            .await
            .unwrap();
        assert!(store.load(id.as_root()).await.unwrap().is_some());
        assert_eq!(store.list(&Default::default()).await.unwrap().total, 1);
    });
}

/// A node that was named and has left its cluster says nothing about it: another one is asked.
#[test]
fn a_node_that_knows_no_cluster_is_passed_over() {
    let Some(cluster) = shared(REDIS_CLUSTER) else {
        return;
    };
    let free = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let bus = free.local_addr().unwrap().port().to_string();
    drop(free);
    let alone = RedisSettings::quick().set("cluster-enabled", "yes");
    let Some(alone) = private(alone.set("cluster-port", &bus)) else {
        return;
    };
    block_on(async {
        let url = format!("{},{cluster}", alone.url());
        let store = open(&url, quick(&prefix())).await;
        assert_eq!(store.list(&Default::default()).await.unwrap().total, 0);
    });
}
