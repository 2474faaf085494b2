//! The output of a case: Markdown for `docs/benchmarks.md`.
#![expect(clippy::print_stdout, reason = "results are printed")]

use crate::contest::{Outcome, Side};
use crate::numbers::plain;

/// The deviation of the control from which a run is not valid.
const CONTROL: f64 = 0.05;

/// A goal and the measured value.
pub(crate) struct Goal {
    pub(crate) what: String,
    pub(crate) want: String,
    pub(crate) found: String,
    pub(crate) met: bool,
    void: bool,
}

impl Goal {
    /// A value that must be at least `want`.
    pub(crate) fn at_least(what: impl Into<String>, want: f64, found: f64) -> Self {
        let (want_text, found_text) = (format!("≥ {}", plain(want)), plain(found));
        Self { what: what.into(), want: want_text, found: found_text, met: found >= want, void: false }
    }

    /// A value that must be at most `want`.
    pub(crate) fn at_most(what: impl Into<String>, want: f64, found: f64) -> Self {
        let (want_text, found_text) = (format!("≤ {}", plain(want)), plain(found));
        Self { what: what.into(), want: want_text, found: found_text, met: found <= want, void: false }
    }

    /// Marks the goal as undecided if the contest is not valid.
    pub(crate) fn in_contest(self, outcome: &Outcome) -> Self {
        Self { void: is_void(outcome), ..self }
    }
}

fn is_void(outcome: &Outcome) -> bool {
    (outcome.control.median - 1.0).abs() > CONTROL
}

pub(crate) fn heading(text: &str) {
    println!("\n### {text}\n");
}

pub(crate) fn line(text: &str) {
    println!("{text}");
}

pub(crate) fn table(head: &[&str], rows: &[Vec<String>]) {
    println!("| {} |", head.join(" | "));
    println!("|{}", "---|".repeat(head.len()));
    for row in rows {
        println!("| {} |", row.join(" | "));
    }
    println!();
}

/// The rates, the ratios and the control of a contest.
pub(crate) fn outcome(unit: &str, sides: &[Side<'_>], outcome: &Outcome) {
    let rows: Vec<_> = sides
        .iter()
        .enumerate()
        .map(|(i, side)| {
            let ratio = if i == 0 { String::from("–") } else { outcome.ratios[i].to_string() };
            vec![side.name.clone(), outcome.rates[i].to_string(), ratio]
        })
        .chain([vec![
            format!("control: {} against itself", sides[0].name),
            String::new(),
            outcome.control.to_string(),
        ]])
        .collect();
    let (rate, ratio) = (format!("{unit}/s, median [min–max]"), format!("{} ÷ this", sides[0].name));
    table(&["side", &rate, &ratio], &rows);
    if is_void(outcome) {
        line(
            "The control deviates by more than 5 %, so these ratios are not valid. Repeat on an idle machine.\n",
        );
    }
}

pub(crate) fn goals(goals: &[Goal]) {
    let row = |g: &Goal| {
        let met = match (g.void, g.met) {
            (true, _) => "void",
            (false, true) => "yes",
            (false, false) => "**no**",
        };
        vec![g.what.clone(), g.want.clone(), g.found.clone(), met.into()]
    };
    table(&["goal", "wanted", "found", "met"], &goals.iter().map(row).collect::<Vec<_>>());
}
