//! Generates the page `docs/reference.md`.

use std::fmt::Write;

use super::script::SCRIPT;
use super::{Key, Presence, Rule, Shape, TOP, Table};

/// Returns the page `docs/reference.md`.
#[must_use]
pub fn page() -> String {
    let mut out = String::from(
        "# Reference\n\n\
         Every key of `helix.toml` and of scripts. This page is generated from the table against which the program checks \
         the file.\n\n\
         `helix schema` prints the keys of `helix.toml` as a JSON Schema, with which editors complete and check \
         the file: `helix schema > helix.schema.json`, and `#:schema ./helix.schema.json` as the first line of \
         `helix.toml` for editors that use Taplo.\n",
    );
    let mut seen = Vec::new();
    write(&mut out, &TOP, "##", &mut seen);
    write(&mut out, &SCRIPT, "##", &mut seen);
    out
}

/// Writes a table, and after it the tables inside it, each once.
fn write(out: &mut String, table: &'static Table, level: &str, seen: &mut Vec<&'static str>) {
    if seen.contains(&table.title) {
        return;
    }
    seen.push(table.title);
    let title = match table.title {
        title if title.starts_with('[') => format!("`{title}`"),
        title => title.to_owned(),
    };
    // Writing to a string cannot fail.
    let _ = write!(out, "\n{level} {title}\n\n{}\n\n", table.about);
    out.push_str("| key | type | default | meaning |\n|---|---|---|---|\n");
    for key in table.keys {
        let Key { name, about, .. } = key;
        let _ = writeln!(
            out,
            "| `{name}` | {} | {} | {about} |",
            kind(&key.shape),
            default(key)
        );
    }
    if !table.rules.is_empty() {
        out.push('\n');
    }
    for rule in table.rules {
        let _ = writeln!(out, "- {}", sentence(rule));
    }
    for key in table.keys {
        match &key.shape {
            Shape::Table(inner)
            | Shape::Tables(inner)
            | Shape::Named(inner)
            | Shape::Entries(inner) => {
                write(out, inner, "###", seen);
            }
            _ => {}
        }
    }
}

fn kind(shape: &Shape) -> String {
    match shape {
        Shape::Text => "text".to_owned(),
        Shape::Matching(pattern) => format!("text that matches `{}`", pattern.replace('|', "\\|")),
        Shape::Choice(values) => listed(values, "or"),
        Shape::Flag => "true or false".to_owned(),
        Shape::Count(least) => format!("whole number from {least}"),
        Shape::Number => "number".to_owned(),
        Shape::Texts("") => "list of texts".to_owned(),
        Shape::Texts(pattern) => format!("list of texts that match `{pattern}`"),
        Shape::Names => "list of names, each once".to_owned(),
        Shape::Object | Shape::Table(_) => "table".to_owned(),
        Shape::Any => "any JSON".to_owned(),
        Shape::Tables(_) => "list of tables".to_owned(),
        Shape::Named(_) => "table for each name".to_owned(),
        Shape::Entries(_) => "text or table for each name".to_owned(),
    }
}

fn default(key: &Key) -> String {
    match key.presence {
        Presence::Required => "required".to_owned(),
        Presence::Optional => String::new(),
        Presence::Default(value) => format!("`{value}`"),
    }
}

fn sentence(rule: &Rule) -> String {
    match rule {
        Rule::OneOf(keys) => format!("Exactly one of {} is required.", listed(keys, "and")),
        Rule::Apart(one, other) => format!("`{one}` and `{other}` exclude each other."),
        Rule::Clash([(one, is), (other, other_is)]) => {
            format!("`{one} = \"{is}\"` and `{other} = \"{other_is}\"` exclude each other.")
        }
        Rule::Where {
            key,
            is,
            needs,
            lacks,
            excludes,
        } => {
            let mut parts = Vec::new();
            if !needs.is_empty() {
                parts.push(format!("needs {}", listed(needs, "and")));
            }
            let refused = [*lacks, *excludes].concat();
            if !refused.is_empty() {
                parts.push(format!("excludes {}", listed(&refused, "and")));
            }
            format!("`{key} = \"{is}\"` {}.", parts.join(", and "))
        }
    }
}

/// Joins names, with a word before the last one.
fn listed(names: &[&str], word: &str) -> String {
    let quoted: Vec<_> = names.iter().map(|name| format!("`{name}`")).collect();
    match quoted.split_last() {
        Some((last, [])) => last.clone(),
        Some((last, others)) => format!("{} {word} {last}", others.join(", ")),
        None => String::new(),
    }
}
