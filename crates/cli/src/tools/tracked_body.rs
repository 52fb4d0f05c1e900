//! A request body that records whether it was polled.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use hyper::body::{Body, Bytes, Frame, SizeHint};

/// A body that records when the client first polls it, which happens once there is a connection and
/// the request is sent. Before that the server has received nothing, however the request ends.
pub(super) struct TrackedBody {
    rest: Option<Bytes>,
    asked: Arc<AtomicBool>,
}

impl TrackedBody {
    /// Creates a body, and a flag that is set once it was polled.
    pub(super) fn new(bytes: &[u8]) -> (Self, Arc<AtomicBool>) {
        let asked = Arc::new(AtomicBool::new(false));
        let body = Self {
            rest: Some(Bytes::copy_from_slice(bytes)),
            asked: Arc::clone(&asked),
        };
        (body, asked)
    }
}

impl Body for TrackedBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.asked.store(true, Ordering::Release);
        Poll::Ready(self.rest.take().map(|bytes| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        let left = self.rest.as_ref().map_or(0, Bytes::len);
        SizeHint::with_exact(u64::try_from(left).unwrap_or(u64::MAX))
    }
}
