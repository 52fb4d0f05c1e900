//! Events that are written to the log.

use std::sync::atomic::{AtomicUsize, Ordering};

use helix_agents_core::error::ErrorCode;
use helix_agents_core::runtime::RuntimeExt;
use serde_json::json;
use tracing::Level;

use super::super::runner::in_time;
use super::agents::{Log, agent, browser, noted};
use super::subject::session;
use super::timing_out::{expire, let_pass, limited};
use super::{MockReply, RuntimeSubject};
use crate::{Events, SeenEvent};

/// A pending call, an answer to it, and an answer that does not match are logged, with their ids.
///
/// proves in part: CLT-05
pub async fn waits_and_answers_are_logged(on: &RuntimeSubject) {
    // Other cases may run in this process at the same time: calls have names of their own here.
    static CASES: AtomicUsize = AtomicUsize::new(0);
    let events = Events::of_this_process().expect("nothing else listens in this process");
    let case = CASES.fetch_add(1, Ordering::Relaxed);
    let (client, gated) = (format!("log-{case}-a"), format!("log-{case}-b"));
    let replies = [
        MockReply::calls([
            (client.as_str(), "browser", json!({})),
            (gated.as_str(), "pay", json!({})),
        ]),
        MockReply::text("done"),
    ];
    let pays = noted("pay", &Log::default()).approval();
    let agent = agent(replies)
        .tools([browser("browser"), pays])
        .build()
        .unwrap();
    let run = on.turn(&agent, "go").await;
    // An event follows what it is about; how soon does not matter.
    let told = async |count, call: &str| {
        let told = events.until(count, "call", call);
        in_time("the log is told", told).await
    };
    let names = |told: Vec<SeenEvent>| {
        let names = told.iter().map(|event| event.name().to_owned());
        names.collect::<Vec<_>>()
    };
    for call in [&client, &gated] {
        let told = told(1, call).await;
        let [event] = &told[..] else {
            panic!("it is told once: {told:?}");
        };
        assert_eq!(
            (event.name(), event.level),
            ("client_tool.suspended", Level::INFO)
        );
        assert_eq!(event.fields["session"], "session");
        assert_eq!(event.fields["run"], run.id.as_str());
    }
    let misfit = on.waiting(&client).await.approve();
    on.refuses(ErrorCode::ValidationError, async || on.submit(misfit).await)
        .await;
    on.answered(on.waiting(&client).await.result(1)).await;
    on.answered(on.waiting(&gated).await.approve()).await;
    assert_eq!(
        names(told(3, &client).await),
        [
            "client_tool.suspended",
            "client_tool.validation_failed",
            "client_tool.submitted",
        ]
    );
    assert_eq!(
        names(told(2, &gated).await),
        ["client_tool.suspended", "client_tool.submitted"]
    );
    on.resumed().await;
}

/// A timeout is logged once, and so is the late answer that the model is told of.
///
/// proves in part: CLT-05
pub async fn timeouts_and_late_answers_are_logged(on: &RuntimeSubject) {
    static CASES: AtomicUsize = AtomicUsize::new(0);
    let events = Events::of_this_process().expect("nothing else listens in this process");
    let case = CASES.fetch_add(1, Ordering::Relaxed);
    let ids = ["a", "b", "c"].map(|name| format!("timeout-{case}-{name}"));
    let calls = ids.each_ref().map(|id| (id.as_str(), "browser", json!({})));
    let replies = [MockReply::calls(calls), MockReply::text("done")];
    let agent = agent(replies).tools(limited("browser")).build().unwrap();
    on.turn(&agent, "go").await;
    // The pause is logged after its commit.
    for call in &ids {
        in_time("the log is told", events.until(1, "call", call)).await;
    }
    let [found, touched, resumed] = &ids;
    // Somebody looks for it, somebody answers it, somebody resumes its session.
    let_pass(on, &[found]).await;
    expire(on).await;
    expire(on).await;
    let late = on.waiting(touched).await.result(1);
    let_pass(on, &[touched, resumed]).await;
    on.submit(late.clone()).await.unwrap();
    on.submit(late).await.unwrap();
    on.resumed().await;
    let suspended = "client_tool.suspended";
    let timeout = "client_tool.timeout";
    for (call, names) in [
        (found, vec![suspended, timeout]),
        (touched, vec![suspended, timeout, "client_tool.late_answer"]),
        (resumed, vec![suspended, timeout]),
    ] {
        let told = in_time("the log is told", events.until(names.len(), "call", call)).await;
        let told: Vec<_> = told.iter().map(SeenEvent::name).collect();
        assert_eq!(told, names);
    }
}

/// An abort is logged for the calls that wait for an answer.
///
/// proves: CLT-05
pub async fn aborted_calls_are_logged(on: &RuntimeSubject) {
    static CASES: AtomicUsize = AtomicUsize::new(0);
    let events = Events::of_this_process().expect("nothing else listens in this process");
    let case = CASES.fetch_add(1, Ordering::Relaxed);
    let id = format!("abort-{case}");
    let replies = [MockReply::calls([(id.as_str(), "browser", json!({}))])];
    let agent = agent(replies).tools(browser("browser")).build().unwrap();
    on.turn(&agent, "go").await;
    in_time("the log is told", events.until(1, "call", &id)).await;
    let aborted = on.runtime.abort(&session()).await.unwrap();
    assert!(aborted.is_some(), "a suspended run is stopped");
    let told = in_time("the log is told", events.until(2, "call", &id)).await;
    let told: Vec<_> = told.iter().map(SeenEvent::name).collect();
    assert_eq!(told, ["client_tool.suspended", "client_tool.aborted"]);
}
