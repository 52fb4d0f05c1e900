//! `[tools.NAME]`: the tools that agents can use.

use std::collections::BTreeMap;
use std::time::Duration;

use helix_agents_core::tool::ToolBuilder;
use helix_agents_core::{DefinitionError, Tool};
use serde_json::{Value, json};

use super::agents::chain;
use super::suggest::remedy;
use super::tool_options::{Kind, ToolOptions};
use super::{At, ConfigError, Section, Variable, headers};
use crate::tools::{Allowed, Builtin, HttpClient, HttpTool};

const KINDS: [&str; 4] = ["http", "client", "builtin", "mcp"];
/// The default timeout of a call to a service.
const TIMEOUT: Duration = Duration::from_millis(10_000);

/// The tools of a file, by name.
#[derive(Default)]
pub(super) struct Tools {
    all: BTreeMap<String, Tool>,
    /// The URLs of the HTTP tools, by tool name.
    pub(super) services: Vec<(String, String)>,
    /// The environment variables that the tools need.
    pub(super) variables: Vec<Variable>,
}

impl Tools {
    pub(super) fn get(&self, name: &str) -> Option<Tool> {
        self.all.get(name).cloned()
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.all.keys().map(String::as_str)
    }

    pub(super) fn read(
        &mut self,
        name: String,
        section: &Section<'_>,
        client: &HttpClient,
    ) -> Result<(), ConfigError> {
        let At { value, at } = section.required("kind", "\"http\"")?;
        let kind = match value.as_str() {
            "http" => Kind::Http,
            "client" => Kind::Client,
            "builtin" => Kind::Builtin,
            "mcp" => {
                let message =
                    "tools of kind `mcp` are not supported yet; use http, client or builtin";
                return Err(section.error(&at, message));
            }
            _ => {
                let remedy = remedy(&value, KINDS);
                let message = format!("unknown kind of tool `{value}`; {remedy}");
                return Err(section.error(&at, message));
            }
        };
        let description = section.text("description")?.map(|text| text.value);
        let schema = section.object("input_schema")?;
        let output = section.object("output_schema")?;
        let options = ToolOptions::read(section, kind)?;
        let url = section.text("url")?;
        let (headers, variables) = headers::read(section)?;
        let proxied = section.flag("proxy")?;
        let builtin = section.text("builtin")?;
        let allow = section.texts("allow")?;
        section.finish()?;
        refuse_foreign_keys(section, kind)?;

        let builder = match kind {
            Kind::Builtin => {
                let allow = allowed(section, &allow)?;
                let which = builtin.map_or(
                    At {
                        value: name.clone(),
                        at,
                    },
                    |builtin| builtin,
                );
                builtin_tool(
                    &name,
                    section,
                    &which,
                    description,
                    allow,
                    options.plain.timeout,
                )?
            }
            Kind::Client => {
                let description = description.unwrap_or_else(|| name.clone());
                Tool::client_raw(&name, description, schema_or_any(schema))
            }
            Kind::Http => {
                let description = description.unwrap_or_else(|| name.clone());
                let Some(url) = url else {
                    return Err(section.wrong("has no `url`; write `url = \"http://HOST/PATH\"`"));
                };
                self.services.push((name.clone(), url.value.clone()));
                let run = HttpTool::new(client.clone(), &name, &url.value)
                    .map_err(|error| section.error(&url.at, error.to_string()))?
                    .timeout(options.plain.timeout.unwrap_or(TIMEOUT))
                    .retries(options.plain.idempotent)
                    .headers(headers);
                let run = match proxied {
                    Some(proxied) => run.proxied(proxied.value),
                    None => run,
                };
                self.variables.extend(variables);
                Tool::raw(&name, description, schema_or_any(schema), run)
            }
        };
        let builder = match output {
            Some(output) => builder.output_schema(output.value),
            None => builder,
        };
        let tool = options.apply(builder, kind).build();
        let tool = tool.map_err(|error| {
            let at = match error {
                DefinitionError::Schema(_) => section.place("input_schema"),
                _ => None,
            };
            let at = at.unwrap_or_else(|| section.at.clone());
            let message = format!("[{}] cannot be used: {}", section.name, chain(&error));
            section.error(&at, message)
        })?;
        self.all.insert(name, tool);
        Ok(())
    }
}

fn schema_or_any(schema: Option<At<Value>>) -> Value {
    schema.map_or_else(|| json!({ "type": "object" }), |schema| schema.value)
}

/// Returns an error for keys that belong to another kind of tool.
fn refuse_foreign_keys(section: &Section<'_>, kind: Kind) -> Result<(), ConfigError> {
    let foreign: &[(&str, &str)] = match kind {
        Kind::Http => &[("builtin", "builtin"), ("allow", "builtin")],
        Kind::Client => &[
            ("url", "http"),
            ("headers", "http"),
            ("proxy", "http"),
            ("builtin", "builtin"),
            ("allow", "builtin"),
        ],
        Kind::Builtin => &[("url", "http"), ("headers", "http"), ("proxy", "http")],
    };
    for (key, owner) in foreign {
        if let Some(at) = section.place(key) {
            let message = format!(
                "`{key}` in [{}] belongs to tools of kind `{owner}`; remove it, or write `kind = \"{owner}\"`",
                section.name
            );
            return Err(section.error(&at, message));
        }
    }
    for (key, what) in [("input_schema", "input"), ("output_schema", "output")] {
        if let (Kind::Builtin, Some(at)) = (kind, section.place(key)) {
            let message = format!(
                "[{}] is a builtin tool with its own {what}; remove `{key}`",
                section.name
            );
            return Err(section.error(&at, message));
        }
    }
    Ok(())
}

fn builtin_tool(
    name: &str,
    section: &Section<'_>,
    which: &At<String>,
    description: Option<String>,
    allow: Allowed,
    timeout: Option<Duration>,
) -> Result<ToolBuilder, ConfigError> {
    let builtin = Builtin::named(&which.value).ok_or_else(|| {
        let remedy = remedy(&which.value, Builtin::NAMES);
        let message = format!(
            "unknown builtin tool `{}`; {remedy} (`builtin = \"...\"` chooses one, else the \
             tool's own name does)",
            which.value
        );
        section.error(&which.at, message)
    })?;
    if builtin != Builtin::Fetch
        && let Some(at) = section.place("allow")
    {
        let message = "`allow` is for the builtin tool `fetch`; remove it";
        return Err(section.error(&at, message));
    }
    let description = description.unwrap_or_else(|| builtin.description().to_owned());
    Ok(builtin.tool(name, description, allow, timeout))
}

fn allowed(section: &Section<'_>, entries: &[At<String>]) -> Result<Allowed, ConfigError> {
    if section.place("allow").is_none() {
        return Ok(Allowed::public());
    }
    let mut allowed = Allowed::none();
    for At { value, at } in entries {
        allowed = allowed
            .and(value)
            .map_err(|error| section.error(at, error.to_string()))?;
    }
    Ok(allowed)
}
