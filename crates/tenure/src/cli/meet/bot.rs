//! `tenure meet bot`: people that send a picture and a tone, to try meetings and to load them.

mod annexb;
mod clip;
mod counts;
mod ogg;
mod person;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use tenure_lease::{Clock, Tick};
use tenure_meet_client::join_api::{RestJoinApi, create};
use tenure_meet_client::{Ending, JoinApiError};
use tenure_meet_wire::transport::quic::{Dialer, Timing};
use tenure_store::BootClock;
use tokio::task::JoinSet;

use self::clip::Clip;
use self::counts::Counts;
use self::person::{Person, Plan};
use crate::cli::target::{Server, StoreLocation};
use crate::cli::{Failure, Result, Screen, exit, human, remote, run::Signals};

/// Between two lines of statistics.
const STATISTICS: Duration = Duration::from_secs(5);
/// How long people may take to leave.
const LEAVE: Duration = Duration::from_secs(8);
const ANY: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0);

/// The arguments of `tenure meet bot`.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// What people send: `pattern`, a built-in test picture and tone, or the first minute of a file (needs ffmpeg)
    #[arg(long, value_name = "FILE|pattern", default_value = "pattern")]
    publish: String,
    /// How many people join
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=200))]
    people: u16,
    /// Link or code of the meeting [default: a new meeting, whose link is printed]
    #[arg(long, value_name = "LINK|CODE")]
    meeting: Option<String>,
    /// Name of the people, followed by a number
    #[arg(long, value_name = "NAME", default_value = "Bot")]
    name: String,
    /// Also receive: the sound, and the lowest rendition of up to nine pictures each
    #[arg(long)]
    watch: bool,
    /// Let the first person join as a guest as well, without the token
    #[arg(long)]
    guests: bool,
    /// Leave after this time, such as 30s [default: at Ctrl-C]
    #[arg(long = "for", value_name = "TIME", value_parser = human::parse_duration)]
    time: Option<Duration>,
    #[command(flatten)]
    server: Server,
}

/// Where people join.
struct Room {
    base: String,
    code: String,
    token: Option<String>,
}

impl Room {
    async fn find(args: &Args) -> Result<Self> {
        let location = args.server.locate()?;
        let StoreLocation::Server { url, token, .. } = &location else {
            return Err(Failure::internal("meetings need a server"));
        };
        let base = remote::http(url)?;
        let code = match &args.meeting {
            Some(meeting) => code_of(meeting).to_owned(),
            None => {
                let token = token.as_deref().ok_or_else(|| {
                    Failure::forbidden("a new meeting needs a token; name an existing one with --meeting")
                })?;
                let name = format!("{} meeting", args.name);
                create(&base, token, &name, &BootClock)
                    .await
                    .map_err(|error| api_failure(&error))?
                    .meeting_code
            }
        };
        Ok(Self { base, code, token: token.clone().filter(|_| !args.guests) })
    }

    fn link(&self) -> String {
        format!("{}/meet/{}", self.base, self.code)
    }

    /// The first person has the token. The others are guests: a user may have only a few seats in a meeting.
    fn join_api(&self, number: u16, name: &str) -> Result<RestJoinApi> {
        let clock = Arc::new(BootClock);
        match &self.token {
            Some(token) if number == 0 => RestJoinApi::user(&self.base, &self.code, token, clock),
            _ => RestJoinApi::guest(&self.base, &self.code, name, clock),
        }
        .map_err(|error| api_failure(&error))
    }
}

/// The code in a link, or the code itself.
fn code_of(meeting: &str) -> &str {
    let path = meeting.split(['?', '#']).next().unwrap_or(meeting).trim_end_matches('/');
    path.rsplit('/').next().unwrap_or(path)
}

fn api_failure(error: &JoinApiError) -> Failure {
    match error {
        JoinApiError::NotFound(_) => Failure::new(exit::FAILED, "NOT_FOUND", error.to_string()),
        JoinApiError::Refused { .. } => Failure::forbidden(error.to_string()),
        JoinApiError::Unavailable(_) => Failure::unavailable(error.to_string())
            .hint("check that the server is running; `tenure up` starts one on this machine"),
    }
}

fn ending_failure(ending: &Ending) -> Failure {
    match ending {
        Ending::Refused { code, .. } if code == "NOT_FOUND" => {
            Failure::new(exit::FAILED, "NOT_FOUND", ending.to_string())
        }
        Ending::Refused { .. } | Ending::Kicked => Failure::forbidden(ending.to_string()),
        _ => Failure::unavailable(ending.to_string()),
    }
}

pub(crate) async fn run(args: Args, screen: &Screen) -> Result<u8> {
    tenure_service::install_crypto();
    let mut signals = Signals::listen().map_err(|error| Failure::internal(error.to_string()))?;
    let clip = Arc::new(Clip::load(&args.publish).await?);
    let room = Room::find(&args).await?;
    screen.line(room.link())?;
    let (clock, counts): (Arc<dyn Clock>, _) = (Arc::new(BootClock), Arc::new(Counts::default()));
    let dialer = Dialer::new(ANY, Timing::default()).map_err(|error| Failure::internal(error.to_string()))?;
    let (dialer, origin) = (Arc::new(dialer), clock.now());
    let mut people = JoinSet::new();
    let stop = tokio_util::sync::CancellationToken::new();
    for number in 0..args.people {
        let name = match args.people {
            1 => args.name.clone(),
            _ => format!("{} {}", args.name, number + 1),
        };
        let plan = Plan {
            name: name.clone(),
            turn: (number, args.people),
            watch: args.watch,
            origin,
            clip: clip.clone(),
            clock: clock.clone(),
            dialer: dialer.clone(),
            counts: counts.clone(),
        };
        let person = tokio::select! {
            person = Person::join(plan, room.join_api(number, &name)?) => person.map_err(|ending| ending_failure(&ending))?,
            _ = signals.next() => return Ok(exit::DONE),
        };
        people.spawn(person.run(stop.clone()));
    }
    screen.note(&format!("{} joined; Ctrl-C leaves", args.people));
    let until = args.time.map(|time| clock.now() + time);
    let ended = send(&mut people, &mut signals, until, &*clock, &counts, screen).await?;
    stop.cancel();
    tokio::select! {
        () = async { while people.join_next().await.is_some() {} } => {}
        () = clock.sleep_until(clock.now() + LEAVE) => {}
    }
    dialer.settled().await;
    match ended {
        Some(ending) if !matches!(ending, Ending::Left | Ending::MeetingOver(_)) => {
            Err(ending_failure(&ending))
        }
        _ => Ok(exit::DONE),
    }
}

/// Prints statistics until a signal, the end of the time, or the end of the last person, whose reason it returns.
async fn send(
    people: &mut JoinSet<Ending>,
    signals: &mut Signals,
    until: Option<Tick>,
    clock: &dyn Clock,
    counts: &Counts,
    screen: &Screen,
) -> Result<Option<Ending>> {
    let began = clock.now();
    let mut next = began + STATISTICS;
    loop {
        let over = async {
            match until {
                Some(at) => clock.sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        let ended = tokio::select! {
            _ = signals.next() => Some(None),
            () = over => Some(None),
            Some(ended) = people.join_next() => {
                let ending = ended.map_err(|error| Failure::internal(error.to_string()))?;
                screen.note(&format!("one left: {ending}"));
                people.is_empty().then_some(Some(ending))
            }
            () = clock.sleep_until(next) => {
                next = next + STATISTICS;
                counts.print(people.len(), clock.now().since(began), screen)?;
                None
            }
        };
        if let Some(ended) = ended {
            counts.print(people.len(), clock.now().since(began), screen)?;
            return Ok(ended);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_meeting_is_named_by_its_code_or_its_link() {
        for text in ["abc-def", "http://127.0.0.1:7400/meet/abc-def", "https://h/meet/abc-def/?x=1#y"] {
            assert_eq!(code_of(text), "abc-def", "{text}");
        }
    }
}
