//! The keys of `helix.toml`.

use super::budgets::BUDGET;
use super::contexts::CONTEXT;
use super::models::MODEL;
use super::persistent_agents::PERSISTENT_AGENT;
use super::tools::TOOL;
use super::{Key, Rule, Shape, Table};

/// A table without keys.
pub(crate) static EMPTY: Table = Table {
    title: "",
    about: "",
    keys: &[],
    rules: &[],
};

/// The top level of `helix.toml`.
pub(crate) static TOP: Table = Table {
    title: "helix.toml",
    about: "The configuration. Paths in it are relative to the file. A key that is not listed here is \
            an error.",
    keys: &[
        Key::new(
            "server",
            Shape::Table(&SERVER),
            "The address, limits and tokens of the server.",
        ),
        Key::new("store", Shape::Table(&STORE), "Where sessions are stored."),
        Key::new("stream", Shape::Table(&STREAM), "Where streams are stored."),
        Key::new("runtime", Shape::Table(&RUNTIME), "How runs are performed."),
        Key::new("models", Shape::Named(&MODEL), "The models, by name."),
        Key::new("agents", Shape::Named(&AGENT), "The agents, by name."),
        Key::new("tools", Shape::Named(&TOOL), "The tools, by name."),
    ],
    rules: &[],
};

static SERVER: Table = Table {
    title: "[server]",
    about: "The address, limits and tokens of the server.",
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
            "Whether to allow requests without a token. A server needs either this or tokens.",
        )
        .default("false"),
        Key::new(
            "max_body_bytes",
            Shape::Count(1),
            "The maximum size of a request body.",
        )
        .default("4194304"),
        Key::new(
            "max_connections",
            Shape::Count(1),
            "The maximum number of connections; `/healthz` and `/readyz` are served beyond it.",
        )
        .default("8192"),
        Key::new(
            "max_connections_per_address",
            Shape::Count(0),
            "The maximum number of connections per address; 0 for no limit, as behind a proxy.",
        )
        .default("512"),
        Key::new(
            "max_runs_per_user",
            Shape::Count(1),
            "The maximum number of running runs per user.",
        )
        .default("256"),
        Key::new(
            "max_starts_per_minute",
            Shape::Count(1),
            "The maximum number of runs that a user starts or resumes per minute.",
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
            "Host names that a server without tokens accepts, besides local ones.",
        )
        .default("[]"),
        Key::new("tokens", Shape::Tables(&TOKEN), "The tokens of the users.").default("[]"),
    ],
    rules: &[Rule::Apart("allow_unauthenticated", "tokens")],
};

static TOKEN: Table = Table {
    title: "[[server.tokens]]",
    about: "A bearer token and its user.",
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
            "The user, who owns the sessions created with the token and sees no others.",
        )
        .required(),
        Key::new("admin", Shape::Flag, "Whether the user sees all sessions.").default("false"),
    ],
    rules: &[Rule::OneOf(&["env", "sha256"])],
};

const ID: &str = "^[A-Za-z0-9_.:-]{1,256}$";
const STORE_URL: &str = "^(memory:|sqlite:.+|postgres(ql)?:.+|rediss?:.+)$";

const SCHEMA: Key = Key::new(
    "schema",
    Shape::Text,
    "PostgreSQL only: the schema of the tables.",
)
.default("\"helix\"");
const CONNECTIONS: Key = Key::new(
    "connections",
    Shape::Count(1),
    "PostgreSQL only: the most connections of this process, at most 10,000. Up to two more are for notifications.",
)
.default("16");
const PREPARED_STATEMENTS: Key = Key::new(
    "prepared_statements",
    Shape::Flag,
    "PostgreSQL only: whether statements are prepared once for each connection. Say false behind pgbouncer with \
     `pool_mode = transaction`.",
)
.default("true");
const LISTEN_URL: Key = Key::new(
    "listen_url",
    Shape::Text,
    "PostgreSQL only: the URL of the connections for notifications, where `url` leads to a pooler. Default: `url`.",
);
const PREFIX: Key = Key::new(
    "prefix",
    Shape::Text,
    "Redis only: the beginning of all keys.",
)
.default("\"helix\"");
const DURABILITY: Key = Key::new(
    "durability",
    Shape::Choice(&["always", "every_second", "memory", "unchecked"]),
    "Redis only: what the server must promise of a commit, else it is refused: that it survives a loss of power, that \
     a loss of power takes a second of commits at most, or nothing. `unchecked` is for servers that do not tell their \
     settings. Default: any server, with a warning for one that promises less than `always`.",
);

static STORE: Table = Table {
    title: "[store]",
    about: "Where sessions are stored. Default: `.helix/helix.db`.",
    keys: &[
        Key::new(
            "url",
            Shape::Matching(STORE_URL),
            "`sqlite:PATH`, `postgres://USER:PASSWORD@HOST:PORT/DATABASE`, `redis://HOST:PORT`, or `memory:` until the \
             process ends.",
        )
        .required(),
        SCHEMA,
        CONNECTIONS,
        PREPARED_STATEMENTS,
        LISTEN_URL,
        PREFIX,
        DURABILITY,
    ],
    rules: &[],
};

static STREAM: Table = Table {
    title: "[stream]",
    about: "Where streams are stored. Default: in the store. A PostgreSQL store can have them on Redis.",
    keys: &[
        Key::new(
            "url",
            Shape::Matching(STORE_URL),
            "The same as `url` of `[store]`, or `redis://HOST:PORT`.",
        )
        .required(),
        SCHEMA,
        CONNECTIONS,
        PREPARED_STATEMENTS,
        LISTEN_URL,
        PREFIX,
        DURABILITY,
    ],
    rules: &[],
};

static RUNTIME: Table = Table {
    title: "[runtime]",
    about: "How runs are performed.",
    keys: &[
        Key::new(
            "engine",
            Shape::Choice(&["local"]),
            "The engine that performs runs.",
        )
        .default("\"local\""),
        Key::new(
            "double_texting",
            Shape::Choice(&["interrupt", "reject", "queue", "rollback"]),
            "How a new message is handled while a run is in progress: the run is interrupted and keeps what it \
             has; the message is refused; it waits for the end of the turn; or the run is interrupted and its \
             turn is removed.",
        )
        .default("\"interrupt\""),
        Key::new(
            "recover_on_start",
            Shape::Flag,
            "Whether runs with a lapsed lease are taken over at start.",
        )
        .default("true"),
        Key::new(
            "lease_ms",
            Shape::Count(100),
            "The duration of a lease, after which the run of a dead process is taken over.",
        )
        .default("10000"),
        Key::new(
            "auto_continue",
            Shape::Flag,
            "Whether the last answer resumes the session automatically.",
        )
        .default("true"),
        Key::new(
            "stop_grace_ms",
            Shape::Count(0),
            "How long a tool may take to end after its run was asked to stop. Then it is left behind, and the \
             outcome of the call is unknown.",
        )
        .default("5000"),
        Key::new(
            "expire_after_ms",
            Shape::Count(1000),
            "How long after its last turn began a session is removed, with everything that belongs to it. \
             Without it sessions are kept.",
        ),
        Key::new(
            "keep_deltas_ms",
            Shape::Count(0),
            "How long after the end of a turn its deltas are kept. Later readers get each reply as a whole.",
        )
        .default("600000"),
        Key::new(
            "temporal",
            Shape::Table(&TEMPORAL),
            "For an engine that is not supported yet.",
        ),
        Key::new(
            "dbos",
            Shape::Table(&DBOS),
            "For an engine that is not supported yet.",
        ),
    ],
    rules: &[],
};

static TEMPORAL: Table = Table {
    title: "[runtime.temporal]",
    about: "For an engine that is not supported yet; checked but not used.",
    keys: &[
        Key::new("address", Shape::Text, "The address of the service."),
        Key::new("namespace", Shape::Text, "The namespace."),
        Key::new("task_queue", Shape::Text, "The task queue."),
    ],
    rules: &[],
};

static DBOS: Table = Table {
    title: "[runtime.dbos]",
    about: "For an engine that is not supported yet; checked but not used.",
    keys: &[Key::new("url", Shape::Text, "The address of the database.")],
    rules: &[],
};

static AGENT: Table = Table {
    title: "[agents.NAME]",
    about: "An agent.",
    keys: &[
        Key::new("description", Shape::Text, "The purpose of the agent."),
        Key::new(
            "examples",
            Shape::Texts(""),
            "Messages that show what the agent can do. Front ends offer them; no model reads them.",
        )
        .default("[]"),
        Key::new(
            "system_prompt",
            Shape::Text,
            "The system prompt. `{{state:/pointer}}` is filled in from the session's state.",
        ),
        Key::new(
            "model",
            Shape::Text,
            "The name of a model in this file, or one like `anthropic/claude-sonnet-4-5`.",
        )
        .required(),
        Key::new("tools", Shape::Names, "The names of tools in this file.").default("[]"),
        Key::new(
            "sub_agents",
            Shape::Names,
            "The names of agents in this file. Each is a tool `subagent__NAME`: its `message` is what the agent is \
             asked, and the output of the agent is the result.",
        )
        .default("[]"),
        Key::new(
            "persistent_agents",
            Shape::Tables(&PERSISTENT_AGENT),
            "Agents in this file that this one starts, and keeps for further messages, with the tools \
             `companion__spawnAgent`, `companion__sendMessage`, `companion__listChildren`, \
             `companion__getChildStatus`, `companion__terminateChild` and, with a blocking agent, \
             `companion__waitForResult`.",
        )
        .default("[]"),
        Key::new(
            "max_steps",
            Shape::Count(1),
            "The maximum number of steps per turn.",
        )
        .default("50"),
        Key::new(
            "initial_state",
            Shape::Object,
            "The initial state of a session.",
        )
        .default("{}"),
        Key::new(
            "output_schema",
            Shape::Object,
            "The JSON Schema of a turn's output. Without it the output is a text.",
        ),
        Key::new(
            "budget",
            Shape::Table(&BUDGET),
            "Limits of what runs, sessions and trees of sessions may use.",
        ),
        Key::new(
            "context",
            Shape::Table(&CONTEXT),
            "What happens when a conversation comes near the context limit of the model.",
        ),
    ],
    rules: &[],
};
