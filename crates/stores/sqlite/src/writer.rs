//! The one connection that writes, and who uses it when.
//!
//! A caller who finds it free writes at once, on its own thread. One who finds it in use leaves its
//! write in a queue; whoever has the connection then writes all that is queued in one transaction,
//! each write in a savepoint of its own, so that one that is refused leaves nothing and disturbs
//! nobody. All of them wait for the disk once.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::task::{Context, Poll};
use std::thread;
use std::time::{Duration, Instant};

use helix_agents_core::SessionId;
use rusqlite::Connection;

use crate::bells::Bells;
use crate::connection::is_busy;
use crate::error::Fail;
use crate::ticket::{Attempt, Queued, Ticket, Verdict, Work};

/// Writes that share a transaction at most, so that nobody waits for long.
const GROUP: usize = 256;
/// Who comes this soon after somebody else is probably not the last.
const CROWD: Duration = Duration::from_millis(2);

/// The connection that writes.
pub(crate) struct Writer {
    connection: Mutex<Slot>,
    queue: Mutex<VecDeque<Arc<dyn Queued>>>,
    last: Mutex<Option<(SessionId, Instant)>>,
    bells: Arc<Bells>,
    patience: Duration,
}

/// The connection, and what it last saw of other processes.
pub(crate) struct Slot {
    connection: Connection,
    version: i64,
}

impl Writer {
    pub(crate) fn new(connection: Connection, bells: Arc<Bells>, patience: Duration) -> Self {
        Self {
            connection: Mutex::new(Slot {
                connection,
                version: 0,
            }),
            queue: Mutex::default(),
            last: Mutex::default(),
            bells,
            patience,
        }
    }

    /// Does something in a transaction of its own or a shared one. `root` tells who writes, where
    /// that matters; `touched` whose listeners are told.
    pub(crate) async fn write<T: Send + 'static>(
        &self,
        root: Option<&SessionId>,
        touched: Vec<SessionId>,
        mut work: impl Work<T> + 'static,
    ) -> Result<T, Fail> {
        let is_crowded = root.is_some_and(|root| self.is_crowded(root));
        if !is_crowded && let Some(mut slot) = self.try_lock() {
            let result = self.alone(&mut slot, |conn| work(conn, Attempt::Only));
            if result.is_ok() {
                self.bells.ring(&touched);
            }
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
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        match &mut *last {
            Some((who, when)) if who == root => {
                *when = Instant::now();
                false
            }
            last => {
                let now = Instant::now();
                let soon = last.as_ref().is_some_and(|(_, when)| now - *when < CROWD);
                *last = Some((root.clone(), now));
                soon
            }
        }
    }

    fn queue(&self) -> MutexGuard<'_, VecDeque<Arc<dyn Queued>>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The connection, if it is free.
    pub(crate) fn try_lock(&self) -> Option<MutexGuard<'_, Slot>> {
        match self.connection.try_lock() {
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
        let slot = self
            .connection
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let result = read(&slot.connection);
        self.serve(slot);
        result
    }

    /// Serves those who came meanwhile, once, and leaves the rest to them: no caller serves others
    /// for ever.
    pub(crate) fn serve(&self, mut slot: MutexGuard<'_, Slot>) {
        self.group(&mut slot);
        self.look_around(&mut slot);
        drop(slot);
        // Whoever queued before the connection was free again saw it in use, and waits to be woken.
        let waiting: Vec<_> = self.queue().iter().cloned().collect();
        waiting.iter().for_each(|ticket| ticket.wake());
    }

    /// Writes all that is queued.
    fn group(&self, slot: &mut Slot) {
        let group: Vec<_> = {
            let mut queue = self.queue();
            let count = queue.len().min(GROUP);
            queue.drain(..count).collect()
        };
        match group.as_slice() {
            [] => {}
            [one] => self.one(slot, &**one),
            many => {
                if let Err(error) = self.together(slot, many) {
                    tracing::debug!(event = "sqlite.group_broken", %error, writes = many.len());
                    many.iter().for_each(|ticket| self.one(slot, &**ticket));
                }
            }
        }
    }

    /// One queued write in a transaction of its own.
    fn one(&self, slot: &mut Slot, ticket: &dyn Queued) {
        let result = self.alone(slot, |conn| match ticket.run(conn, Attempt::Only) {
            Verdict::Written => Ok(()),
            // The outcome is in the ticket; this only undoes what was written.
            _ => Err(Fail::corrupt("write", "it was refused")),
        });
        match result {
            Err(Fail::Sqlite(error)) => ticket.settle(Some(&error)),
            result => {
                if result.is_ok() {
                    self.bells.ring(ticket.touched());
                }
                ticket.settle(None);
            }
        }
    }

    /// Many queued writes in one transaction. On an error nothing is written and nobody is answered.
    fn together(&self, slot: &Slot, group: &[Arc<dyn Queued>]) -> rusqlite::Result<()> {
        let conn = &slot.connection;
        begin(conn, self.patience)?;
        let mut written = Vec::with_capacity(group.len());
        let result = group
            .iter()
            .try_for_each(|ticket| {
                execute(conn, "SAVEPOINT one")?;
                match ticket.run(conn, Attempt::Shared) {
                    Verdict::Written => written.push(ticket),
                    Verdict::Refused => execute(conn, "ROLLBACK TO one")?,
                    Verdict::Broken => return Err(rusqlite::Error::ExecuteReturnedResults),
                    Verdict::Abandoned => {}
                }
                execute(conn, "RELEASE one")
            })
            .and_then(|()| execute(conn, "COMMIT"));
        if result.is_err() {
            roll_back(conn);
            return result;
        }
        written
            .iter()
            .for_each(|ticket| self.bells.ring(ticket.touched()));
        group.iter().for_each(|ticket| ticket.settle(None));
        Ok(())
    }

    /// Something in a transaction of its own.
    fn alone<T>(
        &self,
        slot: &mut Slot,
        work: impl FnOnce(&Connection) -> Result<T, Fail>,
    ) -> Result<T, Fail> {
        let conn = &slot.connection;
        begin(conn, self.patience)?;
        let result = work(conn).and_then(|value| {
            execute(conn, "COMMIT")?;
            Ok(value)
        });
        if result.is_err() {
            roll_back(conn);
        }
        result
    }

    /// Tells everybody who waits when another process has written. What this connection writes
    /// does not count.
    fn look_around(&self, slot: &mut Slot) {
        if !self.bells.is_awaited() {
            return;
        }
        let version = slot
            .connection
            .prepare_cached("PRAGMA data_version")
            .and_then(|mut statement| statement.query_row([], |row| row.get(0)));
        match version {
            Ok(version) if version == slot.version => {}
            Ok(version) => {
                slot.version = version;
                self.bells.ring_all();
            }
            Err(error) => {
                tracing::warn!(event = "sqlite.data_version_unknown", %error);
                self.bells.ring_all();
            }
        }
    }
}

fn execute(conn: &Connection, sql: &str) -> rusqlite::Result<()> {
    conn.prepare_cached(sql)?.execute([]).map(drop)
}

/// Begins to write. Waits in short steps for another process that does: SQLite's own are long.
fn begin(conn: &Connection, patience: Duration) -> rusqlite::Result<()> {
    if !conn.is_autocommit() {
        // Somebody panicked in the middle.
        roll_back(conn);
    }
    let mut pause = Duration::from_micros(100);
    let mut until = None;
    loop {
        match execute(conn, "BEGIN IMMEDIATE") {
            Err(error) if is_busy(&error) => {
                let now = Instant::now();
                if now >= *until.get_or_insert(now + patience) {
                    return Err(error);
                }
                thread::sleep(pause);
                pause = (pause * 2).min(Duration::from_millis(2));
            }
            other => return other,
        }
    }
}

fn roll_back(conn: &Connection) {
    // SQLite has rolled back itself after some failures.
    if !conn.is_autocommit()
        && let Err(error) = execute(conn, "ROLLBACK")
    {
        tracing::error!(event = "sqlite.rollback_failed", %error);
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
