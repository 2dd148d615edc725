//! The Debian package: a tree of files and the metadata that dpkg needs.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use super::{UNITS, is_static};
use crate::house::{House, root, target};
use crate::steps::execute;
use crate::tools;

/// Where each shell looks for a command's completions.
const COMPLETIONS: [(&str, &str); 3] = [
    ("bash", "usr/share/bash-completion/completions/lockkeeper"),
    ("zsh", "usr/share/zsh/vendor-completions/_lockkeeper"),
    (
        "fish",
        "usr/share/fish/vendor_completions.d/lockkeeper.fish",
    ),
];

const DOCUMENTATION: &str = "usr/share/doc/lockkeeper";

/// Builds the package from a program, into `dist` below the target directory.
pub(super) fn package(program: &Path) -> Result<PathBuf> {
    let dist = target()?.join("dist");
    let tree = dist.join("tree");
    if tree.exists() {
        fs::remove_dir_all(&tree)?;
    }
    put(&tree, "usr/bin/lockkeeper", fs::read(program)?, 0o755)?;
    let manual = tree.join("usr/share/man/man1");
    fs::create_dir_all(&manual)?;
    execute(Command::new(program).arg("manual").arg(&manual))?;
    let pages = fs::read_dir(&manual)?.map(|page| Ok(page?.path()));
    execute(
        Command::new("gzip")
            .arg("-9n")
            .args(pages.collect::<Result<Vec<_>>>()?),
    )?;
    for (shell, path) in COMPLETIONS {
        let script = tools::output(Command::new(program).args(["completions", shell]))?;
        put(&tree, path, script, 0o644)?;
    }
    let licence = fs::read_to_string(root().join("LICENSE-MIT"))?;
    let copyright = format!("{COPYRIGHT}\n{licence}");
    put(
        &tree,
        &format!("{DOCUMENTATION}/copyright"),
        copyright,
        0o644,
    )?;
    for example in UNITS {
        let name = example
            .rsplit('/')
            .next()
            .context("an example without a name")?;
        let text = fs::read(root().join(example))?;
        put(
            &tree,
            &format!("{DOCUMENTATION}/examples/{name}"),
            text,
            0o644,
        )?;
    }
    let (version, architecture) = (
        version()?,
        tools::output(Command::new("dpkg").arg("--print-architecture"))?,
    );
    let control = control(&version, architecture.trim(), is_static(program)?);
    put(&tree, "DEBIAN/control", control, 0o644)?;
    let package = dist.join(format!("lockkeeper_{version}_{}.deb", architecture.trim()));
    let mut build = Command::new("dpkg-deb");
    build
        .args(["-Zxz", "-z1", "--root-owner-group", "--build"])
        .arg(&tree)
        .arg(&package);
    execute(&mut build)?;
    Ok(package)
}

const COPYRIGHT: &str = "\
Lockkeeper is licensed by the MIT licence, below, or by version 2.0 of the Apache licence, in
/usr/share/common-licenses/Apache-2.0, as you choose.
";

/// The control file. A program that is not static is only for testing this package, so the required library version is left
/// out.
fn control(version: &str, architecture: &str, is_static: bool) -> String {
    let depends = if is_static {
        ""
    } else {
        "Depends: libc6, libgcc-s1\n"
    };
    format!(
        "\
Package: lockkeeper
Version: {version}
Architecture: {architecture}
Maintainer: The Lockkeeper maintainers
Section: admin
Priority: optional
{depends}Suggests: redis-server
Description: run programs under distributed locks on Redis or Valkey
 Runs a program on one machine of many, or on so many at a time, and stops it
 before its lock can be somebody else's. Shows who holds which lock and who
 waits, in a terminal, as a web page, and as metrics for Prometheus.
"
    )
}

fn version() -> Result<String> {
    let members = House::read()?.members.into_iter();
    let mut commands = members.filter(|member| member.name == "lockkeeper-cli");
    let command = commands.next().context("there is no command")?;
    Ok(command.version)
}

/// Writes a file into the tree, and creates its folders.
fn put(tree: &Path, path: &str, contents: impl AsRef<[u8]>, mode: u32) -> Result<()> {
    let path = tree.join(path);
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    fs::write(&path, contents)?;
    fs::set_permissions(&path, Permissions::from_mode(mode))?;
    Ok(())
}
