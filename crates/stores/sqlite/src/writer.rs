//! The one connection that writes, and who uses it when.
//!
//! A caller who finds it free writes at once, on its own thread. One who finds it in use leaves its
//! write in a queue; whoever has the connection then writes all that is queued in one transaction,
//! each write in a savepoint of its own, so that one that is refused leaves nothing and disturbs
//! nobody. All of them wait for the disk once. One that panics is refused like one that does not fit:
//! it fails for its caller alone, and the connection is of use to the next.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use helix_agents_core::SessionId;
use rusqlite::Connection;

use crate::bells::{Bells, Mark};
use crate::desk::Desk;
use crate::fail::{Fail, caught};
use crate::log::Log;
use crate::ticket::{Attempt, Queued, Ticket, Verdict, Work};
use crate::told::{self, News};

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
}

/// The connection, and what it last saw of other processes.
pub(crate) struct Slot {
    desk: Desk,
    /// What SQLite called the content of the file when this was last asked.
    version: i64,
    /// What was told of up to then, and by this connection since.
    seen: i64,
    /// The name under which this store wants to know of what others write.
    ear: String,
    /// Whether it is in the file.
    listens: bool,
}

impl Writer {
    pub(crate) fn new(
        connection: Connection,
        bells: Arc<Bells>,
        patience: Duration,
        log: Log,
    ) -> Self {
        Self {
            slot: Mutex::new(Slot {
                desk: Desk::new(connection),
                version: 0,
                seen: 0,
                ear: told::ear(),
                listens: false,
            }),
            queue: Mutex::default(),
            last: Mutex::default(),
            bells,
            patience,
            log,
        }
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
            let result = self.alone(&mut slot, &touched, |desk| work(desk, Attempt::Only));
            if result.is_ok() {
                self.bells.ring(&touched);
            }
            self.done();
            self.serve(slot);
            return result;
        }
        let ticket = Arc::new(Ticket::new(touched, Box::new(work)));
        self.queue().push_back(ticket.clone());
        Queueing {
            writer: self,
            ticket,
            // Where many share a thread, the others first get to leave their writes in the queue.
            yields: is_crowded,
        }
        .await
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
        match self.slot.try_lock() {
            Ok(slot) => Some(slot),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// Reads with the connection that writes: in memory there is no other.
    pub(crate) fn read<T>(
        &self,
        read: impl FnOnce(&Connection) -> Result<T, Fail>,
    ) -> Result<T, Fail> {
        let slot = self.slot.lock().unwrap_or_else(PoisonError::into_inner);
        let result = caught(|| read(&slot.desk.conn));
        self.serve(slot);
        result
    }

    /// Serves those who came meanwhile, once, and leaves the rest to them: no caller serves others
    /// for ever. Once more only where all readers wait for it.
    pub(crate) fn serve(&self, slot: MutexGuard<'_, Slot>) {
        let mut free = Some(slot);
        while let Some(mut slot) = free.take() {
            self.group(&mut slot);
            self.look_around(&mut slot);
            self.log.look_after(&slot.desk.conn);
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

    /// Makes others say what they write, while somebody here waits for it.
    pub(crate) fn listen(&self, slot: &mut Slot) {
        if self.bells.is_awaited() {
            slot.set_ear(true, self.patience);
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

    /// Writes all that is queued.
    fn group(&self, slot: &mut Slot) {
        let group: Vec<_> = {
            let mut queue = self.queue();
            let count = queue.len().min(GROUP);
            queue.drain(..count).collect()
        };
        match group.as_slice() {
            [] => return,
            [one] => self.one(slot, &**one),
            many => {
                if !self.together(slot, many) {
                    many.iter().for_each(|ticket| self.one(slot, &**ticket));
                }
            }
        }
        self.done();
    }

    /// One queued write in a transaction of its own.
    fn one(&self, slot: &mut Slot, ticket: &dyn Queued) {
        let desk = &slot.desk;
        if let Err(error) = desk.begin(self.patience) {
            ticket.settle(Some(&error));
            return;
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
    }

    /// Many queued writes in one transaction. False: it broke, nothing is written and nobody is
    /// answered.
    fn together(&self, slot: &mut Slot, group: &[Arc<dyn Queued>]) -> bool {
        let mut touched: Vec<Mark> = Vec::with_capacity(group.len());
        let committed = slot.desk.begin(self.patience).and_then(|()| {
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
            slot.commit(&touched).map(|()| true)
        });
        if !matches!(committed, Ok(true)) {
            tracing::debug!(
                event = "sqlite.group_broken",
                writes = group.len(),
                ?committed
            );
            slot.desk.roll_back();
            return false;
        }
        self.bells.ring(&touched);
        group.iter().for_each(|ticket| ticket.settle(None));
        true
    }

    /// Something in a transaction of its own.
    fn alone<T>(
        &self,
        slot: &mut Slot,
        touched: &[Mark],
        work: impl FnOnce(&Desk) -> Result<T, Fail>,
    ) -> Result<T, Fail> {
        slot.desk.begin(self.patience)?;
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

impl Slot {
    /// Ends the transaction; it happened, and others can see to whom.
    fn commit(&mut self, touched: &[Mark]) -> rusqlite::Result<()> {
        if !self.is_heard()? {
            return self.desk.commit();
        }
        let told = told::tell(&self.desk.conn, touched)?;
        self.desk.commit()?;
        // Unless somebody else has told something in between, which is still to be read.
        if told == self.seen + 1 {
            self.seen = told;
        }
        if told::is_lot(told) {
            // Whoever listened may have ended without a word.
            self.desk.known.borrow_mut().put_heard(None);
        }
        Ok(())
    }

    /// Whether somebody else wants to know of this transaction. Whoever begins to wants it in a
    /// transaction of its own, after which nothing of this is known any more.
    fn is_heard(&self) -> rusqlite::Result<bool> {
        let known = self.desk.known.borrow().is_heard();
        if let Some(is_heard) = known {
            return Ok(is_heard);
        }
        let is_heard = told::is_heard(&self.desk.conn, &self.ear)?;
        self.desk.known.borrow_mut().put_heard(Some(is_heard));
        Ok(is_heard)
    }

    /// Puts the ear into the file, or takes it out. Does not wait for others who write: until it is
    /// there, everybody is woken by whatever they write.
    fn set_ear(&mut self, listens: bool, busy_timeout: Duration) {
        if self.listens == listens {
            return;
        }
        let conn = &self.desk.conn;
        let done = conn
            .busy_timeout(Duration::ZERO)
            .and_then(|()| match listens {
                true => told::listen(conn, &self.ear),
                false => told::leave(conn, &self.ear),
            });
        match done {
            Ok(()) => self.listens = listens,
            Err(error) => tracing::debug!(event = "sqlite.ear_not_set", %error),
        }
        if let Err(error) = conn.busy_timeout(busy_timeout) {
            tracing::warn!(event = "sqlite.busy_timeout_unset", %error);
        }
    }

    /// What others have written since the last time.
    fn news(&mut self) -> rusqlite::Result<Option<News>> {
        if self.version()? == self.version {
            return Ok(None);
        }
        // As of one instant: what is written between two looks must not be missed by the one and
        // taken for told by the other.
        self.desk.execute("BEGIN")?;
        let read = told::since(&self.desk.conn, self.seen)
            .and_then(|(news, seen)| Ok((news, seen, self.version()?)));
        self.desk.execute("ROLLBACK")?;
        let (news, seen, version) = read?;
        let is_first = self.version == 0;
        (self.seen, self.version) = (seen, version);
        Ok(Some(if is_first { News::Everybody } else { news }))
    }

    /// What SQLite calls the content of the file. Others change it.
    fn version(&self) -> rusqlite::Result<i64> {
        self.desk
            .conn
            .prepare_cached("PRAGMA data_version")?
            .query_row([], |row| row.get(0))
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        let slot = self.slot.get_mut().unwrap_or_else(PoisonError::into_inner);
        slot.set_ear(false, self.patience);
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
