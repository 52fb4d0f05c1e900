//! A folder for one test.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// A fresh folder, removed when it is dropped.
#[derive(Debug)]
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new() -> Self {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("helix-sqlite-{}-{count}", std::process::id());
        let path = std::env::temp_dir().join(name);
        // A killed process of the same id may have left one.
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir(&path).unwrap();
        Self(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// The path of a file in it.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

/// A test that was killed leaves its folder, and a later process may have the same id. It must not find
/// the old content.
#[test]
fn a_fresh_folder_is_empty() {
    let left = Folder::new();
    let (rest, number) = left.path().to_str().unwrap().rsplit_once('-').unwrap();
    let number: u64 = number.parse().unwrap();
    // Other tests of this process may take some of these numbers; ours is one of them.
    for number in number + 1..number + 64 {
        let path = PathBuf::from(format!("{rest}-{number}"));
        if !path.exists() {
            std::fs::create_dir(&path).unwrap();
            std::fs::write(path.join("helix.db"), "left").unwrap();
        }
    }
    let fresh = Folder::new();
    let found = std::fs::read_dir(fresh.path()).unwrap().count();
    for number in number + 1..number + 64 {
        let path = PathBuf::from(format!("{rest}-{number}"));
        if std::fs::read(path.join("helix.db")).is_ok_and(|found| found == b"left") {
            let _ = std::fs::remove_dir_all(path);
        }
    }
    assert_eq!(found, 0);
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
