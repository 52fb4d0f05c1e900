//! The keys of `helix.toml`.

use super::tools::TOOL;
use super::{Key, Rule, Shape, Table};

/// A table without keys.
pub(crate) static NOTHING: Table = Table {
    title: "",
    about: "",
    keys: &[],
    rules: &[],
};

/// The whole file.
pub(crate) static TOP: Table = Table {
    title: "helix.toml",
    about: "What an operator says. Paths in it are relative to the file. A key that is not listed here is \
            an error.",
    keys: &[
        Key::new(
            "server",
            Shape::Table(&SERVER),
            "Who may talk to the server, and where.",
        ),
        Key::new("store", Shape::Table(&STORE), "Where sessions are kept."),
        Key::new("stream", Shape::Table(&STREAM), "Where streams are kept."),
        Key::new("runtime", Shape::Table(&RUNTIME), "How runs are performed."),
        Key::new("models", Shape::Named(&MODEL), "The models, by name."),
        Key::new("agents", Shape::Named(&AGENT), "The agents, by name."),
        Key::new("tools", Shape::Named(&TOOL), "The tools, by name."),
    ],
    rules: &[],
};

static SERVER: Table = Table {
    title: "[server]",
    about: "Who may talk to the server, and where.",
    keys: &[
        Key::new(
            "listen",
            Shape::Matching(":[0-9]+$"),
            "The address to listen on; port 0 picks a free one.",
        )
        .default("\"127.0.0.1:8787\""),
        Key::new(
            "allow_unauthenticated",
            Shape::Flag,
            "Whether everybody who can reach the server may use it. A server has tokens or this.",
        )
        .default("false"),
        Key::new(
            "max_body_bytes",
            Shape::Count(1),
            "The largest body of a request.",
        )
        .default("4194304"),
        Key::new(
            "max_connections",
            Shape::Count(1),
            "How many connections are open at once; `/healthz` and `/readyz` are answered beside them.",
        )
        .default("8192"),
        Key::new(
            "max_connections_per_address",
            Shape::Count(0),
            "How many of them come from one address; 0 for no limit, as behind a proxy.",
        )
        .default("512"),
        Key::new(
            "max_runs_per_user",
            Shape::Count(1),
            "How many runs of a user go on at once.",
        )
        .default("256"),
        Key::new(
            "max_starts_per_minute",
            Shape::Count(1),
            "How many runs a user starts or resumes in a minute.",
        )
        .default("1200"),
        Key::new(
            "cors_origins",
            Shape::Texts("^https?://.*[^/]$"),
            "Origins of web pages that may use the server, like `https://example.com`.",
        )
        .default("[]"),
        Key::new(
            "hosts",
            Shape::Texts("^[A-Za-z0-9._-]+$"),
            "Host names under which a server without tokens answers, besides local ones.",
        )
        .default("[]"),
        Key::new("tokens", Shape::Tables(&TOKEN), "Who may use the server.").default("[]"),
    ],
    rules: &[Rule::Apart("allow_unauthenticated", "tokens")],
};

static TOKEN: Table = Table {
    title: "[[server.tokens]]",
    about: "A bearer token, and whose it is.",
    keys: &[
        Key::new(
            "env",
            Shape::Text,
            "The environment variable that holds the token.",
        ),
        Key::new(
            "sha256",
            Shape::Matching("^[0-9A-Fa-f]{64}$"),
            "The SHA-256 of the token, in hexadecimal digits.",
        ),
        Key::new(
            "user",
            Shape::Matching(ID),
            "Who owns the sessions made with it, and sees no others.",
        )
        .required(),
        Key::new("admin", Shape::Flag, "Whether it sees all sessions.").default("false"),
    ],
    rules: &[Rule::OneOf(&["env", "sha256"])],
};

const ID: &str = "^[A-Za-z0-9_.:-]{1,256}$";
const STORE_URL: &str = "^(memory:|sqlite:.+)$";

static STORE: Table = Table {
    title: "[store]",
    about: "Where sessions are kept. Without it: `.helix/helix.db`.",
    keys: &[Key::new(
        "url",
        Shape::Matching(STORE_URL),
        "`sqlite:PATH`, or `memory:` until the process ends.",
    )
    .required()],
    rules: &[],
};

static STREAM: Table = Table {
    title: "[stream]",
    about: "Where streams are kept. Only the store's own place is built.",
    keys: &[Key::new(
        "url",
        Shape::Matching(STORE_URL),
        "The same as `url` of `[store]`.",
    )
    .required()],
    rules: &[],
};

static RUNTIME: Table = Table {
    title: "[runtime]",
    about: "How runs are performed.",
    keys: &[
        Key::new("engine", Shape::Choice(&["local"]), "What performs runs.").default("\"local\""),
        Key::new(
            "double_texting",
            Shape::Choice(&["reject"]),
            "What a new message does while a run goes on.",
        )
        .default("\"reject\""),
        Key::new(
            "recover_on_start",
            Shape::Flag,
            "Whether runs whose lease lapsed are picked up at the start.",
        )
        .default("true"),
        Key::new(
            "lease_ms",
            Shape::Count(100),
            "How long a run is left alone after its process was last heard of.",
        )
        .default("10000"),
        Key::new(
            "auto_continue",
            Shape::Flag,
            "Whether the last answer continues the run by itself.",
        )
        .default("true"),
        Key::new(
            "temporal",
            Shape::Table(&TEMPORAL),
            "For an engine that is not built yet.",
        ),
        Key::new(
            "dbos",
            Shape::Table(&DBOS),
            "For an engine that is not built yet.",
        ),
    ],
    rules: &[],
};

static TEMPORAL: Table = Table {
    title: "[runtime.temporal]",
    about: "For an engine that is not built yet; checked and not used.",
    keys: &[
        Key::new("address", Shape::Text, "The address of the service."),
        Key::new("namespace", Shape::Text, "The namespace."),
        Key::new("task_queue", Shape::Text, "The task queue."),
    ],
    rules: &[],
};

static DBOS: Table = Table {
    title: "[runtime.dbos]",
    about: "For an engine that is not built yet; checked and not used.",
    keys: &[Key::new("url", Shape::Text, "The address of the database.")],
    rules: &[],
};

static MODEL: Table = Table {
    title: "[models.NAME]",
    about: "A model that agents name.",
    keys: &[
        Key::new("provider", Shape::Choice(&["scripted"]), "Who answers.").required(),
        Key::new(
            "script",
            Shape::Text,
            "The file that says what a scripted model says; see below.",
        ),
        Key::new(
            "model",
            Shape::Text,
            "The provider's name of the model; not used by `scripted`.",
        ),
        Key::new(
            "base_url",
            Shape::Text,
            "Another address of the provider; not used by `scripted`.",
        ),
        Key::new(
            "api_key_env",
            Shape::Text,
            "The environment variable with the key; not used by `scripted`.",
        ),
    ],
    rules: &[Rule::Where {
        key: "provider",
        is: "scripted",
        needs: &["script"],
        lacks: &[],
        excludes: &[],
    }],
};

static AGENT: Table = Table {
    title: "[agents.NAME]",
    about: "Who answers.",
    keys: &[
        Key::new("description", Shape::Text, "What it is for."),
        Key::new(
            "system_prompt",
            Shape::Text,
            "What the model is told first. `{{state:/pointer}}` is filled from the session's state.",
        ),
        Key::new("model", Shape::Text, "The name of a model of this file.").required(),
        Key::new("tools", Shape::Names, "Names of tools of this file.").default("[]"),
        Key::new("sub_agents", Shape::Unbuilt, "Not built yet.").default("[]"),
        Key::new("persistent_agents", Shape::Unbuilt, "Not built yet.").default("[]"),
        Key::new(
            "max_steps",
            Shape::Count(1),
            "How many steps a turn may have.",
        )
        .default("50"),
        Key::new(
            "initial_state",
            Shape::Object,
            "The state of a new session.",
        )
        .default("{}"),
        Key::new(
            "output_schema",
            Shape::Object,
            "A JSON Schema of what a turn ends with. Without it a turn ends with a text.",
        ),
    ],
    rules: &[],
};
