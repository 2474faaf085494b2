//! `tenure lease watch`.

use tenure_lease::{Event, Prefix, Revision, Verb, Watched};

use crate::cli::screen::Paint;
use crate::cli::view::EventView;
use crate::cli::{Result, Screen, Target, connect, human};

/// The arguments of `tenure lease watch`.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// Only keys with this prefix
    #[arg(default_value = "", value_parser = super::prefix, hide_default_value = true)]
    prefix: Prefix,
    /// Start after this revision [default: now]
    #[arg(long, value_name = "REV")]
    from: Option<u64>,
    #[command(flatten)]
    target: Target,
}

pub(crate) async fn run(args: Args, screen: &Screen) -> Result<u8> {
    let store = connect(&args.target).await?;
    let mut watch = store.watch(&args.prefix, args.from.map(Revision::new)).await?;
    screen.note("watching; press Ctrl-C to stop");
    loop {
        let watched = watch.next().await?;
        if screen.is_json() {
            screen.json(&EventView::from(&watched))?;
            continue;
        }
        match &watched {
            Watched::Event(event) => screen.line(format_event(screen, event))?,
            Watched::Lagged => {
                screen.note("some changes were missed; `tenure lease ls` shows the current state");
            }
        }
    }
}

fn format_event(screen: &Screen, event: &Event) -> String {
    let paint = match event.verb {
        Verb::Granted => Paint::Green,
        Verb::Ended(end) if end.spends_token() => Paint::Plain,
        Verb::Ended(_) => Paint::Yellow,
        Verb::Written | Verb::Deleted => Paint::Dim,
    };
    let who = match (&event.holder, event.generation) {
        (Some(holder), Some(generation)) => format!("  {holder}  {generation}"),
        _ => String::new(),
    };
    format!(
        "{}  {}  {}  {}{who}",
        screen.paint(Paint::Dim, format!("{:>6}", event.revision.get())),
        screen.paint(Paint::Dim, human::format_time(event.at)),
        screen.paint(paint, format!("{:<11}", event.verb.as_str())),
        screen.paint(Paint::Bold, &event.key),
    )
}
