//! Reads the session of an effect.

use super::patience::patiently;
use super::recorded::recorded;
use super::scope::Scope;
use super::{PerformError, SessionView};
use crate::machine::{EffectKind, Event};
use crate::store::{Page, SessionKey, Snapshot};
use crate::transcript::Transcript;

/// The session of an effect as it was read.
pub(super) enum Reading {
    /// The effect is to be performed on this session.
    View(SessionView),
    /// The commit of the effect was made before; this is its event.
    Recorded(Event),
}

impl Scope<'_> {
    /// Reads the session, or remembers it.
    pub(super) async fn reading(self) -> Result<Reading, PerformError> {
        if let Some(view) = self.ports.memory.view() {
            return Ok(Reading::View(view));
        }
        self.fresh_reading().await
    }

    /// Reads the session, whatever is remembered.
    pub(super) async fn fresh_reading(self) -> Result<Reading, PerformError> {
        let memory = &self.ports.memory;
        let before = memory.changes();
        let reading = self.judge(self.snapshot().await?)?;
        if let Reading::View(view) = &reading {
            memory.keep_read(view, before);
        }
        Ok(reading)
    }

    /// Finds out by what is stored whether the effect is to be performed.
    ///
    /// # Errors
    /// [`PerformError::Overtaken`] when the run has gone on without this attempt.
    pub(super) fn judge(self, snapshot: Snapshot) -> Result<Reading, PerformError> {
        if let Some(event) = recorded(self, &snapshot) {
            return Ok(Reading::Recorded(event));
        }
        let is_call = matches!(
            self.effect.kind,
            EffectKind::Tool { .. } | EffectKind::Child { .. }
        );
        if !is_call && snapshot.mark.effect >= self.at().n {
            // Later effects were committed.
            return Err(self.overtaken());
        }
        let view = SessionView::of(snapshot, self)?;
        Ok(Reading::View(view))
    }

    /// Reads what is stored, patiently.
    ///
    /// # Errors
    /// [`PerformError::Superseded`] when the run was taken over, or its session removed.
    pub(super) async fn snapshot(self) -> Result<Snapshot, PerformError> {
        let (at, ports) = (self.at(), self.ports);
        let snapshot = patiently(ports, || ports.store.load(at.key())).await?;
        let snapshot = snapshot.ok_or_else(|| self.superseded())?;
        let is_mine = snapshot.fence == at.fence
            && snapshot.run.as_ref().is_some_and(|run| run.id == at.run_id);
        if !is_mine {
            return Err(self.superseded());
        }
        if at.key().is_root() {
            return Ok(snapshot);
        }
        // Boxed: every effect holds this future, and few sessions have a parent.
        Box::pin(self.with_budget_of_root(snapshot)).await
    }

    /// Adds what the root keeps for all: the counters of all budgets, and who waits for which call.
    async fn with_budget_of_root(self, mut snapshot: Snapshot) -> Result<Snapshot, PerformError> {
        let (root, ports) = (&self.at().root_session_id, self.ports);
        let root = SessionKey::new(root, root);
        let root = patiently(ports, || ports.store.load(root)).await?;
        if let Some(root) = root {
            snapshot.budget = root.budget;
            snapshot.state.client_tool_call_ownership = root.state.client_tool_call_ownership;
        }
        Ok(snapshot)
    }

    /// The history of the session. It is read once, and remembered.
    pub(super) async fn history(self, view: &mut SessionView) -> Result<Transcript, PerformError> {
        if let Some(history) = &view.transcript {
            return Ok(history.clone());
        }
        let (at, ports) = (self.at(), self.ports);
        let messages = patiently(ports, || ports.store.messages(at.key(), Page::ALL)).await?;
        let (mut history, _) = Transcript::load(messages.items);
        let family = patiently(ports, || ports.store.extras(at.key())).await?;
        history.retire_call_ids(family.retired_call_ids);
        view.transcript = Some(history.clone());
        ports.memory.keep_history(&history);
        Ok(history)
    }
}
