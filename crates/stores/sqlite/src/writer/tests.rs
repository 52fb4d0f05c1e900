//! Several writes in one transaction: the result of each, and the content of the file afterwards.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Wake;

use super::*;
use crate::change_notifier::{ChangeListener, SessionHash};
use crate::key::OwnerId;
use crate::write_cache::RunRow;

struct Count(AtomicUsize);

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

type WriteTask<'a> = Pin<Box<dyn Future<Output = Result<i64, OperationError>> + 'a>>;
type Step = fn(&WriteConnection) -> Result<i64, OperationError>;

fn writer() -> Arc<Writer> {
    let connection = Connection::open_in_memory().unwrap();
    let schema = include_str!("../schema/v3.sql");
    connection.execute_batch(schema).unwrap();
    connection.execute_batch("CREATE TABLE t (x)").unwrap();
    Writer::new(
        connection,
        Arc::default(),
        Duration::from_secs(1),
        WriteAheadLog::none(),
    )
}

fn insert(db: &WriteConnection, value: i64) -> Result<i64, OperationError> {
    let sql = "INSERT INTO t VALUES (?)";
    db.conn.prepare_cached(sql)?.execute([value])?;
    Ok(value)
}

fn one(db: &WriteConnection) -> Result<i64, OperationError> {
    insert(db, 1)
}

fn two(db: &WriteConnection) -> Result<i64, OperationError> {
    insert(db, 2)
}

fn refused(db: &WriteConnection) -> Result<i64, OperationError> {
    insert(db, 3)?;
    Err(OperationError::internal("refused"))
}

fn broken(db: &WriteConnection) -> Result<i64, OperationError> {
    insert(db, 4)?;
    db.execute("nonsense")?;
    Ok(4)
}

fn panicking(db: &WriteConnection) -> Result<i64, OperationError> {
    insert(db, 5)?;
    panic!("in the middle")
}

fn content(writer: &Writer) -> Vec<i64> {
    let read = |conn: &Connection| {
        let mut all = conn.prepare_cached("SELECT x FROM t ORDER BY x")?;
        let values = all.query_map([], |row| row.get(0))?;
        Ok(values.collect::<Result<_, _>>()?)
    };
    helix_agents_testkit::block_on(writer.read(read)).unwrap()
}

fn poll<T>(future: &mut Pin<Box<dyn Future<Output = T> + '_>>) -> Poll<T> {
    future
        .as_mut()
        .poll(&mut Context::from_waker(std::task::Waker::noop()))
}

/// Queues writes while the connection is in use, and then makes them in one transaction.
fn write_group(writer: &Writer, steps: &[Step]) -> Vec<Result<i64, String>> {
    let state = writer.try_lock().unwrap();
    let mut queued: Vec<WriteTask<'_>> = Vec::new();
    for step in steps {
        let step = *step;
        let write = writer.write(None, Vec::new(), move |db: &WriteConnection, _| step(db));
        let mut write: WriteTask<'_> = Box::pin(write);
        assert!(poll(&mut write).is_pending());
        queued.push(write);
    }
    writer.serve(state);
    let answered = queued.iter_mut().map(|write| match poll(write) {
        Poll::Ready(outcome) => outcome.map_err(|error| format!("{error:?}")),
        Poll::Pending => panic!("a write was left without an answer"),
    });
    answered.collect()
}

/// Writes while the connection is free.
fn write_alone(writer: &Writer, step: Step) -> Result<i64, OperationError> {
    let mut write: WriteTask<'_> =
        Box::pin(writer.write(None, Vec::new(), move |db: &WriteConnection, _| step(db)));
    match poll(&mut write) {
        Poll::Ready(outcome) => outcome,
        Poll::Pending => panic!("the connection was not free"),
    }
}

#[test]
fn a_panic_in_a_group_fails_its_own_write_alone() {
    let writer = writer();
    let outcomes = write_group(&writer, &[one, panicking, two]);
    assert_eq!(outcomes[0], Ok(1));
    let told = outcomes[1].as_ref().unwrap_err();
    assert!(told.contains("in the middle"), "{told}");
    assert_eq!(outcomes[2], Ok(2));
    assert_eq!(content(&writer), [1, 2]);
    assert!(write_alone(&writer, one).is_ok());
    assert_eq!(content(&writer), [1, 1, 2]);
}

#[test]
fn a_panic_beside_a_write_that_breaks_the_group_leaves_no_caller_without_a_result() {
    let writer = writer();
    let outcomes = write_group(&writer, &[one, panicking, broken, two]);
    let well: Vec<bool> = outcomes.iter().map(Result::is_ok).collect();
    assert_eq!(well, [true, false, false, true]);
    assert_eq!(content(&writer), [1, 2]);
}

#[test]
fn a_panic_in_a_lone_write_or_read_leaves_the_writer_usable() {
    let writer = writer();
    assert!(write_alone(&writer, panicking).is_err());
    assert!(write_group(&writer, &[panicking])[0].is_err());
    let read = writer.read::<()>(|_| panic!("while reading"));
    assert!(helix_agents_testkit::block_on(read).is_err());
    assert_eq!(content(&writer), [0; 0]);
    assert!(write_alone(&writer, one).is_ok());
    assert_eq!(write_group(&writer, &[one, two]), [Ok(1), Ok(2)]);
    assert_eq!(content(&writer), [1, 1, 2]);
}

#[test]
fn a_lone_queued_write_that_is_refused_leaves_nothing() {
    let writer = writer();
    assert!(write_group(&writer, &[refused])[0].is_err());
    assert_eq!(content(&writer), [0; 0]);
}

#[test]
fn the_writes_of_a_broken_group_are_made_again_one_by_one() {
    let writer = writer();
    let outcomes = write_group(&writer, &[one, broken, refused, two]);
    let well: Vec<bool> = outcomes.iter().map(Result::is_ok).collect();
    assert_eq!(well, [true, false, false, true]);
    assert_eq!(content(&writer), [1, 2], "each once, and no half of one");
}

fn finds_empty_cache(db: &WriteConnection) -> Result<i64, OperationError> {
    // The part before was undone, so the cache must not have its writes.
    match db.cache.borrow().run(OwnerId(1), &"r".parse().unwrap()) {
        None => Ok(0),
        Some(row) => Err(OperationError::internal(format!("{row:?} is remembered"))),
    }
}

#[test]
fn the_cache_is_emptied_when_a_part_of_a_group_is_refused() {
    let fills_cache: Step = |db| {
        let row = RunRow {
            id: "r".parse().unwrap(),
            key: 5,
            is_split: false,
        };
        db.cache.borrow_mut().put_run(OwnerId(1), row);
        Err(OperationError::internal("refused"))
    };
    let outcomes = write_group(&writer(), &[fills_cache, finds_empty_cache]);
    assert!(outcomes[0].is_err());
    assert_eq!(outcomes[1], Ok(0));
}

#[test]
fn listeners_are_notified_of_the_writes_of_a_group() {
    let writer = writer();
    let heard_by = |name: &str| {
        let listener: ChangeListener = writer
            .notifier
            .listen(SessionHash::of(&name.parse().unwrap()));
        let mut change = Box::pin(listener.changed());
        let count = Arc::new(Count(AtomicUsize::new(0)));
        let waker = Arc::clone(&count).into();
        let mut context = Context::from_waker(&waker);
        assert!(change.as_mut().poll(&mut context).is_pending());
        (listener, change, count)
    };
    let listeners = ["a", "b", "c", "d"].map(heard_by);
    let mut state = writer.try_lock().unwrap();
    let written: [(&str, Step); 3] = [("a", one), ("b", refused), ("c", two)];
    let mut queued: Vec<WriteTask<'_>> = Vec::new();
    for (name, step) in written {
        let changed_sessions = vec![SessionHash::of(&name.parse().unwrap())];
        let write = writer.write(None, changed_sessions, move |db: &WriteConnection, _| {
            step(db)
        });
        let mut write: WriteTask<'_> = Box::pin(write);
        assert!(poll(&mut write).is_pending());
        queued.push(write);
    }
    assert!(writer.write_queued(&mut state, Duration::ZERO));
    let told = listeners.map(|(_, _, count)| count.0.load(Ordering::SeqCst));
    assert_eq!(told, [1, 0, 1, 0]);
}

/// Opens two writers of one file, as two processes would.
fn two_of_one_file(name: &str) -> (std::path::PathBuf, Arc<Writer>, Arc<Writer>) {
    let folder = format!("helix-writer-{}-{name}", std::process::id());
    let folder = std::env::temp_dir().join(folder);
    // A killed process of the same id may have left one.
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    let [ours, theirs] = [0, 1].map(|_| {
        let config = crate::config::SqliteConfig::new();
        let connection = crate::connection::writer(&folder.join("helix.db"), &config).unwrap();
        Writer::new(
            connection,
            Arc::default(),
            config.busy_timeout,
            WriteAheadLog::none(),
        )
    });
    (folder, ours, theirs)
}

fn touch(writer: &Writer, name: &str) {
    let changed_sessions = vec![SessionHash::of(&name.parse().unwrap())];
    let work = |_: &WriteConnection, _| Ok(());
    helix_agents_testkit::block_on(writer.write(None, changed_sessions, work)).unwrap();
}

/// Counts the notifications of changes of a session.
struct Counter {
    listener: ChangeListener,
    change: Option<Pin<Box<dyn Future<Output = ()>>>>,
    count: Arc<Count>,
}

impl Counter {
    fn new(writer: &Writer, name: &str) -> Self {
        let mut counter = Self {
            listener: writer
                .notifier
                .listen(SessionHash::of(&name.parse().unwrap())),
            change: None,
            count: Arc::new(Count(AtomicUsize::new(0))),
        };
        counter.notified();
        counter
    }

    /// The number of notifications since the last call. Listens again.
    fn notified(&mut self) -> usize {
        let mut change = Box::pin(self.listener.changed());
        let waker = Arc::clone(&self.count).into();
        let mut context = Context::from_waker(&waker);
        assert!(change.as_mut().poll(&mut context).is_pending());
        self.change = Some(change);
        self.count.0.swap(0, Ordering::SeqCst)
    }
}

/// Looks for foreign changes, as the polling thread does.
fn poll_changes(writer: &Writer) {
    let mut state = writer.try_lock().unwrap();
    writer.subscribe(&mut state);
    writer.serve(state);
}

fn rows(writer: &Writer, table: &str) -> i64 {
    let sql = format!("SELECT count(*) FROM {table}");
    let count = move |conn: &Connection| Ok(conn.query_row(&sql, [], |row| row.get(0))?);
    helix_agents_testkit::block_on(writer.read(count)).unwrap()
}

#[test]
fn the_change_log_is_not_written_without_other_subscribers() {
    let (folder, ours, theirs) = two_of_one_file("subscribers");
    let own = Counter::new(&ours, "a");
    poll_changes(&ours);
    (0..9).for_each(|_| touch(&ours, "a"));
    assert_eq!((rows(&ours, "ear"), rows(&ours, "told")), (1, 0));
    touch(&theirs, "a");
    assert_eq!(rows(&ours, "told"), 1, "we want to know");
    // They subscribe while our cache says that there are no subscribers.
    let mut other = Counter::new(&theirs, "b");
    poll_changes(&theirs);
    other.notified();
    touch(&ours, "a");
    assert_eq!(rows(&ours, "told"), 2);
    poll_changes(&theirs);
    assert_eq!(other.notified(), 0);
    touch(&ours, "b");
    poll_changes(&theirs);
    assert_eq!(other.notified(), 1);
    drop(theirs);
    touch(&ours, "a");
    assert_eq!((rows(&ours, "ear"), rows(&ours, "told")), (1, 3));
    drop(own);
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn a_foreign_write_wakes_only_the_listeners_of_its_sessions() {
    let (folder, ours, theirs) = two_of_one_file("concerns");
    let mut counters: Vec<Counter> = (0..1_000)
        .map(|n| Counter::new(&ours, &format!("s{n}")))
        .collect();
    let mut woken = || -> Vec<(usize, usize)> {
        let all = counters.iter_mut().map(Counter::notified).enumerate();
        all.filter(|(_, count)| *count > 0).collect()
    };
    // The first look cannot tell which sessions were changed before it.
    poll_changes(&ours);
    woken();
    for _ in 0..3 {
        touch(&theirs, "another");
        poll_changes(&ours);
        assert_eq!(woken(), []);
    }
    touch(&theirs, "s7");
    touch(&theirs, "s9");
    poll_changes(&ours);
    assert_eq!(woken(), [(7, 1), (9, 1)]);
    poll_changes(&ours);
    assert_eq!(woken(), [], "nothing is new");
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn own_writes_neither_hide_foreign_ones_nor_count_as_foreign() {
    let (folder, ours, theirs) = two_of_one_file("between");
    let [mut a, mut b] = ["a", "b"].map(|name| Counter::new(&ours, name));
    poll_changes(&ours);
    a.notified();
    b.notified();
    // Far more rows than the log keeps.
    for _ in 0..1_000 {
        touch(&ours, "c");
    }
    touch(&theirs, "b");
    poll_changes(&ours);
    assert_eq!((a.notified(), b.notified()), (0, 1));
    touch(&theirs, "a");
    touch(&ours, "c");
    poll_changes(&ours);
    assert_eq!((a.notified(), b.notified()), (1, 0));
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn every_listener_is_woken_when_the_changed_sessions_are_not_known() {
    let (folder, ours, theirs) = two_of_one_file("unknown");
    let mut a = Counter::new(&ours, "a");
    poll_changes(&ours);
    a.notified();
    // A writer that does not write to the change log.
    let state = theirs.try_lock().unwrap();
    state.db.execute("UPDATE floor SET fence = 1").unwrap();
    drop(state);
    poll_changes(&ours);
    assert_eq!(a.notified(), 1);
    // More rows than the log keeps.
    for _ in 0..1_000 {
        touch(&theirs, "b");
    }
    poll_changes(&ours);
    assert_eq!(a.notified(), 1);
    std::fs::remove_dir_all(folder).unwrap();
}

/// Begins a transaction that writes, as another process might.
fn begin(writer: &Writer) -> MutexGuard<'_, WriterState> {
    let state = writer.try_lock().unwrap();
    state.db.begin(Duration::ZERO).unwrap();
    state
}

#[test]
fn a_write_beside_another_process_waits_on_a_thread_of_its_own() {
    let (folder, ours, theirs) = two_of_one_file("beside");
    let busy = begin(&theirs);
    let mut writes: Vec<WriteTask<'_>> = Vec::new();
    for number in [1, 2, 3] {
        let write = ours.write(None, Vec::new(), move |_: &WriteConnection, _| Ok(number));
        let mut write: WriteTask<'_> = Box::pin(write);
        // It returns at once, although it cannot write.
        assert!(poll(&mut write).is_pending());
        writes.push(write);
    }
    busy.db.roll_back();
    drop(busy);
    let done = writes.into_iter().map(helix_agents_testkit::block_on);
    let done: Vec<_> = done.map(Result::unwrap).collect();
    assert_eq!(done, [1, 2, 3]);
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn every_queued_write_fails_when_the_wait_for_another_process_ends() {
    let (folder, ours, theirs) = two_of_one_file("gives-up");
    let ours = Writer::new(
        crate::connection::writer(
            &folder.join("helix.db"),
            &crate::config::SqliteConfig::new(),
        )
        .unwrap(),
        Arc::clone(&ours.notifier),
        Duration::from_millis(1),
        WriteAheadLog::none(),
    );
    let busy = begin(&theirs);
    let mut writes: Vec<WriteTask<'_>> = Vec::new();
    for step in [one as Step, two] {
        let write = ours.write(None, Vec::new(), move |db: &WriteConnection, _| step(db));
        let mut write: WriteTask<'_> = Box::pin(write);
        assert!(poll(&mut write).is_pending());
        writes.push(write);
    }
    for write in writes {
        let outcome = helix_agents_testkit::block_on(write);
        assert!(matches!(outcome, Err(OperationError::Sqlite(error)) if is_busy(&error)));
    }
    drop(busy);
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn a_read_beside_a_write_in_memory_waits_in_the_queue() {
    let writer = writer();
    let state = writer.try_lock().unwrap();
    let mut read: WriteTask<'_> = Box::pin(writer.read(|_| Ok(7)));
    assert!(poll(&mut read).is_pending());
    writer.serve(state);
    assert!(matches!(poll(&mut read), Poll::Ready(Ok(7))));
}
