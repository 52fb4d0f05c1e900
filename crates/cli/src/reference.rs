//! Every key of `helix.toml` and of scripts, in one table: its type, its default and its meaning.
//!
//! Code that reads a key of `helix.toml` does so through a `Section`, which knows its table. In
//! debug builds it panics on a key that the table lacks or has with another type, and on a key of
//! the table that is never read. The keys of scripts are compared with those that serde lists. The
//! page and the JSON Schema are generated from the table.

mod budgets;
mod contexts;
mod files;
mod models;
mod page;
mod persistent_agents;
mod schema;
mod script;
mod tools;

pub use page::page;
pub use schema::schema;

pub(crate) use files::{EMPTY, TOP};
pub(crate) use models::OF_PROVIDERS;

/// A table of a file.
#[derive(Debug)]
pub(crate) struct Table {
    /// The heading in the file, like `[server]`.
    pub(crate) title: &'static str,
    /// The purpose of the table.
    pub(crate) about: &'static str,
    pub(crate) keys: &'static [Key],
    /// Rules about several keys together.
    pub(crate) rules: &'static [Rule],
}

/// A key of a table.
#[derive(Debug)]
pub(crate) struct Key {
    pub(crate) name: &'static str,
    pub(crate) shape: Shape,
    pub(crate) presence: Presence,
    /// The meaning, as a sentence.
    pub(crate) about: &'static str,
}

/// Whether a key may be left out.
#[derive(Debug)]
pub(crate) enum Presence {
    /// The key must be present.
    Required,
    /// The key may be left out.
    Optional,
    /// The default value, as written in the file.
    Default(&'static str),
}

/// The type of a value.
#[derive(Debug)]
pub(crate) enum Shape {
    /// Any text.
    Text,
    /// A text that matches a regular expression.
    Matching(&'static str),
    /// One of these texts.
    Choice(&'static [&'static str]),
    /// True or false.
    Flag,
    /// A whole number, at least this.
    Count(u64),
    /// Any number.
    Number,
    /// A list of texts that match a regular expression.
    Texts(&'static str),
    /// A list of texts without duplicates.
    Names,
    /// A table with any keys.
    Object,
    /// Any JSON value.
    Any,
    /// A table with its own keys.
    Table(&'static Table),
    /// A list of tables.
    Tables(&'static Table),
    /// A table of named tables.
    Named(&'static Table),
    /// A table with any names, each with a text or a table.
    Entries(&'static Table),
}

/// A rule about several keys together.
#[derive(Debug)]
pub(crate) enum Rule {
    /// Exactly one of these keys is present.
    OneOf(&'static [&'static str]),
    /// The two keys exclude each other, unless one of them is false.
    Apart(&'static str, &'static str),
    /// The two values of two keys exclude each other.
    Clash([(&'static str, &'static str); 2]),
    /// The consequences of a value for other keys.
    Where {
        key: &'static str,
        is: &'static str,
        /// Keys that must be present.
        needs: &'static [&'static str],
        /// Keys that must be absent.
        lacks: &'static [&'static str],
        /// Keys that must be absent or false.
        excludes: &'static [&'static str],
    },
}

impl Table {
    /// Returns the key of this name.
    pub(crate) fn key(&self, name: &str) -> Option<&'static Key> {
        self.keys.iter().find(|key| key.name == name)
    }

    /// Returns the table under a key, or an empty one.
    pub(crate) fn inner(&self, name: &str) -> &'static Self {
        match self.key(name).map(|key| &key.shape) {
            Some(
                Shape::Table(table)
                | Shape::Tables(table)
                | Shape::Named(table)
                | Shape::Entries(table),
            ) => table,
            _ => &EMPTY,
        }
    }
}

impl Key {
    const fn new(name: &'static str, shape: Shape, about: &'static str) -> Self {
        Self {
            name,
            shape,
            presence: Presence::Optional,
            about,
        }
    }

    const fn required(mut self) -> Self {
        self.presence = Presence::Required;
        self
    }

    const fn default(mut self, value: &'static str) -> Self {
        self.presence = Presence::Default(value);
        self
    }

    /// Whether the key must be present.
    pub(crate) fn is_required(&self) -> bool {
        matches!(self.presence, Presence::Required)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use helix_agents_core::step::DEFAULT_MAX_STEPS;
    use helix_agents_models::Script;
    use serde_json::{Value, json};

    use super::script::SCRIPT;
    use super::{Presence, Shape, TOP, Table};
    use crate::config::{Config, RuntimeConfig, ServerConfig};
    use crate::tools::Builtin;

    /// Returns the names that serde lists in the error for an unknown one.
    fn listed(script: Value) -> Vec<String> {
        let error = Script::from_value(script).map(drop);
        let error = error
            .err()
            .map(|error| error.to_string())
            .unwrap_or_default();
        let (_, names) = error.split_once("expected").unwrap_or_default();
        let names = names.split('`').skip(1).step_by(2);
        let mut names: Vec<_> = names.map(str::to_owned).collect();
        names.sort();
        names
    }

    fn sorted<'a>(names: impl Iterator<Item = &'a str>) -> Vec<String> {
        let mut names: Vec<_> = names.map(str::to_owned).collect();
        names.sort();
        names
    }

    fn choices(table: &Table, key: &str) -> Vec<String> {
        match table.key(key).map(|key| &key.shape) {
            Some(Shape::Choice(values)) => sorted(values.iter().copied()),
            _ => Vec::new(),
        }
    }

    #[test]
    fn the_table_has_exactly_the_keys_that_scripts_may_have() {
        let unknown = || json!({ "no such key": 1 });
        let step = |step: Value| json!({ "default": [step] });
        let (rule, steps) = (SCRIPT.inner("rules"), SCRIPT.inner("default"));
        let read = [
            (&SCRIPT, unknown()),
            (rule, json!({ "rules": [unknown()] })),
            (steps, step(unknown())),
            (
                steps.inner("tool_calls"),
                step(json!({ "tool_calls": [unknown()] })),
            ),
            (steps.inner("usage"), step(json!({ "usage": unknown() }))),
            (steps.inner("error"), step(json!({ "error": unknown() }))),
        ];
        for (table, script) in read {
            let names = sorted(table.keys.iter().map(|key| key.name));
            assert_eq!(names, listed(script), "{}", table.title);
        }
        let kinds = listed(step(json!({ "error": { "kind": "no such" } })));
        assert_eq!(choices(steps.inner("error"), "kind"), kinds);
        let reasons = listed(step(json!({ "stop_reason": "no such" })));
        assert_eq!(choices(steps, "stop_reason"), reasons);
    }

    #[test]
    fn keys_of_scripts_are_required_where_the_table_says_so() {
        let steps = SCRIPT.inner("default");
        let tables = [
            (
                SCRIPT.inner("rules"),
                json!({ "match": "x", "steps": [] }),
                "/rules/0",
            ),
            (
                steps.inner("tool_calls"),
                json!({ "id": "i", "name": "n", "arguments": {} }),
                "/default/0/tool_calls/0",
            ),
            (
                steps.inner("error"),
                json!({ "kind": "auth", "attempts": 1, "retry_after_ms": 1, "after_chars": 1 }),
                "/default/0/error",
            ),
        ];
        for (table, whole, place) in tables {
            for key in table.keys {
                let mut script = json!({
                    "rules": [{ "match": "x", "steps": [] }],
                    "default": [{ "tool_calls": [{ "name": "n" }], "error": { "kind": "auth" } }],
                });
                let mut part = whole.clone();
                part.as_object_mut().and_then(|part| part.remove(key.name));
                *script.pointer_mut(place).unwrap_or(&mut Value::Null) = part;
                let is_read = Script::from_value(script).is_ok();
                assert_eq!(is_read, !key.is_required(), "{} {}", table.title, key.name);
            }
        }
    }

    /// A file that states every default of a table is the same as an empty one.
    #[test]
    fn the_documented_defaults_are_used() {
        for (name, count) in [("server", 10), ("runtime", 7)] {
            let keys = TOP.inner(name).keys.iter();
            let lines = keys.filter_map(|key| match key.presence {
                Presence::Default(value) => Some(format!("{} = {value}\n", key.name)),
                _ => None,
            });
            let lines: Vec<_> = lines.collect();
            assert_eq!(lines.len(), count, "{lines:?}");
            let text = format!("[{name}]\n{}", lines.concat());
            let config = Config::parse(Path::new("helix.toml"), text);
            let config = config.map(|config| (config.server, config.runtime));
            let defaults = (ServerConfig::default(), RuntimeConfig::default());
            assert_eq!(config.ok(), Some(defaults));
        }
        let steps = TOP
            .inner("agents")
            .key("max_steps")
            .map(|key| &key.presence);
        let used = DEFAULT_MAX_STEPS.to_string();
        assert!(matches!(steps, Some(Presence::Default(steps)) if *steps == used));
    }

    /// Every listed choice is accepted.
    #[test]
    fn every_documented_choice_is_accepted() {
        for key in TOP.inner("runtime").keys {
            for value in choices(TOP.inner("runtime"), key.name) {
                let text = format!("[runtime]\n{} = \"{value}\"\n", key.name);
                let config = Config::parse(Path::new("helix.toml"), text);
                assert!(config.is_ok(), "{config:?}");
            }
        }
        let builtin = choices(TOP.inner("tools"), "builtin");
        assert!(builtin.iter().all(|name| Builtin::named(name).is_some()));
        assert!(
            Builtin::NAMES
                .iter()
                .all(|name| builtin.contains(&(*name).to_owned()))
        );
    }
}
