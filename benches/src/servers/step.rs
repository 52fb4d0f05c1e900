//! A durable step: turns of an agent, beside the same loop by hand that makes the same two commits a step.

use std::future::Future;
use std::sync::Arc;

use helix_agents_core::Agent;
use helix_agents_core::message::{AssistantMessage, ToolMessage};
use helix_agents_core::model::Model;
use helix_agents_core::runtime::{Outcome as RunOutcome, RuntimeExt};
use helix_agents_runtime_local::{LocalRuntime, SystemClock};

use crate::measure::{Bound, Report, Target, median};
use crate::sqlite::Outcome;
use crate::step_rows::StepRows;
use crate::steps::{Stamped, adder, bare_loop};

use super::{ByHand, Kind, Server};

const STEPS: usize = 100;
/// Turns of each side, one after the other; what else the machine does then slows both.
const ROUNDS: usize = 15;

pub(super) fn measure<K: Kind>(report: &mut Report, server: &Server<K>) -> Outcome<()> {
    let model = Stamped::new(STEPS)?;
    let agent = adder(Arc::clone(&model) as Arc<dyn Model>)?;
    let host = &server.host;
    let store = host.block_on(K::open(&server.url, "steps", 16))?;
    let by_hand = Arc::new(host.block_on(K::ByHand::open(&server.url, 1))?);
    let runtime = {
        let _inside = host.enter();
        LocalRuntime::builder(store).recovery(false).build()
    };
    let (mut ratios, mut times) = (Vec::new(), [Vec::new(), Vec::new()]);
    for round in 0..ROUNDS {
        let turn = by_hand_turn(round * (STEPS + 1), &agent, &model, &by_hand);
        host.block_on(host.spawn(turn))??;
        let bare = median(model.take());
        host.block_on(async {
            let run = runtime.execute(&agent, "Add.").await?;
            match run.outcome().await? {
                RunOutcome::Done(_) => Outcome::Ok(()),
                other => Err(format!("a run ended as {other:?}").into()),
            }
        })?;
        let ours = median(model.take());
        ratios.push(ours / bare);
        let [hand, framework] = &mut times;
        hand.push(bare);
        framework.push(ours);
    }
    let [bare, ours] = times.map(median);
    report.target(Target {
        what: K::FIGURES.step,
        ours: median(ratios),
        bound: Bound::AtMost(1.3),
        tolerated: None,
        beside: format!("ours {ours:.0} µs, two commits by hand {bare:.0} µs"),
    });
    Ok(())
}

/// A turn by hand, as a task of its own. Its steps are counted from `first`.
fn by_hand_turn<B: ByHand>(
    first: usize,
    agent: &Agent,
    model: &Arc<Stamped>,
    by_hand: &Arc<B>,
) -> impl Future<Output = Outcome<()>> + Send + use<B> {
    let (agent, model, by_hand) = (agent.clone(), Arc::clone(model), Arc::clone(by_hand));
    async move {
        let clock = SystemClock::new();
        let mut n = first;
        let keep = |message: &AssistantMessage, results: &[ToolMessage]| {
            n += 1;
            let (n, rows) = (n, StepRows::of(n, message, results));
            let by_hand = Arc::clone(&by_hand);
            async move { by_hand.step(n, rows?).await }
        };
        bare_loop(&agent, model.as_ref(), &clock, STEPS, keep).await
    }
}
