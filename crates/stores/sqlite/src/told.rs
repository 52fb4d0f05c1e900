//! Who was written about, for other processes.
//!
//! SQLite tells a connection that others have written, and not what. Each transaction leaves a row
//! with the marks of the sessions that it changed; whoever finds that others have written reads the
//! rows that are new, and wakes those who wait for these sessions alone.

use rusqlite::Connection;

use crate::bells::Mark;

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

/// Leaves a row in the transaction under way, and gives its number.
pub(crate) fn tell(conn: &Connection, touched: &[Mark]) -> rusqlite::Result<i64> {
    let who: Vec<u8> = touched.iter().flat_map(|mark| mark.to_bytes()).collect();
    conn.prepare_cached("INSERT INTO told (who) VALUES (?)")?
        .execute([who])?;
    let number = conn.last_insert_rowid();
    if number % LOT == 0 {
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
