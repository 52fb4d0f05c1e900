//! Programs of the machine that some tests need. `./test` installs them and says so with
//! `HELIX_NO_SKIP`; without it, a test whose program is missing is skipped by name.

use std::path::PathBuf;

/// Where a program is.
#[expect(clippy::print_stderr, reason = "whoever runs the tests is told")]
pub(crate) fn find(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut places = std::env::split_paths(&path).map(|folder| folder.join(name));
    let found = places.find(|place| place.is_file());
    if found.is_none() {
        assert!(
            std::env::var_os("HELIX_NO_SKIP").is_none(),
            "{name} is not installed, and nothing may be skipped"
        );
        eprintln!("skipped: {name} is not installed");
    }
    found
}
