//! Deployments that outlive the test that started them, so that the next test can use them.
//!
//! A folder holds one register per deployment: the processes of its servers and their ports. The test that locks a register uses
//! its deployment. The servers end by themselves ten minutes after their last use.

use std::fs::{self, File, OpenOptions};
use std::io::{Read as _, Seek as _, Write as _};
use std::path::PathBuf;

use anyhow::{Context, Result, ensure};

use crate::server::{PROGRAM_VARIABLE, Server};

/// Environment variable that names the folder: cargo's configuration sets it. Without it nothing is kept.
const VARIABLE: &str = "LOCKKEEPER_TEST_KEPT";

/// The register of one deployment, locked until it is dropped or this program ends.
#[derive(Debug)]
pub(crate) struct Register {
    file: File,
}

impl Register {
    /// Locks one of the registers of a sort, and waits if other tests use all of them. `None` if nothing is kept.
    pub(crate) fn lock_one(sort: &str, most: u32) -> Result<Option<Self>> {
        let Some(folder) = std::env::var_os(VARIABLE).map(PathBuf::from) else {
            return Ok(None);
        };
        fs::create_dir_all(&folder)?;
        let open = |number: u32| {
            let mut options = OpenOptions::new();
            let options = options.read(true).write(true).create(true).truncate(false);
            options.open(folder.join(format!("{sort}-{number}")))
        };
        for number in 0..most {
            let file = open(number)?;
            if file.try_lock().is_ok() {
                return Ok(Some(Self { file }));
            }
        }
        let file = open(std::process::id() % most)?;
        file.lock()?;
        Ok(Some(Self { file }))
    }

    /// Adopts the servers that an earlier test kept.
    pub(crate) fn servers(&mut self) -> Result<Vec<Server>> {
        let mut text = String::new();
        self.file.rewind()?;
        self.file.read_to_string(&mut text)?;
        let mut lines = text.lines();
        ensure!(lines.next() == Some(&program()), "of another program");
        lines.map(server).collect()
    }

    /// Records these servers for the next test.
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
