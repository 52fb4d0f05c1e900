//! When a tree whose root waits comes to rest, and what its stream is until then.

use helix_agents_core::SessionId;
use helix_agents_core::session::{ChildWait, RunStatus};
use helix_agents_core::store::{Change, Commit, Field};
use helix_agents_core::stream::StreamStatus;

use super::Subject;
use super::builders::{accepted, call, child_of, commit, created, event, running, started};

/// A root that waits for these children. They run, as after answers to their questions.
async fn waiting_for(on: &Subject, children: &[&str]) -> (SessionId, Vec<SessionId>) {
    let root = created(on, "s").await;
    running(on, &root, "turn").await;
    let mut all = Vec::new();
    for name in children {
        let child = child_of(on, &root, &root, name).await;
        running(on, &child, "run").await;
        let wait = ChildWait::new(child.clone(), "helper", on.now());
        let waits = Field::AwaitedChild(call(&format!("c-{name}")), Some(wait));
        accepted(on, commit(on, &root).set(waits)).await;
        all.push(child);
    }
    let mut paused = started(on, &root, "turn");
    paused.status = RunStatus::SuspendedAwaitingChildren;
    let pause = commit(on, &root).then(Change::Run(Box::new(paused)));
    accepted(on, pause).await;
    accepted(on, commit(on, &root).stream(StreamStatus::Active)).await;
    (root, all)
}

/// The commit that ends the run of a child, of which its parent is told.
fn ends(on: &Subject, root: &SessionId, parent: &SessionId, child: &SessionId) -> Commit {
    let mut ended = started(on, child, "run");
    ended.status = RunStatus::Completed;
    let commit = commit(on, root)
        .say(event(on, child, "rests"))
        .then_in(child.clone(), Change::Run(Box::new(ended)));
    let over = Field::EndedChild(child.clone());
    commit.then_in(parent.clone(), Change::Set(over))
}

async fn stream(on: &Subject, root: &SessionId) -> Option<StreamStatus> {
    let info = on.elsewhere().streams.info(root).await.unwrap();
    info.map(|info| info.status)
}

/// The end of a sub-agent of a child does not pause the stream while that child goes on; the pause of the child does.
pub async fn the_stream_is_active_while_the_caller_of_a_child_runs(on: &Subject) {
    let (root, children) = waiting_for(on, &["child", "other"]).await;
    let child = &children[0];
    let below = child_of(on, child, &root, "below").await;
    running(on, &below, "run").await;
    let end = ends(on, &root, child, &below);
    accepted(on, end).await;
    assert_eq!(stream(on, &root).await, Some(StreamStatus::Active));
    let mut paused = started(on, child, "run");
    paused.status = RunStatus::SuspendedClientTool;
    let pause = commit(on, &root)
        .say(event(on, child, "rests"))
        .then_in(child.clone(), Change::Run(Box::new(paused)));
    accepted(on, pause).await;
    assert_eq!(stream(on, &root).await, Some(StreamStatus::Paused));
}
