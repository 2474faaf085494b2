//! Errors in settings, with what to do about them.

use std::fmt;

use super::source::Source;

/// All errors in the settings.
#[derive(Clone, Debug, PartialEq)]
pub struct ConfigError {
    /// The errors; at least one.
    pub faults: Vec<Fault>,
}

/// One error.
#[derive(Clone, Debug, PartialEq)]
pub struct Fault {
    /// The setting, such as `limits.max_connections`, or the configuration file.
    pub setting: String,
    /// Where it was set.
    pub source: Source,
    /// What is wrong and what is allowed.
    pub message: String,
}

impl Fault {
    pub(super) fn new(setting: impl Into<String>, source: &Source, message: impl Into<String>) -> Self {
        Self { setting: setting.into(), source: source.clone(), message: message.into() }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.source {
            Source::Default => write!(f, "{}: {}", self.setting, self.message),
            source => write!(f, "{} ({source}): {}", self.setting, self.message),
        }
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, fault) in self.faults.iter().enumerate() {
            write!(f, "{}{fault}", if index == 0 { "" } else { "\n" })?;
        }
        Ok(())
    }
}

impl std::error::Error for ConfigError {}

/// The candidate nearest to `word`, if one is near enough.
pub(super) fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let enough = word.chars().count() / 3 + 1;
    let scored = candidates.into_iter().map(|candidate| (distance(word, candidate), candidate));
    scored.filter(|(distance, _)| *distance <= enough).min_by_key(|(distance, _)| *distance).map(|(_, c)| c)
}

/// The edit distance: how many letters to insert, delete or replace.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, letter) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, other) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(letter != *other);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_word_is_suggested_and_a_far_one_is_not() {
        let words = ["listen", "store", "data_dir"];
        assert_eq!(nearest("listn", words), Some("listen"));
        assert_eq!(nearest("data-dir", words), Some("data_dir"));
        assert_eq!(nearest("Store", words), Some("store"));
        assert_eq!(nearest("colour", words), None);
        assert_eq!(distance("kitten", "sitting"), 3);
    }
}
