//! The memory that answers may take together.
//!
//! An answer takes memory until its reader has read it, and who does not read it holds on to it until
//! the connection is cut. So large answers share a budget, and each user's share of it is smaller.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use axum::response::{IntoResponse, Response};
use helix_agents_core::UserId;
use http_body_util::BodyExt;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use crate::ApiError;
use crate::query::ANSWER_BYTES;

/// How long is waited until others have read theirs.
const PATIENCE: Duration = Duration::from_secs(1);
/// What an answer has at least that counts.
const LARGE: usize = 64 * 1024;
/// What is counted: permits are numbers of 32 bits.
const UNIT: usize = 1024;

/// The memory that answers may take.
#[derive(Debug)]
pub(crate) struct Budget {
    all: Share,
    of_one: usize,
    users: Mutex<HashMap<UserId, Weak<Semaphore>>>,
}

/// So many units, and who has them.
#[derive(Debug, Clone)]
struct Share {
    units: u32,
    free: Arc<Semaphore>,
}

impl Share {
    fn new(bytes: usize) -> Self {
        let units = units(bytes);
        let free = usize::try_from(units).unwrap_or(Semaphore::MAX_PERMITS);
        Self {
            units,
            free: Arc::new(Semaphore::new(free)),
        }
    }

    /// As much as is asked for, or all there is.
    async fn take(&self, bytes: usize) -> Option<OwnedSemaphorePermit> {
        let wanted = units(bytes).min(self.units);
        Arc::clone(&self.free).acquire_many_owned(wanted).await.ok()
    }
}

fn units(bytes: usize) -> u32 {
    u32::try_from(bytes.div_ceil(UNIT).max(1)).unwrap_or(u32::MAX)
}

/// A part of the budget, given back when it is dropped.
#[derive(Debug, Default)]
pub(crate) struct Held(Vec<OwnedSemaphorePermit>);

impl Budget {
    pub(crate) fn new(bytes: usize, of_one: usize) -> Self {
        Self {
            all: Share::new(bytes),
            of_one,
            users: Mutex::default(),
        }
    }

    /// What an answer needs whose size is not known yet.
    pub(crate) async fn reserve(&self, user: Option<&UserId>) -> Result<Held, ApiError> {
        self.take(user, ANSWER_BYTES).await
    }

    /// The answer, which holds what it needs until it is read or thrown away.
    pub(crate) async fn charge(
        &self,
        user: Option<&UserId>,
        mut held: Held,
        response: Response,
    ) -> Response {
        let Some(size) = response.body().size_hint().exact() else {
            return response;
        };
        let size = usize::try_from(size).unwrap_or(usize::MAX);
        if size < LARGE {
            return response;
        }
        if let Some(more) = size.checked_sub(ANSWER_BYTES) {
            match self.take(user, more).await {
                Ok(more) => held.0.extend(more.0),
                Err(refused) => return refused.into_response(),
            }
        }
        let (parts, body) = response.into_parts();
        match body.collect().await {
            Ok(whole) => {
                let bytes = whole.to_bytes();
                let bytes = Bytes::from_owner(Owned { bytes, _held: held });
                Response::from_parts(parts, Body::from(bytes))
            }
            Err(error) => ApiError::internal(error.to_string()).into_response(),
        }
    }

    async fn take(&self, user: Option<&UserId>, bytes: usize) -> Result<Held, ApiError> {
        let theirs = user.map(|user| self.share_of(user));
        let taken = async {
            let mut held = Vec::new();
            if let Some(theirs) = &theirs {
                held.extend(theirs.take(bytes).await);
            }
            held.extend(self.all.take(bytes).await);
            Held(held)
        };
        let late = "too many large answers are not read yet; read them, then ask again";
        timeout(PATIENCE, taken)
            .await
            .map_err(|_| ApiError::rate_limited(late, 1))
    }

    /// What one user may take. It is forgotten when nothing of it is taken.
    fn share_of(&self, user: &UserId) -> Share {
        let mut users = self.users.lock().unwrap_or_else(PoisonError::into_inner);
        let units = units(self.of_one);
        if let Some(free) = users.get(user).and_then(Weak::upgrade) {
            return Share { units, free };
        }
        users.retain(|_, share| share.strong_count() > 0);
        let share = Share::new(self.of_one);
        users.insert(user.clone(), Arc::downgrade(&share.free));
        share
    }
}

/// Bytes, and what they hold of the budget.
struct Owned {
    bytes: Bytes,
    _held: Held,
}

impl AsRef<[u8]> for Owned {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}
