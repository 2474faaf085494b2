//! The knob: a Linux input device. Turning changes the brightness, pressing goes to the next effect.

use std::fs::OpenOptions;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt;
use std::sync::Arc;

use serde_json::{Map, Value};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use crate::class::Source;
use crate::command;
use crate::desk::{Hand, Inner};
use crate::telemetry::TARGET;

/// Bytes of one event: two machine words of time, then type, code and value.
const EVENT: usize = 2 * size_of::<usize>() + 8;
/// Events read at once.
const AT_ONCE: usize = 64;

const EV_KEY: u16 = 1;
const EV_REL: u16 = 2;
/// The axes of knobs: `REL_DIAL` and `REL_WHEEL`.
const AXES: [u16; 2] = [7, 8];
const PRESSED: i32 = 1;
/// Brightness per notch.
const NOTCH: i32 = 8;

/// What a hand did with the knob.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Knob {
    /// So many notches, negative to the left.
    Turned(i32),
    Pressed,
}

impl Knob {
    /// The command that this is.
    pub(crate) const fn command(self) -> &'static str {
        match self {
            Self::Turned(_) => "setBrightness",
            Self::Pressed => "nextEffect",
        }
    }
}

/// What an event of the kernel means here.
fn read(event: &[u8]) -> Option<Knob> {
    let at = EVENT - 8;
    let short = |at: usize| Some(u16::from_ne_bytes(event.get(at..at + 2)?.try_into().ok()?));
    let value = i32::from_ne_bytes(event.get(at + 4..at + 8)?.try_into().ok()?);
    match (short(at)?, short(at + 2)?) {
        (EV_REL, axis) if AXES.contains(&axis) && value != 0 => Some(Knob::Turned(value)),
        (EV_KEY, _) if value == PRESSED => Some(Knob::Pressed),
        _ => None,
    }
}

/// Opens the device, and again whenever it is gone.
pub(crate) async fn run(inner: Arc<Inner>, path: String) {
    loop {
        match open(&path) {
            Ok(file) => {
                tracing::info!(target: TARGET, path, "listening to a knob");
                if let Err(error) = listen(&inner, &file).await {
                    tracing::warn!(target: TARGET, path, %error, "the knob is gone");
                }
            }
            Err(error) => tracing::warn!(target: TARGET, path, %error, "no knob"),
        }
        if !super::again(&inner).await {
            return;
        }
    }
}

/// Opens without waiting for anybody on the other side.
#[expect(
    deprecated,
    reason = "its replacement is unsafe code; a File owns its descriptor, which is all that is asked"
)]
fn open(path: &str) -> io::Result<AsyncFd<std::fs::File>> {
    let flags = rustix::fs::OFlags::NONBLOCK.bits();
    let file = OpenOptions::new().read(true).custom_flags(flags.cast_signed()).open(path)?;
    AsyncFd::with_interest(file, Interest::READABLE)
}

async fn listen(inner: &Arc<Inner>, file: &AsyncFd<std::fs::File>) -> io::Result<()> {
    let mut buffer = vec![0; EVENT * AT_ONCE];
    let mut held = 0;
    loop {
        let mut readable = tokio::select! {
            biased;
            () = inner.ends.cancelled() => return Ok(()),
            readable = file.readable() => readable?,
        };
        let read = readable.try_io(|file| Ok(rustix::io::read(file.as_fd(), &mut buffer[held..])?));
        let Ok(read) = read else { continue };
        let read = read?;
        if read == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        held += read;
        let whole = held / EVENT * EVENT;
        for event in buffer[..whole].chunks_exact(EVENT).filter_map(self::read) {
            apply(inner, event).await;
        }
        buffer.copy_within(whole..held, 0);
        held -= whole;
    }
}

/// Does what the hand meant, or drops it: nothing is kept for later.
pub(crate) async fn apply(inner: &Arc<Inner>, knob: Knob) {
    let mut given = Map::new();
    if let Knob::Turned(notches) = knob {
        let brightness = i32::from(inner.look().device.look.params.brightness);
        let wanted = brightness.saturating_add(notches.saturating_mul(NOTCH)).clamp(0, 255);
        given.insert("brightness".into(), Value::from(wanted));
    }
    let Some(command) = command::find(knob.command()) else { return };
    if let Err(refusal) = command::perform(inner, &Hand::local(Source::Encoder), command, given).await {
        tracing::debug!(target: TARGET, %refusal, "the knob was not heard");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(kind: u16, code: u16, value: i32) -> Vec<u8> {
        let mut bytes = vec![0; EVENT - 8];
        bytes.extend(kind.to_ne_bytes());
        bytes.extend(code.to_ne_bytes());
        bytes.extend(value.to_ne_bytes());
        bytes
    }

    #[test]
    fn events_of_the_kernel_become_turns_and_presses() {
        assert_eq!(read(&event(EV_REL, 7, -2)), Some(Knob::Turned(-2)));
        assert_eq!(read(&event(EV_REL, 8, 1)), Some(Knob::Turned(1)));
        assert_eq!(read(&event(EV_KEY, 0x100, 1)), Some(Knob::Pressed));
        for (kind, code, value) in
            [(EV_KEY, 0x100, 0), (EV_KEY, 0x100, 2), (EV_REL, 0, 5), (0, 0, 0), (EV_REL, 7, 0)]
        {
            assert_eq!(read(&event(kind, code, value)), None, "{kind} {code} {value}");
        }
        assert_eq!(read(&[0; 3]), None);
    }
}
