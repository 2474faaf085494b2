//! A history as people read it.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::history::{Answer, Call, Client, Event, History, OpId, Step, TokenId, What};

/// One line for each event.
pub fn timeline(history: &History) -> String {
    let mut text = String::new();
    let mut calls: BTreeMap<OpId, (Client, &Call)> = BTreeMap::new();
    for Event { at, what } in &history.events {
        if let What::Invoked { op, client, call } = what {
            calls.insert(*op, (*client, call));
        }
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{:>10.6} s  {}", *at as f64 / 1e9, format_event(what, &calls));
    }
    text
}

fn format_token_id(token: TokenId) -> String {
    format!("~{:04x}", token & 0xffff)
}

fn format_token(token: Option<TokenId>) -> String {
    token.map(format_token_id).unwrap_or_default()
}

fn format_call(call: &Call) -> String {
    let mut text = format!("{:?} {} {}", call.verb, call.key, format_token(call.token)).to_lowercase();
    if let Some(generation) = call.generation {
        let _ = write!(text, " generation {generation}");
    }
    if let Some(holder) = &call.holder {
        let _ = write!(text, " by/to {holder}");
    }
    if let Some(ttl) = call.ttl {
        let _ = write!(text, " for {} ms", ttl / 1_000_000);
    }
    if let Some(wait) = call.wait {
        let _ = write!(text, " wait {} ms", wait / 1_000_000);
    }
    text
}

fn format_answer(answer: &Answer) -> String {
    let mut text = answer.word.to_string();
    if let Some(generation) = answer.generation {
        let _ = write!(text, " {generation}");
    }
    if let Some(why) = &answer.why {
        let _ = write!(text, " ({why})");
    }
    text
}

fn format_event(what: &What, calls: &BTreeMap<OpId, (Client, &Call)>) -> String {
    match what {
        What::Invoked { op, client, call } => format!("client {client}  #{op} {}", format_call(call)),
        What::Returned { op, answer } => match calls.get(op) {
            Some((client, call)) => {
                format!("client {client}  #{op} {} -> {}", format_call(call), format_answer(answer))
            }
            None => format!("#{op} -> {}", format_answer(answer)),
        },
        What::Store { key, step, generation, token, holder, .. } => {
            let step = match step {
                Step::Granted => "granted".into(),
                Step::Renewed { until } => format!("lasts until {:.6} s", *until as f64 / 1e9),
                Step::Ended(why) => format!("ended: {why}"),
                Step::Parked => "parked".into(),
                Step::Left => "left the queue".into(),
                Step::Successor { .. } => "has a successor".into(),
                Step::Closed { until } => format!("closed until {:.6} s", *until as f64 / 1e9),
            };
            format!("  store   {key} {generation} {} {holder}: {step}", format_token(*token))
        }
        What::Guard { client, key, generation, state, .. } => {
            format!("client {client}  believes {key} {generation}: {state:?}")
        }
        What::Permit { permit, client, key, generation, until, .. } => {
            format!(
                "client {client}  permit {permit} on {key} {generation} until {:.6} s",
                *until as f64 / 1e9
            )
        }
        What::PermitOver { permit } => format!("          permit {permit} is over"),
        What::Wrote { key, client, generation, accepted, strict, .. } => {
            let how = if *strict { "strict" } else { "monotonic" };
            let done = if *accepted { "let in" } else { "refused" };
            format!("resource  {key}: {how} write of client {client} under {generation} {done}")
        }
        What::Started { client, host, holder } => {
            format!("client {client}  starts on host {host} as {holder}")
        }
        What::Stuck { client, text } => format!("client {client}  is stuck: {text}"),
        What::Dropped { client, key, token } => {
            format!("client {client}  lets {key} {} go", format_token(*token))
        }
        What::Slots { prefix, offered } => format!("          {offered} slots under {prefix}"),
        What::Fault { name, host, until } => {
            let host = host.map(|host| format!(" host {host}")).unwrap_or_default();
            format!("FAULT     {name}{host} until {:.6} s", *until as f64 / 1e9)
        }
        What::Healed => "HEALED".into(),
        What::Note { text } => text.clone(),
        What::End => "END".into(),
    }
}
