//! How often the database is asked while many runs stream.

use helix_agents_core::SessionId;
use helix_agents_core::store::{Fence, NewSession, Sessions};
use helix_agents_core::stream::{StreamManager, StreamWriter};
use helix_agents_test_servers::{POSTGRES, shared};
use helix_agents_testkit::VirtualClock;
use tokio::sync::mpsc::unbounded_channel;
use tokio_postgres::NoTls;

use crate::deployment::{Deployment, NOW, chunk, with_servers, words};

/// Writers of many roots wait for one statement of their process, and not for one each.
#[test]
fn writers_share_the_looks_into_the_outbox() {
    const ROOTS: usize = 60;
    with_servers(async {
        let deployment = Deployment::new();
        let process = deployment.process().await;
        let relayed = process.relayed();
        let clock = VirtualClock::new(NOW);
        let sessions = Sessions::new(&relayed, &clock);
        let roots: Vec<_> = (0..ROOTS)
            .map(|index| SessionId::new(format!("s-{index}")).unwrap())
            .collect();
        for root in &roots {
            let new = NewSession::of("agent");
            sessions.create_session(root, new).await.unwrap();
        }
        let (client, connection) = tokio_postgres::connect(&shared(POSTGRES).unwrap(), NoTls)
            .await
            .unwrap();
        let connection = tokio::spawn(connection);
        let schema = &deployment.schema;
        // Whoever looks into the outbox waits.
        let lock = format!("BEGIN; LOCK TABLE {schema}.outbox IN ACCESS EXCLUSIVE MODE");
        client.batch_execute(&lock).await.unwrap();
        let (begun, mut begins) = unbounded_channel();
        let writers: Vec<_> = roots
            .iter()
            .cloned()
            .map(|root| {
                let (relayed, begun) = (relayed.clone(), begun.clone());
                tokio::spawn(async move {
                    begun.send(()).unwrap();
                    let writer = StreamWriter::new(root.clone(), root.clone(), Fence(0));
                    let chunks = vec![chunk(&root, "said")];
                    relayed.append_deltas(&writer, chunks).await.unwrap();
                })
            })
            .collect();
        for _ in 0..ROOTS {
            begins.recv().await.unwrap();
        }
        let looks = format!(
            "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' \
             AND query LIKE '%{schema}%outbox%' AND query LIKE 'SELECT%'"
        );
        let mut waiting = 0;
        while waiting == 0 {
            waiting = client
                .query_one(&looks, &[])
                .await
                .unwrap()
                .get::<_, i64>(0);
        }
        assert_eq!(waiting, 1);
        client.batch_execute("COMMIT").await.unwrap();
        for writer in writers {
            writer.await.unwrap();
        }
        for root in &roots {
            assert_eq!(words(&process.streams, root).await, ["said"]);
        }
        drop(client);
        connection.await.unwrap().unwrap();
    });
}
