//! Reads run on threads of the store, and block no task.

use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};

use futures_util::future::join;
use helix_agents_testkit::block_on;

use super::*;

struct Subject {
    readers: Option<Readers>,
    folder: PathBuf,
}

impl Drop for Subject {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

impl Subject {
    fn new(name: &str, connections: usize) -> Self {
        let folder = format!("helix-readers-{}-{name}", std::process::id());
        let folder = std::env::temp_dir().join(folder);
        fs::create_dir_all(&folder).unwrap();
        let file = folder.join("helix.db");
        let config = SqliteConfig::new().readers(connections);
        drop(connection::writer(&file, &config).unwrap());
        let readers = Readers::with_max_hold(&file, &config, Duration::from_secs(3600)).unwrap();
        Self {
            readers: Some(readers),
            folder,
        }
    }

    fn read<T: Send + 'static>(
        &self,
        read: impl Fn(&Connection) -> std::result::Result<T, OperationError> + Send + 'static,
    ) -> ResultFuture<T> {
        self.readers.as_ref().unwrap().read(read, || ())
    }

    /// Starts a read that stops inside of its transaction, signals that on the receiver, and returns 7 once
    /// the sender is used.
    fn slow(&self) -> (ResultFuture<i64>, Receiver<()>, Sender<()>) {
        let ((begun, has_begun), (go, goes)) = (mpsc::channel(), mpsc::channel());
        let goes = Mutex::new(goes);
        let result = self.read(move |conn| {
            conn.query_row("SELECT count(*) FROM told", [], |_| Ok(()))?;
            begun.send(()).unwrap();
            goes.lock().unwrap().recv().unwrap();
            Ok(7)
        });
        (result, has_begun, go)
    }

    fn threads(&self) -> usize {
        self.readers.as_ref().unwrap().shared.lock().threads
    }
}

#[test]
fn a_slow_read_does_not_block_other_tasks_of_its_thread() {
    let subject = Subject::new("slow", 1);
    let (slow, has_begun, go) = subject.slow();
    let queued = subject.read(|_| Ok(8));
    // Both tasks share one thread: the read ends only after the other task has run.
    let other = async {
        has_begun.recv().unwrap();
        go.send(()).unwrap();
        "went on"
    };
    let all = block_on(join(join(slow, queued), other));
    assert!(matches!(all, ((Ok(7), Ok(8)), "went on")));
}

#[test]
fn there_are_as_many_threads_as_are_needed_and_no_more_than_connections() {
    let subject = Subject::new("threads", 2);
    assert_eq!(subject.threads(), 0, "nobody has read yet");
    for _ in 0..3 {
        assert!(block_on(subject.read(|_| Ok(()))).is_ok());
    }
    let (slow, has_begun, go) = subject.slow();
    has_begun.recv().unwrap();
    let others: Vec<_> = (0..8)
        .map(|number| subject.read(move |_| Ok(number)))
        .collect();
    for (number, other) in others.into_iter().enumerate() {
        assert!(matches!(block_on(other), Ok(found) if found == number));
    }
    assert_eq!(subject.threads(), 2);
    go.send(()).unwrap();
    assert!(matches!(block_on(slow), Ok(7)));
}

#[test]
fn a_read_whose_caller_has_left_is_not_started() {
    let subject = Subject::new("dropped", 1);
    let (slow, has_begun, go) = subject.slow();
    has_begun.recv().unwrap();
    let count = Arc::new(AtomicUsize::new(0));
    let counted = |count: &Arc<AtomicUsize>| {
        let count = Arc::clone(count);
        subject.read(move |_| Ok(count.fetch_add(1, Ordering::SeqCst)))
    };
    drop(counted(&count));
    let wanted = counted(&count);
    // A read that has started is finished, and its result is dropped.
    drop(slow);
    go.send(()).unwrap();
    assert!(matches!(block_on(wanted), Ok(0)));
}

#[test]
fn a_read_that_panics_fails_alone_and_leaves_its_connection_usable() {
    let subject = Subject::new("panic", 1);
    let failed = block_on(subject.read::<()>(|_| panic!("while reading")));
    assert!(
        format!("{failed:?}").contains("while reading"),
        "{failed:?}"
    );
    assert!(matches!(block_on(subject.read(|_| Ok(1))), Ok(1)));
}

#[test]
fn held_readers_begin_when_they_are_released() {
    let subject = Subject::new("held", 2);
    let readers = subject.readers.as_ref().unwrap();
    readers.hold();
    let waiting = subject.read(|_| Ok(1));
    assert!(readers.are_held_and_idle());
    let other = async { readers.release() };
    assert!(matches!(block_on(join(waiting, other)), (Ok(1), ())));
}

#[test]
fn threads_end_with_the_store_and_every_caller_gets_a_result() {
    let mut subject = Subject::new("closed", 1);
    let (slow, has_begun, go) = subject.slow();
    has_begun.recv().unwrap();
    let queued = subject.read(|_| Ok(()));
    let shared = Arc::downgrade(&subject.readers.as_ref().unwrap().shared);
    subject.readers = None;
    assert!(block_on(queued).is_err(), "it can never begin");
    go.send(()).unwrap();
    assert!(matches!(block_on(slow), Ok(7)));
    // The thread drops its share last.
    while shared.strong_count() > 0 {
        thread::yield_now();
    }
}

/// Closing returns when no thread of the store has a connection left: the process may end then, and
/// the connection that was closed last has tidied the file.
#[test]
fn closing_waits_for_the_read_under_way() {
    let subject = Subject::new("closing", 2);
    let (slow, has_begun, go) = subject.slow();
    has_begun.recv().unwrap();
    let readers = subject.readers.as_ref().unwrap();
    let shared = Arc::clone(&readers.shared);
    // The read may end only once closing has begun.
    let lets_go = thread::spawn(move || {
        while !shared.lock().is_closed {
            thread::yield_now();
        }
        go.send(()).unwrap();
    });
    readers.close(Duration::from_secs(3600));
    assert_eq!(readers.shared.lock().busy_threads, 0);
    assert!(matches!(block_on(slow), Ok(7)));
    lets_go.join().unwrap();
}

/// A read that does not end does not keep the process from ending.
#[test]
fn closing_does_not_wait_for_ever() {
    let subject = Subject::new("impatient", 1);
    let (slow, has_begun, go) = subject.slow();
    has_begun.recv().unwrap();
    subject.readers.as_ref().unwrap().close(Duration::ZERO);
    go.send(()).unwrap();
    assert!(matches!(block_on(slow), Ok(7)));
}
