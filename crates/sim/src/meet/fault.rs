//! What goes wrong, and how it ends.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use parking_lot::Mutex;
use tenure_lease::Clock as _;
use tenure_meet_client::{Dial as _, Endpoint};
use tenure_meet_wire::frame;
use tenure_meet_wire::signaling::ClientMessage;
use tenure_meet_wire::signaling::client_message::Payload as Ask;

use super::call::SimDial;
use super::nodes::url;
use super::person::Presence;
use super::plan::{FIRST_CONTROLLER, HANDLER, Kind};
use super::running::{Running, controller_name, nanos};
use super::world::Life;
use crate::simulation::HostId;

impl Running {
    pub(super) fn fault(&mut self, number: usize) {
        let fault = self.plan.faults[number];
        self.world.note(|| format!("fault: {:?} for {} ms", fault.kind, fault.for_ms));
        if self.troubles_servers(fault.kind) {
            let late = if let Kind::Storm(weather) = fault.kind { u64::from(weather.late_ms) } else { 0 };
            self.world.judge.lock().faulty_until(nanos(fault.at_ms + fault.for_ms + late));
        }
        match fault.kind {
            Kind::Cut { host, from, to } => {
                let mut state = self.simulation.lock();
                state.net.cut[host as usize][0] += u32::from(from);
                state.net.cut[host as usize][1] += u32::from(to);
            }
            Kind::Storm(weather) => self.simulation.lock().net.weather = weather,
            Kind::Freeze { host } => {
                self.simulation.lock().host(host).frozen += 1;
                if let Some(presence) = self.presence_at(host) {
                    presence.lock().stopped = true;
                }
            }
            Kind::Crash { host } => self.crash(host),
            Kind::HangUp { host } => self.hang_up(host),
            Kind::Step { host, by_ms } => {
                let state = &mut *self.simulation.lock();
                let off = &state.host(host).wall_off;
                let by = (i64::from(by_ms) * 1_000) as u64;
                off.store(off.load(Ordering::Relaxed).wrapping_add(by), Ordering::Relaxed);
            }
            Kind::Replay { host } => self.replay(host),
        }
    }

    /// Whether a fault may make one server look dead to another.
    fn troubles_servers(&self, kind: Kind) -> bool {
        match kind {
            Kind::Cut { host, .. } | Kind::Freeze { host } | Kind::Crash { host } => {
                self.presence_at(host).is_none()
            }
            Kind::Storm(_) => true,
            Kind::HangUp { .. } | Kind::Step { .. } | Kind::Replay { .. } => false,
        }
    }

    pub(super) fn heal(&mut self, number: usize) {
        let fault = self.plan.faults[number];
        match fault.kind {
            Kind::Cut { host, from, to } => {
                let mut state = self.simulation.lock();
                state.net.cut[host as usize][0] -= u32::from(from);
                state.net.cut[host as usize][1] -= u32::from(to);
            }
            Kind::Storm(_) => self.simulation.lock().net.weather = Default::default(),
            Kind::Freeze { host } => self.thaw(host),
            Kind::Crash { host } => self.start(host),
            Kind::HangUp { .. } | Kind::Step { .. } | Kind::Replay { .. } => {}
        }
    }

    /// A stopped process goes on with everything that came meanwhile.
    fn thaw(&mut self, host: HostId) {
        let held = {
            let mut state = self.simulation.lock();
            let there = state.host(host);
            there.frozen -= 1;
            if there.frozen > 0 {
                return;
            }
            std::mem::take(&mut there.held)
        };
        held.into_iter().for_each(|item| self.happen(item));
        self.turn(host);
    }

    /// A process dies with everything in it.
    fn crash(&mut self, host: HostId) {
        let life = {
            let mut state = self.simulation.lock();
            let there = state.host(host);
            if !there.alive {
                return;
            }
            there.alive = false;
            there.held.clear();
            let number = there.client;
            state.net.waiting.retain(|_, waiting| waiting.client != number);
            state.net.streams.retain(|_, open| open.client != number);
            Life { host, number }
        };
        self.world.services.lock().retain(|_, service| service.life != life);
        self.world.calls.lock().forget(life);
        if let Some(presence) = self.presence_at(host) {
            presence.lock().client = None;
        }
        if host == HANDLER {
            self.handler = None;
        }
        self.processes[host as usize] = None;
    }

    fn hang_up(&mut self, host: HostId) {
        self.world.wires.lock().hang_up(host);
        for host in 0..self.processes.len() as HostId {
            self.turn(host);
        }
    }

    fn presence_at(&self, host: HostId) -> Option<&Arc<Mutex<Presence>>> {
        self.people.get(host.checked_sub(FIRST_CONTROLLER + self.plan.controllers)? as usize)
    }

    /// An eavesdropper repeats the last resume of a person, from that person's machine.
    fn replay(&mut self, host: HostId) {
        let Some(join) = self.world.judge.lock().overheard(host) else { return };
        let (Some((owner, _)), Some(life)) = (self.owner(), self.world.process_at(host)) else { return };
        let Some(running) = &self.processes[host as usize] else { return };
        let dial = SimDial { world: self.world.clone(), life };
        let url = url(&controller_name(owner));
        let message =
            ClientMessage { payload: Some(Ask::JoinRequest(join)), seq: 1, ..ClientMessage::default() };
        let clock = self.clocks[host as usize].clone();
        drop(running.process.runtime().spawn(async move {
            let Ok(bytes) = frame::encode(&message) else { return };
            let Ok(session) = dial.dial(&Endpoint { url, hashes: Vec::new() }, "").await else { return };
            let Ok((mut send, _receive)) = session.open_bi().await else { return };
            // Whatever the answer is, the judge sees it on the wire.
            drop(send.send(bytes).await);
            clock.sleep_until(clock.now() + Duration::from_secs(1)).await;
            session.close(0, "");
        }));
        self.turn(host);
    }
}
