//! Several writes in one transaction: who is answered how, and what is in the file afterwards.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Wake;

use super::*;
use crate::change_notifier::{ChangeListener, SessionHash};
use crate::key::OwnerId;

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

/// Queues writes while somebody has the connection, who then serves them in one go.
fn together(writer: &Writer, steps: &[Step]) -> Vec<Result<i64, String>> {
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

/// Writes while nobody else does.
fn alone(writer: &Writer, step: Step) -> Result<i64, OperationError> {
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
    let outcomes = together(&writer, &[one, panicking, two]);
    assert_eq!(outcomes[0], Ok(1));
    let told = outcomes[1].as_ref().unwrap_err();
    assert!(told.contains("in the middle"), "{told}");
    assert_eq!(outcomes[2], Ok(2));
    assert_eq!(content(&writer), [1, 2]);
    assert!(alone(&writer, one).is_ok());
    assert_eq!(content(&writer), [1, 1, 2]);
}

#[test]
fn a_panic_beside_a_write_that_breaks_the_group_hangs_nobody() {
    let writer = writer();
    let outcomes = together(&writer, &[one, panicking, broken, two]);
    let well: Vec<bool> = outcomes.iter().map(Result::is_ok).collect();
    assert_eq!(well, [true, false, false, true]);
    assert_eq!(content(&writer), [1, 2]);
}

#[test]
fn a_panic_in_a_lone_write_or_read_leaves_the_writer_usable() {
    let writer = writer();
    assert!(alone(&writer, panicking).is_err());
    assert!(together(&writer, &[panicking])[0].is_err());
    let read = writer.read::<()>(|_| panic!("while reading"));
    assert!(helix_agents_testkit::block_on(read).is_err());
    assert_eq!(content(&writer), [0; 0]);
    assert!(alone(&writer, one).is_ok());
    assert_eq!(together(&writer, &[one, two]), [Ok(1), Ok(2)]);
    assert_eq!(content(&writer), [1, 1, 2]);
}

#[test]
fn a_lone_queued_write_that_is_refused_leaves_nothing() {
    let writer = writer();
    assert!(together(&writer, &[refused])[0].is_err());
    assert_eq!(content(&writer), [0; 0]);
}

#[test]
fn a_group_that_one_write_breaks_is_made_again_one_by_one() {
    let writer = writer();
    let outcomes = together(&writer, &[one, broken, refused, two]);
    let well: Vec<bool> = outcomes.iter().map(Result::is_ok).collect();
    assert_eq!(well, [true, false, false, true]);
    assert_eq!(content(&writer), [1, 2], "each once, and no half of one");
}

fn forgets(db: &WriteConnection) -> Result<i64, OperationError> {
    // What the part before wrote is not there, so it must not be known either.
    match db.cache.borrow().usage(OwnerId(1)) {
        None => Ok(0),
        Some(count) => Err(OperationError::internal(format!("{count} are remembered"))),
    }
}

#[test]
fn what_a_refused_part_of_a_group_learned_is_forgotten() {
    let learns: Step = |db| {
        db.cache.borrow_mut().put_usage(OwnerId(1), 5);
        Err(OperationError::internal("refused"))
    };
    let outcomes = together(&writer(), &[learns, forgets]);
    assert!(outcomes[0].is_err());
    assert_eq!(outcomes[1], Ok(0));
}

#[test]
fn listeners_are_told_of_what_a_group_wrote() {
    let writer = writer();
    let heard_by = |name: &str| {
        let listener: ChangeListener = writer.notifier.listen(&name.parse().unwrap());
        let mut heard = Box::pin(listener.changed());
        let count = Arc::new(Count(AtomicUsize::new(0)));
        let waker = Arc::clone(&count).into();
        let mut context = Context::from_waker(&waker);
        assert!(heard.as_mut().poll(&mut context).is_pending());
        (listener, heard, count)
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

/// Two stores of one file, as of two processes.
fn two_of_one_file(name: &str) -> (std::path::PathBuf, Arc<Writer>, Arc<Writer>) {
    let folder = format!("helix-writer-{}-{name}", std::process::id());
    let folder = std::env::temp_dir().join(folder);
    // A killed process of the same number may have left one.
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

/// Hears the changes of a session, and counts them.
struct Ear {
    listener: ChangeListener,
    heard: Option<Pin<Box<dyn Future<Output = ()>>>>,
    count: Arc<Count>,
}

impl Ear {
    fn new(writer: &Writer, name: &str) -> Self {
        let mut ear = Self {
            listener: writer.notifier.listen(&name.parse().unwrap()),
            heard: None,
            count: Arc::new(Count(AtomicUsize::new(0))),
        };
        ear.woken();
        ear
    }

    /// How often it was woken since the last time; and listens again.
    fn woken(&mut self) -> usize {
        let mut heard = Box::pin(self.listener.changed());
        let waker = Arc::clone(&self.count).into();
        let mut context = Context::from_waker(&waker);
        assert!(heard.as_mut().poll(&mut context).is_pending());
        self.heard = Some(heard);
        self.count.0.swap(0, Ordering::SeqCst)
    }
}

/// What the thread does that looks out for others.
fn look(writer: &Writer) {
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
fn nothing_is_told_while_nobody_else_wants_to_know() {
    let (folder, ours, theirs) = two_of_one_file("ears");
    let own = Ear::new(&ours, "a");
    look(&ours);
    (0..9).for_each(|_| touch(&ours, "a"));
    assert_eq!((rows(&ours, "ear"), rows(&ours, "told")), (1, 0));
    touch(&theirs, "a");
    assert_eq!(rows(&ours, "told"), 1, "we want to know");
    // They begin to listen while we know that nobody did.
    let mut other = Ear::new(&theirs, "b");
    look(&theirs);
    other.woken();
    touch(&ours, "a");
    assert_eq!(rows(&ours, "told"), 2);
    look(&theirs);
    assert_eq!(other.woken(), 0);
    touch(&ours, "b");
    look(&theirs);
    assert_eq!(other.woken(), 1);
    drop(theirs);
    touch(&ours, "a");
    assert_eq!((rows(&ours, "ear"), rows(&ours, "told")), (1, 3));
    drop(own);
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn a_foreign_write_wakes_only_whom_it_concerns() {
    let (folder, ours, theirs) = two_of_one_file("concerns");
    let mut ears: Vec<Ear> = (0..1_000)
        .map(|n| Ear::new(&ours, &format!("s{n}")))
        .collect();
    let mut woken = || -> Vec<(usize, usize)> {
        let all = ears.iter_mut().map(Ear::woken).enumerate();
        all.filter(|(_, count)| *count > 0).collect()
    };
    // What was written before the first look is not known.
    look(&ours);
    woken();
    for _ in 0..3 {
        touch(&theirs, "another");
        look(&ours);
        assert_eq!(woken(), []);
    }
    touch(&theirs, "s7");
    touch(&theirs, "s9");
    look(&ours);
    assert_eq!(woken(), [(7, 1), (9, 1)]);
    look(&ours);
    assert_eq!(woken(), [], "nothing is new");
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn own_writes_in_between_neither_hide_foreign_ones_nor_count_as_such() {
    let (folder, ours, theirs) = two_of_one_file("between");
    let [mut a, mut b] = ["a", "b"].map(|name| Ear::new(&ours, name));
    look(&ours);
    a.woken();
    b.woken();
    // Far more than is kept.
    for _ in 0..1_000 {
        touch(&ours, "c");
    }
    touch(&theirs, "b");
    look(&ours);
    assert_eq!((a.woken(), b.woken()), (0, 1));
    touch(&theirs, "a");
    touch(&ours, "c");
    look(&ours);
    assert_eq!((a.woken(), b.woken()), (1, 0));
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn everybody_looks_when_it_is_not_known_whom_a_write_concerns() {
    let (folder, ours, theirs) = two_of_one_file("unknown");
    let mut a = Ear::new(&ours, "a");
    look(&ours);
    a.woken();
    // Somebody who does not tell.
    let state = theirs.try_lock().unwrap();
    state.db.execute("UPDATE floor SET fence = 1").unwrap();
    drop(state);
    look(&ours);
    assert_eq!(a.woken(), 1);
    // More than is kept.
    for _ in 0..1_000 {
        touch(&theirs, "b");
    }
    look(&ours);
    assert_eq!(a.woken(), 1);
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
        // It comes back at once, though it cannot write.
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
fn who_gives_up_waiting_for_another_process_is_answered_with_all_others() {
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
