//! Does one kind of work a number of times, and prints how many allocations that took, and how many bytes
//! are still in use at its end.
//!
//! `counts WORK N`: a test runs it with two numbers, and the difference divided by theirs is the cost of
//! one, without what happens once. Under callgrind the same gives instructions.

mod model;
mod work;

use std::alloc::System;

use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// The number of allocations so far, and of the bytes in use. Growing an allocation counts as another.
fn counted() -> (usize, usize) {
    let stats = ALLOCATOR.stats();
    let in_use = stats.bytes_allocated - stats.bytes_deallocated;
    (stats.allocations + stats.reallocations, in_use)
}

#[expect(clippy::print_stdout, reason = "the figure is the output")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let work = arguments.next().unwrap_or_default();
    let times = arguments.next().unwrap_or_default().parse()?;
    let (allocations, bytes) = counted();
    let left = work::perform(&work, times)?;
    let (allocations_now, bytes_now) = counted();
    println!("{} {}", allocations_now - allocations, bytes_now - bytes);
    drop(left);
    Ok(())
}
