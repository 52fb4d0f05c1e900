//! A busy server: many runs, each with several readers, and a steady stream of new ones. Nothing is lost.
//!
//! `HELIX_LOAD=1` makes it a long one: 1,000 readers of 100 runs and 200 starts a second for a minute. It
//! prints the times of the starts, and holds the server to a memory that does not grow.
//!
//! The quotas are those that a server has when nothing is said; the load is spread over twenty users.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::task::{JoinHandle, JoinSet};

use crate::dice::number;
use crate::kit::{Folder, config};
use crate::measures::{MB, address, load_average, percentile, resident};
use crate::raw_http::{Events, StreamSummary, ask, get};
use crate::serving::Served;

const USERS: usize = 20;
/// How many tasks check the outcome of starts at a time.
const CHECKERS: usize = 8;
/// How many starts there are between two looks at the memory.
const SAMPLE_EVERY: usize = 100;
/// A start that was sent so long after its time is counted as late: the load generator was too slow.
const LATE: Duration = Duration::from_millis(20);

/// How much there is to do.
#[derive(Debug, Clone, Copy)]
struct Load {
    /// The number of runs that are always running.
    sessions: usize,
    /// Readers of each of them.
    readers: usize,
    steps: usize,
    words: usize,
    delay_ms: u64,
    /// Runs that are started meanwhile.
    starts: usize,
    start_every: Duration,
}

impl Load {
    const SMALL: Self = Self {
        sessions: 4,
        readers: 5,
        steps: 3,
        words: 20,
        delay_ms: 0,
        starts: 40,
        start_every: Duration::ZERO,
    };

    const FULL: Self = Self {
        sessions: 100,
        readers: 10,
        // 75 seconds, if nothing is slow.
        steps: 37,
        words: 40,
        delay_ms: 50,
        starts: 200 * 60,
        start_every: Duration::from_millis(5),
    };

    /// The text of one step of a long run; no word occurs twice.
    fn step_text(self) -> String {
        (0..self.words).map(|word| format!("w{word:03} ")).collect()
    }

    fn folder(self) -> Folder {
        let step = json!({
            "text": self.step_text(), "chunk_chars": 5, "delay_ms": self.delay_ms,
            "tool_calls": [ { "name": "clock" } ],
        });
        let mut long = vec![step; self.steps];
        long.push(json!({ "text": LAST }));
        let script = json!({
            "rules": [ { "match": "long", "steps": long } ],
            "default": [ { "text": "You said {{last_user}}.", "chunk_chars": 4 } ],
        });
        let token = |n| format!("[[server.tokens]]\nenv = \"USER_{n}\"\nuser = \"user-{n}\"\n");
        let more = format!(
            "{}[agents.a]\nmodel = \"fast\"\nmax_steps = 100\ntools = [\"clock\"]\n\
             [tools.clock]\nkind = \"builtin\"\nbuiltin = \"clock\"\n",
            (0..USERS).map(token).collect::<String>()
        );
        Folder::with(&config(&more), &script.to_string())
    }
}

const LAST: &str = "That is all.";

fn serve(folder: &Folder) -> Served {
    let mut command = folder.command(&["serve", "--listen", "127.0.0.1:0"]);
    for n in 0..USERS {
        command.env(format!("USER_{n}"), token(n));
    }
    Served::spawn(command)
}

/// The token with which the n-th session is started and read.
fn token(n: usize) -> String {
    format!("token-{}", n % USERS)
}

async fn start(to: SocketAddr, n: usize, session: &str, message: &str) {
    let body = json!({ "sessionId": session, "agentType": "a", "message": message });
    let (status, told) = ask(to, &token(n), "POST /start", &body.to_string()).await;
    assert_eq!(status, 200, "{session}: {told}");
}

/// Starts the long runs, and connects their readers.
async fn open(to: SocketAddr, load: Load) -> Vec<(usize, JoinHandle<StreamSummary>)> {
    let mut readers = Vec::new();
    for n in 0..load.sessions {
        let session = format!("long-{n}");
        start(to, n, &session, "a long one").await;
        for _ in 0..load.readers {
            let events = Events::of(to, &token(n), &session).await;
            readers.push((n, tokio::spawn(events.read(|_| ()))));
        }
    }
    readers
}

/// Measurements of the starts.
#[derive(Default)]
struct Started {
    /// From when a start was due until it was answered.
    times: Vec<Duration>,
    late: usize,
    memory: Vec<usize>,
}

/// Starts runs at their times, whatever became of those before.
async fn start_all(served: &Served, load: Load) -> Started {
    let to = address(served);
    let mut started = Started::default();
    let mut all = JoinSet::new();
    let begun = Instant::now();
    for n in 0..load.starts {
        let due = begun + load.start_every * u32::try_from(n).unwrap();
        tokio::time::sleep_until(due.into()).await;
        all.spawn(async move {
            let is_late = due.elapsed() > LATE;
            start(to, n, &format!("short-{n}"), &format!("this is {n}")).await;
            (due.elapsed(), is_late)
        });
        if n.is_multiple_of(SAMPLE_EVERY) {
            started.memory.push(resident(served));
        }
    }
    for (took, is_late) in all.join_all().await {
        started.times.push(took);
        started.late += usize::from(is_late);
    }
    started
}

/// Reads a session's stream from its start: what it is, and the text in it.
async fn stream(to: SocketAddr, n: usize, session: &str) -> (StreamSummary, String) {
    let mut text = String::new();
    let events = Events::of(to, &token(n), session).await;
    let told = events.read(|chunk| {
        let chunk: Value = serde_json::from_str(chunk).unwrap();
        if chunk["type"] == "text_delta" {
            text.push_str(chunk["delta"].as_str().unwrap());
        }
    });
    (told.await, text)
}

/// A session ran once, to its end, and has this history: roles, and what was said under them.
async fn check_session(to: SocketAddr, n: usize, session: &str, history: &[(&str, &str)]) {
    let token = token(n);
    let runs = get(to, &token, &format!("/sessions/{session}/runs")).await;
    let runs = runs["items"].as_array().unwrap();
    let ended: Vec<_> = runs.iter().map(|run| &run["status"]).collect();
    assert_eq!(ended, ["completed"], "{session}");
    let path = format!("/sessions/{session}/messages?limit=1000");
    let told = get(to, &token, &path).await;
    let messages = told["messages"].as_array().unwrap();
    let said = messages.iter().map(|message| {
        let role = message["role"].as_str().unwrap();
        // A tool says what the time is.
        let content = message["content"].as_str().filter(|_| role != "tool");
        (role, content.unwrap_or_default())
    });
    assert_eq!(said.collect::<Vec<_>>(), history, "{session}");
}

async fn check_short(to: SocketAddr, n: usize) {
    let session = format!("short-{n}");
    let message = format!("this is {n}");
    let reply = format!("You said {message}.");
    let (told, text) = stream(to, n, &session).await;
    assert_eq!(text, reply, "{session}");
    let end: Value = serde_json::from_str(&told.end).unwrap();
    assert_eq!(end["status"], json!("completed"), "{session}");
    let history = [("user", message.as_str()), ("assistant", &reply)];
    check_session(to, n, &session, &history).await;
}

/// Gives what every reader of the session must have been told.
async fn check_long(to: SocketAddr, n: usize, load: Load) -> StreamSummary {
    let session = format!("long-{n}");
    let (told, text) = stream(to, n, &session).await;
    let step = load.step_text();
    assert_eq!(
        text,
        format!("{}{LAST}", step.repeat(load.steps)),
        "{session}"
    );
    let mut history = vec![("user", "a long one")];
    for _ in 0..load.steps {
        history.extend([("assistant", step.as_str()), ("tool", "")]);
    }
    history.push(("assistant", LAST));
    check_session(to, n, &session, &history).await;
    told
}

async fn check_starts(to: SocketAddr, starts: usize) {
    let checker = |first: usize| async move {
        for n in (first..starts).step_by(CHECKERS) {
            check_short(to, n).await;
        }
    };
    let checkers: JoinSet<_> = (0..CHECKERS).map(checker).collect();
    checkers.join_all().await;
}

#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread")]
async fn many_readers_and_many_starts_lose_nothing() {
    let is_full = number("HELIX_LOAD", 0) > 0;
    let load = if is_full { Load::FULL } else { Load::SMALL };
    let folder = load.folder();
    let served = serve(&folder);
    let to = address(&served);
    let readers = open(to, load).await;
    let started = start_all(&served, load).await;
    let busy = load_average();
    let reading = readers.iter().filter(|(_, one)| !one.is_finished());
    let reading = reading.count();
    check_starts(to, load.starts).await;
    let mut told = Vec::new();
    for (n, reader) in readers {
        told.push((n, reader.await.unwrap()));
    }
    let mut chunks = 0;
    for readers in told.chunk_by(|(one, _), (other, _)| one == other) {
        let (n, _) = readers[0];
        let all = check_long(to, n, load).await;
        for (_, told) in readers {
            assert_eq!(told, &all, "a reader of long-{n} was told something else");
            chunks += told.chunks;
        }
    }
    assert!(chunks >= (load.sessions * load.readers * load.steps) as u64);
    if is_full {
        assert_eq!(reading, told.len(), "runs ended before the load did");
        let figures = Figures::of(started, chunks, resident(&served), busy);
        eprintln!("load: {figures:?}");
        figures.check();
    }
}

/// The figures of a load test; memory is in megabytes.
#[derive(Debug)]
#[expect(dead_code, reason = "all of them are printed")]
struct Figures {
    starts: usize,
    late: usize,
    start_p50: Duration,
    start_p99: Duration,
    slowest_start: Duration,
    chunks_read: u64,
    /// The median while the second and the last third of the starts were made.
    second_third: usize,
    last_third: usize,
    most: usize,
    after: usize,
    load_average: String,
}

impl Figures {
    fn of(started: Started, chunks_read: u64, after: usize, load_average: String) -> Self {
        let Started {
            mut times,
            late,
            memory,
        } = started;
        let third = memory.len() / 3;
        let median = |samples: &[usize]| {
            let mut sorted = samples.to_vec();
            sorted.sort_unstable();
            sorted[sorted.len() / 2] / MB
        };
        Self {
            starts: times.len(),
            late,
            start_p50: percentile(&mut times, 50),
            start_p99: percentile(&mut times, 99),
            slowest_start: percentile(&mut times, 100),
            chunks_read,
            second_third: median(&memory[third..2 * third]),
            last_third: median(&memory[2 * third..]),
            most: memory.iter().max().unwrap() / MB,
            after: after / MB,
            load_average,
        }
    }

    /// 4,000 sessions are started in a third: what is kept of each would show.
    fn check(&self) {
        let (before, now) = (self.second_third, self.last_third);
        assert!(now <= before + before / 10 + 2, "{before} MB became {now}");
    }
}
