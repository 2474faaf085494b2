//! The commands that this server knows.

use std::collections::BTreeSet;

use super::{Outcome, Reply, Server, count, hash, keys, list, ok, script, sorted_set, stream, string};
use super::{Published, Refused, bulk, syntax};

/// How a command is run, and with how many words, its name among them.
pub(super) struct Command {
    least: usize,
    most: usize,
    pub(super) run: fn(&mut Server, &[Vec<u8>]) -> Outcome,
}

impl Command {
    pub(super) fn accepts(&self, words: usize) -> bool {
        (self.least..=self.most).contains(&words)
    }
}

/// Looks a command up by its name in capitals.
pub(super) fn find(name: &str) -> Option<Command> {
    const ANY: usize = usize::MAX;
    type Run = fn(&mut Server, &[Vec<u8>]) -> Outcome;
    let (least, most, run): (usize, usize, Run) = match name {
        "PING" => (1, 1, |_, _| Ok(Reply::Status("PONG".to_owned()))),
        "TIME" => (1, 1, time),
        "INFO" => (1, 2, info),
        "WAIT" => (3, 3, |_, _| Ok(Reply::Int(0))),
        "FLUSHALL" => (1, 1, |server, _| {
            server.data.clear();
            Ok(ok())
        }),
        "PUBLISH" => (3, 3, publish),
        "PUBSUB" => (2, ANY, pubsub),
        "EVAL" => (3, ANY, script::eval),
        "EVALSHA" => (3, ANY, script::evalsha),
        "SCRIPT" => (2, ANY, script::script),
        "GET" => (2, 2, string::get),
        "SET" => (3, ANY, string::set),
        "MGET" => (2, ANY, string::mget),
        "MSET" => (3, ANY, string::mset),
        "STRLEN" => (2, 2, string::strlen),
        "INCR" => (2, 2, string::incr),
        "INCRBY" => (3, 3, string::incrby),
        "DEL" | "UNLINK" => (2, ANY, keys::del),
        "EXISTS" => (2, ANY, keys::exists),
        "TYPE" => (2, 2, keys::type_of),
        "PTTL" => (2, 2, keys::pttl),
        "PEXPIRETIME" => (2, 2, keys::pexpiretime),
        "PEXPIRE" => (3, 4, keys::pexpire),
        "PEXPIREAT" => (3, 4, keys::pexpireat),
        "PERSIST" => (2, 2, keys::persist),
        "SCAN" => (2, ANY, keys::scan),
        "HSET" => (4, ANY, hash::hset),
        "HGET" => (3, 3, hash::hget),
        "HMGET" => (3, ANY, hash::hmget),
        "HGETALL" => (2, 2, hash::hgetall),
        "HDEL" => (3, ANY, hash::hdel),
        "HEXISTS" => (3, 3, hash::hexists),
        "HLEN" => (2, 2, hash::hlen),
        "HINCRBY" => (4, 4, hash::hincrby),
        "LPUSH" => (3, ANY, list::lpush),
        "RPUSH" => (3, ANY, list::rpush),
        "LPOP" => (2, 2, list::lpop),
        "LLEN" => (2, 2, list::llen),
        "LINDEX" => (3, 3, list::lindex),
        "LRANGE" => (4, 4, list::lrange),
        "LREM" => (4, 4, list::lrem),
        "LTRIM" => (4, 4, list::ltrim),
        "LPOS" => (3, 3, list::lpos),
        "ZADD" => (4, ANY, sorted_set::zadd),
        "ZREM" => (3, ANY, sorted_set::zrem),
        "ZCARD" => (2, 2, sorted_set::zcard),
        "ZSCORE" => (3, 3, sorted_set::zscore),
        "ZRANGE" => (4, 5, sorted_set::zrange),
        "ZRANGEBYSCORE" => (4, ANY, sorted_set::zrangebyscore),
        "ZRANGEBYLEX" => (4, ANY, sorted_set::zrangebylex),
        "ZREMRANGEBYSCORE" => (4, 4, sorted_set::zremrangebyscore),
        "ZREMRANGEBYRANK" => (4, 4, sorted_set::zremrangebyrank),
        "XADD" => (5, ANY, stream::xadd),
        "XLEN" => (2, 2, stream::xlen),
        "XRANGE" => (4, 6, stream::xrange),
        "XREVRANGE" => (4, 6, stream::xrevrange),
        "XREAD" => (4, ANY, stream::xread),
        _ => return None,
    };
    Some(Command { least, most, run })
}

/// The parts of `INFO` that the engine reads.
fn info(server: &mut Server, args: &[Vec<u8>]) -> Outcome {
    match args.get(1).map(|section| section.to_ascii_lowercase()).as_deref() {
        None | Some(b"server") => {}
        Some(_) => return Err(syntax()),
    }
    let uptime = server.now_us / 1_000_000 - server.started_us / 1_000_000;
    let (run_id, now) = (&server.run_id, server.now_us);
    let text =
        format!("# Server\r\nrun_id:{run_id}\r\nserver_time_usec:{now}\r\nuptime_in_seconds:{uptime}\r\n");
    Ok(bulk(text.as_bytes()))
}

fn time(server: &mut Server, _: &[Vec<u8>]) -> Outcome {
    let now = server.now_us + server.time_lag_us;
    let (seconds, micros) = (now / 1_000_000, now % 1_000_000);
    Ok(Reply::Array(Some(vec![bulk(seconds.to_string().as_bytes()), bulk(micros.to_string().as_bytes())])))
}

fn publish(server: &mut Server, args: &[Vec<u8>]) -> Outcome {
    let subscribers = server.subscribers.get(&args[1]).cloned().unwrap_or_default();
    let reached = subscribers.len();
    server.published.push(Published { channel: args[1].clone(), message: args[2].clone(), subscribers });
    Ok(count(reached))
}

/// `PUBSUB NUMSUB channel...`
fn pubsub(server: &mut Server, args: &[Vec<u8>]) -> Outcome {
    if !args[1].eq_ignore_ascii_case(b"numsub") {
        return Err(syntax());
    }
    let numbers = args[2..].iter().flat_map(|channel| {
        let subscribers = server.subscribers.get(channel).map_or(0, BTreeSet::len);
        [bulk(channel), count(subscribers)]
    });
    Ok(Reply::Array(Some(numbers.collect())))
}

/// The value of an option of the form `NAME value`.
pub(super) fn option<'a>(args: &'a [Vec<u8>], at: &mut usize) -> Result<&'a [u8], Refused> {
    *at += 1;
    args.get(*at).map(Vec::as_slice).ok_or_else(syntax)
}
