//! Writes of one process wake those who wait in another.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;
use std::time::{Duration, Instant};

use futures_util::future::join;
use helix_agents_core::session::{StopKind, StopRequest};
use helix_agents_core::store::{Change, SessionStore, WatchStops};
use helix_agents_core::stream::{Sequence, StreamManager};
use helix_agents_store_postgres::{PostgresConfig, PostgresStore};
use helix_agents_testkit::block_on;

use crate::builders::{NOW, create, delta, id, on, run};
use crate::counting_proxy::CountingProxy;
use crate::faults::port;
use crate::server::{config, open, runtime, schema, try_open, with_server};

/// A stop is noticed within 250 ms; a busy machine has more time here.
const PATIENCE: Duration = Duration::from_secs(1);
/// Nothing takes as long.
const LONG: Duration = Duration::from_secs(60);

async fn pair(with: impl Fn(PostgresConfig) -> PostgresConfig) -> [PostgresStore; 2] {
    let name = schema();
    let stores = [
        open(with(config(&name))).await,
        open(with(config(&name))).await,
    ];
    create(&stores[0], "s").await;
    stores
}

/// Waits in one store for chunks that another writes, and returns how long each took after its commit.
async fn delays(stores: &[PostgresStore; 2], rounds: u64) -> Vec<Duration> {
    let [here, there] = stores;
    let mut delays = Vec::new();
    let root = id("s");
    for round in 1..=rounds {
        let known = there.info(&root).await.unwrap();
        let (waiter, waits_for) = (there.clone(), root.clone());
        let waiting = tokio::spawn(async move {
            waiter.changed(&waits_for, known).await.unwrap();
            Instant::now()
        });
        tokio::task::yield_now().await;
        let said = on("s").say(delta(&root, &round.to_string()));
        here.commit(said).await.unwrap();
        let made = Instant::now();
        delays.push(waiting.await.unwrap().saturating_duration_since(made));
        let read = StreamManager::read(there, &root, Sequence::START, usize::MAX).await;
        assert_eq!(u64::try_from(read.unwrap().len()).unwrap(), round);
    }
    delays.sort();
    delays
}

#[test]
fn a_write_here_wakes_a_reader_there() {
    with_server(async {
        // Without polling only a notification can do it.
        let seldom = |config: PostgresConfig| config.poll_interval(Duration::from_secs(600));
        let stores = pair(seldom).await;
        let delays = delays(&stores, 20).await;
        eprintln!("median {:?}, slowest {:?}", delays[10], delays[19]);
    });
}

#[test]
fn without_notifications_polling_wakes_a_reader() {
    with_server(async {
        let stores = pair(|config| config.notifications(false)).await;
        let delays = delays(&stores, 5).await;
        assert!(delays[2] < Duration::from_secs(1), "{delays:?}");
    });
}

#[test]
fn a_stop_is_noticed_in_another_process() {
    with_server(async {
        for notifies in [true, false] {
            let proxy = CountingProxy::start(port());
            let address = format!(
                "postgres://helix@127.0.0.1:{}/postgres?sslmode=disable",
                proxy.port
            );
            let settings = config(&schema()).notifications(notifies);
            let here = open(settings.clone()).await;
            let there = try_open(&address, settings).await.unwrap();
            let session = create(&here, "s").await;
            let start = on("s").then(Change::StartRun(Box::new(run(&session))));
            here.commit(start).await.unwrap();
            let before = proxy.asked();
            let waiting = tokio::spawn(async move {
                let run = id("run-1");
                let stop = there.stopped(session.as_root(), &run).await.unwrap();
                (stop.run_id == run, Instant::now())
            });
            // It has looked, and waits.
            while proxy.asked() == before {
                tokio::task::yield_now().await;
            }
            let stop = StopRequest::new(id("run-1"), StopKind::Interrupt, NOW);
            here.commit(on("s").then(Change::Stop(stop))).await.unwrap();
            let made = Instant::now();
            let (is_ours, at) = waiting.await.unwrap();
            assert!(is_ours);
            let took = at.saturating_duration_since(made);
            eprintln!("notifications {notifies}: {took:?}");
            assert!(took < PATIENCE, "{took:?}");
        }
    });
}

/// Behind a pooler the session of a notification is used by others afterwards.
#[test]
fn a_notification_leaves_no_setting_behind() {
    with_server(async {
        let proxy = CountingProxy::start(port());
        let address = format!(
            "postgres://helix@127.0.0.1:{}/postgres?sslmode=disable",
            proxy.port
        );
        let name = schema();
        let seldom = |config: PostgresConfig| config.poll_interval(Duration::from_secs(600));
        let here = try_open(&address, seldom(config(&name))).await.unwrap();
        let stores = [here, open(seldom(config(&name))).await];
        create(&stores[0], "s").await;
        delays(&stores, 3).await;
        let statements = proxy.statements();
        assert!(statements.iter().any(|text| text.contains("pg_notify")));
        let settings = statements.iter().filter(|text| text.starts_with("SET "));
        assert_eq!(settings.collect::<Vec<_>>(), Vec::<&String>::new());
    });
}

/// Begins to wait. Returns whether there is something to wait for.
async fn waits<F: Future + ?Sized>(future: &mut Pin<Box<F>>) -> bool {
    poll_fn(|context| Poll::Ready(future.as_mut().poll(context).is_pending())).await
}

/// The ids are such that the numbers of the two subjects could make up for the difference of their first characters.
#[test]
fn those_who_wait_for_different_things_are_all_woken() {
    with_server(async {
        let proxy = CountingProxy::start(port());
        let address = format!(
            "postgres://helix@127.0.0.1:{}/postgres?sslmode=disable",
            proxy.port
        );
        let often = config(&schema()).notifications(false);
        let often = often.poll_interval(Duration::from_millis(10));
        let here = open(often.clone()).await;
        let there = try_open(&address, often).await.unwrap();
        let (kept, stopped) = (create(&here, "3041").await, create(&here, "2041").await);
        let start = on("2041").then(Change::StartRun(Box::new(run(&stopped))));
        here.commit(start).await.unwrap();
        let known = there.info(&kept).await.unwrap();
        let mut changed = there.changed(&kept, known);
        assert!(waits(&mut changed).await);
        let ours = id("run-1");
        let mut waiting = there.stopped(stopped.as_root(), &ours);
        assert!(waits(&mut waiting).await);
        let stopping = async {
            // The first look wakes everybody.
            let before = proxy.asked();
            while proxy.asked() < before + 30 {
                tokio::task::yield_now().await;
            }
            let stop = StopRequest::new(ours.clone(), StopKind::Interrupt, NOW);
            let stop = on("2041").then(Change::Stop(stop));
            here.commit(stop).await.unwrap();
        };
        let both = async {
            let (told, ()) = join(tokio::time::timeout(LONG, waiting), stopping).await;
            assert_eq!(told.unwrap().unwrap().run_id, ours);
            let said = on("3041").say(delta(&kept, "a"));
            here.commit(said).await.unwrap();
        };
        let (changed, ()) = join(tokio::time::timeout(LONG, changed), both).await;
        changed.unwrap().unwrap();
    });
}

/// A caller on another executor is served, too.
#[test]
fn it_works_outside_of_the_runtime() {
    with_server(async {
        let [here, there] = pair(|config| config).await;
        let done = std::thread::spawn(move || {
            block_on(async {
                let root = id("s");
                here.commit(on("s").say(delta(&root, "a"))).await.unwrap();
                there.changed(&root, None).await.unwrap();
            });
        });
        runtime()
            .spawn_blocking(|| done.join().unwrap())
            .await
            .unwrap();
    });
}
