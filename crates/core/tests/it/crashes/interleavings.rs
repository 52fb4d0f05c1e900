//! Random interleavings of answers, resumes, take-overs and crashes.

use helix_agents_testkit::crash::{CrashTest, Disturbance, Meddling};
use helix_agents_testkit::{AmnesiacHost, PlainHost, block_on, scenarios};
use proptest::prelude::*;

fn meddling() -> impl Strategy<Value = Meddling> {
    prop_oneof![
        Just(Meddling::AnswerAgain),
        Just(Meddling::Resume),
        Just(Meddling::Recover),
        Just(Meddling::Execute),
    ]
}

fn disturbance() -> impl Strategy<Value = Disturbance> {
    // A fifth take-over without a commit in between would end the run.
    let kills = prop::collection::vec(1usize..40, 0..5);
    let meddling = prop::collection::vec(meddling(), 0..8);
    (kills, meddling, any::<bool>()).prop_map(|(kills, meddling, backwards)| Disturbance {
        kills,
        meddling,
        backwards,
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// Disturbances in any order leave the same result as an undisturbed run. A failure prints the
    /// disturbance, which is all that is random here.
    #[test]
    fn any_disturbance_leaves_what_an_undisturbed_run_leaves(
        place in 0..scenarios::all().len(),
        disturbance in disturbance(),
        forgets in any::<bool>(),
    ) {
        let scenario = scenarios::all().swap_remove(place);
        let test = CrashTest::new(scenario);
        let test = if forgets { test.on(AmnesiacHost) } else { test.on(PlainHost) };
        let report = block_on(test.disturbed(super::store, &disturbance));
        prop_assert!(report.violations.is_empty(), "{:#?}", report);
    }
}
