//! The lines of a client: one while few ask, a second while many do.
//!
//! All that is asked on one connection takes one thread at either end, and whoever is answered together asks together.
//! With a second connection both ends have work for two threads, and some are on the disk while others are on their way.

use std::sync::OnceLock;

use lease::Result;
use service::Convoy;

use super::address::Address;
use super::bearer::Bearer;
use super::dial::Dial;
use super::line::Line;
use crate::MESSAGE;
use crate::wire::leases_client::LeasesClient;

/// Questions on the first line before the second one is used.
const FEW: usize = 32;

/// The first line, which renewals and claims that wait stay on, and the one that is made when it is needed.
pub(super) struct Lines {
    pub(super) first: Line,
    second: OnceLock<Option<Line>>,
    dial: Dial,
    address: Address,
    bearer: Bearer,
}

impl Lines {
    pub(super) fn new(first: Line, dial: Dial, address: Address, bearer: Bearer) -> Self {
        Self { first, second: OnceLock::new(), dial, address, bearer }
    }

    /// The first line while few questions are under way on it, then the one with fewer.
    pub(super) fn quiet(&self) -> &Line {
        let asked = self.first.asked();
        if asked < FEW {
            return &self.first;
        }
        // One that cannot be made is none.
        match self.second.get_or_init(|| self.start().ok()) {
            Some(second) if second.asked() < asked => second,
            _ => &self.first,
        }
    }

    fn start(&self) -> Result<Line> {
        let convoy = Convoy::default();
        let channel = self.dial.channel_in(convoy.clone(), &self.address)?;
        let leases = LeasesClient::new(channel).max_decoding_message_size(MESSAGE);
        Ok(Line::start(leases, self.bearer.clone(), convoy))
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use futures_util::poll;

    use super::*;
    use crate::wire::ReleaseRequest;

    /// Lines to a server that never answers.
    fn lines(server: &TcpListener) -> Lines {
        let address = Address::parse(&format!("tenure://{}", server.local_addr().unwrap())).unwrap();
        let (dial, bearer) = (Dial::default(), Bearer::default());
        let convoy = Convoy::default();
        let leases = LeasesClient::new(dial.channel_in(convoy.clone(), &address).unwrap());
        let first = Line::start(leases, bearer.clone(), convoy);
        Lines::new(first, dial, address, bearer)
    }

    #[tokio::test]
    async fn a_few_questions_share_a_line_and_more_take_the_one_with_fewer() {
        let server = TcpListener::bind("127.0.0.1:0").unwrap();
        let lines = lines(&server);
        let mut asked = Vec::new();
        for _ in 0..FEW {
            assert!(std::ptr::eq(lines.quiet(), &lines.first), "{} are few", asked.len());
            asked.push(Box::pin(lines.first.release(ReleaseRequest::default())));
            assert!(poll!(asked.last_mut().unwrap()).is_pending());
        }
        let second = lines.quiet();
        assert!(!std::ptr::eq(second, &lines.first));
        let mut more = Vec::new();
        for _ in 0..FEW {
            assert!(std::ptr::eq(lines.quiet(), second));
            more.push(Box::pin(second.release(ReleaseRequest::default())));
            assert!(poll!(more.last_mut().unwrap()).is_pending());
        }
        assert!(std::ptr::eq(lines.quiet(), &lines.first), "as many as on the second");
        drop(asked);
        assert!(std::ptr::eq(lines.quiet(), &lines.first), "nobody asks on it any more");
    }

    #[tokio::test]
    async fn a_claim_that_waits_does_not_count() {
        let server = TcpListener::bind("127.0.0.1:0").unwrap();
        let lines = lines(&server);
        let mut waiting: Vec<_> = (0..FEW)
            .map(|_| Box::pin(lines.first.wait(lines.first.place().unwrap(), Default::default())))
            .collect();
        for claim in &mut waiting {
            assert!(poll!(claim).is_pending());
        }
        assert_eq!(lines.first.asked(), 0);
    }
}
