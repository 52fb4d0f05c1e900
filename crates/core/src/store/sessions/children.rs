//! References to child sessions.

use super::Sessions;
use crate::id::SessionId;
use crate::session::{ChildStatus, SubSessionRef};
use crate::store::{Change, SessionReceipt, StoreError};

#[doc(hidden)]
impl Sessions<'_> {
    /// Adds references to child sessions.
    ///
    /// # Errors
    /// [`StoreError::NotFound`] if the session does not exist.
    pub async fn add_sub_session_refs(
        &self,
        session: &SessionId,
        children: Vec<SubSessionRef>,
    ) -> Result<SessionReceipt, StoreError> {
        let mut commit = self.commit_on(session).await?;
        for child in children {
            commit = commit.then(Change::Child(Box::new(child)));
        }
        self.write(commit).await
    }

    /// Sets the status of a child reference.
    ///
    /// # Errors
    /// [`StoreError::NotFound`] for the session, [`StoreError::Invalid`] for the child.
    pub async fn update_sub_session_ref(
        &self,
        session: &SessionId,
        child: &SessionId,
        status: ChildStatus,
    ) -> Result<SessionReceipt, StoreError> {
        let (committed, ()) = self
            .retrying(session, None, async |snapshot| {
                let children = self.get_sub_session_refs(session).await?;
                let found = children.into_iter().find(|one| one.session_id == *child);
                let Some(mut found) = found else {
                    return Err(StoreError::Invalid {
                        session: session.clone(),
                        reason: format!("it has no child {child}"),
                    });
                };
                found.status = status;
                let commit = self.commit_after(snapshot);
                Ok((commit.then(Change::Child(Box::new(found))), ()))
            })
            .await?;
        Ok(committed)
    }

    /// Lists the references to child sessions, oldest first.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub async fn get_sub_session_refs(
        &self,
        session: &SessionId,
    ) -> Result<Vec<SubSessionRef>, StoreError> {
        let place = self.locate(session).await?;
        let family = self.store.extras(place.key()).await?;
        Ok(family.children)
    }
}
