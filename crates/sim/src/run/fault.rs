//! What goes wrong, and how it ends.

use std::sync::atomic::Ordering;

use super::{Running, nanos};
use crate::history::{Nanos, What};
use crate::plan::{Fault, Kind};
use crate::simulation::{HostId, Item, SERVER};

impl Running {
    pub(super) fn fault(&mut self, number: usize) {
        let Fault { at_ms, for_ms, kind } = self.plan.faults[number];
        let until = nanos(at_ms + for_ms);
        let (name, host) = match kind {
            Kind::Cut { host, .. } => ("cut", Some(host)),
            Kind::Storm(_) => ("storm", None),
            Kind::Freeze { host } => ("freeze", Some(host)),
            Kind::Suspend { host } => ("suspend", Some(host)),
            Kind::Crash { host } => return self.crash(host, until),
            Kind::Step { host, .. } => ("step", Some(host)),
            Kind::Reset { host } => ("reset", Some(host)),
        };
        let until = if matches!(kind, Kind::Step { .. } | Kind::Reset { .. }) { nanos(at_ms) } else { until };
        let now = self.simulation.now();
        let mut state = self.simulation.lock();
        // What a storm delays may arrive after it.
        let late = if let Kind::Storm(weather) = kind { nanos(weather.late_ms) } else { 0 };
        state.record.note(now, What::Fault { name: name.into(), host, until: until + late });
        match kind {
            Kind::Cut { host, from, to } => {
                state.net.cut[host as usize][0] += u32::from(from);
                state.net.cut[host as usize][1] += u32::from(to);
                state.reset(now, Some(host), 200_000_000);
            }
            Kind::Reset { host } => state.reset(now, Some(host), 1_000_000),
            Kind::Storm(weather) => state.net.weather = weather,
            Kind::Freeze { host } | Kind::Suspend { host } => state.host(host).frozen += 1,
            Kind::Step { host, by_ms } => {
                let by = (i64::from(by_ms) * 1_000) as u64;
                let off = &state.host(host).wall_off;
                off.store(off.load(Ordering::Relaxed).wrapping_add(by), Ordering::Relaxed);
            }
            Kind::Crash { .. } => {}
        }
    }

    pub(super) fn heal(&mut self, number: usize) {
        let Fault { for_ms, kind, .. } = self.plan.faults[number];
        match kind {
            Kind::Cut { host, from, to } => {
                let mut state = self.simulation.lock();
                state.net.cut[host as usize][0] -= u32::from(from);
                state.net.cut[host as usize][1] -= u32::from(to);
            }
            Kind::Storm(_) => self.simulation.lock().net.weather = Default::default(),
            Kind::Freeze { host } => self.thaw(host),
            Kind::Suspend { host } => {
                let slept = self.simulation.lock().host(host).suspended.clone();
                slept.fetch_add(nanos(for_ms), Ordering::Relaxed);
                self.thaw(host);
            }
            Kind::Crash { host } => {
                if !self.simulation.lock().host(host).alive {
                    self.start(host);
                }
            }
            Kind::Step { .. } | Kind::Reset { .. } => {}
        }
    }

    /// A host runs again: what came meanwhile is there at once, timers first or packets first.
    fn thaw(&mut self, host: HostId) {
        let mut held = {
            let mut state = self.simulation.lock();
            state.host(host).frozen -= 1;
            if state.host(host).frozen > 0 {
                return;
            }
            let mut held = std::mem::take(&mut state.host(host).held);
            if state.rng.chance(50) {
                held.sort_by_key(|item| matches!(item, Item::Alarm(..)));
            }
            held
        };
        for item in held.drain(..) {
            match item {
                Item::Alarm(_, alarm) => alarm.ring(),
                Item::Deliver(host, packet) => self.deliver(host, *packet),
                _ => {}
            }
        }
        self.turn(host);
    }

    /// A process dies with everything in it; it is started again by the end of the fault, if there is one.
    pub(super) fn crash(&mut self, host: HostId, until: Nanos) {
        let now = self.simulation.now();
        {
            let mut state = self.simulation.lock();
            if !state.host(host).alive {
                return;
            }
            state.host(host).alive = false;
            state.host(host).held.clear();
            let client = state.host(host).client;
            state.record.note(now, What::Fault { name: "crash".into(), host: Some(host), until });
            if host != SERVER {
                state.record.died(now, client);
                state.net.waiting.retain(|_, waiting| waiting.client != client);
                state.net.streams.retain(|_, open| open.client != client);
            }
        }
        if host == SERVER {
            if let Some(server) = self.server.take() {
                server.record_changes();
                server.died();
                self.processes[0] = None;
            }
            self.simulation.lock().reset(now, None, 200_000_000);
        } else {
            let before = self.simulation.lock().record.history.events.len();
            self.processes[host as usize] = None;
            // What a runtime drops at its end it drops in an order of its own, which is not the seed's.
            self.simulation.lock().record.history.events[before..]
                .sort_by_cached_key(|event| format!("{event:?}"));
            if until <= now + 1 {
                // It ended itself, and is started again by its supervisor.
                self.simulation.after(nanos(self.plan.ttl_ms / 2), Item::Start(host));
            }
        }
    }
}
