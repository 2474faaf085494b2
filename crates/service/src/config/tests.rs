//! Precedence, errors and the effective settings, over all sources.

use std::fs;
use std::path::PathBuf;

use super::*;

struct Fixture {
    dir: tempfile::TempDir,
    variables: Vec<(&'static str, &'static str)>,
    flags: Vec<(&'static str, &'static str, &'static str)>,
    specs: &'static [Spec],
}

fn fixture() -> Fixture {
    Fixture { dir: tempfile::tempdir().unwrap(), variables: vec![], flags: vec![], specs: &[] }
}

impl Fixture {
    fn file(self, text: &str) -> Self {
        fs::write(self.path(), text).unwrap();
        self
    }

    fn path(&self) -> PathBuf {
        self.dir.path().join("tenure.toml")
    }

    fn var(mut self, name: &'static str, value: &'static str) -> Self {
        self.variables.push((name, value));
        self
    }

    fn flag(mut self, flag: &'static str, setting: &'static str, value: &'static str) -> Self {
        self.flags.push((flag, setting, value));
        self
    }

    fn load(&self) -> Result<Config, ConfigError> {
        let environment: Environment = self.variables.iter().copied().collect();
        let loader = Loader::new(environment).default_file(self.path()).declare(self.specs);
        let loader = loader.variable_prefix("MC_", "meet").variable_prefix("MH_", "meet");
        self.flags
            .iter()
            .fold(loader, |loader, (flag, setting, value)| loader.flag(flag, setting, Some(*value)))
            .load()
    }

    fn settings(&self) -> Settings {
        self.load().unwrap().settings
    }

    fn error(&self) -> String {
        let text = self.load().unwrap_err().to_string();
        text.replace(&self.path().display().to_string(), "tenure.toml")
    }
}

#[test]
fn without_any_source_the_defaults_apply() {
    let settings = fixture().settings();
    assert_eq!(settings, Settings::default());
    assert_eq!(settings.listen.to_string(), "127.0.0.1:7400");
    assert_eq!(settings.data_dir, PathBuf::from("./tenure-data"));
    assert_eq!((settings.store, settings.tls, settings.insecure_http), (None, None, false));
    assert_eq!(settings.limits.max_connections, 4_096);
    assert_eq!(settings.limits.drain_timeout_ms, 10_000);
    assert_eq!(settings.log.filter, "info");
}

#[test]
fn flags_beat_variables_beat_the_file_beats_defaults() {
    let file = "listen = '127.0.0.1:1'\nstore = 'a'\ndata_dir = 'a'\n[limits]\nmax_watchers = 1";
    let fixture = fixture().file(file).var("TENURE_LISTEN", "127.0.0.1:2").var("TENURE_STORE", "b");
    let fixture =
        fixture.var("TENURE_LIMITS__MAX_CONNECTIONS", "7").flag("--listen", "listen", "127.0.0.1:3");
    let settings = fixture.settings();
    assert_eq!(settings.listen.port(), 3);
    assert_eq!(settings.store.as_deref(), Some("b"));
    assert_eq!(settings.data_dir, PathBuf::from("a"));
    assert_eq!((settings.limits.max_connections, settings.limits.max_watchers), (7, 1));
    assert_eq!(settings.limits.max_body_bytes, 2 << 20);
}

#[test]
fn every_own_setting_can_be_a_variable() {
    for spec in spec::OWN {
        let name = spec::variable(spec.section, spec.name);
        let loaded =
            Loader::new([(name.clone(), "?".to_owned())].into_iter().collect()).default_file("absent").load();
        if let Err(error) = loaded {
            assert!(!error.to_string().contains("unknown"), "{name}: {error}");
        }
    }
}

#[test]
fn an_unknown_setting_in_the_file_is_reported_with_its_position_and_the_nearest_name() {
    let error = fixture().file("listen = '127.0.0.1:1'\n\n[limits]\n  max_conections = 5\n").error();
    let start = "limits.max_conections (tenure.toml:4:3): unknown setting; did you mean `max_connections`? \
                 the section has max_connections, max_body_bytes, ";
    assert!(error.starts_with(start), "{error}");
    let error = fixture().file("listne = 'x'").error();
    assert!(error.contains("listne (tenure.toml:1:1)") && error.contains("`listen`"), "{error}");
    let error = fixture().file("[limit]\nmax_watchers = 1").error();
    assert!(error.contains("[limit] (tenure.toml:1:2): unknown section; did you mean `limits`?"), "{error}");
}

#[test]
fn an_unknown_variable_or_flag_is_reported_with_the_nearest_name() {
    let error = fixture().var("TENURE_LISTN", "x").error();
    assert!(error.contains("listn (variable TENURE_LISTN)") && error.contains("`TENURE_LISTEN`"), "{error}");
    let error = fixture().var("TENURE_LIMITS_MAX_CONNECTIONS", "1").error();
    assert!(error.contains("`TENURE_LIMITS__MAX_CONNECTIONS`"), "{error}");
    let error = fixture().var("TENURE_LIMIT__MAX_CONNECTIONS", "1").error();
    assert!(error.contains("`TENURE_LIMITS__MAX_CONNECTIONS`"), "{error}");
    let error = fixture().flag("--lissen", "lissen", "x").error();
    assert!(error.contains("flag --lissen") && error.contains("`listen`"), "{error}");
}

#[test]
fn an_invalid_value_is_reported_with_what_is_allowed() {
    for (file, words) in [
        ("listen = 7400", "listen (tenure.toml:1:1): invalid value 7400; must be an address and a port"),
        ("listen = 'here'", "invalid value \"here\""),
        ("only = ['lease', 'leas']", "must be a list of lease, sessions, control, poll, meet"),
        ("insecure_http = 'yes'", "must be true or false"),
        (
            "[limits]\nmax_connections = 0",
            "limits.max_connections (tenure.toml:2:1): invalid value 0; must be a whole number from 1 to 1000000",
        ),
        ("[limits]\nmax_connections = 1.5", "invalid value 1.5"),
        ("[limits]\nmax_connections = 99999999999999999999", "too large"),
        ("[log]\nformat = 'xml'", "must be one of text, json"),
        ("allowed_origins = ['https://a.example/']", "a list of origins"),
        ("limits = 3", "limits (tenure.toml:1:1): unknown setting"),
        ("listen =", "configuration file (tenure.toml:1:9)"),
    ] {
        let error = fixture().file(file).error();
        assert!(error.contains(words), "{file}: {error}");
    }
    let error = fixture().var("TENURE_LIMITS__MAX_CONNECTIONS", "many").error();
    assert!(error.contains("(variable TENURE_LIMITS__MAX_CONNECTIONS): invalid value \"many\""), "{error}");
    let error = fixture().flag("--listen", "listen", "7400").error();
    assert!(error.contains("(flag --listen): invalid value \"7400\""), "{error}");
}

#[test]
fn all_errors_are_reported_at_once() {
    let fixture = fixture().file("listne = 1\nlisten = 2").var("TENURE_STOER", "x");
    assert_eq!(fixture.load().unwrap_err().faults.len(), 3);
}

#[test]
fn a_reachable_address_needs_tls_or_insecure_http() {
    let open = || fixture().flag("--listen", "listen", "0.0.0.0:7400");
    let error = open().error();
    for words in
        ["listen (flag --listen): 0.0.0.0:7400", "[tls] cert and key", "insecure_http = true", "127.0.0.1"]
    {
        assert!(error.contains(words), "{error}");
    }
    assert!(open().var("TENURE_INSECURE_HTTP", "true").settings().insecure_http);
    let secured = open().var("TENURE_TLS__CERT", "c.pem").var("TENURE_TLS__KEY", "k.pem").settings();
    assert_eq!(secured.tls, Some(Tls { cert: "c.pem".into(), key: "k.pem".into() }));
    for loopback in ["127.0.0.2:1", "[::1]:1", "localhost:1"] {
        assert!(fixture().flag("--listen", "listen", loopback).load().is_ok(), "{loopback}");
    }
}

#[test]
fn a_certificate_needs_its_key() {
    let error = fixture().file("[tls]\ncert = 'c.pem'").error();
    assert!(error.contains("tls.cert (tenure.toml:2:1): [tls] also needs `key`"), "{error}");
}

#[test]
fn tokens_come_from_their_variable_and_no_message_shows_them() {
    let settings = fixture().var("TENURE_API_TOKENS", "tok1=lease:read,lease:write;tok2=v3:admin").settings();
    let names: Vec<_> =
        settings.api_tokens.iter().map(|token| (token.name(), token.scopes().to_string())).collect();
    assert_eq!(names, [("token-1", "lease:write".to_owned()), ("token-2", "v3:admin".to_owned())]);
    let error = fixture().var("TENURE_API_TOKENS", "hunter2=lease:reed").error();
    assert!(
        error.contains("api_tokens (variable TENURE_API_TOKENS): token 1: invalid scope `lease:reed`"),
        "{error}"
    );
    assert!(!error.contains("hunter2"), "{error}");
}

#[test]
fn variables_of_the_client_and_of_tenure_run_are_not_settings() {
    let names = ["TENURE_URL", "TENURE_TOKEN", "TENURE_KEY", "TENURE_GENERATION", "TENURE_HOLDER"];
    let fixture = names.into_iter().fold(fixture(), |fixture, name| fixture.var(name, "x"));
    assert_eq!(fixture.settings(), Settings::default());
}

#[test]
fn an_empty_variable_is_not_set() {
    assert_eq!(fixture().var("TENURE_STORE", "").var("TENURE_LISTEN", "").settings(), Settings::default());
}

#[test]
fn service_sections_are_kept_and_old_variables_set_them() {
    let fixture = fixture().file("[sessions]\nreceiver_url = 'http://r'\nidem_secret = 'file'");
    let fixture =
        fixture.var("XG2G_IDEM_SECRET", "old").var("MC_MAX_MEETINGS", "5").var("XG2G_TUNER_SLOTS", "0-3");
    let fixture = fixture.var("TENURE_SESSIONS__TUNER_SLOTS", "0,1");
    let sections = fixture.settings().sections;
    assert_eq!(sections["sessions"]["receiver_url"].as_str(), Some("http://r"));
    assert_eq!(sections["sessions"]["idem_secret"].as_str(), Some("old"));
    assert_eq!(sections["sessions"]["tuner_slots"].as_str(), Some("0,1"));
    assert_eq!(sections["meet"]["max_meetings"].as_str(), Some("5"));
    let shown = fixture.load().unwrap().effective();
    assert!(shown.contains("idem_secret = \"(hidden)\"") && !shown.contains("\"old\""), "{shown}");
}

#[test]
fn of_two_prefixes_the_later_one_wins_and_unknown_names_are_ignored() {
    const MEET: &[Spec] = &[
        Spec::new("meet", "zone", Kind::Text).or("a"),
        Spec::new("meet", "grpc_url", Kind::Text).also(&["MC_GRPC_ADDRESS"]),
    ];
    let mut fixture = fixture().var("MH_ZONE", "handlers").var("MC_ZONE", "controllers");
    fixture = fixture.var("MH_COLOR", "red").var("MC_GRPC_ADDRESS", "http://g");
    fixture.specs = MEET;
    let meet = &fixture.settings().sections["meet"];
    assert_eq!((meet["zone"].as_str(), meet["grpc_url"].as_str()), (Some("handlers"), Some("http://g")));
    assert_eq!(
        fixture.var("TENURE_MEET__ZONE", "own").settings().sections["meet"]["zone"].as_str(),
        Some("own")
    );
}

#[test]
fn a_declared_section_is_checked_like_our_own() {
    const POLL: &[Spec] = &[
        Spec::new("poll", "lease_ttl_ms", Kind::Integer { least: 1, most: 100_000 }).or("15000"),
        Spec::new("poll", "placement", Kind::Word(&["hash", "even"])),
    ];
    let mut fixture = fixture().var("TENURE_POLL__LEASE_TTL_MS", "20000");
    fixture.specs = POLL;
    assert_eq!(fixture.settings().sections["poll"]["lease_ttl_ms"].as_integer(), Some(20_000));
    let fixture = fixture.file("[poll]\nplacment = 'hash'");
    assert!(fixture.error().contains("did you mean `placement`?"), "{}", fixture.error());
}

#[test]
fn a_setting_may_have_an_older_variable_of_another_name() {
    const SESSIONS: &[Spec] = &[
        Spec::new("sessions", "api_leases", Kind::Boolean).or("false").also(&["XG2G_V3_API_LEASES"]),
        Spec::new("sessions", "profiles", Kind::Pairs),
        Spec::new("sessions", "channels", Kind::Tables),
    ];
    let file = "[sessions]\nchannels = [{ name = 'One' }]\n[sessions.profiles]\nlow = '-c copy'";
    let mut fixture = fixture().file(file).var("XG2G_V3_API_LEASES", "true").var("XG2G_HOSTNAME", "x");
    fixture.specs = SESSIONS;
    let section = fixture.settings().sections["sessions"].clone();
    assert_eq!(section["api_leases"].as_bool(), Some(true));
    assert_eq!(section["profiles"]["low"].as_str(), Some("-c copy"));
    assert_eq!(section["channels"][0]["name"].as_str(), Some("One"));
    let ours = fixture.var("TENURE_SESSIONS__API_LEASES", "false");
    assert_eq!(ours.settings().sections["sessions"]["api_leases"].as_bool(), Some(false));
    let error = ours.var("TENURE_SESSIONS__CHANNELS", "One").error();
    assert!(error.contains("must be a list of tables in the file"), "{error}");
}

#[test]
fn a_named_file_must_exist() {
    let loader = || Loader::new(Environment::default()).default_file("absent.toml");
    assert!(loader().load().is_ok());
    let error = loader().file(Some("absent.toml".into())).load().unwrap_err().to_string();
    assert!(error.starts_with("configuration file (flag --config): cannot read absent.toml"), "{error}");
    let environment: Environment = [("TENURE_CONFIG", "absent.toml")].into_iter().collect();
    let error = Loader::new(environment).load().unwrap_err().to_string();
    assert!(error.starts_with("configuration file (variable TENURE_CONFIG)"), "{error}");
}

#[test]
fn the_effective_settings_name_their_sources_and_can_be_read_back() {
    let fixture = fixture().file("store = 'redis://:pw@h/0'").var("TENURE_LOG__FORMAT", "json");
    let fixture = fixture.flag("--data-dir", "data_dir", "d");
    let config = fixture.load().unwrap();
    let text = config.effective().replace(&fixture.path().display().to_string(), "tenure.toml");
    let line = |start: &str| text.lines().find(|line| line.starts_with(start)).unwrap_or_default().to_owned();
    assert!(
        line("store").contains("\"redis://:(hidden)@h/0\"") && line("store").ends_with("# tenure.toml:1:1"),
        "{text}"
    );
    assert!(line("format").ends_with("# variable TENURE_LOG__FORMAT"), "{text}");
    assert!(line("data_dir").ends_with("# flag --data-dir"), "{text}");
    assert!(line("listen").ends_with("# default"), "{text}");
    assert!(text.contains("# api_tokens is not set"), "{text}");
    let again = Fixture { dir: tempfile::tempdir().unwrap(), variables: vec![], flags: vec![], specs: &[] }
        .file(&text);
    let (mut first, second) = (config.settings, again.settings());
    first.store = second.store.clone();
    assert_eq!(first, second);
}

#[test]
fn kubernetes_service_variables_are_ignored_and_other_unknown_variables_are_not() {
    let linked = fixture().var("TENURE_PORT", "tcp://10.0.0.1:7400").var("TENURE_SERVICE_HOST", "10.0.0.1");
    assert_eq!(linked.load().unwrap().ignored(), ["TENURE_PORT", "TENURE_SERVICE_HOST"]);
    let error = fixture().var("TENURE_PORT", "7400").error();
    assert!(error.contains("TENURE_PORT"), "{error}");
}

#[test]
fn no_debug_output_shows_a_secret() {
    let variables = [
        ("TENURE_API_TOKENS", "hunter2-token=lease:read"),
        ("TENURE_SEAL_KEY", "hunter2-seal-key-0123456789abcdef0123456789abcdef"),
        ("TENURE_STORE", "redis://user:hunter2@host:1/0"),
        ("TENURE_SESSIONS__IDEM_SECRET", "hunter2-idem"),
    ];
    let loader = Loader::new(variables.into_iter().collect()).default_file("/nonexistent/tenure.toml");
    assert!(!format!("{loader:?}").contains("hunter2"));
    let config = loader.load().unwrap();
    let shown = format!("{config:?} {:?}", config.settings);
    assert!(!shown.contains("hunter2"), "{shown}");
}
