//! Starts the runs that messages wait for.

use std::future::Future;
use std::pin::Pin;

use helix_agents_core::SessionId;
use helix_agents_core::entries::Entered;
use helix_agents_core::runtime::{RunOptions, RuntimeError, StartedRun};
use helix_agents_core::store::{SessionKey, Snapshot};

use crate::LocalRuntime;
use crate::runtime::is_late;

impl LocalRuntime {
    /// Starts the run that messages wait for in a session. A failure is left to the sweeper of any process.
    pub(crate) fn deliver_waiting(
        self,
        root: SessionId,
        session: SessionId,
        options: RunOptions,
    ) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(async move {
            let key = SessionKey::new(&root, &session);
            let delivered = match self.inner.backend.store.load(key).await {
                Ok(Some(found)) => self.deliver(found, options).await.map(drop),
                Ok(None) => Ok(()),
                Err(error) => Err(error.into()),
            };
            match delivered {
                Ok(()) | Err(RuntimeError::ShuttingDown) => {}
                Err(RuntimeError::Entry(error)) if is_late(&error) => {}
                Err(error) => tracing::warn!(event = "run.not_started", %session, %error),
            }
        })
    }

    /// Starts the run that the messages in the inbox of a session wait for.
    pub(crate) async fn deliver(
        &self,
        found: Snapshot,
        options: RunOptions,
    ) -> Result<StartedRun, RuntimeError> {
        let agent = self.performed_agent(&found).await?;
        let session = found.state.session_id.clone();
        let delivered_to = agent.clone();
        let (entries, performer) = (self.inner.entries.clone(), self.inner.performer.clone());
        let entry = async move {
            let entered = entries.deliver(&delivered_to, found, &performer).await;
            entered.map(Entered::Run)
        };
        self.enter(Some(session), &agent, options, entry).await
    }
}
