//! Who was written about, for other processes.
//!
//! SQLite tells a connection that others have written, and not what. Each transaction leaves a row
//! with the marks of the sessions that it changed; whoever finds that others have written reads the
//! rows that are new, and wakes those who wait for these sessions alone.
//!
//! A row is a page more for the disk to write, so it is left only while somebody else has an *ear* in
//! the file. An ear is there before anything is expected of it: whoever writes later sees it, and who
//! finds no rows wakes everybody.

use std::sync::atomic::{AtomicU64, Ordering};

use rusqlite::Connection;

use crate::change_notifier::Mark;
use crate::process;

/// So many rows are kept at least: who looks less often than they change is told of everybody.
const KEPT: i64 = 256;
/// They are removed in lots.
const LOT: i64 = 128;

/// Who was written about.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum News {
    /// Perhaps anybody.
    Everybody,
    /// These, and nobody else.
    These(Vec<Mark>),
}

/// A name for the ear of one store of this process. It ends with the process.
pub(crate) fn ear() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    format!("{}:{number}", process::holder())
}

/// Wants to know from now on.
pub(crate) fn listen(conn: &Connection, ear: &str) -> rusqlite::Result<()> {
    conn.prepare_cached("INSERT OR IGNORE INTO ear (name) VALUES (?)")?
        .execute([ear])
        .map(drop)
}

/// Wants to know no longer.
pub(crate) fn leave(conn: &Connection, ear: &str) -> rusqlite::Result<()> {
    conn.prepare_cached("DELETE FROM ear WHERE name = ?")?
        .execute([ear])
        .map(drop)
}

/// Whether anybody else wants to know. Ears of processes that have ended are removed, in the
/// transaction under way.
pub(crate) fn is_heard(conn: &Connection, own: &str) -> rusqlite::Result<bool> {
    let others: Vec<String> = conn
        .prepare_cached("SELECT name FROM ear WHERE name <> ?")?
        .query_map([own], |row| row.get(0))?
        .collect::<rusqlite::Result<_>>()?;
    let mut is_heard = false;
    for other in others {
        match process::is_dead(&other) {
            true => leave(conn, &other)?,
            false => is_heard = true,
        }
    }
    Ok(is_heard)
}

/// Whether it is time to look again who listens.
pub(crate) fn is_lot(number: i64) -> bool {
    number % LOT == 0
}

/// Leaves a row in the transaction under way, and gives its number.
pub(crate) fn tell(conn: &Connection, touched: &[Mark]) -> rusqlite::Result<i64> {
    let who: Vec<u8> = touched.iter().flat_map(|mark| mark.to_bytes()).collect();
    conn.prepare_cached("INSERT INTO told (who) VALUES (?)")?
        .execute([who])?;
    let number = conn.last_insert_rowid();
    if is_lot(number) {
        conn.prepare_cached("DELETE FROM told WHERE n <= ?")?
            .execute([number - KEPT])?;
    }
    Ok(number)
}

/// What was told after a row, and the number of the last row.
pub(crate) fn since(conn: &Connection, seen: i64) -> rusqlite::Result<(News, i64)> {
    let mut last = seen;
    let mut touched = Vec::new();
    let mut statement = conn.prepare_cached("SELECT n, who FROM told WHERE n > ? ORDER BY n")?;
    let mut rows = statement.query([seen])?;
    let mut is_whole = true;
    while let Some(row) = rows.next()? {
        let number = row.get(0)?;
        // Some rows are gone already.
        is_whole &= number == last + 1;
        last = number;
        let who = row.get_ref(1)?.as_blob()?;
        touched.extend(who.chunks_exact(8).filter_map(Mark::from_bytes));
    }
    // Somebody wrote who leaves no rows, if there are none.
    let news = match is_whole && last > seen {
        true => News::These(touched),
        false => News::Everybody,
    };
    Ok((news, last))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told() -> Connection {
        let conn = Connection::open_in_memory().unwrap();
        conn.execute_batch(include_str!("schema/v3.sql")).unwrap();
        conn
    }

    fn mark(name: &str) -> Mark {
        Mark::of(&name.parse().unwrap())
    }

    #[test]
    fn what_was_told_after_a_row_is_read_again() {
        let conn = told();
        let [a, b, c] = ["a", "b", "c"].map(mark);
        assert_eq!(since(&conn, 0).unwrap(), (News::Everybody, 0));
        let first = tell(&conn, &[a]).unwrap();
        tell(&conn, &[b, c]).unwrap();
        let last = tell(&conn, &[]).unwrap();
        let all = News::These(vec![a, b, c]);
        assert_eq!(since(&conn, 0).unwrap(), (all, last));
        assert_eq!(
            since(&conn, first).unwrap(),
            (News::These(vec![b, c]), last)
        );
        assert_eq!(
            since(&conn, last - 1).unwrap(),
            (News::These(Vec::new()), last)
        );
        assert_eq!(since(&conn, last).unwrap(), (News::Everybody, last));
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn who_wants_to_know_is_known_until_it_leaves_or_ends() {
        let conn = told();
        let [own, other] = [ear(), ear()];
        assert_ne!(own, other);
        listen(&conn, &own).unwrap();
        assert!(!is_heard(&conn, &own).unwrap(), "by nobody else");
        listen(&conn, &other).unwrap();
        listen(&conn, &other).unwrap();
        assert!(is_heard(&conn, &own).unwrap());
        leave(&conn, &other).unwrap();
        assert!(!is_heard(&conn, &own).unwrap());
        let (process, _) = process::holder().rsplit_once(':').unwrap();
        listen(&conn, &format!("{process}:1:1")).unwrap();
        assert!(!is_heard(&conn, &own).unwrap(), "its process has ended");
        let left: i64 = conn
            .query_row("SELECT count(*) FROM ear", [], |row| row.get(0))
            .unwrap();
        assert_eq!(left, 1);
    }

    #[test]
    fn old_rows_are_removed_and_who_missed_them_is_told_of_everybody() {
        let conn = told();
        let count = 10 * KEPT;
        for _ in 0..count {
            tell(&conn, &[mark("a")]).unwrap();
        }
        let kept: i64 = conn
            .query_row("SELECT count(*) FROM told", [], |row| row.get(0))
            .unwrap();
        assert_eq!(kept, KEPT);
        let (news, last) = since(&conn, count - KEPT).unwrap();
        assert_eq!((news == News::Everybody, last), (false, count));
        let (news, last) = since(&conn, count - KEPT - 1).unwrap();
        assert_eq!((news, last), (News::Everybody, count));
    }
}
