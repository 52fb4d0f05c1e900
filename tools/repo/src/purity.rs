//! Core has no clock, no randomness and no I/O through a dependency. That it has none through the
//! standard library is held by clippy (`crates/core/clippy.toml`).

use std::collections::BTreeSet;

use crate::{
    arrows::{Kind, Package},
    metadata::Branch,
};

/// Where core lives.
pub(crate) const CORE: &str = "crates/core";

/// Crates that bring a clock, randomness or I/O; core may not name them.
const NOT_DIRECTLY: [&str; 12] = [
    "tokio",
    "rand",
    "getrandom",
    "uuid",
    "chrono",
    "jiff",
    "time",
    "reqwest",
    "hyper",
    "rusqlite",
    "async-std",
    "futures-timer",
];

/// Crates that core may not have anywhere below it either.
const NOT_AT_ALL: [&str; 5] = ["tokio", "mio", "hyper", "reqwest", "socket2"];

/// Direct dependencies of core that it may not have.
pub(crate) fn direct_breaches(core: &Package) -> Vec<String> {
    core.needs
        .iter()
        .filter(|need| need.kind == Kind::Normal && NOT_DIRECTLY.contains(&need.name.as_str()))
        .map(|need| {
            format!(
                "{CORE}/Cargo.toml depends on {}; time, randomness and I/O come to core through \
                 its ports",
                need.name
            )
        })
        .collect()
}

/// Forbidden crates in the tree of core's dependencies, each once, with the first way that leads
/// to it.
pub(crate) fn tree_breaches(tree: &[Branch]) -> Vec<String> {
    let mut breaches = Vec::new();
    let mut seen = BTreeSet::new();
    let mut way: Vec<&str> = Vec::new();
    for (depth, name) in tree {
        way.truncate(*depth);
        way.push(name);
        if NOT_AT_ALL.contains(&name.as_str()) && seen.insert(name) {
            breaches.push(format!(
                "core reaches {name} by {}; leave out the feature or the dependency that brings it",
                way.join(" -> ")
            ));
        }
    }
    breaches
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arrows::Need;

    #[test]
    fn each_forbidden_direct_dependency_is_found() {
        for name in NOT_DIRECTLY {
            let core = |kind| Package {
                name: "helix-agents-core".to_owned(),
                folder: CORE.to_owned(),
                needs: vec![Need {
                    name: name.to_owned(),
                    kind,
                }],
            };
            assert_eq!(direct_breaches(&core(Kind::Normal)).len(), 1, "{name}");
            assert!(direct_breaches(&core(Kind::Dev)).is_empty(), "{name}");
        }
    }

    #[test]
    fn a_forbidden_crate_deep_in_the_tree_is_found_with_its_way() {
        for name in NOT_AT_ALL {
            let branches = [
                (0, "core"),
                (1, "sha2"),
                (2, "digest"),
                (1, "web"),
                (2, name),
                (1, name),
            ];
            let tree = branches.map(|(depth, name)| (depth, name.to_owned()));
            let found = tree_breaches(&tree);
            assert_eq!(found.len(), 1, "{found:?}");
            assert!(
                found[0].contains(&format!("core -> web -> {name};")),
                "{found:?}"
            );
        }
    }
}
