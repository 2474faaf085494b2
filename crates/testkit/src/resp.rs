//! A minimal Redis client, so that tests do not check a library with itself.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context, Result, bail};

/// The default timeout.
const TIMEOUT: Duration = Duration::from_secs(5);

/// A RESP2 reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// `+OK`
    Status(String),
    /// `:1`
    Int(i64),
    /// A bulk string, or null.
    Bulk(Option<Vec<u8>>),
    /// An array, or null (an aborted `EXEC`, a blocking command that timed out).
    Array(Option<Vec<Reply>>),
    /// `-ERR …`, with its code.
    Error(String),
}

impl Reply {
    /// The integer, if it is one.
    pub fn int(&self) -> Option<i64> {
        match self {
            Self::Int(value) => Some(*value),
            _ => None,
        }
    }

    /// The text of a status, an error or a string; `None` for null, other types and invalid UTF-8.
    pub fn text(&self) -> Option<&str> {
        match self {
            Self::Status(text) | Self::Error(text) => Some(text),
            Self::Bulk(bytes) => std::str::from_utf8(bytes.as_ref()?).ok(),
            Self::Int(_) | Self::Array(_) => None,
        }
    }

    /// Whether it is an error.
    pub fn is_error(&self) -> bool {
        matches!(self, Self::Error(_))
    }
}

/// A connection that sends one command at a time.
pub struct RespClient {
    stream: BufReader<TcpStream>,
}

impl RespClient {
    /// Connects, with a timeout of five seconds for connecting and for every reply.
    pub fn connect(addr: SocketAddr) -> Result<Self> {
        Self::connect_within(addr, TIMEOUT)
    }

    /// Connects, with the timeout `limit` for connecting and for every reply.
    pub fn connect_within(addr: SocketAddr, limit: Duration) -> Result<Self> {
        let stream =
            TcpStream::connect_timeout(&addr, limit).with_context(|| format!("cannot connect to {addr}"))?;
        stream.set_nodelay(true).context("cannot set TCP_NODELAY")?;
        let client = Self { stream: BufReader::new(stream) };
        client.set_limit(limit)?;
        Ok(client)
    }

    /// Changes the timeout of replies, for blocking commands.
    pub fn set_limit(&self, limit: Duration) -> Result<()> {
        let stream = self.stream.get_ref();
        stream.set_read_timeout(Some(limit)).context("cannot set the read timeout")?;
        stream.set_write_timeout(Some(limit)).context("cannot set the write timeout")
    }

    /// Sends one command and reads its reply. An error reply is [`Reply::Error`]. An `Err` means that the connection failed;
    /// the command may have run.
    pub fn command<A: AsRef<[u8]>>(&mut self, args: &[A]) -> Result<Reply> {
        self.send(args)?;
        self.receive()
    }

    /// Sends one command without waiting for its reply.
    pub fn send<A: AsRef<[u8]>>(&mut self, args: &[A]) -> Result<()> {
        self.stream.get_mut().write_all(&encode(args)).context("cannot send the command")
    }

    /// Reads one reply.
    pub fn receive(&mut self) -> Result<Reply> {
        decode(&mut self.stream).context("cannot read the reply")
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
    let Some((kind, rest)) = line.split_at_checked(1) else { bail!("empty line instead of a reply") };
    Ok(match kind {
        "+" => Reply::Status(rest.to_owned()),
        "-" => Reply::Error(rest.to_owned()),
        ":" => Reply::Int(rest.parse().context("invalid integer")?),
        "$" => Reply::Bulk(match length(rest)? {
            Some(length) => Some(bulk(stream, length)?),
            None => None,
        }),
        "*" => Reply::Array(match length(rest)? {
            Some(length) => Some((0..length).map(|_| decode(stream)).collect::<Result<_>>()?),
            None => None,
        }),
        _ => bail!("not RESP2: {line:?}"),
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
    Ok(Some(text.parse().with_context(|| format!("invalid length {text:?}"))?))
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
