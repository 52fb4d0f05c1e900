//! Metrics of requests and runs, in the Prometheus text format.

mod backlog;
mod family;
mod runs;
mod store;

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use self::family::{Counters, Durations, single};
use crate::Operation;

pub(crate) use backlog::write_backlog;
pub use runs::RunMetrics;

/// Metrics of requests and streams. Their size is bounded by the number of operations and statuses.
#[derive(Debug)]
pub(crate) struct Metrics {
    requests: Counters<2>,
    durations: Durations<1>,
    open_streams: AtomicI64,
    sent_chunks: AtomicU64,
}

impl Default for Metrics {
    fn default() -> Self {
        Self {
            requests: Counters::new(
                "helix_http_requests_total",
                ["operation", "status"],
                "Requests by status.",
            ),
            durations: Durations::new(
                "helix_http_request_duration_seconds",
                ["operation"],
                "Time until the head of the response.",
            ),
            open_streams: AtomicI64::default(),
            sent_chunks: AtomicU64::default(),
        }
    }
}

impl Metrics {
    pub(crate) fn answered(&self, operation: Operation, status: u16, took: Duration) {
        let operation = operation.to_string();
        self.requests.add([&operation, &status.to_string()], 1);
        self.durations.took([&operation], took);
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

    pub(crate) fn write(&self, out: &mut String) {
        self.requests.write(out);
        self.durations.write(out);
        let open = self.open_streams.load(Ordering::Relaxed);
        let help = "Streams being read.";
        single(out, "helix_sse_open_streams", "gauge", help, open);
        let sent = self.sent_chunks.load(Ordering::Relaxed);
        let help = "Chunks sent to readers.";
        single(out, "helix_sse_chunks_total", "counter", help, sent);
    }
}
