//! Deltas on their way to the stream.

use std::sync::Arc;
use std::time::Duration;

use super::PerformError;
use super::patience::{MayPass, Patience, patiently};
use super::scope::{EffectContext, Scope};
use crate::id::IdSource;
use crate::session::OpenStep;
use crate::stream::{Chunk, ChunkOrigin, ChunkPayload, DeltaSource, Sequence, StreamWriter, split};
use crate::time::{Clock, Timestamp};

/// How long a delta waits for others, so that a stored row is a batch.
pub(super) const WINDOW: Duration = Duration::from_millis(5);
/// How long deltas wait after a batch that failed.
const RETRY: Duration = Duration::from_millis(500);
/// How many chunks are read at once.
const PAGE: usize = 512;

/// The deltas of one effect.
///
/// They are written in batches while the effect goes on. What is left when its commit is made goes
/// with the commit, so a quick reply costs no write of its own. When the stream cannot be written for
/// a while, nothing is lost and nothing stops: what could not be written waits for the next batch, or
/// for the commit.
pub(super) struct Deltas<'a> {
    scope: Scope<'a>,
    writer: StreamWriter,
    /// Which attempt at the effect this is.
    attempt: u32,
    /// The base of chunks that are written before it, once there are any.
    streamed: Option<Arc<ChunkOrigin>>,
    waiting: Vec<Chunk>,
    since: Option<Timestamp>,
    /// The end of the stream before the first batch.
    before: Option<Sequence>,
    /// A place in the stream before everything that this attempt can have written.
    earliest: Sequence,
    /// How many chunks were written.
    written: usize,
    /// Whether one of those that wait is too large for a chunk of its own.
    held: bool,
    /// Whether the last batch failed: it may have been written all the same.
    unsure: bool,
    /// Whether another attempt has taken over: nobody hears this one any more.
    muted: bool,
}

impl<'a> Deltas<'a> {
    /// The deltas of a model call.
    pub(super) fn of_model(cx: EffectContext<'a>) -> Self {
        let (n, attempt) = (cx.at().n, cx.view.attempt);
        let earliest = cx.view.sequence;
        let earliest = earliest.unwrap_or(Sequence(cx.view.run.start_sequence));
        Self::new(
            cx.scope,
            DeltaSource::Effect { n, attempt },
            attempt,
            earliest,
        )
    }

    /// The deltas of an attempt at a call.
    pub(super) fn of_call(scope: Scope<'a>, step: &OpenStep, index: u32, attempt: u32) -> Self {
        let by = DeltaSource::Call {
            step: step.id.clone(),
            index,
            attempt,
        };
        Self::new(scope, by, attempt, step.start_sequence)
    }

    /// Keeps everything for the commit.
    pub(super) fn hold(mut self) -> Self {
        self.held = true;
        self
    }

    fn new(scope: Scope<'a>, by: DeltaSource, attempt: u32, earliest: Sequence) -> Self {
        Self {
            scope,
            writer: writer(scope).of(by),
            attempt,
            streamed: None,
            waiting: Vec::new(),
            since: None,
            before: None,
            earliest,
            written: 0,
            held: false,
            unsure: false,
            muted: false,
        }
    }

    /// Adds a delta. A text that is too large for a chunk becomes several; anything else is
    /// shortened here, so that what settles the step knows what readers are told.
    pub(super) fn push(&mut self, payload: ChunkPayload) {
        let now = self.scope.now();
        self.since.get_or_insert(now);
        let limits = self.scope.ports.streams.limits();
        let streamed = self.streamed.get_or_insert_with(|| {
            let base = ChunkOrigin::clone(self.scope.base);
            Arc::new(base.of_attempt(self.scope.at().n, self.attempt))
        });
        let waiting = &mut self.waiting;
        split(payload, limits.piece(), |payload| {
            let chunk = Chunk::new(Arc::clone(streamed), now, payload);
            if limits.fits(&chunk) {
                waiting.push(chunk);
            } else {
                waiting.extend(limits.fit(chunk));
            }
        });
    }

    /// Adds several deltas.
    pub(super) fn extend(&mut self, payloads: impl IntoIterator<Item = ChunkPayload>) {
        for payload in payloads {
            self.push(payload);
        }
    }

    /// The clock of the effect.
    pub(super) fn clock(&self) -> &'a dyn Clock {
        self.scope.ports.clock.as_ref()
    }

    /// The ids of the effect.
    pub(super) fn ids(&self) -> &'a dyn IdSource {
        self.scope.ports.ids.as_ref()
    }

    /// When what waits is written.
    pub(super) fn due(&self) -> Option<Timestamp> {
        let since = self.since.filter(|_| !self.held && !self.muted)?;
        let window = if self.unsure { RETRY } else { WINDOW };
        Some(since.saturating_add(window))
    }

    /// Writes what waits. One that is too large, which a piece of a reply never is, goes with the
    /// commit, and so does what comes after it.
    ///
    /// # Errors
    /// When the run was taken over, or another attempt at the effect has begun or was committed. A
    /// stream that cannot be written for a while is no error.
    pub(super) async fn flush(&mut self) -> Result<(), PerformError> {
        self.since = None;
        if self.held || self.muted {
            return Ok(());
        }
        match self.write_waiting().await {
            Err(error) if error.may_pass() => {
                tracing::warn!(event = "stream.unavailable", session = %self.scope.at().session_id, %error);
                self.unsure = true;
                // The next look comes by itself, also when nothing more is said.
                self.since = Some(self.scope.now());
                Ok(())
            }
            other => other,
        }
    }

    /// The same for an effect that must not be cut short: when another attempt has taken over, this
    /// one is not heard any more, and goes on.
    pub(super) async fn flush_or_mute(&mut self) -> Result<(), PerformError> {
        match self.flush().await {
            Err(PerformError::Overtaken { .. }) => {
                self.muted = true;
                self.waiting.clear();
                Ok(())
            }
            other => other,
        }
    }

    async fn write_waiting(&mut self) -> Result<(), PerformError> {
        self.make_sure().await?;
        let limits = self.scope.ports.streams.limits();
        let is_too_large = |chunk: &Chunk| limits.check(std::slice::from_ref(chunk)).is_err();
        let fitting = self.waiting.iter().position(is_too_large);
        self.held = fitting.is_some();
        let count = fitting.unwrap_or(self.waiting.len());
        if count == 0 {
            return Ok(());
        }
        let chunks: Vec<Chunk> = self.waiting.iter().take(count).cloned().collect();
        let streams = &self.scope.ports.streams;
        let last = streams.append_deltas(&self.writer, chunks).await?;
        self.was_written(count, last);
        Ok(())
    }

    fn was_written(&mut self, count: usize, last: Sequence) {
        self.waiting.drain(..count);
        self.written += count;
        let count = u64::try_from(count).unwrap_or(0);
        let before = Sequence(last.0.saturating_sub(count));
        self.before.get_or_insert(before);
    }

    /// Finds out whether a batch was written whose acknowledgement did not come.
    async fn make_sure(&mut self) -> Result<(), PerformError> {
        if !self.unsure {
            return Ok(());
        }
        let (mut count, mut last) = (0, self.earliest);
        let mut cursor = self.before.unwrap_or(self.earliest);
        loop {
            let root = &self.scope.at().root_session_id;
            let page = self.scope.ports.streams.read(root, cursor, PAGE).await?;
            for stored in &page {
                cursor = stored.sequence;
                if Some(&stored.chunk.base) == self.streamed.as_ref() {
                    count += 1;
                    last = stored.sequence;
                }
            }
            if page.len() < PAGE {
                break;
            }
        }
        self.unsure = false;
        let more = count - self.written.min(count);
        if more > 0 {
            self.was_written(more.min(self.waiting.len()), last);
        }
        Ok(())
    }

    /// Takes the deltas that wait, for the commit.
    ///
    /// # Errors
    /// When it cannot be found out, for longer than one has patience, what was written before.
    pub(super) async fn take(&mut self) -> Result<Vec<Chunk>, PerformError> {
        let mut patience = Patience::new(self.scope.ports);
        while let Err(error) = self.make_sure().await {
            patience.bear(error, self.scope.ports).await?;
        }
        self.since = None;
        self.held = false;
        let mut waiting = std::mem::take(&mut self.waiting);
        for chunk in &mut waiting {
            chunk.base = Arc::clone(self.scope.base);
        }
        Ok(waiting)
    }

    /// A place in the stream before everything this effect wrote.
    pub(super) fn before(&self) -> Option<Sequence> {
        self.before
    }

    /// Throws everything away, also what readers saw.
    pub(super) async fn discard(&mut self, reason: &str) -> Result<(), PerformError> {
        self.take().await?;
        let Some(before) = self.before.take() else {
            return Ok(());
        };
        discard(self.scope, &self.writer, before, reason).await
    }
}

/// The writer of an effect's deltas.
fn writer(scope: Scope<'_>) -> StreamWriter {
    let at = scope.at();
    StreamWriter::new(at.root_session_id.clone(), at.session_id.clone(), at.fence)
}

async fn discard(
    scope: Scope<'_>,
    writer: &StreamWriter,
    after: Sequence,
    reason: &str,
) -> Result<(), PerformError> {
    let reason = reason.to_owned();
    let discarded = ChunkPayload::StepDiscarded { reason };
    let discarded = Chunk::new(Arc::clone(scope.base), scope.now(), discarded);
    let ports = scope.ports;
    let discard = || {
        ports
            .streams
            .discard_deltas(writer, after, discarded.clone())
    };
    patiently(ports, discard).await?;
    Ok(())
}

/// Throws away what was streamed of a reply that was never committed: by a process that is gone, or
/// by an earlier attempt at this effect. `after` is a place in the stream before it.
pub(super) async fn discard_orphans(
    scope: Scope<'_>,
    attempt: u32,
    after: Sequence,
) -> Result<(), PerformError> {
    let (at, ports) = (scope.at(), scope.ports);
    let mut cursor = after;
    let mut committed = after;
    let mut orphaned = false;
    loop {
        let root = &at.root_session_id;
        let page = patiently(ports, || ports.streams.read(root, cursor, PAGE)).await?;
        for stored in &page {
            cursor = stored.sequence;
            if stored.chunk.base.session_id != at.session_id {
                continue;
            }
            match &stored.chunk.payload {
                payload if payload.is_delta() => orphaned = true,
                // It stands after what the process before left behind.
                ChunkPayload::ExecutorSuperseded {} => {}
                _ => {
                    committed = stored.sequence;
                    orphaned = false;
                }
            }
        }
        if page.len() < PAGE {
            break;
        }
    }
    if !orphaned {
        return Ok(());
    }
    let reason = "the attempt that streamed it was given up";
    let by = DeltaSource::Effect { n: at.n, attempt };
    discard(scope, &writer(scope).of(by), committed, reason).await
}
