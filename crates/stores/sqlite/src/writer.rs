//! The one connection that writes, and who uses it when.
//!
//! A caller who finds it free writes at once, on its own thread. One who finds it in use leaves its
//! write in a queue; whoever has the connection then writes all that is queued in one transaction,
//! each write in a savepoint of its own, so that one that is refused leaves nothing and disturbs
//! nobody. All of them wait for the disk once. One that panics is refused like one that does not fit:
//! it fails for its caller alone, and the connection is of use to the next.
//!
//! No caller waits on its own thread, on which other tasks go on. Where another process writes, or the
//! log is to be cut and somebody still reads from it, the connection is handed over to a thread that
//! waits, and then serves the queue.

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

use crate::change_log::News;
use crate::change_notifier::{Bells, Mark};
use crate::connection::is_busy;
use crate::operation_error::{Fail, caught};
use crate::wal::Log;
use crate::write_connection::Desk;
use crate::write_request::{Attempt, Queued, Ticket, Verdict, Work};
use crate::writer_state::Slot;

/// Writes that share a transaction at most, so that nobody waits for long.
const GROUP: usize = 256;
/// Who comes this soon after somebody else is probably not the last.
const CROWD: Duration = Duration::from_millis(2);

/// The connection that writes.
pub(crate) struct Writer {
    slot: Mutex<Slot>,
    queue: Mutex<VecDeque<Arc<dyn Queued>>>,
    /// Who came last, and when the last write was done.
    last: Mutex<Option<(SessionId, Instant)>>,
    bells: Arc<Bells>,
    patience: Duration,
    log: Log,
    /// Whether a thread is on its way to the connection, to wait with it. Nobody else takes it before.
    handed_over: AtomicBool,
    this: Weak<Self>,
}

/// How a group of writes came out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Group {
    /// Everybody is answered.
    Done,
    /// It broke: nothing is written and nobody is answered.
    Broken,
    /// Another process writes, and was not waited for.
    Busy,
}

impl Writer {
    pub(crate) fn new(
        connection: Connection,
        bells: Arc<Bells>,
        patience: Duration,
        log: Log,
    ) -> Arc<Self> {
        // Waiting is for the thread that has nothing else to do; SQLite must not do it elsewhere.
        if let Err(error) = connection.busy_timeout(Duration::ZERO) {
            tracing::warn!(event = "sqlite.busy_timeout_unset", %error);
        }
        Arc::new_cyclic(|this| Self {
            slot: Mutex::new(Slot::new(connection)),
            queue: Mutex::default(),
            last: Mutex::default(),
            bells,
            patience,
            log,
            handed_over: AtomicBool::new(false),
            this: Weak::clone(this),
        })
    }

    /// Does something in a transaction of its own or a shared one. `root` tells who writes, where
    /// that matters; `touched` whose listeners are told.
    pub(crate) async fn write<T: Send + 'static>(
        &self,
        root: Option<&SessionId>,
        touched: Vec<Mark>,
        mut work: impl Work<T> + 'static,
    ) -> Result<T, Fail> {
        let is_crowded = root.is_some_and(|root| self.is_crowded(root));
        if !is_crowded && let Some(mut slot) = self.try_lock() {
            let begun = slot.desk.begin(Duration::ZERO);
            if !begun.as_ref().is_err_and(is_busy) {
                let result = begun.map_err(Fail::from).and_then(|()| {
                    Self::alone(&mut slot, &touched, |desk| work(desk, Attempt::Only))
                });
                if result.is_ok() {
                    self.bells.ring(&touched);
                }
                self.done();
                self.serve(slot);
                return result;
            }
        }
        // Where many share a thread, the others first get to leave their writes in the queue.
        self.queued(touched, work, is_crowded).await
    }

    /// Leaves something in the queue and waits for its turn.
    fn queued<T: Send + 'static>(
        &self,
        touched: Vec<Mark>,
        work: impl Work<T> + 'static,
        yields: bool,
    ) -> Queueing<'_, T> {
        let ticket = Arc::new(Ticket::new(touched, Box::new(work)));
        self.queue().push_back(ticket.clone());
        Queueing {
            writer: self,
            ticket,
            yields,
        }
    }

    /// Whether somebody else wrote a moment ago.
    fn is_crowded(&self, root: &SessionId) -> bool {
        let mut last = self.last();
        let soon = match &*last {
            Some((who, when)) => who != root && when.elapsed() < CROWD,
            None => false,
        };
        if last.as_ref().is_none_or(|(who, _)| who != root) {
            *last = Some((root.clone(), Instant::now()));
        }
        soon
    }

    /// Notes that somebody has written.
    fn done(&self) {
        if let Some((_, when)) = &mut *self.last() {
            *when = Instant::now();
        }
    }

    fn last(&self) -> MutexGuard<'_, Option<(SessionId, Instant)>> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn queue(&self) -> MutexGuard<'_, VecDeque<Arc<dyn Queued>>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The connection, if it is free.
    pub(crate) fn try_lock(&self) -> Option<MutexGuard<'_, Slot>> {
        if self.handed_over.load(Ordering::SeqCst) {
            return None;
        }
        match self.slot.try_lock() {
            Ok(slot) => Some(slot),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// Reads with the connection that writes: in memory there is no other.
    pub(crate) async fn read<T: Send + 'static>(
        &self,
        read: impl Fn(&Connection) -> Result<T, Fail> + Send + 'static,
    ) -> Result<T, Fail> {
        if let Some(slot) = self.try_lock() {
            let result = caught(|| read(&slot.desk.conn));
            self.serve(slot);
            return result;
        }
        let work = move |desk: &Desk, _| read(&desk.conn);
        self.queued(Vec::new(), work, false).await
    }

    /// Serves those who came meanwhile, once, and leaves the rest to them: no caller serves others
    /// for ever. Once more only where all readers wait for it. Waits for nobody.
    pub(crate) fn serve(&self, slot: MutexGuard<'_, Slot>) {
        self.serve_for(slot, Duration::ZERO);
    }

    /// The same, waiting so long for other processes and for those who read.
    fn serve_for(&self, slot: MutexGuard<'_, Slot>, patience: Duration) {
        let mut free = Some(slot);
        while let Some(mut slot) = free.take() {
            let is_served = self.group(&mut slot, patience);
            self.look_around(&mut slot);
            let is_short = self.log.look_after(&slot.desk.conn, !patience.is_zero());
            if !is_served || !is_short {
                self.hand_over(slot);
                return;
            }
            drop(slot);
            // Whoever queued before the connection was free again saw it in use, and waits to be
            // woken.
            let waiting: Vec<_> = self.queue().iter().cloned().collect();
            waiting.iter().for_each(|ticket| ticket.wake());
            // The last reader may have seen it in use too.
            if self.log.is_awaited() {
                free = self.try_lock();
            }
        }
    }

    /// Leaves the connection to a thread that waits for what is in the way. It serves all who queued
    /// before it has the connection, and wakes those who come later.
    fn hand_over(&self, slot: MutexGuard<'_, Slot>) {
        self.handed_over.store(true, Ordering::SeqCst);
        drop(slot);
        let started = self.this.upgrade().map(|this| {
            thread::Builder::new()
                .name("helix-sqlite-wait".to_owned())
                .spawn(move || this.serve_patiently())
        });
        match started {
            Some(Ok(_)) => {}
            // The store is being dropped, and nobody is in the queue.
            None => self.handed_over.store(false, Ordering::SeqCst),
            Some(Err(error)) => {
                tracing::warn!(event = "sqlite.no_thread", %error);
                self.serve_patiently();
            }
        }
    }

    fn serve_patiently(&self) {
        let slot = self.slot.lock().unwrap_or_else(PoisonError::into_inner);
        self.handed_over.store(false, Ordering::SeqCst);
        self.serve_for(slot, self.patience.max(Duration::from_millis(1)));
    }

    /// Makes others say what they write, while somebody here waits for it.
    pub(crate) fn listen(&self, slot: &mut Slot) {
        if self.bells.is_awaited() {
            slot.set_ear(true);
        }
    }

    /// Does what readers are held for, once none is under way; called by whoever may be the last of
    /// them.
    pub(crate) fn settle_readers(&self) {
        if self.log.is_awaited()
            && let Some(slot) = self.try_lock()
        {
            self.serve(slot);
        }
    }

    /// Writes all that is queued. False: another process writes, and what is queued is queued still.
    fn group(&self, slot: &mut Slot, patience: Duration) -> bool {
        let group: Vec<_> = {
            let mut queue = self.queue();
            let count = queue.len().min(GROUP);
            queue.drain(..count).collect()
        };
        let left: Vec<_> = match group.as_slice() {
            [] => return true,
            [one] if self.one(slot, &**one, patience) => Vec::new(),
            [_] => group,
            many => match self.together(slot, many, patience) {
                Group::Done => Vec::new(),
                Group::Busy => group,
                Group::Broken => {
                    let mut all = group.into_iter();
                    all.by_ref()
                        .find(|ticket| !self.one(slot, &**ticket, patience))
                        .into_iter()
                        .chain(all)
                        .collect()
                }
            },
        };
        self.done();
        let is_served = left.is_empty();
        let mut queue = self.queue();
        left.into_iter()
            .rev()
            .for_each(|ticket| queue.push_front(ticket));
        is_served
    }

    /// One queued write in a transaction of its own. False: another process writes, and nobody is
    /// answered.
    fn one(&self, slot: &mut Slot, ticket: &dyn Queued, patience: Duration) -> bool {
        let desk = &slot.desk;
        if let Err(error) = desk.begin(patience) {
            if is_busy(&error) && patience.is_zero() {
                return false;
            }
            ticket.settle(Some(&error));
            return true;
        }
        let committed = match ticket.run(desk, Attempt::Only) {
            Verdict::Written => slot.commit(ticket.touched()).map(|()| true),
            Verdict::Refused | Verdict::Broken | Verdict::Abandoned => Ok(false),
        };
        match committed {
            Ok(true) => self.bells.ring(ticket.touched()),
            _ => slot.desk.roll_back(),
        }
        ticket.settle(committed.err().as_ref());
        true
    }

    /// Many queued writes in one transaction.
    fn together(&self, slot: &mut Slot, group: &[Arc<dyn Queued>], patience: Duration) -> Group {
        if let Err(error) = slot.desk.begin(patience) {
            if is_busy(&error) && patience.is_zero() {
                return Group::Busy;
            }
            // It was waited for, and each of them alone would wait as long again.
            group.iter().for_each(|ticket| ticket.settle(Some(&error)));
            return Group::Done;
        }
        let mut touched: Vec<Mark> = Vec::with_capacity(group.len());
        let committed = Self::parts(slot, group, &mut touched);
        if !matches!(committed, Ok(true)) {
            tracing::debug!(
                event = "sqlite.group_broken",
                writes = group.len(),
                ?committed
            );
            slot.desk.roll_back();
            return Group::Broken;
        }
        self.bells.ring(&touched);
        group.iter().for_each(|ticket| ticket.settle(None));
        Group::Done
    }

    /// Each write in a savepoint of its own, and the end of the transaction.
    fn parts(
        slot: &mut Slot,
        group: &[Arc<dyn Queued>],
        touched: &mut Vec<Mark>,
    ) -> rusqlite::Result<bool> {
        let desk = &slot.desk;
        for ticket in group {
            desk.begin_part()?;
            match ticket.run(desk, Attempt::Shared) {
                Verdict::Written => touched.extend(ticket.touched()),
                Verdict::Refused => desk.undo_part()?,
                Verdict::Broken => return Ok(false),
                Verdict::Abandoned => {}
            }
            desk.end_part()?;
        }
        slot.commit(touched).map(|()| true)
    }

    /// Something in a transaction of its own, which has begun.
    fn alone<T>(
        slot: &mut Slot,
        touched: &[Mark],
        work: impl FnOnce(&Desk) -> Result<T, Fail>,
    ) -> Result<T, Fail> {
        let result = caught(|| work(&slot.desk)).and_then(|value| {
            slot.commit(touched)?;
            Ok(value)
        });
        if result.is_err() {
            slot.desk.roll_back();
        }
        result
    }

    /// Tells those who wait for what another process has written. What this connection writes does
    /// not count.
    fn look_around(&self, slot: &mut Slot) {
        if !self.bells.is_awaited() {
            return;
        }
        match slot.news() {
            Ok(None) => {}
            Ok(Some(News::These(touched))) => self.bells.ring(&touched),
            Ok(Some(News::Everybody)) => self.bells.ring_all(),
            Err(error) => {
                tracing::warn!(event = "sqlite.data_version_unknown", %error);
                self.bells.ring_all();
            }
        }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        let slot = self.slot.get_mut().unwrap_or_else(PoisonError::into_inner);
        slot.set_ear(false);
    }
}

/// Waits for a queued write, or does it, with all others in the queue.
struct Queueing<'a, T: Send> {
    writer: &'a Writer,
    ticket: Arc<Ticket<T>>,
    yields: bool,
}

impl<T: Send> Future for Queueing<'_, T> {
    type Output = Result<T, Fail>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let outcome = self.ticket.poll(context);
        if outcome.is_ready() {
            return outcome;
        }
        if std::mem::take(&mut self.yields) {
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        let Some(slot) = self.writer.try_lock() else {
            return Poll::Pending;
        };
        self.writer.serve(slot);
        self.ticket.poll(context)
    }
}

impl<T: Send> Drop for Queueing<'_, T> {
    fn drop(&mut self) {
        self.ticket.abandon();
    }
}

#[cfg(test)]
mod tests;
