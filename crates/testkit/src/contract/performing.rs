//! Effects that are performed twice, late, beside others, or on a store that fails: their commits
//! count once, and nothing that was accepted is lost.

mod attempts;
mod changed_meanwhile;
mod compacting;
mod concurrent_writes;
mod cut_short;
mod dead_process;
mod double_texting;
mod editing;
mod failing;
mod faulty_store;
mod going_back;
mod remembering;
mod run_driver;
mod spending;
mod starting_children;
mod stopping;
mod timing_out;
mod unknown_results;

pub use attempts::{
    a_call_begun_before_is_not_run_again,
    an_attempt_of_unknown_order_claims_calls_that_must_not_be_repeated,
    an_attempt_that_ends_after_the_run_adds_nothing,
    two_attempts_at_a_model_call_come_to_one_reply,
};
pub use changed_meanwhile::{
    a_call_settles_its_step_with_the_latest_results, a_failed_run_is_not_an_interrupted_one,
    a_fatal_error_beats_a_result_that_would_finish, a_step_is_settled_as_it_is,
    a_stopped_step_is_closed_as_it_is, an_answer_to_a_call_with_a_result_is_not_used,
    state_changes_of_hooks_are_kept_when_a_tool_is_missing,
};
pub use compacting::{
    a_message_beside_a_summary_is_not_taken_for_it, a_summary_outlives_its_process,
    a_summary_whose_acknowledgement_is_lost_is_made_once,
    an_attempt_uses_the_summary_of_an_earlier_one, two_attempts_at_a_summary_come_to_one,
};
pub use concurrent_writes::{
    a_message_beside_a_call_runs_no_further_finisher,
    a_message_beside_a_model_call_comes_before_its_reply,
    a_pending_call_that_was_lost_is_written_again, a_stop_before_a_pause_stops, a_stop_ends_a_wait,
    an_answer_beside_a_stop_reaches_the_model,
};
pub use cut_short::{
    a_model_is_not_asked_after_a_stop, a_stop_reaches_a_running_tool,
    a_stopped_model_call_is_not_made_again, an_abort_beside_the_end_of_an_interrupted_run_fails_it,
    an_aborted_reply_is_discarded, an_interrupted_reply_is_kept,
    an_interrupted_reply_without_text_leaves_nothing,
};
pub use dead_process::{
    a_run_fails_even_if_its_last_hook_kills_the_process, a_run_that_cannot_continue_fails,
    a_run_that_only_begins_again_is_given_up, a_run_without_progress_fails_after_five_take_overs,
    a_started_call_beside_a_fatal_one_is_unknown, a_started_call_of_a_changed_agent_is_unknown,
    an_unfinished_reply_is_found_behind_a_long_stream,
};
pub use double_texting::{
    a_message_abandons_pending_calls, a_message_beside_the_end_of_a_run_starts_a_turn,
    a_message_interrupts_the_run_in_progress, a_message_is_not_taken_by_a_run_that_others_start,
    a_message_over_an_aborted_pause_fails_the_run, a_message_rolls_the_turn_back,
    a_message_whose_acknowledgement_is_lost_waits_once,
    a_queued_message_waits_for_a_suspended_turn, a_rejected_message_leaves_nothing,
    an_inbox_has_room_for_so_many_messages, messages_that_wait_enter_one_run,
    waiting_messages_come_before_other_entries,
};
pub use editing::{
    a_turn_takes_the_place_of_an_earlier_one, an_edit_beside_a_run_waits_for_its_end,
    an_edit_over_pending_calls_ends_their_run, an_edit_whose_acknowledgement_is_lost_is_made_once,
    one_of_two_equal_messages_is_taken,
};
pub use failing::{
    a_commit_whose_acknowledgement_is_lost_is_made_once,
    a_store_that_fails_for_a_while_ends_no_run, an_effect_does_not_wait_for_a_store_for_ever,
    attempts_at_a_call_are_distinguished,
    state_changes_of_hooks_before_a_failed_call_are_written_once,
    unacknowledged_deltas_are_discarded_too,
};
pub use going_back::{
    a_branch_whose_acknowledgement_is_lost_is_made_once, a_retry_does_not_rewind_a_faster_one,
    a_retry_drops_half_a_reply, a_rewind_outlives_its_process,
    a_rewind_whose_acknowledgement_is_lost_is_made_once, a_write_beside_a_rewind_is_not_split,
    an_answer_beside_a_rewind_leaves_nothing, one_of_two_retries_runs,
};
pub use remembering::{
    a_message_that_was_replaced_meanwhile_is_shown_to_the_model,
    the_memory_of_a_host_does_not_outlive_a_failed_commit, writes_of_others_are_shown_to_the_model,
};
pub use spending::a_budget_counts_commits_without_acknowledgement_once;
pub use starting_children::{
    a_child_that_begins_beside_a_stop_hears_of_it,
    a_child_whose_acknowledgement_is_lost_is_started_once,
    a_run_that_waits_for_a_working_child_is_not_given_up,
    a_stop_beside_the_start_of_a_child_starts_none, two_attempts_at_a_child_start_one,
};
pub use stopping::{
    a_pause_beside_an_answer_is_noticed, a_run_that_was_ended_meanwhile_is_not_resumed,
    a_stop_beside_a_failing_model_call_ends_the_run, a_stop_beside_a_model_call_begins_no_call,
    a_stop_beside_a_pause_stops, a_stop_beside_an_answer_that_is_taken_begins_nothing,
    a_turn_does_not_begin_in_a_session_that_was_replaced,
    a_turn_that_sets_keys_of_the_state_keeps_the_other_keys,
    an_abort_beside_a_taken_interrupt_is_not_lost, an_answer_beside_a_pause_is_taken,
};
pub use timing_out::{
    a_late_answer_beside_a_model_call_comes_after_its_reply,
    a_late_answer_whose_acknowledgement_is_lost_is_told_once,
    a_question_about_an_unknown_outcome_times_out,
    a_timeout_whose_acknowledgement_is_lost_is_made_once, an_answer_just_after_a_timeout_is_late,
    an_answer_just_before_a_resume_is_taken, an_answer_just_before_a_timeout_counts,
    one_of_two_late_answers_is_told, one_of_two_late_answers_to_an_ended_run_is_told,
};
pub use unknown_results::{
    a_finishing_call_that_was_begun_is_unknown, a_person_is_asked_about_a_call_that_was_begun,
    a_person_is_asked_about_an_approved_call_that_was_begun,
    a_reconciler_decides_about_a_call_that_was_begun,
    a_stopped_run_reports_the_calls_that_were_begun, a_superseded_process_begins_nothing,
    all_calls_that_were_begun_are_unknown,
    nobody_is_asked_about_a_call_whose_id_another_session_waits_for,
    nobody_is_asked_again_about_a_call_whose_id_another_session_waits_for,
    repeatable_calls_are_run_again,
};
