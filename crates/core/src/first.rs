//! Waiting for one of two things.

use std::future::Future;
use std::pin::pin;
use std::task::Poll;

/// The first of two things.
pub(crate) enum First<A, B> {
    /// The one that is asked first.
    One(A),
    /// The other.
    Other(B),
}

/// Waits for the first of two; the one that is named first wins a tie.
pub(crate) async fn first<A, B>(
    one: impl Future<Output = A>,
    other: impl Future<Output = B>,
) -> First<A, B> {
    let mut one = pin!(one);
    let mut other = pin!(other);
    std::future::poll_fn(|cx| {
        if let Poll::Ready(value) = one.as_mut().poll(cx) {
            return Poll::Ready(First::One(value));
        }
        other.as_mut().poll(cx).map(First::Other)
    })
    .await
}
