//! The renderer: draws frames at a steady rate, from the device's effect or from the stream.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tenure_lease::Tick;

use crate::device::{FrameSpec, Rgb};
use crate::output::Outputs;
use crate::service::ControlService;
use crate::stream::PAYLOAD;
use crate::telemetry;

/// Interval of the statistics.
const REPORT_INTERVAL: Duration = Duration::from_secs(1);
/// Intervals in a diagnostics window.
const WINDOW: u32 = 10;

/// The input of one frame.
struct FrameInput {
    spec: FrameSpec,
    streaming: Option<u32>,
    frame: Option<Box<[u8; PAYLOAD]>>,
}

/// Draws until shutdown, whenever this process serves the device.
pub(crate) async fn run(service: Arc<ControlService>) {
    let leds = usize::from(service.options.leds);
    let mut outputs = Outputs::open(&service.options.ddp).await;
    let (mut strip, mut spare) = (vec![Rgb::BLACK; leds], vec![Rgb::BLACK; leds]);
    let mut role = service.role.subscribe();
    let clock = service.uptime.clock().clone();
    let mut meter = FrameMeter::new(clock.now());
    let mut last = clock.now();
    let mut next = last;
    loop {
        tokio::select! {
            biased;
            () = service.shutdown.cancelled() => return,
            () = clock.sleep_until(next) => {}
        }
        if !service.role.borrow().serves() {
            // A standby draws nothing.
            tokio::select! {
                biased;
                () = service.shutdown.cancelled() => return,
                _ = role.changed() => {}
                () = service.uptime.sleep(REPORT_INTERVAL) => {}
            }
            (last, next) = (clock.now(), clock.now());
            continue;
        }
        let now = clock.now();
        let input = read_input(&service, now.since(last));
        last = now;
        if input.has_changed() {
            // A frame without viewers is counted but not drawn.
            if outputs.have_viewers(&service.frames) {
                input.draw(&mut strip, &mut spare);
                outputs.send(&strip, &service.frames);
            } else {
                outputs.skip();
            }
            meter.drawn();
        }
        let rate = input.streaming.unwrap_or_else(|| u32::from(service.options.fps)).max(1);
        let period = Duration::from_secs(1) / rate;
        meter.record_busy(clock.now().since(now), period);
        next = next + period;
        if next <= clock.now() {
            // Late: missed frames are skipped.
            meter.record_late();
            next = clock.now() + period;
        }
        meter.report(&service, clock.now());
    }
}

fn read_input(service: &ControlService, passed: Duration) -> FrameInput {
    let mut state = service.lock_state();
    state.device.advance(passed.as_secs_f64() * 1_000.0);
    FrameInput {
        streaming: state.stream.fps(),
        frame: state.stream.take_frame(),
        spec: state.device.frame_spec(),
    }
}

impl FrameInput {
    /// Whether the strip changes. Between two frames of a stream it keeps the last one.
    fn has_changed(&self) -> bool {
        self.frame.is_some() || self.streaming.is_none()
    }

    /// Draws into the strip.
    fn draw(&self, strip: &mut [Rgb], spare: &mut [Rgb]) {
        match &self.frame {
            Some(frame) => {
                resample(&frame[..], strip);
                self.spec.finish(strip);
            }
            None => self.spec.draw(strip, spare),
        }
    }
}

/// Copies streamed pixels to the strip, by nearest neighbour if the strip has another length.
fn resample(frame: &[u8], strip: &mut [Rgb]) {
    let (from, to) = (frame.len() / 3, strip.len());
    for (i, pixel) in strip.iter_mut().enumerate() {
        let at = (i * from / to.max(1)).min(from - 1) * 3;
        *pixel = Rgb { r: frame[at], g: frame[at + 1], b: frame[at + 2] };
    }
}

/// Measures the renderer.
struct FrameMeter {
    since: Tick,
    drawn: u32,
    busy: Duration,
    budget: Duration,
    intervals: u32,
    window: (u32, u32),
}

impl FrameMeter {
    fn new(since: Tick) -> Self {
        Self { since, drawn: 0, busy: Duration::ZERO, budget: Duration::ZERO, intervals: 0, window: (0, 0) }
    }

    fn drawn(&mut self) {
        self.drawn += 1;
        self.window.0 += 1;
    }

    fn record_late(&mut self) {
        self.window.1 += 1;
        metrics::counter!("tenure_control_late_frames_total").increment(1);
    }

    fn record_busy(&mut self, busy: Duration, budget: Duration) {
        self.busy += busy;
        self.budget += budget;
    }

    fn report(&mut self, service: &ControlService, now: Tick) {
        let passed = now.since(self.since);
        if passed < REPORT_INTERVAL {
            return;
        }
        let fps = (f64::from(self.drawn) / passed.as_secs_f64()).round() as u32;
        let busy = (self.busy.as_secs_f64() / self.budget.as_secs_f64().max(1e-9) * 1_000.0) as u32;
        service.render_stats.fps.store(fps, Ordering::Relaxed);
        service.render_stats.busy.store(busy, Ordering::Relaxed);
        metrics::gauge!("tenure_control_frames_per_second").set(f64::from(fps));
        let (intervals, window) = (self.intervals + 1, self.window);
        *self = Self {
            intervals: intervals % WINDOW,
            window: if intervals == WINDOW { (0, 0) } else { window },
            ..Self::new(now)
        };
        if intervals == WINDOW {
            let counters = service.lock_state().stream.counters();
            telemetry::record_window(service.now(), window.0, window.1, counters.rx, counters.dropped);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_is_resampled_to_any_strip_length() {
        let frame: Vec<u8> = (0..320u32).flat_map(|i| [i as u8, (i >> 8) as u8, 7]).collect();
        for leds in [1, 2, 160, 320, 640, 1_000] {
            let mut strip = vec![Rgb::BLACK; leds];
            resample(&frame, &mut strip);
            assert_eq!(strip[0], Rgb { r: 0, g: 0, b: 7 });
            let last = strip[leds - 1];
            let index = usize::from(last.r) + 256 * usize::from(last.g);
            assert_eq!(index, (leds - 1) * 320 / leds, "{leds}");
        }
        resample(&frame, &mut []);
    }
}
