use helix_agents_core::store::{Change, Lookup, Page, SessionStore};
use helix_agents_core::{CallId, SessionId};
use helix_agents_store_sqlite::SqliteStore;
use helix_agents_testkit::block_on;

use crate::builders::{count, create, id, long_id, on, step};
use crate::folder::Folder;

async fn ids(store: &SqliteStore, session: &SessionId, page: Page) -> Vec<CallId> {
    let found = store
        .answered(session.as_root(), Lookup::Page(page))
        .await
        .unwrap();
    found.items.into_iter().map(|one| one.call).collect()
}

/// A file as the version before left it: the answered calls are in the header.
#[test]
fn calls_that_an_earlier_version_kept_in_the_header_are_answered() {
    let folder = Folder::new();
    let path = folder.file("helix.db");
    block_on(async {
        let store = SqliteStore::open(&path).await.unwrap();
        let session = create(&store, "s").await;
        let [reply, _] = step(&session, 1);
        store.commit(reply).await.unwrap();
        drop(store);
        let open: CallId = long_id("call", 1);
        let old = rusqlite::Connection::open(&path).unwrap();
        let set = "UPDATE session SET header = json_set(header, \
                   '$[2].session.completedClientToolCalls', json(?))";
        let map = format!(r#"{{ "b": 2, "a": 1, "{open}": 3 }}"#);
        assert_eq!(old.execute(set, [map]).unwrap(), 1);
        drop(old);

        let store = SqliteStore::open(&path).await.unwrap();
        for commits in 0..2 {
            let rows = count(&path, "SELECT count(*) FROM answered");
            assert_eq!(rows, 3 * commits, "they move with the next commit");
            let one = store
                .answered(session.as_root(), Lookup::One(id("a")))
                .await;
            assert_eq!(one.unwrap().items.len(), 1);
            let none = store
                .answered(session.as_root(), Lookup::One(id("c")))
                .await;
            assert_eq!(none.unwrap().items.len(), 0);
            let all = ids(&store, &session, Page::ALL).await;
            assert_eq!(all, [id("a"), id("b"), open.clone()]);
            assert_eq!(ids(&store, &session, Page::new(1, 1)).await, [id("b")]);
            let found = store.load(session.as_root()).await.unwrap().unwrap();
            assert_eq!(found.answered.as_slice(), std::slice::from_ref(&open));
            assert!(found.state.completed_client_tool_calls.is_empty());
            let next = on("s").then(Change::RaiseFence);
            store.commit(next).await.unwrap();
        }
        let kept = "SELECT count(*) FROM session WHERE header LIKE '%completedClient%'";
        assert_eq!(count(&path, kept), 0);
    });
}
