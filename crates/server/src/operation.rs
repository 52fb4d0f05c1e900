//! What can be asked of the server: one name per route.

use std::fmt;

use axum::http::Method;

macro_rules! operations {
    ($($(#[$doc:meta])* $variant:ident, $name:literal, $method:ident, $path:literal, $summary:literal;)*) => {
        /// What is asked: one name per route.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[non_exhaustive]
        pub enum Operation {
            $($(#[$doc])* $variant,)*
        }

        impl Operation {
            /// Every operation.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// Its name, as logs and metrics have it.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            /// The method of its route.
            #[must_use]
            pub const fn method(self) -> Method {
                match self { $(Self::$variant => Method::$method,)* }
            }

            /// The path of its route, below wherever the router is nested.
            #[must_use]
            pub const fn path(self) -> &'static str {
                match self { $(Self::$variant => $path,)* }
            }

            /// What it does, in a line.
            #[must_use]
            pub const fn summary(self) -> &'static str {
                match self { $(Self::$variant => $summary,)* }
            }
        }
    };
}

operations! {
    /// Starts a session with its first message.
    Start, "start", POST, "/start", "Start a session with its first message.";
    /// Goes on with a session.
    Resume, "resume", POST, "/resume", "Go on with a session.";
    /// Reads a session's stream.
    Stream, "sse", GET, "/sse", "Read a session's chunks as server-sent events.";
    /// Tells where a session stands.
    Status, "status", GET, "/status", "Tell where a session stands.";
    /// Asks a run to end where it is.
    Interrupt, "interrupt", POST, "/interrupt", "Ask the run to end where it is.";
    /// Asks a run to fail.
    Abort, "abort", POST, "/abort", "Ask the run to fail.";
    /// Answers a call that waits.
    SubmitToolResult, "submit_tool_result", POST, "/submit-tool-result", "Answer a call that waits.";
    /// Lists a session's workspaces.
    Workspaces, "workspaces", GET, "/workspaces", "List a session's workspaces.";
    /// Lists the agents.
    Agents, "agents", GET, "/agents", "List the agents.";
    /// Lists sessions.
    ListSessions, "list_sessions", GET, "/sessions", "List sessions, newest first.";
    /// Shows one session.
    GetSession, "get_session", GET, "/sessions/{id}", "Show one session.";
    /// Lists a session's runs.
    ListRuns, "list_runs", GET, "/sessions/{id}/runs", "List a session's runs, oldest first.";
    /// Lists a session's checkpoints.
    ListCheckpoints, "list_checkpoints", GET, "/sessions/{id}/checkpoints", "List a session's checkpoints, newest first.";
    /// Lists a session's messages.
    ListMessages, "list_messages", GET, "/sessions/{id}/messages", "List a session's messages, oldest first.";
    /// Sums up what a session used.
    Usage, "usage", GET, "/sessions/{id}/usage", "Sum up what a session used.";
    /// Removes a session.
    DeleteSession, "delete_session", DELETE, "/sessions/{id}", "Remove a session with its children.";
    /// Makes a new session from a point of another.
    Branch, "branch", POST, "/sessions/{id}/branch", "Make a new session from a point of another.";
    /// Lists everything that waits for somebody.
    Pending, "pending", GET, "/pending", "List every call that waits for somebody.";
    /// Says that the process lives.
    Health, "healthz", GET, "/healthz", "Say that the process lives.";
    /// Says whether the store can be reached.
    Ready, "readyz", GET, "/readyz", "Say whether the store can be reached.";
    /// Gives the metrics.
    Metrics, "metrics", GET, "/metrics", "Give the metrics in Prometheus' text format.";
    /// Describes the routes.
    OpenApi, "openapi", GET, "/openapi.json", "Describe the routes.";
}

impl Operation {
    /// Whether it only says how the process is. Probes ask without credentials.
    #[must_use]
    pub const fn is_probe(self) -> bool {
        matches!(self, Self::Health | Self::Ready)
    }
}

impl Operation {
    /// Whether its answer may be large.
    pub(crate) const fn may_be_large(self) -> bool {
        matches!(
            self,
            Self::Status
                | Self::ListSessions
                | Self::GetSession
                | Self::ListRuns
                | Self::ListCheckpoints
                | Self::ListMessages
                | Self::Usage
                | Self::Pending
        )
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
