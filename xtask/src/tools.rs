//! The tools that the tests need besides Rust, and how to install them.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use rustix::process::geteuid;

use crate::steps::execute;

/// Server programs, in the testkit's order.
const SERVERS: [&str; 2] = ["redis-server", "valkey-server"];

/// As in the testkit: names the server program to test against.
pub(crate) const SERVER_VARIABLE: &str = "LOCKKEEPER_TEST_SERVER";

const HOW_TO_GET_A_SERVER: &str = "\
no Redis or Valkey server found; install one:
    Debian, Ubuntu   apt-get install redis-server
    Fedora           dnf install valkey
    Arch             pacman -S valkey
    Alpine           apk add valkey
    macOS            brew install valkey
or name a program in LOCKKEEPER_TEST_SERVER";

const HOW_TO_GET_A_COMPILER: &str = "\
no C compiler found, which the embedded Lua is built with; install one:
    Debian, Ubuntu   apt-get install gcc libc6-dev
    Fedora           dnf install gcc
    Arch             pacman -S gcc
    Alpine           apk add gcc musl-dev
    macOS            xcode-select --install
or name a program in CC";

const HOW_TO_GET_MUSL: &str = "\
no musl-gcc found, which builds the C of a static program; install it:
    Debian, Ubuntu   apt-get install musl-tools
    Fedora           dnf install musl-gcc
    Arch             pacman -S musl";

const HOW_TO_GET_CHROMIUM: &str = "\
no chromedriver found; install Chromium with it:
    Debian           apt-get install chromium chromium-driver
    Fedora           dnf install chromium chromedriver
    Arch             pacman -S chromium
    Alpine           apk add chromium chromium-chromedriver";

/// Fails with installation instructions if there is no C compiler.
pub(crate) fn require_c_compiler() -> Result<()> {
    let chosen = std::env::var("CC").ok();
    // CC may be several words, as in `ccache gcc`.
    let program = chosen
        .as_deref()
        .and_then(|words| words.split_whitespace().next());
    match find(program, &["cc"]) {
        Some(version) => println!("{version}"),
        None => bail!(HOW_TO_GET_A_COMPILER),
    }
    Ok(())
}

/// Ensures a server. Installs Debian's package where that is possible without asking; otherwise fails with instructions.
pub(crate) fn require_server() -> Result<()> {
    let chosen = std::env::var(SERVER_VARIABLE).ok();
    let find_server = || find(chosen.as_deref(), &SERVERS);
    require(
        find_server,
        chosen.is_none(),
        "redis-server",
        HOW_TO_GET_A_SERVER,
    )
}

/// Ensures a C compiler for musl in the same way.
pub(crate) fn require_musl() -> Result<()> {
    let find_compiler = || version(Command::new("musl-gcc").arg("--version"));
    require(find_compiler, true, "musl-tools", HOW_TO_GET_MUSL)
}

/// Offers tmux, for testing the command in a terminal, in the same way. Without it, that one test prints a note and is
/// skipped.
pub(crate) fn offer_tmux() -> Result<()> {
    let find_tmux = || version(Command::new("tmux").arg("-V"));
    if let Err(error) = require(find_tmux, true, "tmux", "no tmux found") {
        println!("{error}: the command is not tried in it");
    }
    Ok(())
}

/// Offers Chromium, for testing the page, in the same way. Without it, those tests are skipped with a note; where everything
/// must be tried, this fails.
pub(crate) fn offer_chromium(found: &mut bool) -> Result<()> {
    let find_driver = || version(Command::new("chromedriver").arg("--version"));
    // The driver's package also installs the browser.
    let offered = require(find_driver, true, "chromium-driver", HOW_TO_GET_CHROMIUM);
    *found = offered.is_ok();
    match offered {
        Err(error) if std::env::var_os("CI").is_none() => {
            println!("{error}\nTHE PAGE IS NOT TRIED IN A BROWSER");
            Ok(())
        }
        offered => offered,
    }
}

/// Prints what `find` finds. If it finds nothing, first installs this Debian package where it may.
fn require(
    find: impl Fn() -> Option<String>,
    may_install: bool,
    package: &str,
    how_to_get_it: &str,
) -> Result<()> {
    if find().is_none() && may_install && can_install() {
        println!("installing Debian's {package} package");
        install(package)?;
    }
    match find() {
        Some(version) => println!("{version}"),
        None => bail!("{how_to_get_it}"),
    }
    Ok(())
}

/// The server program: the chosen one, or the first that runs.
pub(crate) fn server_program() -> Option<String> {
    let chosen = std::env::var(SERVER_VARIABLE).ok();
    let found = find(chosen.as_deref(), &SERVERS)?;
    found
        .split_once(": ")
        .map(|(program, _)| program.to_owned())
}

/// The first program that runs, with the first line of its version output.
pub(crate) fn find(chosen: Option<&str>, usual: &[&str]) -> Option<String> {
    let candidates = chosen.map_or_else(|| usual.to_vec(), |chosen| vec![chosen]);
    candidates.into_iter().find_map(|program| {
        let line = version(Command::new(program).arg("--version"))?;
        Some(format!("{program}: {line}"))
    })
}

/// The first line of a command's output, if it runs.
pub(crate) fn version(command: &mut Command) -> Option<String> {
    let output = command.stdin(Stdio::null()).output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout);
    Some(text.lines().next().unwrap_or_default().to_owned())
}

/// The output of a command, if it succeeds.
pub(crate) fn output(command: &mut Command) -> Result<String> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command.stdin(Stdio::null()).stderr(Stdio::inherit());
    let output = output
        .output()
        .with_context(|| format!("failed to start {program}"))?;
    if !output.status.success() {
        bail!("{program} ended with {}", output.status);
    }
    String::from_utf8(output.stdout).with_context(|| format!("{program} prints no text"))
}

/// Whether Debian packages can be installed: as root, on Debian or a derivative such as Ubuntu, which has this file.
pub(crate) fn can_install() -> bool {
    Path::new("/etc/debian_version").exists() && geteuid().is_root()
}

fn install(package: &str) -> Result<()> {
    let _no_service = NoService::begin()?;
    execute(apt_get().arg("update"))?;
    execute(apt_get().args(["install", "-y", "--no-install-recommends", package]))
}

fn apt_get() -> Command {
    let mut command = Command::new("apt-get");
    command.env("DEBIAN_FRONTEND", "noninteractive");
    command
}

/// Keeps packages from starting services while it lives: the tests start their own servers, and a test run must not leave a
/// daemon behind.
struct NoService {
    ours: bool,
}

impl NoService {
    const POLICY: &str = "/usr/sbin/policy-rc.d";

    fn begin() -> Result<Self> {
        // An existing policy, as in container images, must stay.
        let ours = !Path::new(Self::POLICY).exists();
        if ours {
            // 101 means "forbidden".
            fs::write(Self::POLICY, "#!/bin/sh\nexit 101\n")
                .and_then(|()| fs::set_permissions(Self::POLICY, Permissions::from_mode(0o755)))
                .with_context(|| format!("failed to write {}", Self::POLICY))?;
        }
        Ok(Self { ours })
    }
}

impl Drop for NoService {
    fn drop(&mut self) {
        if self.ours
            && let Err(error) = fs::remove_file(Self::POLICY)
        {
            eprintln!("failed to remove {}: {error}", Self::POLICY);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_found_and_one_that_is_not_there_is_not() {
        assert!(find(None, &["/no/such/program", "rustc"]).is_some());
        assert_eq!(find(None, &["/no/such/program"]), None);
    }

    #[test]
    fn a_chosen_program_is_not_replaced_by_a_usual_one() {
        assert_eq!(find(Some("/no/such/program"), &["rustc"]), None);
    }
}
