//! The log, on standard error.

use std::io::IsTerminal;

use tracing_subscriber::filter::LevelFilter;

/// Begins to log: errors, or as much as `HELIX_LOG` says (off, error, warn, info, debug, trace).
pub(crate) fn begin() {
    let wanted = std::env::var("HELIX_LOG").ok();
    let level = wanted.and_then(|level| level.parse().ok());
    let colour = std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    // In a test another log may be there already.
    let _ = tracing_subscriber::fmt()
        .with_max_level(level.unwrap_or(LevelFilter::ERROR))
        .with_writer(std::io::stderr)
        .with_ansi(colour)
        .try_init();
}
