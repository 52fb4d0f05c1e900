//! Counts what is asked and how long it takes, in Prometheus' text format.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::Operation;

/// The upper bounds of the histogram's buckets, in seconds.
const BOUNDS: [f64; 9] = [0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0];

/// What was counted so far. Its size is bounded by the number of operations and statuses.
#[derive(Debug, Default)]
pub(crate) struct Metrics {
    asked: Mutex<BTreeMap<Operation, Asked>>,
    open_streams: AtomicI64,
    sent_chunks: AtomicU64,
}

#[derive(Debug, Default)]
struct Asked {
    statuses: BTreeMap<u16, u64>,
    buckets: [u64; BOUNDS.len()],
    seconds: f64,
    count: u64,
}

impl Metrics {
    pub(crate) fn answered(&self, operation: Operation, status: u16, took: Duration) {
        let took = took.as_secs_f64();
        let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        let asked = asked.entry(operation).or_default();
        *asked.statuses.entry(status).or_default() += 1;
        for (bucket, bound) in asked.buckets.iter_mut().zip(BOUNDS) {
            *bucket += u64::from(took <= bound);
        }
        asked.seconds += took;
        asked.count += 1;
    }

    pub(crate) fn stream_opened(&self) {
        self.open_streams.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn stream_closed(&self) {
        self.open_streams.fetch_sub(1, Ordering::Relaxed);
    }

    pub(crate) fn chunks_sent(&self, chunks: u64) {
        self.sent_chunks.fetch_add(chunks, Ordering::Relaxed);
    }

    /// Everything, as Prometheus reads it.
    pub(crate) fn text(&self) -> String {
        let mut out = String::new();
        // Writing to a string cannot fail.
        let _ = self.write(&mut out);
        out
    }

    fn write(&self, out: &mut String) -> std::fmt::Result {
        let asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        head(
            out,
            "helix_http_requests_total",
            "counter",
            "Requests by status.",
        )?;
        for (operation, asked) in asked.iter() {
            for (status, count) in &asked.statuses {
                writeln!(
                    out,
                    "helix_http_requests_total{{operation=\"{operation}\",status=\"{status}\"}} {count}"
                )?;
            }
        }
        let name = "helix_http_request_duration_seconds";
        head(out, name, "histogram", "Time until the head of the answer.")?;
        for (operation, asked) in asked.iter() {
            let bounds = BOUNDS.iter().map(ToString::to_string);
            let buckets = bounds.zip(asked.buckets);
            for (bound, count) in buckets.chain([("+Inf".to_owned(), asked.count)]) {
                writeln!(
                    out,
                    "{name}_bucket{{operation=\"{operation}\",le=\"{bound}\"}} {count}"
                )?;
            }
            let Asked { seconds, count, .. } = asked;
            writeln!(out, "{name}_sum{{operation=\"{operation}\"}} {seconds}")?;
            writeln!(out, "{name}_count{{operation=\"{operation}\"}} {count}")?;
        }
        head(
            out,
            "helix_sse_open_streams",
            "gauge",
            "Streams being read.",
        )?;
        let open = self.open_streams.load(Ordering::Relaxed);
        writeln!(out, "helix_sse_open_streams {open}")?;
        head(
            out,
            "helix_sse_chunks_total",
            "counter",
            "Chunks sent to readers.",
        )?;
        let sent = self.sent_chunks.load(Ordering::Relaxed);
        writeln!(out, "helix_sse_chunks_total {sent}")
    }
}

fn head(out: &mut String, name: &str, kind: &str, help: &str) -> std::fmt::Result {
    writeln!(out, "# HELP {name} {help}\n# TYPE {name} {kind}")
}
