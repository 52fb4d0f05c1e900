//! Tests of two servers over one store, of which one is killed or frozen while it performs a run.
//!
//! `HELIX_SEED` chooses the moments, and `HELIX_TAKE_OVERS` how many servers are killed for each store; then leases have
//! the length that they have by default.

use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::databases::on_each_store;
use crate::dice::{Dice, number};
use crate::killed_server::{check, counting, folder, read};
use crate::kit::{Folder, config_on};
use crate::serving::Served;

on_each_store!(
    another_server_continues_what_a_killed_one_performed
    a_frozen_server_writes_nothing_after_its_run_was_taken_over
);

/// Sends a signal to a server.
fn send(signal: &str, server: &Served) {
    let pid = server.id().to_string();
    let sent = Command::new("kill").args([signal, &pid]).status();
    assert!(sent.unwrap().success());
}

async fn start(server: &Served, message: &str) {
    let start = json!({ "sessionId": "s", "agentType": "a", "message": message });
    let (status, answer) = server.ask("/start", Some(start), None).await;
    assert_eq!(status, 200, "{answer}");
}

/// A reader at one server sees the whole run, although the server that began it is killed. Returns how long it took
/// from there to the next chunk.
async fn killed(store: &str, dice: &mut Dice) -> Duration {
    let (address, reached) = counting().await;
    let folder = folder(store, &address);
    let doomed = Served::start(&folder, &["serve"]);
    let other = Served::start(&folder, &["serve"]);
    start(&doomed, "go").await;
    let mut seen = Vec::new();
    let chunks = 1 + usize::try_from(dice.below(40)).unwrap();
    read(&other, &mut seen, chunks).await;
    doomed.kill();
    let killed = Instant::now();
    read(&other, &mut seen, 1).await;
    let pause = killed.elapsed();
    while !read(&other, &mut seen, usize::MAX).await {}
    check(&other, &seen, &reached).await;
    pause
}

#[expect(
    clippy::print_stderr,
    reason = "the seed is needed to repeat it, and the figure is wanted"
)]
async fn another_server_continues_what_a_killed_one_performed(store: &str) {
    let (seed, kills) = (number("HELIX_SEED", 5_113), number("HELIX_TAKE_OVERS", 0));
    let lease = if kills == 0 {
        "[runtime]\nlease_ms = 1000\n"
    } else {
        ""
    };
    let kind = store.split('"').nth(1).unwrap_or_default();
    let kind = kind.split_once(':').map_or("", |(kind, _)| kind);
    eprintln!("{kind}: HELIX_SEED={seed} HELIX_TAKE_OVERS={kills}");
    let mut dice = Dice::new(seed);
    let mut longest = Duration::ZERO;
    for number in 0..kills.max(1) {
        // Every run has a place of its own in the store.
        let store = store.replace("cli_", &format!("cli{number}_"));
        longest = longest.max(killed(&format!("{store}{lease}"), &mut dice).await);
    }
    eprintln!("{kind}: continued after {} ms at most", longest.as_millis());
}

const SCRIPT: &str = r#"{ "default": [ { "text": "TEXT", "chunk_chars": 4, "delay_ms": 5 } ] }"#;

/// The holder of a lease stands still until another server has taken its run over and ended it.
async fn a_frozen_server_writes_nothing_after_its_run_was_taken_over(store: &str) {
    let more = "[runtime]\nlease_ms = 1000\n[server]\nallow_unauthenticated = true\n[agents.a]\nmodel = \"fast\"\n";
    let script = SCRIPT.replace("TEXT", &"word ".repeat(300));
    let folder = Folder::with(&config_on(store, more), &script);
    let frozen = Served::start(&folder, &["serve"]);
    let other = Served::start(&folder, &["serve"]);
    start(&frozen, "go").await;
    let mut seen = Vec::new();
    read(&other, &mut seen, 5).await;
    send("-STOP", &frozen);
    while !read(&other, &mut seen, usize::MAX).await {}
    let told = async || other.ask("/sessions/s/messages", None, None).await.1;
    let messages = told().await;
    assert_eq!(messages["total"], 2, "{messages}");
    let mut before = Vec::new();
    read(&other, &mut before, usize::MAX).await;
    assert!(
        before
            .iter()
            .any(|(_, chunk)| chunk.contains("executor_superseded")),
        "{before:?}"
    );

    send("-CONT", &frozen);
    // It answers again, and when it has ended it has written all that it would.
    let (status, now) = frozen.ask("/status?sessionId=s", None, None).await;
    assert_eq!((status, &now["status"]), (200, &json!("completed")));
    assert_eq!(frozen.terminate(), Some(0));
    assert_eq!(told().await, messages);
    let mut after = Vec::new();
    assert!(read(&other, &mut after, usize::MAX).await);
    assert_eq!(after, before);
    let (_, runs) = other.ask("/sessions/s/runs", None, None).await;
    assert_eq!(runs["items"].as_array().map(Vec::len), Some(1), "{runs}");
}
