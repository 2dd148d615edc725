//! The workspace as the laws see it: plain data, so that a test can construct one.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use cargo_metadata::{DependencyKind, MetadataCommand, Package};

/// All that the laws examine.
#[derive(Debug, Clone)]
pub(crate) struct House {
    pub(crate) members: Vec<Member>,
    /// The text of the top `Cargo.toml`, because a law checks its comments.
    pub(crate) manifest: String,
    /// The names of the top-level files and folders.
    pub(crate) top: Vec<String>,
    /// Every Rust file: its path and its text.
    pub(crate) sources: Vec<(String, String)>,
}

/// A package of the workspace.
#[derive(Debug, Clone)]
pub(crate) struct Member {
    pub(crate) name: String,
    pub(crate) version: String,
    /// `1.95`, if the manifest states it.
    pub(crate) rust_version: Option<String>,
    pub(crate) published: bool,
    /// The text of its manifest.
    pub(crate) manifest: String,
    /// The names of the files and folders beside the manifest.
    pub(crate) files: Vec<String>,
    /// The names of its dependencies and build dependencies.
    pub(crate) dependencies: Vec<String>,
    /// The features of other packages that it and its build enable: the package's name, a slash, the feature's name.
    pub(crate) enabled: Vec<String>,
    /// The names of its additional dependencies for tests.
    pub(crate) dev_dependencies: Vec<String>,
}

impl House {
    /// Reads the workspace that this program belongs to.
    pub(crate) fn read() -> Result<Self> {
        let metadata = MetadataCommand::new()
            .no_deps()
            .current_dir(root())
            .exec()
            .context("failed to read the workspace")?;
        let mut sources = Vec::new();
        rust_files(&root(), &mut sources)?;
        let members = metadata.packages.iter().map(member);
        Ok(Self {
            members: members.collect::<Result<_>>()?,
            manifest: fs::read_to_string(root().join("Cargo.toml"))?,
            top: names(&root())?,
            sources,
        })
    }
}

/// The top folder of the workspace, wherever the command was called.
pub(crate) fn root() -> PathBuf {
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    own.parent().unwrap_or(own).to_path_buf()
}

/// Cargo's target directory.
pub(crate) fn target() -> Result<PathBuf> {
    let metadata = MetadataCommand::new()
        .no_deps()
        .current_dir(root())
        .exec()
        .context("failed to read the workspace")?;
    Ok(metadata.target_directory.into())
}

fn member(package: &Package) -> Result<Member> {
    let needed = |dev: bool| {
        let dependencies = package.dependencies.iter();
        dependencies
            .filter(|dependency| (dependency.kind == DependencyKind::Development) == dev)
            .map(|dependency| dependency.name.clone())
            .collect()
    };
    let needed_features = package
        .dependencies
        .iter()
        .filter(|dependency| dependency.kind != DependencyKind::Development)
        .flat_map(|dependency| {
            let features = dependency.features.iter();
            features.map(|feature| format!("{}/{feature}", dependency.name))
        });
    // Its own features may enable another package's: `lockkeeper-core/mutants`, or `lockkeeper-core?/mutants`.
    let own_features = package.features.values().flatten();
    let enabled = needed_features
        .chain(own_features.map(|feature| feature.replace('?', "")))
        .collect();
    let folder = package.manifest_path.parent();
    Ok(Member {
        enabled,
        files: names(folder.context("a manifest without a folder")?.as_std_path())?,
        manifest: fs::read_to_string(&package.manifest_path)?,
        name: package.name.to_string(),
        version: package.version.to_string(),
        rust_version: package
            .rust_version
            .as_ref()
            .map(|version| format!("{}.{}", version.major, version.minor)),
        // `publish = false` arrives as an empty list of registries.
        published: package.publish.as_ref().is_none_or(|to| !to.is_empty()),
        dependencies: needed(false),
        dev_dependencies: needed(true),
    })
}

/// Collects the Rust files below a folder, without build output and hidden files.
fn rust_files(folder: &Path, found: &mut Vec<(String, String)>) -> Result<()> {
    for name in names(folder)? {
        let path = folder.join(&name);
        if path.is_dir() {
            if name != "target" && !name.starts_with('.') {
                rust_files(&path, found)?;
            }
        } else if name.ends_with(".rs") {
            let text = fs::read_to_string(&path)?;
            found.push((path.display().to_string(), text));
        }
    }
    Ok(())
}

fn names(folder: &Path) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(folder)? {
        names.push(entry?.file_name().to_string_lossy().into_owned());
    }
    names.sort();
    Ok(names)
}
