//! Random plain commands.

use tenure_sim::rng::Rng;

/// Draws the arguments of one command.
struct Draw<'r>(&'r mut Rng);

impl Draw<'_> {
    fn pick(&mut self, of: &[&str]) -> String {
        self.0.pick(of).to_owned()
    }

    /// A key; mostly one that holds values of `kind`.
    fn key(&mut self, kind: &str) -> String {
        let kind = match self.0.chance(6) {
            true => self.pick(&["str", "hash", "list", "zset", "stream"]),
            false => kind.to_owned(),
        };
        format!("{kind}{}", self.0.below(3))
    }

    fn text(&mut self) -> String {
        self.pick(&["a", "b", "c", "10", "-3", "a long value with spaces", "", "é"])
    }

    fn field(&mut self) -> String {
        self.pick(&["f", "g", "h", "n"])
    }

    fn index(&mut self) -> String {
        self.pick(&["0", "1", "2", "-1", "-2", "5", "-9"])
    }

    fn number(&mut self) -> String {
        self.pick(&["0", "1", "3", "-2", "1.5", "1e3", "+inf", "-inf", "9007199254740993", "x"])
    }

    fn ms(&mut self) -> String {
        self.pick(&["1", "5", "20", "100", "0", "-5", "x"])
    }

    fn at_ms(&mut self, now_us: u64) -> String {
        (now_us / 1_000 + self.0.below(20)).saturating_sub(3).to_string()
    }

    fn id(&mut self) -> String {
        format!("{}-{}", self.0.below(60), self.0.below(2))
    }

    fn values(&mut self, words: &[&str], most: u64) -> Vec<String> {
        (0..1 + self.0.below(most)).map(|_| self.pick(words)).collect()
    }
}

pub(super) fn command(rng: &mut Rng, now_us: u64) -> Vec<String> {
    let kind = rng.below(5);
    let mut draw = Draw(rng);
    let words: Vec<String> = match kind {
        0 => string_command(&mut draw, now_us),
        1 => hash_command(&mut draw),
        2 => list_command(&mut draw),
        3 => sorted_set_command(&mut draw),
        _ => stream_command(&mut draw),
    };
    match draw.0.below(8) {
        0 => key_command(&mut draw, now_us),
        _ => words,
    }
}

fn of<const N: usize>(words: [&str; N]) -> Vec<String> {
    words.map(str::to_owned).to_vec()
}

fn key_command(draw: &mut Draw<'_>, now_us: u64) -> Vec<String> {
    let kind = draw.pick(&["str", "hash", "list", "zset", "stream"]);
    let (key, other) = (draw.key(&kind), draw.key("str"));
    let flag = draw.pick(&["NX", "XX", "GT", "LT", "YY"]);
    match draw.0.below(11) {
        0 => of(["DEL", &key, &other]),
        1 => of(["EXISTS", &key, &other, &key]),
        2 => of(["TYPE", &key]),
        3 => of(["PTTL", &key]),
        4 => of(["PEXPIRETIME", &key]),
        5 => of(["PEXPIRE", &key, &draw.ms()]),
        6 => of(["PEXPIREAT", &key, &draw.at_ms(now_us)]),
        7 => of(["PEXPIRE", &key, &draw.ms(), &flag]),
        8 => of(["PERSIST", &key]),
        9 => of(["TIME"]),
        _ => of(["UNLINK", &key]),
    }
}

fn string_command(draw: &mut Draw<'_>, now_us: u64) -> Vec<String> {
    let (key, other, value) = (draw.key("str"), draw.key("str"), draw.text());
    let flag = draw.pick(&["NX", "XX", "GET", "KEEPTTL", "ZZ"]);
    match draw.0.below(11) {
        0 => of(["GET", &key]),
        1 => of(["SET", &key, &value]),
        2 => of(["SET", &key, &value, "PX", &draw.ms()]),
        3 => of(["SET", &key, &value, "PXAT", &draw.at_ms(now_us), &flag]),
        4 => of(["SET", &key, &value, &flag, "PX", &draw.ms()]),
        5 => of(["SET", &key, &value, &flag]),
        6 => of(["MGET", &key, &other, "hash0"]),
        7 => of(["MSET", &key, &value, &other, "x"]),
        8 => of(["INCR", &key]),
        9 => of(["INCRBY", &key, &draw.number()]),
        _ => of(["STRLEN", &key]),
    }
}

fn hash_command(draw: &mut Draw<'_>) -> Vec<String> {
    let (key, field, other, value) = (draw.key("hash"), draw.field(), draw.field(), draw.text());
    match draw.0.below(9) {
        0 | 1 => of(["HSET", &key, &field, &value, &other, "2"]),
        2 => of(["HGET", &key, &field]),
        3 => of(["HMGET", &key, &field, "none", &other]),
        4 => of(["HGETALL", &key]),
        5 => of(["HDEL", &key, &field, &other]),
        6 => of(["HEXISTS", &key, &field]),
        7 => of(["HLEN", &key]),
        _ => of(["HINCRBY", &key, &field, &draw.number()]),
    }
}

fn list_command(draw: &mut Draw<'_>) -> Vec<String> {
    let (key, value) = (draw.key("list"), draw.text());
    let mut words = match draw.0.below(9) {
        0 => return [of(["RPUSH", &key]), draw.values(&["a", "b", "c"], 3)].concat(),
        1 => return [of(["LPUSH", &key]), draw.values(&["a", "b", "c"], 3)].concat(),
        2 => of(["LPOP", &key]),
        3 => of(["LLEN", &key]),
        4 => of(["LINDEX", &key, &draw.index()]),
        5 => of(["LRANGE", &key, &draw.index(), &draw.index()]),
        6 => of(["LREM", &key, &draw.index(), &value]),
        7 => of(["LTRIM", &key, &draw.index(), &draw.index()]),
        _ => of(["LPOS", &key, &value]),
    };
    if draw.0.chance(2) {
        words.pop();
    }
    words
}

fn sorted_set_command(draw: &mut Draw<'_>) -> Vec<String> {
    let (key, member, score, other) = (draw.key("zset"), draw.text(), draw.number(), draw.number());
    let bound = draw.pick(&["-", "+", "[a", "(a", "[b", "(c", "a"]);
    let second = draw.pick(&["+", "-", "[c", "(b", "[a\u{ff}"]);
    let flag = draw.pick(&["NX", "XX", "LT", "GT", "CH"]);
    match draw.0.below(14) {
        0 | 1 => of(["ZADD", &key, &score, &member, &other, "b"]),
        2 => of(["ZADD", &key, &flag, &score, &member]),
        3 => of(["ZADD", &key, &flag, "CH", "0", &member, "0", "c"]),
        4 => of(["ZREM", &key, &member, "c"]),
        5 => of(["ZCARD", &key]),
        6 => of(["ZSCORE", &key, &member]),
        7 => of(["ZRANGE", &key, &draw.index(), &draw.index(), "WITHSCORES"]),
        8 => of(["ZRANGEBYSCORE", &key, &score, &other]),
        9 => of(["ZRANGEBYSCORE", &key, "-inf", &format!("({score}"), "LIMIT", &draw.index(), &draw.index()]),
        // Members of different scores have no order by name.
        10 => of(["ZADD", "lex", "0", &member, "0", "b"]),
        11 => of(["ZRANGEBYLEX", "lex", &bound, &second, "LIMIT", &draw.index(), &draw.index()]),
        12 => of(["ZREMRANGEBYSCORE", &key, &score, &other]),
        _ => of(["ZREMRANGEBYRANK", &key, &draw.index(), &draw.index()]),
    }
}

fn stream_command(draw: &mut Draw<'_>) -> Vec<String> {
    let (key, id, other, value) = (draw.key("stream"), draw.id(), draw.id(), draw.text());
    let (low, high) = (draw.pick(&["-", "+", "5", "(7-0"]), draw.pick(&["+", "-", "40", "(30"]));
    match draw.0.below(8) {
        0 | 1 => of(["XADD", &key, &id, "e", &value]),
        2 => of(["XADD", &key, "MINID", "~", &other, &id, "e", &value, "f", "2"]),
        3 => of(["XADD", &key, "MAXLEN", "3", &id, "e", &value]),
        4 => of(["XLEN", &key]),
        5 => of(["XRANGE", &key, &low, &high]),
        6 => of(["XREVRANGE", &key, &high, &other, "COUNT", &draw.index()]),
        _ => of(["XREAD", "COUNT", "2", "STREAMS", &key, &id]),
    }
}
