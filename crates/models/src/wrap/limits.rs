//! Limits on calls, shared by everything in a process that has the same limiter.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::{StreamExt, stream};
use helix_agents_core::model::{
    EventStream, Model, ModelError, ModelEvent, ModelLimits, ModelRequest, TokenUsage,
};
use helix_agents_core::time::Timestamp;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

const MINUTE: Duration = Duration::from_secs(60);

/// Limits on model calls: how many at once, how many a minute, and how many tokens a minute. Clones share
/// them, and so do all models with the same limiter.
///
/// A call that would exceed a limit waits. The tokens of a call are known when it ends; until then it counts
/// as many as the last call used.
///
/// ```
/// use helix_agents_models::{Limited, Limiter, Script, ScriptedModel};
///
/// let account = Limiter::new().concurrent(8).requests_per_minute(500).tokens_per_minute(200_000);
/// let script = Script::parse(r#"{ "default": [ { "text": "Hi" } ] }"#)?;
/// let small = Limited::new(ScriptedModel::new(script.clone()), &account);
/// let large = Limited::new(ScriptedModel::new(script), &account);
/// # Ok::<(), helix_agents_models::ScriptError>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct Limiter {
    concurrent: Option<Arc<Semaphore>>,
    requests: Option<usize>,
    tokens: Option<u64>,
    window: Arc<Mutex<Window>>,
}

/// The calls of the last minute, oldest first.
#[derive(Debug, Default)]
struct Window {
    calls: VecDeque<Counted>,
    next: u64,
    /// The tokens of the last call that ended.
    usual: u64,
}

#[derive(Debug)]
struct Counted {
    number: u64,
    at: Timestamp,
    tokens: u64,
}

impl Limiter {
    /// Creates a limiter without limits.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Limits how many calls are in progress at once; at least one always may be.
    #[must_use]
    pub fn concurrent(mut self, calls: usize) -> Self {
        self.concurrent = Some(Arc::new(Semaphore::new(calls.max(1))));
        self
    }

    /// Limits how many calls begin within a minute; at least one always may.
    #[must_use]
    pub fn requests_per_minute(mut self, requests: usize) -> Self {
        self.requests = Some(requests.max(1));
        self
    }

    /// Limits the tokens of all calls within a minute. A single call may exceed it alone.
    #[must_use]
    pub fn tokens_per_minute(mut self, tokens: u64) -> Self {
        self.tokens = Some(tokens);
        self
    }

    fn window(&self) -> MutexGuard<'_, Window> {
        self.window.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a call that begins now, or returns until when it must wait.
    fn begin(&self, now: Timestamp) -> Result<u64, Timestamp> {
        let mut window = self.window();
        let is_over = |call: &Counted| call.at.saturating_add(MINUTE) <= now;
        while window.calls.front().is_some_and(is_over) {
            window.calls.pop_front();
        }
        let expected = window.usual;
        let mut tokens: u64 = window.calls.iter().map(|call| call.tokens).sum();
        let mut count = window.calls.len();
        let mut wait = None;
        // The oldest calls leave the window first.
        for call in &window.calls {
            let many = self.requests.is_some_and(|limit| count >= limit);
            let much = self
                .tokens
                .is_some_and(|limit| tokens.saturating_add(expected) > limit);
            if !many && !much {
                break;
            }
            wait = Some(call.at.saturating_add(MINUTE));
            count -= 1;
            tokens -= call.tokens;
        }
        if let Some(wait) = wait {
            return Err(wait);
        }
        let number = window.next;
        window.next += 1;
        window.calls.push_back(Counted {
            number,
            at: now,
            tokens: expected,
        });
        Ok(number)
    }

    /// Counts the tokens that a call has used.
    fn used(&self, number: u64, tokens: u64) {
        let mut window = self.window();
        window.usual = tokens;
        if let Some(call) = window.calls.iter_mut().find(|call| call.number == number) {
            call.tokens = tokens;
        }
    }
}

/// A model whose calls are limited.
#[derive(Debug, Clone)]
pub struct Limited<M> {
    model: M,
    limiter: Limiter,
}

impl<M: Model> Limited<M> {
    /// Puts a model under the limits of a limiter.
    #[must_use]
    pub fn new(model: M, limiter: &Limiter) -> Self {
        Self {
            model,
            limiter: limiter.clone(),
        }
    }
}

/// A call that waits, or is in progress.
struct Attempt<'a> {
    model: &'a dyn Model,
    limiter: &'a Limiter,
    request: ModelRequest<'a>,
    call: Option<Call<'a>>,
}

struct Call<'a> {
    number: u64,
    events: EventStream<'a>,
    /// Held until the call is over.
    _permit: Option<OwnedSemaphorePermit>,
}

impl<'a> Attempt<'a> {
    async fn next(&mut self) -> Option<Result<ModelEvent, ModelError>> {
        if self.call.is_none() {
            let permit = match &self.limiter.concurrent {
                // The semaphore is never closed.
                Some(concurrent) => Arc::clone(concurrent).acquire_owned().await.ok(),
                None => None,
            };
            let number = loop {
                match self.limiter.begin(self.request.clock.now()) {
                    Ok(number) => break number,
                    Err(wait) => self.request.clock.sleep_until(wait).await,
                }
            };
            self.call = Some(Call {
                number,
                events: self.model.stream(self.request.clone()),
                _permit: permit,
            });
        }
        let call = self.call.as_mut()?;
        let event = call.events.next().await?;
        if let Ok(ModelEvent::Usage(usage) | ModelEvent::Finished { usage, .. }) = &event {
            self.limiter.used(call.number, usage.total());
        }
        Some(event)
    }
}

impl<M: Model> Model for Limited<M> {
    fn stream<'a>(&'a self, request: ModelRequest<'a>) -> EventStream<'a> {
        let attempt = Box::new(Attempt {
            model: &self.model,
            limiter: &self.limiter,
            request,
            call: None,
        });
        Box::pin(stream::unfold(attempt, |mut attempt| async {
            let event = attempt.next().await?;
            Some((event, attempt))
        }))
    }

    fn name(&self) -> &str {
        self.model.name()
    }

    fn supports_native_output(&self) -> bool {
        self.model.supports_native_output()
    }

    fn limits(&self) -> ModelLimits {
        self.model.limits()
    }

    fn cost(&self, tokens: &TokenUsage) -> Option<u64> {
        self.model.cost(tokens)
    }
}
