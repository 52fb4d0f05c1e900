//! Metrics of pending work, read from the store for each request of `/metrics`.

use std::fmt::Write;

use helix_agents_core::store::{Backlog, DueKind};
use helix_agents_core::time::Timestamp;

use super::family::{head, single};

/// Writes the gauges of pending work; `None` means that the store could not be read.
pub(crate) fn write_backlog(out: &mut String, backlog: Option<&Backlog>, now: Timestamp) {
    let up = u8::from(backlog.is_some());
    let help = "Whether the store could be read for these metrics.";
    single(out, "helix_store_up", "gauge", help, up);
    let Some(backlog) = backlog else { return };
    let help = "Pending calls.";
    single(
        out,
        "helix_pending_calls",
        "gauge",
        help,
        backlog.pending_calls,
    );
    let age = backlog.oldest_pending.map(|since| now.since(since));
    let name = "helix_pending_oldest_age_seconds";
    let help = "Age of the oldest pending call; 0 if there is none.";
    single(
        out,
        name,
        "gauge",
        help,
        age.unwrap_or_default().as_secs_f64(),
    );
    let help = "Runs under a valid lease, of all processes.";
    single(out, "helix_leases", "gauge", help, backlog.leases);
    let name = "helix_due_sessions";
    head(
        out,
        name,
        "gauge",
        "Sessions that are due, by the kind of work.",
    );
    for kind in Backlog::COUNTED {
        let due = backlog.due.get(&kind).copied().unwrap_or_default();
        // Writing to a string cannot fail.
        let _ = writeln!(out, "{name}{{kind=\"{}\"}} {due}", name_of(kind));
    }
}

fn name_of(kind: DueKind) -> &'static str {
    match kind {
        DueKind::LapsedLease => "lapsed_lease",
        DueKind::Deadline => "deadline",
        DueKind::Answered => "answered",
        DueKind::Inbox => "inbox",
        DueKind::OwedStop => "owed_stop",
        _ => "other",
    }
}
