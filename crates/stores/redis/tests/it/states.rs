//! Large states, which are kept as one that is whole and the writes since.

use std::sync::Arc;

use helix_agents_core::SessionId;
use helix_agents_core::store::{Change, Commit, NewSession, SessionStore, Sessions};
use helix_agents_core::time::Timestamp;
use helix_agents_test_servers::{REDIS, shared};
use helix_agents_testkit::VirtualClock;
use serde_json::json;

use crate::stores::{on_server, open, prefix, quick};

/// A script cannot pass on as many values at once. The state is larger than all writes to it, so none of them is put
/// together with it; who has not seen it before loads all of them.
#[test]
fn a_large_state_is_loaded_after_thousands_of_writes() {
    const COUNT: u32 = 9_000;
    on_server(async {
        let (url, config) = (shared(REDIS).unwrap(), quick(&prefix()));
        let store = open(&url, config.clone()).await;
        let now = Timestamp::from_millis(1_700_000_000_000);
        let clock = VirtualClock::new(now);
        let root = SessionId::new("s").unwrap();
        let sessions = Sessions::new(&store, &clock);
        let new = NewSession::of("agent");
        sessions.create_session(&root, new).await.unwrap();
        let large = json!({ "blob": "ß".repeat(1024 * 1024), "n": 0 });
        let set = Change::SetState(Arc::new(large));
        let set = Commit::new(root.clone(), now).then(set);
        store.commit(set).await.unwrap();
        let writes = (1..=COUNT).fold(Commit::new(root.clone(), now), |commit, n| {
            let op = json!([{ "op": "replace", "path": "/n", "value": n }]);
            commit.then(Change::WriteState(serde_json::from_value(op).unwrap()))
        });
        store.commit(writes).await.unwrap();
        for store in [open(&url, config).await, store] {
            let loaded = store.load(root.as_root()).await.unwrap().unwrap();
            assert_eq!(loaded.state.custom_state["n"], json!(COUNT));
        }
    });
}
