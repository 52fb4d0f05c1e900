//! Conversion of TOML values to JSON.

use std::ops::Range;

use serde_json::{Map, Number, Value};
use toml::de::DeValue;

/// A number that JSON cannot represent: not finite, or too large.
#[derive(Debug)]
pub(crate) struct NotJson {
    pub(crate) wrote: String,
    pub(crate) at: Range<usize>,
}

/// Converts the TOML value at this position to JSON. Dates become texts.
pub(crate) fn of(value: &DeValue<'_>, at: &Range<usize>) -> Result<Value, NotJson> {
    let not_json = |wrote: &str| NotJson {
        wrote: wrote.to_owned(),
        at: at.clone(),
    };
    Ok(match value {
        DeValue::String(text) => Value::from(text.as_ref()),
        DeValue::Integer(number) => {
            let whole = i64::from_str_radix(number.as_str(), number.radix());
            Value::from(whole.map_err(|_| not_json(number.as_str()))?)
        }
        DeValue::Float(number) => {
            let float = number.as_str().parse().ok().and_then(Number::from_f64);
            Value::Number(float.ok_or_else(|| not_json(number.as_str()))?)
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
