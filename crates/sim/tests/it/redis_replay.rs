//! The in-memory Redis of the simulator answers as a real `redis-server` does: random commands run on both, at the
//! same moments of a clock that stands still in between, and every reply and the final key space are compared.

mod plain;
mod verbs;

use std::collections::BTreeSet;

use tenure_sim::redis::server::{Reply, Server};
use tenure_sim::rng::Rng;
use tenure_store::redis_protocol::{script, wake_up_channel};
use tenure_testkit::{RedisServer, RespClient};

/// 2026-03-01 10:00 UTC.
const START_US: u64 = 1_772_359_200_000_000;

/// Both servers, at one time.
struct Pair {
    real: RedisServer,
    client: RespClient,
    memory: Server,
    now_us: u64,
    /// What ran so far, for the message of a failure.
    log: Vec<String>,
}

impl Pair {
    fn start() -> Self {
        // One entry for each node of a stream: then an approximate trim is exact.
        let real = RedisServer::builder().own_clock().config("stream-node-max-entries", "1").start().unwrap();
        real.freeze_clock(START_US).unwrap();
        let client = real.client().unwrap();
        Self { real, client, memory: Server::new("", START_US), now_us: START_US, log: Vec::new() }
    }

    fn clear(&mut self) {
        self.run(&["FLUSHALL"]);
        self.log.clear();
    }

    fn advance(&mut self, micros: u64) {
        self.now_us += micros;
        self.real.freeze_clock(self.now_us).unwrap();
    }

    /// Runs a command on both servers and returns the reply on which they agree.
    fn run<A: AsRef<[u8]>>(&mut self, args: &[A]) -> Reply {
        let real = self.client.command(args).unwrap();
        let memory = self.memory.execute(self.now_us, args);
        let short = |arg: &A| arg.as_ref().get(..200).unwrap_or(arg.as_ref()).escape_ascii().to_string();
        let words: Vec<_> = args.iter().map(short).collect();
        self.log.push(format!("{} us: {} -> {}", self.now_us - START_US, words.join(" "), show(&real)));
        let name = args[0].as_ref();
        if comparable(name, &real) != comparable(name, &memory) {
            let from = self.log.len().saturating_sub(30);
            let log = self.log[from..].join("\n");
            panic!("{log}\nthe in-memory server replied {}", show(&memory));
        }
        real
    }

    /// Compares all keys with their types, expiries and values.
    fn compare_keys(&mut self) {
        let scan = self.run(&["SCAN", "0", "COUNT", "100000"]);
        let Reply::Array(Some(parts)) = scan else { panic!("{scan:?}") };
        let Reply::Array(Some(keys)) = &parts[1] else { panic!("{parts:?}") };
        for key in keys.iter().filter_map(Reply::text) {
            self.run(&["PEXPIRETIME", key]);
            match self.run(&["TYPE", key]).text() {
                Some("string") => self.run(&["GET", key]),
                Some("hash") => self.run(&["HGETALL", key]),
                Some("list") => self.run(&["LRANGE", key, "0", "-1"]),
                Some("zset") => self.run(&["ZRANGE", key, "0", "-1", "WITHSCORES"]),
                Some("stream") => self.run(&["XRANGE", key, "-", "+"]),
                other => panic!("{key}: {other:?}"),
            };
        }
    }
}

fn show(reply: &Reply) -> String {
    match reply {
        Reply::Bulk(Some(bytes)) => format!("\"{}\"", bytes.escape_ascii()),
        Reply::Array(Some(items)) => format!("[{}]", items.iter().map(show).collect::<Vec<_>>().join(", ")),
        other => format!("{other:?}"),
    }
}

/// A reply without what the servers may differ in: the texts of errors behind their codes, the order of keys and of
/// fields, and which of the two nulls of the protocol it is.
fn comparable(command: &[u8], reply: &Reply) -> Reply {
    match reply {
        Reply::Error(text) => Reply::Error(text.split(' ').next().unwrap_or_default().to_owned()),
        Reply::Array(Some(items)) => {
            let mut items: Vec<Reply> = items.iter().map(|item| comparable(command, item)).collect();
            match command {
                b"SCAN" => items.sort_by_key(show),
                b"HGETALL" => {
                    let mut pairs: Vec<_> = items.chunks(2).map(<[Reply]>::to_vec).collect();
                    pairs.sort_by_key(|pair| show(&pair[0]));
                    items = pairs.concat();
                }
                _ => {}
            }
            Reply::Array(Some(items))
        }
        Reply::Array(None) => Reply::Bulk(None),
        other => other.clone(),
    }
}

#[test]
fn plain_commands_reply_as_on_a_real_server() {
    let mut pair = Pair::start();
    for seed in 0..12 {
        let mut rng = Rng::new(seed);
        for _ in 0..400 {
            let words = plain::command(&mut rng, pair.now_us);
            pair.run(&words);
            if rng.chance(30) {
                pair.advance(rng.pick(&[1, 500, 1_000, 4_999, 20_000]));
            }
        }
        pair.compare_keys();
        pair.clear();
    }
    assert_eq!(pair.memory.unsupported, Vec::<String>::new());
}

/// Scripts that show how values pass between Lua and Redis.
const CONVERSIONS: [&str; 26] = [
    "return 3.99",
    "return -3.99",
    "return {1, 2.5, 'x', true, false, 'after false'}",
    "return {1, nil, 3}",
    "return {err = 'CODE text'}",
    "return {ok = 'FINE'}",
    "return redis.error_reply('CODE text')",
    "return redis.status_reply('FINE')",
    "return redis.sha1hex('abc')",
    "return redis.call('GET', 'absent') == false",
    "return redis.call('SET', KEYS[1], ARGV[1]).ok",
    "return redis.call('SET', KEYS[1], 1.5) and redis.call('GET', KEYS[1])",
    "return redis.call('SET', KEYS[1], 9007199254740991) and redis.call('GET', KEYS[1])",
    "return redis.call('SET', KEYS[1], 12345678901234) and redis.call('GET', KEYS[1])",
    "return tostring(123456789012345678)",
    "return redis.call('HSET', 'hash', 'f', '1') + redis.call('HINCRBY', 'hash', 'f', 2)",
    "local r = redis.pcall('INCR', 'hash') return {type(r), string.sub(r.err, 1, 9)}",
    "return redis.call('INCR', 'hash')",
    "local fine, e = pcall(redis.call, 'INCR', 'hash') return {tostring(fine), string.sub(e, 1, 9)}",
    "return redis.call('LRANGE', 'absent', 0, -1)",
    "return {redis.call('ZADD', 'z', 5, 'm'), redis.call('ZSCORE', 'z', 'm'), redis.call('ZSCORE', 'z', 'n') or 'none'}",
    "created = 1",
    "return undefined_variable",
    "return nil + 1",
    "return redis.call('GET')",
    "return redis.call('SET', KEYS[1], {})",
];

#[test]
fn scripts_convert_values_as_on_a_real_server() {
    let mut pair = Pair::start();
    for text in CONVERSIONS {
        pair.run(&["EVAL", text, "1", "key", "value", "12"]);
    }
    let digest = pair.run(&["SCRIPT", "LOAD", "return KEYS[1] .. ARGV[1]"]);
    let digest = digest.text().unwrap().to_owned();
    pair.run(&["EVALSHA", &digest, "1", "a", "b"]);
    pair.run(&["SCRIPT", "FLUSH"]);
    pair.run(&["EVALSHA", &digest, "1", "a", "b"]);
    pair.run(&["EVAL", "return 1", "2", "too few"]);
    pair.compare_keys();
}

#[test]
fn a_message_reaches_as_many_subscribers_as_on_a_real_server() {
    let mut pair = Pair::start();
    pair.run(&["PUBLISH", "channel", "none"]);
    let mut subscribers = [pair.real.client().unwrap(), pair.real.client().unwrap()];
    for (id, client) in subscribers.iter_mut().enumerate() {
        client.command(&["SUBSCRIBE", "channel"]).unwrap();
        pair.memory.subscribe("channel", id as u64);
        pair.run(&["PUBLISH", "channel", "some"]);
    }
    pair.run(&["PUBLISH", "other", "none"]);
    pair.run(&["EVAL", "return redis.call('PUBLISH', 'channel', 'x')", "0"]);
}

#[test]
fn the_engines_scripts_reply_as_on_a_real_server() {
    let mut pair = Pair::start();
    let mut listeners = Vec::new();
    for (number, instance) in verbs::INSTANCES.iter().enumerate() {
        let channel = wake_up_channel(instance);
        let mut listener = pair.real.client().unwrap();
        listener.command(&["SUBSCRIBE", &channel]).unwrap();
        pair.memory.subscribe(channel, number as u64);
        listeners.push(listener);
    }
    let mut called = BTreeSet::new();
    for seed in 0..8 {
        let mut draw = verbs::Draw::new(seed);
        for _ in 0..250 {
            if draw.rng.chance(10) {
                let words = draw.disturbance();
                pair.run(&words);
            }
            let call = draw.call();
            called.insert(call.script().name);
            let mut words = vec![b"EVAL".to_vec(), call.script().text.clone().into_bytes()];
            words.push(call.keys().len().to_string().into_bytes());
            words.extend(call.keys());
            words.extend(call.args());
            let reply = pair.run(&words);
            draw.learn(&reply);
            pair.advance(draw.rng.pick(&[0, 1, 999, 1_000, 50_000, 700_000]));
        }
        pair.compare_keys();
        pair.clear();
    }
    // Every script was called, and none used a command that the in-memory server does not know.
    assert_eq!(called.len(), script::all().len(), "{called:?}");
    assert_eq!(pair.memory.unsupported, Vec::<String>::new());
}
