//! `[store]` and `[stream]`: where sessions are stored.

use std::fmt;
use std::path::{Path, PathBuf};

use super::suggest::remedy;
use super::{At, ConfigError, Section};

/// The URL of a store.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum StoreUrl {
    /// In memory, until the process ends.
    Memory,
    /// In a SQLite file.
    Sqlite(PathBuf),
}

/// The error of an invalid store URL.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
#[non_exhaustive]
pub struct StoreUrlError {
    /// The problem, and what to write instead.
    pub message: String,
}

impl StoreUrl {
    /// Parses a URL; a path in it is relative to `folder`.
    ///
    /// # Errors
    /// A [`StoreUrlError`] that says what to write instead.
    pub fn parse(url: &str, folder: &Path) -> Result<Self, StoreUrlError> {
        const FORMS: &str = "write `sqlite:PATH` or `memory:`";
        let wrong = |message: String| StoreUrlError { message };
        let Some((scheme, rest)) = url.split_once(':') else {
            return Err(wrong(format!("`{url}` is not a store URL; {FORMS}")));
        };
        match scheme {
            "memory" if rest.is_empty() => Ok(Self::Memory),
            "memory" => Err(wrong(format!(
                "`{url}` has a name, but a store in memory has none; write `memory:`"
            ))),
            "sqlite" if rest == ":memory:" => Ok(Self::Memory),
            "sqlite" => {
                let path = rest.strip_prefix("//").unwrap_or(rest);
                if path.is_empty() {
                    return Err(wrong(format!("`{url}` names no file; {FORMS}")));
                }
                // `./x` and `x` are the same file; the shorter form is shown.
                let folder = if folder == Path::new(".") {
                    Path::new("")
                } else {
                    folder
                };
                Ok(Self::Sqlite(folder.join(path)))
            }
            "postgres" | "postgresql" | "redis" | "rediss" => Err(wrong(format!(
                "stores of kind `{scheme}` are not supported yet; {FORMS}"
            ))),
            _ => {
                let remedy = remedy(scheme, ["sqlite", "memory"]);
                Err(wrong(format!(
                    "unknown kind of store `{scheme}`; {remedy} ({FORMS})"
                )))
            }
        }
    }
}

impl fmt::Display for StoreUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Memory => f.write_str("memory:"),
            Self::Sqlite(path) => write!(f, "sqlite:{}", path.display()),
        }
    }
}

pub(super) fn read(
    section: Option<Section<'_>>,
    folder: &Path,
) -> Result<Option<StoreUrl>, ConfigError> {
    let Some(section) = section else {
        return Ok(None);
    };
    let url = section.required("url", "\"sqlite:helix.db\"")?;
    section.finish()?;
    url_of(&section, &url, folder).map(Some)
}

/// Checks `[stream]`. Streams are kept in the store; separate ones are for stores that are not
/// supported yet.
pub(super) fn read_stream(
    section: Option<Section<'_>>,
    store: Option<&StoreUrl>,
    folder: &Path,
) -> Result<(), ConfigError> {
    let Some(section) = section else {
        return Ok(());
    };
    let url = section.required("url", "\"sqlite:helix.db\"")?;
    section.finish()?;
    if Some(&url_of(&section, &url, folder)?) == store {
        return Ok(());
    }
    let message = "streams outside of the store are not supported yet; leave [stream] out, and they \
                   are kept in the store";
    Err(section.error(&url.at, message))
}

fn url_of(
    section: &Section<'_>,
    At { value, at }: &At<String>,
    folder: &Path,
) -> Result<StoreUrl, ConfigError> {
    StoreUrl::parse(value, folder).map_err(|error| section.error(at, error.message))
}
