//! A TOML value as JSON.

use std::ops::Range;

use serde_json::{Map, Number, Value};
use toml::de::DeValue;

/// A number that JSON does not have: not finite, or too large.
#[derive(Debug)]
pub(crate) struct NoJson {
    pub(crate) wrote: String,
    pub(crate) at: Range<usize>,
}

/// A TOML value, which stands there, as JSON. Dates become texts.
pub(crate) fn of(value: &DeValue<'_>, at: &Range<usize>) -> Result<Value, NoJson> {
    let no_json = |wrote: &str| NoJson {
        wrote: wrote.to_owned(),
        at: at.clone(),
    };
    Ok(match value {
        DeValue::String(text) => Value::from(text.as_ref()),
        DeValue::Integer(number) => {
            let whole = i64::from_str_radix(number.as_str(), number.radix());
            Value::from(whole.map_err(|_| no_json(number.as_str()))?)
        }
        DeValue::Float(number) => {
            let float = number.as_str().parse().ok().and_then(Number::from_f64);
            Value::Number(float.ok_or_else(|| no_json(number.as_str()))?)
        }
        DeValue::Boolean(flag) => Value::from(*flag),
        DeValue::Datetime(date) => Value::from(date.to_string()),
        DeValue::Array(items) => {
            let items = items.iter().map(|item| of(item.get_ref(), &item.span()));
            Value::Array(items.collect::<Result<_, _>>()?)
        }
        DeValue::Table(table) => {
            let entries = table.iter().map(|(key, value)| {
                let inner = of(value.get_ref(), &value.span())?;
                Ok((key.get_ref().clone().into_owned(), inner))
            });
            Value::Object(entries.collect::<Result<Map<_, _>, _>>()?)
        }
    })
}
