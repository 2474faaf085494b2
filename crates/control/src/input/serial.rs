//! Commands over a serial port: one JSON object or text command per line, and one line in reply.

use std::io;
use std::sync::Arc;

use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader};
use tokio_serial::SerialPortBuilderExt;

use super::text_commands;
use crate::class::{Class, InputSource};
use crate::code::{Code, Refusal};
use crate::command;
use crate::options::SerialPort;
use crate::service::{ControlService, Requester};
use crate::telemetry::TARGET;
use crate::{rest, wire};

/// Maximum bytes of a line.
const MAX_LINE: u64 = 4_096;

/// Opens the port and serves it; reopens it whenever it is lost.
pub(crate) async fn run(service: Arc<ControlService>, config: SerialPort) {
    loop {
        match tokio_serial::new(&config.path, config.baud).open_native_async() {
            Ok(port) => {
                tracing::info!(target: TARGET, path = config.path, "serial port open");
                if let Err(error) = serve(&service, port).await {
                    tracing::warn!(target: TARGET, path = config.path, %error, "serial port lost");
                }
            }
            Err(error) => {
                tracing::warn!(target: TARGET, path = config.path, %error, "serial port unavailable")
            }
        }
        if !super::wait_for_retry(&service).await {
            return;
        }
    }
}

/// Serves commands until shutdown or until the port is lost.
async fn serve(service: &Arc<ControlService>, port: impl AsyncRead + AsyncWrite + Unpin) -> io::Result<()> {
    let (reader, mut writer) = tokio::io::split(port);
    let mut reader = BufReader::new(reader);
    let requester = Requester::local(InputSource::Serial);
    let mut line = Vec::new();
    loop {
        line.clear();
        let mut bounded = (&mut reader).take(MAX_LINE);
        let read = tokio::select! {
            biased;
            () = service.shutdown.cancelled() => return Ok(()),
            read = bounded.read_until(b'\n', &mut line) => read?,
        };
        if read == 0 {
            return Ok(());
        }
        let reply = match line.last() {
            Some(b'\n') => handle_line(service, &requester, &String::from_utf8_lossy(&line)).await,
            _ => {
                skip_line(service, &mut reader).await?;
                Some(format!("ERR {} a line may have at most {MAX_LINE} bytes", Code::INVALID_VALUE.as_str()))
            }
        };
        if let Some(reply) = reply.map(|reply| format!("{reply}\r\n")) {
            tokio::select! {
                biased;
                () = service.shutdown.cancelled() => return Ok(()),
                written = writer.write_all(reply.as_bytes()) => written?,
            }
        }
    }
}

/// Discards the rest of a line that is too long.
async fn skip_line(service: &ControlService, reader: &mut (impl AsyncBufReadExt + Unpin)) -> io::Result<()> {
    loop {
        let bytes = tokio::select! {
            biased;
            () = service.shutdown.cancelled() => return Ok(()),
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

/// Handles a line and returns the reply. An empty line has none.
async fn handle_line(service: &Arc<ControlService>, requester: &Requester, line: &str) -> Option<String> {
    let line = line.trim();
    if line.is_empty() {
        return None;
    }
    if line.starts_with('{') {
        return Some(handle_json(service, requester, line).await);
    }
    if line.eq_ignore_ascii_case("help") {
        return Some(text_commands::help());
    }
    let outcome = async {
        let (text_command, given) =
            text_commands::parse_line(line).map_err(|refusal| match refusal.code {
                // Unknown commands are mutating.
                Code::INVALID_ACTION => command::unknown_command(service, requester, line),
                _ => refusal,
            })?;
        let command = command::find(text_command.command)
            .ok_or_else(|| command::unknown_command(service, requester, line))?;
        command::perform(service, requester, command, given).await
    };
    Some(match outcome.await {
        Ok(data) => format!("OK {data}"),
        Err(refusal) => format!("ERR {} {}", refusal.code.as_str(), serial_message(&refusal)),
    })
}

async fn handle_json(service: &Arc<ControlService>, requester: &Requester, line: &str) -> String {
    let mut given = match rest::parse_object(line) {
        Ok(given) => given,
        Err(refusal) => return wire::error(None, &refusal).to_string(),
    };
    let (kind, request) = (given.remove("type"), given.remove("requestId"));
    let request = wire::request_id(request.as_ref());
    let kind = kind.as_ref().and_then(Value::as_str).unwrap_or_default();
    let outcome = match command::find(kind).filter(|command| is_local(command)) {
        Some(command) => {
            command::perform(service, requester, command, given).await.map(|data| (command.reply, data))
        }
        None => Err(command::unknown_command(service, requester, kind)),
    };
    match outcome {
        Ok((kind, data)) => wire::reply(kind, request, &data).to_string(),
        Err(refusal) => {
            let message = serial_message(&refusal);
            wire::error(request, &Refusal { message, ..refusal }).to_string()
        }
    }
}

/// Whether a command is available on a serial port. Lease and stream commands require a WebSocket.
pub(crate) fn is_local(command: &command::Command) -> bool {
    let connection = command.name.starts_with("ledStream.") || command.name.starts_with("render.stream.st");
    (command.class != Class::Control || command.name == "control.status")
        && (!connection || command.name == "render.stream.status")
}

fn serial_message(refusal: &Refusal) -> String {
    match refusal.code {
        Code::CONTROL_LOCKED => "command blocked by active control lease".into(),
        _ => refusal.message.clone(),
    }
}
