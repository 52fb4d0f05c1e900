//! Benchmarks: costs as ratios, measured side by side in one run.
//!
//! ```sh
//! cargo run --release -p helix-agents-benches            # everything
//! cargo run --release -p helix-agents-benches -- state   # one group
//! cargo run --release -p helix-agents-benches -- table   # the groups of `docs/benchmarks.md`
//! ```
//!
//! Each line compares two measurements of the same run, taken in turns so that a busy machine slows
//! both. The limit beside a ratio is what the design asks for. Figures with a target stand in a table at the
//! end. The exit code is 1 when a ratio is over its limit, or a figure misses its target by more than is known.

#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command-line tool"
)]
#![expect(clippy::cast_precision_loss, reason = "figures are for people")]

mod awake;
mod bare;
mod branch;
mod bytes;
mod chat;
mod children;
mod client_loop;
mod clients;
mod cold;
mod deadlines;
mod flat;
mod growing;
mod http;
mod http_loops;
mod http_model;
mod http_side;
mod idle;
mod measure;
mod mock_process;
mod openai;
mod prompt;
mod reference;
mod servers;
mod sessions;
mod sqlite;
mod state;
mod step_rows;
mod steps;
mod stops;
mod suspended;
mod sweeps;

use std::process::ExitCode;

pub use cold::cold;
use measure::Report;
use sqlite::Outcome;

type Group = (&'static str, fn(&mut Report));

const GROUPS: [Group; 24] = [
    ("state", state::run),
    ("prompt", prompt::run),
    ("sqlite", sqlite::run),
    ("postgres", servers::postgres),
    ("redis", servers::redis),
    ("bytes", bytes::run),
    ("flat", flat::run),
    ("branch", branch::run),
    ("suspended", suspended::run),
    ("idle", idle::run),
    ("sweeps", sweeps::run),
    ("stops", stops::run),
    ("deadlines", deadlines::run),
    ("steps", steps::run),
    ("durable", steps::durable),
    ("growing", growing::run),
    ("children", children::run),
    ("sessions", sessions::run),
    ("clients", clients::run),
    ("http", http::steps),
    ("deltas", http::deltas),
    ("sessions-http", http::sessions),
    ("cold", http::cold),
    ("chat", chat::run),
];

/// The groups whose figures have targets.
const TABLE: [&str; 10] = [
    "http",
    "durable",
    "postgres",
    "redis",
    "bytes",
    "deltas",
    "sessions-http",
    "idle",
    "cold",
    "chat",
];

/// The program `benches`.
#[must_use]
pub fn main() -> ExitCode {
    let mut wanted: Vec<String> = std::env::args().skip(1).collect();
    if wanted == ["table"] {
        wanted = TABLE.map(str::to_owned).to_vec();
    }
    // Other processes of ours.
    if let [first, rest @ ..] = wanted.as_slice() {
        let done = match first.as_str() {
            "read-deltas" => Some(sqlite::read_deltas(rest)),
            "server-deltas" => Some(servers::read_deltas(rest)),
            "one-side" => Some(sessions::side(rest)),
            "http-side" => Some(http_side::run(rest)),
            "mock-llm" => Some(mock_process::serve()),
            "stops-side" => Some(stops::side(rest)),
            "idle-side" => Some(idle::side()),
            "stay-awake" => Some(awake::stay_awake()),
            _ => None,
        };
        if let Some(done) = done {
            return exit_code(&done);
        }
    }
    let names: Vec<_> = GROUPS.iter().map(|(name, _)| *name).collect();
    if let Some(unknown) = wanted.iter().find(|name| !names.contains(&name.as_str())) {
        println!(
            "there is no group {unknown:?}; choose from: {}",
            names.join(", ")
        );
        return ExitCode::from(2);
    }
    let mut report = Report::default();
    for (name, run) in GROUPS {
        if wanted.is_empty() || wanted.iter().any(|one| one == name) {
            println!("{name}");
            run(&mut report);
        }
    }
    report.print_targets();
    if report.misses() > 0 {
        println!("{} over the limit", report.misses());
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

fn exit_code(done: &Outcome<()>) -> ExitCode {
    if let Err(error) = done {
        eprintln!("{error}");
    }
    ExitCode::from(u8::from(done.is_err()))
}
