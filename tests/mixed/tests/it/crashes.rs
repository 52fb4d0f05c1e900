//! Every scenario, killed at some of its points; at every point with `HELIX_EVERY_POINT`. `HELIX_SEED` decides which.

use std::pin::Pin;
use std::sync::Arc;

use helix_agents_core::runtime::Backend;
use helix_agents_test_servers::{POSTGRES, shared};
use helix_agents_testkit::crash::CrashReport;
use helix_agents_testkit::{HastyClock, PlainHost, UnsteadyLog, block_on};
use tokio_postgres::NoTls;

use crate::deployment::{Deployment, has_servers, runtime};

/// Makes backends one after another, in one schema, from which everything of the one before is removed, with streams of
/// their own. Those that are unsteady refuse some relays.
pub(crate) fn backends(unsteady: bool) -> impl Fn() -> Pin<Box<dyn Future<Output = Backend>>> {
    let deployment = Deployment::new();
    move || {
        let deployment = deployment.clone().with_other_streams();
        Box::pin(async move {
            let schema = deployment.schema.clone();
            let process = deployment.clocked(Arc::new(HastyClock::default()));
            let process = process.process().await;
            runtime().spawn(empty(schema)).await.unwrap();
            if !unsteady {
                return process.backend();
            }
            let log = UnsteadyLog::new(process.streams);
            Backend::from(process.store.clone()).streaming_to(process.store, log)
        })
    }
}

/// Removes everything from the tables of a schema.
async fn empty(schema: String) {
    let url = shared(POSTGRES).unwrap();
    let (client, connection) = tokio_postgres::connect(&url, NoTls).await.unwrap();
    let connection = tokio::spawn(connection);
    let tables = "session label message usage state run checkpoint child staged retired_call pending answered due \
                  stream chunk ended_turn lock outbox outbox_head";
    let tables = tables.split_whitespace();
    let deletions = tables.map(|table| format!("DELETE FROM {schema}.{table};"));
    let mut batch: String = deletions.collect();
    batch.push_str(&format!("UPDATE {schema}.floor SET fence = 0;"));
    client.batch_execute(&batch).await.unwrap();
    drop(client);
    connection.await.unwrap().unwrap();
}

/// Plays a crash test, or skips it. The threads of the runtime drive the connections meanwhile.
fn play<F: Future<Output = CrashReport>>(test: F) -> Option<CrashReport> {
    if !has_servers() {
        return None;
    }
    let _entered = runtime().enter();
    Some(block_on(test))
}

helix_agents_testkit::crash_tests!(PlainHost, backends(false), block_on = play, sampled = 2,);
