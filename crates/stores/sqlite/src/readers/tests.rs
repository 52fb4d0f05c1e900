//! Reads happen on threads of their own, and keep nobody from going on.

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

    /// A read that stays in the middle of its transaction until it is told to go on; then it gives 7.
    /// It says when it has come there.
    fn slow(&self) -> (ResultFuture<i64>, Receiver<()>, Sender<()>) {
        let ((begun, has_begun), (go, goes)) = (mpsc::channel(), mpsc::channel());
        let goes = Mutex::new(goes);
        let answer = self.read(move |conn| {
            conn.query_row("SELECT count(*) FROM told", [], |_| Ok(()))?;
            begun.send(()).unwrap();
            goes.lock().unwrap().recv().unwrap();
            Ok(7)
        });
        (answer, has_begun, go)
    }

    fn threads(&self) -> usize {
        self.readers.as_ref().unwrap().shared.lock().threads
    }
}

#[test]
fn a_slow_read_keeps_no_other_task_of_its_thread_from_going_on() {
    let subject = Subject::new("slow", 1);
    let (slow, has_begun, go) = subject.slow();
    let queued = subject.read(|_| Ok(8));
    // One thread for all of this: the read ends only when the other task has gone on.
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
fn a_read_that_nobody_waits_for_any_more_is_not_begun() {
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
    // One that is under way comes to its end, for nobody.
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
fn readers_that_are_held_begin_when_they_are_let_go() {
    let subject = Subject::new("held", 2);
    let readers = subject.readers.as_ref().unwrap();
    readers.hold();
    let waiting = subject.read(|_| Ok(1));
    assert!(readers.are_held_and_idle());
    let other = async { readers.release() };
    assert!(matches!(block_on(join(waiting, other)), (Ok(1), ())));
}

#[test]
fn threads_end_with_the_store_and_nobody_waits_for_ever() {
    let mut subject = Subject::new("closed", 1);
    let (slow, has_begun, go) = subject.slow();
    has_begun.recv().unwrap();
    let queued = subject.read(|_| Ok(()));
    let shared = Arc::downgrade(&subject.readers.as_ref().unwrap().shared);
    subject.readers = None;
    assert!(block_on(queued).is_err(), "it can never begin");
    go.send(()).unwrap();
    assert!(matches!(block_on(slow), Ok(7)));
    // The thread lets go of what it shares as its last act.
    while shared.strong_count() > 0 {
        thread::yield_now();
    }
}
