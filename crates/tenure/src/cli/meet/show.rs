//! `tenure meet show`: one meeting.

use reqwest::Method;
use tenure_lease::Wall;

use super::PATH;
use crate::cli::api::{Api, segment, text};
use crate::cli::target::Server;
use crate::cli::{Result, Screen, exit, human};

/// The arguments of `tenure meet show`.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// Id of the meeting
    id: String,
    #[command(flatten)]
    server: Server,
}

pub(super) async fn run(args: Args, screen: &Screen) -> Result<u8> {
    let path = format!("/meetings/{}", segment(&args.id));
    let meeting = Api::open(&args.server, PATH)?.call(Method::GET, &path, None).await?;
    if screen.is_json() {
        screen.json(&meeting)?;
        return Ok(exit::DONE);
    }
    let since = meeting["since_ms"].as_u64().map(|ms| human::format_time(Wall::from_micros(ms * 1_000)));
    let people = format!("{} ({} connected)", text(&meeting["people"]), text(&meeting["connected"]));
    let closed = if meeting["closed"] == true { "until its host returns".to_owned() } else { String::new() };
    let facts = [
        ("meeting", text(&meeting["meeting_id"])),
        ("name", text(&meeting["display_name"])),
        ("phase", text(&meeting["phase"])),
        ("owner", text(&meeting["owner"])),
        ("since", since.unwrap_or_default()),
        ("generation", text(&meeting["generation"])),
        ("people", people),
        ("handlers", super::ls::handlers(&meeting)),
        ("closed", closed),
    ];
    for (label, value) in facts.into_iter().filter(|(_, value)| !value.is_empty()) {
        screen.line(format!("{label:<11} {value}"))?;
    }
    Ok(exit::DONE)
}
