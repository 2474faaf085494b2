//! The environment of the process. No other code reads it.

use std::collections::BTreeMap;
use std::fmt;

/// What a child process needs of the environment: where programs and libraries are, locale, time zone and devices. All
/// else may be a secret of this process.
const FOR_CHILDREN: [&str; 11] = [
    "CUDA_VISIBLE_DEVICES",
    "HOME",
    "LANG",
    "LC_ALL",
    "LD_LIBRARY_PATH",
    "LIBVA_DRIVERS_PATH",
    "LIBVA_DRIVER_NAME",
    "NVIDIA_VISIBLE_DEVICES",
    "PATH",
    "TMPDIR",
    "TZ",
];

/// A snapshot of the environment.
#[derive(Clone, Default)]
pub struct Environment(BTreeMap<String, String>);

impl Environment {
    /// The variables of this process. Invalid UTF-8 becomes replacement characters, so that a wrong value is reported.
    pub fn process() -> Self {
        let text = |text: std::ffi::OsString| text.to_string_lossy().into_owned();
        Self(std::env::vars_os().map(|(name, value)| (text(name), text(value))).collect())
    }

    /// The value of a variable. An empty one counts as not set.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }

    /// The variables that a child process which is not the user's own command may see.
    pub fn for_children(&self) -> impl Iterator<Item = (&'static str, &str)> {
        FOR_CHILDREN.into_iter().filter_map(|name| Some((name, self.get(name)?)))
    }

    /// Every variable that is not empty.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        let pairs = self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        pairs.filter(|(_, value)| !value.is_empty())
    }
}

impl<N: Into<String>, V: Into<String>> FromIterator<(N, V)> for Environment {
    fn from_iter<I: IntoIterator<Item = (N, V)>>(variables: I) -> Self {
        Self(variables.into_iter().map(|(name, value)| (name.into(), value.into())).collect())
    }
}

/// Shows names only: values may be secrets.
impl fmt::Debug for Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn children_see_paths_and_locale_and_no_secret() {
        let environment: Environment =
            [("PATH", "/bin"), ("TENURE_API_TOKENS", "hush"), ("XG2G_IDEM_SECRET", "hush"), ("LANG", "C")]
                .into_iter()
                .collect();
        let seen: Vec<_> = environment.for_children().collect();
        assert_eq!(seen, [("LANG", "C"), ("PATH", "/bin")]);
    }
}
