//! Requests to stop a run: durable, for that run alone, and delivered at once.

use std::pin::pin;

use futures_util::future::poll_immediate;
use helix_agents_core::session::{ChildMode, RunStatus, StopKind, StopRequest, SubSessionRef};
use helix_agents_core::store::{Change, Precondition, SessionKey};

use super::Subject;
use super::builders::{accepted, call, changed, child_of, commit, created, run, running, stop};
use super::runner::in_time;

const HEARD: &str = "every watcher must receive a request to stop its run";

/// Without a running run a request has no effect.
///
/// proves: STO-04
pub async fn nothing_is_asked_to_stop_when_nothing_runs(on: &Subject) {
    let id = created(on, "s").await;
    assert!(!on.sessions().set_interrupt_flag(&id, None).await.unwrap());
    let (first, _) = running(on, &id, "first").await;
    on.sessions()
        .update_run_status(&id, &first, RunStatus::Completed)
        .await
        .unwrap();
    assert!(!on.sessions().set_interrupt_flag(&id, None).await.unwrap());
    changed(on, &id, Change::Stop(stop(on, &first))).await;
    assert_eq!(
        on.store.load(id.as_root()).await.unwrap().unwrap().stop,
        None,
        "it has ended"
    );
    assert_eq!(on.sessions().check_interrupt_flag(&id).await.unwrap(), None);
}

/// A suspended run can be asked to stop: the request waits for the run that continues it. The
/// interrupt flag is only for a running one.
pub async fn a_suspended_run_is_asked_to_stop(on: &Subject) {
    let id = created(on, "s").await;
    let (waits, _) = running(on, &id, "waits").await;
    let suspended = RunStatus::SuspendedClientTool;
    let sessions = on.sessions();
    let updated = sessions.update_run_status(&id, &waits, suspended).await;
    updated.unwrap();
    assert!(!sessions.set_interrupt_flag(&id, None).await.unwrap());
    let asked = sessions.request_stop(&id, StopKind::Abort, None).await;
    assert_eq!(asked.unwrap().as_ref(), Some(&waits));
    let stop = on.store.load(id.as_root()).await.unwrap().unwrap().stop;
    let stop = stop.map(|stop| (stop.run_id, stop.kind));
    assert_eq!(stop, Some((waits, StopKind::Abort)));
}

/// A request names a run, and applies to no other run.
///
/// proves: STO-04
pub async fn a_request_to_stop_is_for_one_run(on: &Subject) {
    let id = created(on, "s").await;
    let (first, _) = running(on, &id, "first").await;
    changed(on, &id, Change::Stop(stop(on, &run("another")))).await;
    assert_eq!(on.sessions().check_interrupt_flag(&id).await.unwrap(), None);
    assert!(on.sessions().set_interrupt_flag(&id, None).await.unwrap());
    // The next run starts without it.
    let (second, _) = running(on, &id, "second").await;
    assert_eq!(on.sessions().check_interrupt_flag(&id).await.unwrap(), None);
    changed(on, &id, Change::Stop(stop(on, &first))).await;
    assert_eq!(on.sessions().check_interrupt_flag(&id).await.unwrap(), None);
    let mut wanted = StopRequest::new(second, StopKind::Abort, on.now());
    wanted.reason = Some("enough".to_owned());
    let committed = changed(on, &id, Change::Stop(wanted.clone())).await;
    assert_eq!(committed.stop.as_ref(), Some(&wanted));
    assert_eq!(
        on.store.load(id.as_root()).await.unwrap().unwrap().stop,
        Some(wanted)
    );
}

/// The first request counts, except that an abort replaces an interrupt; nothing replaces an abort.
pub async fn an_abort_is_not_taken_back(on: &Subject) {
    let id = created(on, "s").await;
    let (asked, _) = running(on, &id, "run").await;
    let request = |kind, reason: &str| {
        let mut request = StopRequest::new(asked.clone(), kind, on.now());
        request.reason = Some(reason.to_owned());
        request
    };
    let first = request(StopKind::Interrupt, "first");
    let abort = request(StopKind::Abort, "enough");
    for (next, stands) in [
        (first.clone(), &first),
        (request(StopKind::Interrupt, "second"), &first),
        (abort.clone(), &abort),
        (request(StopKind::Interrupt, "after all"), &abort),
        (request(StopKind::Abort, "again"), &abort),
    ] {
        let committed = changed(on, &id, Change::Stop(next)).await;
        assert_eq!(committed.stop.as_ref(), Some(stands));
        // Only a run that is not asked to fail may end as interrupted.
        let interrupts = Precondition::NotAborted(asked.clone());
        let interrupts = commit(on, &id).when(interrupts).then(Change::RaiseFence);
        let may_interrupt = on.store.commit(interrupts).await.is_ok();
        assert_eq!(may_interrupt, stands.kind == StopKind::Interrupt);
    }
}

/// Any process can make a request, and exactly one of those that take it gets it.
///
/// proves: STO-04
pub async fn a_request_to_stop_has_exactly_one_observer(on: &Subject) {
    let id = created(on, "s").await;
    let (asked, _) = running(on, &id, "run").await;
    for round in 0..5 {
        let why = Some(format!("round {round}"));
        let elsewhere = on.elsewhere().sessions();
        assert!(
            elsewhere
                .set_interrupt_flag(&id, why.clone())
                .await
                .unwrap()
        );
        let seen = on.at_once(8, async |on, _| {
            on.sessions().check_interrupt_flag(&id).await.unwrap()
        });
        let seen: Vec<_> = seen.into_iter().flatten().collect();
        assert_eq!(seen.len(), 1, "exactly one observer: {seen:?}");
        assert_eq!((&seen[0].run_id, &seen[0].reason), (&asked, &why));
    }
    on.sessions().set_interrupt_flag(&id, None).await.unwrap();
    on.sessions().clear_interrupt_flag(&id).await.unwrap();
    assert_eq!(on.sessions().check_interrupt_flag(&id).await.unwrap(), None);
}

/// A watcher is told of an earlier request at once.
///
/// proves: STO-04
pub async fn a_watcher_hears_a_request_from_before(on: &Subject) {
    let id = created(on, "s").await;
    let (asked, _) = running(on, &id, "run").await;
    let request = stop(on, &asked);
    changed(on.elsewhere(), &id, Change::Stop(request.clone())).await;
    let heard = in_time(HEARD, on.stops.stopped(id.as_root(), &asked)).await;
    assert_eq!(heard.unwrap(), request);
}

/// A later request wakes every waiting watcher, whichever process made it; other changes of the
/// session do not.
///
/// proves: STO-04
pub async fn a_watcher_hears_a_request_that_comes_later(on: &Subject) {
    let (id, other) = (created(on, "s").await, created(on, "t").await);
    let (asked, _) = running(on, &id, "run").await;
    running(on, &other, "run").await;
    let mut heard = pin!(on.stops.stopped(id.as_root(), &asked));
    assert!(
        poll_immediate(heard.as_mut()).await.is_none(),
        "nobody has asked yet"
    );
    let elsewhere = on.elsewhere();
    changed(elsewhere, &other, Change::Stop(stop(on, &asked))).await;
    let unrelated = commit(on, &id).then(Change::RaiseFence);
    accepted(elsewhere, unrelated).await;
    assert!(
        poll_immediate(heard.as_mut()).await.is_none(),
        "that was another session"
    );
    let request = stop(on, &asked);
    changed(elsewhere, &id, Change::Stop(request.clone())).await;
    assert_eq!(in_time(HEARD, heard).await.unwrap(), request);
}

/// Many watchers, on threads of their own, are all told of a request.
///
/// proves: STO-04
pub async fn every_watcher_hears_a_request(on: &Subject) {
    let id = created(on, "s").await;
    let (asked, _) = running(on, &id, "run").await;
    let request = stop(on, &asked);
    on.at_once(6, async |on, index| {
        if index == 0 {
            changed(on, &id, Change::Stop(request.clone())).await;
        } else {
            let heard = in_time(HEARD, on.stops.stopped(id.as_root(), &asked)).await;
            assert_eq!(heard.unwrap(), request);
        }
    });
}

/// A stop reaches what a sub-agent has started that goes on after its end, at any depth.
///
/// proves in part: SUB-05
pub async fn a_stop_reaches_companions_of_a_sub_agent_that_has_ended(on: &Subject) {
    let root = created(on, "s").await;
    let (turn, _) = running(on, &root, "turn").await;
    let mut above = root.clone();
    for (name, mode) in [
        ("sub-agent", ChildMode::Ephemeral),
        ("below", ChildMode::Ephemeral),
        ("companion", ChildMode::Persistent),
    ] {
        let child = child_of(on, &above, &root, name).await;
        let mut link = SubSessionRef::new(child.clone(), "helper", call(name), on.now());
        link.mode = mode;
        changed(on, &above, Change::Child(Box::new(link))).await;
        let (run, _) = running(on, &child, name).await;
        if mode == ChildMode::Ephemeral {
            let over = on.sessions();
            let over = over.update_run_status(&child, &run, RunStatus::Completed);
            over.await.unwrap();
        }
        above = child;
    }
    let asked = on.sessions();
    let asked = asked.request_stop(&root, StopKind::Interrupt, None).await;
    assert_eq!(asked.unwrap(), Some(turn));
    let key = SessionKey::new(&root, &above);
    let stop = on.store.load(key).await.unwrap().unwrap().stop;
    assert_eq!(stop.map(|stop| stop.run_id), Some(run("companion")));
}
