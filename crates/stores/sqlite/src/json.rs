//! JSON text as it is stored.

use serde::Serialize;

use crate::error::Fail;

/// The deepest nesting that is written, as everywhere in what is stored. What reads JSON stops at
/// 128 levels.
const MAX_NESTING: usize = 120;

/// The JSON text of a value that can be read again.
pub(crate) fn text<T: Serialize + ?Sized>(kind: &'static str, value: &T) -> Result<String, Fail> {
    let text = serde_json::to_string(value)
        .map_err(|error| Fail::not_storable(kind, error.to_string()))?;
    if nesting(&text) > MAX_NESTING {
        let reason = format!("it is nested deeper than {MAX_NESTING} levels");
        return Err(Fail::not_storable(kind, reason));
    }
    Ok(text)
}

/// How deep arrays and objects are nested.
fn nesting(json: &str) -> usize {
    let (mut depth, mut deepest) = (0_usize, 0);
    let (mut in_string, mut is_escaped) = (false, false);
    for byte in json.bytes() {
        if in_string {
            in_string = is_escaped || byte != b'"';
            is_escaped = !is_escaped && byte == b'\\';
            continue;
        }
        match byte {
            b'"' => in_string = true,
            b'[' | b'{' => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn nested(levels: usize) -> Value {
        (0..levels).fold(json!("[[{"), |inner, _| json!([inner]))
    }

    #[test]
    fn what_could_not_be_read_again_is_not_written() {
        let text = text("value", &nested(MAX_NESTING)).unwrap();
        assert_eq!(
            serde_json::from_str::<Value>(&text).unwrap(),
            nested(MAX_NESTING)
        );
        assert!(super::text("value", &nested(MAX_NESTING + 1)).is_err());
        assert_eq!(nesting(r#"{"a\\\"[": [1, {"b": "]]\\"}], "c": [[]]}"#), 3);
    }
}
