//! A rotary encoder as a Linux input device. Turning it changes the brightness; pressing it selects the next effect.

use std::fs::OpenOptions;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt;
use std::sync::Arc;

use serde_json::{Map, Value};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use crate::class::InputSource;
use crate::command;
use crate::service::{ControlService, Requester};
use crate::telemetry::TARGET;

/// Bytes of one event: two machine words of time, then type, code and value.
const EVENT_BYTES: usize = 2 * size_of::<usize>() + 8;
/// Maximum events per read.
const MAX_EVENTS: usize = 64;

const EV_KEY: u16 = 1;
const EV_REL: u16 = 2;
/// The axes of rotary encoders: `REL_DIAL` and `REL_WHEEL`.
const AXES: [u16; 2] = [7, 8];
const PRESSED: i32 = 1;
/// Brightness per notch.
const BRIGHTNESS_STEP: i32 = 8;

/// An event of the encoder.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum EncoderEvent {
    /// The number of notches, negative to the left.
    Turned(i32),
    Pressed,
}

impl EncoderEvent {
    /// The command of the event.
    pub(crate) const fn command(self) -> &'static str {
        match self {
            Self::Turned(_) => "setBrightness",
            Self::Pressed => "nextEffect",
        }
    }
}

/// Parses an input event of the Linux kernel.
fn parse_event(event: &[u8]) -> Option<EncoderEvent> {
    let at = EVENT_BYTES - 8;
    let short = |at: usize| Some(u16::from_ne_bytes(event.get(at..at + 2)?.try_into().ok()?));
    let value = i32::from_ne_bytes(event.get(at + 4..at + 8)?.try_into().ok()?);
    match (short(at)?, short(at + 2)?) {
        (EV_REL, axis) if AXES.contains(&axis) && value != 0 => Some(EncoderEvent::Turned(value)),
        (EV_KEY, _) if value == PRESSED => Some(EncoderEvent::Pressed),
        _ => None,
    }
}

/// Opens the device and reads it; reopens it whenever it is lost.
pub(crate) async fn run(service: Arc<ControlService>, path: String) {
    loop {
        match open(&path) {
            Ok(file) => {
                tracing::info!(target: TARGET, path, "rotary encoder connected");
                if let Err(error) = read_events(&service, &file).await {
                    tracing::warn!(target: TARGET, path, %error, "rotary encoder disconnected");
                }
            }
            Err(error) => tracing::warn!(target: TARGET, path, %error, "rotary encoder unavailable"),
        }
        if !super::wait_for_retry(&service).await {
            return;
        }
    }
}

/// Opens the device without blocking.
#[expect(
    deprecated,
    reason = "its replacement requires unsafe code; a File owns its descriptor, which is the only requirement"
)]
fn open(path: &str) -> io::Result<AsyncFd<std::fs::File>> {
    let flags = rustix::fs::OFlags::NONBLOCK.bits();
    let file = OpenOptions::new().read(true).custom_flags(flags.cast_signed()).open(path)?;
    AsyncFd::with_interest(file, Interest::READABLE)
}

async fn read_events(service: &Arc<ControlService>, file: &AsyncFd<std::fs::File>) -> io::Result<()> {
    let mut buffer = vec![0; EVENT_BYTES * MAX_EVENTS];
    let mut filled = 0;
    loop {
        let mut readable = tokio::select! {
            biased;
            () = service.shutdown.cancelled() => return Ok(()),
            readable = file.readable() => readable?,
        };
        let read = readable.try_io(|file| Ok(rustix::io::read(file.as_fd(), &mut buffer[filled..])?));
        let Ok(read) = read else { continue };
        let read = read?;
        if read == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        filled += read;
        let complete = filled / EVENT_BYTES * EVENT_BYTES;
        for event in buffer[..complete].chunks_exact(EVENT_BYTES).filter_map(parse_event) {
            apply(service, event).await;
        }
        buffer.copy_within(complete..filled, 0);
        filled -= complete;
    }
}

/// Runs the command of an event. A blocked event is dropped, not queued.
pub(crate) async fn apply(service: &Arc<ControlService>, event: EncoderEvent) {
    let mut given = Map::new();
    if let EncoderEvent::Turned(notches) = event {
        let brightness = i32::from(service.lock_state().device.look.params.brightness);
        let target = brightness.saturating_add(notches.saturating_mul(BRIGHTNESS_STEP)).clamp(0, 255);
        given.insert("brightness".into(), Value::from(target));
    }
    let Some(command) = command::find(event.command()) else { return };
    if let Err(refusal) =
        command::perform(service, &Requester::local(InputSource::Encoder), command, given).await
    {
        tracing::debug!(target: TARGET, %refusal, "rotary encoder event dropped");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(kind: u16, code: u16, value: i32) -> Vec<u8> {
        let mut bytes = vec![0; EVENT_BYTES - 8];
        bytes.extend(kind.to_ne_bytes());
        bytes.extend(code.to_ne_bytes());
        bytes.extend(value.to_ne_bytes());
        bytes
    }

    #[test]
    fn kernel_events_are_parsed_as_turns_and_presses() {
        assert_eq!(parse_event(&event(EV_REL, 7, -2)), Some(EncoderEvent::Turned(-2)));
        assert_eq!(parse_event(&event(EV_REL, 8, 1)), Some(EncoderEvent::Turned(1)));
        assert_eq!(parse_event(&event(EV_KEY, 0x100, 1)), Some(EncoderEvent::Pressed));
        for (kind, code, value) in
            [(EV_KEY, 0x100, 0), (EV_KEY, 0x100, 2), (EV_REL, 0, 5), (0, 0, 0), (EV_REL, 7, 0)]
        {
            assert_eq!(parse_event(&event(kind, code, value)), None, "{kind} {code} {value}");
        }
        assert_eq!(parse_event(&[0; 3]), None);
    }
}
