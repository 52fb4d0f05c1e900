//! Runs of a session and what belongs to the running one: open step, pending calls, inbox, usage.

use std::sync::Arc;
use std::time::Duration;

use helix_agents_core::message::UserMessage;
use helix_agents_core::model::TokenUsage;
use helix_agents_core::session::{
    CallPhase, CallState, ChildMode, ChildStatus, EffectRecord, EffectState, OpenCall, RunRecord,
    RunStatus, SubSessionRef, Suspended,
};
use helix_agents_core::store::{Change, InboxRow, Lookup, Page, StoreError};
use helix_agents_core::usage::{CustomUsage, UsageEntry, UsageKind};
use serde_json::json;

use super::Subject;
use super::builders::{
    accepted, call, changed, commit, created, open_step, result, run, running, session, sets,
    started, step, usage_id,
};

/// A session can have many runs: each is stored, and the one that started last is the current one.
///
/// proves: SES-01, STO-09
pub async fn runs_are_kept_and_the_last_started_is_current(on: &Subject) {
    let id = created(on, "s").await;
    assert_eq!(on.sessions().get_current_run(&id).await.unwrap(), None);
    let mut wanted = Vec::new();
    for (turn, name) in (1..).zip(["r-2", "r-1", "r-3"]) {
        let mut record = started(on, &id, name);
        record.turn = turn;
        record.start_sequence = 7;
        on.sessions().create_run(record.clone()).await.unwrap();
        assert_eq!(
            on.sessions().get_current_run(&id).await.unwrap(),
            Some(record.clone())
        );
        wanted.push(record);
    }
    on.clock.advance(Duration::from_secs(1));
    let ended = RunStatus::Completed;
    on.sessions()
        .update_run_status(&id, &run("r-1"), ended)
        .await
        .unwrap();
    wanted[1].status = ended;
    wanted[1].ended_at = Some(on.now());
    let current = on.sessions().get_current_run(&id).await.unwrap();
    assert_eq!(
        current.as_ref(),
        Some(&wanted[2]),
        "an older run's end does not make it current"
    );

    // The later record of a run replaces the earlier one as a whole.
    wanted[2].status = RunStatus::SuspendedStepPartial;
    wanted[2].suspended = Some(Suspended::new(
        step("open"),
        vec![call("c")],
        vec![session("t")],
    ));
    wanted[2].output = Some(json!({ "a": [1] }));
    changed(on, &id, Change::Run(Box::new(wanted[2].clone()))).await;
    let current = on
        .elsewhere()
        .sessions()
        .get_current_run(&id)
        .await
        .unwrap();
    assert_eq!(current.as_ref(), Some(&wanted[2]));

    let listed = on.sessions().list_runs(&id, Page::ALL).await.unwrap();
    assert_eq!((&listed.items, listed.total), (&wanted, 3), "oldest first");
    let part = on.sessions().list_runs(&id, Page::new(1, 1)).await.unwrap();
    assert_eq!((&part.items[..], part.has_more), (&wanted[1..2], true));
    for record in &wanted {
        let found = on.sessions().get_run(&id, &record.id).await.unwrap();
        assert_eq!(found.as_ref(), Some(record));
    }
    let other = created(on, "t").await;
    assert_eq!(
        on.sessions().get_run(&other, &run("r-1")).await.unwrap(),
        None
    );
    let missing = on
        .sessions()
        .update_run_status(&id, &run("r-9"), ended)
        .await;
    assert!(
        matches!(missing, Err(StoreError::Invalid { .. })),
        "{missing:?}"
    );
}

/// A run is updated under its id, whichever started last: no other run changes, and the latest stays
/// the latest.
pub async fn updating_an_older_run_changes_that_run_only(on: &Subject) {
    let (id, other) = (created(on, "s").await, created(on, "t").await);
    let mut wanted = Vec::new();
    // Ids that sort in another order than the runs started.
    for name in ["r-2", "r-3", "r-1"] {
        let record = started(on, &id, name);
        on.sessions().create_run(record.clone()).await.unwrap();
        wanted.push(record);
    }
    let same_id = started(on, &other, "r-2");
    on.sessions().create_run(same_id.clone()).await.unwrap();
    let unchanged = async |wanted: &[RunRecord]| {
        let seen = on.elsewhere();
        let listed = seen.sessions().list_runs(&id, Page::ALL).await.unwrap();
        assert_eq!(listed.items, wanted, "in the order in which they started");
        for record in wanted {
            let found = seen.sessions().get_run(&id, &record.id).await.unwrap();
            assert_eq!(found.as_ref(), Some(record), "looked up by its id");
        }
        let latest = seen.store.load(id.as_root()).await.unwrap().unwrap().run;
        assert_eq!(latest.as_ref(), wanted.last(), "the last started");
    };
    let ended = |record: &mut RunRecord, output: &str| {
        record.status = RunStatus::Completed;
        record.ended_at = Some(on.now());
        record.step_count += 1;
        record.output = Some(json!(output));
        Change::Run(Box::new(record.clone()))
    };

    on.clock.advance(Duration::from_secs(1));
    changed(on, &id, ended(&mut wanted[0], "the oldest")).await;
    unchanged(&wanted).await;
    changed(on, &id, ended(&mut wanted[1], "the one before the latest")).await;
    unchanged(&wanted).await;
    // The latest and then an older one, in one commit.
    let both = commit(on, &id)
        .then(ended(&mut wanted[2], "the latest"))
        .then(ended(&mut wanted[0], "the oldest again"));
    accepted(on, both).await;
    unchanged(&wanted).await;
    let others = on.sessions().list_runs(&other, Page::ALL).await.unwrap();
    assert_eq!(others.items, [same_id], "run ids belong to their session");
}

/// The open step is written whole, updated call by call, and removed.
pub async fn an_open_step_is_updated_call_by_call(on: &Subject) {
    let id = created(on, "s").await;
    let (run, _) = running(on, &id, "run").await;
    let mut wanted = open_step(&run, "step", &["c-1", "c-2", "c-3"]);
    changed(on, &id, Change::OpenStep(Some(Arc::new(wanted.clone())))).await;
    let found = async |on: &Subject| {
        on.store
            .load(id.as_root())
            .await
            .unwrap()
            .unwrap()
            .open_step
    };
    assert_eq!(found(on.elsewhere()).await.as_ref(), Some(&wanted));

    let mut done = OpenCall::new(CallPhase::Finish, CallState::Terminal);
    let mut effect = EffectRecord::intended("key", on.now());
    (effect.state, effect.attempts) = (EffectState::Done, 2);
    done.effect = Some(effect);
    done.result = Some(result("c-2"));
    done.writes = sets("by", "c-2");
    changed(
        on,
        &id,
        Change::OpenCall(1, call("c-2"), Box::new(done.clone())),
    )
    .await;
    wanted.calls[1] = done.clone();
    assert_eq!(
        found(on).await.as_ref(),
        Some(&wanted),
        "the other calls stay as they were"
    );

    // A step and the news of its call may come in one commit.
    let next = open_step(&run, "step-2", &["c-4"]);
    let both = commit(on, &id)
        .then(Change::OpenStep(Some(Arc::new(next.clone()))))
        .then(Change::OpenCall(0, call("c-4"), Box::new(done.clone())));
    accepted(on, both).await;
    let mut wanted = next;
    wanted.calls[0] = done;
    assert_eq!(
        found(on).await,
        Some(wanted),
        "a new step takes the place of the old one"
    );
    changed(on, &id, Change::OpenStep(None)).await;
    assert_eq!(found(on).await, None);
}

/// Waiting messages are stored in order, once each, until a run takes them.
pub async fn an_inbox_row_written_twice_is_one_row(on: &Subject) {
    let id = created(on, "s").await;
    let row = |name: &str, text: &str| InboxRow::new(name, vec![UserMessage::new(text)], on.now());
    for (name, text) in [
        ("b", "first"),
        ("a", "second"),
        ("b", "again"),
        ("c", "third"),
    ] {
        changed(on, &id, Change::Inbox(row(name, text))).await;
    }
    let wanted = vec![row("b", "first"), row("a", "second"), row("c", "third")];
    let inbox = async || {
        on.elsewhere()
            .store
            .load(id.as_root())
            .await
            .unwrap()
            .unwrap()
            .inbox
    };
    assert_eq!(inbox().await, wanted);
    let drained = Change::DrainInbox(vec!["a".to_owned(), "b".to_owned(), "z".to_owned()]);
    assert_eq!(changed(on, &id, drained).await.inbox, wanted[2..]);
    assert_eq!(inbox().await, wanted[2..]);
}

/// Usage is appended and read back in order, page by page.
pub async fn usage_is_kept_in_order(on: &Subject) {
    let id = created(on, "s").await;
    let kinds = [
        UsageKind::Tokens {
            model: "scripted/one".into(),
            tokens: TokenUsage::default(),
            micro_dollars: None,
        },
        UsageKind::Tool {
            name: "t".into(),
            success: false,
            duration_ms: 12,
        },
        UsageKind::ClientToolWaitMs {
            name: "t".into(),
            wait_ms: 86_400_000,
        },
        UsageKind::Custom(CustomUsage::new("requests", 0.1)),
    ];
    let wanted: Vec<_> = (0_u32..)
        .zip(kinds)
        .map(|(at, kind)| {
            // Ids that sort the other way round.
            let name = usage_id(&format!("u-{}", 9 - at));
            UsageEntry {
                id: name,
                run_id: run("run"),
                step: at,
                timestamp: on.now(),
                kind,
            }
        })
        .collect();
    let both = wanted[..2]
        .iter()
        .cloned()
        .fold(commit(on, &id), |commit, entry| {
            commit.then(Change::Usage(entry))
        });
    accepted(on, both).await;
    for entry in &wanted[2..] {
        changed(on, &id, Change::Usage(entry.clone())).await;
    }
    let found = on
        .elsewhere()
        .store
        .usage(id.as_root(), Page::ALL)
        .await
        .unwrap();
    assert_eq!((&found.items, found.total), (&wanted, 4));
    let part = on.store.usage(id.as_root(), Page::new(1, 2)).await.unwrap();
    assert_eq!((&part.items[..], part.has_more), (&wanted[1..3], true));
}

/// References to children are added, updated and listed, oldest first.
///
/// proves: STO-07
pub async fn references_to_children_are_kept(on: &Subject) {
    let id = created(on, "s").await;
    let mut wanted: Vec<_> = ["z", "a", "m"]
        .map(|name| SubSessionRef::new(session(name), "helper", call(name), on.now()))
        .into();
    wanted[1].mode = ChildMode::Persistent;
    wanted[1].name = Some("companion".to_owned());
    wanted[1].run_id = Some(run("r"));
    on.sessions()
        .add_sub_session_refs(&id, wanted[..2].to_vec())
        .await
        .unwrap();
    on.sessions()
        .add_sub_session_refs(&id, wanted[2..].to_vec())
        .await
        .unwrap();
    for (child, status) in [("a", ChildStatus::Suspended), ("z", ChildStatus::Completed)] {
        let child = session(child);
        on.sessions()
            .update_sub_session_ref(&id, &child, status)
            .await
            .unwrap();
    }
    wanted[0].status = ChildStatus::Completed;
    wanted[1].status = ChildStatus::Suspended;
    let found = on
        .elsewhere()
        .sessions()
        .get_sub_session_refs(&id)
        .await
        .unwrap();
    assert_eq!(
        found, wanted,
        "a reference keeps its place when it is updated"
    );
    let missing = on
        .sessions()
        .update_sub_session_ref(&id, &session("nobody"), ChildStatus::Failed)
        .await;
    assert!(
        matches!(missing, Err(StoreError::Invalid { .. })),
        "{missing:?}"
    );
    let runs = on
        .store
        .runs(id.as_root(), Lookup::Page(Page::ALL))
        .await
        .unwrap();
    assert_eq!(runs.total, 0);
}
