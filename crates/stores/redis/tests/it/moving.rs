//! Clusters that move a part of the keys from one node to another while it is used.

use helix_agents_core::SessionId;
use helix_agents_core::id::RunId;
use helix_agents_core::message::{Message, UserMessage};
use helix_agents_core::session::{RunRecord, RunTrigger};
use helix_agents_core::store::{
    Change, Commit, NewSession, Page, SessionStore, Sessions, StoreError,
};
use helix_agents_core::time::Timestamp;
use helix_agents_store_redis::RedisStore;
use helix_agents_test_servers::{REDIS, RedisCluster, RedisSettings, shared};
use helix_agents_testkit::VirtualClock;

use crate::stores::{block_on, command, integer, list, open, quick};

const NOW: Timestamp = Timestamp::from_millis(1_700_000_000_000);
const ALL_KEYS: &str = "100000";

fn says(id: &SessionId, text: &str) -> Commit {
    Commit::new(id.clone(), NOW).then(Change::AppendUser(UserMessage::new(text)))
}

async fn texts(store: &RedisStore, id: &SessionId) -> Vec<String> {
    let all = store.messages(id.as_root(), Page::ALL).await.unwrap();
    let text = |message: Message| match message {
        Message::User(message) => message.content,
        other => panic!("nobody wrote {other:?}"),
    };
    all.items.into_iter().map(text).collect()
}

/// The nodes of a cluster of which one gives the only part of a store to another.
struct Move {
    slot: String,
    from: String,
    to: String,
    others: Vec<String>,
    /// The names by which the cluster knows the two.
    names: [String; 2],
}

impl Move {
    async fn of(cluster: &mut RedisCluster, prefix: &str) -> Self {
        let tag = format!("{{{prefix}:00}}");
        let urls: Vec<String> = cluster.nodes().iter().map(|node| node.url()).collect();
        let slot = integer(urls.first().unwrap(), &["CLUSTER", "KEYSLOT", &tag]).await;
        let mut owner = None;
        for (at, url) in urls.iter().enumerate() {
            let keys = ["CLUSTER", "COUNTKEYSINSLOT", &slot.to_string()].map(str::to_owned);
            let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
            if integer(url, &keys).await > 0 {
                owner = Some(at);
            }
        }
        let mut others = urls;
        let from = others.remove(owner.unwrap());
        let to = others.remove(0);
        let names = [
            command(&from, &["CLUSTER", "MYID"]).await,
            command(&to, &["CLUSTER", "MYID"]).await,
        ];
        Self {
            slot: slot.to_string(),
            from,
            to,
            others,
            names,
        }
    }

    async fn set_slot(&self, node: &str, words: &[&str]) {
        let mut all = vec!["CLUSTER", "SETSLOT", self.slot.as_str()];
        all.extend(words);
        command(node, &all).await;
    }

    async fn begin(&self) {
        let [from, to] = &self.names;
        self.set_slot(&self.to, &["IMPORTING", from]).await;
        self.set_slot(&self.from, &["MIGRATING", to]).await;
    }

    async fn give_up(&self) {
        for node in [&self.from, &self.to] {
            self.set_slot(node, &["STABLE"]).await;
        }
    }

    async fn carry(&self, keys: &[String]) {
        let (_, port) = self.to.rsplit_once(':').unwrap();
        let mut words = vec!["MIGRATE", "127.0.0.1", port, "", "0", "5000", "KEYS"];
        words.extend(keys.iter().map(String::as_str));
        command(&self.from, &words).await;
    }

    async fn keys(&self) -> Vec<String> {
        list(
            &self.from,
            &["CLUSTER", "GETKEYSINSLOT", &self.slot, ALL_KEYS],
        )
        .await
    }

    async fn end(&self) {
        let [_, to] = &self.names;
        for node in [&self.to, &self.from].into_iter().chain(&self.others) {
            self.set_slot(node, &["NODE", to]).await;
        }
    }
}

/// While keys move, a commit is made whole or not at all: some of what it writes is there already, and some of it
/// would be elsewhere. When they have moved, the store follows.
///
/// proves in part: STO-02, STO-11
#[test]
fn a_commit_to_keys_that_move_is_made_whole_or_not_at_all() {
    if shared(REDIS).is_none() {
        return;
    }
    let mut cluster = RedisCluster::start(&RedisSettings::quick()).unwrap();
    block_on(async {
        let store = open(&cluster.url(), quick("moving").shards(1)).await;
        let id = SessionId::new("order").unwrap();
        let clock = VirtualClock::new(NOW);
        let sessions = Sessions::new(&store, &clock);
        // Since a session was deleted, the part has a floor: a script finds something where it begins.
        let gone = SessionId::new("gone").unwrap();
        let new = || NewSession::of("helper");
        sessions.create_session(&gone, new()).await.unwrap();
        assert!(sessions.delete_session(&gone).await.unwrap());
        sessions.create_session(&id, new()).await.unwrap();
        store.commit(says(&id, "first")).await.unwrap();
        let moving = Move::of(&mut cluster, "moving").await;

        let refused = async |attempt: &str| {
            let name = RunId::new("run").unwrap();
            let run = RunRecord::started(name, id.clone(), RunTrigger::Execute, "local", NOW);
            // The messages are there, a list of runs is not.
            let commit = says(&id, attempt).then(Change::StartRun(Box::new(run)));
            let refused = store.commit(commit).await;
            assert!(
                matches!(refused, Err(StoreError::Unavailable { .. })),
                "{refused:?}"
            );
        };
        moving.begin().await;
        refused("before all others").await;
        moving.give_up().await;
        assert_eq!(texts(&store, &id).await, ["first"]);
        store.commit(says(&id, "second")).await.unwrap();
        assert_eq!(texts(&store, &id).await, ["first", "second"]);

        moving.begin().await;
        let keys = moving.keys().await;
        let (messages, others): (Vec<_>, Vec<_>) =
            keys.into_iter().partition(|key| key.contains(":m:"));
        moving.carry(&messages).await;
        refused("between").await;
        let read = store.messages(id.as_root(), Page::ALL).await;
        assert!(
            matches!(read, Err(StoreError::Unavailable { .. })),
            "{read:?}"
        );
        moving.carry(&others).await;
        moving.end().await;
        assert_eq!(texts(&store, &id).await, ["first", "second"]);
        store.commit(says(&id, "third")).await.unwrap();
        assert_eq!(texts(&store, &id).await, ["first", "second", "third"]);
    });
}
