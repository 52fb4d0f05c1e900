//! One clock judges leases and due work: a process whose own clock is ahead takes no lease and no
//! due work.

use std::sync::Arc;
use std::time::Duration;

use helix_agents_core::SessionId;
use helix_agents_core::entries::EntryError;
use helix_agents_core::store::{Change, DueQuery, Field, Lease, LeaseRequest, Precondition};
use helix_agents_core::time::{Clock, Timestamp};

use super::Subject;
use super::builders::{changed, commit, created, running};
use super::everything::everything;
use super::takeovers::{entries, performer};
use crate::VirtualClock;

const TEN: Duration = Duration::from_secs(10);
const HOUR: Duration = Duration::from_secs(3600);

/// A session with a run whose lease is valid for ten seconds.
async fn leased_session(on: &Subject) -> SessionId {
    let id = created(on, "s").await;
    running(on, &id, "run").await;
    let lease = LeaseRequest::new("a", TEN);
    changed(on, &id, Change::Lease(Some(lease))).await;
    id
}

fn hour_ahead(on: &Subject) -> Timestamp {
    on.now().saturating_add(HOUR)
}

/// A caller whose clock is ahead does not make leases lapse.
pub async fn a_caller_whose_clock_is_ahead_takes_no_lease(on: &Subject) {
    let id = leased_session(on).await;
    let before = everything(on, &[&id]).await;
    let ahead = Arc::new(VirtualClock::new(hour_ahead(on)));
    let taken = entries(on, ahead).recover(&id, &performer("b")).await;
    assert!(
        matches!(taken, Err(EntryError::StillHeld { .. })),
        "{taken:?}"
    );
    let mut theft = commit(on, &id).when(Precondition::LeaseFree);
    theft.at = hour_ahead(on);
    assert!(
        on.store
            .commit(theft.then(Change::RaiseFence))
            .await
            .is_err()
    );
    assert_eq!(everything(on, &[&id]).await, before, "nothing is written");
}

/// A caller whose clock is ahead does not make work due.
pub async fn a_caller_whose_clock_is_ahead_finds_nothing_due(on: &Subject) {
    let id = leased_session(on).await;
    let expiring = created(on, "t").await;
    let at = on.now().saturating_add(TEN);
    let expires = Field::ExpiresAt(Some(at));
    changed(on, &expiring, Change::Set(expires)).await;
    let early = on.store.due(&DueQuery::at(hour_ahead(on))).await.unwrap();
    assert_eq!((early.at, early.items), (on.now(), Vec::new()));
    on.clock.advance(TEN);
    // Nor does it wait for a caller whose clock is behind.
    let due = on.store.due(&DueQuery::at(Timestamp::default())).await;
    let due: Vec<_> = due
        .unwrap()
        .items
        .into_iter()
        .map(|due| due.session)
        .collect();
    assert_eq!(due, [id, expiring]);
}

/// A lease that is requested by a process whose clock is ahead or behind lasts as long as any
/// other.
pub async fn a_lease_lasts_for_the_requested_time(on: &Subject) {
    let id = created(on, "s").await;
    running(on, &id, "run").await;
    for at in [hour_ahead(on), Timestamp::default()] {
        let lease = Change::Lease(Some(LeaseRequest::new("a", TEN)));
        let mut taking = commit(on, &id).then(lease);
        taking.at = at;
        on.store.commit(taking).await.unwrap();
        let found = on.store.load(id.as_root()).await.unwrap().unwrap();
        let until = on.clock.now().saturating_add(TEN);
        assert_eq!(found.lease, Some(Lease::new("a", until)));
    }
}
