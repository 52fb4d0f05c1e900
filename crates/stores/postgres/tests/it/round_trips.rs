//! How often a store asks the database.

use helix_agents_core::store::{Change, Fence, SessionStore};
use helix_agents_core::stream::{StreamManager, StreamWriter};

use crate::builders::{create, delta, id, on, run, says, step};
use crate::counting_proxy::CountingProxy;
use crate::faults::port;
use crate::server::{config, open, schema, try_open, with_server};

#[test]
fn a_commit_and_an_append_of_deltas_are_one_round_trip_each() {
    with_server(async {
        let proxy = CountingProxy::start(port());
        let address = format!(
            "postgres://helix@127.0.0.1:{}/postgres?sslmode=disable",
            proxy.port
        );
        let name = schema();
        let settings = config(&name).connections(1).notifications(false);
        let store = try_open(&address, settings).await.unwrap();
        let session = create(&store, "s").await;
        let start = on("s").then(Change::StartRun(Box::new(run(&session))));
        store.commit(start).await.unwrap();
        let writer = StreamWriter::new(session.clone(), session.clone(), Fence(0));
        let deltas = || vec![delta(&session, "a"), delta(&session, "b")];
        // The statement is prepared once for each connection.
        store.append_deltas(&writer, deltas()).await.unwrap();
        let before = proxy.asked();
        for number in 1..=50 {
            store.append_deltas(&writer, deltas()).await.unwrap();
            for commit in step(&session, number) {
                store.commit(commit).await.unwrap();
            }
        }
        assert_eq!(
            proxy.asked() - before,
            150,
            "50 steps of two commits and an append"
        );
        // What another process wrote is noticed: asked in vain, read, and asked again.
        let other = open(config(&name)).await;
        other.commit(says("s", "from elsewhere")).await.unwrap();
        let before = proxy.asked();
        store.commit(says("s", "from here")).await.unwrap();
        assert_eq!(proxy.asked() - before, 3);
        let mut another = id::<helix_agents_core::SessionId>("t");
        for number in 0..3 {
            let before = proxy.asked();
            another = create(&store, &format!("t-{number}")).await;
            assert_eq!(proxy.asked() - before, 1, "a creation needs no read");
        }
        let before = proxy.asked();
        assert!(store.load(another.as_root()).await.unwrap().is_some());
        // Prepared, and read.
        assert_eq!(proxy.asked() - before, 2);
        store.load(another.as_root()).await.unwrap();
        assert_eq!(proxy.asked() - before, 3);
    });
}
