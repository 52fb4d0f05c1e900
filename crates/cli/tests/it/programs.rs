//! Programs of the machine that some tests need. `./test` installs them and says so with
//! `HELIX_NO_SKIP`; without it, a test whose program is missing is skipped by name.

use std::path::PathBuf;

/// Where a program is.
pub(crate) fn find(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut places = std::env::split_paths(&path).map(|folder| folder.join(name));
    let found = places.find(|place| place.is_file());
    is_there(name, found.is_some());
    found
}

/// Whether something that a test needs is there. Where nothing may be skipped, it must be.
#[expect(clippy::print_stderr, reason = "whoever runs the tests is told")]
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
