//! The keys of a script.

use super::{Key, Shape, Table};

/// The whole file.
pub(crate) static SCRIPT: Table = Table {
    title: "A script",
    about: "What a scripted model says: a JSON file with rules, a default, or both. A key that is not listed \
            here is an error.",
    keys: &[
        Key::new(
            "rules",
            Shape::Tables(&RULE),
            "The first whose `match` is a part of the latest user message is played.",
        )
        .default("[]"),
        Key::new(
            "default",
            Shape::Tables(&STEP),
            "The steps that are played where no rule matches. Without it the reply is `script ended`.",
        ),
    ],
    rules: &[],
};

static RULE: Table = Table {
    title: "`rules[]`",
    about: "What is said to some messages.",
    keys: &[
        Key::new("match", Shape::Text, "A part of the latest user message.").required(),
        Key::new(
            "steps",
            Shape::Tables(&STEP),
            "What is said, one step for each reply of the turn.",
        )
        .required(),
    ],
    rules: &[],
};

static STEP: Table = Table {
    title: "`rules[].steps[]` and `default[]`",
    about: "One reply. Past the last step the reply is `script ended`. Texts, and texts in arguments, may have \
            the placeholders `{{last_user}}`, `{{last_tool_result}}`, `{{tool_result:ID}}`, `{{turn}}` and \
            `{{state:/pointer}}`.",
    keys: &[
        Key::new("thinking", Shape::Text, "What the model thinks first."),
        Key::new("text", Shape::Text, "What it says."),
        Key::new("tool_calls", Shape::Tables(&CALL), "The tools it calls.").default("[]"),
        Key::new(
            "finish",
            Shape::Any,
            "The output of an agent with an `output_schema`; it ends the turn.",
        ),
        Key::new(
            "chunk_chars",
            Shape::Count(1),
            "How many characters a piece of the stream has.",
        )
        .default("8"),
        Key::new("delay_ms", Shape::Count(0), "The wait between two pieces.").default("0"),
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
            "Why the reply ends. Without it: `tool_use` when it makes calls, else `end_turn`.",
        ),
        Key::new(
            "usage",
            Shape::Table(&USAGE),
            "The tokens that it counts as.",
        ),
        Key::new("error", Shape::Table(&FAILURE), "A failure on purpose."),
    ],
    rules: &[],
};

static CALL: Table = Table {
    title: "`tool_calls[]`",
    about: "One call.",
    keys: &[
        Key::new(
            "id",
            Shape::Text,
            "Its id. Left out: one is made; used before in the session: a number is added.",
        ),
        Key::new("name", Shape::Text, "The tool.").required(),
        Key::new("arguments", Shape::Any, "Its arguments.").default("{}"),
    ],
    rules: &[],
};

static USAGE: Table = Table {
    title: "`usage`",
    about: "The tokens that a reply counts as.",
    keys: &[
        Key::new("input", Shape::Count(0), "Tokens read.").default("0"),
        Key::new("output", Shape::Count(0), "Tokens written.").default("0"),
        Key::new(
            "cached",
            Shape::Count(0),
            "How many of those read came from a cache.",
        ),
        Key::new(
            "reasoning",
            Shape::Count(0),
            "How many of those written were reasoning.",
        ),
    ],
    rules: &[],
};

static FAILURE: Table = Table {
    title: "`error`",
    about: "How a reply fails.",
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
            "What goes wrong.",
        )
        .required(),
        Key::new(
            "attempts",
            Shape::Count(0),
            "How many tries fail. Without it: all.",
        ),
        Key::new(
            "retry_after_ms",
            Shape::Count(0),
            "When the provider says to try again.",
        ),
        Key::new(
            "after_chars",
            Shape::Count(0),
            "How many characters come before the failure.",
        )
        .default("0"),
    ],
    rules: &[],
};
