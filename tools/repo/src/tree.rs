use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

use crate::error::{Error, Result};

/// The working tree: every file git tracks or would track. Paths are relative to the root and
/// use `/`.
#[derive(Debug)]
pub(crate) struct Tree {
    root: PathBuf,
}

impl Tree {
    /// Finds the tree around the current folder: the nearest folder upwards whose `Cargo.toml`
    /// declares a workspace.
    pub(crate) fn find() -> Result<Self> {
        let here = env::current_dir().map_err(Error::io("read the current folder"))?;
        here.ancestors()
            .find(|folder| {
                fs::read_to_string(folder.join("Cargo.toml"))
                    .is_ok_and(|manifest| manifest.lines().any(|line| line == "[workspace]"))
            })
            .map(|root| Self {
                root: root.to_owned(),
            })
            .ok_or_else(|| {
                Error::malformed(
                    here.display().to_string(),
                    "no workspace here or above; run this inside the repository",
                )
            })
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// The files of the tree, sorted. A tracked file that was deleted is left out.
    pub(crate) fn files(&self) -> Result<Vec<String>> {
        let mut git = Command::new("git");
        git.args(["ls-files", "-z", "--cached", "--others"])
            .arg("--exclude-standard");
        let listing = self.output(git)?;
        let mut files: Vec<String> = listing
            .split('\0')
            .filter(|path| !path.is_empty() && self.root.join(path).is_file())
            .map(str::to_owned)
            .collect();
        files.sort();
        files.dedup();
        Ok(files)
    }

    pub(crate) fn read(&self, path: &str) -> Result<String> {
        fs::read_to_string(self.root.join(path)).map_err(Error::io(format!("read {path}")))
    }

    /// The files of the tree that `wanted` picks, with their text.
    pub(crate) fn sources(&self, wanted: impl Fn(&str) -> bool) -> Result<Vec<(String, String)>> {
        self.files()?
            .into_iter()
            .filter(|path| wanted(path))
            .map(|path| {
                let text = self.read(&path)?;
                Ok((path, text))
            })
            .collect()
    }

    /// Runs a program in the root and returns what it wrote, or an error that carries what it
    /// complained about.
    pub(crate) fn output(&self, mut command: Command) -> Result<String> {
        let name = format!("{command:?}").replace('"', "");
        let failed = |detail: String| Error::Command {
            command: name.clone(),
            detail,
        };
        let output = command
            .current_dir(&self.root)
            .output()
            .map_err(|error| failed(error.to_string()))?;
        if !output.status.success() {
            let complaint = String::from_utf8_lossy(&output.stderr);
            return Err(failed(complaint.trim().to_owned()));
        }
        String::from_utf8(output.stdout).map_err(|error| failed(error.to_string()))
    }
}

/// The cargo that started this tool, so that one toolchain is used throughout.
pub(crate) fn cargo() -> Command {
    Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}
