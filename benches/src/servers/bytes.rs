//! What a step keeps on a server, the chunk log included, and that it is no more in a long turn than in a short one.
//!
//! What the first steps keep is left out: tables and indexes grow by pages, of which the first are there before any
//! step.

use std::collections::BTreeMap;

use crate::bytes::turn;
use crate::measure::{Bound, Report, Target, print_figure};
use crate::sqlite::Outcome;

use super::{Kind, Server};

/// The steps of three turns.
const TURNS: [usize; 3] = [200, 1_000, 4_000];

pub(super) fn measure<K: Kind>(report: &mut Report, server: &Server<K>) -> Outcome<()> {
    let kept = |steps: usize| -> Outcome<BTreeMap<String, f64>> {
        let name = format!("bytes{steps}");
        server.host.block_on(async {
            let store = K::open(&server.url, &name, 4).await?;
            turn(store, steps).await?;
            Ok(K::bytes(&server.url, &name).await?.into_iter().collect())
        })
    };
    let [few, some, many] = TURNS;
    let turns = [kept(few)?, kept(some)?, kept(many)?];
    let [of_few, of_some, of_many] = turns.each_ref();
    let between = (many - some) as f64;
    let mut parts = Vec::new();
    for (name, bytes) in of_many {
        let before = of_some.get(name).copied().unwrap_or_default();
        let each = (bytes - before) / between;
        if each >= 1.0 {
            parts.push(format!("{name} {each:.0}"));
        }
    }
    let all = |of: &BTreeMap<String, f64>| of.values().sum::<f64>();
    let short = (all(of_some) - all(of_few)) / (some - few) as f64;
    let long = (all(of_many) - all(of_some)) / between;
    print_figure(&format!(
        "{}, bytes a step: {short:.0} up to step {some}, {long:.0} from there to step {many}: {}",
        K::NAME,
        parts.join(", ")
    ));
    report.target(Target {
        what: K::FIGURES.bytes,
        ours: long / short,
        bound: Bound::AtMost(1.1),
        tolerated: None,
        beside: format!(
            "{long:.0} bytes a step from {some} to {many}, {short:.0} from {few} to {some}"
        ),
    });
    Ok(())
}
