//! The allocations and the instructions of one piece of work may not grow by more than a tenth.
//!
//! Raise a figure only with a reason in the commit; lower it when the work got cheaper. Instructions are
//! counted by callgrind, without which that test has nothing to count with, and says so. They depend on the
//! compiler, too: after a change of the toolchain, record them anew.

#![expect(clippy::unwrap_used, reason = "a test that cannot continue fails")]
#![expect(clippy::print_stdout, reason = "the figures are shown")]

use std::process::{Command, Output};

/// The cost of one piece of work.
struct Recorded {
    work: &'static str,
    /// How many times it is performed to be measured, and then twice as many times.
    times: u64,
    allocations: u64,
    /// With the profile of tests, and with that of releases.
    instructions: [u64; 2],
}

const RECORDED: [Recorded; 5] = [
    recorded("step", 100, 79, [391_000, 89_000]),
    recorded("commit", 50, 124, [2_090_000, 263_000]),
    // Often, since a buffer that doubles counts for as many instructions as it has bytes.
    recorded("delta", 1_600, 3, [5_900, 1_820]),
    // A thousand of them.
    recorded("frames", 3, 3_172, [70_000_000, 5_490_000]),
    recorded("start", 50, 215, [720_000, 167_000]),
];

/// The bytes of a finished session of five steps in memory, once its deltas are removed.
const IDLE_BYTES: u64 = 12_300;

const fn recorded(
    work: &'static str,
    times: u64,
    allocations: u64,
    instructions: [u64; 2],
) -> Recorded {
    Recorded {
        work,
        times,
        allocations,
        instructions,
    }
}

/// Measures a piece of work: the difference between doing it once and twice as often is its cost, without
/// what happens only once.
fn each(recorded: &Recorded, measure: impl Fn(&str, &str) -> u64) -> u64 {
    let Recorded { work, times, .. } = recorded;
    let (once, twice) = (times.to_string(), (2 * times).to_string());
    let more = measure(work, &twice) - measure(work, &once);
    more.div_ceil(*times)
}

fn hold(work: &str, what: &str, found: u64, recorded: u64) {
    println!("{work}: {found} {what}, {recorded} recorded");
    assert!(
        found <= recorded + recorded.div_ceil(10),
        "{work} takes {found} {what}, and {recorded} are recorded; find out why before you raise it"
    );
    assert!(
        found + recorded.div_ceil(5) >= recorded,
        "{work} takes {found} {what} only; record that instead of {recorded}"
    );
}

/// Performs work, and returns the number of allocations, and of the bytes that are in use at the end.
fn counted(work: &str, times: &str) -> (u64, u64) {
    let counts = Command::new(env!("CARGO_BIN_EXE_counts"));
    let output = printed({ counts }.args([work, times]).output().unwrap());
    let (allocations, bytes) = output.trim().split_once(' ').unwrap();
    (allocations.parse().unwrap(), bytes.parse().unwrap())
}

fn printed(output: Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn no_work_allocates_more_than_recorded() {
    for one in &RECORDED {
        let found = each(one, |work, times| counted(work, times).0);
        hold(one.work, "allocations", found, one.allocations);
    }
}

#[test]
fn no_work_takes_more_instructions_than_recorded() {
    if Command::new("valgrind").arg("--version").output().is_err() {
        assert!(
            std::env::var_os("HELIX_NO_SKIP").is_none(),
            "install valgrind"
        );
        println!("skipped: valgrind is not installed");
        return;
    }
    for one in &RECORDED {
        let found = each(one, |work, times| {
            let output = Command::new("valgrind")
                .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
                .args([env!("CARGO_BIN_EXE_counts"), work, times])
                .output()
                .unwrap();
            let report = String::from_utf8_lossy(&output.stderr).into_owned();
            printed(output);
            let collected = report.split("Collected :").nth(1).unwrap();
            collected
                .split_whitespace()
                .next()
                .unwrap()
                .parse()
                .unwrap()
        });
        let [tests, releases] = one.instructions;
        let recorded = if cfg!(debug_assertions) {
            tests
        } else {
            releases
        };
        hold(one.work, "instructions", found, recorded);
    }
}

#[test]
fn a_finished_session_takes_no_more_memory_than_recorded() {
    let idle = recorded("idle", 200, 0, [0, 0]);
    let found = each(&idle, |work, times| counted(work, times).1);
    hold(idle.work, "bytes", found, IDLE_BYTES);
}
