//! Several writes in one transaction: who is answered how, and what is in the file afterwards.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Wake;

use super::*;
use crate::bells::Listening;

struct Count(AtomicUsize);

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

type Writing<'a> = Pin<Box<dyn Future<Output = Result<i64, Fail>> + 'a>>;
type Step = fn(&Desk) -> Result<i64, Fail>;

fn writer() -> Writer {
    let connection = Connection::open_in_memory().unwrap();
    connection.execute_batch("CREATE TABLE t (x)").unwrap();
    Writer::new(
        connection,
        Arc::default(),
        Duration::from_secs(1),
        Log::none(),
    )
}

fn insert(desk: &Desk, value: i64) -> Result<i64, Fail> {
    let sql = "INSERT INTO t VALUES (?)";
    desk.conn.prepare_cached(sql)?.execute([value])?;
    Ok(value)
}

fn one(desk: &Desk) -> Result<i64, Fail> {
    insert(desk, 1)
}

fn two(desk: &Desk) -> Result<i64, Fail> {
    insert(desk, 2)
}

fn refused(desk: &Desk) -> Result<i64, Fail> {
    insert(desk, 3)?;
    Err(Fail::internal("refused"))
}

fn broken(desk: &Desk) -> Result<i64, Fail> {
    insert(desk, 4)?;
    desk.execute("nonsense")?;
    Ok(4)
}

fn panicking(desk: &Desk) -> Result<i64, Fail> {
    insert(desk, 5)?;
    panic!("in the middle")
}

fn content(writer: &Writer) -> Vec<i64> {
    let read = |conn: &Connection| {
        let mut all = conn.prepare_cached("SELECT x FROM t ORDER BY x")?;
        let values = all.query_map([], |row| row.get(0))?;
        Ok(values.collect::<Result<_, _>>()?)
    };
    writer.read(read).unwrap()
}

fn poll<T>(future: &mut Pin<Box<dyn Future<Output = T> + '_>>) -> Poll<T> {
    future
        .as_mut()
        .poll(&mut Context::from_waker(std::task::Waker::noop()))
}

/// Queues writes while somebody has the connection, who then serves them in one go.
fn together(writer: &Writer, steps: &[Step]) -> Vec<Result<i64, String>> {
    let slot = writer.try_lock().unwrap();
    let mut queued: Vec<Writing<'_>> = Vec::new();
    for step in steps {
        let step = *step;
        let write = writer.write(None, Vec::new(), move |desk: &Desk, _| step(desk));
        let mut write: Writing<'_> = Box::pin(write);
        assert!(poll(&mut write).is_pending());
        queued.push(write);
    }
    writer.serve(slot);
    let answered = queued.iter_mut().map(|write| match poll(write) {
        Poll::Ready(outcome) => outcome.map_err(|fail| format!("{fail:?}")),
        Poll::Pending => panic!("a write was left without an answer"),
    });
    answered.collect()
}

/// Writes while nobody else does.
fn alone(writer: &Writer, step: Step) -> Result<i64, Fail> {
    let mut write: Writing<'_> =
        Box::pin(writer.write(None, Vec::new(), move |desk: &Desk, _| step(desk)));
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
    assert!(read.is_err());
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

#[test]
fn listeners_are_told_of_what_a_group_wrote() {
    let writer = writer();
    let heard_by = |name: &str| {
        let listening: Listening = writer.bells.listen(&name.parse().unwrap());
        let mut heard = Box::pin(listening.heard());
        let count = Arc::new(Count(AtomicUsize::new(0)));
        let waker = Arc::clone(&count).into();
        let mut context = Context::from_waker(&waker);
        assert!(heard.as_mut().poll(&mut context).is_pending());
        (listening, heard, count)
    };
    let listeners = ["a", "b", "c", "d"].map(heard_by);
    let slot = writer.try_lock().unwrap();
    let written: [(&str, Step); 3] = [("a", one), ("b", refused), ("c", two)];
    let mut queued: Vec<Writing<'_>> = Vec::new();
    for (name, step) in written {
        let touched = vec![name.parse().unwrap()];
        let write = writer.write(None, touched, move |desk: &Desk, _| step(desk));
        let mut write: Writing<'_> = Box::pin(write);
        assert!(poll(&mut write).is_pending());
        queued.push(write);
    }
    writer.group(&slot.desk);
    let told = listeners.map(|(_, _, count)| count.0.load(Ordering::SeqCst));
    assert_eq!(told, [1, 0, 1, 0]);
}
