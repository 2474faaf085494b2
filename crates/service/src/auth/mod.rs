//! Authentication: bearer tokens, one-time login codes, console sessions, and the allowed origins of pages.
//!
//! No secret is stored: tokens, codes and session ids are compared by digest, in constant time.

mod code;
mod layer;
mod origin;
mod rate;
mod routes;
mod secret;
mod session;
mod session_file;
mod token;

use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::time::Duration;

use http::{HeaderMap, Method, header};
use parking_lot::Mutex;

use crate::caller::{Caller, Via};
use crate::clock::Clock;
use crate::code::Code;
use crate::config::Settings;
use crate::net::ClientAddress;
use crate::problem::Problem;
use crate::scope::Scopes;

pub use layer::{AuthLayer, AuthService, auth_layer};
pub(crate) use origin::base_url;
pub use rate::Buckets;
pub use routes::login_routes;
pub use token::{ADMIN, ApiToken, TOKEN_FILE, TokenError};

use code::Codes;
use origin::Origins;
use secret::Digest;
use session::{Session, Sessions};
use session_file::SessionFile;
use token::Tokens;

/// How long a login code is valid.
pub const LOGIN_CODE_LIFE: Duration = Duration::from_secs(10 * 60);
/// How long a console session lasts.
pub const SESSION_LIFE: Duration = Duration::from_secs(12 * 60 * 60);

/// Failed logins that an address may make at once, and then one per [`FAILURE_REFILL`].
const FAILURE_BURST: u32 = 10;
const FAILURE_REFILL: Duration = Duration::from_secs(6);
/// Invalid bearer tokens that an address may send at once, and then one per [`INVALID_TOKEN_REFILL`].
const INVALID_TOKEN_BURST: u32 = 60;
const INVALID_TOKEN_REFILL: Duration = Duration::from_secs(1);
/// The most addresses, callers and sessions in memory.
const MAX_ENTRIES: usize = 4_096;

/// Authenticates requests.
#[derive(Debug)]
pub struct Auth {
    tokens: Tokens,
    origins: Origins,
    cookie: String,
    url: String,
    secure: bool,
    clock: Clock,
    codes: Mutex<Codes>,
    sessions: Mutex<Sessions>,
    session_file: SessionFile,
    failures: Mutex<Buckets<IpAddr>>,
    invalid_tokens: Mutex<Buckets<IpAddr>>,
    rates: Option<Mutex<Buckets<String>>>,
}

/// The result of checking the credentials of a request.
#[derive(Clone, Debug)]
pub(crate) enum Verdict {
    /// No credentials of this process.
    Anonymous,
    /// A bearer token that is not valid.
    InvalidToken,
    /// Valid credentials.
    Authenticated(Caller),
    /// Valid credentials, used from an origin that is not allowed.
    Rejected(Problem),
}

impl Auth {
    /// For a server that listens on `address`. Tokens come from the settings; without any, one admin token is
    /// kept in the data directory, readable by its owner only.
    pub fn open(settings: &Settings, address: SocketAddr) -> Result<Self, TokenError> {
        Self::with_clock(settings, address, Clock::default())
    }

    /// The origins of pages that are allowed: the listener's own and those of the settings.
    pub fn origins(&self) -> Vec<String> {
        self.origins.list()
    }

    /// As [`Auth::open`], with another clock.
    pub fn with_clock(settings: &Settings, address: SocketAddr, clock: Clock) -> Result<Self, TokenError> {
        let tokens = if settings.api_tokens.is_empty() {
            let text = token::load_or_create(&settings.data_dir)?;
            Tokens::new([&ApiToken::new(ADMIN, &text, Scopes::all_admin())])
        } else {
            Tokens::new(&settings.api_tokens)
        };
        let secure = settings.tls.is_some();
        let limits = &settings.limits;
        let rates = (limits.rate_per_second > 0).then(|| {
            let refill = Duration::from_secs(1) / limits.rate_per_second;
            Mutex::new(Buckets::new(limits.rate_burst.max(1), refill, MAX_ENTRIES))
        });
        let session_file = SessionFile::new(&settings.data_dir);
        let sessions = Mutex::new(session_file.load(&tokens, &clock));
        Ok(Self {
            tokens,
            origins: Origins::new(address, secure, &settings.allowed_origins),
            cookie: format!("tenure_{}", address.port()),
            url: base_url(address, secure),
            secure,
            clock,
            codes: Mutex::new(Codes::new(64)),
            sessions,
            session_file,
            failures: Mutex::new(Buckets::new(FAILURE_BURST, FAILURE_REFILL, MAX_ENTRIES)),
            invalid_tokens: Mutex::new(Buckets::new(INVALID_TOKEN_BURST, INVALID_TOKEN_REFILL, MAX_ENTRIES)),
            rates,
        })
    }

    /// The admin token in a data directory, if there is one. Commands on the same machine use it.
    pub fn local_token(data_dir: &Path) -> Result<Option<String>, TokenError> {
        token::load(data_dir)
    }

    /// A code that logs a browser in once, as the administrator, within ten minutes.
    pub fn login_code(&self) -> String {
        self.login_code_for(&Caller::bearer(ADMIN, Scopes::all_admin()))
    }

    /// A code that logs a browser in once with the rights of `caller`.
    pub fn login_code_for(&self, caller: &Caller) -> String {
        let (code, digest) = secret::fresh();
        self.codes.lock().insert(digest, caller.name.clone(), caller.scopes, self.clock.now());
        code
    }

    /// The URL that logs a browser in with a code. The code is in the fragment, which reaches no server log.
    pub fn login_url(&self, code: &str) -> String {
        format!("{}/#login={code}", self.url)
    }

    /// Whether pages of this origin may read responses.
    pub fn allows_origin(&self, origin: &str) -> bool {
        self.origins.contains(origin)
    }

    /// Ends every console session and stores that. Blocks on the disk.
    pub fn revoke_sessions(&self) {
        self.sessions.lock().clear();
        self.save_sessions();
    }

    /// Stores the open sessions for the next start. Blocks on the disk.
    fn save_sessions(&self) {
        self.session_file.save(&self.sessions, &self.tokens, &self.clock);
    }

    /// Authenticates a request with these headers.
    pub(crate) fn authenticate(&self, method: &Method, headers: &HeaderMap) -> Verdict {
        if headers.contains_key(header::AUTHORIZATION) {
            // An invalid token does not fall back to a cookie: the explicit header decides.
            let Some(token) = bearer(headers) else { return Verdict::InvalidToken };
            return match self.tokens.find(&Digest::of(token)) {
                Some((name, scopes)) => Verdict::Authenticated(Caller::bearer(name, scopes)),
                // Meetings issue tokens of their own, which they check themselves.
                None if is_jwt(token) => Verdict::Anonymous,
                None => Verdict::InvalidToken,
            };
        }
        let Some(caller) = self.session(headers) else { return Verdict::Anonymous };
        match self.origins.check(method, headers) {
            Ok(()) => Verdict::Authenticated(caller),
            Err(problem) => Verdict::Rejected(problem),
        }
    }

    /// Counts an invalid bearer token of a client, and refuses it once the client has sent too many. A valid token is
    /// never refused for the failures of others behind the same address.
    pub(crate) fn reject_invalid_token(&self, client: ClientAddress) -> Result<(), Problem> {
        record_failure("bearer");
        let wait = self.invalid_tokens.lock().take(&client.rate_limit_key(), self.clock.now());
        wait.map_or(Ok(()), |wait| {
            Err(rate_limited("too many invalid tokens from this address".into(), wait))
        })
    }

    /// Counts one request against the rate limit of the caller.
    pub fn admit(&self, caller: &Caller) -> Result<(), Problem> {
        let Some(rates) = &self.rates else { return Ok(()) };
        let wait = rates.lock().take(&caller.name, self.clock.now());
        wait.map_or(Ok(()), |wait| {
            Err(rate_limited(format!("too many requests from `{}`", caller.name), wait))
        })
    }

    fn session(&self, headers: &HeaderMap) -> Option<Caller> {
        let now = self.clock.now();
        cookies(headers, &self.cookie).find_map(|id| {
            let digest = Digest::of(id);
            let (name, scopes) = self.sessions.lock().find(&digest, now)?;
            Some(Caller { name, scopes, via: Via::Cookie, session: Some(digest.bytes()) })
        })
    }
}

fn record_failure(via: &'static str) {
    metrics::counter!("tenure_auth_failures_total", "via" => via).increment(1);
}

fn rate_limited(detail: String, wait: Duration) -> Problem {
    let seconds = wait.as_millis().div_ceil(1_000).max(1) as u64;
    Problem::new(Code::RATE_LIMITED, detail).with("retryAfterSeconds", seconds)
}

/// The token of `Authorization: Bearer <token>`, if there is exactly one such header.
fn bearer(headers: &HeaderMap) -> Option<&str> {
    let mut values = headers.get_all(header::AUTHORIZATION).iter();
    let (first, None) = (values.next()?, values.next()) else { return None };
    let (scheme, token) = first.to_str().ok()?.split_once(' ')?;
    let token = token.trim();
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}

/// Whether a token has the form of a signed JWT.
fn is_jwt(token: &str) -> bool {
    token.split('.').count() == 3
}

/// The values of every cookie with this name.
fn cookies<'a>(headers: &'a HeaderMap, name: &'a str) -> impl Iterator<Item = &'a str> {
    headers
        .get_all(header::COOKIE)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(';'))
        .filter_map(move |pair| pair.trim().strip_prefix(name)?.strip_prefix('='))
}

#[cfg(test)]
mod tests;
