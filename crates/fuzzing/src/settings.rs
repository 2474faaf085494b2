//! The configuration file, and API tokens in a variable.

use tenure_service::config::{Environment, Loader};

fn load(text: &str) -> Result<tenure_service::config::Config, tenure_service::config::ConfigError> {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let path = folder.path().join("tenure.toml");
    std::fs::write(&path, text).expect("a file is written");
    let nothing: [(&str, &str); 0] = [];
    Loader::new(Environment::from_iter(nothing)).default_file(path).load()
}

/// A file is accepted, or refused with a message for every error. The printed configuration parses to the same settings.
pub(crate) fn settings(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    match load(text) {
        Ok(config) => {
            let shown = config.effective();
            // Secrets are hidden, so a file with secrets does not round-trip.
            if !shown.contains("(hidden)") {
                let again = load(&shown).unwrap_or_else(|error| panic!("{error}\n{shown}"));
                assert_eq!(again.settings, config.settings, "{shown}");
            }
        }
        Err(error) => {
            assert!(!error.faults.is_empty());
            assert!(!error.to_string().is_empty());
        }
    }
}

/// Tokens are parsed or refused, and no message contains one.
pub(crate) fn tokens(data: &[u8]) {
    const SECRET: &str = "hunter2-e2c1b9d4";
    let Ok(text) = std::str::from_utf8(data) else { return };
    for given in [text.to_owned(), format!("{SECRET}={text}"), format!("{text};{SECRET}=lease:read,{text}")] {
        let variables = [("TENURE_API_TOKENS", given.replace('\0', ""))];
        let loader = Loader::new(Environment::from_iter(variables)).default_file("/nonexistent/tenure.toml");
        match loader.load() {
            Ok(config) => {
                let shown = config.effective();
                assert!(!shown.contains(SECRET) && !format!("{config:?}").contains(SECRET), "{shown}");
            }
            Err(error) => assert!(!error.to_string().contains(SECRET), "{error}"),
        }
    }
}
