//! The keys of a tool in `helix.toml`.

use super::{Key, Rule, Shape, Table};

pub(super) static TOOL: Table = Table {
    title: "[tools.NAME]",
    about: "What agents can do.",
    keys: &[
        Key::new(
            "kind",
            Shape::Choice(&["http", "client", "builtin"]),
            "Who runs it: a service of yours, a client, or this program.",
        )
        .required(),
        Key::new(
            "description",
            Shape::Text,
            "What the model reads about it. Without it: the tool's name, or the built-in's own text.",
        ),
        Key::new("input_schema", Shape::Object, "A JSON Schema of its arguments.").default("{ type = \"object\" }"),
        Key::new("url", Shape::Matching("^[Hh][Tt][Tt][Pp][Ss]?://.+"), "With `http`: where calls are sent."),
        Key::new(
            "headers",
            Shape::Entries(&HEADER),
            "With `http`: headers of every call, each a text or `{ env = \"NAME\" }`.",
        ),
        Key::new(
            "proxy",
            Shape::Flag,
            "With `http`: whether calls go through the proxy of the environment. Without it: all but those to \
             this machine and to private networks.",
        ),
        Key::new(
            "builtin",
            Shape::Choice(&["clock", "calculator", "notes", "fetch", "http_fetch"]),
            "With `builtin`: which one. Without it: the one of the tool's name.",
        ),
        Key::new(
            "allow",
            Shape::Texts(""),
            "With the built-in `fetch`: the hosts, addresses and networks it may reach. Without it: all that \
             are public.",
        ),
        Key::new("require_approval", Shape::Flag, "Whether a person must agree to every call.").default("false"),
        Key::new("approval_when", Shape::Table(&APPROVAL), "Which calls a person must agree to."),
        Key::new(
            "deadline_ms",
            Shape::Count(1),
            "How long a person or a client may take; stored and shown, not enforced yet.",
        ),
        Key::new(
            "timeout_ms",
            Shape::Count(1),
            "How long the call itself may take; 10000 for `http` when nothing is said.",
        ),
        Key::new("idempotent", Shape::Flag, "Whether sending a call twice under one key is the same as once.")
            .default("false"),
        Key::new("read_only", Shape::Flag, "Whether it changes nothing.").default("false"),
        Key::new(
            "on_unknown",
            Shape::Choice(&["tell_model", "pause"]),
            "What happens to a call that may have taken effect: the model is told, or a person is asked.",
        )
        .default("\"tell_model\""),
        Key::new("finish_with", Shape::Flag, "Whether its result ends the turn and is its output.").default("false"),
    ],
    rules: &[
        Rule::Where {
            key: "kind",
            is: "http",
            needs: &["url"],
            lacks: &["builtin", "allow"],
            excludes: &[],
        },
        Rule::Where {
            key: "kind",
            is: "client",
            needs: &[],
            lacks: &["url", "headers", "proxy", "builtin", "allow"],
            excludes: &["require_approval", "approval_when", "finish_with"],
        },
        Rule::Where {
            key: "kind",
            is: "builtin",
            needs: &[],
            lacks: &["url", "headers", "proxy", "input_schema"],
            excludes: &[],
        },
        Rule::Clash([("kind", "client"), ("on_unknown", "pause")]),
        Rule::Apart("require_approval", "approval_when"),
        Rule::Apart("require_approval", "finish_with"),
        Rule::Apart("approval_when", "finish_with"),
    ],
};

static HEADER: Table = Table {
    title: "[tools.NAME.headers.HEADER]",
    about: "A header whose value is in the environment.",
    keys: &[Key::new(
        "env",
        Shape::Text,
        "The environment variable that holds the value.",
    )
    .required()],
    rules: &[],
};

static APPROVAL: Table = Table {
    title: "[tools.NAME.approval_when]",
    about: "Calls whose argument is above a number. A call without that number needs an approval, too.",
    keys: &[
        Key::new(
            "pointer",
            Shape::Matching("^(/.*)?$"),
            "The JSON Pointer of the argument, like `/cents`.",
        )
        .required(),
        Key::new("above", Shape::Number, "The number.").required(),
    ],
    rules: &[],
};
