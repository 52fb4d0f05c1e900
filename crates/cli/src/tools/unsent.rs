//! Failures to connect to a service.

use std::error::Error;
use std::io;

use super::answer::chain;

/// A failure to connect, so that nothing was sent.
#[derive(Debug)]
pub(super) struct Unsent {
    /// The reason for the model, without the address.
    pub(super) why: &'static str,
    /// The details for the log.
    pub(super) detail: String,
    /// Whether a retry may succeed soon.
    pub(super) may_pass: bool,
}

impl Unsent {
    pub(super) fn of(error: &reqwest::Error) -> Self {
        let detail = chain(error);
        let (why, may_pass) = match () {
            () if is_tls(error) => ("no secure connection to its service could be made", false),
            () if error.is_timeout() => ("its service accepted no connection in time", true),
            () if detail.contains("dns error") => ("the host of its service was not found", true),
            () => ("its service accepts no connections", true),
        };
        Self {
            why,
            detail,
            may_pass,
        }
    }
}

/// Whether the TLS handshake failed. I/O errors hide their inner error from `source`.
fn is_tls(error: &(dyn Error + 'static)) -> bool {
    let held = error
        .downcast_ref::<io::Error>()
        .and_then(io::Error::get_ref);
    let held = held.map(|held| held as &(dyn Error + 'static));
    error.is::<rustls::Error>() || held.or_else(|| error.source()).is_some_and(is_tls)
}
