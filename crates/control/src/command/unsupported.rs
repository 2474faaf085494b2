//! Commands of the protocol that this device does not support. They are allowed under any lease.

use super::{Command, Outcome, Run};
use crate::class::Class;
use crate::code::{Code, Refusal};

const fn unsupported(name: &'static str, about: &'static str, run: Run) -> Command {
    Command { name, class: Class::Exempt, reply: name, about, fields: &[], allow_unknown: true, run }
}

pub(super) const COMMANDS: &[Command] = &[
    unsupported("auth.status", "API keys: not supported", Run::Read(|_, _, _| auth())),
    unsupported("auth.rotate", "API keys: not supported", Run::Read(|_, _, _| auth())),
    unsupported("ota.check", "firmware: not supported", Run::Read(|_, _, _| ota())),
    unsupported("ota.status", "firmware: not supported", Run::Read(|_, _, _| ota())),
    unsupported("ota.begin", "firmware: not supported", Run::Read(|_, _, _| ota())),
    unsupported("ota.update", "firmware: not supported", Run::Read(|_, _, _| ota())),
];

fn auth() -> Outcome {
    Err(Refusal::new(
        Code::FEATURE_DISABLED,
        "API keys are not supported; use a bearer token or a console session",
    ))
}

fn ota() -> Outcome {
    Err(Refusal::new(Code::FEATURE_DISABLED, "firmware updates are not supported; replace the binary"))
}
