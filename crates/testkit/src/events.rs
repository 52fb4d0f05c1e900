//! Collects the `tracing` events of the framework.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use helix_agents_core::notify::Notify;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

/// Collects every event of the framework in this process, from the first use on.
#[derive(Debug, Default)]
pub struct Events {
    seen: Mutex<Vec<SeenEvent>>,
    bell: Notify,
}

/// One event: its level, and its fields as texts.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SeenEvent {
    /// The level of the event.
    pub level: Level,
    /// Its fields; `event` names it.
    pub fields: BTreeMap<&'static str, String>,
}

impl Events {
    /// The collector of this process. `None` when another subscriber is installed.
    #[must_use]
    pub fn of_this_process() -> Option<&'static Self> {
        static LISTENING: OnceLock<Option<Arc<Events>>> = OnceLock::new();
        let listening = LISTENING.get_or_init(|| {
            let events = Arc::new(Self::default());
            let set = tracing::subscriber::set_global_default(Arc::clone(&events));
            set.is_ok().then_some(events)
        });
        listening.as_deref()
    }

    /// Waits until there are `count` events whose field has this value, and returns them, oldest
    /// first.
    pub async fn until(&self, count: usize, field: &str, value: &str) -> Vec<SeenEvent> {
        loop {
            let heard = self.bell.heard();
            let seen = self.with(field, value);
            if seen.len() >= count {
                return seen;
            }
            heard.await;
        }
    }

    /// The events so far whose field has this value, oldest first.
    #[must_use]
    pub fn with(&self, field: &str, value: &str) -> Vec<SeenEvent> {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let has = |event: &&SeenEvent| event.fields.get(field).is_some_and(|it| it == value);
        seen.iter().filter(has).cloned().collect()
    }
}

impl SeenEvent {
    /// The name of the event, its field `event`.
    #[must_use]
    pub fn name(&self) -> &str {
        self.fields.get("event").map_or("", String::as_str)
    }
}

impl Subscriber for Events {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("helix_agents")
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut fields = Fields::default();
        event.record(&mut fields);
        let level = *event.metadata().level();
        let Fields(fields) = fields;
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.push(SeenEvent { level, fields });
        drop(seen);
        self.bell.ring();
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

#[derive(Default)]
struct Fields(BTreeMap<&'static str, String>);

impl Visit for Fields {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name(), value.to_owned());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.0.insert(field.name(), format!("{value:?}"));
    }
}
