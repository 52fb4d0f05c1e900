//! Reads the workspace's packages from `cargo metadata`, as the types of [`crate::arrows`].

use serde::Deserialize;

use crate::{
    arrows::{Kind, Need, Package},
    error::{Error, Result},
    tree::{Tree, cargo},
};

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<MetadataPackage>,
    workspace_root: String,
}

#[derive(Deserialize)]
struct MetadataPackage {
    name: String,
    manifest_path: String,
    dependencies: Vec<MetadataNeed>,
}

#[derive(Deserialize)]
struct MetadataNeed {
    name: String,
    kind: Option<String>,
}

/// One line of a dependency tree: its depth, and the package's name.
pub(crate) type Branch = (usize, String);

/// The packages of the workspace with the dependencies their manifests declare.
pub(crate) fn packages(tree: &Tree) -> Result<Vec<Package>> {
    let mut command = cargo();
    command.args(["metadata", "--format-version", "1", "--no-deps"]);
    read_packages(&tree.output(command)?)
}

fn read_packages(json: &str) -> Result<Vec<Package>> {
    let metadata: Metadata = serde_json::from_str(json)
        .map_err(|error| Error::malformed("the output of cargo metadata", error))?;
    let root = metadata.workspace_root;
    metadata
        .packages
        .into_iter()
        .map(|package| {
            let folder = package
                .manifest_path
                .strip_prefix(&root)
                .and_then(|path| path.strip_suffix("Cargo.toml"))
                .ok_or_else(|| {
                    Error::malformed(&package.manifest_path, "outside of the workspace")
                })?
                .trim_matches('/')
                .to_owned();
            let needs = package.dependencies.into_iter().map(need).collect();
            Ok(Package {
                name: package.name,
                folder,
                needs,
            })
        })
        .collect()
}

fn need(need: MetadataNeed) -> Need {
    Need {
        name: need.name,
        kind: match need.kind.as_deref() {
            Some("dev") => Kind::Dev,
            Some("build") => Kind::Build,
            _ => Kind::Normal,
        },
    }
}

/// The resolved normal dependencies of one package, for every target and feature it has.
///
/// This asks `cargo tree` and not the resolve graph of `cargo metadata`: the graph unifies the
/// features of the whole workspace, so it would blame the package for what another one switched
/// on in a shared dependency.
pub(crate) fn normal_tree(tree: &Tree, package: &str) -> Result<Vec<Branch>> {
    let mut command = cargo();
    command
        .args(["tree", "--locked", "--all-features", "--target", "all"])
        .args(["--edges", "normal", "--prefix", "depth", "--format", " {p}"])
        .args(["--package", package]);
    read_tree(&tree.output(command)?)
}

fn read_tree(text: &str) -> Result<Vec<Branch>> {
    text.lines()
        .filter(|line| !line.trim().is_empty())
        .map(|line| {
            let mut words = line.split_whitespace();
            let depth = words.next().and_then(|word| word.parse().ok());
            depth
                .zip(words.next().map(str::to_owned))
                .ok_or_else(|| Error::malformed("the output of cargo tree", line))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_are_read_with_folder_and_kinds() {
        let json = r#"{
            "workspace_root": "/w",
            "packages": [{
                "name": "a", "manifest_path": "/w/crates/a/Cargo.toml",
                "dependencies": [
                    {"name": "x", "kind": null},
                    {"name": "y", "kind": "dev", "rename": "x"},
                    {"name": "z", "kind": "build"}
                ]
            }]
        }"#;
        let need = |name: &str, kind| Need {
            name: name.to_owned(),
            kind,
        };
        let expected = Package {
            name: "a".to_owned(),
            folder: "crates/a".to_owned(),
            needs: vec![
                need("x", Kind::Normal),
                need("y", Kind::Dev),
                need("z", Kind::Build),
            ],
        };
        assert_eq!(read_packages(json).unwrap(), [expected]);
    }

    #[test]
    fn a_tree_is_read_with_depths() {
        let text = "0 core v0.1.0 (/w/crates/core)\n1 sha2 v0.11.1\n2 digest v0.11.3 (*)\n";
        let branches = [(0, "core"), (1, "sha2"), (2, "digest")];
        assert_eq!(
            read_tree(text).unwrap(),
            branches.map(|(depth, name)| (depth, name.to_owned()))
        );
        assert!(read_tree("core v0.1.0\n").is_err());
    }
}
