//! A Redis server in memory, under virtual time.
//!
//! It knows the commands that the engine and its scripts use, and runs the scripts themselves in Lua 5.1. Time is
//! passed in with each command and stands still while that command runs; keys expire lazily, as a client sees it.
//! The replay tests run random commands here and on a real `redis-server` and compare every reply, so anything
//! that differs between the two is a defect of this module.

mod command;
mod dataset;
mod hash;
mod keys;
mod list;
mod script;
mod sorted_set;
mod stream;
mod string;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

pub use dataset::{Dataset, Entry, Value};
pub use script::LoadedScript;
pub use tenure_testkit::Reply;

/// A command that was refused, as the text of its error reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused(pub String);

/// What a command answers.
type Outcome = Result<Reply, Refused>;

/// A message that a command published, and how many subscribers it reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Published {
    /// The channel.
    pub channel: Vec<u8>,
    /// The message.
    pub message: Vec<u8>,
    /// Who receives it.
    pub subscribers: BTreeSet<u64>,
}

/// One server process.
#[derive(Clone, Debug)]
pub struct Server {
    /// What it stores.
    pub data: Dataset,
    /// The id of this process.
    pub run_id: String,
    /// When it started, in microseconds of its own clock.
    pub started_us: u64,
    /// How far `TIME` runs ahead of the moment at which a command began. A busy server has such a gap.
    pub time_lag_us: u64,
    /// What was published since this was last emptied.
    pub published: Vec<Published>,
    /// Commands that this server does not know. A run in which there is one has failed.
    pub unsupported: Vec<String>,
    now_us: u64,
    subscribers: BTreeMap<Vec<u8>, BTreeSet<u64>>,
    scripts: BTreeMap<String, Arc<LoadedScript>>,
}

impl Server {
    /// An empty server that has just started.
    pub fn new(run_id: impl Into<String>, started_us: u64) -> Self {
        Self {
            data: Dataset::default(),
            run_id: run_id.into(),
            started_us,
            time_lag_us: 0,
            published: Vec::new(),
            unsupported: Vec::new(),
            now_us: started_us,
            subscribers: BTreeMap::new(),
            scripts: BTreeMap::new(),
        }
    }

    /// Runs one command at a moment of the server's clock.
    pub fn execute<A: AsRef<[u8]>>(&mut self, now_us: u64, args: &[A]) -> Reply {
        self.now_us = now_us;
        let args: Vec<Vec<u8>> = args.iter().map(|arg| arg.as_ref().to_vec()).collect();
        self.dispatch(&args)
    }

    /// Runs a script at a moment of the server's clock, as `EVAL` does.
    pub fn evaluate(
        &mut self,
        now_us: u64,
        script: &LoadedScript,
        keys: &[Vec<u8>],
        args: &[Vec<u8>],
    ) -> Reply {
        self.now_us = now_us;
        script::run(self, script, keys, args)
    }

    /// Subscribes to a channel. The id is the caller's own.
    pub fn subscribe(&mut self, channel: impl Into<Vec<u8>>, subscriber: u64) {
        self.subscribers.entry(channel.into()).or_default().insert(subscriber);
    }

    /// Ends all subscriptions of one subscriber.
    pub fn unsubscribe(&mut self, subscriber: u64) {
        self.subscribers.retain(|_, ids| {
            ids.remove(&subscriber);
            !ids.is_empty()
        });
    }

    /// Ends every subscription and forgets every script, as a new process does.
    pub fn disconnect_all(&mut self) {
        self.subscribers.clear();
        self.scripts.clear();
    }

    fn dispatch(&mut self, args: &[Vec<u8>]) -> Reply {
        let name = args.first().map(|name| String::from_utf8_lossy(name).to_uppercase()).unwrap_or_default();
        let outcome = match command::find(&name) {
            Some(command) if !command.accepts(args.len()) => {
                Err(Refused(format!("ERR wrong number of arguments for '{}' command", name.to_lowercase())))
            }
            Some(command) => (command.run)(self, args),
            None => {
                self.unsupported.push(name.clone());
                Err(Refused(format!("ERR unknown command '{name}'")))
            }
        };
        outcome.unwrap_or_else(|Refused(text)| Reply::Error(text))
    }

    fn now_ms(&self) -> u64 {
        self.now_us / 1_000
    }
}

fn wrong_type() -> Refused {
    Refused("WRONGTYPE Operation against a key holding the wrong kind of value".to_owned())
}

fn syntax() -> Refused {
    Refused("ERR syntax error".to_owned())
}

fn ok() -> Reply {
    Reply::Status("OK".to_owned())
}

fn bulk(bytes: &[u8]) -> Reply {
    Reply::Bulk(Some(bytes.to_vec()))
}

fn count(number: usize) -> Reply {
    Reply::Int(number as i64)
}

/// A whole number in the only spelling that Redis takes.
fn integer(text: &[u8]) -> Result<i64, Refused> {
    let parsed = std::str::from_utf8(text).ok().and_then(|text| text.parse::<i64>().ok());
    parsed
        .filter(|number| number.to_string().as_bytes() == text)
        .ok_or_else(|| Refused("ERR value is not an integer or out of range".to_owned()))
}

/// A score or another number with a fraction.
fn float(text: &[u8]) -> Option<f64> {
    let text = std::str::from_utf8(text).ok()?;
    match text.to_ascii_lowercase().as_str() {
        "inf" | "+inf" => Some(f64::INFINITY),
        "-inf" => Some(f64::NEG_INFINITY),
        _ => text.parse().ok().filter(|number: &f64| number.is_finite()),
    }
}

/// A number as Redis writes it: without a fraction where there is none.
fn format_float(number: f64) -> String {
    if number.is_infinite() {
        return if number > 0.0 { "inf" } else { "-inf" }.to_owned();
    }
    if number.fract() == 0.0 && number.abs() < 1e17 {
        format!("{}", number as i64)
    } else {
        format!("{number}")
    }
}

/// The part of a list of `length` elements between two indexes, which count from the end where they are negative.
fn slice(length: usize, first: i64, last: i64) -> std::ops::Range<usize> {
    let resolve = |index: i64| if index < 0 { index + length as i64 } else { index };
    let (first, last) = (resolve(first).max(0), resolve(last).min(length as i64 - 1));
    if first > last { 0..0 } else { first as usize..last as usize + 1 }
}
