//! Does one kind of work a number of times, and prints how many allocations that took.
//!
//! `counts WORK N`: a test runs it with two numbers, and the difference divided by theirs is the cost of
//! one, without what happens once. Under callgrind the same gives instructions.

mod model;
mod work;

use std::alloc::System;

use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// The number of allocations so far. Growing one counts as another.
fn allocations() -> usize {
    let stats = ALLOCATOR.stats();
    stats.allocations + stats.reallocations
}

#[expect(clippy::print_stdout, reason = "the figure is the output")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let work = arguments.next().unwrap_or_default();
    let times = arguments.next().unwrap_or_default().parse()?;
    let before = allocations();
    work::perform(&work, times)?;
    println!("{}", allocations() - before);
    Ok(())
}
