//! Tests of `helix serve`, killed at random moments of a run and started again.
//!
//! `HELIX_SEED` chooses the moments, `HELIX_SERVER_KILLS` the number of runs.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::dice::{Dice, number};
use crate::kit::{Folder, config_on};
use crate::serving::Served;
use crate::sse::{Frame, Reader};

const STEPS: usize = 4;

/// The calls that reached the service: the tool, the call, and its idempotency key.
pub(crate) type Reached = Arc<Mutex<Vec<(String, String, String)>>>;

/// Starts a service that counts calls and answers the clients that are still connected.
pub(crate) async fn counting() -> (String, Reached) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let reached = Reached::default();
    let counts = Arc::clone(&reached);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(count(stream, Arc::clone(&counts)));
        }
    });
    (address, reached)
}

async fn count(mut stream: TcpStream, reached: Reached) {
    let mut bytes = Vec::new();
    let mut piece = [0; 4096];
    let body: Value = loop {
        // The client may have been killed during the request.
        match stream.read(&mut piece).await {
            Ok(0) | Err(_) => return,
            Ok(count) => bytes.extend_from_slice(&piece[..count]),
        }
        let text = String::from_utf8_lossy(&bytes);
        let body = text.split_once("\r\n\r\n").map(|(_, body)| body);
        if let Some(Ok(body)) = body.map(serde_json::from_str) {
            break body;
        }
    };
    let text = String::from_utf8_lossy(&bytes).to_lowercase();
    let key = text
        .lines()
        .find_map(|line| line.strip_prefix("idempotency-key: "));
    let name = |key: &str| body[key].as_str().unwrap().to_owned();
    let entry = (name("tool"), name("toolCallId"), key.unwrap().to_owned());
    reached.lock().unwrap().push(entry);
    let answer = "HTTP/1.1 200 X\r\ncontent-length: 4\r\nconnection: close\r\n\r\n\"ok\"";
    let _ = stream.write_all(answer.as_bytes()).await;
}

/// A folder with an agent that calls a service in each of its steps.
pub(crate) fn folder(store: &str, address: &str) -> Folder {
    let tool = |name: &str, idempotent: bool| {
        format!(
            "[tools.{name}]\nkind = \"http\"\nurl = \"http://{address}/\"\nidempotent = {idempotent}\n"
        )
    };
    let call = json!({
        "text": "I continue with it.", "chunk_chars": 2, "delay_ms": 1,
        "tool_calls": [ { "name": "once" }, { "name": "again" } ],
    });
    let mut script = vec![call; STEPS];
    script.push(json!({ "text": "All done." }));
    let more = format!(
        "[server]\nallow_unauthenticated = true\n[agents.a]\nmodel = \"fast\"\n\
         tools = [\"once\", \"again\"]\n{}{}",
        tool("once", false),
        tool("again", true)
    );
    let text = config_on(store, &more);
    Folder::with(&text, &json!({ "default": script }).to_string())
}

/// Reads chunks after a sequence until `limit` have come or the stream ended; returns whether it
/// ended.
pub(crate) async fn read(served: &Served, seen: &mut Vec<(u64, String)>, limit: usize) -> bool {
    let after = seen.last().map_or(0, |(id, _)| *id);
    let mut reader = Reader::after(served, "s", after).await;
    for _ in 0..limit {
        match reader.next().await {
            Some(Frame::Chunk(id, data)) => seen.push((id, data)),
            Some(Frame::End(_)) => return true,
            None => return false,
        }
    }
    false
}

async fn killed_run(dice: &mut Dice) {
    let (address, reached) = counting().await;
    let folder = folder("[store]\nurl = \"sqlite:helix.db\"\n", &address);
    let mut served = Served::start(&folder, &["serve"]);
    let start = json!({ "sessionId": "s", "agentType": "a", "message": "go" });
    let (status, _) = served.ask("/start", Some(start), None).await;
    assert_eq!(status, 200);
    let mut seen = Vec::new();
    let kills = 1 + dice.below(3);
    for _ in 0..kills {
        let chunks = 1 + usize::try_from(dice.below(40)).unwrap();
        if read(&served, &mut seen, chunks).await {
            break;
        }
        served.kill();
        served = Served::start(&folder, &["serve"]);
    }
    while !read(&served, &mut seen, usize::MAX).await {}
    check(&served, &seen, &reached).await;
    served.kill();
}

/// Checks that the run of session `s` is complete, that no call was made twice that must not be, and that a reader who
/// has seen these chunks has missed nothing.
pub(crate) async fn check(served: &Served, seen: &[(u64, String)], reached: &Reached) {
    let (_, now) = served.ask("/status?sessionId=s", None, None).await;
    assert_eq!(now["status"], json!("completed"), "{now}");
    let (_, told) = served
        .ask("/sessions/s/messages?limit=200", None, None)
        .await;
    let messages = told["messages"].as_array().unwrap();
    let roles: Vec<_> = messages
        .iter()
        .map(|one| one["role"].as_str().unwrap())
        .collect();
    let mut wanted = vec!["user"];
    for _ in 0..STEPS {
        wanted.extend(["assistant", "tool", "tool"]);
    }
    wanted.push("assistant");
    assert_eq!(roles, wanted);
    let calls = messages
        .iter()
        .filter_map(|one| one["toolCalls"].as_array());
    let made: Vec<_> = calls.flatten().map(|call| call["id"].to_string()).collect();
    let unique: BTreeSet<_> = made.iter().collect();
    assert_eq!(unique.len(), 2 * STEPS, "{made:?}");

    let mut keys: BTreeMap<(String, String), Vec<String>> = BTreeMap::new();
    for (tool, call, key) in reached.lock().unwrap().clone() {
        keys.entry((tool, call)).or_default().push(key);
    }
    for ((tool, call), keys) in &keys {
        let one: BTreeSet<_> = keys.iter().collect();
        assert_eq!(one.len(), 1, "{tool} {call} came under {keys:?}");
        assert!(
            tool == "again" || keys.len() == 1,
            "{tool} {call} ran {} times",
            keys.len()
        );
    }

    // Sequences only grow, and reading everything again gives the same remaining chunks.
    assert!(seen.is_sorted_by(|(one, _), (other, _)| one < other));
    let mut again = Vec::new();
    assert!(read(served, &mut again, usize::MAX).await);
    let kept: BTreeMap<_, _> = seen.iter().cloned().collect();
    for (id, data) in &again {
        let known = kept.get(id);
        assert!(known.is_none_or(|known| known == data), "{id}: {data}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_server_loses_and_repeats_nothing() {
    let seed = number("HELIX_SEED", 24_301);
    let runs = number("HELIX_SERVER_KILLS", 15);
    eprintln!("HELIX_SEED={seed} HELIX_SERVER_KILLS={runs}");
    let mut dice = Dice::new(seed);
    for _ in 0..runs {
        killed_run(&mut dice).await;
    }
}
