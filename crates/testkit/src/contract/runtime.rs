//! The contract of runtimes: the outcome of a turn, on any host.
//!
//! A case gets a [`RuntimeSubject`]: a runtime over a fresh store, and a way to another runtime
//! over the same store, as in a new process. It gives the runtime an agent with a model of prepared
//! replies, and reads the outcome from the store.

pub(super) mod agents;
mod answering;
mod approving;
mod asking;
mod bounding;
mod branching;
mod budgeting;
mod companions;
mod completing;
mod delegating;
mod fitting;
mod hooking;
mod late_answers;
mod lines;
mod logging;
mod ordering;
mod patching;
mod pausing;
mod recording;
mod recording_hooks;
mod refusing;
mod renewing;
mod results;
mod retrying;
mod sending;
mod showing;
mod siblings;
pub(super) mod stepwise_model;
mod subject;
mod time_travel;
mod timing_out;
mod turns;
mod waiting_children;
mod waiting_companions;

use super::Runner;
use crate::MockReply;

pub use subject::{RuntimeSubject, Wanted};

suite! { ($)
    mod runtime(RuntimeSubject) here;

    /// Makes a test of every case of the runtimes' contract.
    ///
    /// The argument makes a fresh [`RuntimeSubject`](crate::contract::RuntimeSubject), or a
    /// [`ThreadRuntime`](crate::ThreadRuntime), which is turned into one.
    ///
    /// ```
    /// # use helix_agents_core::memory::MemoryStore;
    /// # use helix_agents_testkit::ThreadRuntime;
    /// helix_agents_testkit::runtime_contract!(async || ThreadRuntime::new(MemoryStore::new()));
    /// ```
    macro runtime_contract;

    turns {
        each_turn_and_each_resume_writes_one_run,
        a_run_records_its_start_and_its_progress,
        a_run_has_the_status_of_its_outcome,
        a_session_that_waits_is_active_and_has_pending_calls,
        a_new_turn_has_steps_and_an_output_of_its_own,
        a_new_turn_follows_a_failed_one,
        an_interrupted_run_is_paired_and_resumed,
    }
    sending {
        a_queued_message_is_answered_by_its_own_run,
        a_message_interrupts_the_run_of_another_process,
        a_message_over_pending_calls_is_answered,
    }
    results {
        a_text_is_a_result_as_it_is,
        the_model_reads_a_failure,
        the_model_reads_why_a_call_cannot_run,
        a_fatal_error_ends_the_run_with_every_call_paired,
        a_tool_that_takes_too_long_is_given_up,
        a_repeated_call_id_gets_a_number,
        a_call_that_was_given_up_stays_unknown,
    }
    bounding {
        the_model_reads_that_a_result_cannot_be_stored,
        the_model_reads_that_a_reconciled_result_cannot_be_stored,
        tool_output_beyond_the_bounds_is_refused_to_the_tool,
        hook_output_beyond_the_bounds_is_refused_to_the_hook,
        an_output_that_cannot_be_stored_is_requested_again,
        the_model_reads_that_arguments_cannot_be_stored,
        a_turn_with_values_that_cannot_be_stored_is_refused,
        values_within_the_bounds_are_stored_and_read_again,
    }
    ordering {
        finishing_calls_come_last_and_one_by_one,
        results_stand_in_the_models_order,
    }
    pausing {
        a_clients_call_waits_and_the_run_ends,
        a_paused_run_is_in_the_store_alone,
        other_processes_answer_and_resume,
        an_answer_starts_nothing,
        a_mixed_batch_pauses_in_part,
        exactly_one_of_many_resumes_runs,
        a_repeated_answer_is_already_completed,
        one_of_many_equal_answers_is_accepted,
        a_clients_answer_is_the_calls_result,
        the_wait_for_a_client_is_recorded,
        a_turn_pauses_more_than_once,
    }
    approving {
        a_rule_decides_which_calls_need_an_approval,
        an_approval_is_requested_and_the_run_resumes,
        an_approved_call_runs_once_and_a_denied_one_never,
        an_approval_is_valid_for_one_call_only,
        an_approval_of_other_arguments_runs_nothing,
    }
    answering {
        an_early_answer_is_used_by_the_running_run,
        a_run_pauses_for_calls_that_are_still_open,
        a_call_of_a_failed_run_is_unknown,
        an_accepted_answer_outlives_a_failure,
        an_approval_can_be_given_up,
        the_caller_resumes_after_the_last_answer,
        the_last_answer_continues_by_itself,
    }
    timing_out {
        a_call_times_out_at_its_deadline,
        a_call_times_out_once,
        a_resume_takes_overdue_calls_as_timed_out,
        a_timeout_leaves_other_calls_open,
        a_run_about_to_pause_takes_a_timeout,
        hooks_see_a_timeout,
        a_timeout_cannot_be_submitted,
        an_operator_gives_stuck_calls_up,
    }
    late_answers {
        an_answer_before_the_deadline_is_in_time,
        an_answer_at_the_deadline_is_late,
        a_late_answer_continues_by_itself,
        a_late_answer_does_not_replace_a_timeout,
        a_late_answer_to_a_completed_session_is_told_in_the_next_turn,
        a_late_answer_does_not_stand_between_a_call_and_its_result,
        an_approval_after_the_deadline_runs_nothing,
        a_late_answer_is_checked,
    }
    refusing {
        an_unknown_agent_is_refused,
        a_running_session_is_left_alone,
        a_completed_session_is_not_resumed,
        a_failed_session_is_not_resumed,
        a_session_that_waits_is_not_resumed,
        a_turn_needs_a_message_and_its_own_agent,
    }
    hooking {
        a_caller_that_waited_for_sub_agents_is_resumed,
        the_hooks_of_a_call_come_in_one_order,
        after_hooks_follow_the_models_order,
        hooks_see_the_start_the_end_and_the_failure_of_a_turn,
        the_agents_hooks_come_before_the_executions,
        state_changes_of_hooks_are_committed_with_the_step,
        a_failing_hook_does_not_fail_the_run,
        hooks_see_a_pause_and_its_end_with_their_calls,
        hooks_see_the_start_of_a_turn_once_despite_retries,
    }
    patching {
        a_client_that_applies_patches_has_the_servers_state,
        patches_are_streamed_while_the_tool_runs,
        a_failed_turn_leaves_a_client_with_the_servers_state,
        a_stopped_turn_leaves_a_client_with_the_servers_state,
        a_tool_may_emit_more_than_a_chunk_holds,
    }
    asking {
        the_model_is_shown_everything,
        a_reply_is_streamed_in_pieces_and_stored_whole,
        a_failed_model_call_is_tried_again,
        a_model_that_keeps_failing_fails_the_turn,
        the_tokens_of_a_call_that_fails_are_recorded,
        the_tokens_of_a_call_that_is_cut_off_are_recorded,
        a_discarded_attempt_is_not_replayed,
    }
    showing {
        the_model_is_shown_state_changes_of_the_hook_before_it,
        state_changes_of_a_hook_after_a_reply_come_before_its_calls,
        a_model_that_takes_too_long_is_asked_again,
        a_rule_that_panics_ends_no_turn,
        the_model_reads_that_a_result_breaks_its_schema,
        the_model_reads_why_its_output_was_refused,
        a_call_id_that_was_cut_off_is_not_used_again,
        an_owed_output_is_owed_after_an_interruption,
    }
    renewing {
        a_new_turn_clears_the_failure,
        a_new_turn_clears_the_interruption,
        a_turn_takes_keys_for_its_state_only,
        the_owner_of_a_question_is_noted,
    }
    completing {
        a_final_output_ends_the_turn_beside_other_calls,
        an_invalid_output_is_asked_for_again,
        an_output_that_is_owed_is_asked_for,
        a_native_output_is_kept_as_a_message,
        an_output_that_never_comes_fails_the_turn,
        the_limit_of_steps_fails_the_turn_unless_the_rule_ends_it,
        a_reply_that_was_cut_off_runs_nothing,
        an_agent_with_an_output_has_ways_to_give_it,
    }
    recording {
        every_step_leaves_one_checkpoint,
        a_lost_run_continues_from_its_last_checkpoint,
        usage_is_stored_with_the_session,
        a_tool_can_use_everything_in_its_context,
        every_call_has_a_unique_idempotency_key,
        a_long_history_is_kept_and_shown_whole,
    }
    budgeting {
        a_run_that_reaches_its_budget_is_paused_until_it_is_raised,
        the_budget_of_a_session_is_shared_by_its_turns,
        a_message_begins_a_new_budget_of_the_run,
        a_budget_counts_every_attempt_of_a_model_call,
        a_call_is_reserved_with_its_longest_reply,
        tool_calls_beyond_the_budget_are_not_executed,
        a_budget_in_micro_dollars_needs_prices,
        sub_agents_that_are_done_keep_no_account,
    }
    delegating {
        a_sub_agents_output_is_the_result,
        a_typed_output_of_a_sub_agent_is_the_result,
        a_sub_agent_that_fails_leaves_its_siblings_alone,
        a_sub_agent_that_cannot_be_started_is_an_error,
        hooks_of_the_caller_run_around_a_sub_agent,
        hooks_of_an_execution_run_for_sub_agents,
        a_finishing_tool_waits_for_sub_agents,
        sub_agents_are_deleted_with_their_caller,
        readers_learn_how_a_sub_agent_ended,
    }
    waiting_children {
        a_sub_agent_that_pauses_pauses_its_caller,
        a_question_of_a_grandchild_is_answered_at_the_root,
        an_answer_continues_a_child_and_then_its_caller,
        children_that_wait_are_answered_in_any_order,
        a_stop_reaches_sub_agents,
        a_sub_agent_that_needs_an_approval_is_not_started_before,
        a_stop_of_a_paused_run_ends_its_sub_agents,
        a_message_over_a_waiting_sub_agent_stops_it,
        a_waiting_sub_agent_is_deleted,
        the_stream_is_paused_while_children_wait,
        the_stream_is_active_while_a_child_works_alone,
        the_session_of_a_sub_agent_takes_no_messages,
        a_turn_that_is_begun_again_has_no_old_children,
        calls_of_two_children_with_one_id_are_told_apart,
    }
    siblings {
        many_sub_agents_ask_at_the_same_time,
        the_tool_calls_of_a_tree_are_counted_once,
    }
    companions {
        a_blocking_companion_answers_where_it_is_asked,
        the_usage_of_a_companion_counts_for_all_above,
        a_non_blocking_companion_tells_when_it_is_done,
        a_companion_that_is_done_later_starts_no_run,
        companion_calls_of_one_reply_are_made_in_its_order,
        a_message_interrupts_a_companion_at_work,
        a_bad_name_of_a_companion_is_an_error,
        companions_are_listed_and_found_by_address,
        the_name_of_a_deleted_companion_is_free,
    }
    waiting_companions {
        a_blocking_companion_that_waits_pauses_its_caller,
        a_non_blocking_companion_that_waits_is_answered_at_the_root,
        a_companion_at_work_is_ended,
        a_companion_that_waits_is_ended,
        a_stop_reaches_companions,
        a_stop_of_a_session_at_rest_reaches_companions,
        a_stop_of_a_session_at_rest_ends_companions_that_wait,
        a_message_leaves_companions_at_work,
        a_companion_is_taken_back_with_its_call,
        companions_are_deleted_with_their_caller,
    }
    fitting {
        a_long_conversation_is_shown_by_its_last_turns,
        earlier_turns_are_summarized_once,
        the_current_turn_is_never_cut,
        a_conversation_that_is_too_long_fails_typed,
        a_refused_conversation_is_shortened,
        a_summary_that_fails_is_tried_again,
        a_rewind_takes_a_summary_back,
        a_stop_ends_a_summary,
        a_summary_counts_for_the_budget,
        an_unknown_limit_is_refused,
        a_user_cannot_leave_messages_out,
    }
    retrying {
        a_retry_begins_at_the_last_good_checkpoint,
        a_retry_drops_a_fatal_step,
        a_retry_of_a_first_step_keeps_the_request,
        a_retry_after_the_limit_of_steps_has_a_fresh_budget,
        a_retry_drops_a_stopped_step,
        a_turn_that_did_not_fail_is_not_retried,
        a_retry_keeps_a_step_that_was_answered,
    }
    time_travel {
        a_session_goes_back_to_an_earlier_turn,
        a_session_goes_back_within_a_turn_again_and_again,
        a_completed_turn_goes_on_from_its_end,
        a_session_goes_back_over_a_pause,
        a_session_goes_back_over_an_answered_pause,
        a_session_goes_back_to_its_own_checkpoints_only,
        a_failed_return_is_retried_from_where_it_went,
        a_rewound_stream_is_condensed,
    }
    branching {
        a_turn_begins_in_a_branch,
        a_branch_of_an_open_step_begins_before_it,
        a_turn_in_an_impossible_branch_is_refused,
    }
    logging {
        waits_and_answers_are_logged,
        timeouts_and_late_answers_are_logged,
        aborted_calls_are_logged,
    }
}
