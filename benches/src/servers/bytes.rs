//! What a step keeps on a server, the chunk log included, and that it is no more in a long turn than in a short one.

use std::collections::BTreeMap;

use crate::bytes::turn;
use crate::measure::{Bound, Report, Target, print_figure};
use crate::sqlite::Outcome;

use super::{Kind, Server};

const FEW: usize = 100;
const MANY: usize = 1_000;

pub(super) fn measure<K: Kind>(report: &mut Report, server: &Server<K>) -> Outcome<()> {
    let kept = |steps: usize| -> Outcome<BTreeMap<String, f64>> {
        let name = format!("bytes{steps}");
        server.host.block_on(async {
            let store = K::open(&server.url, &name, 4).await?;
            turn(store, steps).await?;
            Ok(K::bytes(&server.url, &name).await?.into_iter().collect())
        })
    };
    let [none, few, many] = [kept(0)?, kept(FEW)?, kept(MANY)?];
    let all = |of: &BTreeMap<String, f64>| of.values().sum::<f64>();
    let of_steps = |of: &BTreeMap<String, f64>| all(of) - all(&none);
    let mut parts = Vec::new();
    for (name, bytes) in &many {
        let before = none.get(name).copied().unwrap_or_default();
        let each = (bytes - before) / MANY as f64;
        if each >= 1.0 {
            parts.push(format!("{name} {each:.0}"));
        }
    }
    let (short, long) = (of_steps(&few) / FEW as f64, of_steps(&many) / MANY as f64);
    print_figure(&format!(
        "{}, bytes a step: {short:.0} in {FEW} steps, {long:.0} in {MANY}: {}",
        K::NAME,
        parts.join(", ")
    ));
    report.target(Target {
        what: K::FIGURES.bytes,
        ours: long / short,
        bound: Bound::AtMost(1.1),
        tolerated: None,
        beside: format!("{long:.0} bytes a step in {MANY} steps, {short:.0} in {FEW}"),
    });
    Ok(())
}
