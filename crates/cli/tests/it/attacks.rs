//! Tests of one user who overloads the server: large histories that are requested and not read, and
//! silent connections. Other users must be served meanwhile.
//!
//! `HELIX_ATTACKS=1` makes it long, with a large history and thousands of connections, and checks
//! response times and memory.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use serde_json::json;

use crate::dice::number;
use crate::kit::{Folder, config};
use crate::measures::{MB, address, load_average, percentile, resident};
use crate::serving::Served;

/// How often Bob starts something while the attack lasts.
const START_EVERY: Duration = Duration::from_millis(100);

/// The size of the attack.
struct Attack {
    turns: usize,
    turn_bytes: usize,
    /// The number of requests for the whole history whose responses are not read.
    unread: usize,
    /// The number of further such requests, each on its own connection.
    deaf: usize,
    /// The number of connections on which nothing is sent.
    mute: usize,
    /// How long other users are served while times are measured.
    lasts: Duration,
}

/// A configuration with two users.
fn folder() -> Folder {
    let server = "[[server.tokens]]\nenv = \"ALICE\"\nuser = \"alice\"\n\
                  [[server.tokens]]\nenv = \"BOB\"\nuser = \"bob\"\n\
                  [agents.a]\nmodel = \"fast\"\n";
    Folder::with(&config(server), r#"{ "default": [ { "text": "Yes." } ] }"#)
}

fn serve(folder: &Folder) -> Served {
    let mut command = folder.command(&["serve", "--listen", "127.0.0.1:0"]);
    command.env("ALICE", "token-a").env("BOB", "token-b");
    Served::spawn(command)
}

/// Sends a request on a connection of its own.
fn send(to: SocketAddr, token: &str, head: &str, body: &str) -> TcpStream {
    let mut stream = TcpStream::connect(to).unwrap();
    let length = body.len();
    let request = format!(
        "{head} HTTP/1.1\r\nhost: {to}\r\nauthorization: Bearer {token}\r\nconnection: close\r\n\
         content-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
    );
    stream.write_all(request.as_bytes()).unwrap();
    stream
}

/// Returns the status of a response, and its duration.
fn timed(to: SocketAddr, token: &str, head: &str, body: &str) -> (u16, Duration) {
    let begun = Instant::now();
    let mut answer = String::new();
    send(to, token, head, body)
        .read_to_string(&mut answer)
        .unwrap();
    let status = answer.split(' ').nth(1).unwrap().parse().unwrap();
    (status, begun.elapsed())
}

/// Gives Alice a session with this number of turns.
async fn furnish(served: &Served, attack: &Attack) {
    let message = "x".repeat(attack.turn_bytes);
    let start = json!({ "sessionId": "s", "agentType": "a", "message": message });
    let resume = json!({ "sessionId": "s", "mode": "with_message", "message": message });
    for turn in 0..attack.turns {
        let (path, body) = match turn {
            0 => ("/start", &start),
            _ => ("/resume", &resume),
        };
        let (status, told) = served.ask(path, Some(body.clone()), Some("token-a")).await;
        assert_eq!(status, 200, "{told}");
        served.end("s", Some("token-a")).await;
    }
}

/// How many threads of a process read from the store.
fn readers(served: &Served) -> usize {
    let tasks = std::fs::read_dir(format!("/proc/{}/task", served.id())).unwrap();
    let names =
        tasks.filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("comm")).ok());
    names
        .filter(|name| name.starts_with("helix-sqlite-re"))
        .count()
}

/// The measurements of other users during the attack.
struct Measurements {
    healths: Vec<Duration>,
    starts: Vec<Duration>,
    started: Instant,
    most_memory: usize,
}

impl Measurements {
    fn new() -> Self {
        Self {
            healths: Vec::new(),
            starts: Vec::new(),
            started: Instant::now(),
            most_memory: 0,
        }
    }

    /// Bob starts a session, and a probe checks the server.
    fn probe(&mut self, served: &Served, round: usize) {
        let to = address(served);
        let (status, took) = timed(to, "none", "GET /healthz", "");
        assert_eq!(status, 200);
        self.healths.push(took);
        // As often as the limits allow.
        if round < 60 && round.is_multiple_of(10) || self.started.elapsed() > START_EVERY {
            self.started = Instant::now();
            let start =
                json!({ "sessionId": format!("bob-{round}"), "agentType": "a", "message": "hi" });
            let (status, took) = timed(to, "token-b", "POST /start", &start.to_string());
            assert_eq!(status, 200);
            self.starts.push(took);
        }
        self.most_memory = self.most_memory.max(resident(served));
    }
}

#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread")]
async fn clients_that_do_not_read_do_not_block_others() {
    let is_full = number("HELIX_ATTACKS", 0) > 0;
    let attack = match is_full {
        true => Attack {
            turns: 25,
            turn_bytes: 4 * MB,
            unread: 30,
            deaf: 2000,
            mute: 2000,
            lasts: Duration::from_secs(40),
        },
        false => Attack {
            turns: 4,
            turn_bytes: 2 * MB,
            unread: 30,
            deaf: 50,
            mute: 50,
            lasts: Duration::ZERO,
        },
    };
    let folder = folder();
    let served = serve(&folder);
    furnish(&served, &attack).await;
    let before = resident(&served);
    let to = address(&served);
    let all = "GET /sessions/s/messages?limit=1000";
    let ask = |count| -> Vec<_> { (0..count).map(|_| send(to, "token-a", all, "")).collect() };
    let unread = ask(attack.unread);
    let mut seen = Measurements::new();
    (0..20).for_each(|round| seen.probe(&served, round));
    let deaf = ask(attack.deaf);
    let mute: Vec<_> = (0..attack.mute)
        .map(|_| TcpStream::connect(to).unwrap())
        .collect();
    let begun = Instant::now();
    let mut round = 20;
    while round < 60 || begun.elapsed() < attack.lasts {
        seen.probe(&served, round);
        round += 1;
    }
    assert!(readers(&served) <= 4, "as many as there are connections");
    let most = seen.most_memory;
    assert!(most < 300 * MB, "{most} bytes are in use");
    // Each response is a small part of the history, or a refusal.
    for mut stream in unread
        .into_iter()
        .take(if is_full { 0 } else { usize::MAX })
    {
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        let (turn, whole) = (attack.turn_bytes, attack.turns * attack.turn_bytes);
        assert!(answer.len() < turn + MB && answer.len() < whole);
    }
    if is_full {
        let figures = Figures::of(&served, seen, before);
        eprintln!("attack: {figures:?}");
        figures.check();
    }
    drop((deaf, mute));
    assert_eq!(timed(to, "token-a", "GET /sessions", "").0, 200);
}

/// The measured values; memory in megabytes.
#[derive(Debug)]
#[expect(dead_code, reason = "all of them are printed")]
struct Figures {
    healths: usize,
    health_p99: Duration,
    starts: usize,
    start_p99: Duration,
    slowest_start: Duration,
    before: usize,
    most: usize,
    after: usize,
    load_average: String,
}

impl Figures {
    fn of(served: &Served, mut seen: Measurements, before: usize) -> Self {
        // Unread responses are dropped with their connections.
        let begun = Instant::now();
        while resident(served) >= 100 * MB && begun.elapsed() < Duration::from_secs(60) {
            std::thread::yield_now();
        }
        Self {
            healths: seen.healths.len(),
            health_p99: percentile(&mut seen.healths, 99),
            starts: seen.starts.len(),
            start_p99: percentile(&mut seen.starts, 99),
            slowest_start: percentile(&mut seen.starts, 100),
            before: before / MB,
            most: seen.most_memory / MB,
            after: resident(served) / MB,
            load_average: load_average(),
        }
    }

    fn check(&self) {
        assert!(self.health_p99 < Duration::from_millis(100));
        assert!(self.slowest_start < Duration::from_millis(500));
        assert!(self.most < 300 && self.after < 100);
    }
}
