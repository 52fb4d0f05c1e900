//! A host whose engine delivers every effect twice.

use async_trait::async_trait;
use helix_agents_core::machine::{Effect, EffectKind, Event, EventKind};
use helix_agents_core::perform::{Attempt, PerformError, Ports, perform};
use helix_agents_testkit::Host;

/// Performs every effect that ended in a commit again, as an engine does that lost the
/// acknowledgement, and continues with the second event.
struct RepeatingHost;

#[async_trait]
impl Host for RepeatingHost {
    async fn perform(&self, effect: Effect, ports: &Ports) -> Result<Event, PerformError> {
        let once = perform(&effect, Attempt::First, ports).await?;
        let is_durable = !matches!(effect.kind, EffectKind::Sleep { .. })
            && !matches!(once.what, EventKind::ModelFailed { .. });
        if !is_durable {
            return Ok(once);
        }
        let twice = perform(&effect, Attempt::Repeat, ports).await?;
        // A message may have been sent meanwhile.
        assert!(twice.messages_wait || !once.messages_wait, "{effect:?}");
        let mut same = twice.clone();
        same.messages_wait = once.messages_wait;
        // That a child has something to do is told once; else a sweeper finds it.
        same.wakes.clone_from(&once.wakes);
        assert_eq!(same, once, "{effect:?}");
        Ok(twice)
    }
}

helix_agents_testkit::crash_tests!(RepeatingHost, super::store);
