//! The renderer: pictures at a steady rate, from the device's look or from the stream.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use lease::Tick;

use crate::desk::Inner;
use crate::device::{Picture, Rgb};
use crate::output::Outputs;
use crate::stream::PAYLOAD;
use crate::telemetry;

/// How often the pace is reckoned.
const LOOK: Duration = Duration::from_secs(1);
/// Looks in a window of diagnostics.
const WINDOW: u32 = 10;

/// What is to be drawn in one frame.
struct Step {
    picture: Picture,
    streaming: Option<u32>,
    frame: Option<Box<[u8; PAYLOAD]>>,
}

/// Draws until the end, whenever this process serves the device.
pub(crate) async fn run(inner: Arc<Inner>) {
    let leds = usize::from(inner.options.leds);
    let mut outputs = Outputs::open(&inner.options.ddp).await;
    let (mut strip, mut spare) = (vec![Rgb::BLACK; leds], vec![Rgb::BLACK; leds]);
    let mut role = inner.role.subscribe();
    let clock = inner.uptime.clock().clone();
    let mut pace = Pace::new(clock.now());
    let mut last = clock.now();
    let mut next = last;
    loop {
        tokio::select! {
            biased;
            () = inner.ends.cancelled() => return,
            () = clock.sleep_until(next) => {}
        }
        if !inner.role.borrow().serves() {
            // Nothing is shown by a process that does not serve.
            tokio::select! {
                biased;
                () = inner.ends.cancelled() => return,
                _ = role.changed() => {}
                () = inner.uptime.sleep(LOOK) => {}
            }
            (last, next) = (clock.now(), clock.now());
            continue;
        }
        let now = clock.now();
        let step = prepare(&inner, now.since(last));
        last = now;
        if step.shows() {
            // A picture that nobody sees is not drawn. The device counts it all the same.
            if outputs.are_seen(&inner.frames) {
                step.draw(&mut strip, &mut spare);
                outputs.show(&strip, &inner.frames);
            } else {
                outputs.skip();
            }
            pace.drawn();
        }
        let rate = step.streaming.unwrap_or_else(|| u32::from(inner.options.fps)).max(1);
        let period = Duration::from_secs(1) / rate;
        pace.spent(clock.now().since(now), period);
        next = next + period;
        if next <= clock.now() {
            // Late: frames that were missed are not made up for.
            pace.late();
            next = clock.now() + period;
        }
        pace.reckon(&inner, clock.now());
    }
}

fn prepare(inner: &Inner, passed: Duration) -> Step {
    let mut desk = inner.look();
    desk.device.advance(passed.as_secs_f64() * 1_000.0);
    Step { streaming: desk.stream.fps(), frame: desk.stream.take(), picture: desk.device.picture() }
}

impl Step {
    /// Whether there is something new to show: between two frames of a stream the strip shows the last one.
    fn shows(&self) -> bool {
        self.frame.is_some() || self.streaming.is_none()
    }

    /// Draws into the strip.
    fn draw(&self, strip: &mut [Rgb], spare: &mut [Rgb]) {
        match &self.frame {
            Some(frame) => {
                spread(&frame[..], strip);
                self.picture.finish(strip);
            }
            None => self.picture.draw(strip, spare),
        }
    }
}

/// Puts streamed pixels onto the strip, each where it is nearest if the strip has another length.
fn spread(frame: &[u8], strip: &mut [Rgb]) {
    let (from, to) = (frame.len() / 3, strip.len());
    for (i, pixel) in strip.iter_mut().enumerate() {
        let at = (i * from / to.max(1)).min(from - 1) * 3;
        *pixel = Rgb { r: frame[at], g: frame[at + 1], b: frame[at + 2] };
    }
}

/// How the renderer does.
struct Pace {
    since: Tick,
    drawn: u32,
    busy: Duration,
    worth: Duration,
    looks: u32,
    window: (u32, u32),
}

impl Pace {
    fn new(since: Tick) -> Self {
        Self { since, drawn: 0, busy: Duration::ZERO, worth: Duration::ZERO, looks: 0, window: (0, 0) }
    }

    fn drawn(&mut self) {
        self.drawn += 1;
        self.window.0 += 1;
    }

    fn late(&mut self) {
        self.window.1 += 1;
        metrics::counter!("control_late_frames_total").increment(1);
    }

    fn spent(&mut self, busy: Duration, worth: Duration) {
        self.busy += busy;
        self.worth += worth;
    }

    fn reckon(&mut self, inner: &Inner, now: Tick) {
        let passed = now.since(self.since);
        if passed < LOOK {
            return;
        }
        let fps = (f64::from(self.drawn) / passed.as_secs_f64()).round() as u32;
        let busy = (self.busy.as_secs_f64() / self.worth.as_secs_f64().max(1e-9) * 1_000.0) as u32;
        inner.pace.fps.store(fps, Ordering::Relaxed);
        inner.pace.busy.store(busy, Ordering::Relaxed);
        metrics::gauge!("control_fps").set(f64::from(fps));
        let (looks, window) = (self.looks + 1, self.window);
        *self = Self {
            looks: looks % WINDOW,
            window: if looks == WINDOW { (0, 0) } else { window },
            ..Self::new(now)
        };
        if looks == WINDOW {
            let counters = inner.look().stream.counters();
            telemetry::window(inner.now(), window.0, window.1, counters.rx, counters.dropped);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_fits_strips_of_any_length() {
        let frame: Vec<u8> = (0..320u32).flat_map(|i| [i as u8, (i >> 8) as u8, 7]).collect();
        for leds in [1, 2, 160, 320, 640, 1_000] {
            let mut strip = vec![Rgb::BLACK; leds];
            spread(&frame, &mut strip);
            assert_eq!(strip[0], Rgb { r: 0, g: 0, b: 7 });
            let last = strip[leds - 1];
            let place = usize::from(last.r) + 256 * usize::from(last.g);
            assert_eq!(place, (leds - 1) * 320 / leds, "{leds}");
        }
        spread(&frame, &mut []);
    }
}
