//! Deployments that outlive their test program so that the next run can use them: `cargo xtask test --again`.
//!
//! A folder holds one register per deployment: the processes of its servers and their ports. The test program that locks a
//! register uses its deployment. The servers end by themselves when they have not been used for half an hour.

use std::fs::{self, File, OpenOptions};
use std::io::{Read as _, Seek as _, Write as _};
use std::path::PathBuf;

use anyhow::{Context, Result, ensure};

use crate::server::{PROGRAM_VARIABLE, Server};

/// Environment variable that names the folder. Without it nothing is kept.
const VARIABLE: &str = "LOCKKEEPER_TEST_KEPT";

/// The register of one deployment, locked until it is dropped or this program ends.
#[derive(Debug)]
pub(crate) struct Register {
    file: File,
}

impl Register {
    /// Locks the register with this name. Returns `None` if nothing is kept or another program uses the deployment.
    pub(crate) fn lock(name: &str) -> Result<Option<Self>> {
        let Some(folder) = std::env::var_os(VARIABLE).map(PathBuf::from) else {
            return Ok(None);
        };
        fs::create_dir_all(&folder)?;
        let mut options = OpenOptions::new();
        let options = options.read(true).write(true).create(true).truncate(false);
        let file = options.open(folder.join(name))?;
        Ok(file.try_lock().is_ok().then_some(Self { file }))
    }

    /// Adopts the servers that an earlier program kept.
    pub(crate) fn servers(&mut self) -> Result<Vec<Server>> {
        let mut text = String::new();
        self.file.rewind()?;
        self.file.read_to_string(&mut text)?;
        let mut lines = text.lines();
        ensure!(lines.next() == Some(&program()), "of another program");
        lines.map(server).collect()
    }

    /// Records these servers for the next program.
    pub(crate) fn write<'a>(&mut self, servers: impl Iterator<Item = &'a Server>) -> Result<()> {
        let mut text = program() + "\n";
        for server in servers {
            let pid = server.pid().context("a server that does not run")?;
            text += &format!("{pid} {} {}\n", server.port(), server.file(""));
        }
        self.file.rewind()?;
        self.file.set_len(0)?;
        self.file.write_all(text.as_bytes())?;
        Ok(())
    }
}

/// The server program that the environment selects; registered servers must run the same.
fn program() -> String {
    std::env::var(PROGRAM_VARIABLE).unwrap_or_default()
}

fn server(line: &str) -> Result<Server> {
    let mut words = line.splitn(3, ' ');
    let mut word = || words.next().context("half a line");
    let (pid, port, directory) = (word()?.parse()?, word()?.parse()?, word()?);
    Server::take_up(pid, port, directory.into())
}
