//! `cargo xtask real-time`: lists the tests that may depend on how fast the machine is, because they use real servers or processes
//! and name times. What such a test may do is in `CONTRIBUTING.md`.

use anyhow::Result;

use crate::house::{House, root};

/// Words of a test that runs in real time.
const REAL: [&str; 8] = [
    "Server::",
    "Cluster::",
    "Watched::",
    "Proxy::",
    "Command::new",
    "JavaClient",
    "thread::spawn",
    "multi_thread",
];

/// Words of a test that names times.
const TIMES: [&str; 8] = [
    "Duration::from_",
    "timeout(",
    ".ttl(",
    "wait_for(",
    "elapsed()",
    "sleep(",
    "seconds(",
    "millis(",
];

pub(crate) fn list() -> Result<()> {
    let house = House::read()?;
    let (mut tests, mut candidates) = (0, 0);
    for (path, text) in &house.sources {
        let path = path.strip_prefix(&format!("{}/", root().display()));
        for (line, test) in tests_of(text) {
            tests += 1;
            let (real, times) = (words(&test, &REAL), words(&test, &TIMES));
            if !real.is_empty() && !times.is_empty() && !test.contains("start_paused") {
                candidates += 1;
                let path = path.unwrap_or_default();
                println!("{path}:{line}: {} {}", real.join(" "), times.join(" "));
            }
        }
    }
    println!("{candidates} of {tests} tests");
    Ok(())
}

/// The tests of a file, from the attribute to the closing brace, with the lines where they begin.
fn tests_of(text: &str) -> Vec<(usize, String)> {
    let mut tests: Vec<(usize, String)> = Vec::new();
    let mut end = None;
    for (number, line) in text.lines().enumerate() {
        let code = line.trim_start();
        if code.starts_with("#[test]")
            || code.starts_with("#[tokio::test")
            || code.starts_with("#[::tokio::test")
        {
            tests.push((number + 1, String::new()));
            end = Some(format!("{}}}", &line[..line.len() - code.len()]));
        }
        if let (Some(closing), Some((_, test))) = (&end, tests.last_mut()) {
            test.push_str(line);
            test.push('\n');
            if line == closing {
                end = None;
            }
        }
    }
    tests
}

fn words(test: &str, wanted: &[&str]) -> Vec<String> {
    let found = wanted.iter().filter(|word| test.contains(**word));
    found.map(|word| (*word).to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_reaches_from_its_attribute_to_its_closing_brace() {
        let text = "fn a() {}\n#[tokio::test]\nasync fn b() {\n    if c {\n    }\n}\nfn d() {}\n";
        let tests = tests_of(text);
        assert_eq!(tests.len(), 1);
        let (line, test) = &tests[0];
        assert_eq!(*line, 2);
        assert!(test.starts_with("#[tokio::test]") && test.ends_with("    }\n}\n"));
    }
}
