//! The contracts of the ports, as cases that any implementation can be held against.
//!
//! A case is a plain async function whose name is a sentence of the contract. It gets a fresh
//! [`Subject`] (or [`LockSubject`]) and panics when the sentence does not hold. Nothing here needs
//! an async runtime. A store of your own runs all of them in one line, each as a test of its own:
//!
//! ```
//! # use helix_agents_core::memory::MemoryStore;
//! # use helix_agents_testkit::contract::Subject;
//! helix_agents_testkit::store_contract!(async || Subject::from(MemoryStore::new()).not_durable());
//! ```
//!
//! The macro expands to the same list that names the cases, so a case that is added here is added
//! to every store. A case that is not on the list is dead code, and the compiler reports it.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a case that does not hold fails the test"
)]

#[macro_use]
mod suite;

mod answered;
mod appending;
mod branching;
mod builders;
mod checkpoints;
mod clocks;
mod commits;
mod condensing;
mod creating;
mod deleting;
mod due;
mod durability;
mod effects;
mod ending;
mod everything;
mod fences;
mod fields;
mod full_session;
mod incarnations;
mod listing;
mod locking;
mod messages;
mod notices;
mod pending;
mod performing;
mod preconditions;
mod reading;
mod reopening;
mod resting;
mod retention;
mod rewinding;
mod roots;
mod runner;
mod runs;
mod saving;
mod staging;
mod state;
mod status;
mod stops;
mod streaming;
mod subject;
mod takeovers;

pub use runner::{Runner, Task};
pub use runtime::{RuntimeSubject, Wanted};
pub use subject::{LockSubject, Subject};

/// The contract of [`Runtime`](helix_agents_core::runtime::Runtime).
pub mod runtime;

suite! { ($)
    /// The contract of [`SessionStore`](helix_agents_core::store::SessionStore) and
    /// [`WatchStops`](helix_agents_core::store::WatchStops).
    mod store(Subject);

    /// Makes a test of every case of the store's contract.
    ///
    /// The argument makes a fresh backend: a value that is a `SessionStore`, a `StreamManager` and
    /// a `WatchStops`, as a [`Subject`](crate::contract::Subject) that declares how it is opened
    /// again ([`Subject::reopened_by`](crate::contract::Subject::reopened_by)) or that it is not
    /// durable. A backend that needs an async runtime passes a function that runs a future on it;
    /// the cases call that function on threads of their own, too:
    ///
    /// ```
    /// # use helix_agents_core::memory::MemoryStore;
    /// # use helix_agents_testkit::block_on as on_runtime;
    /// # use helix_agents_testkit::contract::Subject;
    /// async fn fresh() -> Subject {
    ///     Subject::from(MemoryStore::new()).not_durable()
    /// }
    ///
    /// helix_agents_testkit::store_contract!(fresh, block_on = on_runtime);
    /// ```
    macro store_contract;

    creating {
        exactly_one_of_many_concurrent_creates_wins,
        a_session_is_found_under_its_id_and_no_other,
        a_taken_id_is_refused_with_or_without_a_precondition,
        a_session_is_created_under_its_own_id_only,
        every_field_of_a_session_is_kept,
        large_empty_and_foreign_texts_are_kept,
        a_missing_session_reads_as_empty_or_not_found,
    }
    roots {
        a_read_finds_a_session_under_its_root_only,
        a_commit_reaches_sessions_under_its_root_only,
        a_session_is_made_under_a_root_that_is_there,
        a_session_is_created_under_an_existing_parent,
        an_id_is_one_session,
        a_session_is_found_by_its_id_alone,
        a_child_that_was_not_created_does_not_block_its_id,
        a_child_created_during_a_removal_is_removed_or_stays_with_its_root,
        a_root_made_again_begins_above_all_that_was_under_it,
    }
    preconditions {
        a_commit_that_any_precondition_refuses_leaves_nothing,
        a_precondition_that_holds_lets_the_commit_pass,
        a_refusal_reports_the_state_of_the_session,
        preconditions_are_judged_before_any_change,
    }
    commits {
        sessions_of_one_root_change_together_or_not_at_all,
        a_change_that_cannot_be_made_undoes_the_whole_commit,
        versions_grow_by_one_with_each_commit,
        concurrent_commits_happen_one_after_another,
        a_receipt_has_all_that_the_next_step_needs,
        a_commit_is_seen_whole_by_others,
    }
    fences {
        a_submission_does_not_make_a_running_executor_stale,
        a_superseded_fence_cannot_write_anything,
        a_deleted_sessions_fence_is_never_used_again,
        a_lease_keeps_others_out_until_it_lapses,
    }
    effects {
        an_effect_is_committed_once,
        an_effect_belongs_to_the_current_step_of_a_running_run,
        a_later_attempt_takes_an_effect_over,
        a_call_is_committed_once,
        an_open_step_is_compared_with_what_was_read,
        a_run_leaves_no_step_open,
        a_save_keeps_the_pending_calls_of_a_run,
        a_paused_runs_stop_is_not_forgotten,
        a_step_is_announced_with_the_messages_that_there_are,
    }
    performing {
        a_message_over_an_aborted_pause_fails_the_run,
        a_message_abandons_pending_calls,
        a_message_beside_the_end_of_a_run_starts_a_turn,
        a_message_interrupts_the_run_in_progress,
        a_message_is_not_taken_by_a_run_that_others_start,
        a_message_rolls_the_turn_back,
        a_turn_takes_the_place_of_an_earlier_one,
        an_edit_beside_a_run_waits_for_its_end,
        an_edit_over_pending_calls_ends_their_run,
        an_edit_whose_acknowledgement_is_lost_is_made_once,
        one_of_two_equal_messages_is_taken,
        a_message_whose_acknowledgement_is_lost_waits_once,
        a_queued_message_waits_for_a_suspended_turn,
        a_rejected_message_leaves_nothing,
        an_inbox_has_room_for_so_many_messages,
        messages_that_wait_enter_one_run,
        waiting_messages_come_before_other_entries,
        two_attempts_at_a_model_call_come_to_one_reply,
        two_attempts_at_a_child_start_one,
        a_run_that_waits_for_a_working_child_is_not_given_up,
        a_child_that_begins_beside_a_stop_hears_of_it,
        a_child_whose_acknowledgement_is_lost_is_started_once,
        a_stop_beside_the_start_of_a_child_starts_none,
        an_attempt_that_ends_after_the_run_adds_nothing,
        a_call_begun_before_is_not_run_again,
        an_attempt_of_unknown_order_claims_calls_that_must_not_be_repeated,
        a_commit_whose_acknowledgement_is_lost_is_made_once,
        state_changes_of_hooks_before_a_failed_call_are_written_once,
        a_store_that_fails_for_a_while_ends_no_run,
        a_message_beside_a_model_call_comes_before_its_reply,
        a_message_beside_a_call_runs_no_further_finisher,
        an_answer_beside_a_stop_reaches_the_model,
        a_stop_before_a_pause_stops,
        a_stop_ends_a_wait,
        a_pending_call_that_was_lost_is_written_again,
        a_started_call_beside_a_fatal_one_is_unknown,
        a_started_call_of_a_changed_agent_is_unknown,
        a_run_that_cannot_continue_fails,
        a_run_without_progress_fails_after_five_take_overs,
        a_run_that_only_begins_again_is_given_up,
        a_run_fails_even_if_its_last_hook_kills_the_process,
        an_unfinished_reply_is_found_behind_a_long_stream,
        an_effect_does_not_wait_for_a_store_for_ever,
        unacknowledged_deltas_are_discarded_too,
        attempts_at_a_call_are_distinguished,
        writes_of_others_are_shown_to_the_model,
        a_message_that_was_replaced_meanwhile_is_shown_to_the_model,
        the_memory_of_a_host_does_not_outlive_a_failed_commit,
        a_stop_beside_a_model_call_begins_no_call,
        a_budget_counts_commits_without_acknowledgement_once,
        a_summary_whose_acknowledgement_is_lost_is_made_once,
        two_attempts_at_a_summary_come_to_one,
        a_summary_outlives_its_process,
        a_message_beside_a_summary_is_not_taken_for_it,
        an_attempt_uses_the_summary_of_an_earlier_one,
        an_interrupted_reply_is_kept,
        an_interrupted_reply_without_text_leaves_nothing,
        an_aborted_reply_is_discarded,
        a_stopped_model_call_is_not_made_again,
        a_model_is_not_asked_after_a_stop,
        an_abort_beside_the_end_of_an_interrupted_run_fails_it,
        a_stop_reaches_a_running_tool,
        a_stop_beside_a_failing_model_call_ends_the_run,
        a_stop_beside_an_answer_that_is_taken_begins_nothing,
        a_stop_beside_a_pause_stops,
        an_answer_beside_a_pause_is_taken,
        a_pause_beside_an_answer_is_noticed,
        a_run_that_was_ended_meanwhile_is_not_resumed,
        a_turn_does_not_begin_in_a_session_that_was_replaced,
        a_turn_that_sets_keys_of_the_state_keeps_the_other_keys,
        an_abort_beside_a_taken_interrupt_is_not_lost,
        all_calls_that_were_begun_are_unknown,
        a_finishing_call_that_was_begun_is_unknown,
        a_reconciler_decides_about_a_call_that_was_begun,
        repeatable_calls_are_run_again,
        a_person_is_asked_about_a_call_that_was_begun,
        nobody_is_asked_about_a_call_whose_id_another_session_waits_for,
        nobody_is_asked_again_about_a_call_whose_id_another_session_waits_for,
        a_person_is_asked_about_an_approved_call_that_was_begun,
        a_stopped_run_reports_the_calls_that_were_begun,
        a_superseded_process_begins_nothing,
        a_call_settles_its_step_with_the_latest_results,
        a_step_is_settled_as_it_is,
        a_stopped_step_is_closed_as_it_is,
        a_fatal_error_beats_a_result_that_would_finish,
        state_changes_of_hooks_are_kept_when_a_tool_is_missing,
        an_answer_to_a_call_with_a_result_is_not_used,
        a_failed_run_is_not_an_interrupted_one,
        one_of_two_retries_runs,
        a_retry_does_not_rewind_a_faster_one,
        a_rewind_whose_acknowledgement_is_lost_is_made_once,
        a_rewind_outlives_its_process,
        an_answer_beside_a_rewind_leaves_nothing,
        a_write_beside_a_rewind_is_not_split,
        a_retry_drops_half_a_reply,
        a_branch_whose_acknowledgement_is_lost_is_made_once,
        an_answer_just_before_a_timeout_counts,
        an_answer_just_after_a_timeout_is_late,
        an_answer_just_before_a_resume_is_taken,
        one_of_two_late_answers_is_told,
        one_of_two_late_answers_to_an_ended_run_is_told,
        a_timeout_whose_acknowledgement_is_lost_is_made_once,
        a_late_answer_whose_acknowledgement_is_lost_is_told_once,
        a_late_answer_beside_a_model_call_comes_after_its_reply,
        a_question_about_an_unknown_outcome_times_out,
    }
    status {
        a_status_is_set_only_over_an_expected_one,
        exactly_one_of_many_changes_of_one_status_succeeds,
        a_status_can_be_set_over_any_other,
        counters_lose_no_increment,
    }
    fields {
        a_mode_is_written_once,
        metadata_is_patched_key_by_key,
        a_save_overwrites_fields_and_state,
        a_save_replaces_pending_calls_and_keeps_the_family,
        every_field_can_be_set_on_its_own,
        labels_are_bounded,
    }
    messages {
        messages_are_kept_in_order,
        pages_of_messages_are_parts_of_the_whole,
        pages_of_messages_end_with_their_bytes,
        pages_of_sessions_end_with_their_bytes,
        many_messages_are_read_at_once,
        messages_without_whole_steps_are_refused,
        exactly_one_of_the_appends_at_one_position_wins,
        a_cut_is_rounded_down_to_whole_steps,
        a_cut_and_an_append_are_one_change,
        call_ids_of_cut_messages_stay_used,
        a_checkpoint_names_messages_and_copies_none,
    }
    state {
        writes_are_applied_to_the_state,
        concurrent_writes_compose,
        every_version_of_the_state_can_be_read,
        a_version_that_never_was_cannot_be_read,
        changes_of_one_commit_build_on_each_other,
        a_large_state_is_kept_version_by_version,
    }
    notices {
        a_notice_to_a_session_at_rest_is_appended_at_once,
        a_notice_comes_after_the_step_of_a_run,
        a_notice_comes_with_the_end_of_a_run_without_a_step,
        a_cut_discards_notices_that_wait,
    }
    staging {
        staged_writes_are_stored_beside_the_state,
        promoting_applies_staged_writes_in_order,
        staged_writes_can_be_discarded,
    }
    saving {
        saving_and_promoting_is_one_write,
        a_stale_save_leaves_nothing,
        exactly_one_of_the_saves_at_one_version_wins,
    }
    checkpoints {
        the_latest_checkpoint_is_the_one_written_last,
        a_checkpoint_written_again_is_the_latest,
        checkpoints_are_listed_last_first,
        a_checkpoint_of_another_session_is_not_found,
        checkpoints_outlive_a_cut,
        a_list_of_thousands_is_read_at_once,
    }
    runs {
        runs_are_kept_and_the_last_started_is_current,
        updating_an_older_run_changes_that_run_only,
        an_open_step_is_updated_call_by_call,
        an_inbox_row_written_twice_is_one_row,
        usage_is_kept_in_order,
        references_to_children_are_kept,
    }
    pending {
        calls_that_wait_are_found_across_sessions,
        pending_calls_are_kept_one_by_one,
    }
    answered {
        an_answered_call_is_found_for_ever,
        answered_calls_are_not_part_of_a_loaded_session,
        a_snapshot_has_the_answered_calls_of_the_open_step,
        an_answered_call_stays_answered,
        a_call_that_timed_out_stays_so,
    }
    stops {
        nothing_is_asked_to_stop_when_nothing_runs,
        a_suspended_run_is_asked_to_stop,
        a_stop_reaches_companions_of_a_sub_agent_that_has_ended,
        a_request_to_stop_is_for_one_run,
        an_abort_is_not_taken_back,
        a_request_to_stop_has_exactly_one_observer,
        a_watcher_hears_a_request_from_before,
        a_watcher_hears_a_request_that_comes_later,
        every_watcher_hears_a_request,
    }
    branching {
        a_branch_begins_at_a_checkpoint,
        a_branch_begins_after_the_results_of_its_message,
        a_clone_is_independent_of_its_original,
        a_branch_that_cannot_be_made_leaves_nothing,
        a_branch_uses_no_call_id_again,
    }
    rewinding {
        checkpoints_after_one_are_dropped,
        the_answers_to_rewound_calls_are_forgotten,
        the_children_of_rewound_calls_are_unlinked,
        a_run_records_the_session_before_its_turn,
    }
    deleting {
        deleting_takes_children_rows_and_stream,
        deleting_takes_more_children_than_a_page_holds,
        deleting_a_child_leaves_its_parent,
        a_deleted_child_leaves_no_reservation,
        a_session_made_again_starts_fresh,
        a_session_can_be_replaced_in_one_commit,
        expired_sessions_are_removed_with_their_children,
        expired_sessions_are_found_among_other_due_work,
    }
    listing {
        each_filter_of_a_list_selects_what_it_names,
        sessions_are_found_by_a_large_metadata_value,
        filters_of_a_list_combine,
        a_list_follows_changes,
        pages_of_a_list_are_stable_and_capped,
    }
    due {
        a_running_run_is_due_when_its_lease_lapses,
        a_pending_call_is_due_at_its_deadline,
        a_pending_call_is_due_for_its_warning,
        a_suspended_run_is_due_when_all_its_calls_are_answered,
        an_inbox_is_due_when_nothing_runs,
        a_stop_is_owed_when_nobody_performs_the_run,
        a_session_is_due_when_it_expires,
        the_most_overdue_comes_first,
        due_work_is_asked_for_by_kind_and_agent,
        pages_of_due_work_miss_nothing,
        a_backlog_counts_pending_calls_leases_and_due_sessions,
    }
    durability {
        every_acknowledged_write_is_found_after_reopening,
        fences_of_deleted_sessions_stay_used_after_reopening,
        incarnations_of_deleted_streams_stay_used_after_reopening,
    }
    takeovers {
        a_take_over_is_counted_until_the_run_commits,
        an_orderly_hand_over_is_not_counted,
        a_new_run_was_never_taken_over,
        a_run_of_another_host_is_left_to_it,
        nobody_takes_a_run_whose_lease_is_valid,
        a_take_over_under_a_root_at_rest_leaves_the_stream_ended,
    }
    resting {
        the_stream_is_active_while_the_caller_of_a_child_runs,
    }
}

suite! { ($)
    /// The contract of a [`SessionStore`](helix_agents_core::store::SessionStore) that has a clock of
    /// its own.
    mod clock(Subject);

    /// Makes a test of every case about stores that judge leases and due work by a clock of their
    /// own. The argument is that of `store_contract!`, with the clock declared by `living_by`:
    ///
    /// ```
    /// # use helix_agents_core::memory::MemoryStore;
    /// # use helix_agents_testkit::contract::Subject;
    /// helix_agents_testkit::clock_contract!(async || {
    ///     let clock = Subject::fresh_clock();
    ///     Subject::from(MemoryStore::new().with_clock(clock.clone())).living_by(clock)
    /// });
    /// ```
    macro clock_contract;

    clocks {
        a_caller_whose_clock_is_ahead_takes_no_lease,
        a_caller_whose_clock_is_ahead_finds_nothing_due,
        a_lease_lasts_for_the_requested_time,
    }
}

suite! { ($)
    /// The contract of [`StreamManager`](helix_agents_core::stream::StreamManager).
    mod stream(Subject);

    /// Makes a test of every case of the streams' contract. The argument is that of
    /// `store_contract!`.
    ///
    /// ```
    /// # use helix_agents_core::memory::MemoryStore;
    /// helix_agents_testkit::stream_contract!(async || MemoryStore::new());
    /// ```
    macro stream_contract;

    appending {
        sequences_begin_at_one_and_grow,
        nothing_is_seen_of_a_refused_commit,
        a_chunk_is_seen_with_its_commit_and_not_before,
        a_superseded_writer_is_refused,
        an_oversized_chunk_is_refused_before_it_gets_a_number,
        a_commit_with_an_oversized_chunk_is_refused_whole,
        the_stream_of_a_deleted_root_cannot_be_written,
        a_session_writes_to_the_stream_of_its_root_only,
        concurrent_writers_lose_nothing,
    }
    retention {
        a_sequence_is_never_used_twice,
        discarded_deltas_are_removed_and_commits_stay,
        a_session_discards_its_own_deltas_only,
        a_batch_is_discarded_in_parts,
        a_batch_is_trimmed_in_parts,
        trimming_removes_the_oldest_and_renumbers_nothing,
    }
    rewinding {
        a_rewound_stream_uses_no_sequence_again,
        a_refused_commit_rewinds_nothing,
        a_child_rewinds_its_own_chunks_only,
        readers_of_a_rewound_stream_are_told,
    }
    reading {
        a_reader_resumes_at_every_sequence,
        readers_before_during_and_after_see_the_same,
        a_waiting_reader_is_woken,
        a_slow_reader_loses_nothing,
        a_change_is_noticed,
    }
    condensing {
        condensing_removes_what_the_messages_hold_and_nothing_else,
        a_condensed_stream_is_read_like_before,
        a_reader_resumes_in_a_condensed_stream,
        replies_of_several_sessions_are_made_from_their_messages,
        a_step_of_two_runs_is_given_once,
        a_reply_before_many_events_is_given_once,
        a_reply_before_a_notice_is_found,
    }
    ending {
        a_stream_ends_fails_or_pauses_and_continues,
        chunks_before_the_end_are_seen_before_it,
        a_reader_is_told_which_chunks_were_removed,
        live_readers_continue_after_a_discarded_attempt,
        a_reader_of_a_removed_stream_ends,
    }
    incarnations {
        an_incarnation_is_never_used_twice,
        a_live_reader_is_not_spliced_onto_another_stream,
        a_waiting_reader_hears_that_its_stream_was_replaced,
        a_reader_with_a_cursor_into_a_deleted_stream_is_told,
    }
}

suite! { ($)
    /// The contract of [`LockManager`](helix_agents_core::lock::LockManager).
    mod lock(LockSubject);

    /// Makes a test of every case of the locks' contract. The argument makes a fresh `LockManager`,
    /// or a [`LockSubject`](crate::contract::LockSubject).
    ///
    /// ```
    /// # use helix_agents_core::lock::InMemoryLockManager;
    /// helix_agents_testkit::lock_contract!(async || InMemoryLockManager::new());
    /// ```
    macro lock_contract;

    locking {
        a_second_holder_is_refused,
        exactly_one_of_many_concurrent_requests_gets_the_lock,
        a_lock_lapses,
        a_lock_is_renewed,
        a_released_lock_is_free,
        a_later_holder_has_a_larger_token,
        a_superseded_holder_can_do_nothing,
        a_holder_may_take_its_lock_again,
        a_key_is_any_text,
    }
}
