//! The commands: a table from name to function. To add a command, add a line and its function.

mod database;
mod hashes;
mod keys;
mod lists;
mod sorted_sets;
mod strings;

use crate::resp::{Refusal, Resp};

pub(crate) use database::{Database, integer};
use database::{Outcome, count};

/// Where a command comes from: two refusals read differently in a script.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origin {
    Client,
    Script,
}

/// How many words a command has, including its name.
#[derive(Debug, Clone, Copy)]
enum Words {
    Exactly(usize),
    AtLeast(usize),
}

struct Command {
    name: &'static str,
    words: Words,
    /// Takes the words after the name.
    run: fn(&mut Database, &[Vec<u8>]) -> Outcome,
}

const fn command(
    name: &'static str,
    words: Words,
    run: fn(&mut Database, &[Vec<u8>]) -> Outcome,
) -> Command {
    Command { name, words, run }
}

const COMMANDS: &[Command] = &[
    command("del", Words::AtLeast(2), keys::del),
    command("exists", Words::AtLeast(2), keys::exists),
    command("get", Words::Exactly(2), strings::get),
    // Without options, which would change the expiry: a `GET` that a server counts as a write.
    command("getex", Words::AtLeast(2), strings::getex),
    command("hdel", Words::AtLeast(3), hashes::hdel),
    command("hget", Words::Exactly(3), hashes::hget),
    command("hgetall", Words::Exactly(2), hashes::hgetall),
    command("hincrby", Words::Exactly(4), hashes::hincrby),
    command("hkeys", Words::Exactly(2), hashes::hkeys),
    command("hlen", Words::Exactly(2), hashes::hlen),
    command("hmget", Words::AtLeast(3), hashes::hmget),
    command("hset", Words::AtLeast(4), hashes::hset),
    command("hvals", Words::Exactly(2), hashes::hvals),
    command("incr", Words::Exactly(2), strings::incr),
    command("incrby", Words::Exactly(3), strings::incrby),
    command("info", Words::AtLeast(1), info),
    command("lindex", Words::Exactly(3), lists::lindex),
    command("llen", Words::Exactly(2), lists::llen),
    command("lpop", Words::AtLeast(2), lists::lpop),
    command("lpos", Words::AtLeast(3), lists::lpos),
    command("lrange", Words::Exactly(4), lists::lrange),
    command("lrem", Words::Exactly(4), lists::lrem),
    command("lset", Words::Exactly(4), lists::lset),
    command("mget", Words::AtLeast(2), strings::mget),
    command("pexpire", Words::AtLeast(3), keys::pexpire),
    command("pttl", Words::Exactly(2), keys::pttl),
    command("pubsub", Words::AtLeast(2), pubsub),
    command("publish", Words::Exactly(3), publish),
    command("rpush", Words::AtLeast(3), lists::rpush),
    command("scan", Words::AtLeast(2), keys::scan),
    command("set", Words::AtLeast(3), strings::set),
    command("time", Words::Exactly(1), time),
    command("type", Words::Exactly(2), keys::kind),
    command("unlink", Words::AtLeast(2), keys::del),
    command("zadd", Words::AtLeast(4), sorted_sets::zadd),
    command("zcard", Words::Exactly(2), sorted_sets::zcard),
    command("zmscore", Words::AtLeast(3), sorted_sets::zmscore),
    command("zrange", Words::AtLeast(4), sorted_sets::zrange),
    command(
        "zrangebyscore",
        Words::AtLeast(4),
        sorted_sets::zrangebyscore,
    ),
    command("zrank", Words::Exactly(3), sorted_sets::zrank),
    command("zrem", Words::AtLeast(3), sorted_sets::zrem),
];

impl Database {
    /// Runs one command at the present time of the keyspace.
    pub(crate) fn run(&mut self, origin: Origin, words: &[Vec<u8>]) -> Outcome {
        let Some((name, args)) = words.split_first() else {
            return Err(Refusal::of("ERR no command"));
        };
        let Some(command) = COMMANDS
            .iter()
            .find(|command| command.name.as_bytes().eq_ignore_ascii_case(name))
        else {
            return Err(match origin {
                Origin::Client => unknown(name, args),
                Origin::Script => Refusal::of("ERR Unknown Redis command called from script"),
            });
        };
        let fits = match command.words {
            Words::Exactly(number) => words.len() == number,
            Words::AtLeast(number) => words.len() >= number,
        };
        if !fits {
            return Err(match origin {
                Origin::Client => Refusal::wrong_number_of_arguments(command.name),
                Origin::Script => {
                    Refusal::of("ERR Wrong number of args calling Redis command from script")
                }
            });
        }
        (command.run)(self, args)
    }
}

fn unknown(name: &[u8], args: &[Vec<u8>]) -> Refusal {
    let args: String = args
        .iter()
        .map(|arg| format!("'{}' ", String::from_utf8_lossy(arg)))
        .collect();
    let name = String::from_utf8_lossy(name);
    Refusal(format!("ERR unknown command '{name}', with args beginning with: {args}").into())
}

fn publish(database: &mut Database, args: &[Vec<u8>]) -> Outcome {
    Ok(count(database.bus.publish(&args[0], &args[1])))
}

/// `PUBSUB NUMSUB channel …`: each channel and how many connections listen on it.
fn pubsub(database: &mut Database, args: &[Vec<u8>]) -> Outcome {
    let (subcommand, channels) = (&args[0], &args[1..]);
    if !subcommand.eq_ignore_ascii_case(b"numsub") {
        let name = String::from_utf8_lossy(subcommand);
        return Err(Refusal(
            format!("ERR unknown subcommand '{name}'. Try PUBSUB HELP.").into(),
        ));
    }
    let listening = |channel: &Vec<u8>| {
        let number = count(database.bus.listening(channel));
        [Resp::Bulk(channel.clone()), number]
    };
    Ok(Resp::Array(channels.iter().flat_map(listening).collect()))
}

/// `INFO server` contains what scripts look for; every other section is empty.
fn info(database: &mut Database, args: &[Vec<u8>]) -> Outcome {
    let server = |section: &Vec<u8>| section.eq_ignore_ascii_case(b"server");
    let text = if args.is_empty() || args.iter().any(server) {
        let uptime = database.uptime_seconds();
        format!("# Server\r\nuptime_in_seconds:{uptime}\r\n")
    } else {
        String::new()
    };
    Ok(Resp::Bulk(text.into_bytes()))
}

fn time(database: &mut Database, _: &[Vec<u8>]) -> Outcome {
    let now = database.keyspace.now_micros();
    let part = |number: i64| Resp::Bulk(number.to_string().into_bytes());
    Ok(Resp::Array(vec![
        part(now.div_euclid(1_000_000)),
        part(now.rem_euclid(1_000_000)),
    ]))
}
