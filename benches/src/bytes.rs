//! Measures the bytes that a step keeps in a SQLite file, the chunk log included: while its turn runs, and
//! once the deltas of the turn are removed.
//!
//! A turn of 200 steps and one of 1,200 run through the local runtime. The difference divided by 1,000 is
//! the cost of a step, without what a file or a session costs once; over fewer steps the last page of each
//! table, which is partly empty, would count.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::stream;
use helix_agents_core::model::{EventStream, Model, ModelEvent, ModelRequest, TokenUsage};
use helix_agents_core::runtime::{Backend, RuntimeExt};
use helix_agents_core::step::StopReason;
use helix_agents_core::stream::Retention;
use helix_agents_core::time::Timestamp;
use helix_agents_runtime_local::LocalRuntime;
use helix_agents_store_sqlite::{SqliteConfig, SqliteStore};
use rusqlite::Connection;

use crate::bare::Bare;
use crate::measure::{Bound, Report, Target, print_figure};
use crate::sqlite::{Folder, Outcome};
use crate::steps::adder;

const FEW: usize = 200;
const MORE: usize = 1_000;

pub(crate) fn run(report: &mut Report) {
    if let Err(error) = measure(report) {
        report.broken("bytes a step", &error.to_string());
    }
}

/// Streams a short text and a call in each step, and ends the turn after the last.
#[derive(Debug)]
struct Streaming {
    steps: usize,
    asked: AtomicUsize,
}

impl Model for Streaming {
    fn name(&self) -> &'static str {
        "bench/model"
    }

    fn stream<'a>(&'a self, _: ModelRequest<'a>) -> EventStream<'a> {
        let asked = self.asked.fetch_add(1, Ordering::Relaxed);
        let text = |text: &str| ModelEvent::Text(text.to_owned());
        let arguments = |delta: &str| ModelEvent::CallArguments {
            call: 0,
            delta: delta.to_owned(),
        };
        let mut events = vec![text("Let me "), text("add the "), text("two.")];
        if asked < self.steps {
            events.extend([
                ModelEvent::CallStart {
                    id: Some(format!("call_{asked}")),
                    name: "add".into(),
                },
                arguments(r#"{"a":1,"#),
                arguments(r#""b":2}"#),
                ModelEvent::CallEnd {
                    call: 0,
                    provider_metadata: None,
                },
            ]);
        }
        events.push(ModelEvent::Finished {
            stop_reason: StopReason::EndTurn,
            usage: TokenUsage::new(120, 30),
        });
        Box::pin(stream::iter(events.into_iter().map(Ok)))
    }
}

/// The bytes of a file after one turn.
struct Kept {
    /// The pages that hold something, before and after the deltas are removed.
    pages: [f64; 2],
    /// Of each table or index, before: the bytes of its pages and of its rows, and the number of its rows.
    tables: BTreeMap<String, [f64; 3]>,
}

/// Runs a turn in a store.
pub(crate) async fn turn(store: impl Into<Backend>, steps: usize) -> Outcome<()> {
    let runtime = LocalRuntime::builder(store).recovery(false).build();
    let asked = AtomicUsize::new(0);
    let agent = adder(Arc::new(Streaming { steps, asked }))?;
    let run = runtime.execute(&agent, "Add.").await?;
    run.outcome().await?;
    Ok(())
}

/// Removes the deltas of the turn.
async fn condense(file: &Path) -> Outcome<()> {
    let config = SqliteConfig::new().keep_deltas(Duration::ZERO);
    let store = SqliteStore::open_with(file, config).await?;
    match store.condense_old_turns(Timestamp::default(), 10).await? {
        1 => Ok(()),
        turns => Err(format!("{turns} turns were condensed, not one").into()),
    }
}

fn tables(file: &Path) -> Outcome<BTreeMap<String, [f64; 3]>> {
    let connection = Connection::open(file)?;
    let mut statement = connection
        .prepare("SELECT name, sum(pgsize), sum(payload), sum(ncell) FROM dbstat GROUP BY name")?;
    let rows = statement.query_map([], |row| {
        Ok((row.get(0)?, [row.get(1)?, row.get(2)?, row.get(3)?]))
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}

fn kept(steps: usize) -> Outcome<Kept> {
    let folder = Folder::new(&format!("kept-{steps}"))?;
    let file = folder.file("store.db");
    let host = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()?;
    host.block_on(async { turn(SqliteStore::open(&file).await?, steps).await })?;
    let before = Bare::bytes_used(&file)? as f64;
    let tables = tables(&file)?;
    host.block_on(condense(&file))?;
    let after = Bare::bytes_used(&file)? as f64;
    Ok(Kept {
        pages: [before, after],
        tables,
    })
}

fn measure(report: &mut Report) -> Outcome<()> {
    let [none, one, two] = [kept(0)?, kept(FEW)?, kept(FEW + MORE)?];
    let each = |more: f64, less: f64| (more - less) / MORE as f64;
    let mut parts = Vec::new();
    for (name, more) in &two.tables {
        let less = one.tables.get(name).copied().unwrap_or_default();
        let ([a, b, c], [d, e, f]) = (*more, less);
        let (pages, bytes, rows) = (each(a, d), each(b, e), each(c, f));
        if pages >= 1.0 {
            print_figure(&format!(
                "{name:<12} {pages:>5.0} bytes a step, {bytes:.0} of them in {rows:.1} rows"
            ));
            parts.push(format!("{name} {pages:.0}"));
        }
    }
    let first = (one.pages[0] - none.pages[0]) / FEW as f64;
    print_figure(&format!(
        "of the first {FEW} steps: {first:.0} bytes a step"
    ));
    let [[run_less, past_less], [run_more, past_more]] = [one.pages, two.pages];
    let (running, past) = (each(run_more, run_less), each(past_more, past_less));
    report.target(Target {
        what: "bytes a step on SQLite, while the turn runs",
        ours: running,
        bound: Bound::AtMost(600.0),
        tolerated: None,
        beside: parts.join(", "),
    });
    report.target(Target {
        what: "bytes a step on SQLite, after the window",
        ours: past,
        bound: Bound::AtMost(300.0),
        tolerated: None,
        beside: String::new(),
    });
    Ok(())
}
