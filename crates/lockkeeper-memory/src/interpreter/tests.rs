//! The sandbox, and scripts that could harm the process. `tests/differential/snippets.rs` compares values, replies and errors with a
//! server.

use lockkeeper_core::store::{StoreError, Value};

use crate::MemoryStore;

fn eval(source: &str) -> Result<Value, StoreError> {
    MemoryStore::new().execute(&["EVAL", source, "0"])
}

/// The server's error text, without the words that the store's error puts before it.
fn refusal(source: &str) -> String {
    let shown = eval(source).unwrap_err().to_string();
    shown
        .strip_prefix("the server refused: ")
        .unwrap()
        .to_owned()
}

fn integers(numbers: &[i64]) -> Value {
    Value::List(numbers.iter().copied().map(Value::Integer).collect())
}

#[test]
fn a_table_that_holds_itself_does_not_end_the_process() {
    let mut reply = eval("local t = {} t[1] = t return t").unwrap();
    while let Value::List(mut items) = reply {
        reply = items.remove(0);
    }
    assert_eq!(reply.as_str(), Some("ERR reached lua stack limit"));
}

#[test]
fn the_libraries_cannot_be_changed() {
    let written = "ERR user_script:1: Attempt to modify a readonly table";
    for table in ["string", "math", "table", "redis", "_G"] {
        assert_eq!(refusal(&format!("{table}.x = 1")), written, "{table}");
        for way in ["rawset(%, 'x', 1)", "setmetatable(%, {})"] {
            let source = way.replace('%', table);
            assert_eq!(
                refusal(&source),
                written.replace("user_script:1: ", ""),
                "{source}"
            );
        }
        assert_eq!(
            eval(&format!("return getmetatable({table})")).unwrap(),
            Value::Nil
        );
    }
    assert_eq!(eval("return getmetatable('')").unwrap(), Value::Nil);
}

#[test]
fn nothing_reaches_out_of_the_sandbox() {
    for name in [
        "io",
        "os",
        "require",
        "package",
        "debug",
        "print",
        "dofile",
        "loadfile",
        "load",
        "loadstring",
        "getfenv",
        "setfenv",
        "collectgarbage",
        "newproxy",
        "cjson",
        "cmsgpack",
        "struct",
        "bit",
    ] {
        let expected = format!(
            "ERR user_script:1: Script attempted to access nonexistent global variable '{name}'"
        );
        assert_eq!(refusal(&format!("return {name}")), expected);
    }
    assert_eq!(
        eval("return { math.random, string.dump }").unwrap(),
        integers(&[])
    );
}

#[test]
fn a_failed_script_is_not_rolled_back() {
    let store = MemoryStore::new();
    store
        .execute(&["EVAL", "redis.call('SET', 'k', 'v') error('no')", "0"])
        .unwrap_err();
    assert_eq!(store.keys(), ["k"]);
}

#[test]
fn many_scripts_and_many_errors_leave_the_interpreter_whole() {
    let store = MemoryStore::new();
    for number in 0..9_000 {
        let source = format!("redis.pcall('NOPE') if ARGV[1] then error({{}}) end return {number}");
        let reply = store.execute(&["EVAL", &source, "0"]).unwrap();
        assert_eq!(reply, Value::Integer(number));
        store.execute(&["EVAL", &source, "0", "fail"]).unwrap_err();
    }
}
