//! The servers that all tests of a run share.

/// The variable with the URL of the shared PostgreSQL: a superuser, and the database `postgres`.
pub const POSTGRES: &str = "HELIX_TEST_POSTGRES";
/// The variable with the URL of the shared Redis.
pub const REDIS: &str = "HELIX_TEST_REDIS";
/// The variable with the URLs of the nodes of the shared Redis cluster, with commas between them.
pub const REDIS_CLUSTER: &str = "HELIX_TEST_REDIS_CLUSTER";

/// Returns the URL of a shared server; `None` if there is none and the test is to be skipped, which it says.
///
/// # Panics
/// If there is none although nothing may be skipped (`HELIX_NO_SKIP`).
#[must_use]
pub fn shared(variable: &str) -> Option<String> {
    let url = std::env::var(variable).ok().filter(|url| !url.is_empty());
    if url.is_none() {
        skips_without(variable);
    }
    url
}

/// Says that the test is skipped because something is missing.
///
/// # Panics
/// If nothing may be skipped (`HELIX_NO_SKIP`).
#[expect(clippy::print_stderr, reason = "a test that is skipped says so")]
pub fn skips_without(what: &str) {
    assert!(
        std::env::var_os("HELIX_NO_SKIP").is_none(),
        "{what} is missing, and HELIX_NO_SKIP allows no test to be skipped"
    );
    eprintln!("skipped: {what} is missing; ./test sets it");
}
