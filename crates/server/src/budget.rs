//! The memory budget of large responses.
//!
//! A response takes memory until its client has read it, or until the connection of a client that
//! does not read is closed. Large responses therefore share a budget, of which each user has a
//! smaller share.

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

/// How long a request waits for a part of the budget.
const PATIENCE: Duration = Duration::from_secs(1);
/// The minimum size of a response that counts.
const LARGE: usize = 64 * 1024;
/// The unit of counting, because permits are 32-bit numbers.
const UNIT: usize = 1024;

/// The memory budget of large responses.
#[derive(Debug)]
pub(crate) struct Budget {
    all: Share,
    of_one: usize,
    users: Mutex<HashMap<UserId, Weak<Semaphore>>>,
}

/// A number of units, with a semaphore for the free ones.
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

    /// Takes as much as is asked for, or at most the whole share.
    async fn take(&self, bytes: usize) -> Option<OwnedSemaphorePermit> {
        let wanted = units(bytes).min(self.units);
        Arc::clone(&self.free).acquire_many_owned(wanted).await.ok()
    }
}

fn units(bytes: usize) -> u32 {
    u32::try_from(bytes.div_ceil(UNIT).max(1)).unwrap_or(u32::MAX)
}

/// A part of the budget, released when it is dropped.
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

    /// Reserves the budget for a response whose size is not known yet.
    pub(crate) async fn reserve(&self, user: Option<&UserId>) -> Result<Held, ApiError> {
        self.take(user, ANSWER_BYTES).await
    }

    /// Returns the response, which holds its part of the budget until it is read or dropped.
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
        let late = "too many large responses have not been read yet; read them, then try again";
        timeout(PATIENCE, taken)
            .await
            .map_err(|_| ApiError::rate_limited(late, 1))
    }

    /// Returns the share of a user. It is forgotten when none of it is taken.
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

/// Bytes that hold a part of the budget.
struct Owned {
    bytes: Bytes,
    _held: Held,
}

impl AsRef<[u8]> for Owned {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}
