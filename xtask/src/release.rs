//! `cargo xtask release`: tries a release. It tags and publishes nothing; RELEASING.md describes the steps before and after.

use std::fs;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::check;
use crate::house::{House, root};
use crate::steps::Steps;
use crate::tools;

/// The state of the repository before a release.
#[derive(Debug)]
struct Plan {
    version: String,
    /// The text of the top `Cargo.toml`.
    manifest: String,
    changelog: String,
    security: String,
    /// Changes that git has not committed.
    uncommitted: String,
    /// The tag of this version, if it exists.
    tag: String,
}

/// Tries everything, and then fails if anything is missing.
pub(crate) fn run(steps: &mut Steps) -> Result<()> {
    let plan = Plan::read()?;
    steps.run("publish, without the registry", || {
        check::packages("publish --dry-run").map(drop)
    })?;
    let version = &plan.version;
    println!("\nA release is, by hand:");
    println!("    git tag --sign v{version} --message 'Lockkeeper {version}'");
    println!("    git push origin v{version}");
    println!("    cargo publish --workspace");
    steps.run("what is missing", || {
        let missing = plan.missing();
        for obstacle in &missing {
            println!("        - {obstacle}");
        }
        ensure!(missing.is_empty(), "{} things are missing", missing.len());
        Ok(())
    })
}

impl Plan {
    fn read() -> Result<Self> {
        let house = House::read()?;
        let mut published = house.members.iter().filter(|member| member.published);
        let first = published.next().context("nothing is published")?;
        let text = |name: &str| fs::read_to_string(root().join(name)).context(name.to_owned());
        let git = |words: &[&str]| {
            let mut command = Command::new("git");
            tools::output(command.current_dir(root()).args(words))
        };
        Ok(Self {
            changelog: text("CHANGELOG.md")?,
            security: text("SECURITY.md")?,
            uncommitted: git(&["status", "--porcelain"])?,
            tag: git(&["tag", "--list", &format!("v{}", first.version)])?,
            version: first.version.clone(),
            manifest: house.manifest,
        })
    }

    fn missing(&self) -> Vec<String> {
        let version = &self.version;
        let dated = format!("## {version} - 20");
        let mut headings = self
            .changelog
            .lines()
            .filter(|line| line.starts_with("## "));
        let lines = [
            (
                self.manifest.contains("\nrepository = \""),
                "Cargo.toml has no `repository`, where people find the sources".to_owned(),
            ),
            (
                headings
                    .next()
                    .is_some_and(|first| first.starts_with(&dated)),
                format!("CHANGELOG.md does not begin with {version} and its date"),
            ),
            (
                self.security.contains("mailto:") || self.security.contains("https://"),
                "SECURITY.md has no address to write to".to_owned(),
            ),
            (
                self.uncommitted.is_empty(),
                format!("not committed:\n{}", self.uncommitted.trim_end()),
            ),
            (
                self.tag.is_empty(),
                format!("there is a tag v{version} already"),
            ),
        ];
        let missing = lines.into_iter().filter(|(is_there, _)| !is_there);
        missing.map(|(_, obstacle)| obstacle).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_a_release_lacks_is_named() {
        let mut plan = Plan {
            version: "0.1.0".to_owned(),
            manifest: "[workspace.package]\nrepository = \"https://example.org\"\n".to_owned(),
            changelog: "# Changelog\n\n## 0.1.0 - 2026-12-01\n".to_owned(),
            security: "Write to <mailto:security@example.org>.\n".to_owned(),
            uncommitted: String::new(),
            tag: String::new(),
        };
        assert_eq!(plan.missing(), [""; 0]);
        plan.manifest.clear();
        plan.changelog = "## Unreleased: 0.1.0\n\n## 0.0.9 - 2026-11-01\n".to_owned();
        plan.security.clear();
        plan.uncommitted = " M Cargo.toml\n".to_owned();
        plan.tag = "v0.1.0\n".to_owned();
        assert_eq!(plan.missing().len(), 5);
    }
}
