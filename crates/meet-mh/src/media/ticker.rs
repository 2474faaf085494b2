//! What a meeting does by the clock: rate control, key frame requests, keep-alives, speakers, reports and counts.

use std::sync::Arc;
use std::time::Duration;

use tenure_lease::Tick;
use tenure_meet_wire::media::audio;
use tenure_meet_wire::media::message::media_event::Payload;
use tenure_meet_wire::media::message::{HandlerReport, HandlerTrackReport};

use super::Load;
use super::layers::{self, Share};
use super::meeting::{Meeting, State};
use super::rate::Sample;
use super::track::{Kind, TrackKey};
use crate::metric;

/// The interval of ticks.
const TICK: Duration = Duration::from_millis(50);
/// Ticks without anything sent before a keep-alive.
const QUIET: u8 = 2;
/// Ticks between samples of the rate control.
const RATE: u64 = 2;
/// Ticks between announcements of speakers.
const SPEAKERS: u64 = 5;
/// Ticks between measurements of publications.
const MEASURE: u64 = 10;
/// Ticks between reports.
const REPORT: u64 = 20;

/// Sessions, publications and subscriptions of a meeting, as metrics count them.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Counts {
    /// Active and on standby.
    pub(crate) sessions: [i64; 2],
    /// By kind.
    pub(crate) publications: [i64; 3],
    /// Those that flow, by kind.
    pub(crate) subscriptions: [i64; 3],
    /// Bytes that subscribers have not taken yet.
    pub(crate) queued: i64,
    /// Streams that come from other handlers.
    pub(crate) relayed: i64,
}

impl Counts {
    fn streams(&self) -> i64 {
        self.publications.iter().chain(&self.subscriptions).sum()
    }
}

/// Runs while the meeting has members.
pub(crate) async fn run(meeting: Arc<Meeting>) {
    let mut ticks = 0;
    loop {
        let wake = {
            let state = meeting.state.lock();
            let (now, end) = (meeting.now(), state.control.lease_until());
            // A registration ends on time and not at the next tick.
            if end > now { end.min(now + TICK) } else { now + TICK }
        };
        tokio::select! {
            biased;
            () = meeting.cancel.cancelled() => return,
            () = meeting.shared.clock.sleep_until(wake) => {}
        }
        ticks += 1;
        let mut state = meeting.state.lock();
        state.tick(ticks, meeting.now(), &meeting.shared.load);
        if state.members.is_empty() {
            state.set_counts(Counts::default(), &meeting.shared.load);
            state.ticking = false;
            return;
        }
    }
}

impl State {
    fn tick(&mut self, ticks: u64, now: Tick, load: &Load) {
        let alive = self.control.is_alive(now);
        if std::mem::replace(&mut self.was_alive, alive) != alive {
            drop(self.sweep(now));
            self.tracks.values().for_each(|track| track.wake());
        }
        for member in self.members.values_mut() {
            member.quiet_ticks = if member.link.take_sent() { 0 } else { member.quiet_ticks + 1 };
            if member.quiet_ticks >= QUIET {
                member.quiet_ticks = 0;
                // A session that is over has no use for it.
                let _over = member.link.session.send_datagram(audio::keep_alive());
            }
        }
        if ticks.is_multiple_of(MEASURE) {
            let renditions = self.tracks.values().flat_map(|track| &track.renditions);
            renditions.for_each(|rendition| rendition.meter.measure(now));
        }
        if ticks.is_multiple_of(RATE) {
            self.control_rates(now, load);
            for key in self.tracks.keys().cloned().collect::<Vec<_>>() {
                self.update_needed(&key, now);
            }
            let counts = self.count(now);
            self.set_counts(counts, load);
            self.wake_links();
        }
        if ticks.is_multiple_of(SPEAKERS) {
            self.announce_speakers(now);
        }
        if ticks.is_multiple_of(REPORT) {
            self.report(now);
        }
    }

    /// Fits the video of each member to its path.
    fn control_rates(&mut self, now: Tick, load: &Load) {
        for member in self.members.values_mut() {
            let stats = member.link.session.stats();
            let before = std::mem::replace(&mut member.last_stats, stats);
            load.packets(
                stats.sent_packets.saturating_sub(before.sent_packets),
                stats.lost_packets.saturating_sub(before.lost_packets),
            );
            if member.standby {
                continue;
            }
            let pending = member.subscriptions.values().map(|it| it.order.write_pending(now)).max();
            member.rate.sample(Sample { at: now, stats, write_pending: pending.unwrap_or_default() });
            let window = member.rate.send_window(stats.rtt);
            member.link.session.set_send_window(window);
            let mut videos: Vec<_> = member
                .subscriptions
                .values_mut()
                .filter(|subscription| subscription.kind != Kind::Audio)
                .filter_map(|subscription| {
                    let track = self.tracks.get(&subscription.key)?;
                    track.current()?;
                    Some((subscription.demand(track), subscription))
                })
                .collect();
            let demands: Vec<_> = videos.iter().map(|(demand, _)| demand.clone()).collect();
            let present: Vec<Share> = videos.iter().map(|(_, subscription)| subscription.share).collect();
            let raise = member.rate.may_raise(now);
            let (shares, raised) = layers::settle(&demands, &present, member.rate.target(), raise);
            if raised {
                member.rate.raised(layers::total(&demands, &shares), now);
            }
            for ((_, subscription), share) in videos.iter_mut().zip(shares) {
                if subscription.share != share {
                    subscription.share = share;
                    subscription.order.wake();
                }
            }
        }
    }

    fn report(&mut self, now: Tick) {
        for member in self.members.values_mut() {
            let stats = member.link.session.stats();
            let before = member.last_report.replace((now, stats));
            let (since, earlier) = before.unwrap_or((now, stats));
            let seconds = now.since(since).as_secs_f64().max(0.001);
            let rate = |now: u64, before: u64| (now.saturating_sub(before) as f64 * 8.0 / seconds) as u64;
            let tracks = member
                .publications
                .iter()
                .filter_map(|(alias, key)| Some((*alias, self.tracks.get(key)?)))
                .flat_map(|(alias, track)| {
                    let count = track.publication.as_ref().map_or(0, |it| it.stream.renditions.len());
                    track.renditions.iter().take(count).enumerate().map(move |(at, rendition)| {
                        HandlerTrackReport {
                            alias: alias.into(),
                            rendition: at as u32,
                            bitrate: rendition.meter.rates().last().copied().unwrap_or_default(),
                            lag_ms: rendition.meter.lag().as_millis() as u32,
                        }
                    })
                })
                .collect();
            let report = HandlerReport {
                rtt_ms: stats.rtt.as_millis() as u32,
                loss_permille: member.rate.loss_permille(),
                bitrate_in: rate(stats.received_bytes, earlier.received_bytes),
                bitrate_out: rate(stats.sent_bytes, earlier.sent_bytes),
                tracks,
            };
            member.link.tell(Payload::Report(report), 0);
        }
    }

    fn count(&self, now: Tick) -> Counts {
        let mut counts = Counts::default();
        let place = |kind: Kind| Kind::ALL.iter().position(|it| *it == kind).unwrap_or_default();
        for member in self.members.values() {
            counts.sessions[usize::from(member.standby)] += 1;
            counts.queued += member.outbox_bytes as i64;
            for subscription in member.subscriptions.values().filter(|_| !member.standby) {
                counts.queued += subscription.order.queued() as i64;
                if self.flows(&subscription.key, now) {
                    counts.subscriptions[place(subscription.kind)] += 1;
                }
            }
            if !member.standby && member.all_audio.is_some() {
                counts.subscriptions[place(Kind::Audio)] += 1;
            }
        }
        for publication in self.tracks.values().filter_map(|track| track.publication.as_ref()) {
            counts.publications[place(publication.stream.kind)] += 1;
        }
        counts.relayed = self.links.values().map(|link| link.active() as i64).sum();
        counts
    }

    fn flows(&self, key: &TrackKey, now: Tick) -> bool {
        let kind = self.tracks.get(key).and_then(|track| track.current()).map(|stream| stream.kind);
        kind.is_some_and(|kind| self.may_forward(key, kind, now))
    }

    /// Replaces the counts of this meeting in those of the handler.
    pub(crate) fn set_counts(&mut self, counts: Counts, load: &Load) {
        let before = std::mem::replace(&mut self.counts, counts);
        load.add_streams(counts.streams() - before.streams());
        metric::counts(&before, &counts);
    }
}
