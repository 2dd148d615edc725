//! Prints documentation of the command: completions and man pages.

use std::path::Path;

use clap::CommandFactory as _;
use clap_complete::Shell;

use crate::args::Arguments;
use crate::exit::Failure;
use crate::out;

pub(crate) fn completions(shell: Shell) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Arguments::command(), "lockkeeper", &mut script);
    out::print(&String::from_utf8_lossy(&script))
}

pub(crate) fn manual(folder: Option<&Path>) -> Result<(), Failure> {
    let failed = |error: std::io::Error| Failure::system("write the man page", &error);
    if let Some(folder) = folder {
        return clap_mangen::generate_to(Arguments::command(), folder).map_err(failed);
    }
    let mut page = Vec::new();
    clap_mangen::Man::new(Arguments::command())
        .render(&mut page)
        .map_err(failed)?;
    out::print(&String::from_utf8_lossy(&page))
}
