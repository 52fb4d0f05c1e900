//! The log, on standard error.

use std::io::IsTerminal;

use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use crate::UsageError;

/// The variables that set the log level; the first that is set counts.
const VARIABLES: [&str; 2] = ["HELIX_LOG", "RUST_LOG"];

/// The variable that chooses between text and JSON.
const FORMAT: &str = "HELIX_LOG_FORMAT";

/// The log level if the environment does not set one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DefaultLevel {
    /// A command that does one thing: errors only, because its output is what counts.
    Errors,
    /// A server: everything that an operator needs to see.
    Operation,
}

/// Starts logging at the level that the environment sets: `off`, `error`, `warn`, `info`, `debug`,
/// `trace`, also per target, like `info,helix_agents_core=debug`; as text or as JSON.
///
/// # Errors
/// A [`UsageError`] for any other value.
pub(crate) fn begin(default: DefaultLevel) -> Result<(), UsageError> {
    let targets = match (wanted(), default) {
        (Some((name, value)), _) => parse(name, &value)?,
        (None, DefaultLevel::Errors) => Targets::new().with_default(LevelFilter::ERROR),
        (None, DefaultLevel::Operation) => Targets::new()
            .with_default(LevelFilter::WARN)
            .with_target("helix_agents", LevelFilter::INFO),
    };
    let layer = tracing_subscriber::fmt::layer().with_writer(std::io::stderr);
    let log = tracing_subscriber::registry().with(targets);
    // In a test another log may already be installed.
    let _ = match is_json()? {
        true => log.with(layer.json().flatten_event(true)).try_init(),
        false => {
            let colour = std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
            log.with(layer.with_ansi(colour)).try_init()
        }
    };
    Ok(())
}

fn is_json() -> Result<bool, UsageError> {
    match std::env::var(FORMAT).unwrap_or_default().as_str() {
        "" | "text" => Ok(false),
        "json" => Ok(true),
        other => Err(UsageError(format!(
            "{FORMAT} is `{other}`; write text or json"
        ))),
    }
}

/// Returns the variable that is set, and its value.
fn wanted() -> Option<(&'static str, String)> {
    VARIABLES.into_iter().find_map(|name| {
        let value = std::env::var_os(name)?;
        let value = value.to_string_lossy().trim().to_owned();
        (!value.is_empty()).then_some((name, value))
    })
}

fn parse(name: &str, value: &str) -> Result<Targets, UsageError> {
    // An unknown word would be taken for a target that is logged completely.
    let is_word = !value.contains(['=', ',']);
    let level = value.parse::<LevelFilter>();
    match (is_word, level) {
        (true, Ok(level)) => Some(Targets::new().with_default(level)),
        (true, Err(_)) => None,
        (false, _) => value.parse().ok(),
    }
    .ok_or_else(|| {
        UsageError(format!(
            "{name} is `{value}`, which is not a log level; write off, error, warn, info, \
             debug or trace, or levels of parts like \"info,helix_agents_core=debug\""
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_log_levels_are_accepted() {
        for good in [
            "off",
            "INFO",
            "warn",
            "info,helix_agents_core=debug",
            "a=trace",
        ] {
            assert!(parse("HELIX_LOG", good).is_ok(), "{good}");
        }
        for bad in ["loud", "inf", "helix_agents_core", "a=loud", "info,a=7x"] {
            let error = parse("HELIX_LOG", bad).unwrap_err().to_string();
            assert!(
                error.contains("HELIX_LOG is") && error.contains(bad),
                "{error}"
            );
        }
    }
}
