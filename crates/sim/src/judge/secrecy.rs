//! I8: tokens never show.

use super::{Invariant, Violation};

/// I8: no token is part of anything that was written for people: logs, debug output, errors, histories.
pub fn no_token_shows<'t>(tokens: impl IntoIterator<Item = &'t str>, output: &str) -> Vec<Violation> {
    let shown = tokens.into_iter().filter(|token| output.contains(token));
    // The token itself is not repeated here, or this text would be the next leak.
    shown
        .map(|token| {
            let at = output.find(token).unwrap_or(0);
            let from = output[..at].char_indices().rev().nth(60).map_or(0, |(i, _)| i);
            let text = format!("a token shows after {:?}", &output[from..at]);
            Violation::new(Invariant::NoTokenShows, 0, text)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_without_tokens_is_good() {
        assert_eq!(no_token_shows(["secret"], "Token(hidden) acquired k"), []);
    }

    #[test]
    fn a_token_in_the_output_is_found_and_not_repeated() {
        let found = no_token_shows(["secret", "other"], "acquired k with secret today");
        assert_eq!(found.len(), 1);
        assert!(!found[0].text.contains("secret"), "{}", found[0]);
    }
}
