//! Deployments that outlive the test program that started them, for the next run: `cargo xtask test --again`.
//!
//! A folder has a register of each deployment: the processes of its servers, and where they listen. Whichever test program
//! has locked the register uses the deployment. Its servers end by themselves when nobody has used them for half an hour.

use std::fs::{self, File, OpenOptions};
use std::io::{Read as _, Seek as _, Write as _};
use std::path::PathBuf;

use anyhow::{Context, Result, ensure};

use crate::server::{PROGRAM_VARIABLE, Server};

/// The variable that names the folder. Without it nothing is kept.
const VARIABLE: &str = "LOCKKEEPER_TEST_KEPT";

/// The register of one deployment, locked until this program ends or this is dropped.
#[derive(Debug)]
pub(crate) struct Register {
    file: File,
}

impl Register {
    /// That of the deployment of this name, if deployments are kept and no other program uses this one.
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

    /// The servers that an earlier program has left here.
    pub(crate) fn servers(&mut self) -> Result<Vec<Server>> {
        let mut text = String::new();
        self.file.rewind()?;
        self.file.read_to_string(&mut text)?;
        let mut lines = text.lines();
        ensure!(lines.next() == Some(&program()), "of another program");
        lines.map(server).collect()
    }

    /// Leaves these servers for the next program.
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

/// The program that the servers are to be of, as the environment names it.
fn program() -> String {
    std::env::var(PROGRAM_VARIABLE).unwrap_or_default()
}

fn server(line: &str) -> Result<Server> {
    let mut words = line.splitn(3, ' ');
    let mut word = || words.next().context("half a line");
    let (pid, port, directory) = (word()?.parse()?, word()?.parse()?, word()?);
    Server::take_up(pid, port, directory.into())
}
