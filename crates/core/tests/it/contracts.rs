//! The in-memory ports pass the contract suites of the test kit.

mod store {
    use helix_agents_core::memory::MemoryStore;
    use helix_agents_testkit::contract::Subject;

    helix_agents_testkit::store_contract!(async || {
        Subject::from(MemoryStore::new()).not_durable()
    });
}

/// A store with its own clock.
mod clocked_store {
    use helix_agents_core::memory::MemoryStore;
    use helix_agents_testkit::contract::Subject;

    async fn fresh() -> Subject {
        let clock = Subject::fresh_clock();
        let store = MemoryStore::new().with_clock(clock.clone());
        Subject::from(store).living_by(clock).not_durable()
    }

    helix_agents_testkit::store_contract!(fresh);
    helix_agents_testkit::clock_contract!(fresh);
}

/// A store whose streams are elsewhere.
mod relayed {
    use helix_agents_core::memory::{MemoryLog, MemoryStore};
    use helix_agents_core::runtime::Backend;
    use helix_agents_testkit::contract::Subject;

    pub(crate) fn backend() -> Backend {
        let store = MemoryStore::new().with_outbox();
        Backend::from(store.clone()).streaming_to(store, MemoryLog::new())
    }

    async fn fresh() -> Subject {
        let Backend {
            store,
            streams,
            stops,
            ..
        } = backend();
        Subject::of_ports(store, streams, stops)
            .streaming_elsewhere()
            .not_durable()
    }

    helix_agents_testkit::store_contract!(fresh);
    helix_agents_testkit::stream_contract!(fresh);
}

mod stream {
    use helix_agents_core::memory::MemoryStore;

    helix_agents_testkit::stream_contract!(async || MemoryStore::new());
}

mod runtime {
    use helix_agents_core::memory::MemoryStore;
    use helix_agents_testkit::ThreadRuntime;

    helix_agents_testkit::runtime_contract!(async || ThreadRuntime::new(MemoryStore::new()));
}

/// A host whose runs remember what their own effects read and wrote.
mod remembering_runtime {
    use helix_agents_core::memory::MemoryStore;
    use helix_agents_testkit::ThreadRuntime;

    helix_agents_testkit::runtime_contract!(async || {
        ThreadRuntime::new(MemoryStore::new()).remembering()
    });
}

/// A host that keeps nothing in memory.
mod amnesiac_runtime {
    use std::sync::Arc;

    use helix_agents_core::memory::MemoryStore;
    use helix_agents_testkit::{AmnesiacHost, ThreadRuntime, drive_on};

    helix_agents_testkit::runtime_contract!(async || {
        ThreadRuntime::new(MemoryStore::new()).driven_by(Arc::new(|facts, state, ports| {
            Box::pin(async move { drive_on(&AmnesiacHost, &facts, state, &ports).await })
        }))
    });
}

mod lock {
    use std::time::Duration;

    use helix_agents_core::lock::{InMemoryLockManager, LockManager, NoOpLockManager};
    use helix_agents_core::time::Timestamp;
    use helix_agents_testkit::block_on;

    helix_agents_testkit::lock_contract!(async || InMemoryLockManager::new());

    /// The manager that locks nothing breaks the contract on purpose: every caller gets every lock.
    ///
    /// proves in part: LCK-02
    #[test]
    fn the_noop_lock_manager_grants_every_lock() {
        block_on(async {
            let (now, ttl) = (Timestamp::from_millis(5), Duration::from_millis(10));
            for holder in ["a", "b"] {
                let lock = NoOpLockManager.acquire("key", holder, now, ttl).await;
                let lock = lock.unwrap().unwrap();
                assert_eq!((lock.holder.as_str(), lock.until.as_millis()), (holder, 15));
                let later = Timestamp::from_millis(20);
                let renewed = NoOpLockManager.renew(&lock, later, ttl).await.unwrap();
                assert_eq!(renewed.unwrap().until.as_millis(), 30);
                assert!(NoOpLockManager.release(&lock).await.unwrap());
            }
        });
    }
}
