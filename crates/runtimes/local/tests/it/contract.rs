//! The contract of runtimes, in memory and over a file that every process opens for itself.

use std::sync::{Arc, LazyLock};

use futures_util::future::BoxFuture;
use helix_agents_core::memory::MemoryStore;
use helix_agents_core::runtime::{Backend, Runtime};
use helix_agents_runtime_local::{LocalRuntime, SystemClock};
use helix_agents_store_sqlite::SqliteStore;
use helix_agents_testkit::contract::{RuntimeSubject, Wanted};
use tokio::task::unconstrained;

/// Runs a case on a tokio runtime with two threads.
fn on_tokio<F: Future>(future: F) -> F::Output {
    static HOST: LazyLock<tokio::runtime::Runtime> = LazyLock::new(|| {
        let mut host = tokio::runtime::Builder::new_multi_thread();
        host.worker_threads(2).enable_time().build().unwrap()
    });
    // Cases wait for the store inside of the future that is polled here; with a budget of polls they would wait for ever.
    HOST.block_on(unconstrained(future))
}

/// Builds runtimes over the stores that `open` opens.
async fn subject(
    open: impl Fn() -> BoxFuture<'static, Backend> + Send + Sync + 'static,
) -> RuntimeSubject {
    let clock = Arc::new(SystemClock::new());
    let make = move |wanted: Wanted| -> BoxFuture<'static, Arc<dyn Runtime>> {
        let opening = open();
        Box::pin(async move {
            let runtime = LocalRuntime::builder(wanted.over(opening.await)).recovery(false);
            let runtime = runtime.auto_continue(wanted.auto_continue).build();
            Arc::new(runtime) as Arc<dyn Runtime>
        })
    };
    RuntimeSubject::made_by(clock, make).await.in_real_time()
}

async fn in_memory() -> RuntimeSubject {
    let store = MemoryStore::new();
    subject(move || {
        let store = store.clone();
        Box::pin(async move { store.into() })
    })
    .await
}

async fn in_file() -> RuntimeSubject {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("helix.db");
    let subject = subject(move || {
        let path = path.clone();
        Box::pin(async move { SqliteStore::open(path).await.unwrap().into() })
    });
    subject.await.keeping(folder)
}

mod memory {
    helix_agents_testkit::runtime_contract!(super::in_memory, block_on = super::on_tokio);
}

mod sqlite {
    helix_agents_testkit::runtime_contract!(super::in_file, block_on = super::on_tokio);
}
