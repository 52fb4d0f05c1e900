//! The file: all of a store as one JSON text, replaced as a whole.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

use helix_agents::core::SessionId;
use helix_agents::core::store::{Fence, StoreError};
use helix_agents::core::stored::{Stored, decode, encode};
use serde::{Deserialize, Serialize};

/// Everything that a store keeps.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Contents {
    /// The fence at which sessions begin. It must outlive the process as the sessions do.
    pub(crate) floor: Fence,
    /// The document of each session.
    pub(crate) texts: BTreeMap<SessionId, String>,
}

impl Stored for Contents {
    const KIND: &'static str = "contents";
    const VERSION: u32 = 1;
}

/// A file that holds all the contents of a store.
#[derive(Debug)]
pub(crate) struct DataFile(PathBuf);

impl DataFile {
    /// Opens a file and reads it. One that does not exist is empty.
    pub(crate) fn open(path: &Path) -> Result<(Self, Contents), StoreError> {
        let contents = match fs::read_to_string(path) {
            Ok(text) => decode(&text)?,
            Err(error) if error.kind() == ErrorKind::NotFound => Contents::default(),
            Err(error) => return Err(unavailable(error)),
        };
        Ok((Self(path.to_owned()), contents))
    }

    /// Replaces the contents. When it has returned, they are on the disk; a crash before that leaves
    /// the old ones.
    pub(crate) fn replace(&self, contents: &Contents) -> Result<(), StoreError> {
        let text = encode(contents)?;
        self.write(&text).map_err(unavailable)
    }

    fn write(&self, text: &str) -> io::Result<()> {
        let fresh = self.0.with_extension("new");
        let mut file = File::create(&fresh)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&fresh, &self.0)?;
        // The name of a file belongs to its folder, which is synced on its own.
        #[cfg(unix)]
        if let Some(folder) = fs::canonicalize(&self.0)?.parent() {
            File::open(folder)?.sync_all()?;
        }
        Ok(())
    }
}

/// An error after which a write may or may not have been made, and may be tried again.
fn unavailable(error: io::Error) -> StoreError {
    StoreError::Unavailable {
        backend: "JSON",
        source: error.into(),
    }
}
