//! The framework beside hand-written loops, and beside another framework, over HTTP.
//!
//! All sides talk to the same mock server, each in a process of its own, in turns. `HELIX_RIG_PEER`
//! is the path of the program in `benches/peers/rig`; without it, that side is left out.

use std::process::Command;
use std::time::Instant;

use crate::awake::Awake;
use crate::http_side::{SESSION_STEPS, SESSIONS};
use crate::measure::{Bound, Report, Target, fine, median, print_figure};
use crate::mock_process::{MockProcess, measure_alone};
use crate::sqlite::Outcome;

const ROUNDS: usize = 5;
const COLD_ROUNDS: usize = 41;
const SIDES: [&str; 3] = ["raw-lean", "bare", "ours"];
/// Two more, over the client of a real provider.
const ALL_SIDES: [&str; 5] = ["raw-lean", "bare", "ours", "client by hand", "client, ours"];
const COLD_SIDES: [&str; 5] = ["nothing", "raw-lean", "bare", "ours", "ours on SQLite"];

/// The medians of one side.
struct Figures {
    side: &'static str,
    figure: f64,
    peak_mib: f64,
    /// The share of the time in which the server computed. Near 100, the server is measured.
    server_percent: f64,
}

/// The measurement of a group, and how its figures are shown.
struct Group {
    name: &'static str,
    what: &'static str,
    sides: &'static [&'static str],
    rounds: usize,
    /// Whether the processors are kept awake meanwhile: where one side waits for the other all the time.
    keeps_awake: bool,
    decimals: usize,
    /// The figures that have a target.
    targets: fn(&Medians) -> Vec<Target>,
}

struct Medians(Vec<Figures>);

impl Medians {
    fn of(&self, side: &str) -> [f64; 2] {
        let found = self.0.iter().find(|figures| figures.side == side);
        found.map_or([f64::NAN; 2], |found| [found.figure, found.peak_mib])
    }
}

impl Medians {
    /// The figures of all sides, in words.
    fn figures(&self) -> String {
        self.listed(|figures| figures.figure)
    }

    /// The peaks of the memory of all sides, in words.
    fn peaks(&self) -> String {
        self.listed(|figures| figures.peak_mib)
    }

    fn listed(&self, which: fn(&Figures) -> f64) -> String {
        let all = self.0.iter();
        let all = all.map(|figures| format!("{} {}", figures.side, fine(which(figures))));
        all.collect::<Vec<_>>().join(", ")
    }
}

/// Runs a side once. Returns its figure, the peak of its memory in MiB, its whole time in ms and the
/// share of that time in which the server computed.
fn run_once(group: &str, side: &str, server: &MockProcess) -> Outcome<[f64; 4]> {
    let address = server.address.to_string();
    let mut command = match (side, std::env::var_os("HELIX_RIG_PEER")) {
        ("rig", Some(program)) => {
            let mut command = Command::new(program);
            command.args([group, &address]);
            command
        }
        _ if group == "cold" => {
            let program = std::env::current_exe()?.with_file_name("cold");
            if !program.exists() {
                let built = "cargo build --release -p helix-agents-benches";
                return Err(format!("{} is missing: {built}", program.display()).into());
            }
            let mut command = Command::new(program);
            command.args([side, &address]);
            command
        }
        _ => {
            let mut command = Command::new(std::env::current_exe()?);
            command.args(["http-side", group, side, &address]);
            command
        }
    };
    let (began, busy) = (Instant::now(), server.busy_ms()?);
    let output = command.output()?;
    let time = began.elapsed().as_secs_f64() * 1e3;
    let share = 100.0 * (server.busy_ms()? - busy) / time;
    let text = String::from_utf8_lossy(&output.stdout);
    let mut figures = text.split_whitespace().map(str::parse::<f64>);
    match (figures.next(), figures.next()) {
        (Some(figure), Some(peak)) => Ok([figure?, peak? / 1024.0, time, share]),
        _ => Err(format!(
            "{side} said {text:?}; {}",
            String::from_utf8_lossy(&output.stderr)
        )
        .into()),
    }
}

/// Measures all sides in turns.
fn measure(group: &Group, server: &MockProcess) -> Outcome<Medians> {
    let peer = std::env::var_os("HELIX_RIG_PEER").map(|_| "rig");
    let sides = group.sides.iter().copied().chain(peer);
    let mut measured: Vec<_> = sides
        .map(|side| (side, [const { Vec::new() }; 4]))
        .collect();
    let count = measured.len();
    for _ in 0..group.rounds {
        for (side, figures) in &mut measured {
            let figure = run_once(group.name, side, server)?;
            for (all, one) in figures.iter_mut().zip(figure) {
                all.push(one);
            }
        }
        // No side is always the first: what ran before may have warmed or slowed the processor.
        measured.rotate_left(1);
    }
    measured.rotate_right(group.rounds % count);
    let medians = measured.into_iter().map(|(side, figures)| {
        let [figure, peak_mib, time, server_percent] = figures.map(median);
        let figure = if group.name == "cold" { time } else { figure };
        Figures {
            side,
            figure,
            peak_mib,
            server_percent,
        }
    });
    Ok(Medians(medians.collect()))
}

fn show(report: &mut Report, group: &Group) {
    let measured = MockProcess::start().and_then(|server| {
        let _awake = group.keeps_awake.then(Awake::start).transpose()?;
        if group.name == "http" {
            measure_alone(server.address)?;
        }
        measure(group, &server)
    });
    match measured {
        Ok(medians) => {
            print_figure(group.what);
            for Figures {
                side,
                figure,
                peak_mib,
                server_percent,
            } in &medians.0
            {
                let decimals = group.decimals;
                print_figure(&format!(
                    "  {side:<16} {figure:>10.decimals$}   peak {peak_mib:>6.1} MiB   server busy {server_percent:>3.0} %"
                ));
            }
            for target in (group.targets)(&medians) {
                report.target(target);
            }
        }
        Err(error) => report.broken(group.what, &error.to_string()),
    }
}

/// A step over HTTP, in memory.
pub(crate) fn steps(report: &mut Report) {
    let group = Group {
        name: "http",
        what: "ms a step over HTTP, in memory",
        sides: &ALL_SIDES,
        rounds: ROUNDS,
        keeps_awake: true,
        decimals: 4,
        targets: |medians| {
            let [ours, by_hand] =
                ["client, ours", "client by hand"].map(|side| medians.of(side)[0]);
            vec![
                Target {
                    what: "ms a step over HTTP, more than raw-lean",
                    ours: medians.of("ours")[0] - medians.of("raw-lean")[0],
                    bound: Bound::AtMost(0.04),
                    tolerated: Some(0.06),
                    beside: medians.figures(),
                },
                Target {
                    what: "ms a step over a provider's client, more than by hand",
                    ours: ours - by_hand,
                    bound: Bound::AtMost(0.05),
                    tolerated: Some(0.09),
                    beside: format!("by hand {by_hand:.4}, ours {ours:.4}"),
                },
            ]
        },
    };
    show(report, &group);
}

/// A streamed reply of many small deltas.
pub(crate) fn deltas(report: &mut Report) {
    let group = Group {
        name: "deltas",
        what: "streamed deltas a second, to a reader in the process",
        sides: &SIDES,
        rounds: ROUNDS,
        keeps_awake: false,
        decimals: 0,
        targets: |medians| {
            vec![Target {
                what: "streamed deltas a second, in process",
                ours: medians.of("ours")[0],
                bound: Bound::AtLeast(500_000.0),
                tolerated: None,
                beside: medians.figures(),
            }]
        },
    };
    show(report, &group);
}

/// Many sessions at once.
pub(crate) fn sessions(report: &mut Report) {
    print_figure(&format!(
        "{SESSIONS} sessions of {SESSION_STEPS} steps each"
    ));
    let group = Group {
        name: "sessions-http",
        what: "runs a second, all sessions at once",
        sides: &ALL_SIDES,
        rounds: ROUNDS,
        keeps_awake: false,
        decimals: 0,
        targets: |medians| {
            let [[rate, peak], [bare, _]] = ["ours", "bare"].map(|side| medians.of(side));
            let [ours, by_hand] =
                ["client, ours", "client by hand"].map(|side| medians.of(side)[0]);
            vec![
                Target {
                    what: "500 sessions x 5 steps over a provider's client, share of by hand",
                    ours: ours / by_hand,
                    bound: Bound::AtLeast(0.7),
                    tolerated: Some(0.42),
                    beside: format!("by hand {by_hand:.0}, ours {ours:.0}"),
                },
                Target {
                    what: "500 sessions x 5 steps, share of bare's runs",
                    ours: rate / bare,
                    bound: Bound::AtLeast(0.75),
                    tolerated: Some(0.5),
                    beside: medians.figures(),
                },
                Target {
                    what: "500 sessions x 5 steps, peak MiB",
                    ours: peak,
                    bound: Bound::AtMost(45.0),
                    tolerated: None,
                    beside: medians.peaks(),
                },
            ]
        },
    };
    show(report, &group);
}

/// A program that starts, asks one question and ends.
pub(crate) fn cold(report: &mut Report) {
    let group = Group {
        name: "cold",
        what: "ms from the start of a process to its end, with one reply",
        sides: &COLD_SIDES,
        rounds: COLD_ROUNDS,
        keeps_awake: false,
        decimals: 2,
        targets: |medians| {
            let [time, peak] = medians.of("ours");
            vec![
                Target {
                    what: "cold start, ms",
                    ours: time,
                    bound: Bound::AtMost(7.5),
                    tolerated: None,
                    beside: medians.figures(),
                },
                Target {
                    what: "cold start, peak MiB",
                    ours: peak,
                    bound: Bound::AtMost(9.0),
                    tolerated: None,
                    beside: medians.peaks(),
                },
            ]
        },
    };
    show(report, &group);
}
