//! `headers` of a tool or a model: additional headers of every call.

use reqwest::header::{HeaderMap, HeaderName, HeaderValue};

use super::section::Entry;
use super::{At, ConfigError, Section, Variable};

/// Headers that every call sets itself.
const OWN: [&str; 6] = [
    "connection",
    "content-length",
    "content-type",
    "host",
    "idempotency-key",
    "transfer-encoding",
];
const EXAMPLE: &str = "Authorization = { env = \"NAME\" }";

/// Reads the headers of a tool or a model, and the variables that some of them come from. A variable that is
/// not set leaves its header out; commands that perform runs refuse to start in that case.
pub(super) fn read(section: &Section<'_>) -> Result<(HeaderMap, Vec<Variable>), ConfigError> {
    let (mut headers, mut variables) = (HeaderMap::new(), Vec::new());
    for (At { value: name, at }, entry) in section.entries("headers", EXAMPLE)? {
        let parsed = HeaderName::from_bytes(name.as_bytes()).map_err(|_| {
            let message = format!("`{name}` is not the name of a header; write `{EXAMPLE}`");
            section.error(&at, message)
        })?;
        if OWN.contains(&parsed.as_str()) {
            let message = format!("every call already has the header `{name}`; remove it");
            return Err(section.error(&at, message));
        }
        let text = match entry {
            Entry::Text(text) => Some(text.value),
            Entry::Table(table) => {
                let variable = table.required("env", "\"NAME\"")?;
                table.finish()?;
                let text = std::env::var(&variable.value).ok();
                let text = text.map(|text| text.trim().to_owned());
                variables.push(Variable {
                    name: variable.value,
                    holds: format!("the header {name} of [{}]", section.name),
                    line: table.line(),
                    optional: false,
                });
                text.filter(|text| !text.is_empty())
            }
        };
        let Some(text) = text else {
            continue;
        };
        let mut value = HeaderValue::from_str(&text).map_err(|_| {
            let message = format!(
                "the value of the header `{name}` cannot be sent; write plain text in one line"
            );
            section.error(&at, message)
        })?;
        value.set_sensitive(true);
        headers.append(parsed, value);
    }
    Ok((headers, variables))
}
