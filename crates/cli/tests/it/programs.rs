//! Programs that some tests need. `./test` installs them and sets `HELIX_NO_SKIP`; without it, a
//! test whose program is missing is skipped by name.

use std::path::PathBuf;

/// Returns the path of a program.
pub(crate) fn find(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut places = std::env::split_paths(&path).map(|folder| folder.join(name));
    let found = places.find(|place| place.is_file());
    is_there(name, found.is_some());
    found
}

/// Whether a requirement of a test is present. If nothing may be skipped, it must be.
#[expect(clippy::print_stderr, reason = "the developer sees what was skipped")]
pub(crate) fn is_there(name: &str, is_there: bool) -> bool {
    if !is_there {
        assert!(
            std::env::var_os("HELIX_NO_SKIP").is_none(),
            "{name} is not installed, and nothing may be skipped"
        );
        eprintln!("skipped: {name} is not installed");
    }
    is_there
}
