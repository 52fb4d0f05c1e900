//! A log that is always read from is cut, and no caller waits without end.

use std::fs;
use std::future::Future;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc;
use std::task::{Context, Poll, Wake};
use std::thread;

use super::*;
use crate::change_notifier::ChangeNotifier;
use crate::config::SqliteConfig;
use crate::connection;
use crate::operation_error::OperationError;
use crate::write_connection::WriteConnection;
use crate::writer::Writer;

const HOUR: Duration = Duration::from_secs(3600);

struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::SeqCst);
    }
}

struct Subject {
    log: PathBuf,
    readers: Arc<Readers>,
    writer: Arc<Writer>,
    folder: PathBuf,
}

impl Drop for Subject {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

impl Subject {
    fn new(name: &str, patience: Duration) -> Arc<Self> {
        let folder = format!("helix-log-{}-{name}", std::process::id());
        let folder = std::env::temp_dir().join(folder);
        // A killed process of the same id may have left one.
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).unwrap();
        let file = folder.join("helix.db");
        let config = SqliteConfig::new().readers(4);
        let connection = connection::writer(&file, &config).unwrap();
        connection.execute_batch("CREATE TABLE t (x)").unwrap();
        let readers = Arc::new(Readers::with_max_hold(&file, &config, patience).unwrap());
        let log = WriteAheadLog::of(&file, Arc::clone(&readers));
        let notifier = Arc::new(ChangeNotifier::default());
        Arc::new(Self {
            log: folder.join("helix.db-wal"),
            readers,
            writer: Writer::new(connection, notifier, config.busy_timeout, log),
            folder,
        })
    }

    fn length(&self) -> u64 {
        fs::metadata(&self.log).unwrap().len()
    }

    /// Writes a megabyte, to the same pages every time.
    fn write(&self) {
        let work = |db: &WriteConnection, _| -> Result<(), OperationError> {
            db.execute("DELETE FROM t")?;
            db.execute("INSERT INTO t VALUES (zeroblob(1000000))")?;
            Ok(())
        };
        let writing = self.writer.write(None, Vec::new(), work);
        helix_agents_testkit::block_on(writing).unwrap();
    }

    fn read<T: Send + 'static>(&self, read: impl Fn() -> T + Send + 'static) -> T {
        let read = move |conn: &Connection| {
            conn.query_row("SELECT count(*) FROM t", [], |_| Ok(()))?;
            Ok(read())
        };
        let writer = Arc::clone(&self.writer);
        let reading = self.readers.read(read, move || writer.release_readers());
        helix_agents_testkit::block_on(reading).unwrap()
    }
}

#[test]
fn a_log_that_is_always_read_from_is_cut_when_the_reads_under_way_have_ended() {
    let subject = Subject::new("cut", HOUR);
    let ((begun, first), (end, ended)) = (mpsc::channel(), mpsc::channel::<()>());
    thread::scope(|scope| {
        let subject = &subject;
        let ended = Mutex::new(ended);
        scope.spawn(move || {
            subject.read(move || (begun.send(()), ended.lock().unwrap().recv()).1.is_ok())
        });
        first.recv().unwrap();
        // No commit waits for the read.
        while subject.length() < CUT_LENGTH + RETRY_GROWTH {
            subject.write();
        }
        assert!(!subject.readers.are_held_and_idle(), "one still reads");
        // A read that is asked for now begins after the first has ended, and finds the log cut.
        let later: Vec<_> = (0..8)
            .map(|_| {
                let inside = Arc::clone(subject);
                scope.spawn(move || subject.read(move || inside.length()))
            })
            .collect();
        end.send(()).unwrap();
        for one in later {
            assert_eq!(one.join().unwrap(), 0);
        }
    });
}

#[test]
fn a_log_does_not_grow_while_nothing_is_read() {
    let subject = Subject::new("idle", HOUR);
    // A read that ends before the next commit does not keep SQLite from cutting the log. A foreign
    // connection therefore keeps a read transaction open, once the log is not empty.
    subject.write();
    let other = Connection::open(subject.folder.join("helix.db")).unwrap();
    other
        .execute_batch("BEGIN; SELECT count(*) FROM t")
        .unwrap();
    while subject.length() < CUT_LENGTH + RETRY_GROWTH {
        subject.write();
    }
    assert_eq!(subject.read(|| 7), 7, "nobody is held for ever");
    other.execute_batch("ROLLBACK").unwrap();
    // From now on the log is cut, or overwritten from its beginning.
    let longest = subject.length() + RETRY_GROWTH;
    for _ in 0..64 {
        subject.write();
        assert!(subject.length() <= longest, "it grows on");
    }
}

#[test]
fn a_commit_waits_for_readers_when_the_log_is_far_too_long() {
    let subject = Subject::new("too-long", HOUR);
    let (begun, first) = mpsc::channel();
    let far = WAIT_LENGTH + 2 * RETRY_GROWTH;
    thread::scope(|scope| {
        let subject = &subject;
        let inside = Arc::clone(subject);
        let reader = scope.spawn(move || {
            subject.read(move || {
                begun.send(()).unwrap();
                // Ends when a caller waits for it, or the log has grown all the same.
                loop {
                    if inside.readers.has_waiting_caller() {
                        return inside.length();
                    }
                    if inside.length() >= far {
                        return far;
                    }
                    thread::yield_now();
                }
            })
        });
        first.recv().unwrap();
        (0..50).for_each(|_| subject.write());
        let length = reader.join().unwrap();
        assert!((WAIT_LENGTH..far).contains(&length), "{length}");
    });
}

#[test]
fn cutting_the_log_serves_the_writes_that_queued_meanwhile() {
    let subject = Subject::new("queue", HOUR);
    let busy = subject.writer.try_lock().unwrap();
    let mut queued = Box::pin(
        subject
            .writer
            .write(None, Vec::new(), |_: &WriteConnection, _| Ok(7)),
    );
    let woken = Arc::new(Woken(AtomicBool::new(false)));
    let waker = Arc::clone(&woken).into();
    let mut context = Context::from_waker(&waker);
    assert!(queued.as_mut().poll(&mut context).is_pending());
    drop(busy);
    subject.readers.hold();
    subject.writer.release_readers();
    assert!(!subject.readers.are_held_and_idle());
    assert!(woken.0.load(Ordering::SeqCst), "nobody else would wake it");
    let outcome = queued.as_mut().poll(&mut context);
    assert!(matches!(outcome, Poll::Ready(Ok(7))), "{outcome:?}");
}

#[test]
fn a_held_read_begins_after_the_longest_hold_while_another_still_runs() {
    let subject = Subject::new("patience", Duration::ZERO);
    let inside = Arc::clone(&subject);
    subject.read(move || {
        while inside.length() < CUT_LENGTH + RETRY_GROWTH {
            inside.write();
        }
        assert_eq!(inside.read(|| 7), 7);
    });
}
