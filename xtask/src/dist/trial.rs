//! Tries the program and the package that users get.

use std::env;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use super::UNITS;
use crate::house::root;
use crate::launch::Server;
use crate::steps::execute;
use crate::tools;

/// The name of the package.
const NAME: &str = "lockkeeper";

/// Fails unless the program prints its version, runs its demo, and runs another program under a
/// lock on a server, all with an empty environment.
pub(super) fn works(program: &Path) -> Result<()> {
    let lockkeeper = |words: &[&str]| {
        let mut command = Command::new(program);
        tools::output(command.env_clear().args(words))
    };
    print!("{}", lockkeeper(&["--version"])?);
    lockkeeper(&["demo"])?;
    let token = "echo $LOCKKEEPER_FENCE";
    let server = Server::start()?;
    let url = server.url();
    let words = "run --no-wait --lock trial -- /bin/sh -c".split(' ');
    let words = ["--url", &url].into_iter().chain(words).chain([token]);
    let token = lockkeeper(&words.collect::<Vec<_>>())?;
    let token: u64 = token.trim().parse().context("the job has seen no token")?;
    ensure!(token > 0, "the job has no token");
    Ok(())
}

/// Installs a package, tries what it has installed, removes it, and checks what it leaves behind. If that is impossible here,
/// prints a note; where everything must be tried, fails.
pub(super) fn package(package: &Path) -> Result<()> {
    let obstacle = match tools::can_install() {
        false => Some("root on Debian may install packages, nobody else"),
        true if is_known()? => Some("a package of that name is installed"),
        true => None,
    };
    match obstacle {
        Some(why) if env::var_os("CI").is_some() => bail!(why),
        Some(why) => {
            println!("{why}: THE PACKAGE IS NOT INSTALLED");
            return Ok(());
        }
        None => {}
    }
    // Debian images leave out documentation.
    let whole = [
        "--path-include=/usr/share/man/*",
        "--path-include=/usr/share/doc/*",
    ];
    execute(
        Command::new("dpkg")
            .args(whole)
            .arg("--install")
            .arg(package),
    )?;
    let tried = try_installed();
    let files = tools::output(Command::new("dpkg").args(["--listfiles", NAME]));
    execute(Command::new("dpkg").args(["--purge", NAME]))?;
    tried?;
    let files = files?;
    let own = files.lines().filter(|path| path.contains(NAME));
    let left: Vec<&str> = own
        .clone()
        .filter(|path| Path::new(path).exists())
        .collect();
    ensure!(left.is_empty() && !is_known()?, "it leaves behind {left:?}");
    println!("{} files and folders of its own, none is left", own.count());
    Ok(())
}

/// Whether dpkg knows the package.
fn is_known() -> Result<bool> {
    let mut status = Command::new("dpkg-query");
    let output = status.args(["--show", NAME]).output()?;
    Ok(output.status.success())
}

fn try_installed() -> Result<()> {
    works(Path::new("/usr/bin/lockkeeper"))?;
    let loads =
        format!("source /usr/share/bash-completion/completions/{NAME} && complete -p {NAME}");
    execute(Command::new("bash").args(["-c", &loads]))?;
    for page in [NAME, "lockkeeper-run"] {
        match tools::version(Command::new("man").args(["--where", page])) {
            Some(path) if !path.is_empty() => println!("{path}"),
            Some(_) => bail!("man finds no {page}"),
            None => println!("no man here: THE MAN PAGES ARE NOT LOOKED FOR"),
        }
    }
    if tools::version(Command::new("systemd-analyze").arg("--version")).is_none() {
        println!("no systemd-analyze here: THE UNITS ARE NOT CHECKED");
        return Ok(());
    }
    let mut verify = Command::new("systemd-analyze");
    execute(verify.current_dir(root()).arg("verify").args(UNITS))
}
