use std::{
    fs::{self, File},
    path::{Path, PathBuf},
};

use crate::{
    error::{Error, Result},
    tree::Tree,
};

/// A copy of the tree that may be broken at will. It is in the same place every time and
/// keeps files that did not change, so that a second run builds next to nothing.
#[derive(Debug)]
pub(crate) struct WorkCopy {
    root: PathBuf,
    /// Held for as long as the copy is in use.
    _lock: File,
}

impl WorkCopy {
    /// Brings the copy in `folder` up to date with the tree, whatever state it was left in.
    pub(crate) fn new(tree: &Tree, folder: &Path) -> Result<Self> {
        fs::create_dir_all(folder).map_err(Error::io(format!("make {}", folder.display())))?;
        let lock = lock(&folder.join("lock"))?;
        let root = folder.join("tree");
        let files = tree.files()?;
        sync(tree.root(), &root, &files).map_err(Error::io("copy the tree"))?;
        Ok(Self { root, _lock: lock })
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    pub(crate) fn read(&self, path: &str) -> Result<String> {
        fs::read_to_string(self.root.join(path)).map_err(Error::io(format!("read {path}")))
    }

    /// Writes a file of the copy. Its time of change is now, so cargo builds it again.
    pub(crate) fn write(&self, path: &str, text: &str) -> Result<()> {
        fs::write(self.root.join(path), text).map_err(Error::io(format!("write {path}")))
    }
}

fn lock(path: &Path) -> Result<File> {
    let file = File::create(path).map_err(Error::io(format!("open {}", path.display())))?;
    file.try_lock().map_err(|_| {
        Error::malformed(
            path.display().to_string(),
            "another run of the mutants is under way; wait for it, or set CARGO_TARGET_DIR",
        )
    })?;
    Ok(file)
}

fn sync(from: &Path, to: &Path, files: &[String]) -> std::io::Result<()> {
    for path in files {
        let (source, copy) = (from.join(path), to.join(path));
        let text = fs::read(&source)?;
        if fs::read(&copy).is_ok_and(|old| old == text) {
            continue;
        }
        if let Some(folder) = copy.parent() {
            fs::create_dir_all(folder)?;
        }
        // Takes the permissions along and gives the copy a new time of change.
        fs::copy(&source, &copy)?;
    }
    remove_others(to, to, files)
}

/// Removes what a deleted file or a failed test left behind.
fn remove_others(root: &Path, folder: &Path, files: &[String]) -> std::io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let path = entry.path();
        if entry.file_type()?.is_dir() {
            remove_others(root, &path, files)?;
            continue;
        }
        let known = path
            .strip_prefix(root)
            .ok()
            .and_then(Path::to_str)
            .is_some_and(|name| {
                files
                    .binary_search_by(|file| file.as_str().cmp(name))
                    .is_ok()
            });
        if !known {
            fs::remove_file(&path)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scratch(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("repo-{name}-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        folder
    }

    #[test]
    fn a_copy_follows_the_tree_and_keeps_what_did_not_change() {
        let folder = scratch("sync");
        let (from, to) = (folder.join("from"), folder.join("to"));
        fs::create_dir_all(from.join("src")).unwrap();
        for (name, text) in [("a", "1"), ("src/b", "2"), ("src/c", "3")] {
            fs::write(from.join(name), text).unwrap();
        }
        let names = |names: &[&str]| names.iter().map(|n| (*n).to_owned()).collect::<Vec<_>>();
        sync(&from, &to, &names(&["a", "src/b", "src/c"])).unwrap();
        let changed = |name: &str| fs::metadata(to.join(name)).unwrap().modified().unwrap();
        let before = changed("a");

        fs::write(to.join("src/b"), "mutated").unwrap();
        fs::write(to.join("src/left-over"), "").unwrap();
        sync(&from, &to, &names(&["a", "src/b"])).unwrap();

        assert_eq!(changed("a"), before);
        assert_eq!(fs::read_to_string(to.join("src/b")).unwrap(), "2");
        assert!(!to.join("src/c").exists() && !to.join("src/left-over").exists());
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn one_run_at_a_time() {
        let folder = scratch("lock");
        let path = folder.join("lock");
        let held = lock(&path).unwrap();
        assert!(lock(&path).is_err());
        drop(held);
        assert!(lock(&path).is_ok());
        fs::remove_dir_all(folder).unwrap();
    }
}
