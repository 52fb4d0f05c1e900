//! A store that keeps each root in a place of its own is a store like any other.

use helix_agents_core::runtime::Backend;
use helix_agents_testkit::ShardedStore;

mod store {
    use helix_agents_testkit::contract::Subject;

    helix_agents_testkit::store_contract!(async || {
        Subject::from(super::ShardedStore::new()).not_durable()
    });
}

mod stream {
    helix_agents_testkit::stream_contract!(async || super::ShardedStore::new());
}

mod runtime {
    use helix_agents_testkit::ThreadRuntime;

    use super::{Backend, ShardedStore};

    helix_agents_testkit::runtime_contract!(async || {
        ThreadRuntime::new(Backend::new(ShardedStore::new()))
    });
}
