//! Reasoning in the form of OpenRouter, `reasoning_details`.

use serde_json::Value;

/// The field of a detail that grows, by the type of the detail. Encrypted details come whole.
fn growing(detail: &Value) -> Option<&'static str> {
    match detail.get("type")?.as_str()? {
        "reasoning.text" => Some("text"),
        "reasoning.summary" => Some("summary"),
        _ => None,
    }
}

/// Adds a piece to the details: a piece of the last one continues it, so that a later request gives back whole
/// details and not hundreds of pieces.
pub(super) fn add(details: &mut Vec<Value>, piece: Value) {
    let field = growing(&piece);
    let is_same = |last: &&mut Value| {
        let same = |name: &str| last.get(name) == piece.get(name);
        same("type") && same("index")
    };
    let last = details.last_mut().filter(is_same);
    let (Some(Value::Object(last)), Some(field)) = (last, field) else {
        details.push(piece);
        return;
    };
    let Value::Object(piece) = piece else { return };
    for (name, value) in piece {
        match (last.get_mut(&name), value) {
            (Some(Value::String(so_far)), Value::String(more)) if name == field => {
                so_far.push_str(&more);
            }
            (Some(_), Value::Null) => {}
            (_, value) => {
                last.insert(name, value);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn pieces_become_whole_details() {
        let text = |text: &str, index: u32| json!({ "type": "reasoning.text", "text": text, "index": index });
        let signed = json!({ "type": "reasoning.text", "signature": "s", "index": 0 });
        let secret =
            |data: &str| json!({ "type": "reasoning.encrypted", "data": data, "index": 2 });
        let mut details = Vec::new();
        for piece in [
            text("a", 0),
            text("b", 0),
            signed,
            text("c", 1),
            secret("x"),
            secret("y"),
        ] {
            add(&mut details, piece);
        }
        assert_eq!(
            details,
            [
                json!({ "type": "reasoning.text", "text": "ab", "signature": "s", "index": 0 }),
                text("c", 1),
                secret("x"),
                secret("y"),
            ]
        );
    }
}
