//! The arrows between our crates. The rules are pure functions over [`Package`]s, so that the
//! tests below can show each kind of breach being found.

use crate::{Report, error::Result, metadata, purity, tree::Tree};

/// One package of the workspace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Package {
    pub(crate) name: String,
    /// Where it lives, relative to the root: `crates/core`.
    pub(crate) folder: String,
    pub(crate) needs: Vec<Need>,
}

/// A dependency as the manifest declares it, optional or not, for any target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Need {
    pub(crate) name: String,
    pub(crate) kind: Kind,
}

/// The kind of a dependency.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Normal,
    Build,
    Dev,
}

/// The places on the map, each with its own arrows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Room {
    Core,
    Macros,
    Models,
    Wire,
    /// Stores, runtimes and optional powers: one backend or one power each.
    Leaf,
    Testkit,
    /// Hosts of runs, which find models by their names.
    Runtime,
    Server,
    Facade,
    Cli,
    /// The server that benchmarks talk to: the other side of the network, and so none of ours.
    MockServer,
    /// Private databases for tests and benchmarks: programs that are started, and so none of ours.
    TestServers,
    /// Examples, benches, tools and tests of whole programs: the outside, where users stand.
    Outside,
}

impl Room {
    fn of(folder: &str) -> Option<Self> {
        let parts: Vec<&str> = folder.split('/').collect();
        Some(match parts.as_slice() {
            ["crates", "core"] => Self::Core,
            ["crates", "macros"] => Self::Macros,
            ["crates", "models"] => Self::Models,
            ["crates", "wire"] => Self::Wire,
            ["crates", "runtimes", _] => Self::Runtime,
            ["crates", "stores", _] | ["crates", "memory" | "workspace" | "telemetry" | "mcp"] => {
                Self::Leaf
            }
            ["crates", "testkit"] => Self::Testkit,
            ["crates", "server"] => Self::Server,
            ["crates", "helix-agents"] => Self::Facade,
            ["crates", "cli"] => Self::Cli,
            ["benches", "mock-llm"] => Self::MockServer,
            ["tests", "servers"] => Self::TestServers,
            ["examples" | "tests" | "tools", _] | ["benches"] => Self::Outside,
            _ => return None,
        })
    }

    /// Which rooms a crate in this one may build on. Tests may use anything.
    fn may_need(self, other: Self) -> bool {
        match self {
            Self::Core | Self::Macros | Self::MockServer | Self::TestServers => false,
            Self::Models | Self::Wire | Self::Leaf => other == Self::Core,
            Self::Runtime => matches!(other, Self::Core | Self::Models),
            Self::Testkit => matches!(other, Self::Core | Self::Models),
            Self::Server => matches!(other, Self::Core | Self::Wire),
            Self::Cli => !matches!(
                other,
                Self::Testkit | Self::MockServer | Self::TestServers | Self::Outside
            ),
            Self::Facade => !matches!(other, Self::MockServer | Self::TestServers | Self::Outside),
            Self::Outside => other != Self::Outside,
        }
    }

    fn rule(self) -> &'static str {
        match self {
            Self::Core => "core depends on nothing of ours",
            Self::Macros => "macros depends on nothing of ours",
            Self::MockServer => "the mock server depends on nothing of ours",
            Self::TestServers => "the servers of tests depend on nothing of ours",
            Self::Models | Self::Wire | Self::Leaf => "a leaf depends on core only",
            Self::Testkit => "testkit depends on core and models only",
            Self::Runtime => "a runtime depends on core and models only",
            Self::Server => "server depends on core and wire only",
            Self::Cli => "the binary depends on no testkit, examples, benches or tools",
            Self::Facade | Self::Outside => "nothing depends on examples, benches or tools",
        }
    }
}

pub(crate) fn check(tree: &Tree) -> Result<Report> {
    let packages = metadata::packages(tree)?;
    let mut breaches = breaches(&packages);
    if let Some(core) = packages.iter().find(|p| p.folder == purity::CORE) {
        breaches.extend(purity::direct_breaches(core));
        breaches.extend(purity::tree_breaches(&metadata::normal_tree(
            tree, &core.name,
        )?));
    } else {
        breaches.push(format!(
            "{} is not in the workspace; nothing says what must stay pure",
            purity::CORE
        ));
    }
    Ok(Report {
        summary: format!(
            "arrows: {} packages, {} breaches",
            packages.len(),
            breaches.len()
        ),
        breaches,
    })
}

/// Every arrow that the map does not have.
fn breaches(packages: &[Package]) -> Vec<String> {
    let mut breaches = Vec::new();
    for package in packages {
        let Some(room) = Room::of(&package.folder) else {
            breaches.push(format!(
                "{} is in {}, which is not on the map; move it, or give the folder its \
                 arrows in tools/repo/src/arrows.rs",
                package.name, package.folder
            ));
            continue;
        };
        for need in package.needs.iter().filter(|need| need.kind != Kind::Dev) {
            let Some(other) = packages.iter().find(|other| other.name == need.name) else {
                continue;
            };
            if Room::of(&other.folder).is_some_and(|other| !room.may_need(other)) {
                breaches.push(format!(
                    "{}/Cargo.toml depends on {}; {}",
                    package.folder,
                    need.name,
                    room.rule()
                ));
            }
        }
    }
    breaches
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A workspace from `folder -> needed folder` lines; a package is named by its folder.
    fn workspace(folders: &[&str], arrows: &[(&str, Kind, &str)]) -> Vec<Package> {
        folders
            .iter()
            .map(|folder| Package {
                name: (*folder).to_owned(),
                folder: (*folder).to_owned(),
                needs: arrows
                    .iter()
                    .filter(|(from, _, _)| from == folder)
                    .map(|(_, kind, to)| Need {
                        name: (*to).to_owned(),
                        kind: *kind,
                    })
                    .collect(),
            })
            .collect()
    }

    const MAP: [&str; 18] = [
        "crates/core",
        "crates/macros",
        "crates/models",
        "crates/wire",
        "crates/stores/sqlite",
        "crates/stores/redis",
        "crates/runtimes/local",
        "crates/memory",
        "crates/workspace",
        "crates/testkit",
        "crates/server",
        "crates/cli",
        "crates/helix-agents",
        "examples/quickstart",
        "benches",
        "benches/mock-llm",
        "tests/servers",
        "tools/repo",
    ];

    #[test]
    fn the_arrows_of_the_map_hold() {
        let allowed = [
            ("crates/models", "crates/core"),
            ("crates/stores/sqlite", "crates/core"),
            ("crates/runtimes/local", "crates/core"),
            ("crates/testkit", "crates/core"),
            ("crates/testkit", "crates/models"),
            ("crates/server", "crates/core"),
            ("crates/server", "crates/wire"),
            ("crates/cli", "crates/stores/redis"),
            ("crates/cli", "crates/helix-agents"),
            ("crates/helix-agents", "crates/macros"),
            ("crates/helix-agents", "crates/server"),
            ("crates/helix-agents", "crates/testkit"),
            ("examples/quickstart", "crates/helix-agents"),
            ("examples/quickstart", "crates/testkit"),
            ("benches", "crates/testkit"),
            ("benches", "benches/mock-llm"),
            ("benches", "tests/servers"),
        ];
        let arrows = allowed.map(|(from, to)| (from, Kind::Normal, to));
        assert_eq!(breaches(&workspace(&MAP, &arrows)), [""; 0]);
    }

    #[test]
    fn tests_may_use_anything() {
        let arrows = [
            ("crates/core", Kind::Dev, "crates/testkit"),
            ("crates/macros", Kind::Dev, "crates/helix-agents"),
            ("crates/stores/redis", Kind::Dev, "crates/stores/sqlite"),
        ];
        assert_eq!(breaches(&workspace(&MAP, &arrows)), [""; 0]);
    }

    #[test]
    fn each_arrow_that_is_not_on_the_map_is_found() {
        let forbidden = [
            ("crates/core", "crates/macros"),
            ("crates/core", "crates/testkit"),
            ("crates/macros", "crates/core"),
            ("crates/models", "crates/wire"),
            ("crates/wire", "crates/models"),
            ("crates/stores/sqlite", "crates/stores/redis"),
            ("crates/runtimes/local", "crates/stores/sqlite"),
            ("crates/memory", "crates/models"),
            ("crates/workspace", "crates/testkit"),
            ("crates/testkit", "crates/stores/sqlite"),
            ("crates/testkit", "crates/helix-agents"),
            ("crates/server", "crates/models"),
            ("crates/server", "crates/testkit"),
            ("crates/cli", "crates/testkit"),
            ("crates/helix-agents", "tools/repo"),
            ("crates/helix-agents", "benches/mock-llm"),
            ("crates/helix-agents", "tests/servers"),
            ("crates/cli", "benches/mock-llm"),
            ("crates/cli", "tests/servers"),
            ("crates/stores/redis", "tests/servers"),
            ("benches", "examples/quickstart"),
            ("benches/mock-llm", "crates/core"),
            ("tests/servers", "crates/core"),
        ];
        for (from, to) in forbidden {
            for kind in [Kind::Normal, Kind::Build] {
                let found = breaches(&workspace(&MAP, &[(from, kind, to)]));
                assert_eq!(found.len(), 1, "{from} -> {to}: {found:?}");
                assert!(found[0].starts_with(&format!("{from}/Cargo.toml depends on {to};")));
            }
        }
    }

    #[test]
    fn a_crate_that_is_not_on_the_map_is_found() {
        let found = breaches(&workspace(&["crates/helpers"], &[]));
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].contains("not on the map"));
    }
}
