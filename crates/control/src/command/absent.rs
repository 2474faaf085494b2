//! Commands of the protocol that this device does not have, and says so. They stay allowed under any lease.

use super::{Command, Outcome, Run};
use crate::class::Class;
use crate::code::{Code, Refusal};

const fn absent(name: &'static str, about: &'static str, run: Run) -> Command {
    Command { name, class: Class::Exempt, answer: name, about, fields: &[], open: true, run }
}

pub(super) const COMMANDS: &[Command] = &[
    absent("auth.status", "API keys: there are none", Run::Look(|_, _, _| auth())),
    absent("auth.rotate", "API keys: there are none", Run::Look(|_, _, _| auth())),
    absent("ota.check", "firmware: this device has none", Run::Look(|_, _, _| ota())),
    absent("ota.status", "firmware: this device has none", Run::Look(|_, _, _| ota())),
    absent("ota.begin", "firmware: this device has none", Run::Look(|_, _, _| ota())),
    absent("ota.update", "firmware: this device has none", Run::Look(|_, _, _| ota())),
];

fn auth() -> Outcome {
    Err(Refusal::new(
        Code::FEATURE_DISABLED,
        "this device has no API keys; it takes bearer tokens and console sessions",
    ))
}

fn ota() -> Outcome {
    Err(Refusal::new(Code::FEATURE_DISABLED, "this device has no firmware to update; replace the binary"))
}
