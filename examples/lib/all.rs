//! All examples compiled into one program, which takes a tenth of the time that linking each of them takes. `cargo xtask prove`
//! runs them one by one.

#![expect(dead_code, reason = "each `main` is for a program of its own")]

macro_rules! examples {
    ($($name:ident: $path:literal)*) => {
        $(
            #[path = $path]
            mod $name;
        )*

        const ALL: &[(&str, &str)] = &[$((stringify!($name), $path)),*];
    };
}

examples! {
    api_calls: "../api_calls.rs"
    batch_fleet: "../batch_fleet.rs"
    blocking: "../blocking.rs"
    cache_stampede: "../cache_stampede.rs"
    cancellation: "../cancellation.rs"
    cluster: "../cluster.rs"
    cron_job: "../cron_job.rs"
    evolution: "../evolution/main.rs"
    fair_queue: "../fair_queue.rs"
    fenced_writes: "../fenced_writes.rs"
    flash_sale: "../flash_sale.rs"
    idempotency_key: "../idempotency_key.rs"
    import_in_parts: "../import_in_parts.rs"
    leader: "../leader.rs"
    leader_probe: "../kubernetes/main.rs"
    lost_lease: "../lost_lease.rs"
    metrics: "../metrics.rs"
    order_entry: "../order_entry.rs"
    oversell: "../oversell.rs"
    redlock: "../redlock.rs"
    reentrant_call: "../reentrant_call.rs"
    retry: "../retry.rs"
    rwlock_cache: "../rwlock_cache.rs"
    scheduled_job: "../scheduled_job.rs"
    shutdown: "../shutdown.rs"
    single_flight: "../single_flight.rs"
    task_local_owner: "../task_local_owner.rs"
    testing_your_code: "../testing_your_code.rs"
    tower_layer: "../tower_layer.rs"
    transfer: "../transfer.rs"
    web_service: "../web_service.rs"
}

#[test]
fn all_examples_of_the_manifest_are_compiled() {
    let manifest = include_str!("../Cargo.toml");
    let targets = manifest.split("[[example]]").skip(1).map(|target| {
        let value = |key: &str| {
            let line = target.lines().find(|line| line.starts_with(key));
            line.and_then(|line| line.split('"').nth(1)).unwrap()
        };
        (value("name"), format!("../{}", value("path")))
    });
    let mut targets: Vec<_> = targets.collect();
    targets.sort();
    let compiled = ALL.iter().map(|(name, path)| (*name, (*path).to_owned()));
    assert_eq!(targets, compiled.collect::<Vec<_>>());
}
