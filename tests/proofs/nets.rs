//! The nets of the simulation show mistakes that break no rule.

use std::path::Path;
use std::process::Command;

use lockkeeper_testkit::simulation::net::{self, Behaviour, Difference, Net};
use lockkeeper_testkit::simulation::{Options, Slip, Workload, run};

/// A workload with all that the mistakes concern, whose histories are short.
const WORKLOAD: Workload = Workload::Mutex;

/// What clients send with this mistake.
fn behaviour(slip: Option<Slip>) -> Behaviour {
    let history = |seed| {
        let options = Options {
            record: true,
            slip,
            ..Options::default()
        };
        let outcome = run(WORKLOAD, seed, options).unwrap();
        assert_eq!(outcome.violation, None, "seed {seed}");
        outcome
    };
    let outcomes: Vec<_> = (1..=net::histories(WORKLOAD)).map(history).collect();
    Behaviour::of(WORKLOAD, &outcomes)
}

/// What one net shows of a mistake.
fn shown(net: Net, slip: Slip) -> Vec<String> {
    let differences = behaviour(Some(slip)).differences(None).into_iter();
    let shown = differences.filter(|it| it.net == net);
    shown.map(|it| it.what).collect()
}

#[test]
fn exact_net_shows_a_swap_a_doubled_request_and_a_late_heartbeat() {
    for slip in [Slip::Swap, Slip::Double, Slip::Late] {
        assert_ne!(shown(Net::Exact, slip), [""; 0], "{slip:?}");
    }
}

#[test]
fn ordered_net_shows_a_doubled_request() {
    let shown = shown(Net::Ordered, Slip::Double);
    let first = shown.first().map_or("", String::as_str);
    let numbers = first.split(|it: char| !it.is_ascii_digit());
    let numbers: Vec<u64> = numbers.filter_map(|it| it.parse().ok()).collect();
    let [_seed, found, expected, ..] = numbers[..] else {
        panic!("{shown:?}");
    };
    assert_eq!(found, expected + 1, "{first}");
}

#[test]
fn ordered_net_shows_a_late_heartbeat() {
    let shown = shown(Net::Ordered, Slip::Late);
    assert!(shown.iter().any(|it| it.ends_with("ms late")), "{shown:?}");
}

#[test]
fn economy_net_shows_a_retry_that_only_faults_double() {
    let shown = shown(Net::Economy, Slip::DoubleRetry);
    assert!(
        shown.iter().any(|it| it.contains("scripts a grant")),
        "{shown:?}"
    );
}

#[test]
fn difference_shows_the_expected_call_if_the_calls_were_kept() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("nets");
    behaviour(None).keep(&folder).unwrap();
    let differences = behaviour(Some(Slip::Swap)).differences(Some(&folder));
    let exact = differences.iter().find(|it| it.net == Net::Exact);
    let Some(Difference { what, .. }) = exact else {
        panic!("{differences:?}");
    };
    let line = |word: &str| what.lines().find_map(|line| line.strip_prefix(word));
    let [before, expected, found] = ["before ", "expected ", "found "].map(line);
    assert!(before.is_some() && found.is_some(), "{what}");
    assert_ne!(expected, found);
}

#[test]
fn another_process_sends_the_same() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("nets of another process");
    let output = Command::new(env!("CARGO_BIN_EXE_simulate"))
        .args(["--net", "--kind", "latch", "--calls"])
        .arg(folder)
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "no difference\n");
}
