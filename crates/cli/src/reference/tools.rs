//! The keys of a tool in `helix.toml`.

use super::{Key, Rule, Shape, Table};

pub(super) static TOOL: Table = Table {
    title: "[tools.NAME]",
    about: "A tool that agents can use.",
    keys: &[
        Key::new(
            "kind",
            Shape::Choice(&["http", "client", "builtin"]),
            "Where the tool runs: an HTTP service, a client, or this program.",
        )
        .required(),
        Key::new(
            "description",
            Shape::Text,
            "The description for the model. Default: the tool's name, or the text of the builtin tool.",
        ),
        Key::new("input_schema", Shape::Object, "The JSON Schema of the arguments.").default("{ type = \"object\" }"),
        Key::new(
            "output_schema",
            Shape::Object,
            "The JSON Schema of the result. Front ends make the form for a `client` tool of it. Not with `builtin`.",
        ),
        Key::new("url", Shape::Matching("^[Hh][Tt][Tt][Pp][Ss]?://.+"), "With `http`: the URL that calls are sent to."),
        Key::new(
            "headers",
            Shape::Entries(&HEADER),
            "With `http`: additional headers, each a text or `{ env = \"NAME\" }`.",
        ),
        Key::new(
            "proxy",
            Shape::Flag,
            "With `http`: whether calls use the proxy of the environment. Default: all except those to \
             this machine and to private networks.",
        ),
        Key::new(
            "builtin",
            Shape::Choice(&["clock", "calculator", "notes", "fetch", "http_fetch"]),
            "With `builtin`: which builtin tool. Default: the one with the tool's name.",
        ),
        Key::new(
            "allow",
            Shape::Texts(""),
            "With the builtin `fetch`: the hosts, addresses and networks it may reach. Default: all that \
             are public.",
        ),
        Key::new("require_approval", Shape::Flag, "Whether a person must approve every call.").default("false"),
        Key::new("approval_when", Shape::Table(&APPROVAL), "Which calls a person must approve."),
        Key::new(
            "deadline_ms",
            Shape::Count(1),
            "How long a person or a client may take to answer. Then the call times out: the model reads \
             that nobody answered, and an answer that comes later is told to it in a message.",
        ),
        Key::new(
            "timeout_ms",
            Shape::Count(1),
            "How long a call may take; 10000 by default for `http`.",
        ),
        Key::new("idempotent", Shape::Flag, "Whether a call that is sent twice with one key takes effect once.")
            .default("false"),
        Key::new("read_only", Shape::Flag, "Whether the tool changes nothing.").default("false"),
        Key::new(
            "on_unknown",
            Shape::Choice(&["tell_model", "pause"]),
            "How a call with an unknown outcome is handled: tell the model, or pause and ask a person.",
        )
        .default("\"tell_model\""),
        Key::new("finish_with", Shape::Flag, "Whether the result ends the turn and is its output.").default("false"),
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
            lacks: &["url", "headers", "proxy", "input_schema", "output_schema"],
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
    about: "Calls with an argument above a limit. A call without that argument needs an approval too.",
    keys: &[
        Key::new(
            "pointer",
            Shape::Matching("^(/.*)?$"),
            "The JSON Pointer of the argument, like `/cents`.",
        )
        .required(),
        Key::new("above", Shape::Number, "The limit.").required(),
    ],
    rules: &[],
};
