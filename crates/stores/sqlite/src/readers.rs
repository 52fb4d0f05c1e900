//! A pool of connections that read, and the threads that use them.
//!
//! A read may take long: it is large, the disk is slow, or readers are held while the log is cut. Its
//! caller is one task of many on its thread, so reads run on threads of the store, and the task is woken
//! when its result is there.

use std::collections::VecDeque;
use std::fmt;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use helix_agents_core::store::StoreError;
use rusqlite::Connection;

use crate::config::SqliteConfig;
use crate::connection;
use crate::error::Result;
use crate::oneshot::{self, ResultFuture, ResultSender};
use crate::operation_error::{BACKEND, OperationError, catch_panic};

/// The longest time for which readers are held: a read that takes longer delays no other.
const MAX_HOLD: Duration = Duration::from_secs(1);

/// A fixed number of connections, and at most as many threads, which are started when they are first
/// needed and end when this is dropped. A read never waits while it has a connection, so that every read
/// gets its turn.
#[derive(Debug)]
pub(crate) struct Readers {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    pool: Mutex<Pool>,
    /// The number of connections.
    connections: usize,
    max_hold: Duration,
    /// Signalled when a job is queued, and when readers are no longer held.
    work: Condvar,
    /// Signalled when a read has ended.
    ended: Condvar,
}

struct Pool {
    idle: Vec<Connection>,
    jobs: VecDeque<Box<dyn Job>>,
    threads: usize,
    /// How many of the threads wait for a job.
    idle_threads: usize,
    /// Until when readers are held: no read begins.
    held: Option<Instant>,
    /// How many threads run a job, or send its result.
    busy_threads: usize,
    /// How many callers wait for the last read to end.
    waiting: usize,
    is_closed: bool,
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool")
            .field("idle", &self.idle.len())
            .field("jobs", &self.jobs.len())
            .field("threads", &self.threads)
            .finish_non_exhaustive()
    }
}

/// A queued read of any result type.
trait Job: Send {
    /// Whether its caller still waits.
    fn is_awaited(&self) -> bool;
    /// Reads, and returns a function that sends the result. It is called when the connection is back in
    /// the pool.
    fn run(self: Box<Self>, conn: &Connection) -> Box<dyn FnOnce()>;
}

struct ReadJob<T, R, A> {
    sender: ResultSender<T>,
    read: R,
    after: A,
}

impl<T, R, A> Job for ReadJob<T, R, A>
where
    T: Send + 'static,
    R: Fn(&Connection) -> std::result::Result<T, OperationError> + Send,
    A: FnOnce() + Send + 'static,
{
    fn is_awaited(&self) -> bool {
        self.sender.is_awaited()
    }

    fn run(self: Box<Self>, conn: &Connection) -> Box<dyn FnOnce()> {
        let Self {
            sender,
            read,
            after,
        } = *self;
        let outcome = catch_panic(|| in_snapshot(conn, read));
        Box::new(move || {
            after();
            sender.send(outcome);
        })
    }
}

impl Readers {
    pub(crate) fn open(path: &Path, config: &SqliteConfig) -> Result<Self> {
        Self::with_max_hold(path, config, MAX_HOLD)
    }

    pub(crate) fn with_max_hold(
        path: &Path,
        config: &SqliteConfig,
        max_hold: Duration,
    ) -> Result<Self> {
        let idle = (0..config.readers).map(|_| connection::reader(path, config));
        let idle: Vec<_> = idle.collect::<Result<_>>()?;
        let shared = Shared {
            connections: idle.len(),
            pool: Mutex::new(Pool {
                idle,
                jobs: VecDeque::new(),
                threads: 0,
                idle_threads: 0,
                busy_threads: 0,
                held: None,
                waiting: 0,
                is_closed: false,
            }),
            max_hold,
            work: Condvar::new(),
            ended: Condvar::new(),
        };
        Ok(Self {
            shared: Arc::new(shared),
        })
    }

    /// Reads as of one instant, on another thread. `after` is called when the connection is back in the
    /// pool, before the result is sent.
    pub(crate) fn read<T: Send + 'static>(
        &self,
        read: impl Fn(&Connection) -> std::result::Result<T, OperationError> + Send + 'static,
        after: impl FnOnce() + Send + 'static,
    ) -> ResultFuture<T> {
        let (sender, result) = oneshot::channel();
        let mut pool = self.shared.lock();
        if pool.idle_threads <= pool.jobs.len() && pool.threads < self.shared.connections {
            match self.start_thread() {
                Ok(()) => pool.threads += 1,
                // One of the threads that exist does it later.
                Err(error) if pool.threads > 0 => {
                    tracing::warn!(event = "sqlite.no_thread", %error);
                }
                Err(error) => {
                    sender.send(Err(no_thread(error)));
                    return result;
                }
            }
        }
        let job = ReadJob {
            sender,
            read,
            after,
        };
        pool.jobs.push_back(Box::new(job));
        drop(pool);
        self.shared.work.notify_one();
        result
    }

    fn start_thread(&self) -> std::io::Result<()> {
        let shared = Arc::clone(&self.shared);
        thread::Builder::new()
            .name("helix-sqlite-read".to_owned())
            .spawn(move || shared.serve())
            .map(drop)
    }

    /// Holds readers: no read begins before [`Readers::release`], or before the longest time for which
    /// they may be held has passed. Reads under way are finished. Holding them again does not prolong it.
    pub(crate) fn hold(&self) {
        let mut pool = self.shared.lock();
        let now = Instant::now();
        if pool.held.is_none_or(|until| until <= now) {
            pool.held = Some(now + self.shared.max_hold);
        }
    }

    /// Lets reads begin again.
    pub(crate) fn release(&self) {
        self.shared.lock().held = None;
        self.shared.work.notify_all();
    }

    /// Blocks until no read is under way, but no longer than readers are held.
    pub(crate) fn wait_until_idle(&self) {
        let mut pool = self.shared.lock();
        pool.waiting += 1;
        while let Some(until) = pool.held
            && pool.idle.len() < self.shared.connections
        {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            let waited = self.shared.ended.wait_timeout(pool, left);
            pool = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        pool.waiting -= 1;
    }

    /// How many reads wait for their turn.
    #[cfg(test)]
    pub(crate) fn queued(&self) -> usize {
        self.shared.lock().jobs.len()
    }

    #[cfg(test)]
    pub(crate) fn has_waiting_caller(&self) -> bool {
        self.shared.lock().waiting > 0
    }

    /// Whether readers are held and none is under way.
    pub(crate) fn are_held_and_idle(&self) -> bool {
        let pool = self.shared.lock();
        pool.held.is_some() && pool.idle.len() == self.shared.connections
    }
}

impl Readers {
    /// Closes the connections and blocks until the reads under way have ended, but no longer than this.
    pub(crate) fn close(&self, longest: Duration) {
        let until = Instant::now() + longest;
        let mut pool = self.shared.lock();
        pool.is_closed = true;
        let left = (
            std::mem::take(&mut pool.idle),
            std::mem::take(&mut pool.jobs),
        );
        drop(pool);
        self.shared.work.notify_all();
        drop(left);
        let mut pool = self.shared.lock();
        while pool.busy_threads > 0 {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            let waited = self.shared.ended.wait_timeout(pool, left);
            pool = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

impl Drop for Readers {
    fn drop(&mut self) {
        self.close(Duration::ZERO);
    }
}

fn no_thread(error: std::io::Error) -> OperationError {
    OperationError::Refused(StoreError::Unavailable {
        backend: BACKEND,
        source: Box::new(error),
    })
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Pool> {
        self.pool.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The loop of a thread: runs one job after another until the pool is closed.
    fn serve(&self) {
        while let Some((job, connection)) = self.next() {
            let send = job.run(&connection);
            self.give_back(connection);
            send();
            self.lock().busy_threads -= 1;
            self.ended.notify_all();
        }
    }

    /// Waits for a job and a connection for it; `None` when the pool is closed. Gives none while readers
    /// are held.
    fn next(&self) -> Option<(Box<dyn Job>, Connection)> {
        let mut pool = self.lock();
        loop {
            if pool.is_closed {
                return None;
            }
            let left = pool
                .held
                .map(|until| until.saturating_duration_since(Instant::now()));
            match left {
                Some(Duration::ZERO) => {
                    pool.held = None;
                    self.work.notify_all();
                }
                Some(left) if !pool.jobs.is_empty() => pool = self.wait_for_work(pool, Some(left)),
                _ => match pool.take() {
                    Some(found) => {
                        pool.busy_threads += 1;
                        return Some(found);
                    }
                    None => pool = self.wait_for_work(pool, None),
                },
            }
        }
    }

    fn wait_for_work<'a>(
        &self,
        mut pool: MutexGuard<'a, Pool>,
        left: Option<Duration>,
    ) -> MutexGuard<'a, Pool> {
        pool.idle_threads += 1;
        let mut pool = match left {
            Some(left) => {
                let waited = self.work.wait_timeout(pool, left);
                waited.unwrap_or_else(PoisonError::into_inner).0
            }
            None => {
                let waited = self.work.wait(pool);
                waited.unwrap_or_else(PoisonError::into_inner)
            }
        };
        pool.idle_threads -= 1;
        pool
    }

    fn give_back(&self, connection: Connection) {
        // A panic left a transaction open, which would keep the log from being cut.
        if !connection.is_autocommit()
            && let Err(error) = execute(&connection, "ROLLBACK")
        {
            tracing::error!(event = "sqlite.rollback_failed", %error);
        }
        let mut pool = self.lock();
        // A closed pool has no connections.
        if pool.is_closed {
            drop(pool);
            drop(connection);
            return;
        }
        pool.idle.push(connection);
        if pool.waiting > 0 {
            self.ended.notify_all();
        }
    }
}

impl Pool {
    /// The next job whose caller still waits, and a connection for it, if there are both.
    fn take(&mut self) -> Option<(Box<dyn Job>, Connection)> {
        while let Some(job) = self.jobs.pop_front() {
            if !job.is_awaited() {
                continue;
            }
            match self.idle.pop() {
                Some(connection) => return Some((job, connection)),
                None => {
                    self.jobs.push_front(job);
                    return None;
                }
            }
        }
        None
    }
}

/// Reads inside a transaction, so that all of it is seen as of one instant.
fn in_snapshot<T>(
    conn: &Connection,
    read: impl Fn(&Connection) -> std::result::Result<T, OperationError>,
) -> std::result::Result<T, OperationError> {
    execute(conn, "BEGIN")?;
    let result = read(conn);
    execute(conn, "ROLLBACK")?;
    result
}

fn execute(conn: &Connection, sql: &str) -> rusqlite::Result<()> {
    conn.prepare_cached(sql)?.execute([]).map(drop)
}

#[cfg(test)]
mod tests;
