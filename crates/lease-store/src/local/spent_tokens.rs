//! Tokens that a key refuses for a while, oldest first.

use std::collections::{HashMap, VecDeque};

use tenure_lease::Tick;

/// The first half of a token's digest.
pub(crate) type ShortDigest = [u8; 16];

/// Tokens and until when each of them is refused. A busy key has thousands, so a lookup does not search the queue.
#[derive(Debug, Default)]
pub(crate) struct SpentTokens {
    order: VecDeque<(ShortDigest, Tick)>,
    ends: HashMap<ShortDigest, Tick>,
}

impl SpentTokens {
    pub(crate) fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.order.len()
    }

    pub(crate) fn contains(&self, token: &ShortDigest, now: Tick) -> bool {
        self.ends.get(token).is_some_and(|until| now < *until)
    }

    /// When the last token is no longer refused.
    pub(crate) fn last_end(&self) -> Option<Tick> {
        self.order.back().map(|(_, until)| *until)
    }

    /// Adds a token that ends after all others.
    pub(crate) fn push(&mut self, token: ShortDigest, until: Tick) {
        if self.ends.insert(token, until).is_some() {
            self.order.retain(|(other, _)| *other != token);
        }
        self.order.push_back((token, until));
    }

    /// Removes a token that is refused until then. Returns whether it was there.
    pub(crate) fn remove(&mut self, token: &ShortDigest, until: Tick) -> bool {
        if self.ends.get(token) != Some(&until) {
            return false;
        }
        self.ends.remove(token);
        self.order.retain(|(other, _)| other != token);
        self.release_memory();
        true
    }

    /// Removes the oldest token if its time is over.
    pub(crate) fn pop_expired(&mut self, now: Tick) -> Option<ShortDigest> {
        self.order.front().is_some_and(|(_, until)| *until <= now).then(|| self.pop())?
    }

    /// Removes the oldest token.
    pub(crate) fn pop(&mut self) -> Option<ShortDigest> {
        let (token, _) = self.order.pop_front()?;
        self.ends.remove(&token);
        self.release_memory();
        Some(token)
    }

    /// A key that was busy once does not keep the memory.
    fn release_memory(&mut self) {
        if self.order.is_empty() {
            *self = Self::default();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tick(n: u64) -> Tick {
        Tick::from_nanos(n)
    }

    #[test]
    fn a_token_is_refused_until_its_time_is_over() {
        let mut tokens = SpentTokens::default();
        tokens.push([1; 16], tick(10));
        tokens.push([2; 16], tick(20));
        assert!(tokens.contains(&[1; 16], tick(9)) && !tokens.contains(&[1; 16], tick(10)));
        assert_eq!((tokens.pop_expired(tick(9)), tokens.pop_expired(tick(10))), (None, Some([1; 16])));
        assert_eq!(
            (tokens.pop_expired(tick(10)), tokens.len(), tokens.last_end()),
            (None, 1, Some(tick(20)))
        );
    }

    #[test]
    fn a_token_is_removed_only_under_its_own_time() {
        let mut tokens = SpentTokens::default();
        tokens.push([1; 16], tick(10));
        tokens.push([2; 16], tick(20));
        assert!(!tokens.remove(&[1; 16], tick(20)) && tokens.remove(&[1; 16], tick(10)));
        assert!(!tokens.contains(&[1; 16], tick(0)) && tokens.contains(&[2; 16], tick(0)));
        assert!(tokens.remove(&[2; 16], tick(20)) && tokens.is_empty());
    }

    #[test]
    fn a_token_that_is_added_again_is_kept_once_and_longer() {
        let mut tokens = SpentTokens::default();
        tokens.push([1; 16], tick(10));
        tokens.push([2; 16], tick(20));
        tokens.push([1; 16], tick(30));
        assert_eq!((tokens.pop(), tokens.len()), (Some([2; 16]), 1));
        assert!(tokens.contains(&[1; 16], tick(29)));
    }
}
