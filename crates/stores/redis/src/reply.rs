//! Takes the replies of the server apart.

use redis::Value;

use crate::failure::{Failure, Result};

/// What a reply lacks: it has not the form that the command always has.
fn unexpected(wanted: &str, found: &Value) -> Failure {
    Failure::internal(format!("the server answered {found:?} instead of {wanted}"))
}

/// A text, or nothing.
pub(crate) fn text(value: Value) -> Result<Option<String>> {
    match value {
        Value::Nil => Ok(None),
        Value::BulkString(bytes) => match String::from_utf8(bytes) {
            Ok(text) => Ok(Some(text)),
            Err(error) => Err(Failure::internal(format!(
                "a stored text is no UTF-8: {error}"
            ))),
        },
        // The second is of the newer protocol.
        Value::SimpleString(text) | Value::VerbatimString { text, .. } => Ok(Some(text)),
        Value::Okay => Ok(Some("OK".to_owned())),
        Value::Int(number) => Ok(Some(number.to_string())),
        other => Err(unexpected("a text", &other)),
    }
}

/// A list.
pub(crate) fn list(value: Value) -> Result<Vec<Value>> {
    match value {
        Value::Array(items) | Value::Set(items) => Ok(items),
        Value::Nil => Ok(Vec::new()),
        other => Err(unexpected("a list", &other)),
    }
}

/// A list of texts, some of which may be missing.
pub(crate) fn texts(value: Value) -> Result<Vec<Option<String>>> {
    list(value)?.into_iter().map(text).collect()
}

/// A list of texts.
pub(crate) fn present(value: Value) -> Result<Vec<String>> {
    Ok(texts(value)?.into_iter().flatten().collect())
}

/// The names and values of a hash.
pub(crate) fn pairs(value: Value) -> Result<Vec<(String, String)>> {
    // In the newer protocol.
    if let Value::Map(pairs) = value {
        let pairs = pairs.into_iter().map(|(name, value)| {
            Ok((
                text(name)?.unwrap_or_default(),
                text(value)?.unwrap_or_default(),
            ))
        });
        return pairs.collect();
    }
    let mut all = present(value)?.into_iter();
    let mut pairs = Vec::new();
    while let (Some(name), Some(value)) = (all.next(), all.next()) {
        pairs.push((name, value));
    }
    Ok(pairs)
}

/// A number.
pub(crate) fn number(value: Value) -> Result<u64> {
    let other = match value {
        Value::Nil => return Ok(0),
        Value::Int(number) => match u64::try_from(number) {
            Ok(number) => return Ok(number),
            Err(_) => Value::Int(number),
        },
        Value::BulkString(bytes) => match parse(&bytes) {
            Some(number) => return Ok(number),
            None => Value::BulkString(bytes),
        },
        other => other,
    };
    Err(unexpected("a number", &other))
}

fn parse(bytes: &[u8]) -> Option<u64> {
    std::str::from_utf8(bytes).ok()?.parse().ok()
}

/// The answers of a list, one after another.
#[derive(Debug)]
pub(crate) struct Answers(std::vec::IntoIter<Value>);

impl Answers {
    pub(crate) fn of(value: Value) -> Result<Self> {
        Ok(Self(list(value)?.into_iter()))
    }

    pub(crate) fn next(&mut self) -> Result<Value> {
        let missing =
            || Failure::internal("the server gave fewer answers than there were questions");
        self.0.next().ok_or_else(missing)
    }
}
