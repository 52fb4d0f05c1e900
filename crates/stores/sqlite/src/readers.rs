//! Connections that read, beside the one that writes, and the threads that use them.
//!
//! A read may take long: it is large, the disk is slow, or readers are held while the log is cut.
//! Whoever asks for it is a task among many on its thread, so reads happen on threads of the store's
//! own, and the task is woken when its answer is there.

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
use crate::oneshot::{self, Answer, Promise};
use crate::operation_error::{BACKEND, Fail, caught};

/// Readers are held for this long at most: a read that takes longer delays no other.
const PATIENCE: Duration = Duration::from_secs(1);

/// A few connections, and as many threads, which are started when they are first needed and end with
/// this. A read has a connection for as long as it takes, and no longer: no read waits for anything
/// while it has one, so that all reads come to their turn.
#[derive(Debug)]
pub(crate) struct Readers {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    pool: Mutex<Pool>,
    /// How many connections there are.
    all: usize,
    /// How long readers are held.
    patience: Duration,
    /// Told when there is something to read, and when readers are held no longer.
    work: Condvar,
    /// Told when a read has ended.
    ended: Condvar,
}

struct Pool {
    idle: Vec<Connection>,
    jobs: VecDeque<Box<dyn Job>>,
    /// How many threads there are, and how many of them have nothing to do.
    threads: usize,
    resting: usize,
    /// Until when no read begins.
    held: Option<Instant>,
    /// How many wait for the last read to end.
    awaiting: usize,
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

/// A read that somebody waits for.
trait Job: Send {
    /// Whether anybody waits for it still.
    fn is_wanted(&self) -> bool;
    /// Reads. What it gives back hands the answer over, once the connection is free again.
    fn run(self: Box<Self>, conn: &Connection) -> Box<dyn FnOnce()>;
}

struct Read<T, R, A> {
    promise: Promise<T>,
    read: R,
    after: A,
}

impl<T, R, A> Job for Read<T, R, A>
where
    T: Send + 'static,
    R: Fn(&Connection) -> std::result::Result<T, Fail> + Send,
    A: FnOnce() + Send + 'static,
{
    fn is_wanted(&self) -> bool {
        self.promise.is_wanted()
    }

    fn run(self: Box<Self>, conn: &Connection) -> Box<dyn FnOnce()> {
        let Self {
            promise,
            read,
            after,
        } = *self;
        let outcome = caught(|| as_of_one_instant(conn, read));
        Box::new(move || {
            after();
            promise.keep(outcome);
        })
    }
}

impl Readers {
    pub(crate) fn open(path: &Path, config: &SqliteConfig) -> Result<Self> {
        Self::patient(path, config, PATIENCE)
    }

    pub(crate) fn patient(path: &Path, config: &SqliteConfig, patience: Duration) -> Result<Self> {
        let idle = (0..config.readers).map(|_| connection::reader(path, config));
        let idle: Vec<_> = idle.collect::<Result<_>>()?;
        let shared = Shared {
            all: idle.len(),
            pool: Mutex::new(Pool {
                idle,
                jobs: VecDeque::new(),
                threads: 0,
                resting: 0,
                held: None,
                awaiting: 0,
                is_closed: false,
            }),
            patience,
            work: Condvar::new(),
            ended: Condvar::new(),
        };
        Ok(Self {
            shared: Arc::new(shared),
        })
    }

    /// Reads as of one instant, on another thread. `after` is done when the connection is free again,
    /// before the answer is there.
    pub(crate) fn read<T: Send + 'static>(
        &self,
        read: impl Fn(&Connection) -> std::result::Result<T, Fail> + Send + 'static,
        after: impl FnOnce() + Send + 'static,
    ) -> Answer<T> {
        let (promise, answer) = oneshot::pair();
        let mut pool = self.shared.lock();
        if pool.resting <= pool.jobs.len() && pool.threads < self.shared.all {
            match self.start_thread() {
                Ok(()) => pool.threads += 1,
                // Those that there are do it later.
                Err(error) if pool.threads > 0 => {
                    tracing::warn!(event = "sqlite.no_thread", %error);
                }
                Err(error) => {
                    promise.keep(Err(no_thread(error)));
                    return answer;
                }
            }
        }
        let job = Read {
            promise,
            read,
            after,
        };
        pool.jobs.push_back(Box::new(job));
        drop(pool);
        self.shared.work.notify_one();
        answer
    }

    fn start_thread(&self) -> std::io::Result<()> {
        let shared = Arc::clone(&self.shared);
        thread::Builder::new()
            .name("helix-sqlite-read".to_owned())
            .spawn(move || shared.serve())
            .map(drop)
    }

    /// Lets no read begin for a moment, which is not prolonged. Those under way go on.
    pub(crate) fn hold(&self) {
        let mut pool = self.shared.lock();
        let now = Instant::now();
        if pool.held.is_none_or(|until| until <= now) {
            pool.held = Some(now + self.shared.patience);
        }
    }

    /// Lets reads begin again.
    pub(crate) fn release(&self) {
        self.shared.lock().held = None;
        self.shared.work.notify_all();
    }

    /// Waits until none is under way, for as long as readers are held.
    pub(crate) fn await_last(&self) {
        let mut pool = self.shared.lock();
        pool.awaiting += 1;
        while let Some(until) = pool.held
            && pool.idle.len() < self.shared.all
        {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            let waited = self.shared.ended.wait_timeout(pool, left);
            pool = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        pool.awaiting -= 1;
    }

    #[cfg(test)]
    pub(crate) fn is_awaited(&self) -> bool {
        self.shared.lock().awaiting > 0
    }

    /// Whether readers are held and none is under way.
    pub(crate) fn are_asleep(&self) -> bool {
        let pool = self.shared.lock();
        pool.held.is_some() && pool.idle.len() == self.shared.all
    }
}

impl Drop for Readers {
    fn drop(&mut self) {
        let mut pool = self.shared.lock();
        pool.is_closed = true;
        let left = (
            std::mem::take(&mut pool.idle),
            std::mem::take(&mut pool.jobs),
        );
        drop(pool);
        self.shared.work.notify_all();
        drop(left);
    }
}

fn no_thread(error: std::io::Error) -> Fail {
    Fail::Refused(StoreError::Unavailable {
        backend: BACKEND,
        source: Box::new(error),
    })
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Pool> {
        self.pool.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What a thread does: one read after another, until the store is closed.
    fn serve(&self) {
        while let Some((job, connection)) = self.next() {
            let answer = job.run(&connection);
            self.give_back(connection);
            answer();
        }
    }

    /// A read and a connection for it, as soon as there are both and readers are not held.
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
                Some(left) if !pool.jobs.is_empty() => pool = self.rest(pool, Some(left)),
                _ => match pool.take() {
                    Some(found) => return Some(found),
                    None => pool = self.rest(pool, None),
                },
            }
        }
    }

    fn rest<'a>(
        &self,
        mut pool: MutexGuard<'a, Pool>,
        left: Option<Duration>,
    ) -> MutexGuard<'a, Pool> {
        pool.resting += 1;
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
        pool.resting -= 1;
        pool
    }

    fn give_back(&self, connection: Connection) {
        // Somebody panicked in the middle. An idle connection must not hold on to the log.
        if !connection.is_autocommit()
            && let Err(error) = execute(&connection, "ROLLBACK")
        {
            tracing::error!(event = "sqlite.rollback_failed", %error);
        }
        let mut pool = self.lock();
        // A closed store has no connections.
        if !pool.is_closed {
            pool.idle.push(connection);
        }
        if pool.awaiting > 0 {
            self.ended.notify_all();
        }
    }
}

impl Pool {
    /// The next read that somebody waits for, and a connection.
    fn take(&mut self) -> Option<(Box<dyn Job>, Connection)> {
        while let Some(job) = self.jobs.pop_front() {
            if !job.is_wanted() {
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

fn as_of_one_instant<T>(
    conn: &Connection,
    read: impl Fn(&Connection) -> std::result::Result<T, Fail>,
) -> std::result::Result<T, Fail> {
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
