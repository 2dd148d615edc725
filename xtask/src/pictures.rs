//! `cargo xtask pictures`: draws the diagrams of the book as SVG. They contain no scripts or fonts, and their colours follow
//! the reader's preference for light or dark.

mod canvas;
mod protocols;
mod schemes;
mod sequence;

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use clap::Args;

use crate::house::root;
use crate::plots;

/// A picture: its file name without extension, and the function that draws it.
type Picture = (&'static str, fn() -> String);

const PICTURES: &[Picture] = &[
    ("which-lock", schemes::which_lock),
    ("lease", schemes::lease),
    ("queue", schemes::queue),
    ("evolution", schemes::evolution),
    ("mutex", protocols::mutex),
    ("reentrant", protocols::reentrant),
    ("fair", protocols::fair),
    ("rwlock", protocols::rwlock),
    ("semaphore", protocols::semaphore),
    ("election", protocols::election),
    ("once", protocols::once),
    ("latch", protocols::latch),
    ("multi", protocols::multi),
    ("redlock", protocols::redlock),
    ("fencing", protocols::fencing),
];

/// Options for drawing.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Writes nothing; fails if a picture differs from what would be drawn.
    #[arg(long)]
    check: bool,
}

pub(crate) fn run(options: &Options) -> Result<()> {
    if options.check {
        return check();
    }
    for (name, draw) in PICTURES {
        let path = path(name);
        fs::write(&path, draw()).with_context(|| format!("failed to write {}", path.display()))?;
    }
    plots::draw()?;
    println!("{} pictures drawn, and the plots", PICTURES.len());
    Ok(())
}

/// Fails unless the committed pictures are exactly those that are drawn here.
pub(crate) fn check() -> Result<()> {
    for (name, draw) in PICTURES {
        if fs::read_to_string(path(name)).ok() != Some(draw()) {
            bail!("docs/pictures/{name}.svg is out of date: run cargo xtask pictures");
        }
    }
    let drawn = fs::read_dir(root().join("docs/pictures"))?.count();
    if drawn != PICTURES.len() {
        bail!(
            "docs/pictures has {drawn} files, {} are drawn",
            PICTURES.len()
        );
    }
    plots::check()
}

fn path(name: &str) -> PathBuf {
    root().join("docs/pictures").join(format!("{name}.svg"))
}
