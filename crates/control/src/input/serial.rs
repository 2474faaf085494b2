//! A serial line: JSON objects or words, one per line, each answered with one line.

use std::io;
use std::sync::Arc;

use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader};
use tokio_serial::SerialPortBuilderExt;

use super::text;
use crate::class::{Class, Source};
use crate::code::{Code, Refusal};
use crate::command;
use crate::desk::{Hand, Inner};
use crate::options::Serial;
use crate::telemetry::TARGET;
use crate::{rest, wire};

/// Bytes of a line.
const LINE: u64 = 4_096;

/// Opens the line, and again whenever it is gone.
pub(crate) async fn run(inner: Arc<Inner>, line: Serial) {
    loop {
        match tokio_serial::new(&line.path, line.baud).open_native_async() {
            Ok(port) => {
                tracing::info!(target: TARGET, path = line.path, "listening on a serial line");
                if let Err(error) = serve(&inner, port).await {
                    tracing::warn!(target: TARGET, path = line.path, %error, "the serial line is gone");
                }
            }
            Err(error) => tracing::warn!(target: TARGET, path = line.path, %error, "no serial line"),
        }
        if !super::again(&inner).await {
            return;
        }
    }
}

/// Answers lines until the end of the process or of the line.
async fn serve(inner: &Arc<Inner>, port: impl AsyncRead + AsyncWrite + Unpin) -> io::Result<()> {
    let (reader, mut writer) = tokio::io::split(port);
    let mut reader = BufReader::new(reader);
    let hand = Hand::local(Source::Serial);
    let mut line = Vec::new();
    loop {
        line.clear();
        let mut bounded = (&mut reader).take(LINE);
        let read = tokio::select! {
            biased;
            () = inner.ends.cancelled() => return Ok(()),
            read = bounded.read_until(b'\n', &mut line) => read?,
        };
        if read == 0 {
            return Ok(());
        }
        let answer = match line.last() {
            Some(b'\n') => answer(inner, &hand, &String::from_utf8_lossy(&line)).await,
            _ => {
                skip(inner, &mut reader).await?;
                Some(format!("ERR {} a line has at most {LINE} bytes", Code::INVALID_VALUE.word()))
            }
        };
        if let Some(answer) = answer.map(|answer| format!("{answer}\r\n")) {
            tokio::select! {
                biased;
                () = inner.ends.cancelled() => return Ok(()),
                written = writer.write_all(answer.as_bytes()) => written?,
            }
        }
    }
}

/// Leaves out the rest of a line that is too long, without keeping it.
async fn skip(inner: &Inner, reader: &mut (impl AsyncBufReadExt + Unpin)) -> io::Result<()> {
    loop {
        let bytes = tokio::select! {
            biased;
            () = inner.ends.cancelled() => return Ok(()),
            bytes = reader.fill_buf() => bytes?,
        };
        let end = bytes.iter().position(|byte| *byte == b'\n');
        let used = end.map_or(bytes.len(), |end| end + 1);
        let over = end.is_some() || bytes.is_empty();
        reader.consume(used);
        if over {
            return Ok(());
        }
    }
}

/// The answer to a line; none to an empty one.
async fn answer(inner: &Arc<Inner>, hand: &Hand, line: &str) -> Option<String> {
    let line = line.trim();
    if line.is_empty() {
        return None;
    }
    if line.starts_with('{') {
        return Some(json(inner, hand, line).await);
    }
    if line.eq_ignore_ascii_case("help") {
        return Some(text::help());
    }
    let done = async {
        let (word, given) = text::read(line).map_err(|refusal| match refusal.code {
            // A word that nobody knows counts as a change.
            Code::INVALID_ACTION => command::unknown(inner, hand, line),
            _ => refusal,
        })?;
        let command = command::find(word.command).ok_or_else(|| command::unknown(inner, hand, line))?;
        command::perform(inner, hand, command, given).await
    };
    Some(match done.await {
        Ok(data) => format!("OK {data}"),
        Err(refusal) => format!("ERR {} {}", refusal.code.word(), words(&refusal)),
    })
}

async fn json(inner: &Arc<Inner>, hand: &Hand, line: &str) -> String {
    let mut given = match rest::parse(line) {
        Ok(given) => given,
        Err(refusal) => return wire::error(None, &refusal).to_string(),
    };
    let (kind, request) = (given.remove("type"), given.remove("requestId"));
    let request = wire::request_id(request.as_ref());
    let kind = kind.as_ref().and_then(Value::as_str).unwrap_or_default();
    let done = match command::find(kind).filter(|command| is_local(command)) {
        Some(command) => {
            command::perform(inner, hand, command, given).await.map(|data| (command.answer, data))
        }
        None => Err(command::unknown(inner, hand, kind)),
    };
    match done {
        Ok((answer, data)) => wire::reply(answer, request, &data).to_string(),
        Err(refusal) => {
            let message = words(&refusal);
            wire::error(request, &Refusal { message, ..refusal }).to_string()
        }
    }
}

/// The lease and its stream belong to WebSockets: on a line they are unknown.
pub(crate) fn is_local(command: &command::Command) -> bool {
    let connection = command.name.starts_with("ledStream.") || command.name.starts_with("render.stream.st");
    (command.class != Class::Control || command.name == "control.status")
        && (!connection || command.name == "render.stream.status")
}

fn words(refusal: &Refusal) -> String {
    match refusal.code {
        Code::CONTROL_LOCKED => "command blocked by active control lease".into(),
        _ => refusal.message.clone(),
    }
}
