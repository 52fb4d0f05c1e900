//! The contract suites find stores that are broken on purpose.
//!
//! Each of these looks right in everyday use. For each, the cases that must fail are named; the same
//! wrapper around the same store, unbroken, passes them.
//!
//! proves in part: STO-11, STR-05

mod store;

use std::panic::{AssertUnwindSafe, catch_unwind};

use helix_agents_testkit::block_on;
use helix_agents_testkit::contract::{Subject, store as stores, stream as streams};

pub(crate) use store::{Broken, Defect, Disk};

/// Whether a case passes.
fn passes(case: impl AsyncFnOnce(&Subject), defect: Option<Defect>) -> bool {
    let disk = Disk::default();
    let subject = Subject::from(Broken::new(defect))
        .reopened_by(async move || Broken::open(&disk, defect).await);
    catch_unwind(AssertUnwindSafe(|| block_on(case(&subject)))).is_ok()
}

/// One test for each defect: these cases fail because of it.
macro_rules! is_found {
    ($($test:ident, $defect:ident: $($case:path),+ $(,)?;)+) => {$(
        #[test]
        fn $test() {
            $(
                assert!(passes($case, None), "{} passes on a sound store", stringify!($case));
                let finds = !passes($case, Some(Defect::$defect));
                assert!(finds, "{} does not find it", stringify!($case));
            )+
        }
    )+};
}

is_found! {
    a_store_that_loses_preconditions_is_found, LostPrecondition:
        stores::a_commit_that_any_precondition_refuses_leaves_nothing,
        stores::a_status_is_set_only_over_an_expected_one,
        stores::exactly_one_of_the_appends_at_one_position_wins,
        stores::a_superseded_fence_cannot_write_anything,
        stores::a_stale_save_leaves_nothing,
        stores::a_lease_keeps_others_out_until_it_lapses;

    a_store_that_tears_commits_is_found, TornCommit:
        stores::sessions_of_one_root_change_together_or_not_at_all,
        stores::a_change_that_cannot_be_made_undoes_the_whole_commit,
        stores::versions_grow_by_one_with_each_commit;

    a_store_that_drops_the_last_change_is_found, ShortCommit:
        stores::saving_and_promoting_is_one_write,
        stores::a_cut_and_an_append_are_one_change,
        stores::a_receipt_has_all_that_the_next_step_needs;

    a_store_that_points_at_the_highest_step_count_is_found, StalePointer:
        stores::the_latest_checkpoint_is_the_one_written_last;

    a_store_that_forgets_the_pointer_on_some_paths_is_found, PointerOfOnePath:
        stores::the_latest_checkpoint_is_the_one_written_last;

    a_store_that_writes_every_update_to_the_latest_run_is_found, LatestRunOnly:
        stores::updating_an_older_run_changes_that_run_only;

    a_stream_that_numbers_anew_is_found, ReusedSequence:
        streams::a_sequence_is_never_used_twice,
        streams::discarded_deltas_are_removed_and_commits_stay,
        streams::trimming_removes_the_oldest_and_renumbers_nothing,
        streams::live_readers_continue_after_a_discarded_attempt;

    a_stream_that_condenses_too_much_is_found, CondensedTooMuch:
        streams::condensing_removes_what_the_messages_hold_and_nothing_else;

    a_stream_that_is_not_condensed_is_found, SecretlyCondensed:
        streams::condensing_removes_what_the_messages_hold_and_nothing_else,
        streams::a_condensed_stream_is_read_like_before;

    a_stream_that_shows_chunks_early_is_found, EarlyChunk:
        stores::a_commit_that_any_precondition_refuses_leaves_nothing,
        streams::nothing_is_seen_of_a_refused_commit;

    a_store_that_writes_nothing_to_the_disk_is_found, NotDurable:
        stores::every_acknowledged_write_is_found_after_reopening,
        stores::fences_of_deleted_sessions_stay_used_after_reopening,
        stores::incarnations_of_deleted_streams_stay_used_after_reopening;

    a_store_that_acknowledges_before_it_writes_is_found, LateCommit:
        stores::every_acknowledged_write_is_found_after_reopening;

    a_store_that_keeps_deltas_in_memory_is_found, LostDeltas:
        stores::every_acknowledged_write_is_found_after_reopening;

    a_store_that_forgets_the_fences_of_deleted_sessions_is_found, ForgottenFence:
        stores::fences_of_deleted_sessions_stay_used_after_reopening,
        stores::incarnations_of_deleted_streams_stay_used_after_reopening;
}

/// A store whose author did not say whether it is durable fails, and is told how to say it.
#[test]
fn a_store_of_undeclared_durability_is_found() {
    let subject = Subject::from(Broken::new(None));
    let case = stores::every_acknowledged_write_is_found_after_reopening;
    let failed = catch_unwind(AssertUnwindSafe(|| block_on(case(&subject))));
    let said = failed.unwrap_err();
    let said = said.downcast_ref::<&str>().unwrap();
    assert!(said.contains("`reopened_by`"), "{said}");
    assert!(said.contains("`not_durable`"), "{said}");
}
