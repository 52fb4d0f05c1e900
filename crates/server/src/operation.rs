//! The operations of the server, one per route.

use std::fmt;

use axum::http::Method;

macro_rules! operations {
    ($($(#[$doc:meta])* $variant:ident, $name:literal, $method:ident, $path:literal, $summary:literal;)*) => {
        /// An operation of the server, one per route.
        ///
        /// ```
        /// use helix_agents_server::Operation;
        ///
        /// for operation in Operation::ALL {
        ///     println!("{} {}: {}", operation.method(), operation.path(), operation.summary());
        /// }
        /// ```
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[non_exhaustive]
        pub enum Operation {
            $($(#[$doc])* $variant,)*
        }

        impl Operation {
            /// All operations, in order.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// The name in logs and metrics.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            /// The HTTP method of the route.
            #[must_use]
            pub const fn method(self) -> Method {
                match self { $(Self::$variant => Method::$method,)* }
            }

            /// The path of the route, relative to where the router is nested.
            #[must_use]
            pub const fn path(self) -> &'static str {
                match self { $(Self::$variant => $path,)* }
            }

            /// A one-line summary of the operation.
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
    /// Resumes a session, or continues it with a message.
    Resume, "resume", POST, "/resume", "Resume a session.";
    /// Reads a session's stream.
    Stream, "sse", GET, "/sse", "Read a session's chunks as server-sent events.";
    /// Returns the status of a session.
    Status, "status", GET, "/status", "Return the status of a session.";
    /// Asks a run to stop; the session can be resumed.
    Interrupt, "interrupt", POST, "/interrupt", "Ask the run to stop.";
    /// Asks a run to fail.
    Abort, "abort", POST, "/abort", "Ask the run to fail.";
    /// Answers a pending call.
    SubmitToolResult, "submit_tool_result", POST, "/submit-tool-result", "Answer a pending call.";
    /// Lists a session's workspaces.
    Workspaces, "workspaces", GET, "/workspaces", "List a session's workspaces.";
    /// Lists the registered agents.
    Agents, "agents", GET, "/agents", "List the agents.";
    /// Lists sessions by filters.
    ListSessions, "list_sessions", GET, "/sessions", "List sessions, newest first.";
    /// Returns a session with its state.
    GetSession, "get_session", GET, "/sessions/{id}", "Return one session.";
    /// Lists a session's runs.
    ListRuns, "list_runs", GET, "/sessions/{id}/runs", "List a session's runs, oldest first.";
    /// Lists a session's checkpoints.
    ListCheckpoints, "list_checkpoints", GET, "/sessions/{id}/checkpoints", "List a session's checkpoints, newest first.";
    /// Lists a session's messages.
    ListMessages, "list_messages", GET, "/sessions/{id}/messages", "List a session's messages, oldest first.";
    /// Returns the usage of a session.
    Usage, "usage", GET, "/sessions/{id}/usage", "Return the usage of a session.";
    /// Deletes a session with its children.
    DeleteSession, "delete_session", DELETE, "/sessions/{id}", "Delete a session with its children.";
    /// Creates a session from a point in another one.
    Branch, "branch", POST, "/sessions/{id}/branch", "Create a session from a point in another one.";
    /// Lists the pending calls of all sessions.
    Pending, "pending", GET, "/pending", "List the pending calls of all sessions.";
    /// Sends a message, or answers to calls, as an AI SDK client does.
    Chat, "chat", POST, "/chat", "Send a message, or answers to calls, as an AI SDK client does.";
    /// As `Chat`, with the session in the path.
    ChatIn, "chat_in", POST, "/chat/{id}", "Send a message, or answers to calls, to this session.";
    /// Reads the answer in flight, or the last one.
    ChatStream, "chat_stream", GET, "/chat/{id}/stream", "Read the answer in flight, or the last one.";
    /// As `ChatStream`, for clients whose address of the chat is that of the session.
    ChatReplay, "chat_replay", GET, "/chat/{id}", "Read the answer in flight, or the last one.";
    /// As `ChatStream`, at the address that an AI SDK client makes of `/chat/{id}`.
    ChatNested, "chat_nested", GET, "/chat/{id}/{session}/stream", "Read the answer in flight, or the last one.";
    /// Returns what a page needs when it is loaded.
    ChatSnapshot, "chat_snapshot", GET, "/chat/{id}/snapshot", "Return what a page needs when it is loaded.";
    /// Lists messages as UI messages, in pages of whole turns.
    ChatMessages, "chat_messages", GET, "/chat/{id}/messages", "List messages as UI messages, in pages of whole turns.";
    /// Answers a pending call of a chat.
    ChatSubmit, "chat_submit_tool_result", POST, "/chat/{id}/submit-tool-result", "Answer a pending call.";
    /// Asks the run of a chat to stop.
    ChatInterrupt, "chat_interrupt", POST, "/chat/{id}/interrupt", "Ask the run to stop.";
    /// Asks the run of a chat to fail.
    ChatAbort, "chat_abort", POST, "/chat/{id}/abort", "Ask the run to fail.";
    /// Reports that the process is alive.
    Health, "healthz", GET, "/healthz", "Report that the process is alive.";
    /// Reports whether the store can be read and written.
    Ready, "readyz", GET, "/readyz", "Report whether the store can be read and written.";
    /// Returns the metrics in the Prometheus format.
    Metrics, "metrics", GET, "/metrics", "Return the metrics in Prometheus' text format.";
    /// Returns the OpenAPI document.
    OpenApi, "openapi", GET, "/openapi.json", "Return the OpenAPI document.";
}

impl Operation {
    /// Whether the operation reports on the process only. Probes usually send no credentials.
    #[must_use]
    pub const fn is_probe(self) -> bool {
        matches!(self, Self::Health | Self::Ready)
    }
}

impl Operation {
    /// A second path of the route: the chat routes are where an AI SDK client looks for them, too.
    #[must_use]
    pub fn alias(self) -> Option<String> {
        let path = self.path();
        path.starts_with("/chat").then(|| format!("/api{path}"))
    }
}

impl Operation {
    /// Whether the response may be large.
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
                | Self::ChatSnapshot
                | Self::ChatMessages
        )
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
