//! The file with console sessions in the data directory, which only its owner can access.
//!
//! It holds digests, so a reader cannot take over a session. A session is bound to the token that it was opened with: it
//! is not restored when that token was removed, replaced or given fewer scopes.

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
use super::{MAX_ENTRIES, SESSION_LIFE};
use crate::clock::Clock;
use crate::scope::{Scope, Scopes};

/// The file below the data directory.
const SESSIONS_FILE: &str = "sessions";
/// The most bytes read; a full file has about half of it.
const MAX_BYTES: u64 = (MAX_ENTRIES * 1_024) as u64;

/// The file, and a lock for writing it.
#[derive(Debug)]
pub(super) struct SessionFile {
    dir: PathBuf,
    /// Held from reading the sessions to the rename, so that an older state never replaces a newer one.
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
    /// Distinguishes that token from another of the same name.
    mark: String,
}

impl SessionFile {
    pub(super) fn new(dir: &Path) -> Self {
        Self { dir: dir.to_owned(), writing: Mutex::new(()) }
    }

    /// The sessions that are still valid. An unusable file is reported, and users sign in again.
    pub(super) fn load(&self, tokens: &Tokens, clock: &Clock) -> Sessions {
        let path = self.path();
        let mut sessions = Sessions::new(MAX_ENTRIES);
        let content = match read_file(&path) {
            Ok(Some(content)) => content,
            Ok(None) => return sessions,
            Err(error) => {
                tracing::warn!(path = %path.display(), %error, "cannot load the console sessions; users must sign in again");
                return sessions;
            }
        };
        let (now, wall) = (clock.now(), clock.wall());
        let restored = content.sessions.iter().filter_map(|entry| entry.restore(tokens, now, wall));
        for (digest, session) in restored.take(MAX_ENTRIES) {
            sessions.insert(digest, session, now);
        }
        sessions
    }

    /// Stores the open sessions. If that fails, the file is removed, so that no ended session comes back.
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
        tracing::error!(path = %path.display(), %error, removed = gone.is_ok(), "cannot store the console sessions");
    }

    fn write(&self, content: &Content) -> io::Result<()> {
        fs::create_dir_all(&self.dir)?;
        // One name, so that crashes leave at most one draft, which the next write replaces.
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
    /// None for a session whose token is not in the settings: the next start could not check it.
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

    fn restore(&self, tokens: &Tokens, now: Duration, wall: Duration) -> Option<(Digest, Session)> {
        let digest = Digest::from_hex(&self.session)?;
        // A clock that was set back must not extend a session beyond the maximum.
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

/// The content of the file; none if it does not exist.
fn read_file(path: &Path) -> io::Result<Option<Content>> {
    let file = match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened?,
    };
    let invalid = |why: &str| io::Error::new(io::ErrorKind::InvalidData, why.to_owned());
    if file.metadata()?.permissions().mode() & 0o077 != 0 {
        // Another user could have added a session.
        return Err(invalid("the file is accessible to other users"));
    }
    let mut bytes = Vec::new();
    file.take(MAX_BYTES + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(invalid("the file is too long"));
    }
    let content: Content = serde_json::from_slice(&bytes)?;
    if content.version != 1 {
        return Err(invalid("unknown file version"));
    }
    Ok(Some(content))
}
