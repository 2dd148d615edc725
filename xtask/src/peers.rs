//! The programs that use other lock libraries, in `tests/peers`, each built with its language's tools into `target/peers`.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, anyhow};

use crate::house::root;
use crate::steps::{Steps, cargo, execute};

/// One program: its folder, the tool that builds it, and how.
struct Peer {
    folder: &'static str,
    tool: &'static str,
    /// Builds it from its sources into a folder of its own. Returns the command line that starts it.
    build: fn(&Path, &Path) -> Result<Vec<PathBuf>>,
}

const PEERS: [Peer; 5] = [
    Peer {
        folder: "rslock",
        tool: "cargo",
        build: rslock,
    },
    Peer {
        folder: "redsync",
        tool: "go",
        build: redsync,
    },
    Peer {
        folder: "redis-py",
        tool: "python3",
        build: redis_py,
    },
    Peer {
        folder: "node-redlock",
        tool: "npm",
        build: node_redlock,
    },
    Peer {
        folder: "redisson",
        tool: "mvn",
        build: redisson,
    },
];

/// A program that was built: the folder of its sources, and the command line that starts it.
pub(crate) type Built = (&'static str, Vec<String>);

/// Builds all programs whose tools are installed, and prints which are left out.
pub(crate) fn build(steps: &mut Steps) -> Result<Vec<Built>> {
    let mut built = Vec::new();
    for peer in &PEERS {
        if !can_be_run(peer.tool) {
            println!("NOT MEASURED: {}, for want of {}", peer.folder, peer.tool);
            continue;
        }
        steps.run(&format!("build {}", peer.folder), || {
            built.push((peer.folder, peer.built()?));
            Ok(())
        })?;
    }
    Ok(built)
}

/// Builds the programs that tests need, where possible, and prints which are left out. Where everything must be tried, fails
/// instead.
pub(crate) fn offer() -> Result<Vec<Built>> {
    let mut found = Vec::new();
    for peer in &PEERS {
        let built = if can_be_run(peer.tool) {
            peer.built()
        } else {
            Err(anyhow!("{} is not installed", peer.tool))
        };
        match built {
            Ok(words) => found.push((peer.folder, words)),
            Err(error) if env::var_os("CI").is_none() => {
                println!("NOT TRIED BESIDE {}: {error:#}", peer.folder);
            }
            Err(error) => return Err(error.context(format!("no {} to test beside", peer.folder))),
        }
    }
    Ok(found)
}

impl Peer {
    fn built(&self) -> Result<Vec<String>> {
        let out = root().join("target/peers").join(self.folder);
        fs::create_dir_all(&out)?;
        let words = (self.build)(&root().join("tests/peers").join(self.folder), &out)?;
        let words = words.into_iter().map(|word| word.into_os_string());
        let words = words.map(|word| word.into_string().ok());
        words.collect::<Option<_>>().context("no text")
    }
}

fn can_be_run(tool: &str) -> bool {
    let mut command = Command::new(tool);
    let version = if tool == "go" { "version" } else { "--version" };
    let quiet = command
        .arg(version)
        .stdin(Stdio::null())
        .stdout(Stdio::null());
    quiet.status().is_ok()
}

fn rslock(sources: &Path, out: &Path) -> Result<Vec<PathBuf>> {
    let mut build = cargo();
    build.args(["build", "--release", "--locked", "--target-dir"]);
    execute(build.arg(out).current_dir(sources))?;
    Ok(vec![out.join("release/peer-rslock")])
}

fn redsync(sources: &Path, out: &Path) -> Result<Vec<PathBuf>> {
    let program = out.join("peer");
    let mut build = Command::new("go");
    build.args(["build", "-o"]).arg(&program);
    execute(build.arg(".").current_dir(sources))?;
    Ok(vec![program])
}

fn redis_py(sources: &Path, out: &Path) -> Result<Vec<PathBuf>> {
    execute(Command::new("python3").args(["-m", "venv"]).arg(out))?;
    let python = out.join("bin/python");
    let mut install = Command::new(&python);
    install.args(["-m", "pip", "install", "--quiet", "--requirement"]);
    execute(install.arg(sources.join("requirements.txt")))?;
    Ok(vec![python, sources.join("peer.py")])
}

fn node_redlock(sources: &Path, out: &Path) -> Result<Vec<PathBuf>> {
    // Node looks for packages beside the program.
    for file in ["package.json", "package-lock.json", "peer.mjs"] {
        fs::copy(sources.join(file), out.join(file))
            .with_context(|| format!("failed to copy {file}"))?;
    }
    let mut install = Command::new("npm");
    install.args(["ci", "--no-audit", "--no-fund"]);
    execute(install.current_dir(out))?;
    Ok(vec!["node".into(), out.join("peer.mjs")])
}

fn redisson(sources: &Path, out: &Path) -> Result<Vec<PathBuf>> {
    let jars = out.join("jars");
    let mut build = Command::new("mvn");
    build.args(["--quiet", "--batch-mode", "compile"]);
    build.arg("dependency:copy-dependencies");
    build.arg(format!("-Dout={}", out.display()));
    build.arg(format!("-DoutputDirectory={}", jars.display()));
    execute(build.current_dir(sources))?;
    let classes = format!("{}:{}/*", out.join("classes").display(), jars.display());
    Ok(["java", "-cp", &classes, "Peer"].map(PathBuf::from).into())
}
