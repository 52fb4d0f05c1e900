//! Why there was no connection to a service.

use std::error::Error;
use std::io;

use super::answer::chain;

/// Why there was no connection, so that nothing was sent.
#[derive(Debug)]
pub(super) struct Unsent {
    /// What the model reads. It names no address.
    pub(super) why: &'static str,
    /// What the log says.
    pub(super) detail: String,
    /// Whether it may be otherwise soon.
    pub(super) may_pass: bool,
}

impl Unsent {
    pub(super) fn of(error: &reqwest::Error) -> Self {
        let detail = chain(error);
        let (why, may_pass) = match () {
            () if is_tls(error) => ("no secure connection to its service could be made", false),
            () if error.is_timeout() => ("its service took no connection in time", true),
            () if detail.contains("dns error") => ("the host of its service was not found", true),
            () => ("its service takes no connections", true),
        };
        Self {
            why,
            detail,
            may_pass,
        }
    }
}

/// Whether no secure connection could be agreed on. Errors of I/O hide what they hold from their own
/// sources.
fn is_tls(error: &(dyn Error + 'static)) -> bool {
    let held = error
        .downcast_ref::<io::Error>()
        .and_then(io::Error::get_ref);
    let held = held.map(|held| held as &(dyn Error + 'static));
    error.is::<rustls::Error>() || held.or_else(|| error.source()).is_some_and(is_tls)
}
