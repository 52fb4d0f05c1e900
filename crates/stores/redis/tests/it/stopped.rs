//! A process that is stopped while it holds a session, and goes on when another one has it.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use helix_agents_core::id::{RunId, SessionId};
use helix_agents_core::message::UserMessage;
use helix_agents_core::session::{RunRecord, RunTrigger};
use helix_agents_core::store::{
    Change, Commit, Fence, LeaseRequest, NewSession, Page, Precondition, SessionStore, Sessions,
    StoreError,
};
use helix_agents_core::time::Timestamp;
use helix_agents_store_redis::RedisStore;
use helix_agents_test_servers::RedisSettings;
use helix_agents_testkit::VirtualClock;

use crate::stores::{block_on, open, private, quick};

const NOW: Timestamp = Timestamp::from_millis(1_700_000_000_000);
const LEASE: Duration = Duration::from_secs(1);
/// The variable with the address of the server, in the process that is stopped.
const URL: &str = "HELIX_TEST_STOPPED";

fn id() -> SessionId {
    SessionId::new("order").unwrap()
}

/// Takes the session for a run, if nobody has it.
async fn taken(store: &RedisStore, holder: &str) -> Result<Fence, StoreError> {
    let run = RunId::new(format!("run-{holder}")).unwrap();
    let record = RunRecord::started(run, id(), RunTrigger::Execute, "local", NOW);
    let take = Commit::new(id(), NOW)
        .when(Precondition::LeaseFree)
        .then(Change::RaiseFence)
        .then(Change::StartRun(Box::new(record)))
        .then(Change::Lease(Some(LeaseRequest::new(holder, LEASE))));
    Ok(store.commit(take).await?.sessions[&id()].fence)
}

fn says(fence: Fence, holder: &str, text: String) -> Commit {
    Commit::new(id(), NOW)
        .when(Precondition::Fence(fence))
        .then(Change::Lease(Some(LeaseRequest::new(holder, LEASE))))
        .then(Change::AppendUser(UserMessage::new(text)))
}

/// What the stopped process does: it writes, and renews its lease, until it is refused. Only the test below starts
/// it with an address.
#[test]
fn a_holder_writes_until_it_is_refused() {
    let Ok(url) = std::env::var(URL) else { return };
    block_on(async {
        let store = open(&url, quick("stopped")).await;
        let fence = taken(&store, "first").await.unwrap();
        for number in 0.. {
            let said = says(fence, "first", format!("first {number}"));
            match store.commit(said).await {
                Ok(_) => println!("\nwritten"),
                Err(StoreError::Refused { .. }) => break,
                Err(other) => panic!("{other:?}"),
            }
        }
        println!("\nrefused");
    });
}

fn signal(child: &Child, name: &str) {
    let mut kill = Command::new("kill");
    let status = kill.args([name, &child.id().to_string()]).status();
    assert!(status.unwrap().success());
}

/// A holder that is stopped past its lease cannot write when it goes on: not one message after those of the
/// process that took the session over.
///
/// proves in part: LCK-01, LCK-02
#[test]
fn a_holder_that_was_stopped_past_its_lease_cannot_write() {
    let Some(server) = private(RedisSettings::quick()) else {
        return;
    };
    let store = block_on(open(&server.url(), quick("stopped")));
    let clock = VirtualClock::new(NOW);
    let sessions = Sessions::new(&store, &clock);
    block_on(sessions.create_session(&id(), NewSession::of("helper"))).unwrap();
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "stopped::a_holder_writes_until_it_is_refused"])
        .arg("--nocapture")
        .env(URL, server.url())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut heard = || {
        let known = |line: &String| line == "written" || line == "refused";
        // It goes on until it is refused.
        said.by_ref().map_while(Result::ok).find(known).unwrap()
    };
    for _ in 0..20 {
        assert_eq!(heard(), "written");
    }
    signal(&child, "-STOP");
    let (fence, before) = block_on(async {
        // The clock of the server says when the lease has lapsed. Until then nobody else has the session.
        let fence = loop {
            match taken(&store, "second").await {
                Ok(fence) => break fence,
                Err(StoreError::Refused { .. }) => {}
                Err(other) => panic!("{other:?}"),
            }
        };
        let said = says(fence, "second", "second".to_owned());
        store.commit(said).await.unwrap();
        let found = store.messages(id().as_root(), Page::ALL).await.unwrap();
        (fence, found.items)
    });
    assert!(before.len() > 20, "{before:?}");
    signal(&child, "-CONT");
    let mut written = 20;
    while heard() == "written" {
        written += 1;
        assert!(written < before.len(), "it writes what is not its own");
    }
    assert_eq!(
        written + 1,
        before.len(),
        "one message is of the other process"
    );
    assert!(child.wait().unwrap().success());
    block_on(async {
        let found = store.messages(id().as_root(), Page::ALL).await.unwrap();
        assert_eq!(found.items, before);
        store
            .commit(says(fence, "second", "on".to_owned()))
            .await
            .unwrap();
    });
}
