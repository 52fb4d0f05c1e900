//! The options of a transformer.

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

use helix_agents_core::stream::{Chunk, Sequence};
use helix_agents_core::{ApprovalId, SessionId};

use crate::ToolKinds;

/// The options of a [`StreamTransformer`](crate::StreamTransformer).
#[derive(Clone)]
#[must_use]
#[non_exhaustive]
pub struct TransformerOptions {
    pub(super) session: SessionId,
    pub(super) tools: ToolKinds,
    pub(super) include_step_events: bool,
    /// What was written up to here is the past, as seen with these open requests.
    past: Option<(Sequence, HashSet<ApprovalId>)>,
    /// What the client has, where it goes on with a message.
    seen: Option<Sequence>,
    filter: Option<Arc<Filter>>,
}

type Filter = dyn Fn(&Chunk) -> bool + Send + Sync;

impl TransformerOptions {
    /// Options for the bubbles of this session. Chunks of other sessions in its stream are those of its sub-agents.
    pub fn new(session: SessionId) -> Self {
        Self {
            session,
            tools: ToolKinds::default(),
            include_step_events: true,
            past: None,
            seen: None,
            filter: None,
        }
    }

    /// Sets who runs which tool. Without it all tools are the server's.
    pub fn tools(mut self, tools: ToolKinds) -> Self {
        self.tools = tools;
        self
    }

    /// Leaves chunks out for which the function is false.
    pub fn chunk_filter(mut self, filter: impl Fn(&Chunk) -> bool + Send + Sync + 'static) -> Self {
        self.filter = Some(Arc::new(filter));
        self
    }

    /// Sets whether steps are written; they are by default. The stock client needs them: without them it sends the
    /// answers of a finished call again and again.
    pub fn include_step_events(mut self, include: bool) -> Self {
        self.include_step_events = include;
        self
    }

    /// Treats chunks up to a position as the past: requests for approval that are not among the open ones were
    /// answered, and are not shown again; recoveries are over.
    pub fn replaying(
        mut self,
        up_to: Sequence,
        open: impl IntoIterator<Item = ApprovalId>,
    ) -> Self {
        self.past = Some((up_to, open.into_iter().collect()));
        self
    }

    /// For a client that goes on with a message that it has up to this position: what it is spared. What was thrown
    /// away after that is news to it.
    pub fn continuing(mut self, seen: Sequence) -> Self {
        self.seen = Some(seen);
        self
    }

    pub(super) fn takes(&self, chunk: &Chunk) -> bool {
        self.filter.as_ref().is_none_or(|filter| filter(chunk))
    }

    pub(super) fn is_own(&self, chunk: &Chunk) -> bool {
        chunk.base.session_id == self.session
    }

    /// Whether a recovery at this position is over for the client.
    pub(super) fn is_past(&self, at: Sequence) -> bool {
        let is_past = self.past.as_ref().is_some_and(|(up_to, _)| at <= *up_to);
        is_past && self.seen.is_none_or(|seen| at <= seen)
    }

    /// Whether the client may show something of a step that began after `begun` and was thrown away at `at`: it was
    /// there in between, and the stream does not have it any more.
    pub(super) fn may_show(&self, begun: Sequence, at: Sequence) -> bool {
        self.seen.is_some_and(|seen| begun < seen && seen < at)
    }

    pub(super) fn shows_approval(&self, at: Sequence, approval: &ApprovalId) -> bool {
        match &self.past {
            Some((up_to, open)) if at <= *up_to => open.contains(approval),
            _ => true,
        }
    }
}

impl fmt::Debug for TransformerOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TransformerOptions")
            .field("session", &self.session)
            .field("include_step_events", &self.include_step_events)
            .finish_non_exhaustive()
    }
}
