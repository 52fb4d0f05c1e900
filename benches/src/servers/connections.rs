//! Commits of eight sessions at once, beside those of one session on one connection.

use std::sync::Arc;
use std::time::Instant;

use crate::measure::{Bound, Report, Target, median};
use crate::reference::{Reference, reference_step};
use crate::sqlite::Outcome;
use crate::step_rows::StepRows;

use super::{ByHand, Kind, Server};

const SESSIONS: usize = 8;
const STEPS: usize = 100;
const ROUNDS: usize = 7;

pub(super) fn measure<K: Kind>(report: &mut Report, server: &Server<K>) -> Outcome<()> {
    let (pooled, separate, by_hand) = server.host.block_on(factors::<K>(&server.url))?;
    let [hand, one] = [&by_hand, &pooled].map(|of| median(of.alone.clone()));
    let beside = |of: &Factor| {
        let many = median(of.together.clone());
        format!("{one:.0} commits/s alone, {many:.0} together")
    };
    report.target(Target {
        what: K::FIGURES.one_store,
        ours: median(pooled.factors.clone()),
        bound: Bound::AtLeast(3.0),
        tolerated: None,
        beside: beside(&pooled),
    });
    report.target(Target {
        what: K::FIGURES.eight_stores,
        ours: median(separate.factors.clone()),
        bound: Bound::AtLeast(3.0),
        tolerated: None,
        beside: format!(
            "{}; by hand {:.2}: {hand:.0} and {:.0}",
            beside(&separate),
            median(by_hand.factors),
            median(by_hand.together),
        ),
    });
    Ok(())
}

/// How many commits a second were made, and how many times as many together, in each round.
#[derive(Default)]
struct Factor {
    alone: Vec<f64>,
    together: Vec<f64>,
    factors: Vec<f64>,
}

impl Factor {
    fn push(&mut self, alone: f64, together: f64) {
        self.alone.push(alone);
        self.together.push(together);
        self.factors.push(together / alone);
    }
}

/// Measures eight sessions through one store, through eight stores as those of eight processes, and by hand.
async fn factors<K: Kind>(url: &str) -> Outcome<(Factor, Factor, Factor)> {
    let alone = vec![K::open(url, "many", 1).await?];
    let pooled = vec![K::open(url, "many", SESSIONS).await?];
    let (mut separate, mut by_hand) = (Vec::new(), Vec::new());
    for n in 0..SESSIONS {
        separate.push(K::open(url, "many", 1).await?);
        let session = 100 + i64::try_from(n)?;
        by_hand.push(Arc::new(K::ByHand::open(url, session).await?));
    }
    let mut all = (Factor::default(), Factor::default(), Factor::default());
    for round in 0..ROUNDS {
        let name = |of: &str| format!("{of}-{round}");
        let one = rate::<K>(&alone, 1, &name("alone")).await?;
        all.0
            .push(one, rate::<K>(&pooled, SESSIONS, &name("pooled")).await?);
        all.1.push(
            one,
            rate::<K>(&separate, SESSIONS, &name("separate")).await?,
        );
        let (first, _) = by_hand.split_at(1);
        let one = rate_by_hand(first, 2 * round).await?;
        all.2
            .push(one, rate_by_hand(&by_hand, 2 * round + 1).await?);
    }
    Ok(all)
}

/// Commits a second of this many sessions at once, distributed over stores.
async fn rate<K: Kind>(stores: &[K::Store], sessions: usize, name: &str) -> Outcome<f64> {
    let mut ready = Vec::new();
    for (n, store) in stores.iter().cycle().take(sessions).enumerate() {
        let reference = Reference::create(store, &format!("{name}-{n}")).await?;
        ready.push((store.clone(), reference));
    }
    let begun = Instant::now();
    let tasks = ready.into_iter().map(|(store, mut reference)| {
        tokio::spawn(async move {
            for _ in 0..STEPS {
                reference.step(&store).await?;
            }
            Outcome::Ok(())
        })
    });
    for task in tasks.collect::<Vec<_>>() {
        task.await??;
    }
    Ok((2 * STEPS * sessions) as f64 / begun.elapsed().as_secs_f64())
}

/// The same by hand, each session on a connection of its own.
async fn rate_by_hand<B: ByHand>(all: &[Arc<B>], round: usize) -> Outcome<f64> {
    let begun = Instant::now();
    let tasks = all.iter().map(|by_hand| {
        let by_hand = Arc::clone(by_hand);
        tokio::spawn(async move {
            for n in 1..=STEPS {
                let n = round * STEPS + n;
                let (message, result) = reference_step(n)?;
                by_hand
                    .step(n, StepRows::of(n, &message, &[result])?)
                    .await?;
            }
            Outcome::Ok(())
        })
    });
    for task in tasks.collect::<Vec<_>>() {
        task.await??;
    }
    Ok((2 * STEPS * all.len()) as f64 / begun.elapsed().as_secs_f64())
}
