//! The one table of commands: name, class, fields, and what it does. WebSocket, REST, serial line and knob all go
//! through it, so a command without a class cannot exist.

mod absent;
mod change;
mod control;
mod keep;
mod look;
mod stream;

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use futures_util::future::BoxFuture;
use serde_json::{Map, Value, json};

use crate::args::{Args, Field, shown};
use crate::class::{Class, Source};
use crate::code::{Code, Refusal};
use crate::desk::{Desk, Hand, Inner, lacks};
use crate::device::Device;
use crate::telemetry;

pub(crate) use look::{state, status};

type Outcome = Result<Value, Refusal>;

/// A command.
pub struct Command {
    /// Its name: the `type` of a message.
    pub name: &'static str,
    /// What it does to the device.
    pub class: Class,
    /// The `type` of its answer.
    pub answer: &'static str,
    /// What it does, in a line.
    pub about: &'static str,
    /// What it takes.
    pub fields: &'static [Field],
    /// Whether fields that it does not know are left alone.
    pub(crate) open: bool,
    pub(crate) run: Run,
}

/// How a command is done.
pub(crate) enum Run {
    /// Looks.
    Look(fn(&Inner, &Desk, &Args) -> Outcome),
    /// Changes the device, in one step with the check that it may.
    Change(fn(&mut Device, &Args) -> Outcome),
    /// Needs more than the device: the kernel, the store, the stream.
    Act(fn(Arc<Inner>, Hand, Args) -> BoxFuture<'static, Outcome>),
}

const fn command(
    name: &'static str,
    class: Class,
    about: &'static str,
    fields: &'static [Field],
    run: Run,
) -> Command {
    Command { name, class, answer: name, about, fields, open: false, run }
}

const fn look(
    name: &'static str,
    about: &'static str,
    fields: &'static [Field],
    run: fn(&Inner, &Desk, &Args) -> Outcome,
) -> Command {
    command(name, Class::Read, about, fields, Run::Look(run))
}

const fn change(
    name: &'static str,
    about: &'static str,
    fields: &'static [Field],
    run: fn(&mut Device, &Args) -> Outcome,
) -> Command {
    command(name, Class::Mutate, about, fields, Run::Change(run))
}

const fn act(
    name: &'static str,
    about: &'static str,
    fields: &'static [Field],
    run: fn(Arc<Inner>, Hand, Args) -> BoxFuture<'static, Outcome>,
) -> Command {
    command(name, Class::Mutate, about, fields, Run::Act(run))
}

/// Every command.
pub static COMMANDS: LazyLock<Vec<&'static Command>> = LazyLock::new(|| {
    [control::COMMANDS, look::COMMANDS, change::COMMANDS, keep::COMMANDS, stream::COMMANDS, absent::COMMANDS]
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

/// What a name counts as; what nobody knows counts as a change.
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
            "type": "object", "properties": properties, "required": required, "additionalProperties": self.open,
        })
    }

    /// Whether the scope `control:write` is needed.
    pub(crate) fn writes(&self) -> bool {
        self.class == Class::Mutate || (self.class == Class::Control && self.name != "control.status")
    }
}

/// The commands as a table in Markdown, each with its schema: what `docs/protocol/control.md` shows.
pub fn commands_page() -> String {
    let mut page = String::from(
        "| command | class | answer | what it does | schema of the message |\n|---|---|---|---|---|\n",
    );
    for command in COMMANDS.iter() {
        let Command { name, class, answer, about, .. } = command;
        page += &format!("| `{name}` | {} | `{answer}` | {about} | `{}` |\n", class.word(), command.schema());
    }
    page += "\n| method | path | command | class |\n|---|---|---|---|\n";
    for route in crate::routes::ROUTES {
        let class = route.class().word();
        page += &format!("| {} | `{}` | `{}` | {class} |\n", route.method, route.path, route.command);
    }
    page
}

/// Does a command for somebody, if it may.
pub(crate) async fn perform(
    inner: &Arc<Inner>,
    hand: &Hand,
    command: &'static Command,
    given: Map<String, Value>,
) -> Outcome {
    let outcome = attempt(inner, hand, command, given).await;
    telemetry::command(hand.source, outcome.as_ref().map_or_else(|refusal| refusal.code.word(), |_| "ok"));
    outcome
}

async fn attempt(
    inner: &Arc<Inner>,
    hand: &Hand,
    command: &'static Command,
    given: Map<String, Value>,
) -> Outcome {
    if command.writes() && !hand.write {
        return Err(lacks("control:write"));
    }
    inner.ready()?;
    match command.run {
        Run::Look(run) => {
            let args = Args::check(command.fields, command.open, given)?;
            run(inner, &inner.look(), &args)
        }
        Run::Change(run) => {
            let mut desk = inner.look();
            inner.admit(&mut desk, hand, command.class, command.name)?;
            let args = Args::check(command.fields, command.open, given)?;
            let done = run(&mut desk.device, &args)?;
            inner.changed(&desk);
            Ok(done)
        }
        Run::Act(run) => {
            inner.admit(&mut inner.look(), hand, command.class, command.name)?;
            let args = Args::check(command.fields, command.open, given)?;
            run(inner.clone(), hand.clone(), args).await
        }
    }
}

/// What a name that is no command is told: under a lease, what any change is told.
pub(crate) fn unknown(inner: &Inner, hand: &Hand, name: &str) -> Refusal {
    if let Err(refusal) = inner.admit(&mut inner.look(), hand, Class::Mutate, "unknown") {
        return refusal;
    }
    telemetry::command(hand.source, "unknown");
    let what = if hand.source == Source::Serial { "unknown command type" } else { "unknown command" };
    Refusal::new(Code::INVALID_ACTION, format!("{what} `{}`", shown(name))).field("type")
}

#[cfg(test)]
mod matrix_tests;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_stands_once_and_has_a_class_of_its_own() {
        assert_eq!(BY_NAME.len(), COMMANDS.len());
        for command in COMMANDS.iter() {
            assert_eq!(class_of(command.name), command.class);
            let mutates = matches!(command.run, Run::Change(_));
            assert!(!mutates || command.class == Class::Mutate, "{} changes the device", command.name);
            let looks = matches!(command.run, Run::Look(_));
            assert!(!looks || command.class != Class::Mutate, "{} changes nothing", command.name);
        }
    }

    #[test]
    fn a_name_that_nobody_knows_counts_as_a_change() {
        for name in
            ["", "setEverything", "getStatusAndWipe", "info.delete", "control.takeover", "ota", "auth"]
        {
            assert_eq!(class_of(name), Class::Mutate, "{name}");
        }
        assert_eq!(class_of("getStatus"), Class::Read);
    }

    #[test]
    fn the_classes_of_the_contract_hold() {
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
