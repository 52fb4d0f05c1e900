//! The schema, and its migrations.
//!
//! Rows of a session are found by one integer: the session's number in the upper half, the row's own
//! number (a message, a version, a sequence) in the lower one. So they need no index of their own
//! and lie together. A `data` column holds JSON text, or, when the value is large, a BLOB that names
//! rows of `blob` (see `content.rs`).

use std::path::Path;

use helix_agents_core::store::StoreError;
use rusqlite::{Connection, TransactionBehavior};

use crate::checkpoints;
use crate::due;
use crate::error::{Error, Result};
use crate::headers;
use crate::operation_error::OperationError;

/// The application id of our files: "HELX".
const APPLICATION_ID: u32 = 0x4845_4c58;

/// One migration per schema version. Released migrations never change.
const MIGRATIONS: &[Migration] = &[
    Migration::sql(include_str!("schema/v1.sql")),
    Migration::sql(include_str!("schema/v2.sql")),
    Migration::sql(include_str!("schema/v3.sql")),
    Migration::sql(include_str!("schema/v4.sql")),
    Migration {
        sql: include_str!("schema/v5.sql"),
        backfill: Some(due::backfill),
    },
    Migration {
        sql: include_str!("schema/v6.sql"),
        backfill: Some(headers::fill_roots),
    },
    Migration::sql(include_str!("schema/v7.sql")),
    Migration {
        sql: include_str!("schema/v8.sql"),
        backfill: Some(checkpoints::move_old),
    },
    Migration::sql(include_str!("schema/v9.sql")),
];

type Backfill = fn(&Connection) -> Result<(), OperationError>;

/// Makes a schema version of the one before.
#[derive(Clone, Copy)]
struct Migration {
    sql: &'static str,
    /// Fills new columns and tables from stored data.
    backfill: Option<Backfill>,
}

impl Migration {
    const fn sql(sql: &'static str) -> Self {
        Self {
            sql,
            backfill: None,
        }
    }
}

/// Returns an error if a file cannot be used, without changing it.
pub(crate) fn check(connection: &Connection, path: &Path, may_migrate: bool) -> Result<()> {
    let found = version(connection, path)?;
    judge(path, found, latest(MIGRATIONS), may_migrate)
}

/// The error for a file that does not exist while migration is switched off.
pub(crate) fn missing(path: &Path) -> Error {
    Error::SchemaTooOld {
        path: path.to_owned(),
        found: 0,
        known: latest(MIGRATIONS),
    }
}

/// Brings the schema of a file up to date, or returns why it was not changed.
pub(crate) fn migrate(connection: &mut Connection, path: &Path, allowed: bool) -> Result<()> {
    migrate_to(connection, path, allowed, MIGRATIONS)
}

fn migrate_to(
    connection: &mut Connection,
    path: &Path,
    allowed: bool,
    migrations: &[Migration],
) -> Result<()> {
    let failed = |error| Error::opening(path, error);
    let known = latest(migrations);
    // Most files are up to date; then nothing is locked.
    let found = version(connection, path)?;
    judge(path, found, known, allowed)?;
    if found == known {
        return Ok(());
    }

    // The first process migrates; others wait here and find nothing left to do.
    let locked = connection
        .transaction_with_behavior(TransactionBehavior::Immediate)
        .map_err(failed)?;
    let found = version(&locked, path)?;
    judge(path, found, known, allowed)?;
    let done = usize::try_from(found).unwrap_or(usize::MAX);
    for step in migrations.iter().skip(done) {
        locked.execute_batch(step.sql).map_err(failed)?;
        if let Some(backfill) = step.backfill {
            backfill(&locked).map_err(|error| match error {
                OperationError::Sqlite(error) => failed(error),
                other => Error::Open {
                    path: path.to_owned(),
                    source: Box::new(StoreError::from(other)),
                },
            })?;
        }
    }
    let set = |pragma, value| locked.pragma_update(None, pragma, value).map_err(failed);
    set("application_id", APPLICATION_ID)?;
    set("user_version", known)?;
    locked.commit().map_err(failed)
}

fn latest(migrations: &[Migration]) -> u32 {
    u32::try_from(migrations.len()).unwrap_or(u32::MAX)
}

fn judge(path: &Path, found: u32, known: u32, allowed: bool) -> Result<()> {
    let path = path.to_owned();
    if found > known {
        return Err(Error::SchemaTooNew { path, found, known });
    }
    if found < known && !allowed {
        return Err(Error::SchemaTooOld { path, found, known });
    }
    Ok(())
}

/// The schema version of a file; 0 for a new one.
fn version(connection: &Connection, path: &Path) -> Result<u32> {
    let failed = |error| Error::opening(path, error);
    // As of one instant: another process may be bringing the file up to date at this moment.
    let _instant = match connection.is_autocommit() {
        true => Some(connection.unchecked_transaction().map_err(failed)?),
        false => None,
    };
    let pragma = |name| connection.pragma_query_value(None, name, |row| row.get::<_, u32>(0));
    let owner = pragma("application_id").map_err(failed)?;
    if owner == APPLICATION_ID {
        return pragma("user_version").map_err(failed);
    }
    let tables: u32 = connection
        .query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))
        .map_err(failed)?;
    if owner == 0 && tables == 0 {
        return Ok(0);
    }
    let path = path.to_owned();
    Err(Error::NotOurs { path })
}

#[cfg(test)]
mod tests {
    use helix_agents_core::session::SessionStatus;
    use helix_agents_core::store::{AnsweredCall, DueQuery, Lookup, Page, SessionKey};
    use helix_agents_core::time::Timestamp;
    use helix_agents_core::{CallId, SessionId};
    use rusqlite::params;

    use super::*;
    use crate::answered_calls;

    const TWO: &[Migration] = &[
        Migration::sql("CREATE TABLE a (x)"),
        Migration::sql("ALTER TABLE a ADD COLUMN y"),
    ];

    fn memory() -> Connection {
        Connection::open_in_memory().unwrap()
    }

    /// proves: STO-12
    #[test]
    fn an_older_schema_is_brought_up_to_date_step_by_step() {
        let path = Path::new("x.db");
        let mut connection = memory();
        migrate_to(&mut connection, path, true, &TWO[..1]).unwrap();
        connection.execute("INSERT INTO a VALUES (7)", []).unwrap();

        let error = migrate_to(&mut connection, path, false, TWO).unwrap_err();
        assert!(matches!(
            error,
            Error::SchemaTooOld {
                found: 1,
                known: 2,
                ..
            }
        ));
        for _ in 0..2 {
            migrate_to(&mut connection, path, true, TWO).unwrap();
        }
        let row: (i64, Option<i64>) = connection
            .query_row("SELECT x, y FROM a", [], |row| {
                Ok((row.get(0)?, row.get(1)?))
            })
            .unwrap();
        assert_eq!(row, (7, None));
    }

    /// Work that is due in a file of the version before is due after the migration.
    ///
    /// proves: STO-12
    #[test]
    fn due_work_of_an_older_file_is_found() {
        let path = Path::new("x.db");
        let mut connection = memory();
        migrate_to(&mut connection, path, true, &MIGRATIONS[..2]).unwrap();
        let header = |holder: &str| {
            format!(
                r#"["header",1,{{"session":{{"sessionId":"{holder}","agentType":"desk","customState":{{}},
                "status":"active","stepCount":0,"resumeCount":0,"version":1,"createdAt":1,
                "updatedAt":1,"expiresAt":9}},"fence":1,"lease":{{"holder":"{holder}","until":7}},
                "messages":0,"stateVersion":1,"run":{{"id":"r","status":"running","host":"local"}}}}]"#
            )
        };
        for name in ["a", "b"] {
            let sql = "INSERT INTO session (name, agent, status, created, due, holder, header) \
                       VALUES (?, 'desk', 'active', 1, 7, ?, ?)";
            connection
                .execute(sql, [name, name, &header(name)])
                .unwrap();
        }
        migrate(&mut connection, path, true).unwrap();
        let query = DueQuery::at(Timestamp::default()).of_agents(["desk"]);
        let found = |at| due::page(&connection, &query, Timestamp::from_millis(at)).unwrap();
        assert_eq!(found(6).items, []);
        let names: Vec<_> = found(7)
            .items
            .into_iter()
            .map(|due| due.session.to_string())
            .collect();
        assert_eq!(names, ["a", "b"]);
    }

    /// A child in a file of the version before is found under its root, and a root as itself.
    ///
    /// proves: STO-12
    #[test]
    fn the_roots_of_an_older_file_are_known() {
        let path = Path::new("x.db");
        let mut connection = memory();
        migrate_to(&mut connection, path, true, &MIGRATIONS[..5]).unwrap();
        for (name, family) in [
            ("root", ""),
            (
                "child",
                r#""parentSessionId":"root","rootSessionId":"root","#,
            ),
        ] {
            let header = format!(
                r#"["header",1,{{"session":{{"sessionId":"{name}","agentType":"desk","customState":{{}},
                {family}"status":"active","stepCount":0,"resumeCount":0,"version":1,"createdAt":1,
                "updatedAt":1}},"fence":1,"messages":0,"stateVersion":1}}]"#
            );
            let sql = "INSERT INTO session (name, agent, status, created, header) \
                       VALUES (?, 'desk', 'active', 1, ?)";
            connection.execute(sql, [name, &header]).unwrap();
        }
        migrate(&mut connection, path, true).unwrap();
        let [root, child] = ["root", "child"].map(|name| SessionId::new(name).unwrap());
        let is_there = |key| headers::owner(&connection, key).unwrap().is_some();
        assert!(is_there(root.as_root()) && is_there(SessionKey::new(&root, &child)));
        assert!(!is_there(child.as_root()));
        let found = [&root, &child].map(|id| headers::root_of(&connection, id).unwrap());
        assert_eq!(found, [None, Some(root)]);
    }

    /// Checkpoints of an older file are found by their ids and in their order, whatever those look like.
    ///
    /// proves: STO-12
    #[test]
    fn the_checkpoints_of_an_older_file_are_found() {
        let path = Path::new("x.db");
        let mut connection = memory();
        migrate_to(&mut connection, path, true, &MIGRATIONS[..7]).unwrap();
        let header = r#"["header",1,{"session":{"sessionId":"s","agentType":"desk","customState":{},
            "status":"active","stepCount":0,"resumeCount":0,"version":1,"createdAt":1,
            "updatedAt":1},"fence":1,"messages":0,"stateVersion":1}]"#;
        let sql = "INSERT INTO session (name, agent, status, created, header) \
                   VALUES ('s', 'desk', 'active', 1, ?)";
        connection.execute(sql, [header]).unwrap();
        let session = SessionId::new("s").unwrap();
        let owner = headers::owner(&connection, session.as_root()).unwrap();
        let owner = owner.unwrap();
        // The last two have the same place in the new table.
        let ids = [
            "cp-1",
            "cp-01a1e2dc7e617486a0672d26c8bef820",
            "cp-01a1e2dc7e617486a0672d26c8bef8e0",
        ];
        for (n, id) in (0_i64..).zip(ids) {
            let sql =
                "INSERT INTO checkpoint VALUES (?, ?, ?, 'r', 1, 2, 3, ?, NULL, 1794807463521)";
            let status = if n == 0 { "completed" } else { "active" };
            connection
                .execute(sql, params![owner.hashed_key(id), n, id, status])
                .unwrap();
        }
        migrate(&mut connection, path, true).unwrap();
        let find = |which| {
            checkpoints::find(&connection, session.as_root(), which)
                .unwrap()
                .items
        };
        let all = find(Lookup::Page(Page::ALL));
        let found: Vec<_> = all.iter().map(|one| one.id.as_str()).rev().collect();
        assert_eq!(found, ids);
        let statuses: Vec<_> = all.iter().map(|one| one.status).rev().collect();
        assert_eq!(
            statuses,
            [
                SessionStatus::Completed,
                SessionStatus::Active,
                SessionStatus::Active
            ]
        );
        for one in all {
            assert_eq!(find(Lookup::One(one.id.clone())), [one]);
        }
        let old = "SELECT count(*) FROM sqlite_schema WHERE name = 'old_checkpoint'";
        let left: u32 = connection.query_row(old, [], |row| row.get(0)).unwrap();
        assert_eq!(left, 0);
    }

    /// Calls that were answered in an older file were answered in time.
    ///
    /// proves: STO-12
    #[test]
    fn the_answered_calls_of_an_older_file_were_answered_in_time() {
        let path = Path::new("x.db");
        let mut connection = memory();
        migrate_to(&mut connection, path, true, &MIGRATIONS[..8]).unwrap();
        let header = r#"["header",1,{"session":{"sessionId":"s","agentType":"desk","customState":{},
            "status":"active","stepCount":0,"resumeCount":0,"version":1,"createdAt":1,
            "updatedAt":1},"fence":1,"messages":0,"stateVersion":1}]"#;
        let sql = "INSERT INTO session (name, agent, status, created, header) \
                   VALUES ('s', 'desk', 'active', 1, ?)";
        connection.execute(sql, [header]).unwrap();
        let sql = "INSERT INTO answered (session, call, time) SELECT id, 'c-1', 7 FROM session";
        connection.execute(sql, []).unwrap();
        migrate(&mut connection, path, true).unwrap();
        let session = SessionId::new("s").unwrap();
        let all = Lookup::Page(Page::ALL);
        let found = answered_calls::lookup(&connection, session.as_root(), all).unwrap();
        let call = CallId::new("c-1").unwrap();
        let expected = AnsweredCall::new(call, Timestamp::from_millis(7));
        assert_eq!(found.items, [expected]);
    }

    /// proves: STO-12
    #[test]
    fn a_newer_schema_is_refused() {
        let mut connection = memory();
        migrate_to(&mut connection, Path::new("x.db"), true, TWO).unwrap();
        let error = migrate_to(&mut connection, Path::new("x.db"), true, &TWO[..1]).unwrap_err();
        assert!(matches!(
            error,
            Error::SchemaTooNew {
                found: 2,
                known: 1,
                ..
            }
        ));
    }

    /// proves: STO-12
    #[test]
    fn a_step_that_fails_leaves_the_schema_as_it_was() {
        let mut connection = memory();
        let broken = ["CREATE TABLE a (x)", "CREATE TABLE b (x); nonsense"].map(Migration::sql);
        assert!(migrate_to(&mut connection, Path::new("x.db"), true, &broken).is_err());
        assert_eq!(version(&connection, Path::new("x.db")).unwrap(), 0);
    }
}
