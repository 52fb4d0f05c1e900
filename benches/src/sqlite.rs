//! Measures the SQLite store: its cost beside the same rows written by hand, how it groups commits,
//! and how many bytes it stores.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use helix_agents_core::id::{AgentId, RunId, SessionId};
use helix_agents_core::store::{Change, Commit, Fence, Page, SessionStore};
use helix_agents_core::stream::{
    Chunk, ChunkOrigin, ChunkPayload, Sequence, StreamManager, StreamReader, StreamWriter,
};
use helix_agents_core::time::Timestamp;
use helix_agents_core::transcript::PairedStep;
use helix_agents_store_sqlite::SqliteStore;
use helix_agents_testkit::block_on;

use crate::bare::Bare;
use crate::measure::{Report, median, print_figure};
use crate::reference::{Reference, reference_step};

pub(crate) type Outcome<T> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

pub(crate) const NOW: Timestamp = Timestamp::from_millis(1_700_000_000_000);

type Part = fn(&mut Report) -> Outcome<()>;

/// A folder that is removed at the end.
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new(name: &str) -> Outcome<Self> {
        let path = std::env::temp_dir().join(format!("helix-bench-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&path)?;
        Ok(Self(path))
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A session on SQLite, ready for steps.
struct Subject {
    store: SqliteStore,
    reference: Reference,
}

impl Subject {
    fn create(store: &SqliteStore, name: &str) -> Outcome<Self> {
        Ok(Self {
            store: store.clone(),
            reference: block_on(Reference::create(store, name))?,
        })
    }

    fn step(&mut self) -> Outcome<()> {
        block_on(self.reference.step(&self.store))
    }
}

pub(crate) fn run(report: &mut Report) {
    let groups: [(&str, Part); 6] = [
        ("one session", one_session),
        ("concurrent sessions", concurrent),
        ("deltas", deltas),
        ("wake-up", wake_up),
        ("bytes", bytes),
        ("resume", resume),
    ];
    for (name, group) in groups {
        if let Err(error) = group(report) {
            report.broken(name, &error.to_string());
        }
    }
}

fn one_session(report: &mut Report) -> Outcome<()> {
    const STEPS: usize = 40;
    let folder = Folder::new("one")?;
    let store = block_on(SqliteStore::open(folder.file("store.db")))?;
    let mut subject = Subject::create(&store, "one")?;
    let mut bare = Bare::open(&folder.file("bare.db"))?;
    let mut times = [Vec::new(), Vec::new()];
    for _ in 0..15 {
        let start = Instant::now();
        for _ in 0..STEPS {
            bare.step()?;
        }
        times[0].push(start.elapsed().as_secs_f64() / STEPS as f64 * 1e9);
        let start = Instant::now();
        for _ in 0..STEPS {
            subject.step()?;
        }
        times[1].push(start.elapsed().as_secs_f64() / STEPS as f64 * 1e9);
    }
    let [bare, store] = times.map(median);
    report.at_most(
        ("step by hand, 2 commits", bare),
        ("step through the store", store),
        1.15,
    );
    Ok(())
}

fn concurrent(report: &mut Report) -> Outcome<()> {
    const SESSIONS: usize = 100;
    const STEPS: usize = 10;
    let folder = Folder::new("many")?;
    let store = block_on(SqliteStore::open(folder.file("store.db")))?;
    let rate = |sessions: usize, steps: usize, round: usize| -> Outcome<f64> {
        let mut subjects = (0..sessions)
            .map(|n| Subject::create(&store, &format!("s{round}-{sessions}-{n}")))
            .collect::<Outcome<Vec<_>>>()?;
        let failed = AtomicUsize::new(0);
        let start = Instant::now();
        std::thread::scope(|scope| {
            for subject in &mut subjects {
                scope.spawn(|| {
                    for _ in 0..steps {
                        let done = subject.step().is_ok();
                        failed.fetch_add(usize::from(!done), Ordering::Relaxed);
                    }
                });
            }
        });
        if failed.into_inner() > 0 {
            return Err("a commit failed".into());
        }
        Ok((2 * sessions * steps) as f64 / start.elapsed().as_secs_f64())
    };
    let (mut alone, mut together) = (Vec::new(), Vec::new());
    for round in 0..5 {
        alone.push(rate(1, 100, round)?);
        together.push(rate(SESSIONS, STEPS, round)?);
    }
    report.at_least(
        ("commits/s, 1 session", median(alone)),
        ("commits/s, 100 sessions", median(together)),
        3.0,
    );
    Ok(())
}

fn deltas(_: &mut Report) -> Outcome<()> {
    const DELTAS: usize = 20_000;
    const BATCH: usize = 100;
    let folder = Folder::new("deltas")?;
    let file = folder.file("store.db");
    let store = block_on(SqliteStore::open(&file))?;
    let subject = Subject::create(&store, "deltas")?;
    let session = subject.reference.session.clone();
    let mut reader = Command::new(std::env::current_exe()?)
        .arg("read-deltas")
        .arg(&file)
        .args([session.as_str(), &DELTAS.to_string()])
        .stdout(Stdio::piped())
        .spawn()?;
    let base = ChunkOrigin::new(
        AgentId::new("deltas")?,
        "bench",
        session.clone(),
        subject.reference.run,
        1,
    );
    let base = Arc::new(base);
    let writer = StreamWriter::new(session.clone(), session, Fence(1));
    let start = Instant::now();
    for _ in 0..DELTAS / BATCH {
        let delta = || ChunkPayload::TextDelta {
            delta: "a few ch".to_owned(),
        };
        let chunks = (0..BATCH)
            .map(|_| Chunk::new(base.clone(), NOW, delta()))
            .collect();
        block_on(store.append_deltas(&writer, chunks))?;
    }
    let written = start.elapsed();
    let read_all = reader.wait()?.success();
    let read = start.elapsed();
    if !read_all {
        return Err("the reader did not get every delta".into());
    }
    let rate = |time: std::time::Duration| DELTAS as f64 / time.as_secs_f64();
    print_figure(&format!(
        "20,000 deltas in batches of 100: written at {:.0}/s, all read by another process at {:.0}/s",
        rate(written),
        rate(read)
    ));
    Ok(())
}

/// The other process of [`deltas`].
pub(crate) fn read_deltas(arguments: &[String]) -> Outcome<()> {
    let [file, session, count] = arguments else {
        return Err("usage: read-deltas FILE SESSION COUNT".into());
    };
    let store = block_on(SqliteStore::open(Path::new(file)))?;
    let count: u64 = count.parse()?;
    let session = SessionId::new(session)?;
    let store = Arc::new(store);
    let streams = Arc::clone(&store) as Arc<dyn StreamManager>;
    let mut reader = StreamReader::new(streams, store, session, Sequence::START);
    while reader.cursor() < Sequence(count) {
        block_on(reader.next())?;
    }
    Ok(())
}

/// How late a reader hears a write through another connection, as of another process.
fn wake_up(report: &mut Report) -> Outcome<()> {
    let folder = Folder::new("wake")?;
    let file = folder.file("store.db");
    let [here, there] = [0, 1].map(|_| block_on(SqliteStore::open(&file)));
    let (here, there) = (here?, there?);
    let session = Subject::create(&here, "wake")?.reference.session;
    let run = RunId::new("run-wake")?;
    let base = ChunkOrigin::new(AgentId::new("wake")?, "bench", session.clone(), run, 1);
    let base = Arc::new(base);
    let mut delays = Vec::new();
    for _ in 0..21 {
        let payload = ChunkPayload::TextDelta {
            delta: "x".to_owned(),
        };
        let commit = Commit::new(session.clone(), NOW).say(Chunk::new(base.clone(), NOW, payload));
        let known = block_on(here.info(&session))?;
        let heard = std::thread::scope(|scope| {
            let waiting = scope.spawn(|| {
                let heard = block_on(here.changed(&session, known));
                heard.map(|()| Instant::now())
            });
            let written = block_on(there.commit(commit)).map(|_| Instant::now());
            (waiting.join(), written)
        });
        let (Ok(Ok(heard)), Ok(written)) = heard else {
            return Err("nothing was heard".into());
        };
        delays.push(heard.saturating_duration_since(written).as_secs_f64() * 1e3);
    }
    report.at_most(
        ("ms, limit", 50.0),
        ("woken by another connection", median(delays)),
        1.0,
    );
    Ok(())
}

fn bytes(report: &mut Report) -> Outcome<()> {
    let size = |steps: usize| -> Outcome<u64> {
        let folder = Folder::new(&format!("bytes-{steps}"))?;
        let file = folder.file("store.db");
        let store = block_on(SqliteStore::open(&file))?;
        let mut subject = Subject::create(&store, "bytes")?;
        for _ in 0..steps {
            subject.step()?;
        }
        drop(subject);
        drop(store);
        Bare::bytes_used(&file)
    };
    let empty = size(0)?;
    for steps in [50, 200] {
        let kept = (size(steps)? - empty) as f64 / steps as f64;
        report.at_most(
            ("bytes a step, limit", 600.0),
            (&format!("bytes a step, {steps} steps"), kept),
            1.0,
        );
    }
    let [hundred, thousand] = [size(100)? - empty, size(1_000)? - empty];
    report.at_most(
        ("bytes of 100 steps, ten times", 10.0 * hundred as f64),
        ("bytes of 1,000 steps", thousand as f64),
        1.1,
    );
    Ok(())
}

fn resume(_: &mut Report) -> Outcome<()> {
    let folder = Folder::new("resume")?;
    let store = block_on(SqliteStore::open(folder.file("store.db")))?;
    for messages in [10_usize, 1_000, 10_000] {
        let mut subject = Subject::create(&store, &format!("s{messages}"))?;
        let mut commit = Commit::new(subject.reference.session.clone(), NOW);
        while 1 + 2 * subject.reference.steps < messages {
            subject.reference.steps += 1;
            let (message, result) = reference_step(subject.reference.steps)?;
            commit = commit.then(Change::AppendStep(PairedStep::new(message, [result])?));
        }
        block_on(store.commit(commit))?;
        let mut times = Vec::new();
        for _ in 0..9 {
            let start = Instant::now();
            let snapshot = block_on(store.load(subject.reference.session.as_root()))?;
            let read = block_on(store.messages(subject.reference.session.as_root(), Page::ALL))?;
            if snapshot.is_none() || read.items.len() < messages {
                return Err("the session is not whole".into());
            }
            times.push(start.elapsed().as_secs_f64() * 1e6);
        }
        let time = median(times);
        print_figure(&format!(
            "resume read, {messages} messages: {time:.0} µs ({:.2} µs a message)",
            time / messages as f64
        ));
    }
    Ok(())
}
