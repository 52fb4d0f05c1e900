//! The contracts of the ports, over a schema that two stores share; and that of runtimes, each of which opens the
//! schema for itself.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use helix_agents_core::id::IdSource;
use helix_agents_core::runtime::Runtime;
use helix_agents_core::time::{Clock, Timestamp};
use helix_agents_testkit::contract::{LockSubject, RuntimeSubject, Subject, Wanted};
use helix_agents_testkit::{SequentialIds, ThreadRuntime, VirtualClock};

use crate::server::{config, open, schema, with_server};

async fn in_schema() -> Subject {
    let (name, again) = (schema(), schema());
    let clock = Subject::fresh_clock();
    let settings = |name: &str| config(name).clock(clock.clone());
    let store = open(settings(&name)).await;
    let elsewhere = open(settings(&name)).await;
    let subject = Subject::from(store)
        .also(elsewhere)
        .living_by(clock.clone());
    subject.reopened_by(async move || open(config(&again).clock(clock.clone())).await)
}

async fn locks_in_schema() -> LockSubject {
    let name = schema();
    let store = open(config(&name)).await;
    LockSubject::from(store).also(open(config(&name)).await)
}

/// Every runtime that a case asks for opens the schema anew.
async fn runtime_on_schema() -> RuntimeSubject {
    let name = schema();
    let dawn = Timestamp::from_millis(1_700_000_000_000);
    let clock: Arc<dyn Clock> = Arc::new(VirtualClock::new(dawn).auto_advance());
    let ids: Arc<dyn IdSource> = Arc::new(SequentialIds::new());
    let time = Arc::clone(&clock);
    let make = move |wanted: Wanted| -> BoxFuture<'static, Arc<dyn Runtime>> {
        let (name, clock, ids) = (name.clone(), Arc::clone(&time), Arc::clone(&ids));
        Box::pin(async move {
            let store = open(config(&name).clock(Arc::clone(&clock))).await;
            let runtime = ThreadRuntime::new(wanted.over(store))
                .with_clock(clock)
                .with_ids(ids);
            let runtime = if wanted.auto_continue {
                runtime.auto_continue()
            } else {
                runtime
            };
            Arc::new(runtime.remembering()) as Arc<dyn Runtime>
        })
    };
    RuntimeSubject::made_by(clock, make).await
}

helix_agents_testkit::store_contract!(in_schema, block_on = with_server);
helix_agents_testkit::clock_contract!(in_schema, block_on = with_server);
helix_agents_testkit::stream_contract!(in_schema, block_on = with_server);
helix_agents_testkit::lock_contract!(locks_in_schema, block_on = with_server);

mod runtimes {
    use super::with_server;

    helix_agents_testkit::runtime_contract!(super::runtime_on_schema, block_on = with_server);
}
