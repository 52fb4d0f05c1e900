//! The contracts of the ports, over a schema that two stores share; and that of runtimes, each of which opens the
//! schema for itself.

use helix_agents_testkit::contract::{LockSubject, Runner, RuntimeSubject, Subject};

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

async fn runtime_on_schema() -> RuntimeSubject {
    let name = schema();
    let open = move |clock| open(config(&name).clock(clock));
    RuntimeSubject::opened_by(Runner::default(), open).await
}

helix_agents_testkit::store_contract!(in_schema, block_on = with_server);
helix_agents_testkit::clock_contract!(in_schema, block_on = with_server);
helix_agents_testkit::stream_contract!(in_schema, block_on = with_server);
helix_agents_testkit::lock_contract!(locks_in_schema, block_on = with_server);

mod runtimes {
    use super::with_server;

    helix_agents_testkit::runtime_contract!(super::runtime_on_schema, block_on = with_server);
}
