//! Where console sessions lie between two runs: a file in the data directory that only its owner can touch.
//!
//! It holds digests, so whoever reads it cannot take a session over. A session is bound to the token that it was
//! opened with: when that token is gone, was given another text or fewer rights, the session is not taken up again.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use super::secret::Digest;
use super::session::{Session, Sessions};
use super::token::Tokens;
use super::{MOST, SESSION_LIFE};
use crate::clock::Clock;
use crate::scope::{Scope, Scopes};

/// The file below the data directory.
const SESSIONS_FILE: &str = "sessions";
/// Bytes of the file that are read at most; a full one has about half of it.
const LARGEST: u64 = (MOST * 1_024) as u64;

/// The file, and the right to write it.
#[derive(Debug)]
pub(super) struct Shelf {
    dir: PathBuf,
    /// Held from looking at the sessions to the rename, so that the file never goes back in time.
    writing: Mutex<()>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Content {
    version: u32,
    sessions: Vec<Entry>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    /// The digest of the session's id.
    session: String,
    /// When it ends, in milliseconds since 1970.
    until_ms: u64,
    scopes: Vec<String>,
    /// The name of the token it was opened with.
    token: String,
    /// What tells that token from another of the same name.
    mark: String,
}

impl Shelf {
    pub(super) fn new(dir: &Path) -> Self {
        Self { dir: dir.to_owned(), writing: Mutex::new(()) }
    }

    /// The sessions that are still good. A file that cannot be used is reported and changes nothing else:
    /// people sign in again.
    pub(super) fn load(&self, tokens: &Tokens, clock: &Clock) -> Sessions {
        let path = self.path();
        let mut sessions = Sessions::new(MOST);
        let content = match read(&path) {
            Ok(Some(content)) => content,
            Ok(None) => return sessions,
            Err(error) => {
                tracing::warn!(path = %path.display(), %error, "the console sessions are lost; sign in again");
                return sessions;
            }
        };
        let (now, wall) = (clock.now(), clock.wall());
        let taken = content.sessions.iter().filter_map(|entry| entry.take(tokens, now, wall));
        for (digest, session) in taken.take(MOST) {
            sessions.insert(digest, session, now);
        }
        sessions
    }

    /// Writes down what is open. If that fails, the file is taken away: no session that was ended comes back.
    pub(super) fn save(&self, sessions: &Mutex<Sessions>, tokens: &Tokens, clock: &Clock) {
        let _writing = self.writing.lock();
        let (now, wall) = (clock.now(), clock.wall());
        let entries = {
            let sessions = sessions.lock();
            sessions
                .open(now)
                .filter_map(|(id, session)| Entry::of(*id, session, tokens, now, wall))
                .collect()
        };
        let Err(error) = self.write(&Content { version: 1, sessions: entries }) else { return };
        let path = self.path();
        let gone = match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        };
        tracing::error!(path = %path.display(), %error, removed = gone.is_ok(), "cannot keep the console sessions");
    }

    fn write(&self, content: &Content) -> io::Result<()> {
        fs::create_dir_all(&self.dir)?;
        // One name, so that a crash leaves one draft at most, and the next write takes it over.
        let draft = self.dir.join(format!(".{SESSIONS_FILE}.draft"));
        match fs::remove_file(&draft) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&draft)?;
        file.write_all(&serde_json::to_vec(content)?)?;
        file.sync_all()?;
        fs::rename(&draft, self.path())?;
        File::open(&self.dir)?.sync_all()
    }

    fn path(&self) -> PathBuf {
        self.dir.join(SESSIONS_FILE)
    }
}

impl Entry {
    /// Nothing for a session whose token is not in the settings: the next run could not check it.
    fn of(id: Digest, session: &Session, tokens: &Tokens, now: Duration, wall: Duration) -> Option<Self> {
        let token = tokens.named(&session.name)?;
        Some(Self {
            session: id.hex(),
            until_ms: (wall + session.until.saturating_sub(now)).as_millis() as u64,
            scopes: session.scopes.iter().map(|scope| scope.to_string()).collect(),
            token: session.name.clone(),
            mark: token.mark(),
        })
    }

    fn take(&self, tokens: &Tokens, now: Duration, wall: Duration) -> Option<(Digest, Session)> {
        let digest = Digest::from_hex(&self.session)?;
        // A clock that was set back must not make a session longer than any can be.
        let left = Duration::from_millis(self.until_ms).checked_sub(wall)?.min(SESSION_LIFE);
        let scopes: Scopes =
            self.scopes.iter().map(|text| text.parse::<Scope>()).collect::<Result<_, _>>().ok()?;
        let token = tokens.named(&self.token)?;
        let same = token.mark() == self.mark
            && scopes.iter().all(|scope| token.scopes().allows(scope.area, scope.level));
        let fits = same && !scopes.is_empty() && !left.is_zero();
        fits.then(|| (digest, Session { name: self.token.clone(), scopes, until: now + left }))
    }
}

/// What the file says; nothing if there is none.
fn read(path: &Path) -> io::Result<Option<Content>> {
    let file = match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened?,
    };
    let odd = |why: &str| io::Error::new(io::ErrorKind::InvalidData, why.to_owned());
    if file.metadata()?.permissions().mode() & 0o077 != 0 {
        // Who could write to it could have opened a session for himself.
        return Err(odd("the file was open to others"));
    }
    let mut bytes = Vec::new();
    file.take(LARGEST + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > LARGEST {
        return Err(odd("the file is too long"));
    }
    let content: Content = serde_json::from_slice(&bytes)?;
    if content.version != 1 {
        return Err(odd("the file is of another version"));
    }
    Ok(Some(content))
}
