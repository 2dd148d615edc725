//! Each law finds nothing in a good house and the offence in a bad one.

use super::*;

fn member(name: &str, dependencies: &[&str]) -> Member {
    Member {
        name: name.to_owned(),
        version: "0.1.0".to_owned(),
        rust_version: Some("1.95".to_owned()),
        published: !UNPUBLISHED.contains(&name),
        manifest: COMPLETE.join("\n"),
        files: FILES.map(str::to_owned).to_vec(),
        dependencies: dependencies.iter().map(ToString::to_string).collect(),
        enabled: Vec::new(),
        dev_dependencies: Vec::new(),
    }
}

fn source(path: &str, text: &str) -> (String, String) {
    (path.to_owned(), text.to_owned())
}

fn good() -> House {
    House {
        members: vec![
            member("lockkeeper", &["lockkeeper-core", "lockkeeper-mutex"]),
            member("lockkeeper-core", &["lockkeeper-lua", "tokio"]),
            member("lockkeeper-memory", &["lockkeeper-core", "mlua"]),
            member("lockkeeper-mutex", &["lockkeeper-core", "lockkeeper-lua"]),
            member("lockkeeper-redis", &["lockkeeper-core", "fred", "redis"]),
            member("lockkeeper-testkit", &["lockkeeper", "anyhow"]),
            member("lockkeeper-tests", &["fred"]),
            member("lockkeeper-threads", &["tokio"]),
            member("lockkeeper-examples", &["lockkeeper"]),
            member("lockkeeper-examples-sql", &["lockkeeper-examples"]),
            member("xtask", &["clap"]),
        ],
        manifest: "[workspace]\nmembers = [\n    # published\n    \"lua\",  # scripts\n]\n"
            .to_owned(),
        top: ["Cargo.toml", "crates", "docs", "examples", "lua", "tests"]
            .map(str::to_owned)
            .to_vec(),
        sources: vec![
            source("crates/lockkeeper-core/src/lib.rs", "//! Fine.\n"),
            source("crates/lockkeeper-redis/src/lib.rs", "//! Fine.\n"),
        ],
    }
}

/// Applies `spoil` to a good house and returns what the law finds.
fn offences(law: fn(&House) -> Vec<String>, spoil: impl FnOnce(&mut House)) -> Vec<String> {
    let mut house = good();
    spoil(&mut house);
    law(&house)
}

fn named<'a>(house: &'a mut House, name: &str) -> &'a mut Member {
    let mut members = house.members.iter_mut();
    members.find(|member| member.name == name).unwrap()
}

#[test]
fn a_good_house_breaks_no_law() {
    for (name, law) in LAWS {
        assert_eq!(law(&good()), [""; 0], "{name}");
    }
}

#[test]
fn a_lock_crate_with_a_task_is_found_even_if_it_is_new() {
    let found = offences(lock_crates_depend_on_engine_and_scripts, |house| {
        let semaphore = member("lockkeeper-semaphore", &["lockkeeper-core", "tokio"]);
        house.members.push(semaphore);
    });
    assert_eq!(found, ["lockkeeper-semaphore depends on tokio"]);
}

#[test]
fn a_second_crate_that_knows_the_client_or_the_interpreter_is_found() {
    let found = offences(client_and_interpreter_are_known_to_their_stores, |house| {
        let core = named(house, "lockkeeper-core");
        core.dependencies.push("fred".to_owned());
        core.dependencies.push("redis".to_owned());
        core.dev_dependencies.push("mlua".to_owned());
    });
    let expected = ["redis", "fred", "mlua"].map(|it| format!("lockkeeper-core knows {it}"));
    assert_eq!(found, expected);
}

#[test]
fn a_published_crate_with_defects_is_found_and_an_unpublished_one_is_not() {
    let found = offences(defects_stay_at_home, |house| {
        for name in ["lockkeeper-mutex", "lockkeeper-testkit"] {
            let member = named(house, name);
            member.enabled.push("lockkeeper-core/mutants".to_owned());
        }
    });
    assert_eq!(
        found,
        ["lockkeeper-mutex switches on lockkeeper-core/mutants"]
    );
}

/// The law reads the enabled features from the manifests: the testkit certainly enables the mistakes.
#[test]
fn enabled_features_are_read_from_the_workspace() {
    let mut house = House::read().unwrap();
    assert_eq!(defects_stay_at_home(&house), [""; 0]);
    named(&mut house, "lockkeeper-testkit").published = true;
    let found = defects_stay_at_home(&house);
    assert_eq!(
        found,
        ["lockkeeper-testkit switches on lockkeeper-core/mutants"]
    );
}

#[test]
fn a_facade_with_a_dependency_of_its_own_or_none_at_all_is_found() {
    let found = offences(facade_depends_on_the_house, |house| {
        named(house, "lockkeeper")
            .dependencies
            .push("url".to_owned());
    });
    assert_eq!(found, ["lockkeeper depends on url"]);
    let found = offences(facade_depends_on_the_house, |house| house.members.clear());
    assert_eq!(found, ["there is no member lockkeeper"]);
}

#[test]
fn a_manifest_that_leaves_something_out_is_found() {
    let found = offences(published_members_are_complete, |house| {
        let mutex = named(house, "lockkeeper-mutex");
        mutex.manifest = mutex.manifest.replace("[lints]", "[hints]");
        mutex.files.pop();
        named(house, "lockkeeper-testkit").manifest.clear();
    });
    let expected = [
        "the manifest of lockkeeper-mutex has no line \"[lints] workspace = true\"",
        "lockkeeper-mutex has no LICENSE-MIT",
    ];
    assert_eq!(found, expected);
    let found = offences(published_members_are_complete, |house| {
        house.members.retain(|member| member.name == "lockkeeper");
        house
            .manifest
            .push_str("repository = \"https://example.org\"\n");
    });
    let expected = "the manifest of lockkeeper has no line \"repository.workspace = true\"";
    assert_eq!(found, [expected]);
}

#[test]
fn a_version_out_of_step_is_found() {
    let found = offences(published_members_have_one_version, |house| {
        named(house, "lockkeeper-mutex").version = "0.2.0".to_owned();
    });
    assert_eq!(found, ["lockkeeper is 0.1.0, lockkeeper-mutex is 0.2.0"]);
}

#[test]
fn a_development_member_that_leaves_the_house_is_found() {
    let found = offences(development_members_stay_at_home, |house| {
        named(house, "xtask").published = true;
        let core = named(house, "lockkeeper-core");
        core.dependencies.push("lockkeeper-testkit".to_owned());
        core.dev_dependencies.push("lockkeeper-testkit".to_owned());
        house
            .members
            .retain(|member| member.name != "lockkeeper-tests");
    });
    let expected = [
        "there is no member lockkeeper-tests",
        "xtask would be published",
        "lockkeeper-core depends on lockkeeper-testkit",
    ];
    assert_eq!(found, expected);
}

#[test]
fn a_missing_folder_is_found() {
    let found = offences(top_level_is_complete, |house| {
        house.top.retain(|name| name != "docs");
    });
    assert_eq!(found, ["there is no docs"]);
}

#[test]
fn a_member_without_a_word_about_it_is_found() {
    let found = offences(members_are_annotated, |house| {
        let members = "members = [\n \"lua\", # scripts\n \"xtask\",\n \"tests\", # \n]\n";
        house.manifest = members.to_owned();
    });
    let expected = ["not annotated: \"xtask\",", "not annotated: \"tests\", #"];
    assert_eq!(found, expected);
    let found = offences(members_are_annotated, |house| {
        house.manifest = "members = [\"lua\"]\n".to_owned();
    });
    assert_eq!(found.len(), 1);
}

#[test]
fn an_allowed_lint_and_a_thing_left_to_do_are_found() {
    let found = offences(sources_hold_no_leftovers, |house| {
        let text = concat!("#[al", "low(dead_code)]\nfn a() {\n    to", "do!()\n}\n");
        house.sources.push(("a.rs".to_owned(), text.to_owned()));
    });
    let expected = [
        concat!("a.rs:1: #[al", "low(…"),
        concat!("a.rs:3: to", "do!(…"),
    ];
    assert_eq!(found, expected);
}

#[test]
fn an_import_upwards_in_the_core_is_an_offence() {
    let upwards = source(
        "crates/lockkeeper-core/src/words/name.rs",
        "use crate::engine::Engine;\n",
    );
    let engine = source("crates/lockkeeper-core/src/engine/mod.rs", "");
    let offences = offences(imports_point_down, |house| {
        house.sources.extend([upwards, engine]);
    });
    assert_eq!(
        offences,
        ["lockkeeper-core: `words::name` imports `engine`, which is not below it"]
    );
}

#[test]
fn a_circle_of_many_files_is_an_offence() {
    let offences = offences(circles_of_files_are_small, |house| {
        for (file, next) in [("a", "b"), ("b", "c"), ("c", "d"), ("d", "e"), ("e", "a")] {
            let path = format!("crates/lockkeeper-redis/src/{file}.rs");
            let text = format!("use crate::{next}::It;\n");
            house.sources.push(source(&path, &text));
        }
    });
    assert_eq!(offences.len(), 1, "{offences:?}");
}
