//! Checkpoints, and which of them is the latest.

use helix_agents_core::session::{CheckpointSource, SessionState};
use helix_agents_core::store::{Change, Field, NewCheckpoint, Page};

use super::Subject;
use super::builders::{
    accepted, changed, checkpoint, checkpoint_of, commit, created, run, sets, step, user_message,
};

fn new(name: &str) -> NewCheckpoint {
    NewCheckpoint::new(checkpoint(name), run("run"))
}

async fn latest(on: &Subject, state: &SessionState) -> String {
    let found = on.sessions().get_latest_checkpoint(&state.session_id).await;
    let found = found.unwrap().expect("there is a checkpoint");
    let pointed = on
        .sessions()
        .load_state(&state.session_id)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(
        pointed.checkpoint_id.as_ref(),
        Some(&found.id),
        "the session points at it"
    );
    assert_eq!(pointed.checkpointed_at, Some(found.timestamp));
    found.id.as_str().to_owned()
}

/// The latest checkpoint is the one that was written last, whatever its step count and the
/// operation that wrote it.
///
/// proves: STO-06, CKP-03
pub async fn the_latest_checkpoint_is_the_one_written_last(on: &Subject) {
    let id = created(on, "s").await;
    let sessions = on.sessions();
    assert_eq!(sessions.get_latest_checkpoint(&id).await.unwrap(), None);
    changed(on, &id, Change::Set(Field::StepCount(9))).await;
    sessions
        .create_checkpoint(&id, new("z-high"))
        .await
        .unwrap();
    let mut state = sessions.load_state(&id).await.unwrap().unwrap();
    assert_eq!(latest(on, &state).await, "z-high");

    // A later turn counts its steps from the beginning.
    changed(on, &id, Change::Set(Field::StepCount(0))).await;
    sessions.create_checkpoint(&id, new("low")).await.unwrap();
    assert_eq!(latest(on, &state).await, "low");

    state.step_count = 1;
    sessions
        .save_state_and_promote_staging(&state, &[user_message("a")], new("promoted"), None)
        .await
        .unwrap();
    assert_eq!(latest(on, &state).await, "promoted");
    let mut by_commit = checkpoint_of(on, &id, "a-commit");
    by_commit.step_count = 0;
    changed(
        on,
        &id,
        Change::Checkpoint(by_commit, CheckpointSource::Staging),
    )
    .await;
    assert_eq!(latest(on, &state).await, "a-commit");
    let pointed = sessions.load_state(&id).await.unwrap().unwrap();
    assert_eq!(pointed.checkpoint_source, Some(CheckpointSource::Staging));

    // A save of what was read long ago does not bring an old pointer back.
    sessions.save_state(&state, None).await.unwrap();
    assert_eq!(latest(on, &state).await, "a-commit");
}

/// A checkpoint that is written again becomes the latest again.
///
/// proves: STO-06
pub async fn a_checkpoint_written_again_is_the_latest(on: &Subject) {
    let id = created(on, "s").await;
    for name in ["cp-1", "cp-2", "cp-1"] {
        on.sessions()
            .create_checkpoint(&id, new(name))
            .await
            .unwrap();
    }
    let listed = on
        .sessions()
        .list_checkpoints(&id, Page::ALL)
        .await
        .unwrap();
    let names: Vec<_> = listed.items.iter().map(|one| one.id.as_str()).collect();
    assert_eq!(names, ["cp-1", "cp-2"], "under one id there is one");
    let state = on.sessions().load_state(&id).await.unwrap().unwrap();
    assert_eq!(latest(on, &state).await, "cp-1");
}

/// Checkpoints are listed in the order in which they were written, the last first, page by page.
///
/// proves: STO-06, CKP-03
pub async fn checkpoints_are_listed_last_first(on: &Subject) {
    let id = created(on, "s").await;
    let mut wanted = Vec::new();
    for index in 0..7_u32 {
        changed(on, &id, Change::WriteState(sets("n", index))).await;
        changed(on, &id, Change::Set(Field::StepCount(index * 5 % 7))).await;
        let mut checkpoint = new(&format!("cp-{index}")).after_step(step("step"));
        checkpoint.open_step = (index == 3).then(|| step("open"));
        wanted.insert(
            0,
            on.sessions()
                .create_checkpoint(&id, checkpoint)
                .await
                .unwrap(),
        );
    }
    assert_eq!(wanted[3].open_step, Some(step("open")));
    assert_eq!((wanted[0].state_version, wanted[0].step_count), (8, 2));
    for (offset, limit) in [(0, 3), (3, 3), (6, 3), (7, 3), (0, usize::MAX)] {
        let page = Page::new(offset, limit);
        let found = on.sessions().list_checkpoints(&id, page).await.unwrap();
        let part: Vec<_> = wanted.iter().skip(offset).take(limit).cloned().collect();
        assert_eq!(found.has_more, offset + part.len() < 7);
        assert_eq!((found.items, found.total), (part, 7));
    }
    for one in &wanted {
        let found = on.sessions().get_checkpoint(&id, &one.id).await.unwrap();
        assert_eq!(found.as_ref(), Some(one));
    }
}

/// Another session's checkpoint is not found, and cannot be written here.
///
/// proves: STO-06, CKP-03
/// proves in part: SES-10
pub async fn a_checkpoint_of_another_session_is_not_found(on: &Subject) {
    let (id, other) = (created(on, "s").await, created(on, "t").await);
    on.sessions()
        .create_checkpoint(&id, new("cp"))
        .await
        .unwrap();
    let found = on
        .sessions()
        .get_checkpoint(&other, &checkpoint("cp"))
        .await;
    assert_eq!(found.unwrap(), None);
    assert_eq!(
        on.sessions().get_latest_checkpoint(&other).await.unwrap(),
        None
    );
    let smuggled = Change::Checkpoint(checkpoint_of(on, &id, "cp"), CheckpointSource::Save);
    let refused = on.store.commit(commit(on, &other).then(smuggled)).await;
    assert!(
        refused.is_err(),
        "a checkpoint is written to its own session only"
    );
    // Both may use the same name.
    on.sessions()
        .create_checkpoint(&other, new("cp"))
        .await
        .unwrap();
    let mine = on
        .sessions()
        .get_latest_checkpoint(&id)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(mine.session_id, id);
}

/// Checkpoints stay when the history is cut, so that a session can still be restored to them.
///
/// proves: CKP-03
pub async fn checkpoints_outlive_a_cut(on: &Subject) {
    let id = created(on, "s").await;
    on.sessions()
        .append_messages(&id, &[user_message("a"), user_message("b")], None)
        .await
        .unwrap();
    let made = on
        .sessions()
        .create_checkpoint(&id, new("cp"))
        .await
        .unwrap();
    on.sessions().truncate_messages(&id, 0).await.unwrap();
    let found = on.sessions().get_checkpoint(&id, &made.id).await.unwrap();
    assert_eq!(found, Some(made));
}

/// A list without a limit is read whole, however many items there are, and a commit writes as many.
///
/// proves in part: CKP-03
pub async fn a_list_of_thousands_is_read_at_once(on: &Subject) {
    const COUNT: usize = 9_000;
    let id = created(on, "s").await;
    let all = (0..COUNT).map(|index| checkpoint_of(on, &id, &format!("cp-{index:04}")));
    let all: Vec<_> = all.collect();
    let writes = all.iter().fold(commit(on, &id), |commit, one| {
        commit.then(Change::Checkpoint(one.clone(), CheckpointSource::Staging))
    });
    accepted(on, writes).await;
    for on in [on, on.elsewhere()] {
        let found = on.sessions().list_checkpoints(&id, Page::ALL).await;
        let found = found.unwrap();
        assert_eq!((found.total, found.has_more), (COUNT, false));
        assert!(found.items.iter().eq(all.iter().rev()), "the last first");
    }
}
