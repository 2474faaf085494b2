//! Lua scripts, as Redis runs them.
//!
//! There is one interpreter for each thread, which keeps what it compiled. A script sees its keys, its arguments and
//! `redis`; it cannot create globals, and nothing of one script is left for the next.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;

use mlua::{Function, Lua, LuaOptions, MultiValue, StdLib, Table, Value};

use super::{Outcome, Refused, Reply, Server, bulk, format_float, integer, ok, syntax};

/// Turns the error replies of commands into errors, and keeps scripts from creating globals.
const PRELUDE: &str = "
  local run = redis.pcall
  redis.call = function(...)
    local reply = run(...)
    if type(reply) == 'table' and reply.err then error(reply, 0) end
    return reply
  end
  local protected_call = pcall
  pcall = function(...)
    local results = { protected_call(...) }
    local failure = results[2]
    if not results[1] and type(failure) == 'table' and failure.err then return false, failure.err end
    return unpack(results, 1, table.maxn(results))
  end
  redis.error_reply = function(text) return { err = text } end
  redis.status_reply = function(text) return { ok = text } end
  redis.log = function() end
  redis.LOG_DEBUG, redis.LOG_VERBOSE, redis.LOG_NOTICE, redis.LOG_WARNING = 0, 1, 2, 3
  print, dofile, loadfile, require, module, newproxy, math.random = nil, nil, nil, nil, nil, nil, nil
  setmetatable(_G, {
    __index = function(_, name) error('access to the global variable ' .. tostring(name), 2) end,
    __newindex = function(_, name) error('assignment to the global variable ' .. tostring(name), 2) end,
  })
";

/// A script and the digest by which it is called.
#[derive(Clone, Debug)]
pub struct LoadedScript {
    digest: String,
    text: Vec<u8>,
}

impl LoadedScript {
    /// Computes the digest of a script.
    pub fn new(text: impl Into<Vec<u8>>) -> Self {
        let text = text.into();
        Self { digest: sha1_hex(&text), text }
    }
}

struct Interpreter {
    lua: Lua,
    /// Calls a function and reports its error as a value.
    protected_call: Function,
    /// By the digest of the text.
    compiled: RefCell<HashMap<String, Function>>,
}

thread_local! {
    static INTERPRETER: RefCell<Option<Interpreter>> = const { RefCell::new(None) };
    /// The server on which the script of this thread runs.
    static RUNNING: RefCell<Option<Server>> = const { RefCell::new(None) };
}

impl Interpreter {
    fn new() -> mlua::Result<Self> {
        let lua = Lua::new_with(StdLib::TABLE | StdLib::STRING | StdLib::MATH, LuaOptions::new())?;
        let redis = lua.create_table()?;
        redis.set("pcall", lua.create_function(call_command)?)?;
        redis.set(
            "sha1hex",
            lua.create_function(|_, text: mlua::LuaString| Ok(sha1_hex(&text.as_bytes())))?,
        )?;
        lua.globals().set("redis", redis)?;
        let protected_call = lua.globals().get("pcall")?;
        lua.load(PRELUDE).set_name("=prelude").exec()?;
        Ok(Self { lua, protected_call, compiled: RefCell::default() })
    }

    fn compile(&self, script: &LoadedScript) -> mlua::Result<Function> {
        if let Some(function) = self.compiled.borrow().get(&script.digest) {
            return Ok(function.clone());
        }
        let function = self.lua.load(script.text.as_slice()).set_name("@user_script").into_function()?;
        self.compiled.borrow_mut().insert(script.digest.clone(), function.clone());
        Ok(function)
    }

    fn run(&self, script: &LoadedScript, keys: &[Vec<u8>], args: &[Vec<u8>]) -> mlua::Result<Reply> {
        let function = match self.compile(script) {
            Ok(function) => function,
            Err(error) => return Ok(Reply::Error(format!("ERR Error compiling script: {error}"))),
        };
        let strings = |items: &[Vec<u8>]| {
            let items: mlua::Result<Vec<_>> = items.iter().map(|item| self.lua.create_string(item)).collect();
            self.lua.create_sequence_from(items?)
        };
        self.lua.globals().raw_set("KEYS", strings(keys)?)?;
        self.lua.globals().raw_set("ARGV", strings(args)?)?;
        let (succeeded, result): (bool, Value) = self.protected_call.call(function)?;
        match (succeeded, result) {
            (true, result) => to_reply(&result),
            (false, Value::Table(error)) => to_reply(&Value::Table(error)),
            (false, other) => Ok(Reply::Error(format!("ERR {}", other.to_string()?))),
        }
    }
}

/// Runs a script on a server.
pub(super) fn run(server: &mut Server, script: &LoadedScript, keys: &[Vec<u8>], args: &[Vec<u8>]) -> Reply {
    let placeholder = Server::new(String::new(), 0);
    let running = std::mem::replace(server, placeholder);
    RUNNING.with_borrow_mut(|slot| *slot = Some(running));
    let reply = INTERPRETER.with_borrow_mut(|interpreter| {
        let interpreter = match interpreter {
            Some(interpreter) => interpreter,
            None => interpreter.insert(Interpreter::new()?),
        };
        interpreter.run(script, keys, args)
    });
    if let Some(running) = RUNNING.with_borrow_mut(Option::take) {
        *server = running;
    }
    reply.unwrap_or_else(|error| Reply::Error(format!("ERR {error}")))
}

/// `redis.pcall`: an error is a table with the field `err`.
fn call_command(lua: &Lua, args: MultiValue) -> mlua::Result<Value> {
    let words: Option<Vec<Vec<u8>>> = args.iter().map(to_word).collect();
    let reply = match words {
        Some(words) if words.is_empty() => {
            Reply::Error("ERR Please specify at least one argument for this redis.call()".to_owned())
        }
        Some(words) => RUNNING.with_borrow_mut(|running| match running {
            Some(server) => server.dispatch(&words),
            None => Reply::Error("ERR no script is running".to_owned()),
        }),
        None => Reply::Error("ERR Lua redis lib command arguments must be strings or integers".to_owned()),
    };
    to_lua(lua, &reply)
}

fn to_word(value: &Value) -> Option<Vec<u8>> {
    match value {
        Value::String(text) => Some(text.as_bytes().to_vec()),
        Value::Integer(number) => Some(number.to_string().into_bytes()),
        Value::Number(number) => Some(format_float(*number).into_bytes()),
        _ => None,
    }
}

/// A reply as a script sees it: nil is false.
fn to_lua(lua: &Lua, reply: &Reply) -> mlua::Result<Value> {
    let field = |name: &str, text: &str| {
        let table = lua.create_table()?;
        table.raw_set(name, text)?;
        Ok(Value::Table(table))
    };
    match reply {
        Reply::Int(number) => Ok(Value::Number(*number as f64)),
        Reply::Bulk(Some(bytes)) => Ok(Value::String(lua.create_string(bytes)?)),
        Reply::Bulk(None) | Reply::Array(None) => Ok(Value::Boolean(false)),
        Reply::Status(text) => field("ok", text),
        Reply::Error(text) => field("err", text),
        Reply::Array(Some(items)) => {
            let table = lua.create_table_with_capacity(items.len(), 0)?;
            for item in items {
                table.raw_push(to_lua(lua, item)?)?;
            }
            Ok(Value::Table(table))
        }
    }
}

/// What a script returns, as a client sees it: fractions are cut off, and a table ends at its first nil.
fn to_reply(value: &Value) -> mlua::Result<Reply> {
    Ok(match value {
        Value::Integer(number) => Reply::Int(*number),
        Value::Number(number) => Reply::Int(*number as i64),
        Value::String(text) => bulk(&text.as_bytes()),
        Value::Boolean(true) => Reply::Int(1),
        Value::Table(table) => table_to_reply(table)?,
        _ => Reply::Bulk(None),
    })
}

fn table_to_reply(table: &Table) -> mlua::Result<Reply> {
    if let Value::String(text) = table.raw_get("err")? {
        return Ok(Reply::Error(text.to_string_lossy()));
    }
    if let Value::String(text) = table.raw_get("ok")? {
        return Ok(Reply::Status(text.to_string_lossy()));
    }
    let mut items = Vec::new();
    for index in 1_i64.. {
        match table.raw_get(index)? {
            Value::Nil => break,
            item => items.push(to_reply(&item)?),
        }
    }
    Ok(Reply::Array(Some(items)))
}

fn sha1_hex(bytes: &[u8]) -> String {
    sha1_smol::Sha1::from(bytes).digest().to_string()
}

/// Keys and arguments.
type KeysAndArgs<'a> = (&'a [Vec<u8>], &'a [Vec<u8>]);

/// The keys and the arguments after the number of keys.
fn split(args: &[Vec<u8>]) -> Result<KeysAndArgs<'_>, Refused> {
    let keys = usize::try_from(integer(&args[2])?)
        .map_err(|_| Refused("ERR Number of keys can't be negative".to_owned()))?;
    args[3..]
        .split_at_checked(keys)
        .ok_or_else(|| Refused("ERR Number of keys can't be greater than number of args".to_owned()))
}

pub(super) fn eval(server: &mut Server, args: &[Vec<u8>]) -> Outcome {
    let (keys, rest) = split(args)?;
    let script = server.load(&args[1]);
    Ok(run(server, &script, keys, rest))
}

pub(super) fn evalsha(server: &mut Server, args: &[Vec<u8>]) -> Outcome {
    let (keys, rest) = split(args)?;
    let digest = String::from_utf8_lossy(&args[1]).to_lowercase();
    let Some(script) = server.scripts.get(&digest).cloned() else {
        return Err(Refused("NOSCRIPT No matching script. Please use EVAL.".to_owned()));
    };
    Ok(run(server, &script, keys, rest))
}

/// `SCRIPT LOAD` and `SCRIPT FLUSH`.
pub(super) fn script(server: &mut Server, args: &[Vec<u8>]) -> Outcome {
    match (args[1].to_ascii_uppercase().as_slice(), &args[2..]) {
        (b"LOAD", [text]) => Ok(bulk(server.load(text).digest.as_bytes())),
        (b"FLUSH", []) => {
            server.scripts.clear();
            Ok(ok())
        }
        _ => Err(syntax()),
    }
}

impl Server {
    fn load(&mut self, text: &[u8]) -> Arc<LoadedScript> {
        let script = Arc::new(LoadedScript::new(text));
        self.scripts.insert(script.digest.clone(), Arc::clone(&script));
        script
    }
}
