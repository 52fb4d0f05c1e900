//! A TOML value as JSON.

use serde_json::{Map, Number, Value};
use toml::de::DeValue;

/// A TOML value as JSON. Dates become texts; numbers that JSON does not have become null.
pub(crate) fn of(value: &DeValue<'_>) -> Value {
    match value {
        DeValue::String(text) => Value::from(text.as_ref()),
        DeValue::Integer(number) => {
            i64::from_str_radix(number.as_str(), number.radix()).map_or(Value::Null, Value::from)
        }
        DeValue::Float(number) => {
            let float = number.as_str().parse().ok().and_then(Number::from_f64);
            float.map_or(Value::Null, Value::Number)
        }
        DeValue::Boolean(flag) => Value::from(*flag),
        DeValue::Datetime(date) => Value::from(date.to_string()),
        DeValue::Array(items) => items.iter().map(|item| of(item.get_ref())).collect(),
        DeValue::Table(table) => {
            let entries = table
                .iter()
                .map(|(key, value)| (key.get_ref().clone().into_owned(), of(value.get_ref())));
            Value::Object(entries.collect::<Map<_, _>>())
        }
    }
}
