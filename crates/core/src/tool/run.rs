//! The code behind a tool.

use std::future::Future;

use async_trait::async_trait;
use serde_json::Value;

use super::{ToolCx, ToolResult};
use crate::maybe_send::MaybeSend;

/// Runs a tool. The arguments have been checked against the tool's schema.
#[cfg_attr(target_arch = "wasm32", async_trait(?Send))]
#[cfg_attr(not(target_arch = "wasm32"), async_trait)]
pub trait Execute: Send + Sync {
    /// Runs it once.
    async fn execute(&self, arguments: Value, cx: ToolCx) -> ToolResult<Value>;
}

/// Decides whether a call needs a person's approval. Failing means: ask.
#[cfg_attr(target_arch = "wasm32", async_trait(?Send))]
#[cfg_attr(not(target_arch = "wasm32"), async_trait)]
pub trait ApprovalRule: Send + Sync {
    /// Whether this call needs approval.
    async fn needs_approval(&self, arguments: &Value, cx: &ToolCx) -> ToolResult<bool>;
}

/// Finds out what became of a call that started and has no result.
#[cfg_attr(target_arch = "wasm32", async_trait(?Send))]
#[cfg_attr(not(target_arch = "wasm32"), async_trait)]
pub trait Reconcile: Send + Sync {
    /// Looks outside, usually by the call's idempotency key.
    async fn reconcile(&self, arguments: Value, cx: ToolCx) -> ToolResult<Reconciled<Value>>;
}

/// The outcome of a call, as a reconciler finds it.
///
/// ```
/// use helix_agents::prelude::*;
/// use helix_agents::Reconciled;
///
/// async fn find_out(key: &str) -> ToolResult<Reconciled<String>> {
/// # let receipts = std::collections::HashMap::<String, String>::new();
///     Ok(match receipts.get(key) {
///         Some(receipt) => Reconciled::Done(receipt.clone()),
///         None => Reconciled::NotDone,
///     })
/// }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reconciled<T> {
    /// It took effect, with this result.
    Done(T),
    /// It did not take effect: it may be run.
    NotDone,
    /// Nobody can say.
    Unknown,
}

impl<T> Reconciled<T> {
    /// The same outcome with another result.
    pub fn try_map<U, E>(self, map: impl FnOnce(T) -> Result<U, E>) -> Result<Reconciled<U>, E> {
        Ok(match self {
            Self::Done(value) => Reconciled::Done(map(value)?),
            Self::NotDone => Reconciled::NotDone,
            Self::Unknown => Reconciled::Unknown,
        })
    }
}

// Plain closures are the code of most tools; these impls erase them.

#[cfg_attr(target_arch = "wasm32", async_trait(?Send))]
#[cfg_attr(not(target_arch = "wasm32"), async_trait)]
impl<F, Fut> Execute for F
where
    F: Fn(Value, ToolCx) -> Fut + Send + Sync,
    Fut: Future<Output = ToolResult<Value>> + MaybeSend,
{
    async fn execute(&self, arguments: Value, cx: ToolCx) -> ToolResult<Value> {
        self(arguments, cx).await
    }
}

#[cfg_attr(target_arch = "wasm32", async_trait(?Send))]
#[cfg_attr(not(target_arch = "wasm32"), async_trait)]
impl<F, Fut> ApprovalRule for F
where
    F: Fn(Value, ToolCx) -> Fut + Send + Sync,
    Fut: Future<Output = ToolResult<bool>> + MaybeSend,
{
    async fn needs_approval(&self, arguments: &Value, cx: &ToolCx) -> ToolResult<bool> {
        self(arguments.clone(), cx.clone()).await
    }
}

#[cfg_attr(target_arch = "wasm32", async_trait(?Send))]
#[cfg_attr(not(target_arch = "wasm32"), async_trait)]
impl<F, Fut> Reconcile for F
where
    F: Fn(Value, ToolCx) -> Fut + Send + Sync,
    Fut: Future<Output = ToolResult<Reconciled<Value>>> + MaybeSend,
{
    async fn reconcile(&self, arguments: Value, cx: ToolCx) -> ToolResult<Reconciled<Value>> {
        self(arguments, cx).await
    }
}
