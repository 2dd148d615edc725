//! What a script sees and how its values are converted, each point as on a Redis server.

use lockkeeper_core::store::{StoreError, Value};

use crate::MemoryStore;

fn eval(source: &str) -> Result<Value, StoreError> {
    MemoryStore::new().execute(&["EVAL", source, "0"])
}

fn text(source: &str) -> String {
    eval(source).unwrap().as_str().unwrap().to_owned()
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
fn numbers_are_truncated_toward_zero() {
    assert_eq!(
        eval("return { 3.99, -3.99, 0.5 }").unwrap(),
        integers(&[3, -3, 0])
    );
    let beyond = "return { 1e300, -1e300, 0/0, 1/0 }";
    assert_eq!(eval(beyond).unwrap(), integers(&[i64::MIN; 4]));
}

#[test]
fn false_is_nil_and_true_is_one() {
    assert_eq!(eval("return false").unwrap(), Value::Nil);
    assert_eq!(eval("return").unwrap(), Value::Nil);
    assert_eq!(eval("return true").unwrap(), Value::Integer(1));
    assert_eq!(eval("return function() end").unwrap(), Value::Nil);
}

#[test]
fn a_table_is_cut_at_its_first_nil_and_keeps_false() {
    assert_eq!(eval("return { 1, nil, 3 }").unwrap(), integers(&[1]));
    assert_eq!(
        eval("return { 1, false, 3 }").unwrap(),
        Value::List(vec![Value::Integer(1), Value::Nil, Value::Integer(3)])
    );
    assert_eq!(eval("return { 1, 2, x = 3 }").unwrap(), integers(&[1, 2]));
    assert_eq!(eval("return {}").unwrap(), integers(&[]));
}

#[test]
fn tables_with_err_and_ok_are_errors_and_statuses() {
    assert_eq!(
        refusal("return { err = 'CODE text', ok = 'no' }"),
        "CODE text"
    );
    assert_eq!(text("return { ok = 'fine', 1 }"), "fine");
    assert_eq!(
        refusal("return redis.error_reply('CODE text')"),
        "CODE text"
    );
    assert_eq!(
        refusal("return redis.error_reply('-CODE text')"),
        "CODE text"
    );
    assert_eq!(refusal("return redis.error_reply('word')"), "ERR word");
    assert_eq!(text("return redis.status_reply('fine')"), "fine");
    let wrong = "ERR wrong number or type of arguments";
    assert_eq!(refusal("return redis.error_reply()"), wrong);
    assert_eq!(refusal("return redis.status_reply(1)"), wrong);
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
fn an_absent_string_is_false_and_a_status_is_a_table() {
    assert_eq!(text("return tostring(redis.call('GET', 'none'))"), "false");
    assert_eq!(text("return redis.call('SET', 'k', 'v').ok"), "OK");
    assert_eq!(text("return type(redis.call('DEL', 'k'))"), "number");
    assert_eq!(text("return type(redis.call('TIME')[1])"), "string");
}

#[test]
fn call_raises_what_pcall_returns() {
    let script = |body: &str| format!("redis.call('HSET', 'h', 'f', 'v') {body}");
    let wrong = "WRONGTYPE Operation against a key holding the wrong kind of value";
    assert_eq!(refusal(&script("redis.call('GET', 'h')")), wrong);
    assert_eq!(refusal(&script("return redis.pcall('GET', 'h')")), wrong);
    assert_eq!(text(&script("return redis.pcall('GET', 'h').err")), wrong);
    let caught = "local ok, e = pcall(redis.call, 'GET', 'h') return type(e) .. e";
    assert_eq!(text(&script(caught)), format!("string{wrong}"));
    let raised_again = "local ok, e = pcall(redis.call, 'GET', 'h') error(e)";
    assert_eq!(
        refusal(&script(raised_again)),
        format!("ERR user_script:1: {wrong}")
    );
}

#[test]
fn commands_refused_in_a_script_say_so_as_redis_does() {
    for (source, expected) in [
        (
            "redis.call('NOPE')",
            "ERR Unknown Redis command called from script",
        ),
        (
            "redis.call('GET')",
            "ERR Wrong number of args calling Redis command from script",
        ),
        (
            "redis.call()",
            "ERR Please specify at least one argument for this redis lib call",
        ),
        (
            "redis.call('GET', {})",
            "ERR Lua redis lib command arguments must be strings or integers",
        ),
        (
            "redis.call('GET', true)",
            "ERR Lua redis lib command arguments must be strings or integers",
        ),
        (
            "redis.call('HSET', 'h', 'a', '1', 'b')",
            "ERR wrong number of arguments for 'hset' command",
        ),
    ] {
        assert_eq!(refusal(source), expected, "{source}");
    }
}

#[test]
fn errors_of_lua_carry_their_line_and_a_code() {
    assert_eq!(refusal("error('boom')"), "ERR user_script:1: boom");
    assert_eq!(refusal("error({ err = 'BAD thing' })"), "BAD thing");
    assert_eq!(refusal("error()"), "ERR nil");
    assert_eq!(
        refusal("local x\nreturn x.y"),
        "ERR user_script:2: attempt to index local 'x' (a nil value)"
    );
    assert_eq!(
        refusal("retur"),
        "ERR Error compiling script (new function): user_script:1: '=' expected near '<eof>'"
    );
}

#[test]
fn an_undeclared_global_can_be_neither_read_nor_written() {
    let read = "ERR user_script:1: Script attempted to access nonexistent global variable 'x'";
    assert_eq!(refusal("return x"), read);
    assert_eq!(
        text("return select(2, pcall(function() return x end))"),
        &read[4..]
    );
    let written = "ERR user_script:1: Attempt to modify a readonly table";
    assert_eq!(refusal("x = 1"), written);
    assert_eq!(refusal("function x() end"), written);
    assert_eq!(refusal("KEYS = {}"), written);
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
fn keys_and_arguments_are_those_of_the_run() {
    let store = MemoryStore::new();
    let script = "return { #KEYS, #ARGV, KEYS[1], ARGV[1] }";
    let run = |words: &[&str]| store.execute(&[&["EVAL", script], words].concat()).unwrap();
    let bytes = |text: &str| Value::Bytes(text.into());
    assert_eq!(
        run(&["1", "k", "a", "b"]),
        Value::List(vec![
            Value::Integer(1),
            Value::Integer(2),
            bytes("k"),
            bytes("a")
        ])
    );
    assert_eq!(run(&["0"]), integers(&[0, 0]));
}

#[test]
fn a_number_as_an_argument_is_whole_text() {
    for (number, expected) in [
        ("10", "10"),
        ("-3", "-3"),
        ("2^53", "9007199254740992"),
        ("1.5", "1.5"),
    ] {
        let source = format!("redis.call('SET', 'k', {number}) return redis.call('GET', 'k')");
        assert_eq!(text(&source), expected);
    }
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
