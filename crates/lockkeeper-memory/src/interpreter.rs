//! The embedded Lua: one state per thread, so that a script runs in the calling thread and Lua needs no lock.

use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::HashMap;

use mlua::{Function, Lua, LuaOptions, StdLib, Table, Value, Variadic};

use crate::command::{Database, Origin};
use crate::resp::{Refusal, Resp};

/// mlua holds at most about 8,000 references to Lua 5.1 values. There are a few dozen scripts; a caller that sends more pays for
/// compiling them again.
const COMPILED_AT_MOST: usize = 256;

/// Replies nested deeper than this are refused, as a server would before its own stack ends.
const NESTED_AT_MOST: usize = 128;

thread_local! {
    static INTERPRETER: RefCell<Option<Interpreter>> = const { RefCell::new(None) };
}

/// A script with its keys and arguments.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Run<'a> {
    pub(crate) sha1: &'a str,
    pub(crate) source: &'a str,
    pub(crate) keys: &'a [&'a str],
    pub(crate) args: &'a [&'a str],
}

/// Compiles a script without running it.
pub(crate) fn compile(sha1: &str, source: &str) -> Result<(), Refusal> {
    with_interpreter(|interpreter| interpreter.compiled(sha1, source).map(drop))
}

/// Runs a script from its beginning to its end.
pub(crate) fn run(run: Run<'_>, database: &mut Database) -> Resp {
    with_interpreter(|interpreter| {
        let script = interpreter.compiled(run.sha1, run.source)?;
        interpreter.run(&script, run, database).map_err(broken)
    })
    .into()
}

fn with_interpreter<R>(
    work: impl FnOnce(&mut Interpreter) -> Result<R, Refusal>,
) -> Result<R, Refusal> {
    const ENDING: Refusal = Refusal::of("ERR the thread or its interpreter is in no state to run");
    INTERPRETER
        .try_with(|slot| {
            let mut slot = slot.try_borrow_mut().map_err(|_| ENDING)?;
            let interpreter = match &mut *slot {
                Some(interpreter) => interpreter,
                empty => empty.insert(Interpreter::new().map_err(broken)?),
            };
            work(interpreter)
        })
        .unwrap_or(Err(ENDING))
}

/// The refusal for a failure of the interpreter itself, not of the script.
fn broken(problem: mlua::Error) -> Refusal {
    Refusal(format!("ERR the embedded Lua failed: {problem}").into())
}

struct Interpreter {
    lua: Lua,
    /// Runs a script in the sandbox; see `sandbox.lua`.
    run: Function,
    environment: Table,
    /// By SHA-1.
    compiled: HashMap<String, Function>,
}

impl Interpreter {
    fn new() -> mlua::Result<Self> {
        let lua = Lua::new_with(
            StdLib::TABLE | StdLib::STRING | StdLib::MATH,
            LuaOptions::new().catch_rust_panics(false),
        )?;
        let (run, environment) = lua
            .load(include_str!("sandbox.lua"))
            .set_name("=sandbox")
            .eval()?;
        Ok(Self {
            lua,
            run,
            environment,
            compiled: HashMap::new(),
        })
    }

    fn compiled(&mut self, sha1: &str, source: &str) -> Result<Function, Refusal> {
        if let Some(script) = self.compiled.get(sha1) {
            return Ok(script.clone());
        }
        let script = self
            .lua
            .load(source)
            .set_name("@user_script")
            .set_mode(mlua::chunk::ChunkMode::Text)
            .set_environment(self.environment.clone())
            .into_function()
            .map_err(does_not_compile)?;
        if self.compiled.len() >= COMPILED_AT_MOST {
            self.compiled.clear();
        }
        self.compiled.insert(sha1.to_owned(), script.clone());
        Ok(script)
    }

    fn run(&self, script: &Function, run: Run<'_>, database: &mut Database) -> mlua::Result<Resp> {
        let keys = self.lua.create_sequence_from(run.keys.iter().copied())?;
        let args = self.lua.create_sequence_from(run.args.iter().copied())?;
        let (done, value): (bool, Value) = self.lua.scope(|scope| {
            let native = scope.create_function_mut(|lua, words: Variadic<Value>| {
                let outcome =
                    command_words(&words).and_then(|words| database.run(Origin::Script, &words));
                Ok(match outcome {
                    Ok(reply) => (false, into_lua(lua, reply)?),
                    Err(Refusal(text)) => (true, Value::String(lua.create_string(&*text)?)),
                })
            })?;
            self.run.call((script, native, keys, args))
        })?;
        Ok(match value {
            Value::String(text) if !done => Resp::Error(text.to_string_lossy()),
            value => from_lua(&value, NESTED_AT_MOST)?,
        })
    }
}

fn does_not_compile(problem: mlua::Error) -> Refusal {
    let message: Cow<'_, str> = match &problem {
        mlua::Error::SyntaxError { message, .. } => message.into(),
        other => other.to_string().into(),
    };
    Refusal(format!("ERR Error compiling script (new function): {message}").into())
}

/// The words of a `redis.call`: strings, and numbers as text.
fn command_words(words: &[Value]) -> Result<Vec<Vec<u8>>, Refusal> {
    if words.is_empty() {
        return Err(Refusal::of(
            "ERR Please specify at least one argument for this redis lib call",
        ));
    }
    let word = |word: &Value| match word {
        Value::String(text) => Ok(text.as_bytes().to_vec()),
        Value::Integer(number) => Ok(number.to_string().into_bytes()),
        // The shortest text that reads back as the number, as in Redis 7.2 and later. No script may depend on it.
        Value::Number(number) => Ok(number.to_string().into_bytes()),
        _ => Err(Refusal::of(
            "ERR Lua redis lib command arguments must be strings or integers",
        )),
    };
    words.iter().map(word).collect()
}

/// A command's reply as a script sees it: a missing string is `false`, never `nil`, and every number is a double.
fn into_lua(lua: &Lua, reply: Resp) -> mlua::Result<Value> {
    let single = |field: &str, text: &str| {
        let table = lua.create_table_with_capacity(0, 1)?;
        table.raw_set(field, text)?;
        Ok(Value::Table(table))
    };
    match reply {
        Resp::Nil => Ok(Value::Boolean(false)),
        // A number in Lua 5.1 is a double, exact to 2^53.
        Resp::Integer(number) => Ok(Value::Number(number as f64)),
        Resp::Bulk(bytes) => Ok(Value::String(lua.create_string(bytes)?)),
        Resp::Status(text) => single("ok", &text),
        Resp::Error(text) => single("err", &text),
        Resp::Array(items) => {
            let table = lua.create_table_with_capacity(items.len(), 0)?;
            for item in items {
                table.raw_push(into_lua(lua, item)?)?;
            }
            Ok(Value::Table(table))
        }
    }
}

/// A script's value as a reply, by Redis's rules.
fn from_lua(value: &Value, depth: usize) -> mlua::Result<Resp> {
    Ok(match value {
        Value::Boolean(true) => Resp::Integer(1),
        Value::Integer(number) => Resp::Integer(*number),
        Value::Number(number) => Resp::Integer(truncated(*number)),
        Value::String(text) => Resp::Bulk(text.as_bytes().to_vec()),
        Value::Table(_) if depth == 0 => Resp::Error("ERR reached lua stack limit".to_owned()),
        Value::Table(table) => {
            if let Value::String(text) = table.raw_get("err")? {
                return Ok(Resp::Error(text.to_string_lossy()));
            }
            if let Value::String(text) = table.raw_get("ok")? {
                return Ok(Resp::Status(text.to_string_lossy().into()));
            }
            let mut items = Vec::new();
            for index in 1_i64.. {
                match table.raw_get(index)? {
                    Value::Nil => break,
                    item => items.push(from_lua(&item, depth - 1)?),
                }
            }
            Resp::Array(items)
        }
        _ => Resp::Nil,
    })
}

/// Rounds toward zero. A number outside the range of integers gives the smallest one, as C's conversion does on x86-64.
fn truncated(number: f64) -> i64 {
    const BEYOND: f64 = 9_223_372_036_854_775_808.0;
    if (-BEYOND..BEYOND).contains(&number) {
        return number as i64;
    }
    i64::MIN
}

#[cfg(test)]
mod tests;
