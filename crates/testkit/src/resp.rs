//! A second Redis client, small enough to trust: what the tests check with is not the library they test.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context, Result, bail};

/// Enough for any answer of a server that is not paused.
const TIMEOUT: Duration = Duration::from_secs(5);

/// One answer in RESP2.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// `+OK`
    Status(String),
    /// `:1`
    Int(i64),
    /// A string of bytes, or null.
    Bulk(Option<Vec<u8>>),
    /// Several answers, or null (an aborted `EXEC`, a blocking command that timed out).
    Array(Option<Vec<Reply>>),
    /// `-ERR …`, with its code.
    Error(String),
}

impl Reply {
    /// The integer, when it is one.
    pub fn int(&self) -> Option<i64> {
        match self {
            Self::Int(value) => Some(*value),
            _ => None,
        }
    }

    /// The text of a status, an error or a string; nothing for null, other kinds and bytes that are no UTF-8.
    pub fn text(&self) -> Option<&str> {
        match self {
            Self::Status(text) | Self::Error(text) => Some(text),
            Self::Bulk(bytes) => std::str::from_utf8(bytes.as_ref()?).ok(),
            Self::Int(_) | Self::Array(_) => None,
        }
    }

    /// Whether the server refused the command.
    pub fn is_error(&self) -> bool {
        matches!(self, Self::Error(_))
    }
}

/// One connection that sends a command and waits for its answer.
pub struct RespClient {
    stream: BufReader<TcpStream>,
}

impl RespClient {
    /// Connects, with a limit of five seconds on connecting and on every answer.
    pub fn connect(addr: SocketAddr) -> Result<Self> {
        Self::connect_within(addr, TIMEOUT)
    }

    /// Connects, with `limit` on connecting and on every answer.
    pub fn connect_within(addr: SocketAddr, limit: Duration) -> Result<Self> {
        let stream =
            TcpStream::connect_timeout(&addr, limit).with_context(|| format!("connect to {addr}"))?;
        stream.set_nodelay(true).context("switch Nagle off")?;
        let client = Self { stream: BufReader::new(stream) };
        client.set_limit(limit)?;
        Ok(client)
    }

    /// Changes the limit on every answer, for a command that blocks on purpose or one that must not be answered.
    pub fn set_limit(&self, limit: Duration) -> Result<()> {
        let stream = self.stream.get_ref();
        stream.set_read_timeout(Some(limit)).context("limit reading")?;
        stream.set_write_timeout(Some(limit)).context("limit writing")
    }

    /// Sends one command and reads its answer. A refusal is [`Reply::Error`], not an error: an error means the
    /// connection failed and whether the command ran is unknown.
    pub fn command<A: AsRef<[u8]>>(&mut self, args: &[A]) -> Result<Reply> {
        self.send(args)?;
        self.receive()
    }

    /// Sends one command without waiting for its answer.
    pub fn send<A: AsRef<[u8]>>(&mut self, args: &[A]) -> Result<()> {
        self.stream.get_mut().write_all(&encode(args)).context("send a command")
    }

    /// Reads one answer.
    pub fn receive(&mut self) -> Result<Reply> {
        decode(&mut self.stream).context("read an answer")
    }
}

fn encode<A: AsRef<[u8]>>(args: &[A]) -> Vec<u8> {
    let mut out = format!("*{}\r\n", args.len()).into_bytes();
    for arg in args {
        let arg = arg.as_ref();
        out.extend_from_slice(format!("${}\r\n", arg.len()).as_bytes());
        out.extend_from_slice(arg);
        out.extend_from_slice(b"\r\n");
    }
    out
}

fn decode(stream: &mut impl BufRead) -> Result<Reply> {
    let line = line(stream)?;
    let Some((kind, rest)) = line.split_at_checked(1) else { bail!("an empty line is no answer") };
    Ok(match kind {
        "+" => Reply::Status(rest.to_owned()),
        "-" => Reply::Error(rest.to_owned()),
        ":" => Reply::Int(rest.parse().context("an integer")?),
        "$" => Reply::Bulk(match length(rest)? {
            Some(length) => Some(bulk(stream, length)?),
            None => None,
        }),
        "*" => Reply::Array(match length(rest)? {
            Some(length) => Some((0..length).map(|_| decode(stream)).collect::<Result<_>>()?),
            None => None,
        }),
        _ => bail!("{line:?} is no RESP2"),
    })
}

fn line(stream: &mut impl BufRead) -> Result<String> {
    let mut line = String::new();
    stream.read_line(&mut line)?;
    match line.strip_suffix("\r\n") {
        Some(line) => Ok(line.to_owned()),
        None => bail!("the connection closed in the middle of {line:?}"),
    }
}

fn length(text: &str) -> Result<Option<usize>> {
    if text == "-1" {
        return Ok(None);
    }
    Ok(Some(text.parse().with_context(|| format!("{text:?} is no length"))?))
}

fn bulk(stream: &mut impl Read, length: usize) -> Result<Vec<u8>> {
    let mut bytes = vec![0; length + 2];
    stream.read_exact(&mut bytes)?;
    bytes.truncate(length);
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Reply> {
        decode(&mut text.as_bytes())
    }

    #[test]
    fn every_kind_of_answer_is_read() {
        assert_eq!(read("+OK\r\n").unwrap(), Reply::Status("OK".into()));
        assert_eq!(read(":-7\r\n").unwrap(), Reply::Int(-7));
        assert_eq!(read("$2\r\n\r\n\r\n").unwrap(), Reply::Bulk(Some(b"\r\n".to_vec())));
        assert_eq!(read("$-1\r\n").unwrap(), Reply::Bulk(None));
        assert_eq!(read("*-1\r\n").unwrap(), Reply::Array(None));
        assert_eq!(read("-ERR no\r\n").unwrap(), Reply::Error("ERR no".into()));
        let nested = Reply::Array(Some(vec![Reply::Int(1), Reply::Array(Some(vec![]))]));
        assert_eq!(read("*2\r\n:1\r\n*0\r\n").unwrap(), nested);
    }

    #[test]
    fn an_answer_cut_short_is_an_error() {
        for text in ["", "+OK", "$5\r\nab", "*2\r\n:1\r\n", "?\r\n", "$x\r\n", "\r\n"] {
            assert!(read(text).is_err(), "{text:?}");
        }
    }
}
