//! The keys of a script.

use super::{Key, Shape, Table};

/// The top level of a script.
pub(crate) static SCRIPT: Table = Table {
    title: "A script",
    about: "The replies of a scripted model: a JSON file with rules, a default, or both. A key that is not listed \
            here is an error.",
    keys: &[
        Key::new(
            "rules",
            Shape::Tables(&RULE),
            "The rules. The first whose `match` is a substring of the latest user message applies.",
        )
        .default("[]"),
        Key::new(
            "default",
            Shape::Tables(&STEP),
            "The steps if no rule matches. Without it the reply is `script ended`.",
        ),
    ],
    rules: &[],
};

static RULE: Table = Table {
    title: "`rules[]`",
    about: "The replies to messages with a given text.",
    keys: &[
        Key::new(
            "match",
            Shape::Text,
            "A substring of the latest user message.",
        )
        .required(),
        Key::new(
            "steps",
            Shape::Tables(&STEP),
            "The replies, one step for each reply of the turn.",
        )
        .required(),
    ],
    rules: &[],
};

static STEP: Table = Table {
    title: "`rules[].steps[]` and `default[]`",
    about: "One reply. After the last step the reply is `script ended`. Texts, and texts in arguments, may have \
            the placeholders `{{last_user}}`, `{{last_tool_result}}`, `{{tool_result:ID}}`, `{{turn}}` and \
            `{{state:/pointer}}`.",
    keys: &[
        Key::new("thinking", Shape::Text, "The thinking of the model."),
        Key::new("text", Shape::Text, "The text of the reply."),
        Key::new(
            "tool_calls",
            Shape::Tables(&CALL),
            "The tool calls of the reply.",
        )
        .default("[]"),
        Key::new(
            "finish",
            Shape::Any,
            "The output of an agent with an `output_schema`; it ends the turn.",
        ),
        Key::new(
            "chunk_chars",
            Shape::Count(1),
            "The number of characters per delta.",
        )
        .default("8"),
        Key::new("delay_ms", Shape::Count(0), "The delay between two deltas.").default("0"),
        Key::new(
            "stop_reason",
            Shape::Choice(&[
                "end_turn",
                "stop_sequence",
                "tool_use",
                "max_tokens",
                "content_filter",
                "refusal",
                "error",
                "unknown",
            ]),
            "The stop reason. Default: `tool_use` if the reply has calls, else `end_turn`.",
        ),
        Key::new(
            "usage",
            Shape::Table(&USAGE),
            "The token usage of the reply.",
        ),
        Key::new("error", Shape::Table(&FAILURE), "A simulated failure."),
    ],
    rules: &[],
};

static CALL: Table = Table {
    title: "`tool_calls[]`",
    about: "One tool call.",
    keys: &[
        Key::new(
            "id",
            Shape::Text,
            "The id. If left out, one is generated; if used before in the session, a number is added.",
        ),
        Key::new("name", Shape::Text, "The name of the tool.").required(),
        Key::new("arguments", Shape::Any, "The arguments.").default("{}"),
    ],
    rules: &[],
};

static USAGE: Table = Table {
    title: "`usage`",
    about: "The token usage of a reply.",
    keys: &[
        Key::new("input", Shape::Count(0), "The input tokens.").default("0"),
        Key::new("output", Shape::Count(0), "The output tokens.").default("0"),
        Key::new(
            "cached",
            Shape::Count(0),
            "The input tokens that came from a cache.",
        ),
        Key::new(
            "reasoning",
            Shape::Count(0),
            "The output tokens that were reasoning.",
        ),
    ],
    rules: &[],
};

static FAILURE: Table = Table {
    title: "`error`",
    about: "A simulated failure.",
    keys: &[
        Key::new(
            "kind",
            Shape::Choice(&[
                "rate_limited",
                "overloaded",
                "context_length",
                "content_filter",
                "refusal",
                "auth",
                "invalid",
                "transport",
            ]),
            "The kind of error.",
        )
        .required(),
        Key::new(
            "attempts",
            Shape::Count(0),
            "The number of attempts that fail. Default: all.",
        ),
        Key::new(
            "retry_after_ms",
            Shape::Count(0),
            "The retry delay that the provider asks for.",
        ),
        Key::new(
            "after_chars",
            Shape::Count(0),
            "The number of characters before the failure.",
        )
        .default("0"),
    ],
    rules: &[],
};
