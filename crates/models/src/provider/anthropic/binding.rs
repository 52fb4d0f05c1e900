//! Models that bind their thinking to the conversation.
//!
//! From Claude 5.1 on, a block of thinking may be given back only if everything before it is as it was: the
//! system prompt, the tools and the messages. An agent may change each of them between two steps (a system
//! prompt made from the state, a conversation that is condensed near its limit), so requests ask the provider
//! to leave out the blocks that no longer fit, instead of refusing the request.
//!
//! The same models always think, and refuse a request that forces a tool.

use serde_json::{Value, json};

use crate::provider::body::Options;

/// The value of the header `anthropic-beta` that allows the setting.
pub(super) const BETA: &str = "thinking-binding-controls-2026-08-01";

const BINDING: &str = "block_binding";

/// Whether a model binds its thinking, by the version in its name: `claude-opus-5-5`, and likewise with a
/// gateway's prefix, a date or a suffix.
pub(super) fn binds_thinking(model: &str) -> bool {
    let Some((_, name)) = model.rsplit_once("claude-") else {
        return false;
    };
    let words = name.split(['-', '.', '@', ':']);
    let mut words = words.skip_while(|word| word.parse::<u8>().is_err());
    // A date has more digits than a version.
    let mut number = || words.next().and_then(|word| word.parse::<u8>().ok());
    (number().unwrap_or(0), number().unwrap_or(0)) >= (5, 1)
}

/// Asks for blocks that no longer fit to be left out, unless the options say what shall happen to them.
/// Returns whether the request has the setting.
pub(super) fn drop_unfit_blocks(options: &mut Options) -> bool {
    let thinking = options
        .entry("thinking")
        // The models think so by themselves.
        .or_insert_with(|| json!({ "type": "adaptive" }));
    let Value::Object(thinking) = thinking else {
        return false;
    };
    match thinking.get(BINDING) {
        Some(Value::Null) => {
            thinking.remove(BINDING);
            false
        }
        Some(_) => true,
        None => {
            let kind = thinking.get("type").and_then(Value::as_str);
            // The other kinds do not have the setting.
            let has_setting = matches!(kind, Some("adaptive" | "enabled"));
            if has_setting {
                let drop = json!({ "prefix_mismatch_behavior": "drop_block" });
                thinking.insert(BINDING.to_owned(), drop);
            }
            has_setting
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_in_a_name_decides() {
        for model in [
            "claude-fable-5-1",
            "claude-mythos-5-2",
            "claude-opus-5-5",
            "anthropic/claude-sonnet-5.5",
            "us.anthropic.claude-fable-5-1-v1:0",
            "claude-opus-5-5@20260922",
            "claude-opus-6",
        ] {
            assert!(binds_thinking(model), "{model}");
        }
        for model in [
            "claude-opus-5",
            "claude-opus-5-20260601",
            "claude-sonnet-4-5-20250929",
            "claude-3-5-sonnet-20241022",
            "claude-test",
            "gpt-5.5",
        ] {
            assert!(!binds_thinking(model), "{model}");
        }
    }

    #[test]
    fn options_say_what_shall_happen_or_blocks_are_left_out() {
        let drop = json!({ "prefix_mismatch_behavior": "drop_block" });
        let strict = json!({ "prefix_mismatch_behavior": "error" });
        for (options, expected, has_setting) in [
            (
                json!({}),
                json!({ "type": "adaptive", "block_binding": drop }),
                true,
            ),
            (
                json!({ "thinking": { "type": "adaptive", "display": "summarized" } }),
                json!({ "type": "adaptive", "display": "summarized", "block_binding": drop }),
                true,
            ),
            (
                json!({ "thinking": { "type": "adaptive", "block_binding": strict } }),
                json!({ "type": "adaptive", "block_binding": strict }),
                true,
            ),
            (
                json!({ "thinking": { "type": "adaptive", "block_binding": null } }),
                json!({ "type": "adaptive" }),
                false,
            ),
            (
                json!({ "thinking": { "type": "between_tools" } }),
                json!({ "type": "between_tools" }),
                false,
            ),
        ] {
            let mut options: Options = serde_json::from_value(options).unwrap();
            assert_eq!(drop_unfit_blocks(&mut options), has_setting);
            assert_eq!(options["thinking"], expected);
        }
    }
}
