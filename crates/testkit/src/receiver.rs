//! A TV receiver: channels over HTTP, each an MPEG transport stream in real time.

use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::lock;

/// The interval of chunks.
const BEAT: Duration = Duration::from_millis(50);
/// The duration of the stream.
const FILM_SECS: u32 = 60;

/// A receiver on 127.0.0.1. `GET /{channel}` sends a minute of video and audio; `GET /none` is 404. Dropping it closes
/// all connections.
pub struct Receiver {
    addr: SocketAddr,
    shared: Arc<Shared>,
}

struct Shared {
    film: Vec<u8>,
    /// Speed as a multiple of real time.
    pace: f64,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    stalled: bool,
    hung_up: bool,
    watchers: usize,
}

impl Receiver {
    /// Starts a receiver that sends in real time.
    pub fn start() -> Result<Self> {
        Self::with_pace(1.0)
    }

    /// Starts a receiver that sends at a multiple of real time.
    pub fn with_pace(pace: f64) -> Result<Self> {
        let film = film()?;
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("cannot bind the receiver")?;
        let addr = listener.local_addr()?;
        let shared = Arc::new(Shared { film, pace, state: Mutex::default(), changed: Condvar::new() });
        let serving = shared.clone();
        // The threads end within one interval after the flag is set; they are not joined.
        thread::Builder::new().name("receiver".to_owned()).spawn(move || serve(&listener, &serving))?;
        Ok(Self { addr, shared })
    }

    /// The URL of a channel with the placeholder `{serviceRef}`, as in the settings.
    pub fn url(&self) -> String {
        format!("http://{}/{{serviceRef}}", self.addr)
    }

    /// Pauses or resumes sending; connections stay open.
    pub fn stall(&self, stalled: bool) {
        lock(&self.shared.state).stalled = stalled;
        self.shared.changed.notify_all();
    }

    /// The number of active streams.
    pub fn watchers(&self) -> usize {
        lock(&self.shared.state).watchers
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        lock(&self.shared.state).hung_up = true;
        self.shared.changed.notify_all();
        // Wakes the accepting thread.
        drop(TcpStream::connect(self.addr));
    }
}

fn serve(listener: &TcpListener, shared: &Arc<Shared>) {
    for stream in listener.incoming() {
        if lock(&shared.state).hung_up {
            return;
        }
        let (Ok(stream), shared) = (stream, shared.clone()) else { continue };
        let sending = move || {
            lock(&shared.state).watchers += 1;
            // A client that disconnects ends the stream with an error.
            drop(send(stream, &shared));
            lock(&shared.state).watchers -= 1;
        };
        drop(thread::Builder::new().name("channel".to_owned()).spawn(sending));
    }
}

fn send(mut stream: TcpStream, shared: &Shared) -> Result<()> {
    let mut lines = BufReader::new(stream.try_clone()?).lines();
    let request = lines.next().context("no request")??;
    while lines.next().is_some_and(|line| line.is_ok_and(|line| !line.is_empty())) {}
    if request.contains(" /none ") {
        stream.write_all(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")?;
        return Ok(());
    }
    stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Type: video/mpeg\r\nConnection: close\r\n\r\n")?;
    let per_beat = shared.film.len() as f64 * shared.pace * BEAT.as_secs_f64() / f64::from(FILM_SECS);
    for piece in shared.film.chunks((per_beat as usize).max(1)) {
        let mut state = lock(&shared.state);
        // A notification ends the wait early.
        state = shared.changed.wait_timeout(state, BEAT).map_err(|_| anyhow::anyhow!("poisoned"))?.0;
        while state.stalled && !state.hung_up {
            state = shared.changed.wait(state).map_err(|_| anyhow::anyhow!("poisoned"))?;
        }
        if state.hung_up {
            return Ok(());
        }
        drop(state);
        stream.write_all(piece)?;
    }
    Ok(())
}

/// A minute of small video with a tone, as an MPEG transport stream.
fn film() -> Result<Vec<u8>> {
    let dir = tempfile::tempdir()?;
    let file = dir.path().join("film.ts");
    make_film(&file, FILM_SECS)?;
    Ok(std::fs::read(file)?)
}

/// Creates a recording of this many seconds with ffmpeg.
pub fn make_film(file: &Path, secs: u32) -> Result<()> {
    let picture = format!("testsrc=size=160x120:rate=10:duration={secs}");
    let tone = format!("sine=frequency=440:sample_rate=48000:duration={secs}");
    let args = [
        "-nostdin",
        "-loglevel",
        "error",
        "-y",
        "-f",
        "lavfi",
        "-i",
        &picture,
        "-f",
        "lavfi",
        "-i",
        &tone,
        "-c:v",
        "libx264",
        "-preset",
        "ultrafast",
        "-pix_fmt",
        "yuv420p",
        "-g",
        "10",
        "-c:a",
        "aac",
        "-b:a",
        "32k",
        "-f",
        "mpegts",
    ];
    let made = Command::new("ffmpeg").args(args).arg(file).output().context("ffmpeg not found")?;
    if !made.status.success() {
        bail!("ffmpeg failed: {}", String::from_utf8_lossy(&made.stderr));
    }
    Ok(())
}
