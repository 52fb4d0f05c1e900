//! The contracts of the ports, each subject with two processes.

use helix_agents_core::runtime::Backend;
use helix_agents_testkit::contract::{Runner, RuntimeSubject, Subject};

use crate::deployment::{Deployment, Process, with_servers};

fn ports(process: &Process) -> Subject {
    let Backend {
        store,
        streams,
        stops,
        ..
    } = process.backend();
    Subject::of_ports(store, streams, stops)
}

async fn mixed() -> Subject {
    let clock = Subject::fresh_clock();
    let deployment = Deployment::new().clocked(clock.clone());
    let (here, there) = (deployment.process().await, deployment.process().await);
    let again = Deployment::new().clocked(clock.clone());
    ports(&here)
        .also(ports(&there))
        .living_by(clock)
        .streaming_elsewhere()
        .reopened_by(async move || ports(&again.process().await).streaming_elsewhere())
}

async fn runtime() -> RuntimeSubject {
    let deployment = Deployment::new();
    let open = move |clock| {
        let deployment = deployment.clone().clocked(clock);
        async move { deployment.process().await.backend() }
    };
    RuntimeSubject::opened_by(Runner::new(|task| with_servers(task)), open).await
}

helix_agents_testkit::store_contract!(mixed, block_on = with_servers);
helix_agents_testkit::clock_contract!(mixed, block_on = with_servers);
helix_agents_testkit::stream_contract!(mixed, block_on = with_servers);

mod runtimes {
    use super::with_servers;

    helix_agents_testkit::runtime_contract!(super::runtime, block_on = with_servers);
}
