//! Reads tables of a TOML file and keeps the position of every value.

use std::cell::RefCell;
use std::ops::Range;
use std::path::PathBuf;

use serde_json::Value;
use toml::Spanned;
use toml::de::{DeString, DeTable, DeValue};

use super::ConfigError;
use super::json::{self, NotJson};
use super::suggest::{is_near, remedy};
use crate::reference::{Key, Shape, Table};

/// A file and its text.
#[derive(Debug)]
pub(crate) struct Source {
    pub(crate) path: PathBuf,
    pub(crate) text: String,
}

impl Source {
    /// Creates an error at a position in the text.
    pub(crate) fn error(&self, at: &Range<usize>, message: impl Into<String>) -> ConfigError {
        ConfigError {
            file: self.path.clone(),
            line: Some(self.line(at)),
            message: message.into(),
        }
    }

    /// Returns the line of a position, counted from 1.
    fn line(&self, at: &Range<usize>) -> usize {
        let before = self.text.get(..at.start).unwrap_or(&self.text);
        before.matches('\n').count() + 1
    }
}

/// A value and its position.
#[derive(Debug, Clone)]
pub(crate) struct At<T> {
    pub(crate) value: T,
    pub(crate) at: Range<usize>,
}

/// An entry of a table with arbitrary names, like the headers of a tool: a text or a table.
#[derive(Debug)]
pub(crate) enum Entry<'a> {
    Text(At<String>),
    Table(Section<'a>),
}

impl<T> At<T> {
    fn new(value: T, at: Range<usize>) -> Self {
        Self { value, at }
    }
}

/// A table. A key that was not read before [`Section::finish`] is an unknown key.
#[derive(Debug)]
pub(crate) struct Section<'a> {
    source: &'a Source,
    /// The name in the file, like `agents.support`.
    pub(crate) name: String,
    /// The position of the name.
    pub(crate) at: Range<usize>,
    table: &'a DeTable<'a>,
    /// The keys that the table may have.
    keys: &'static Table,
    asked: RefCell<Vec<&'static str>>,
}

impl<'a> Section<'a> {
    pub(crate) fn new(
        source: &'a Source,
        name: impl Into<String>,
        at: Range<usize>,
        table: &'a DeTable<'a>,
        keys: &'static Table,
    ) -> Self {
        Self {
            source,
            name: name.into(),
            at,
            table,
            keys,
            asked: RefCell::default(),
        }
    }

    /// Creates an error at a position in this table.
    pub(crate) fn error(&self, at: &Range<usize>, message: impl Into<String>) -> ConfigError {
        self.source.error(at, message)
    }

    /// Creates an error about the table as a whole.
    pub(crate) fn wrong(&self, message: impl std::fmt::Display) -> ConfigError {
        self.error(&self.at, format!("[{}] {message}", self.name))
    }

    /// Returns the line of the table's name.
    pub(crate) fn line(&self) -> usize {
        self.source.line(&self.at)
    }

    /// Returns the position of a key, if it is present.
    pub(crate) fn place(&self, key: &str) -> Option<Range<usize>> {
        let mut keys = self.table.keys();
        let found = keys.find(|have| have.get_ref() == key)?;
        Some(found.span())
    }

    /// Returns a key's position and value; `None` if the file does not have it. In debug builds it
    /// panics if the table in `reference` lacks the key or gives it another shape.
    fn get(
        &self,
        key: &'static str,
        is_shape: impl Fn(&Shape) -> bool,
    ) -> Option<(Range<usize>, &'a DeValue<'a>)> {
        debug_assert!(
            self.keys.key(key).is_some_and(|key| is_shape(&key.shape)),
            "the table of {} in `reference` lacks {key}, or has another type for it",
            self.keys.title
        );
        self.asked.borrow_mut().push(key);
        let mut entries = self.table.iter();
        let (name, value) = entries.find(|(have, _)| have.get_ref() == key)?;
        Some((name.span(), value.get_ref()))
    }

    fn unfit(
        &self,
        key: &str,
        at: &Range<usize>,
        wanted: &str,
        found: &DeValue<'_>,
    ) -> ConfigError {
        let found = match found {
            DeValue::String(_) => "a text",
            DeValue::Integer(_) => "a whole number",
            DeValue::Float(_) => "a number",
            DeValue::Boolean(_) => "true or false",
            DeValue::Datetime(_) => "a date",
            DeValue::Array(_) => "a list",
            DeValue::Table(_) => "a table",
        };
        let place = self.location();
        self.error(at, format!("`{key}` {place} is {found}; write {wanted}"))
    }

    /// Reads an optional text.
    pub(crate) fn text(&self, key: &'static str) -> Result<Option<At<String>>, ConfigError> {
        let Some((at, value)) = self.get(key, |shape| {
            matches!(shape, Shape::Text | Shape::Matching(_) | Shape::Choice(_))
        }) else {
            return Ok(None);
        };
        match value.as_str() {
            Some(text) => Ok(Some(At::new(text.to_owned(), at))),
            None => Err(self.unfit(key, &at, &format!("a text: `{key} = \"...\"`"), value)),
        }
    }

    /// Reads a required text.
    pub(crate) fn required(
        &self,
        key: &'static str,
        example: &str,
    ) -> Result<At<String>, ConfigError> {
        debug_assert!(
            self.keys.key(key).is_some_and(Key::is_required),
            "the table of {} in `reference` does not mark {key} as required",
            self.keys.title
        );
        if let Some(text) = self.text(key)? {
            return Ok(text);
        }
        let asked = self.asked.borrow();
        let mut others = self.table.keys();
        let meant = others.find(|other| {
            let other = other.get_ref().as_ref();
            !asked.contains(&other) && is_near(other, key)
        });
        Err(match meant {
            Some(meant) => self.unknown(meant, [key]),
            None => self.wrong(format!("has no `{key}`; write `{key} = {example}`")),
        })
    }

    /// Reads an optional boolean.
    pub(crate) fn flag(&self, key: &'static str) -> Result<Option<At<bool>>, ConfigError> {
        let Some((at, value)) = self.get(key, |shape| matches!(shape, Shape::Flag)) else {
            return Ok(None);
        };
        match value.as_bool() {
            Some(flag) => Ok(Some(At::new(flag, at))),
            None => Err(self.unfit(key, &at, "true or false", value)),
        }
    }

    /// Reads a whole number that is at least `least`.
    pub(crate) fn count(
        &self,
        key: &'static str,
        least: u64,
    ) -> Result<Option<At<u64>>, ConfigError> {
        let Some((at, value)) = self.get(
            key,
            |shape| matches!(shape, Shape::Count(from) if *from == least),
        ) else {
            return Ok(None);
        };
        let wanted = format!("a whole number, {least} or more");
        let number = match value {
            DeValue::Integer(number) => u64::from_str_radix(number.as_str(), number.radix()).ok(),
            _ => return Err(self.unfit(key, &at, &wanted, value)),
        };
        match number.filter(|number| *number >= least) {
            Some(number) => Ok(Some(At::new(number, at))),
            None => Err(self.error(
                &at,
                format!("`{key}` in [{}] is out of range; write {wanted}", self.name),
            )),
        }
    }

    /// Reads an optional number.
    pub(crate) fn number(&self, key: &'static str) -> Result<Option<At<f64>>, ConfigError> {
        let Some((at, value)) = self.get(key, |shape| matches!(shape, Shape::Number)) else {
            return Ok(None);
        };
        match json::of(value, &at).ok().and_then(|number| number.as_f64()) {
            Some(number) => Ok(Some(At::new(number, at))),
            None => Err(self.unfit(key, &at, "a number", value)),
        }
    }

    /// Reads a list of texts.
    pub(crate) fn texts(&self, key: &'static str) -> Result<Vec<At<String>>, ConfigError> {
        let Some((at, value)) =
            self.get(key, |shape| matches!(shape, Shape::Texts(_) | Shape::Names))
        else {
            return Ok(Vec::new());
        };
        let wanted = format!("a list of texts: `{key} = [\"...\"]`");
        let Some(items) = value.as_array() else {
            return Err(self.unfit(key, &at, &wanted, value));
        };
        let texts = items.iter().map(|item| {
            let text = item.get_ref().as_str();
            text.map(|text| At::new(text.to_owned(), item.span()))
                .ok_or_else(|| self.unfit(key, &item.span(), &wanted, item.get_ref()))
        });
        texts.collect()
    }

    /// Reads a table as JSON.
    pub(crate) fn object(&self, key: &'static str) -> Result<Option<At<Value>>, ConfigError> {
        let Some((at, value)) = self.get(key, |shape| matches!(shape, Shape::Object)) else {
            return Ok(None);
        };
        if !value.is_table() {
            return Err(self.unfit(key, &at, &format!("a table: `{key} = {{ ... }}`"), value));
        }
        let value = json::of(value, &at).map_err(|NotJson { wrote, at }| {
            let place = self.location();
            let message =
                format!("`{wrote}` of `{key}` {place} is not a JSON number; write another one");
            self.error(&at, message)
        })?;
        Ok(Some(At::new(value, at)))
    }

    /// Reads a table inside this one.
    pub(crate) fn section(&self, key: &'static str) -> Result<Option<Section<'a>>, ConfigError> {
        let Some((at, value)) = self.get(key, |shape| matches!(shape, Shape::Table(_))) else {
            return Ok(None);
        };
        let (name, inner) = (self.inner(key), self.keys.inner(key));
        match value.as_table() {
            Some(table) => Ok(Some(Section::new(self.source, name, at, table, inner))),
            None => Err(self.unfit(key, &at, &format!("a table: `[{name}]`"), value)),
        }
    }

    /// Reads a list of tables inside this one.
    pub(crate) fn list(&self, key: &'static str) -> Result<Vec<Section<'a>>, ConfigError> {
        let Some((at, value)) = self.get(key, |shape| matches!(shape, Shape::Tables(_))) else {
            return Ok(Vec::new());
        };
        let name = self.inner(key);
        let wanted = format!("a list of tables: `[[{name}]]`");
        let Some(items) = value.as_array() else {
            return Err(self.unfit(key, &at, &wanted, value));
        };
        let tables = items.iter().map(|item| match item.get_ref().as_table() {
            Some(table) => Ok(Section::new(
                self.source,
                &name,
                item.span(),
                table,
                self.keys.inner(key),
            )),
            None => Err(self.unfit(key, &item.span(), &wanted, item.get_ref())),
        });
        tables.collect()
    }

    /// Reads the named tables inside a table, in the order of the file.
    pub(crate) fn named(
        &self,
        key: &'static str,
    ) -> Result<Vec<(String, Section<'a>)>, ConfigError> {
        let Some((at, value)) = self.get(key, |shape| matches!(shape, Shape::Named(_))) else {
            return Ok(Vec::new());
        };
        let Some(table) = value.as_table() else {
            let wanted = format!("a table for each: `[{}.NAME]`", self.inner(key));
            return Err(self.unfit(key, &at, &wanted, value));
        };
        let outer = Section::new(
            self.source,
            self.inner(key),
            at,
            table,
            self.keys.inner(key),
        );
        let mut found = Vec::new();
        for (name, value) in outer.table {
            let (at, value) = (name.span(), value.get_ref());
            let full = outer.inner(name.get_ref());
            let Some(table) = value.as_table() else {
                return Err(outer.unfit(
                    name.get_ref(),
                    &at,
                    &format!("a table: `[{full}]`"),
                    value,
                ));
            };
            let section = Section::new(self.source, full, at, table, outer.keys);
            found.push((name.get_ref().clone().into_owned(), section));
        }
        found.sort_by_key(|(_, section)| section.at.start);
        Ok(found)
    }

    /// Reads a table with arbitrary names: each entry is a text or a table.
    pub(crate) fn entries(
        &self,
        key: &'static str,
        wanted: &str,
    ) -> Result<Vec<(At<String>, Entry<'a>)>, ConfigError> {
        let Some((at, value)) = self.get(key, |shape| matches!(shape, Shape::Entries(_))) else {
            return Ok(Vec::new());
        };
        let wanted = format!("a table: `{key} = {{ {wanted} }}`");
        let Some(table) = value.as_table() else {
            return Err(self.unfit(key, &at, &wanted, value));
        };
        let inner = self.inner(key);
        let mut found = Vec::new();
        for (name, value) in table {
            let (at, value) = (name.span(), value.get_ref());
            let entry = match (value.as_str(), value.as_table()) {
                (Some(text), _) => Entry::Text(At::new(text.to_owned(), at.clone())),
                (_, Some(table)) => {
                    let name = format!("{inner}.{}", name.get_ref());
                    Entry::Table(Section::new(
                        self.source,
                        name,
                        at.clone(),
                        table,
                        self.keys.inner(key),
                    ))
                }
                _ => {
                    let name = format!("{key}.{}", name.get_ref());
                    return Err(self.unfit(&name, &at, "a text, or `{ env = \"NAME\" }`", value));
                }
            };
            found.push((At::new(name.get_ref().clone().into_owned(), at), entry));
        }
        found.sort_by_key(|(name, _)| name.at.start);
        Ok(found)
    }

    /// Returns how a message refers to this table.
    fn location(&self) -> String {
        match self.name.as_str() {
            "" => "at the top level".to_owned(),
            name => format!("in [{name}]"),
        }
    }

    fn inner(&self, key: &str) -> String {
        if self.name.is_empty() {
            return key.to_owned();
        }
        format!("{}.{key}", self.name)
    }

    /// Refuses keys that do not go with the rest of the table.
    pub(crate) fn refuse(&self, keys: &[&'static str], whose: &str) -> Result<(), ConfigError> {
        self.asked.borrow_mut().extend(keys);
        let found = keys.iter().find_map(|key| Some((key, self.place(key)?)));
        match found {
            Some((key, at)) => Err(self.error(&at, format!("{whose} has no `{key}`; remove it"))),
            None => Ok(()),
        }
    }

    /// Returns an error for keys that were not read.
    pub(crate) fn finish(&self) -> Result<(), ConfigError> {
        let asked = self.asked.borrow();
        debug_assert!(
            self.keys.keys.iter().all(|key| asked.contains(&key.name)),
            "some key in the table of {} in `reference` was never read: {asked:?}",
            self.keys.title
        );
        let mut keys: Vec<_> = self.table.keys().collect();
        keys.sort_by_key(|key| key.span().start);
        let unknown = keys
            .into_iter()
            .find(|key| !asked.contains(&key.get_ref().as_ref()));
        let Some(key) = unknown else {
            return Ok(());
        };
        Err(self.unknown(key, asked.iter().copied()))
    }

    fn unknown<'k>(
        &self,
        key: &Spanned<DeString<'_>>,
        known: impl IntoIterator<Item = &'k str>,
    ) -> ConfigError {
        let remedy = remedy(key.get_ref(), known);
        let place = self.location();
        let message = format!("unknown key `{}` {place}; {remedy}", key.get_ref());
        self.error(&key.span(), message)
    }
}
