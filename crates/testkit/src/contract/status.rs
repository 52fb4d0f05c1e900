//! Statuses and counters of a session.

use helix_agents_core::error::{ErrorCode, ErrorRecord};
use helix_agents_core::session::{InterruptContext, SessionStatus};
use helix_agents_core::store::{CasOutcome, StatusContext, StoreError};

use super::Subject;
use super::builders::{created, run, session};

fn at_version(version: u64) -> StatusContext {
    let mut context = StatusContext::default();
    context.expected_version = Some(version);
    context
}

/// A status is set only over an expected one; otherwise the caller is told the current status.
///
/// proves: STO-01
pub async fn a_status_is_set_only_over_an_expected_one(on: &Subject) {
    let id = created(on, "s").await;
    let set = async |expected: &[SessionStatus], to, context| {
        on.sessions()
            .compare_and_set_status(&id, expected, to, context)
            .await
            .unwrap()
    };
    let any = [SessionStatus::Active, SessionStatus::Paused];
    let none = StatusContext::default;
    let done = set(&any, SessionStatus::Paused, none()).await;
    assert_eq!(done, CasOutcome::Done { version: 2 });
    let mismatch = CasOutcome::Mismatch {
        status: SessionStatus::Paused,
        version: 2,
    };
    let active = [SessionStatus::Active];
    assert_eq!(set(&active, SessionStatus::Failed, none()).await, mismatch);
    assert_eq!(set(&[], SessionStatus::Failed, none()).await, mismatch);
    let stale = set(&any, SessionStatus::Failed, at_version(1)).await;
    assert_eq!(stale, mismatch, "the version counts when one is given");
    let found = on.sessions().load_state(&id).await.unwrap().unwrap();
    assert_eq!((found.status, found.version), (SessionStatus::Paused, 2));
    let done = set(&any, SessionStatus::Active, at_version(2)).await;
    assert_eq!(done, CasOutcome::Done { version: 3 });

    let missing = on
        .sessions()
        .compare_and_set_status(&session("nobody"), &any, SessionStatus::Active, none())
        .await;
    assert!(
        matches!(missing, Err(StoreError::NotFound { .. })),
        "{missing:?}"
    );
}

/// The fields of a status are written together with it: of two concurrent resumes only one wins.
///
/// proves: STO-01
pub async fn exactly_one_of_many_changes_of_one_status_succeeds(on: &Subject) {
    let id = created(on, "s").await;
    let outcomes = on.at_once(12, async |on, index| {
        let mut context = StatusContext::default();
        let why = Some(format!("by {index}"));
        context.interrupt_context = Some(InterruptContext::new(run("run"), why, on.now()));
        context.error = Some(ErrorRecord::new(ErrorCode::MaxSteps, format!("by {index}")));
        let (from, to) = ([SessionStatus::Active], SessionStatus::Interrupted);
        on.sessions()
            .compare_and_set_status(&id, &from, to, context)
            .await
            .unwrap()
    });
    let winners: Vec<usize> = (0..12)
        .filter(|index| outcomes[*index] == CasOutcome::Done { version: 2 })
        .collect();
    assert_eq!(winners.len(), 1, "exactly one moves it: {outcomes:?}");
    let lost = CasOutcome::Mismatch {
        status: SessionStatus::Interrupted,
        version: 2,
    };
    assert_eq!(
        outcomes.iter().filter(|outcome| **outcome == lost).count(),
        11
    );
    let found = on.sessions().load_state(&id).await.unwrap().unwrap();
    let by = Some(format!("by {}", winners[0]));
    assert_eq!(
        found.interrupt_context.and_then(|context| context.reason),
        by
    );
    assert_eq!(found.error.map(|error| error.detail), by);
}

/// A status can also be set over any other status.
///
/// proves: STO-09
pub async fn a_status_can_be_set_over_any_other(on: &Subject) {
    let id = created(on, "s").await;
    let all = [
        SessionStatus::Completed,
        SessionStatus::Failed,
        SessionStatus::Interrupted,
        SessionStatus::Paused,
        SessionStatus::Active,
    ];
    for status in all {
        let context = StatusContext::default();
        on.sessions()
            .update_status(&id, status, context)
            .await
            .unwrap();
        let found = on.elsewhere().sessions().load_state(&id).await.unwrap();
        assert_eq!(found.unwrap().status, status);
    }
    let late = on
        .sessions()
        .update_status(&id, SessionStatus::Failed, at_version(1))
        .await;
    assert!(matches!(late, Err(StoreError::Refused { .. })), "{late:?}");
}

/// Concurrent increments are all counted.
///
/// proves: STO-03
pub async fn counters_lose_no_increment(on: &Subject) {
    const WRITERS: usize = 8;
    const EACH: usize = 10;
    let id = created(on, "s").await;
    on.at_once(WRITERS, async |on, _| {
        for _ in 0..EACH {
            on.sessions().increment_step_count(&id).await.unwrap();
            on.sessions().increment_resume_count(&id).await.unwrap();
        }
    });
    let found = on.sessions().load_state(&id).await.unwrap().unwrap();
    assert_eq!(found.step_count as usize, WRITERS * EACH);
    assert_eq!(found.resume_count, (WRITERS * EACH) as u64);
    assert_eq!(found.version, 1 + 2 * (WRITERS * EACH) as u64);
}
