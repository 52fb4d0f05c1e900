//! The number of allocations of one piece of work may not grow by more than a tenth.
//!
//! Raise a figure only with a reason in the commit; lower it when the work got cheaper.

#![expect(clippy::unwrap_used, reason = "a test that cannot continue fails")]

use std::process::Command;

/// The kinds of work, with the allocations of one of each.
const RECORDED: [(&str, u64); 4] = [("step", 104), ("commit", 149), ("delta", 3), ("start", 215)];

/// Performs a kind of work so many times, and returns the number of allocations.
fn allocations(work: &str, times: u64) -> u64 {
    let times = times.to_string();
    let output = Command::new(env!("CARGO_BIN_EXE_counts"))
        .args([work, &times])
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    let printed = String::from_utf8(output.stdout).unwrap();
    printed.trim().parse().unwrap()
}

#[test]
fn no_work_allocates_more_than_recorded() {
    for (work, recorded) in RECORDED {
        let times = 200;
        let (once, twice) = (allocations(work, times), allocations(work, 2 * times));
        let each = (twice - once).div_ceil(times);
        println!("{work}: {each} allocations, {recorded} recorded");
        assert!(
            each <= recorded + recorded.div_ceil(10),
            "{work} takes {each} allocations, and {recorded} are recorded; find out why before you raise it"
        );
        assert!(
            each + recorded.div_ceil(5) >= recorded,
            "{work} takes {each} allocations only; record that instead of {recorded}"
        );
    }
}
