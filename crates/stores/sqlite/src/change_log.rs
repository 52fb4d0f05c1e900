//! A log of the sessions that each transaction changed, for other processes.
//!
//! SQLite tells a connection that others have written, but not what. Each transaction appends a row with
//! the hashes of the sessions that it changed (table `told`). A process that finds that others have
//! written reads the new rows, and wakes only the listeners of these sessions.
//!
//! A row is one more page for the disk to write, so it is appended only while another process is
//! subscribed (table `ear`). A process that has not subscribed yet, or finds no rows, wakes all of its
//! listeners.

use std::sync::atomic::{AtomicU64, Ordering};

use rusqlite::Connection;

use crate::change_notifier::SessionHash;
use crate::process;

/// The fewest rows that are kept. A process that misses rows because they are gone wakes all of its
/// listeners.
const KEPT: i64 = 256;
/// Old rows are removed, and subscribers counted again, each time this many rows were appended.
const LOT: i64 = 128;

/// The sessions that other processes have changed.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ForeignChanges {
    /// Any session may have changed.
    All,
    /// Only these sessions have changed.
    Sessions(Vec<SessionHash>),
}

/// A new subscriber name for one store of this process. It names the process, so that others see when
/// the subscriber has ended.
pub(crate) fn new_subscriber() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    format!("{}:{number}", process::holder())
}

/// Subscribes: every later transaction appends a row.
pub(crate) fn subscribe(conn: &Connection, subscriber: &str) -> rusqlite::Result<()> {
    conn.prepare_cached("INSERT OR IGNORE INTO ear (name) VALUES (?)")?
        .execute([subscriber])
        .map(drop)
}

/// Removes the subscription of this name; does nothing when there is none.
pub(crate) fn unsubscribe(conn: &Connection, subscriber: &str) -> rusqlite::Result<()> {
    conn.prepare_cached("DELETE FROM ear WHERE name = ?")?
        .execute([subscriber])
        .map(drop)
}

/// Whether there is a subscriber other than `own`. Subscriptions of processes that have ended are
/// removed, in the transaction under way.
pub(crate) fn has_other_subscribers(conn: &Connection, own: &str) -> rusqlite::Result<bool> {
    let others: Vec<String> = conn
        .prepare_cached("SELECT name FROM ear WHERE name <> ?")?
        .query_map([own], |row| row.get(0))?
        .collect::<rusqlite::Result<_>>()?;
    let mut has_others = false;
    for other in others {
        match process::is_dead(&other) {
            true => unsubscribe(conn, &other)?,
            false => has_others = true,
        }
    }
    Ok(has_others)
}

/// Whether the row of this number completes a lot, see [`LOT`].
pub(crate) fn completes_lot(number: i64) -> bool {
    number % LOT == 0
}

/// Appends a row in the transaction under way, and returns its number.
pub(crate) fn append(conn: &Connection, changed_sessions: &[SessionHash]) -> rusqlite::Result<i64> {
    let hashes: Vec<u8> = changed_sessions
        .iter()
        .flat_map(|hash| hash.to_bytes())
        .collect();
    conn.prepare_cached("INSERT INTO told (who) VALUES (?)")?
        .execute([hashes])?;
    let number = conn.last_insert_rowid();
    if completes_lot(number) {
        conn.prepare_cached("DELETE FROM told WHERE n <= ?")?
            .execute([number - KEPT])?;
    }
    Ok(number)
}

/// The changes in the rows after `seen`, and the number of the last row.
pub(crate) fn read_after(conn: &Connection, seen: i64) -> rusqlite::Result<(ForeignChanges, i64)> {
    let mut last = seen;
    let mut changed_sessions = Vec::new();
    let mut statement = conn.prepare_cached("SELECT n, who FROM told WHERE n > ? ORDER BY n")?;
    let mut rows = statement.query([seen])?;
    let mut is_whole = true;
    while let Some(row) = rows.next()? {
        let number = row.get(0)?;
        // A gap: the rows between were removed.
        is_whole &= number == last + 1;
        last = number;
        let hashes = row.get_ref(1)?.as_blob()?;
        changed_sessions.extend(hashes.chunks_exact(8).filter_map(SessionHash::from_bytes));
    }
    // No rows: the writer did not know of this subscription yet.
    let changes = match is_whole && last > seen {
        true => ForeignChanges::Sessions(changed_sessions),
        false => ForeignChanges::All,
    };
    Ok((changes, last))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn database() -> Connection {
        let conn = Connection::open_in_memory().unwrap();
        conn.execute_batch(include_str!("schema/v3.sql")).unwrap();
        conn
    }

    fn hash(name: &str) -> SessionHash {
        SessionHash::of(&name.parse().unwrap())
    }

    #[test]
    fn rows_after_a_number_are_read() {
        let conn = database();
        let [a, b, c] = ["a", "b", "c"].map(hash);
        assert_eq!(read_after(&conn, 0).unwrap(), (ForeignChanges::All, 0));
        let first = append(&conn, &[a]).unwrap();
        append(&conn, &[b, c]).unwrap();
        let last = append(&conn, &[]).unwrap();
        let all = ForeignChanges::Sessions(vec![a, b, c]);
        assert_eq!(read_after(&conn, 0).unwrap(), (all, last));
        assert_eq!(
            read_after(&conn, first).unwrap(),
            (ForeignChanges::Sessions(vec![b, c]), last)
        );
        assert_eq!(
            read_after(&conn, last - 1).unwrap(),
            (ForeignChanges::Sessions(Vec::new()), last)
        );
        assert_eq!(
            read_after(&conn, last).unwrap(),
            (ForeignChanges::All, last)
        );
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_subscription_lasts_until_it_is_removed_or_its_process_ends() {
        let conn = database();
        let [own, other] = [new_subscriber(), new_subscriber()];
        assert_ne!(own, other);
        subscribe(&conn, &own).unwrap();
        assert!(
            !has_other_subscribers(&conn, &own).unwrap(),
            "by nobody else"
        );
        subscribe(&conn, &other).unwrap();
        subscribe(&conn, &other).unwrap();
        assert!(has_other_subscribers(&conn, &own).unwrap());
        unsubscribe(&conn, &other).unwrap();
        assert!(!has_other_subscribers(&conn, &own).unwrap());
        let (process, _) = process::holder().rsplit_once(':').unwrap();
        subscribe(&conn, &format!("{process}:1:1")).unwrap();
        assert!(
            !has_other_subscribers(&conn, &own).unwrap(),
            "its process has ended"
        );
        let left: i64 = conn
            .query_row("SELECT count(*) FROM ear", [], |row| row.get(0))
            .unwrap();
        assert_eq!(left, 1);
    }

    #[test]
    fn a_gap_left_by_removed_rows_means_that_any_session_may_have_changed() {
        let conn = database();
        let count = 10 * KEPT;
        for _ in 0..count {
            append(&conn, &[hash("a")]).unwrap();
        }
        let kept: i64 = conn
            .query_row("SELECT count(*) FROM told", [], |row| row.get(0))
            .unwrap();
        assert_eq!(kept, KEPT);
        let (changes, last) = read_after(&conn, count - KEPT).unwrap();
        assert_eq!((changes == ForeignChanges::All, last), (false, count));
        let (changes, last) = read_after(&conn, count - KEPT - 1).unwrap();
        assert_eq!((changes, last), (ForeignChanges::All, count));
    }
}
