//! The keys of `[agents.NAME.context]`.

use super::{Key, Rule, Shape, Table};

pub(super) static CONTEXT: Table = Table {
    title: "[agents.NAME.context]",
    about: "Chooses what happens when a conversation comes near the context limit of its model. Only whole \
            turns are left out of the prompt, never the current one, and the history stays whole.",
    keys: &[
        Key::new(
            "near_limit",
            Shape::Choice(&["fail", "keep_turns", "summarize"]),
            "`fail` fails the run with provider_context_length. `keep_turns` leaves earlier turns out. \
             `summarize` replaces them by a summary.",
        )
        .required(),
        Key::new(
            "keep_turns",
            Shape::Count(1),
            "The number of turns to keep at most, the current one included; 2 for `summarize`.",
        ),
        Key::new(
            "model",
            Shape::Text,
            "The model that writes summaries: a `[models.NAME]` of this file, or one like \
             `openai/gpt-5-mini`.",
        ),
        Key::new(
            "at_tokens",
            Shape::Count(1),
            "The number of tokens from which on a conversation is too long. By default 80 % of the context of \
             the model, or what its longest reply leaves of it.",
        ),
    ],
    rules: &[
        Rule::Where {
            key: "near_limit",
            is: "fail",
            needs: &[],
            lacks: &["keep_turns", "model"],
            excludes: &[],
        },
        Rule::Where {
            key: "near_limit",
            is: "keep_turns",
            needs: &["keep_turns"],
            lacks: &["model"],
            excludes: &[],
        },
        Rule::Where {
            key: "near_limit",
            is: "summarize",
            needs: &["model"],
            lacks: &[],
            excludes: &[],
        },
    ],
};
