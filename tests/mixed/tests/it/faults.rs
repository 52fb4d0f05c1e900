//! Servers that cannot be reached or die, and processes that die between a commit and its relay.

use std::sync::Arc;
use std::time::Duration;

use helix_agents_core::agent::Agent;
use helix_agents_core::runtime::{RuntimeExt, Turn};
use helix_agents_core::session::RunStatus;
use helix_agents_core::store::{Change, Commit, NewSession, SessionStore, Sessions};
use helix_agents_core::stream::{
    Outbox, RelayLeftovers, Sequence, StreamError, StreamLog, StreamManager, StreamStatus,
};
use helix_agents_core::tool::{Tool, ToolCx, ToolResult};
use helix_agents_core::{Coded, SessionId};
use helix_agents_runtime_local::LocalRuntime;
use helix_agents_test_servers::{Proxy, REDIS, RedisServer, RedisSettings, shared};
use helix_agents_testkit::{MockModel, VirtualClock};
use serde_json::{Value, json};

use crate::deployment::{Deployment, NOW, Process, created, says, with_servers, words, writes};
use crate::spoken::speaker;

/// Nothing takes as long.
const LONG: Duration = Duration::from_secs(60);

fn port(url: &str) -> u16 {
    url.rsplit_once(':').unwrap().1.parse().unwrap()
}

/// A runtime that looks after nothing but its own runs.
pub(crate) fn host(process: &Process) -> LocalRuntime {
    let builder = LocalRuntime::builder(process.backend());
    builder.recovery(false).build()
}

/// Waits until a stream says this.
pub(crate) async fn until_said(process: &Process, root: &SessionId, text: &str) {
    let wait = async {
        loop {
            let known = process.streams.info(root).await.unwrap();
            if words(&process.streams, root).await.concat() == text {
                return;
            }
            process.streams.changed(root, known).await.unwrap();
        }
    };
    tokio::time::timeout(LONG, wait).await.unwrap();
}

#[test]
fn a_run_ends_while_redis_cannot_be_reached_and_its_stream_catches_up() {
    with_servers(async {
        let near = Deployment::new();
        let proxy = Proxy::start(port(&near.redis)).unwrap();
        let mut far = near.clone();
        far.redis = format!("redis://127.0.0.1:{}", proxy.port());
        let (here, there) = (far.process().await, near.process().await);
        let (agent, voice) = speaker();
        let handle = host(&here).execute(&agent, "go").await.unwrap();
        let root = handle.session_id().clone();
        voice.say("one ");
        until_said(&there, &root, "one ").await;
        proxy.refuse(true);
        voice.say("two ");
        voice.say("three");
        voice.finish();
        let ended = handle.ended().await.unwrap();
        assert_eq!(ended.status, RunStatus::Completed);
        assert_eq!(words(&there.streams, &root).await.concat(), "one ");
        // Another process relays what is left; what this one tries later is left out.
        assert_eq!(there.relayed().relay_leftovers(10).await.unwrap(), 1);
        proxy.refuse(false);
        here.relayed().relay_leftovers(10).await.unwrap();
        assert_eq!(words(&there.streams, &root).await.concat(), "one two three");
        let info = there.streams.info(&root).await.unwrap().unwrap();
        assert_eq!(
            (info.status, info.trimmed),
            (StreamStatus::Ended, Sequence::START)
        );
        assert_eq!(there.relayed().relay_leftovers(10).await.unwrap(), 0);
    });
}

/// A Redis that takes what it is sent and says nothing keeps no lease from being renewed.
#[test]
fn what_a_stream_need_not_be_told_is_committed_without_it() {
    with_servers(async {
        let near = Deployment::new();
        let proxy = Proxy::start(port(&near.redis)).unwrap();
        let mut far = near.clone();
        far.redis = format!("redis://127.0.0.1:{}", proxy.port());
        let relayed = far.process().await.relayed();
        let root = created(&relayed).await;
        relayed.commit(says(&root, "1")).await.unwrap();
        let asked = proxy.asked();
        proxy.silence(true);
        for _ in 0..3 {
            // It concerns the store alone, as the renewal of a lease does.
            let silent = Commit::new(root.clone(), NOW);
            let receipt = relayed.commit(silent).await.unwrap();
            assert_eq!(receipt.sequence, Sequence::START);
        }
        assert_eq!(proxy.asked(), asked);
        proxy.silence(false);
    });
}

/// The end of a turn is not relayed when its process dies. The next turn begins after it, so that a rewind of that turn
/// keeps it.
#[test]
fn a_turn_begins_after_what_a_dead_process_left() {
    with_servers(async {
        let deployment = Deployment::new();
        let (dead, other) = (deployment.process().await, deployment.process().await);
        let (agent, voice) = speaker();
        voice.say("one");
        voice.finish();
        let first = host(&dead).execute(&agent, "go").await.unwrap();
        let root = first.session_id().clone();
        first.ended().await.unwrap();
        until_said(&other, &root, "one").await;
        let before = other.relayed().info(&root).await.unwrap().unwrap().last;
        dead.store.commit(says(&root, "left")).await.unwrap();
        let (agent, voice) = speaker();
        voice.say("two");
        voice.finish();
        let turn = Turn::new("again").session(root.clone());
        let second = host(&other).execute(&agent, turn).await.unwrap();
        let ended = second.ended().await.unwrap();
        assert_eq!(ended.start_sequence, before.next().0);
        assert_eq!(words(&other.streams, &root).await.concat(), "onelefttwo");
    });
}

/// The commit that settles a step is not relayed at once, and nobody streams before the next reply. The place at which
/// the next step begins is one that the run knows, and not the start of the stream.
#[test]
fn a_step_after_a_commit_that_was_not_relayed_begins_at_a_place_that_is_known() {
    with_servers(async {
        let near = Deployment::new();
        let proxy = Arc::new(Proxy::start(port(&near.redis)).unwrap());
        let mut far = near.clone();
        far.redis = format!("redis://127.0.0.1:{}", proxy.port());
        let here = far.process().await;
        let object = || json!({ "type": "object" });
        let cutting = Arc::clone(&proxy);
        let cut = move |_: Value, _: ToolCx| {
            cutting.refuse(true);
            async { ToolResult::<Value>::Ok(json!("cut")) }
        };
        let model = MockModel::new().calls("cut", json!({}));
        let agent = Agent::<String>::builder("worker")
            .model(model.calls("ask", json!({})))
            .tools(Tool::raw("cut", "Cuts the connections.", object(), cut))
            .tools(Tool::client_raw("ask", "Asks the client.", object()))
            .build()
            .unwrap();
        let handle = host(&here).execute(&agent, "go").await.unwrap();
        let ended = handle.ended().await.unwrap();
        assert!(ended.status.is_suspended(), "{ended:?}");
        let before = ended.suspended.unwrap().before.unwrap();
        assert_ne!(before.sequence, 0, "{before:?}");
    });
}

/// What was acknowledged is there after the server was killed, and nothing counts as lost.
#[test]
fn streams_on_a_durable_server_survive_its_death() {
    if shared(REDIS).is_none() {
        return;
    }
    let mut server = RedisServer::start(RedisSettings::durable()).unwrap();
    let deployment = Deployment::on(server.url());
    let mut started = None;
    with_servers(async {
        let process = deployment.process().await;
        let relayed = process.relayed();
        let root = created(&relayed).await;
        relayed.commit(says(&root, "1")).await.unwrap();
        writes(&relayed, &root, 0, "2").await.unwrap();
        started = Some((process, relayed, root));
    });
    let Some((process, relayed, root)) = started else {
        return;
    };
    for round in 0..3 {
        server.kill().unwrap();
        with_servers(async {
            // It is made all the same, and said later.
            let receipt = relayed.commit(says(&root, "3")).await.unwrap();
            assert_eq!(receipt.sequence, Sequence::START);
            let refused = writes(&relayed, &root, 0, "no").await.unwrap_err();
            assert!(
                matches!(&refused, StreamError::Store(error) if error.is_retryable()),
                "{refused}"
            );
        });
        server.start_again().unwrap();
        with_servers(async {
            writes(&relayed, &root, 0, "4").await.unwrap();
            let expected = format!("12{}", "34".repeat(round + 1));
            assert_eq!(words(&process.streams, &root).await.concat(), expected);
            let info = relayed.info(&root).await.unwrap().unwrap();
            assert_eq!(info.trimmed, Sequence::START);
        });
    }
}

#[test]
fn what_a_dead_process_left_is_relayed_by_the_sweep_of_another() {
    with_servers(async {
        let deployment = Deployment::new();
        let (dead, other) = (deployment.process().await, deployment.process().await);
        let root = created(&dead.relayed()).await;
        // It ends before it relays.
        for text in ["one", "two"] {
            dead.store.commit(says(&root, text)).await.unwrap();
        }
        assert!(words(&other.streams, &root).await.is_empty());
        let relayed = other.relayed();
        assert_eq!(relayed.relay_leftovers(10).await.unwrap(), 1);
        assert_eq!(words(&other.streams, &root).await, ["one", "two"]);
        assert_eq!(relayed.relay_leftovers(10).await.unwrap(), 0);
        // Nor does anybody write before what is left.
        dead.store.commit(says(&root, "three")).await.unwrap();
        writes(&relayed, &root, 0, "four").await.unwrap();
        dead.store.commit(says(&root, "five")).await.unwrap();
        let receipt = relayed.commit(says(&root, "six")).await.unwrap();
        assert_eq!(receipt.sequence, Sequence(6));
        let expected = ["one", "two", "three", "four", "five", "six"];
        assert_eq!(words(&other.streams, &root).await, expected);
    });
}

#[test]
fn an_old_holder_writes_nothing_after_it_was_taken_over() {
    with_servers(async {
        let deployment = Deployment::new();
        let (old, new) = (deployment.process().await, deployment.process().await);
        let holder = old.relayed();
        let root = created(&holder).await;
        writes(&holder, &root, 0, "mine").await.unwrap();
        // The take-over is in the database, and whoever made it died before it was relayed.
        let raise = Commit::new(root.clone(), NOW).then(Change::RaiseFence);
        new.store.commit(raise).await.unwrap();
        for _ in 0..2 {
            let refused = writes(&holder, &root, 0, "late").await.unwrap_err();
            assert!(
                matches!(refused, StreamError::Superseded { .. }),
                "{refused}"
            );
        }
        let relayed = new.relayed();
        writes(&relayed, &root, 1, "theirs").await.unwrap();
        // Relayed once more, an earlier entry changes nothing.
        let raise = Commit::new(root.clone(), NOW).then(Change::RaiseFence);
        new.store.commit(raise).await.unwrap();
        let early = new.store.entries(&root, 0, 10).await.unwrap();
        writes(&relayed, &root, 2, "again").await.unwrap();
        new.streams.relay(&root, &early).await.unwrap();
        let refused = writes(&relayed, &root, 1, "late").await.unwrap_err();
        assert!(
            matches!(refused, StreamError::Superseded { .. }),
            "{refused}"
        );
        assert_eq!(
            words(&new.streams, &root).await,
            ["mine", "theirs", "again"]
        );
    });
}

/// Sessions of one root are written by several processes at once, some of which relay, while others look for leftovers:
/// each chunk is relayed once, those of a session in their order, and no entry is taken for lost.
#[test]
fn commits_at_the_same_time_are_relayed_in_the_order_of_their_numbers() {
    const SESSIONS: usize = 6;
    const COMMITS: usize = 25;
    with_servers(async {
        let deployment = Deployment::new();
        let processes = [deployment.process().await, deployment.process().await];
        let [here, there] = processes.each_ref().map(Process::relayed);
        let root = created(&here).await;
        let clock = VirtualClock::new(NOW);
        let sessions = Sessions::new(&here, &clock);
        let mut writers = Vec::new();
        for index in 0..SESSIONS {
            let child = SessionId::new(format!("child-{index}")).unwrap();
            let mut new = NewSession::of("agent");
            new.family = Some((root.clone(), root.clone()));
            sessions.create_session(&child, new).await.unwrap();
            let dying = processes[index % 2].store.clone();
            let living = [&here, &there][index % 2].clone();
            let root = root.clone();
            writers.push(tokio::spawn(async move {
                for count in 0..COMMITS {
                    // One that says nothing concerns the child alone, and has an entry, too.
                    let silent = Commit::new(root.clone(), NOW);
                    let silent = silent.then_in(child.clone(), Change::RaiseFence);
                    dying.commit(silent).await.unwrap();
                    let says = says(&root, &format!("{index}:{count}"));
                    if count % 3 == 0 {
                        dying.commit(says).await.unwrap();
                    } else {
                        living.commit(says).await.unwrap();
                    }
                }
            }));
        }
        for writer in writers {
            writer.await.unwrap();
        }
        there.relay_leftovers(10).await.unwrap();
        let info = here.info(&root).await.unwrap().unwrap();
        assert_eq!(info.trimmed, Sequence::START, "nothing was lost");
        let all = words(&processes[0].streams, &root).await;
        for index in 0..SESSIONS {
            let own = all
                .iter()
                .filter(|word| word.starts_with(&format!("{index}:")));
            let expected: Vec<_> = (0..COMMITS)
                .map(|count| format!("{index}:{count}"))
                .collect();
            assert!(own.eq(&expected), "{all:?}");
        }
        assert_eq!(all.len(), SESSIONS * COMMITS);
    });
}
