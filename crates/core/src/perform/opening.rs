//! Makes a reply durable whose calls are still to be done.

use std::sync::Arc;

use super::PerformError;
use super::budget::CallUse;
use super::commit::{CommitOutcome, EffectCommit};
use super::deltas::Deltas;
use super::hooks::Hooks;
use super::intents::intents;
use super::patience::patiently;
use super::scope::EffectContext;
use super::view::SessionView;
use crate::id::CallId;
use crate::machine::{Event, EventKind, OpenStepRef};
use crate::session::OpenStep;
use crate::state::to_rfc6902;
use crate::store::Change;
use crate::stream::{Chunk, Sequence, reply_deltas};
use crate::transcript::Transcript;

/// A reply whose calls are still to be done.
pub(super) struct Opening<'a> {
    pub(super) open: Arc<OpenStep>,
    pub(super) deltas: Deltas<'a>,
    /// What readers are told with the commit.
    pub(super) chunks: Vec<Chunk>,
    pub(super) call_use: CallUse,
    /// The history before the reply.
    pub(super) history: &'a Transcript,
}

impl Opening<'_> {
    /// Commits the reply as the open step, with its intents. The reply is paid for: where something beside it refuses
    /// the commit, the same reply is committed in another way. If none of its calls may be run, it is given back with
    /// their results: then the step is settled.
    pub(super) async fn write(
        mut self,
        cx: EffectContext<'_>,
        hooks: &Hooks<'_>,
    ) -> Result<Result<Event, Self>, PerformError> {
        let EffectContext { scope, view, now } = cx;
        let (at, ports) = (scope.at(), scope.ports);
        let chunk = |payload| Chunk::new(Arc::clone(scope.base), now, payload);
        let mut said = Vec::new();
        // The same with what the tree has used by now.
        let mut counted: Option<SessionView> = None;
        loop {
            let cx = EffectContext {
                view: counted.as_ref().unwrap_or(view),
                ..cx
            };
            let unsent = self.chunks.len();
            let open = Arc::make_mut(&mut self.open);
            let calls = std::mem::take(&mut open.calls);
            let intents = intents(cx, hooks, &open.message, calls).await?;
            open.calls = intents.calls;
            self.call_use.tool_calls = intents.admitted;
            self.call_use.denied = intents.denied;
            self.chunks.extend(intents.told.into_iter().map(chunk));
            if open.is_settled() {
                self.chunks.extend(said.into_iter().map(chunk));
                return Ok(Err(self));
            }
            // Everything up to here was there before the reply: calls stream after its commit.
            open.start_sequence = match self.deltas.before().or(view.sequence) {
                Some(before) => before,
                None => patiently(ports, || ports.streams.info(&at.root_session_id))
                    .await?
                    .map_or(Sequence::START, |info| info.last),
            };
            open.state_before = view.state_version();
            said.extend(hooks.take_said());
            self.chunks.extend(said.iter().cloned().map(chunk));
            let writes = hooks.writes()?;
            let told = self.chunks.len();
            if !writes.is_empty() {
                // Readers learn of it before any call of the step begins.
                let patches = to_rfc6902(&writes, &view.state())?;
                let told = ports.bounds().state_patches(patches).map(chunk);
                self.chunks.splice(0..0, told);
            }
            let patched = self.chunks.len() - told;
            let settlement = cx.settlement(self.call_use);
            let fits = cx.tool_calls_fit(intents.admitted);
            let (open, chunks, questions) = (&self.open, &self.chunks, &intents.questions);
            let commit = || {
                let commit = cx.begin().unless_moved(None).chunks(chunks);
                let commit = commit
                    .budget(settlement.clone())
                    .write_state(&writes)
                    .change(Change::OpenStep(Some(Arc::clone(open))));
                let commit = fits.iter().cloned().fold(commit, |commit, fits| {
                    let root = at.root_session_id.clone();
                    commit.with(|commit| commit.when_in(root, fits))
                });
                questions.iter().cloned().fold(commit, EffectCommit::ask)
            };
            let error = match cx.scope.write(commit).await {
                Ok(CommitOutcome::Made(committed)) => {
                    let reference = OpenStepRef::of(open);
                    view.let_go();
                    drop(counted);
                    let open = self.open;
                    ports.memory.update(&committed, |view| {
                        view.write(&writes);
                        view.open = Some(open);
                    });
                    let replied = EventKind::Replied { open: reference };
                    let event = scope.event(replied);
                    return Ok(Ok(event.with_stop(committed.stop.is_some())));
                }
                Ok(CommitOutcome::Before(event)) => return Ok(Ok(event)),
                Err(error) => error,
            };
            if let Some(taken) = error.taken_call() {
                // Rare and large.
                Box::pin(self.rename(cx, taken)).await?;
            } else if error.is_over_budget() {
                self.chunks.drain(..patched);
                self.chunks.truncate(unsent);
                let mut now = view.clone();
                now.budget = Box::pin(scope.snapshot()).await?.budget;
                counted = Some(now);
            } else {
                return Err(error);
            }
        }
    }

    /// Gives a call another id: answers name a call by its id alone, and another session of the tree began to wait for a
    /// call of this one meanwhile. Readers are told the reply again, with the new id.
    async fn rename(&mut self, cx: EffectContext<'_>, taken: &CallId) -> Result<(), PerformError> {
        let (at, ports) = (cx.at(), cx.ports());
        tracing::info!(event = "call.renamed", session = %at.session_id, call = %taken);
        let mut ids = self.history.call_ids();
        let others = cx.view.taken_ids.iter().chain([taken]);
        ids.avoid(others.cloned(), &at.session_id);
        let message = &mut Arc::make_mut(&mut self.open).message;
        ids.replace(message, taken, ports.ids.as_ref())?;
        let payloads = reply_deltas(message);
        let reason = "another session waits for a call of the same id";
        self.deltas.discard(reason).await?;
        self.deltas.extend(payloads);
        self.chunks = self.deltas.take().await?;
        Ok(())
    }
}
