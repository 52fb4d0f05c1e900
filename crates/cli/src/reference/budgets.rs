//! The keys of `[agents.NAME.budget]`.

use super::{Key, Shape, Table};

pub(super) static BUDGET: Table = Table {
    title: "[agents.NAME.budget]",
    about: "Limits of what the agent may use. A run that reaches one is interrupted, and its session is \
            paused until a resume raises the limit.",
    keys: &[
        Key::new(
            "run",
            Shape::Table(&LIMITS),
            "Limits of each run, with the runs that continue or retry its turn.",
        ),
        Key::new(
            "session",
            Shape::Table(&LIMITS),
            "Limits of all runs of a session.",
        ),
        Key::new(
            "tree",
            Shape::Table(&LIMITS),
            "Limits of all runs of a session and of the sessions under it.",
        ),
    ],
    rules: &[],
};

static LIMITS: Table = Table {
    title: "[agents.NAME.budget.SCOPE]",
    about: "The limits of one scope: `run`, `session` or `tree`. What is not limited is not counted.",
    keys: &[
        Key::new(
            "steps",
            Shape::Count(1),
            "Model calls that give a reply. A call that is retried is one step.",
        ),
        Key::new(
            "tokens",
            Shape::Count(1),
            "Input and output tokens of model calls.",
        ),
        Key::new(
            "micro_dollars",
            Shape::Count(1),
            "The price of model calls, in millionths of a US dollar. The model has to know its prices.",
        ),
        Key::new(
            "tool_calls",
            Shape::Count(1),
            "Tool calls. Those of a reply that do not fit are not executed.",
        ),
        Key::new(
            "wall_clock_ms",
            Shape::Count(1),
            "The time during which runs are performed, in milliseconds. Pauses do not count.",
        ),
    ],
    rules: &[],
};
