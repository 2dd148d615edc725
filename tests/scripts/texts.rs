//! How the text of a script is composed, as the wire-format page explains it to authors of other clients.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use lockkeeper_lua::ALL;

#[test]
fn the_wire_format_says_of_what_each_script_is_joined() -> Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let page = fs::read_to_string(root.join("docs/wire-format.md"))?;
    let heading = "| script | in front of it |\n|---|---|\n";
    let (_, table) = page.split_once(heading).context("no table")?;
    let mut told = 0;
    for line in table.lines().take_while(|line| line.starts_with('|')) {
        let words: Vec<&str> = line.split('`').skip(1).step_by(2).collect();
        let (name, fragments) = words.split_first().context("no script")?;
        let script = ALL.iter().find(|script| script.name == *name);
        let script = script.with_context(|| format!("no script {name}"))?;
        let mut text = String::new();
        for fragment in fragments {
            text += &fs::read_to_string(root.join(format!("lua/shared/{fragment}.lua")))?;
            text.push('\n');
        }
        text += &fs::read_to_string(root.join(format!("lua/{name}.lua")))?;
        ensure!(text == script.source, "{name} is joined otherwise");
        told += 1;
    }
    let of_locks = ALL.iter().filter(|it| it.name.starts_with("lock/")).count();
    ensure!(told >= of_locks, "{told} scripts of {of_locks} and more");
    Ok(())
}
