//! Bearer tokens: those of the settings, and the one kept in the data directory.

use std::fs;
use std::io::{self, Read, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use super::secret::{self, Digest};
use crate::scope::Scopes;

/// The name of the generated token.
pub const ADMIN: &str = "admin";
/// Where the generated token is kept, below the data directory.
pub const TOKEN_FILE: &str = "token";

/// A token of the settings. Holds the digest, never the text.
#[derive(Clone, Debug, PartialEq)]
pub struct ApiToken {
    name: String,
    digest: [u8; 32],
    scopes: Scopes,
}

/// The token file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    /// The file cannot be read or written.
    #[error("cannot {what} the token file {}", path.display())]
    Io {
        /// What was tried.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// Why it failed.
        source: io::Error,
    },
    /// The file does not hold a token.
    #[error("{} does not contain a token; delete it, and the next start creates a new one", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
    },
}

/// Every token that is accepted.
#[derive(Debug)]
pub(super) struct Tokens(Vec<ApiToken>);

impl ApiToken {
    /// The token `text`, shown as `name` in logs.
    pub fn new(name: impl Into<String>, text: &str, scopes: Scopes) -> Self {
        Self { name: name.into(), digest: Digest::of(text).bytes(), scopes }
    }

    /// A token of which only the SHA-256 is known, as 64 hex digits.
    pub fn from_sha256(name: impl Into<String>, hex: &str, scopes: Scopes) -> Option<Self> {
        Some(Self { name: name.into(), digest: Digest::from_hex(hex)?.bytes(), scopes })
    }

    /// The label.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What the token may do.
    pub fn scopes(&self) -> Scopes {
        self.scopes
    }

    /// Distinguishes this token from another of the same name without revealing it or its digest.
    pub(super) fn mark(&self) -> String {
        Digest::of(&format!("console session of {}", Digest::from_bytes(self.digest).hex())).hex()
    }

    /// Whether both are the same token, regardless of their names.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        self.digest == other.digest
    }
}

impl Tokens {
    pub(super) fn new<'a>(tokens: impl IntoIterator<Item = &'a ApiToken>) -> Self {
        Self(tokens.into_iter().cloned().collect())
    }

    /// The token of this name; no two have the same.
    pub(super) fn named(&self, name: &str) -> Option<&ApiToken> {
        self.0.iter().find(|token| token.name == name)
    }

    /// The name and scopes of the token with this digest. Compares all tokens, so that the duration reveals nothing.
    pub(super) fn find(&self, digest: &Digest) -> Option<(String, Scopes)> {
        let found = self.0.iter().fold(None, |found, token| {
            let equal = bool::from(Digest::from_bytes(token.digest).matches(digest));
            if equal { Some(token) } else { found }
        });
        found.map(|token| (token.name.clone(), token.scopes))
    }
}

/// The token in `dir`, created if there is none.
pub(super) fn load_or_create(dir: &Path) -> Result<String, TokenError> {
    if let Some(token) = load(dir)? {
        return Ok(token);
    }
    let path = dir.join(TOKEN_FILE);
    let failed = |what| {
        let path = path.clone();
        move |source| TokenError::Io { what, path, source }
    };
    fs::create_dir_all(dir).map_err(failed("create the directory of"))?;
    let token = secret::fresh().0;
    // Written to a draft and linked into place: no reader sees half a token, and of two processes one wins.
    let draft = dir.join(format!(".{TOKEN_FILE}.{:016x}", rand::random::<u64>()));
    let mut file = fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&draft)
        .map_err(failed("write"))?;
    let written = writeln!(file, "{token}").and_then(|()| file.sync_all());
    let placed = written.and_then(|()| fs::hard_link(&draft, &path));
    fs::remove_file(&draft).map_err(failed("write"))?;
    match placed {
        Ok(()) => Ok(token),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            load(dir)?.ok_or(TokenError::Malformed { path })
        }
        Err(error) => Err(failed("write")(error)),
    }
}

/// The token in `dir`, if there is one. Restricts the file to its owner if other users can access it.
pub(super) fn load(dir: &Path) -> Result<Option<String>, TokenError> {
    let path = dir.join(TOKEN_FILE);
    let read = || -> io::Result<String> {
        let file = fs::File::open(&path)?;
        let mut permissions = file.metadata()?.permissions();
        if permissions.mode() & 0o077 != 0 {
            tracing::warn!(path = %path.display(), "the token file was accessible to other users; setting mode 0600");
            permissions.set_mode(0o600);
            file.set_permissions(permissions)?;
        }
        let mut text = String::new();
        file.take(1_024).read_to_string(&mut text)?;
        Ok(text)
    };
    match read() {
        Ok(text) => {
            let token = text.trim();
            let fits = token.len() >= 16 && token.chars().all(|c| c.is_ascii_graphic());
            if fits { Ok(Some(token.to_owned())) } else { Err(TokenError::Malformed { path }) }
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(TokenError::Io { what: "read", path, source }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_token_is_created_once_and_only_its_owner_can_read_it() {
        let dir = tempfile::tempdir().unwrap();
        let data = dir.path().join("a/b");
        assert_eq!(load(&data).unwrap(), None);
        let token = load_or_create(&data).unwrap();
        assert_eq!(load_or_create(&data).unwrap(), token);
        let mode = fs::metadata(data.join(TOKEN_FILE)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert_eq!(fs::read_dir(&data).unwrap().count(), 1, "no draft is left behind");
    }

    #[test]
    fn a_token_file_that_others_can_read_is_restricted() {
        let dir = tempfile::tempdir().unwrap();
        let token = load_or_create(dir.path()).unwrap();
        let path = dir.path().join(TOKEN_FILE);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        assert_eq!(load(dir.path()).unwrap(), Some(token));
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn a_damaged_token_file_is_an_error_and_never_an_empty_token() {
        let dir = tempfile::tempdir().unwrap();
        for damage in ["", "\n", "short", "with a space inside of it"] {
            fs::write(dir.path().join(TOKEN_FILE), damage).unwrap();
            assert!(matches!(load_or_create(dir.path()), Err(TokenError::Malformed { .. })), "{damage:?}");
        }
    }

    #[test]
    fn tokens_are_found_by_digest() {
        let read: Scopes = ["lease:read".parse().unwrap()].into_iter().collect();
        let hex = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824";
        let tokens = [
            ApiToken::new("one", "secret-1", Scopes::all_admin()),
            ApiToken::from_sha256("two", hex, read).unwrap(),
        ];
        let tokens = Tokens::new(&tokens);
        assert_eq!(tokens.find(&Digest::of("secret-1")), Some(("one".into(), Scopes::all_admin())));
        assert_eq!(tokens.find(&Digest::of("hello")), Some(("two".into(), read)));
        assert_eq!(tokens.find(&Digest::of("secret-")), None);
    }
}
