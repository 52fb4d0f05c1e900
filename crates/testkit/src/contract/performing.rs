//! Effects that are performed twice, late, beside others, or on a store that fails: their commits
//! count once, and nothing that was accepted is lost.

mod attempts;
mod beside;
mod crashed;
mod desk;
mod failing;
mod faulty;

pub use attempts::{
    a_call_begun_before_is_not_run_again, an_attempt_that_ends_after_the_run_adds_nothing,
    an_untold_attempt_claims_what_must_not_be_repeated,
    two_attempts_at_a_model_call_come_to_one_reply,
};
pub use beside::{
    a_message_beside_a_call_runs_no_further_finisher,
    a_message_beside_a_model_call_comes_before_its_reply, a_question_that_was_lost_is_asked_again,
    a_stop_before_a_pause_stops, a_stop_ends_a_wait, an_answer_beside_a_stop_reaches_the_model,
};
pub use crashed::{
    a_run_that_cannot_go_on_ends, a_run_that_comes_no_further_is_given_up,
    a_started_call_beside_a_fatal_one_is_unknown, a_started_call_of_a_changed_agent_is_unknown,
};
pub use failing::{
    a_commit_whose_acknowledgement_is_lost_is_made_once,
    a_store_that_fails_for_a_while_ends_no_run,
    what_hooks_wrote_before_a_failed_call_is_written_once,
};
