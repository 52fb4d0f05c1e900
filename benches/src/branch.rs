//! Measures a branch of a long session on SQLite: the time and the bytes of each message.

use std::time::Instant;

use helix_agents_core::SessionId;
use helix_agents_core::message::UserMessage;
use helix_agents_core::store::{BranchPoint, Change, Commit, NewSession, SessionStore, Sessions};
use helix_agents_core::transcript::PairedStep;
use helix_agents_store_sqlite::SqliteStore;
use helix_agents_testkit::{VirtualClock, block_on};

use crate::bare::Bare;
use crate::measure::{Bound, Report, Target, median, print_figure};
use crate::reference::reference_step;
use crate::sqlite::{Folder, NOW, Outcome};

const ROUNDS: usize = 7;
/// The numbers of messages of the sessions that are branched.
const LENGTHS: [usize; 2] = [1_000, 10_000];
/// The most steps that are written in one commit.
const BATCH: usize = 500;

pub(crate) fn run(report: &mut Report) {
    if let Err(error) = measure(report) {
        report.broken("a branch", &error.to_string());
    }
}

fn measure(report: &mut Report) -> Outcome<()> {
    let mut costs = Vec::new();
    for messages in LENGTHS {
        costs.push(branch(messages)?);
    }
    let [(few, _), (many, bytes)] = costs.as_slice() else {
        return Ok(());
    };
    let [short, long] = LENGTHS.map(|messages| format!("a message of {messages}, branched"));
    report.at_most((&short, few * 1e3), (&long, many * 1e3), 1.3);
    report.target(Target {
        what: "a branch of 10,000 messages, in µs a message",
        ours: *many,
        bound: Bound::AtMost(10.0),
        tolerated: None,
        beside: format!("{bytes:.0} bytes a message"),
    });
    Ok(())
}

/// Branches a session of this many messages: microseconds and bytes a message.
fn branch(messages: usize) -> Outcome<(f64, f64)> {
    let folder = Folder::new(&format!("branch-{messages}"))?;
    let file = folder.file("store.db");
    let clock = VirtualClock::new(NOW);
    let source = SessionId::new("source")?;
    let (mut times, mut grown) = (Vec::new(), 0.0);
    block_on(async {
        let store = SqliteStore::open(&file).await?;
        write(&store, &clock, &source, messages).await?;
        for round in 0..ROUNDS {
            let to = SessionId::new(format!("branch-{round}"))?;
            let before = Bare::bytes_used(&file)?;
            let start = Instant::now();
            let sessions = Sessions::new(&store, &clock);
            let made = sessions.branch(&source, &BranchPoint::Now, &to).await?;
            times.push(start.elapsed().as_secs_f64() * 1e6 / messages as f64);
            if made.message_count != messages {
                return Err(format!("{} messages, not {messages}", made.message_count).into());
            }
            grown = Bare::bytes_used(&file)? as f64 - before as f64;
        }
        Outcome::Ok(())
    })?;
    let (time, bytes) = (median(times), grown / messages as f64);
    print_figure(&format!(
        "{messages:>6} messages: {time:.2} µs and {bytes:.0} bytes a message"
    ));
    Ok((time, bytes))
}

/// Writes a session: a question, then steps with one call each.
async fn write(
    store: &SqliteStore,
    clock: &VirtualClock,
    session: &SessionId,
    messages: usize,
) -> Outcome<()> {
    let sessions = Sessions::new(store, clock);
    sessions
        .create_session(session, NewSession::of("bench"))
        .await?;
    let questions = 2 - messages % 2;
    let mut commit = Commit::new(session.clone(), NOW);
    for _ in 0..questions {
        commit = commit.then(Change::AppendUser(UserMessage::new("add the numbers")));
    }
    for n in 1..=(messages - questions) / 2 {
        let (message, result) = reference_step(n)?;
        commit = commit.then(Change::AppendStep(PairedStep::new(message, [result])?));
        if n % BATCH == 0 {
            let full = std::mem::replace(&mut commit, Commit::new(session.clone(), NOW));
            store.commit(full).await?;
        }
    }
    store.commit(commit).await?;
    Ok(())
}
