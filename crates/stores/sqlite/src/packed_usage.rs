//! The packed form of usage entries.
//!
//! A row is `[2, run, step, time, item, ...]`: the format's version, and the run, step and time of the
//! first entry. A run is named by its number in the session, or by its id when there is no such run. An
//! item is
//!
//! - `[0, id, model, input, output, cached, reasoning, cache write, micro-dollars]`: a model call; what is
//!   missing at the end is not known.
//! - `[1, id, name, duration]`: a tool call that succeeded; a `0` behind it, one that did not.
//! - an object: an entry in its stored form, of another kind, or of another run, step or time.
//! - a number: the entries after it are of the next step, so many milliseconds later; a negative one, of
//!   the same step, so many milliseconds later.
//!
//! The name of a model or a tool is a text where it occurs first, and then its number, from 0, among those
//! of the row. Ids are as in `short_id.rs`.
//!
//! Rows of the first version are arrays of entries, `[id, run, step, time, 0, model, input, output,
//! cached, reasoning]`, `[id, run, step, time, 1, name, success, duration]`, or objects.

use std::fmt::Display;

use helix_agents_core::model::TokenUsage;
use helix_agents_core::shared_str::SharedStr;
use helix_agents_core::time::Timestamp;
use helix_agents_core::usage::{UsageEntry, UsageKind};
use helix_agents_core::{RunId, UsageId};
use serde::ser::{SerializeSeq, Serializer};
use serde::{Deserialize, Serialize};
use serde_json::{Number, Value};

use crate::operation_error::OperationError;
use crate::runs::RunNumber;
use crate::{json, short_id};

const VERSION: u32 = 2;
/// The prefix of generated ids.
const PREFIX: &str = "usage";
const TOKENS: u8 = 0;
const TOOL: u8 = 1;
/// The size in bytes from which on a row takes no more entries: four such rows fill a page.
const FULL: usize = 940;

/// A row to which entries can be added.
#[derive(Debug)]
pub(crate) struct PackedUsage {
    /// The text without its end.
    text: String,
    run: RunId,
    step: u32,
    time: Timestamp,
    names: Vec<SharedStr>,
    count: usize,
}

impl PackedUsage {
    /// Packs the entries of a commit; `first` is one of them, and `run` its run.
    pub(crate) fn new(
        run: &RunNumber,
        first: &UsageEntry,
        entries: &[UsageEntry],
    ) -> Result<Self, OperationError> {
        let (step, time) = (first.step, first.timestamp);
        let mut row = Self {
            text: json::text("usage", &(VERSION, run, step, time))?,
            run: first.run_id.clone(),
            step,
            time,
            names: Vec::new(),
            count: 0,
        };
        row.text.pop();
        row.add(entries)?;
        Ok(row)
    }

    /// Adds the entries of a later commit. Returns whether the row takes them.
    pub(crate) fn extend(&mut self, entries: &[UsageEntry]) -> Result<bool, OperationError> {
        let Some(first) = entries.first() else {
            return Ok(true);
        };
        let later = first
            .timestamp
            .as_millis()
            .checked_sub(self.time.as_millis());
        let later = later.filter(|later| i64::try_from(*later).is_ok());
        let (Some(later), true) = (later, first.run_id == self.run && !self.is_full()) else {
            return Ok(false);
        };
        if self.step.checked_add(1) == Some(first.step) {
            self.text.push(',');
        } else if self.step != first.step {
            return Ok(false);
        } else if later > 0 {
            self.text.push_str(",-");
        }
        if later > 0 || self.step != first.step {
            self.text.push_str(&later.to_string());
        }
        (self.step, self.time) = (first.step, first.timestamp);
        self.add(entries)?;
        Ok(true)
    }

    fn add(&mut self, entries: &[UsageEntry]) -> Result<(), OperationError> {
        for entry in entries {
            let packed = Packed {
                entry,
                is_here: entry.run_id == self.run
                    && (entry.step, entry.timestamp) == (self.step, self.time),
                name: self.name(entry),
            };
            self.text.push(',');
            self.text.push_str(&json::text("usage", &packed)?);
            if let (true, Some(Name::New(name))) = (packed.is_here, packed.name) {
                self.names.push(name.clone());
            }
        }
        self.count += entries.len();
        Ok(())
    }

    fn name<'a>(&self, entry: &'a UsageEntry) -> Option<Name<'a>> {
        let (UsageKind::Tokens { model: name, .. } | UsageKind::Tool { name, .. }) = &entry.kind
        else {
            return None;
        };
        let known = self.names.iter().position(|known| known == name.as_str());
        Some(known.map_or(Name::New(name), Name::Number))
    }

    /// Whether it takes no more entries.
    pub(crate) fn is_full(&self) -> bool {
        self.text.len() >= FULL
    }

    /// The number of entries.
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// The whole text.
    pub(crate) fn text(&self) -> String {
        let mut text = String::with_capacity(self.text.len() + 1);
        text.push_str(&self.text);
        text.push(']');
        text
    }
}

#[derive(Clone, Copy, Serialize)]
#[serde(untagged)]
enum Name<'a> {
    New(&'a SharedStr),
    Number(usize),
}

struct Packed<'a> {
    entry: &'a UsageEntry,
    /// Whether it is of the row's run, step and time.
    is_here: bool,
    name: Option<Name<'a>>,
}

impl Serialize for Packed<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let entry = self.entry;
        let (true, Some(name)) = (self.is_here, self.name) else {
            return entry.serialize(serializer);
        };
        let id = short_id::pack(entry.id.as_str(), PREFIX, entry.timestamp.as_millis());
        let mut all = serializer.serialize_seq(None)?;
        match &entry.kind {
            UsageKind::Tokens {
                tokens,
                micro_dollars,
                ..
            } => {
                all.serialize_element(&TOKENS)?;
                all.serialize_element(&id)?;
                all.serialize_element(&name)?;
                all.serialize_element(&tokens.input)?;
                all.serialize_element(&tokens.output)?;
                let more = [
                    tokens.cached,
                    tokens.reasoning,
                    tokens.cache_write,
                    *micro_dollars,
                ];
                let last = more.iter().rposition(Option::is_some);
                let known = last.map_or(0, |last| last + 1);
                for tokens in more.iter().take(known) {
                    all.serialize_element(tokens)?;
                }
            }
            UsageKind::Tool {
                success,
                duration_ms,
                ..
            } => {
                all.serialize_element(&TOOL)?;
                all.serialize_element(&id)?;
                all.serialize_element(&name)?;
                all.serialize_element(duration_ms)?;
                if !success {
                    all.serialize_element(&0)?;
                }
            }
            // Only these two have a name.
            _ => {}
        }
        all.end()
    }
}

fn corrupt(reason: impl Display) -> OperationError {
    OperationError::corrupt("usage entry", reason.to_string())
}

fn parse<T: for<'de> Deserialize<'de>>(value: Option<Value>) -> Result<T, OperationError> {
    T::deserialize(value.unwrap_or_default()).map_err(corrupt)
}

/// Unpacks the entries of a row of any version. `run` gives the id of a run.
pub(crate) fn unpack(
    text: &str,
    mut run: impl FnMut(RunNumber) -> Result<RunId, OperationError>,
) -> Result<Vec<UsageEntry>, OperationError> {
    let items: Vec<Value> = serde_json::from_str(text).map_err(corrupt)?;
    let is_first_version = !items.first().is_some_and(Value::is_number);
    let mut items = items.into_iter();
    if is_first_version {
        return items.map(|item| first_version(item, &mut run)).collect();
    }
    let version: u32 = parse(items.next())?;
    if version != VERSION {
        let reason = format!("its format is {version}, this program reads up to {VERSION}");
        return Err(corrupt(reason));
    }
    let run = run(parse(items.next())?)?;
    let mut step: u32 = parse(items.next())?;
    let mut millis: u64 = parse(items.next())?;
    let mut names = Vec::new();
    let mut entries = Vec::new();
    for item in items {
        let parts = match item {
            Value::Array(parts) => parts,
            Value::Number(number) => {
                let next = later(&number, step, millis);
                (step, millis) = next.ok_or_else(|| corrupt("a step is broken"))?;
                continue;
            }
            object => {
                entries.push(parse(Some(object))?);
                continue;
            }
        };
        let mut parts = parts.into_iter();
        let kind: u8 = parse(parts.next())?;
        let stored: String = parse(parts.next())?;
        let id = short_id::unpack(&stored, PREFIX, millis);
        let id = id.ok_or_else(|| corrupt("its id is broken"))?;
        let name = name(parts.next(), &mut names)?;
        let kind = match kind {
            TOKENS => tokens(name, parts)?,
            TOOL => UsageKind::Tool {
                name,
                duration_ms: parse(parts.next())?,
                success: parts.next().is_none(),
            },
            other => return Err(corrupt(format!("there is no usage kind {other}"))),
        };
        entries.push(UsageEntry {
            id: UsageId::new(id).map_err(corrupt)?,
            run_id: run.clone(),
            step,
            timestamp: Timestamp::from_millis(millis),
            kind,
        });
    }
    Ok(entries)
}

/// The step and the time that a number leads to.
fn later(number: &Number, step: u32, millis: u64) -> Option<(u32, u64)> {
    if let Some(later) = number.as_u64() {
        return Some((step.checked_add(1)?, millis.checked_add(later)?));
    }
    let later = number.as_i64()?.unsigned_abs();
    Some((step, millis.checked_add(later)?))
}

/// A name where it occurs first, or by its number.
fn name(part: Option<Value>, names: &mut Vec<SharedStr>) -> Result<SharedStr, OperationError> {
    if let Some(Value::Number(number)) = &part {
        let at = number.as_u64().and_then(|at| usize::try_from(at).ok());
        let known = at.and_then(|at| names.get(at));
        return known.cloned().ok_or_else(|| corrupt("it has no name"));
    }
    let name: SharedStr = parse(part)?;
    names.push(name.clone());
    Ok(name)
}

fn tokens(
    model: SharedStr,
    mut parts: impl Iterator<Item = Value>,
) -> Result<UsageKind, OperationError> {
    let mut tokens = TokenUsage::default();
    tokens.input = parse(parts.next())?;
    tokens.output = parse(parts.next())?;
    tokens.cached = parse(parts.next())?;
    tokens.reasoning = parse(parts.next())?;
    tokens.cache_write = parse(parts.next())?;
    Ok(UsageKind::Tokens {
        model,
        tokens,
        micro_dollars: parse(parts.next())?,
    })
}

fn first_version(
    item: Value,
    run: &mut impl FnMut(RunNumber) -> Result<RunId, OperationError>,
) -> Result<UsageEntry, OperationError> {
    let Value::Array(parts) = item else {
        return parse(Some(item));
    };
    let mut parts = parts.into_iter();
    let (id, number) = (parse(parts.next())?, parse(parts.next())?);
    let (step, timestamp) = (parse(parts.next())?, parse(parts.next())?);
    let kind: u8 = parse(parts.next())?;
    let name = parse(parts.next())?;
    let kind = match kind {
        TOKENS => tokens(name, parts)?,
        TOOL => UsageKind::Tool {
            name,
            success: parse(parts.next())?,
            duration_ms: parse(parts.next())?,
        },
        other => return Err(corrupt(format!("there is no usage kind {other}"))),
    };
    Ok(UsageEntry {
        id,
        run_id: run(number)?,
        step,
        timestamp,
        kind,
    })
}

#[cfg(test)]
mod tests;
