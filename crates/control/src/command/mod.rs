//! The table of commands: name, class, fields and implementation. WebSocket, REST, serial ports and encoders all use
//! it, so every command has a class.

mod change;
mod control;
mod persist;
mod read;
mod stream;
mod unsupported;

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use futures_util::future::BoxFuture;
use serde_json::{Map, Value, json};

use crate::args::{Args, Field, truncate_name};
use crate::class::{Class, InputSource};
use crate::code::{Code, Refusal};
use crate::device::Device;
use crate::service::{ControlService, ControlState, Requester, missing_scope};
use crate::telemetry;

pub(crate) use read::{device_state, device_status};

type Outcome = Result<Value, Refusal>;

/// A command.
pub struct Command {
    /// The name: the `type` of a message.
    pub name: &'static str,
    /// The class.
    pub class: Class,
    /// The `type` of the reply.
    pub reply: &'static str,
    /// What it does, in one line.
    pub about: &'static str,
    /// Its fields.
    pub fields: &'static [Field],
    /// Whether unknown fields are ignored.
    pub(crate) allow_unknown: bool,
    pub(crate) run: Run,
}

/// The implementation of a command.
pub(crate) enum Run {
    /// Reads only.
    Read(fn(&ControlService, &ControlState, &Args) -> Outcome),
    /// Changes the device, under the same lock as the admission check.
    Change(fn(&mut Device, &Args) -> Outcome),
    /// Uses the kernel, the store or the stream.
    Async(fn(Arc<ControlService>, Requester, Args) -> BoxFuture<'static, Outcome>),
}

const fn command(
    name: &'static str,
    class: Class,
    about: &'static str,
    fields: &'static [Field],
    run: Run,
) -> Command {
    Command { name, class, reply: name, about, fields, allow_unknown: false, run }
}

const fn read(
    name: &'static str,
    about: &'static str,
    fields: &'static [Field],
    run: fn(&ControlService, &ControlState, &Args) -> Outcome,
) -> Command {
    command(name, Class::Read, about, fields, Run::Read(run))
}

const fn change(
    name: &'static str,
    about: &'static str,
    fields: &'static [Field],
    run: fn(&mut Device, &Args) -> Outcome,
) -> Command {
    command(name, Class::Mutate, about, fields, Run::Change(run))
}

const fn action(
    name: &'static str,
    about: &'static str,
    fields: &'static [Field],
    run: fn(Arc<ControlService>, Requester, Args) -> BoxFuture<'static, Outcome>,
) -> Command {
    command(name, Class::Mutate, about, fields, Run::Async(run))
}

/// Every command.
pub static COMMANDS: LazyLock<Vec<&'static Command>> = LazyLock::new(|| {
    [
        control::COMMANDS,
        read::COMMANDS,
        change::COMMANDS,
        persist::COMMANDS,
        stream::COMMANDS,
        unsupported::COMMANDS,
    ]
    .into_iter()
    .flatten()
    .collect()
});

static BY_NAME: LazyLock<HashMap<&'static str, &'static Command>> =
    LazyLock::new(|| COMMANDS.iter().map(|command| (command.name, *command)).collect());

/// The command with this name.
pub(crate) fn find(name: &str) -> Option<&'static Command> {
    BY_NAME.get(name).copied()
}

/// The class of a command. Unknown commands are mutating.
pub fn class_of(name: &str) -> Class {
    find(name).map_or(Class::Mutate, |command| command.class)
}

impl Command {
    /// The JSON schema of the command's message.
    pub fn schema(&self) -> Value {
        let mut properties = Map::new();
        properties.insert("type".into(), json!({ "const": self.name }));
        properties.insert("requestId".into(), json!({ "type": ["string", "number"] }));
        properties.extend(self.fields.iter().map(|field| (field.name.to_owned(), field.schema())));
        let needed = self.fields.iter().filter(|field| field.required).map(|field| field.name);
        let required: Vec<&str> = std::iter::once("type").chain(needed).collect();
        json!({
            "type": "object", "properties": properties, "required": required, "additionalProperties": self.allow_unknown,
        })
    }

    /// Whether the scope `control:write` is required.
    pub(crate) fn requires_write(&self) -> bool {
        self.class == Class::Mutate || (self.class == Class::Control && self.name != "control.status")
    }
}

/// The command reference in Markdown, as included in `docs/protocol/control.md`.
pub fn commands_page() -> String {
    let mut page = String::from("| command | class | type of the reply | description |\n|---|---|---|---|\n");
    for command in COMMANDS.iter() {
        let Command { name, class, reply, about, .. } = command;
        page += &format!("| `{name}` | {} | `{reply}` | {about} |\n", class.as_str());
    }
    page += "\n| command | field | value | required |\n|---|---|---|---|\n";
    for command in COMMANDS.iter() {
        for field in command.fields {
            let required = if field.required { "yes" } else { "no" };
            page +=
                &format!("| `{}` | `{}` | {} | {required} |\n", command.name, field.name, field.kind.range());
        }
    }
    page += "\n| method | path | command | class |\n|---|---|---|---|\n";
    for route in crate::routes::ROUTES {
        let class = route.class().as_str();
        page += &format!("| {} | `{}` | `{}` | {class} |\n", route.method, route.path, route.command);
    }
    page
}

/// The JSON schemas of all messages, as in `docs/protocol/control-commands.json`.
pub fn command_schemas() -> String {
    let schemas: Map<String, Value> =
        COMMANDS.iter().map(|command| (command.name.to_owned(), command.schema())).collect();
    format!("{:#}\n", Value::Object(schemas))
}

/// Runs a command, if it is allowed.
pub(crate) async fn perform(
    service: &Arc<ControlService>,
    requester: &Requester,
    command: &'static Command,
    given: Map<String, Value>,
) -> Outcome {
    let outcome = attempt(service, requester, command, given).await;
    telemetry::record_command(
        requester.source,
        outcome.as_ref().map_or_else(|refusal| refusal.code.as_str(), |_| "ok"),
    );
    outcome
}

async fn attempt(
    service: &Arc<ControlService>,
    requester: &Requester,
    command: &'static Command,
    given: Map<String, Value>,
) -> Outcome {
    if command.requires_write() && !requester.write {
        return Err(missing_scope("control:write"));
    }
    service.check_serving()?;
    match command.run {
        Run::Read(run) => {
            let args = Args::check(command.fields, command.allow_unknown, given)?;
            run(service, &service.lock_state(), &args)
        }
        Run::Change(run) => {
            let mut state = service.lock_state();
            service.admit(&mut state, requester, command.class, command.name)?;
            let args = Args::check(command.fields, command.allow_unknown, given)?;
            let data = run(&mut state.device, &args)?;
            service.notify_changed(&state);
            Ok(data)
        }
        Run::Async(run) => {
            service.admit(&mut service.lock_state(), requester, command.class, command.name)?;
            let args = Args::check(command.fields, command.allow_unknown, given)?;
            run(service.clone(), requester.clone(), args).await
        }
    }
}

/// The refusal of an unknown command. Under a lease, it is blocked like any mutating command.
pub(crate) fn unknown_command(service: &ControlService, requester: &Requester, name: &str) -> Refusal {
    if let Err(refusal) = service.admit(&mut service.lock_state(), requester, Class::Mutate, "unknown") {
        return refusal;
    }
    telemetry::record_command(requester.source, "unknown");
    let what =
        if requester.source == InputSource::Serial { "unknown command type" } else { "unknown command" };
    Refusal::new(Code::INVALID_ACTION, format!("{what} `{}`", truncate_name(name))).field("type")
}

#[cfg(test)]
mod matrix_tests;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_unique_and_has_a_class() {
        assert_eq!(BY_NAME.len(), COMMANDS.len());
        for command in COMMANDS.iter() {
            assert_eq!(class_of(command.name), command.class);
            let mutates = matches!(command.run, Run::Change(_));
            assert!(!mutates || command.class == Class::Mutate, "{} changes the device", command.name);
            let reads = matches!(command.run, Run::Read(_));
            assert!(!reads || command.class != Class::Mutate, "{} changes nothing", command.name);
        }
    }

    #[test]
    fn an_unknown_command_is_mutating() {
        for name in
            ["", "setEverything", "getStatusAndWipe", "info.delete", "control.takeover", "ota", "auth"]
        {
            assert_eq!(class_of(name), Class::Mutate, "{name}");
        }
        assert_eq!(class_of("getStatus"), Class::Read);
    }

    #[test]
    fn classes_match_the_contract() {
        for name in ["control.acquire", "control.heartbeat", "control.release", "control.status"] {
            assert_eq!(class_of(name), Class::Control, "{name}");
        }
        for name in ["auth.status", "auth.rotate", "ota.check", "ota.begin", "ota.status"] {
            assert_eq!(class_of(name), Class::Exempt, "{name}");
        }
        for name in [
            "setEffect",
            "nextEffect",
            "prevEffect",
            "effects.setCurrent",
            "effects.parameters.set",
            "setBrightness",
            "setSpeed",
            "setPalette",
            "palettes.set",
            "parameters.set",
            "batch",
            "transition.trigger",
            "transition.config",
            "transitions.trigger",
            "effectPresets.load",
            "effectPresets.saveCurrent",
            "effectPresets.delete",
            "show.play",
            "show.pause",
            "show.resume",
            "show.stop",
            "show.seek",
            "colorCorrection.setConfig",
            "render.stream.start",
            "render.stream.stop",
        ] {
            assert_eq!(class_of(name), Class::Mutate, "{name}");
            assert!(find(name).is_some(), "{name}");
        }
        for name in [
            "render.stream.status",
            "device.getStatus",
            "effects.list",
            "parameters.get",
            "ledStream.subscribe",
            "sys.capabilities",
        ] {
            assert_eq!(class_of(name), Class::Read, "{name}");
        }
    }
}
