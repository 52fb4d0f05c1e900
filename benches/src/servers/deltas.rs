//! 20,000 deltas, written here and read in another process: each once, in order. Beside them the same batches, written
//! and read by hand.

use std::io::{BufRead as _, BufReader, Lines, Write as _};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::time::Instant;

use helix_agents_core::id::{AgentId, SessionId};
use helix_agents_core::store::Fence;
use helix_agents_core::stream::{
    Chunk, ChunkOrigin, ChunkPayload, Sequence, StoredChunk, StreamItem, StreamManager as _,
    StreamReader, StreamWriter,
};

use crate::measure::{Bound, Report, Target, median, print_figure};
use crate::reference::Reference;
use crate::sqlite::{NOW, Outcome};

use super::{ByHand, Kind, Server, host};

const DELTAS: usize = 20_000;
/// What the runtime gathers in its 5 ms of a model that sends 20,000 deltas a second.
const BATCH: usize = 100;
const ROUNDS: usize = 5;
const STORE: &str = "deltas";

/// The text of a delta, which tells it from all others.
fn text(number: usize) -> String {
    format!("{number:>7} ")
}

pub(super) fn measure<K: Kind>(report: &mut Report, server: &Server<K>) -> Outcome<()> {
    let (mut ours, mut raw) = (Rates::default(), Rates::default());
    let mut shares = Vec::new();
    for round in 0..ROUNDS {
        let by_hand = by_hand::<K>(server, &mut raw, 200 + round)?;
        shares.push(through_store::<K>(server, &mut ours, round)? / by_hand);
    }
    let [[ours_written, ours_read], [raw_written, raw_read]] =
        [ours, raw].map(|rates| [rates.written, rates.read].map(median));
    print_figure(&format!(
        "{}, {DELTAS} deltas in batches of {BATCH}: written at {ours_written:.0}/s, all read in another process at \
         {ours_read:.0}/s; by hand {raw_written:.0}/s and {raw_read:.0}/s",
        K::NAME
    ));
    report.target(Target {
        what: K::FIGURES.deltas,
        ours: median(shares),
        bound: Bound::AtLeast(0.5),
        tolerated: None,
        beside: format!("{ours_read:.0} deltas/s, by hand {raw_read:.0}"),
    });
    Ok(())
}

/// Deltas a second.
#[derive(Default)]
struct Rates {
    written: Vec<f64>,
    read: Vec<f64>,
}

/// A process that reads.
struct Reader {
    process: Child,
    said: Lines<BufReader<ChildStdout>>,
}

impl Reader {
    /// Starts it, and waits until it reads.
    fn start<K: Kind>(side: &str, url: &str, session: &str) -> Outcome<Self> {
        let mut process = Command::new(std::env::current_exe()?)
            .args(["server-deltas", K::NAME, side, url, session])
            .stdout(Stdio::piped())
            .spawn()?;
        let said = process.stdout.take().ok_or("no output to read")?;
        let mut reader = Self {
            process,
            said: BufReader::new(said).lines(),
        };
        reader.expect("ready")?;
        Ok(reader)
    }

    fn expect(&mut self, word: &str) -> Outcome<()> {
        match self.said.next() {
            Some(line) if line.as_ref().is_ok_and(|line| line == word) => Ok(()),
            _ => Err("the reader did not get each delta once, in order".into()),
        }
    }

    /// Waits until it has read everything; returns the rate of that.
    fn finish(mut self, begun: Instant, rates: &mut Rates, written: f64) -> Outcome<f64> {
        self.expect("done")?;
        let read = DELTAS as f64 / begun.elapsed().as_secs_f64();
        if !self.process.wait()?.success() {
            return Err("the reader failed".into());
        }
        rates.written.push(written);
        rates.read.push(read);
        Ok(read)
    }
}

fn through_store<K: Kind>(server: &Server<K>, rates: &mut Rates, round: usize) -> Outcome<f64> {
    let (host, url) = (&server.host, server.url.as_str());
    let (store, reference) = host.block_on(async {
        let store = K::open(url, STORE, 4).await?;
        let reference = Reference::create(&store, &format!("deltas-{round}")).await?;
        Outcome::Ok((store, reference))
    })?;
    let (session, run) = (reference.session, reference.run);
    let reader = Reader::start::<K>("ours", url, session.as_str())?;
    let agent = AgentId::new("deltas")?;
    let base = Arc::new(ChunkOrigin::new(agent, "bench", session.clone(), run, 1));
    let writer = StreamWriter::new(session.clone(), session, Fence(1));
    let begun = Instant::now();
    let write = async move {
        for first in (1..=DELTAS).step_by(BATCH) {
            let delta = |n| ChunkPayload::TextDelta { delta: text(n) };
            let chunks = (first..first + BATCH).map(|n| Chunk::new(base.clone(), NOW, delta(n)));
            store.append_deltas(&writer, chunks.collect()).await?;
        }
        Outcome::Ok(DELTAS as f64 / begun.elapsed().as_secs_f64())
    };
    let written = host.block_on(host.spawn(write))??;
    reader.finish(begun, rates, written)
}

fn by_hand<K: Kind>(server: &Server<K>, rates: &mut Rates, session: usize) -> Outcome<f64> {
    let (host, url) = (&server.host, server.url.as_str());
    let by_hand = host.block_on(K::ByHand::open(url, i64::try_from(session)?))?;
    let reader = Reader::start::<K>("raw", url, &session.to_string())?;
    let begun = Instant::now();
    let write = async move {
        for first in (1..=DELTAS).step_by(BATCH) {
            let batch: Vec<String> = (first..first + BATCH).map(text).collect();
            by_hand.append(first + BATCH - 1, &batch).await?;
        }
        Outcome::Ok(DELTAS as f64 / begun.elapsed().as_secs_f64())
    };
    let written = host.block_on(host.spawn(write))??;
    reader.finish(begun, rates, written)
}

/// The process that reads.
pub(super) fn read<K: Kind>(arguments: &[String]) -> Outcome<()> {
    let [side, url, session] = arguments else {
        return Err("usage: server-deltas SERVER SIDE URL SESSION".into());
    };
    let host = host()?;
    match side.as_str() {
        "ours" => host.block_on(read_stream::<K>(url, SessionId::new(session)?)),
        _ => host.block_on(read_by_hand::<K>(url, session.parse()?)),
    }?;
    say("done")
}

fn say(word: &str) -> Outcome<()> {
    println!("{word}");
    Ok(std::io::stdout().flush()?)
}

async fn read_stream<K: Kind>(url: &str, session: SessionId) -> Outcome<()> {
    let store = Arc::new(K::open(url, STORE, 4).await?);
    let streams = Arc::clone(&store);
    let info = streams.info(&session).await?;
    let Sequence(before) = info.map_or(Sequence::START, |info| info.last);
    say("ready")?;
    let mut reader = StreamReader::new(streams, store, session, Sequence(before));
    for number in 1..=DELTAS {
        let expected = ChunkPayload::TextDelta {
            delta: text(number),
        };
        match reader.next().await? {
            Some(StreamItem::Chunk(StoredChunk {
                sequence, chunk, ..
            })) if sequence == Sequence(before + number as u64) && chunk.payload == expected => {}
            other => return Err(format!("delta {number} was {other:?}").into()),
        }
    }
    Ok(())
}

async fn read_by_hand<K: Kind>(url: &str, session: i64) -> Outcome<()> {
    let mut by_hand = K::ByHand::open(url, session).await?;
    say("ready")?;
    let mut number = 0;
    while number < DELTAS {
        for (last, batch) in by_hand.batches_after(number).await? {
            for delta in batch {
                number += 1;
                if delta != text(number) {
                    return Err(format!("delta {number} was {delta:?}").into());
                }
            }
            if number != last {
                return Err(format!("a batch ended at {number}, not at {last}").into());
            }
        }
    }
    Ok(())
}
