//! Every scenario, killed at some of its points; at every point with `HELIX_EVERY_POINT`. `HELIX_SEED` decides which.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use helix_agents_core::runtime::Backend;
use helix_agents_core::time::{Clock, Timestamp};
use helix_agents_test_servers::{POSTGRES, shared};
use helix_agents_testkit::crash::{CrashTest, Disturbance};
use helix_agents_testkit::{PlainHost, UnsteadyLog, block_on, scenarios};
use tokio_postgres::NoTls;

use crate::deployment::{Deployment, has_servers, runtime};

/// How many points of a scenario are tried by default.
const SAMPLED: usize = 2;
/// Among how many tests the scenarios are divided.
const PARTS: usize = 4;

/// A clock that has passed every earlier lease each time it is read, since the holder of a lease is dead when another
/// process of a play asks for it.
#[derive(Debug, Default)]
struct Hasty(AtomicU64);

#[async_trait]
impl Clock for Hasty {
    fn now(&self) -> Timestamp {
        const HOUR: u64 = 3_600_000;
        Timestamp::from_millis(self.0.fetch_add(HOUR, Ordering::Relaxed))
    }

    async fn sleep_until(&self, _: Timestamp) {}
}

/// Makes backends one after another, in one schema, from which everything of the one before is removed, with streams of
/// their own. Those that are unsteady refuse some relays.
pub(crate) fn backends(unsteady: bool) -> impl Fn() -> Pin<Box<dyn Future<Output = Backend>>> {
    let deployment = Deployment::new();
    move || {
        let deployment = deployment.clone().with_other_streams();
        Box::pin(async move {
            let schema = deployment.schema.clone();
            let process = deployment.clocked(Arc::new(Hasty::default()));
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

/// Plays a part of the scenarios, killed at some points or at all of them.
fn check(part: usize) {
    if !has_servers() {
        return;
    }
    // The threads of this runtime drive the connections while a play waits on this thread.
    let _entered = runtime().enter();
    let backends = backends(false);
    let scenarios = scenarios::all().into_iter().skip(part).step_by(PARTS);
    let mut played = 0;
    for scenario in scenarios {
        let test = CrashTest::new(scenario).on(PlainHost);
        played += 1;
        if std::env::var_os("HELIX_EVERY_POINT").is_some() {
            let report = block_on(test.every_point(&backends));
            assert!(report.points >= 6, "{report:?}");
            report.check();
            continue;
        }
        let seed = std::env::var("HELIX_SEED").ok();
        let seed: usize = seed.and_then(|seed| seed.parse().ok()).unwrap_or(1);
        let calm = block_on(test.disturbed(&backends, &Disturbance::default()));
        calm.check();
        assert!(calm.points >= 6, "{calm:?}");
        for sample in 0..SAMPLED {
            // Spread over the scenario, and other ones with each seed.
            let point = (seed * 7 + sample * calm.points / SAMPLED) % calm.points + 1;
            eprintln!(
                "HELIX_SEED={seed}: {test:?}, killed at point {point} of {}",
                calm.points
            );
            let disturbance = Disturbance {
                kills: vec![point],
                ..Disturbance::default()
            };
            block_on(test.disturbed(&backends, &disturbance)).check();
        }
    }
    assert!(played >= 7, "{played}");
}

#[test]
fn scenarios_of_the_first_part_survive() {
    check(0);
}

#[test]
fn scenarios_of_the_second_part_survive() {
    check(1);
}

#[test]
fn scenarios_of_the_third_part_survive() {
    check(2);
}

#[test]
fn scenarios_of_the_fourth_part_survive() {
    check(3);
}
