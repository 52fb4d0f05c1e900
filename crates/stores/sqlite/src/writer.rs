//! The queue in front of the one connection that writes.
//!
//! A caller that finds the connection free writes at once, on its own thread. A caller that finds it in
//! use puts its write into a queue; the user of the connection then makes all queued writes in one
//! transaction, each in a savepoint of its own, so that a refused write leaves nothing and affects no
//! other. They wait for the disk once. A write that panics is refused in the same way: it fails for its
//! caller alone, and the connection stays usable.
//!
//! No caller blocks its own thread, which runs other tasks. When another process writes, or the
//! write-ahead log must be cut while a connection reads from it, the connection is handed over to a thread
//! that waits and then serves the queue.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError, Weak};
use std::task::{Context, Poll};
use std::thread;
use std::time::{Duration, Instant};

use helix_agents_core::SessionId;
use rusqlite::Connection;

use crate::change_log::ForeignChanges;
use crate::change_notifier::{ChangeNotifier, SessionHash};
use crate::connection::is_busy;
use crate::operation_error::{OperationError, catch_panic};
use crate::wal::WriteAheadLog;
use crate::write_connection::WriteConnection;
use crate::write_request::{QueuedWrite, TransactionKind, WriteFn, WriteRequest, WriteStatus};
use crate::writer_state::WriterState;

/// The most writes that share a transaction, so that none of them waits for long.
const MAX_GROUP: usize = 256;
/// A write this soon after one of another root means that several roots write at once, so that it is
/// worth while to wait for more and share a transaction.
const CONTENTION_WINDOW: Duration = Duration::from_millis(2);

/// The connection that writes, and the queue of those that wait for it.
pub(crate) struct Writer {
    state: Mutex<WriterState>,
    queue: Mutex<VecDeque<Arc<dyn QueuedWrite>>>,
    /// The root that asked last, and when the last write ended.
    last_write: Mutex<Option<(SessionId, Instant)>>,
    notifier: Arc<ChangeNotifier>,
    patience: Duration,
    log: WriteAheadLog,
    /// Whether a waiting thread was started that has not taken the connection yet. No other caller takes
    /// it before.
    handed_over: AtomicBool,
    this: Weak<Self>,
}

/// How the transaction of a group of writes ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum GroupOutcome {
    /// Every caller has its result.
    Done,
    /// It was rolled back, and no caller has a result.
    Broken,
    /// It was not begun, because another process writes.
    Busy,
}

impl Writer {
    pub(crate) fn new(
        connection: Connection,
        notifier: Arc<ChangeNotifier>,
        patience: Duration,
        log: WriteAheadLog,
    ) -> Arc<Self> {
        // Only the waiting thread may block; SQLite must not wait on any other.
        if let Err(error) = connection.busy_timeout(Duration::ZERO) {
            tracing::warn!(event = "sqlite.busy_timeout_unset", %error);
        }
        Arc::new_cyclic(|this| Self {
            state: Mutex::new(WriterState::new(connection)),
            queue: Mutex::default(),
            last_write: Mutex::default(),
            notifier,
            patience,
            log,
            handed_over: AtomicBool::new(false),
            this: Weak::clone(this),
        })
    }

    /// Runs `work` in a transaction of its own or a shared one. Writes of one `root` never count as
    /// contention with each other. The listeners of `changed_sessions` are notified after the commit.
    pub(crate) async fn write<T: Send + 'static>(
        &self,
        root: Option<&SessionId>,
        changed_sessions: Vec<SessionHash>,
        mut work: impl WriteFn<T> + 'static,
    ) -> Result<T, OperationError> {
        let is_contended = root.is_some_and(|root| self.is_contended(root));
        if !is_contended && let Some(mut state) = self.try_lock() {
            let begun = state.db.begin(Duration::ZERO);
            if !begun.as_ref().is_err_and(is_busy) {
                let result = begun.map_err(OperationError::from).and_then(|()| {
                    Self::run_alone(&mut state, &changed_sessions, |db| {
                        work(db, TransactionKind::Own)
                    })
                });
                if result.is_ok() {
                    self.notifier.notify(&changed_sessions);
                }
                self.note_write();
                self.serve(state);
                return result;
            }
        }
        // Under contention, other tasks of this thread first put their writes into the queue.
        self.enqueue(changed_sessions, work, is_contended).await
    }

    /// Puts a write into the queue. The future makes it, if the connection is free, or waits for it.
    fn enqueue<T: Send + 'static>(
        &self,
        changed_sessions: Vec<SessionHash>,
        work: impl WriteFn<T> + 'static,
        yields: bool,
    ) -> WriteFuture<'_, T> {
        let request = Arc::new(WriteRequest::new(changed_sessions, Box::new(work)));
        self.queue().push_back(request.clone());
        WriteFuture {
            writer: self,
            request,
            yields,
        }
    }

    /// Whether another root has written within the contention window. Notes that this root asks.
    fn is_contended(&self, root: &SessionId) -> bool {
        let mut last = self.last_write();
        let is_soon = match &*last {
            Some((who, when)) => who != root && when.elapsed() < CONTENTION_WINDOW,
            None => false,
        };
        if last.as_ref().is_none_or(|(who, _)| who != root) {
            *last = Some((root.clone(), Instant::now()));
        }
        is_soon
    }

    /// Notes that a write has ended now.
    fn note_write(&self) {
        if let Some((_, when)) = &mut *self.last_write() {
            *when = Instant::now();
        }
    }

    fn last_write(&self) -> MutexGuard<'_, Option<(SessionId, Instant)>> {
        self.last_write
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn queue(&self) -> MutexGuard<'_, VecDeque<Arc<dyn QueuedWrite>>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The connection, if it is free.
    pub(crate) fn try_lock(&self) -> Option<MutexGuard<'_, WriterState>> {
        if self.handed_over.load(Ordering::SeqCst) {
            return None;
        }
        match self.state.try_lock() {
            Ok(state) => Some(state),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// Reads with the connection that writes, which is the only one of a database in memory.
    pub(crate) async fn read<T: Send + 'static>(
        &self,
        read: impl Fn(&Connection) -> Result<T, OperationError> + Send + 'static,
    ) -> Result<T, OperationError> {
        if let Some(state) = self.try_lock() {
            let result = catch_panic(|| read(&state.db.conn));
            self.serve(state);
            return result;
        }
        let work = move |db: &WriteConnection, _| read(&db.conn);
        self.enqueue(Vec::new(), work, false).await
    }

    /// Makes the writes that are queued, frees the connection, and wakes the callers that queued
    /// meanwhile to do the same: no caller serves others for ever. Serves again only if all readers are
    /// held for it. Does not block.
    pub(crate) fn serve(&self, state: MutexGuard<'_, WriterState>) {
        self.serve_for(state, Duration::ZERO);
    }

    /// As [`Writer::serve`], but waits for other processes and for readers as long as `patience`.
    fn serve_for(&self, state: MutexGuard<'_, WriterState>, patience: Duration) {
        let mut free = Some(state);
        while let Some(mut state) = free.take() {
            let is_served = self.write_queued(&mut state, patience);
            self.notify_foreign_changes(&mut state);
            let is_short = self.log.maintain(&state.db.conn, !patience.is_zero());
            if !is_served || !is_short {
                self.hand_over(state);
                return;
            }
            drop(state);
            // A caller that queued before the connection was free saw it in use, and waits to be woken.
            let waiting: Vec<_> = self.queue().iter().cloned().collect();
            waiting.iter().for_each(|request| request.wake());
            // So may have the last reader, which then did not cut the log.
            if self.log.awaits_cut() {
                free = self.try_lock();
            }
        }
    }

    /// Hands the connection over to a thread that waits for other processes or readers. It makes the
    /// writes that were queued before it has the connection, and wakes the callers that queue later.
    fn hand_over(&self, state: MutexGuard<'_, WriterState>) {
        self.handed_over.store(true, Ordering::SeqCst);
        drop(state);
        let started = self.this.upgrade().map(|this| {
            thread::Builder::new()
                .name("helix-sqlite-wait".to_owned())
                .spawn(move || this.serve_patiently())
        });
        match started {
            Some(Ok(_)) => {}
            // The store is being dropped, and the queue is empty.
            None => self.handed_over.store(false, Ordering::SeqCst),
            Some(Err(error)) => {
                tracing::warn!(event = "sqlite.no_thread", %error);
                self.serve_patiently();
            }
        }
    }

    fn serve_patiently(&self) {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        self.handed_over.store(false, Ordering::SeqCst);
        self.serve_for(state, self.patience.max(Duration::from_millis(1)));
    }

    /// Subscribes to the changes of other processes while there are listeners here.
    pub(crate) fn subscribe(&self, state: &mut WriterState) {
        if self.notifier.has_listeners() {
            state.set_subscribed(true);
        }
    }

    /// Cuts the log and lets readers begin again, if they are held for that and none is under way.
    /// Called after each read: it may have been the last.
    pub(crate) fn release_readers(&self) {
        if self.log.awaits_cut()
            && let Some(state) = self.try_lock()
        {
            self.serve(state);
        }
    }

    /// Makes the queued writes. Returns false if another process writes; they then stay in the queue.
    fn write_queued(&self, state: &mut WriterState, patience: Duration) -> bool {
        let group: Vec<_> = {
            let mut queue = self.queue();
            let count = queue.len().min(MAX_GROUP);
            queue.drain(..count).collect()
        };
        let left: Vec<_> = match group.as_slice() {
            [] => return true,
            [one] if self.write_one(state, &**one, patience) => Vec::new(),
            [_] => group,
            many => match self.write_group(state, many, patience) {
                GroupOutcome::Done => Vec::new(),
                GroupOutcome::Busy => group,
                GroupOutcome::Broken => {
                    let mut all = group.into_iter();
                    all.by_ref()
                        .find(|request| !self.write_one(state, &**request, patience))
                        .into_iter()
                        .chain(all)
                        .collect()
                }
            },
        };
        self.note_write();
        let is_served = left.is_empty();
        let mut queue = self.queue();
        left.into_iter()
            .rev()
            .for_each(|request| queue.push_front(request));
        is_served
    }

    /// Makes one queued write in a transaction of its own. Returns false if another process writes; its
    /// caller then has no result.
    fn write_one(
        &self,
        state: &mut WriterState,
        request: &dyn QueuedWrite,
        patience: Duration,
    ) -> bool {
        let db = &state.db;
        if let Err(error) = db.begin(patience) {
            if is_busy(&error) && patience.is_zero() {
                return false;
            }
            request.settle(Some(&error));
            return true;
        }
        let committed = match request.run(db, TransactionKind::Own) {
            WriteStatus::Written => state.commit(request.changed_sessions()).map(|()| true),
            WriteStatus::Refused | WriteStatus::Broken | WriteStatus::Abandoned => Ok(false),
        };
        match committed {
            Ok(true) => self.notifier.notify(request.changed_sessions()),
            _ => state.db.roll_back(),
        }
        request.settle(committed.err().as_ref());
        true
    }

    /// Makes several queued writes in one transaction.
    fn write_group(
        &self,
        state: &mut WriterState,
        group: &[Arc<dyn QueuedWrite>],
        patience: Duration,
    ) -> GroupOutcome {
        if let Err(error) = state.db.begin(patience) {
            if is_busy(&error) && patience.is_zero() {
                return GroupOutcome::Busy;
            }
            // Each of them alone would wait as long again.
            group
                .iter()
                .for_each(|request| request.settle(Some(&error)));
            return GroupOutcome::Done;
        }
        let mut changed_sessions: Vec<SessionHash> = Vec::with_capacity(group.len());
        let committed = Self::write_parts(state, group, &mut changed_sessions);
        if !matches!(committed, Ok(true)) {
            tracing::debug!(
                event = "sqlite.group_broken",
                writes = group.len(),
                ?committed
            );
            state.db.roll_back();
            return GroupOutcome::Broken;
        }
        self.notifier.notify(&changed_sessions);
        group.iter().for_each(|request| request.settle(None));
        GroupOutcome::Done
    }

    /// Makes each write in a savepoint of its own, and commits. Returns false if SQLite failed in one of
    /// them; the transaction must be rolled back then.
    fn write_parts(
        state: &mut WriterState,
        group: &[Arc<dyn QueuedWrite>],
        changed_sessions: &mut Vec<SessionHash>,
    ) -> rusqlite::Result<bool> {
        let db = &state.db;
        for request in group {
            db.begin_part()?;
            match request.run(db, TransactionKind::Shared) {
                WriteStatus::Written => changed_sessions.extend(request.changed_sessions()),
                WriteStatus::Refused => db.undo_part()?,
                WriteStatus::Broken => return Ok(false),
                WriteStatus::Abandoned => {}
            }
            db.end_part()?;
        }
        state.commit(changed_sessions).map(|()| true)
    }

    /// Runs `work` in the transaction that has begun, and ends it.
    fn run_alone<T>(
        state: &mut WriterState,
        changed_sessions: &[SessionHash],
        work: impl FnOnce(&WriteConnection) -> Result<T, OperationError>,
    ) -> Result<T, OperationError> {
        let result = catch_panic(|| work(&state.db)).and_then(|value| {
            state.commit(changed_sessions)?;
            Ok(value)
        });
        if result.is_err() {
            state.db.roll_back();
        }
        result
    }

    /// Notifies the listeners of sessions that another process has changed.
    fn notify_foreign_changes(&self, state: &mut WriterState) {
        if !self.notifier.has_listeners() {
            return;
        }
        match state.foreign_changes() {
            Ok(None) => {}
            Ok(Some(ForeignChanges::Sessions(changed))) => self.notifier.notify(&changed),
            Ok(Some(ForeignChanges::All)) => self.notifier.notify_all(),
            Err(error) => {
                tracing::warn!(event = "sqlite.data_version_unknown", %error);
                self.notifier.notify_all();
            }
        }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        state.set_subscribed(false);
    }
}

/// The future of a queued write. Makes it, with all others in the queue, whenever the connection is
/// free. Dropped, the write is not started.
struct WriteFuture<'a, T: Send> {
    writer: &'a Writer,
    request: Arc<WriteRequest<T>>,
    yields: bool,
}

impl<T: Send> Future for WriteFuture<'_, T> {
    type Output = Result<T, OperationError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let outcome = self.request.poll(context);
        if outcome.is_ready() {
            return outcome;
        }
        if std::mem::take(&mut self.yields) {
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        let Some(state) = self.writer.try_lock() else {
            return Poll::Pending;
        };
        self.writer.serve(state);
        self.request.poll(context)
    }
}

impl<T: Send> Drop for WriteFuture<'_, T> {
    fn drop(&mut self) {
        self.request.abandon();
    }
}

#[cfg(test)]
mod tests;
