//! Tests of streams of `helix serve`: read live, resumed from anywhere, by many readers, and after
//! a restart.
//!
//! `HELIX_SEED` chooses the sequences. `HELIX_READERS_SECONDS` makes the test with many readers
//! long: 200 of them on 20 sessions.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::dice::{Dice, number};
use crate::kit::{Folder, config};
use crate::serving::Served;
use crate::sse::{Frame, Reader};

/// A server whose agent makes this number of steps and words, with a delay between two words.
fn folder(steps: usize, words: usize, delay_ms: u64) -> Folder {
    let step = json!({
        "text": "so it says ".repeat(words), "chunk_chars": 11, "delay_ms": delay_ms,
        "tool_calls": [ { "name": "clock" } ],
    });
    let mut script = vec![step; steps];
    script.push(json!({ "text": "That is all." }));
    let agent = "[server]\nallow_unauthenticated = true\n[agents.a]\nmodel = \"fast\"\n\
                 max_steps = 100\ntools = [\"clock\"]\n[tools.clock]\nkind = \"builtin\"\n\
                 builtin = \"clock\"\n";
    Folder::with(&config(agent), &json!({ "default": script }).to_string())
}

async fn start(served: &Served, session: &str) {
    let start = json!({ "sessionId": session, "agentType": "a", "message": "go" });
    let (status, told) = served.ask("/start", Some(start), None).await;
    assert_eq!(status, 200, "{told}");
}

/// Returns the frames for a reader that resumes after a sequence.
fn rest(all: &[Frame], after: u64) -> &[Frame] {
    let is_before = |frame: &&Frame| matches!(frame, Frame::Chunk(id, _) if *id <= after);
    &all[all.iter().take_while(is_before).count()..]
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_is_the_same_live_from_anywhere_and_after_a_restart() {
    let seed = number("HELIX_SEED", 24_301);
    eprintln!("HELIX_SEED={seed}");
    let mut dice = Dice::new(seed);
    let folder = folder(4, 30, 1);
    let mut served = Served::start(&folder, &["serve"]);
    start(&served, "s").await;
    let live = Reader::after(&served, "s", 0).await.all().await;
    let last = match live.as_slice() {
        [.., Frame::Chunk(last, _), Frame::End(_)] => *last,
        other => panic!("{other:?}"),
    };
    assert!(last > 120, "{last} chunks");
    for restart in 0..3 {
        for n in 0..100 {
            let after = dice.below(last + 2);
            let reader = match n % 2 {
                0 => Reader::after(&served, "s", after).await,
                // As a browser resumes.
                _ => {
                    let id = after.to_string();
                    let path = "/sse?sessionId=s&fromSequence=0";
                    let headers = [("last-event-id", id.as_str())];
                    Reader::of(served.get_with(path, &headers).await)
                }
            };
            let read = reader.all().await;
            assert_eq!(read, rest(&live, after), "after {after}, restart {restart}");
        }
        match restart {
            0 => assert_eq!(served.terminate(), Some(0)),
            _ => served.kill(),
        }
        served = Served::start(&folder, &["serve"]);
    }
}

/// Reads a session to its end; an impatient reader disconnects every few chunks and resumes.
async fn read(served: Arc<Served>, session: String, patience: usize) -> Vec<Frame> {
    let mut all: Vec<Frame> = Vec::new();
    loop {
        let after = match all.last() {
            Some(Frame::Chunk(id, _)) => *id,
            _ => 0,
        };
        let mut reader = Reader::after(&served, &session, after).await;
        for _ in 0..patience {
            let Some(frame) = reader.next().await else {
                break;
            };
            let is_end = matches!(frame, Frame::End(_));
            all.push(frame);
            if is_end {
                return all;
            }
        }
    }
}

fn text_of(chunk: &Value) -> Option<String> {
    let is_text = chunk["type"] == "text_delta";
    is_text.then(|| chunk["delta"].as_str().unwrap().to_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn many_readers_of_many_runs_lose_nothing() {
    let seconds = number("HELIX_READERS_SECONDS", 0);
    let (sessions, readers, steps, delay_ms) = match seconds {
        0 => (4, 5, 3, 0),
        seconds => (20, 10, usize::try_from(seconds).unwrap(), 20),
    };
    let folder = folder(steps, 50, delay_ms);
    let served = Arc::new(Served::start(&folder, &["serve"]));
    let mut reading = Vec::new();
    for n in 0..sessions {
        let session = format!("s{n}");
        start(&served, &session).await;
        for reader in 0..readers {
            let patience = if reader % 2 == 0 { usize::MAX } else { 40 };
            let read = read(Arc::clone(&served), session.clone(), patience);
            reading.push((session.clone(), tokio::spawn(read)));
        }
    }
    let mut chunks = 0;
    for (session, reading) in reading {
        let read = reading.await.unwrap();
        let all = Reader::after(&served, &session, 0).await.all().await;
        assert!(read == all, "a reader of {session} read something else");
        let said = all.iter().filter_map(|frame| match frame {
            Frame::Chunk(_, data) => text_of(&serde_json::from_str(data).unwrap()),
            Frame::End(_) => None,
        });
        let whole = format!("{}That is all.", "so it says ".repeat(50 * steps));
        assert_eq!(said.collect::<String>(), whole);
        chunks += all.len();
    }
    let total = sessions * readers;
    eprintln!("{total} readers of {sessions} runs read {chunks} frames, none lost");
}
