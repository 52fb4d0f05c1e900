use std::fs;

use helix_agents_core::store::SessionStore;
use helix_agents_store_sqlite::{Error, SqliteConfig, SqliteStore};
use helix_agents_testkit::block_on;

use crate::builders::{count, create, session_id};
use crate::folder::Folder;

fn open(path: &std::path::Path) -> Result<SqliteStore, Error> {
    block_on(SqliteStore::open(path))
}

/// The message of an error and of all its sources.
fn message(error: &Error) -> String {
    error.to_string()
}

#[test]
fn a_folder_is_not_a_file() {
    let folder = Folder::new();
    let error = open(folder.path()).unwrap_err();
    assert!(matches!(error, Error::IsAFolder { .. }), "{error:?}");
    assert!(message(&error).ends_with("is a folder; name a file in it"));
}

/// A store holds conversations: the file, and the files that SQLite makes beside it, are readable by its
/// owner alone.
#[test]
#[cfg(unix)]
fn a_file_is_accessible_to_its_owner_alone() {
    use std::os::unix::fs::PermissionsExt;

    let folder = Folder::new();
    let store = open(&folder.file("helix.db")).unwrap();
    block_on(create(&store, "s"));
    for name in ["helix.db", "helix.db-wal", "helix.db-shm"] {
        let mode = fs::metadata(folder.file(name))
            .unwrap()
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o600, "{name}");
    }
}

#[test]
fn the_folder_has_to_exist() {
    let folder = Folder::new();
    let error = open(&folder.file("missing/helix.db")).unwrap_err();
    assert!(matches!(error, Error::NoFolder { .. }), "{error:?}");
    assert!(message(&error).ends_with("does not exist; create it first"));
    fs::write(folder.file("plain"), "x").unwrap();
    let error = open(&folder.file("plain/helix.db")).unwrap_err();
    assert!(matches!(error, Error::NoFolder { .. }), "{error:?}");
}

#[test]
#[cfg(target_os = "linux")]
fn a_read_only_folder_is_named() {
    use std::os::unix::fs::PermissionsExt;
    let folder = Folder::new();
    let locked = folder.file("locked");
    fs::create_dir(&locked).unwrap();
    fs::set_permissions(&locked, fs::Permissions::from_mode(0o555)).unwrap();
    // Even root cannot write here.
    let may_write = fs::write(locked.join("probe"), "").is_ok();
    let path = if may_write {
        "/sys/kernel/helix.db".into()
    } else {
        locked.join("helix.db")
    };
    let error = open(&path).unwrap_err();
    assert!(matches!(error, Error::ReadOnly { .. }), "{error:?}");
    assert!(message(&error).contains("read-only"), "{error}");
}

#[test]
fn a_file_that_is_not_a_database_is_not_changed() {
    let folder = Folder::new();
    let path = folder.file("notes.txt");
    let text = "dear diary, ".repeat(1000);
    fs::write(&path, &text).unwrap();
    let error = open(&path).unwrap_err();
    assert!(matches!(error, Error::Corrupt { .. }), "{error:?}");
    assert!(message(&error).contains("it was not changed"), "{error}");
    assert_eq!(fs::read_to_string(&path).unwrap(), text);
}

#[test]
fn a_damaged_file_is_reported_and_not_overwritten() {
    let folder = Folder::new();
    let path = folder.file("helix.db");
    block_on(async {
        let store = SqliteStore::open(&path).await.unwrap();
        create(&store, "s").await;
    });
    let mut bytes = fs::read(&path).unwrap();
    // The list of tables begins after the first hundred bytes.
    bytes[100..].fill(0x5a);
    fs::write(&path, &bytes).unwrap();
    let error = open(&path).unwrap_err();
    assert!(matches!(error, Error::Corrupt { .. }), "{error:?}");
    assert_eq!(fs::read(&path).unwrap(), bytes);
}

#[test]
fn damage_that_is_found_after_opening_is_reported() {
    let folder = Folder::new();
    let path = folder.file("helix.db");
    block_on(async {
        let store = SqliteStore::open(&path).await.unwrap();
        create(&store, "s").await;
    });
    let mut bytes = fs::read(&path).unwrap();
    // The first page, which has the list of tables, is whole; everything after it is not.
    bytes[4096 * 8..].fill(0x5a);
    fs::write(&path, &bytes).unwrap();
    let Ok(store) = open(&path) else {
        return;
    };
    let error = block_on(store.load(session_id("s").as_root())).unwrap_err();
    let source = std::error::Error::source(&error).unwrap();
    assert!(source.to_string().contains("damaged"), "{error:?}");
    drop(store);
    assert_eq!(fs::read(&path).unwrap(), bytes);
}

#[test]
fn the_database_of_another_program_is_not_changed() {
    let folder = Folder::new();
    let path = folder.file("other.db");
    let other = rusqlite::Connection::open(&path).unwrap();
    other.execute_batch("CREATE TABLE song (title)").unwrap();
    drop(other);
    let before = fs::read(&path).unwrap();
    let error = open(&path).unwrap_err();
    assert!(matches!(error, Error::NotOurs { .. }), "{error:?}");
    assert_eq!(fs::read(&path).unwrap(), before);
}

/// proves: STO-12
#[test]
fn a_newer_schema_is_refused_with_both_versions() {
    let folder = Folder::new();
    let path = folder.file("helix.db");
    drop(open(&path).unwrap());
    let connection = rusqlite::Connection::open(&path).unwrap();
    connection.pragma_update(None, "user_version", 99).unwrap();
    drop(connection);
    let before = fs::read(&path).unwrap();
    let error = open(&path).unwrap_err();
    assert_eq!(fs::read(&path).unwrap(), before);
    let Error::SchemaTooNew { found, known, .. } = &error else {
        panic!("{error:?}");
    };
    assert_eq!(*found, 99);
    assert!(message(&error).contains(&format!(
        "has schema version 99, this program knows up to {known}; upgrade this program"
    )));
}

/// proves: STO-12
#[test]
fn without_migration_a_new_file_is_refused_and_an_up_to_date_one_is_opened() {
    let folder = Folder::new();
    let path = folder.file("helix.db");
    let config = || SqliteConfig::new().migrate(false);
    let error = block_on(SqliteStore::open_with(&path, config())).unwrap_err();
    assert!(
        matches!(error, Error::SchemaTooOld { found: 0, .. }),
        "{error:?}"
    );
    assert!(!path.exists());
    drop(open(&path).unwrap());
    block_on(SqliteStore::open_with(&path, config())).unwrap();
}

/// proves: STO-12
#[test]
fn a_new_file_can_be_opened_many_times_at_once() {
    for _ in 0..5 {
        let folder = Folder::new();
        let path = folder.file("helix.db");
        std::thread::scope(|scope| {
            let opening: Vec<_> = (0..8).map(|_| scope.spawn(|| open(&path))).collect();
            for one in opening {
                one.join().unwrap().unwrap();
            }
        });
        let tables = "SELECT count(*) FROM sqlite_schema WHERE name = 'session'";
        assert_eq!(count(&path, tables), 1);
    }
}

#[test]
fn a_url_names_a_file_or_memory() {
    let folder = Folder::new();
    block_on(async {
        let path = folder.file("helix.db");
        let path = path.to_str().unwrap();
        let first = SqliteStore::from_url(&format!("sqlite:{path}"))
            .await
            .unwrap();
        create(&first, "s").await;
        let second = SqliteStore::from_url(&format!("sqlite://{path}"))
            .await
            .unwrap();
        assert!(
            second
                .load(session_id("s").as_root())
                .await
                .unwrap()
                .is_some()
        );
        let memory = SqliteStore::from_url("sqlite::memory:").await.unwrap();
        assert!(
            memory
                .load(session_id("s").as_root())
                .await
                .unwrap()
                .is_none()
        );
        for url in ["postgres://x", "helix.db", "sqlite:"] {
            let error = SqliteStore::from_url(url).await.unwrap_err();
            assert!(matches!(error, Error::BadUrl { .. }), "{error:?}");
        }
    });
}
