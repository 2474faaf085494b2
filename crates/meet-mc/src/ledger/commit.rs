//! One write: fenced, marked with who writes, and pursued until it is known.

use std::sync::Arc;
use std::time::Duration;

use lease::{Clock, Committed, Error, Generation, Happened, Key, Mode, Op, Record, Revision};

use crate::breaker::TIMEOUT;
use crate::ledger::{Desk, Ledger, LedgerError, refused};
use crate::metric;

/// How long to wait before a write in doubt is looked at again.
const PAUSE: Duration = Duration::from_millis(100);
/// How long a write may be in doubt; then the meeting is given up, since nobody knows what it says.
const DOUBT: Duration = Duration::from_secs(15);
/// How often two records that say what they should, under a revision that is not known, are taken as they are.
const SURPRISES: u32 = 3;

/// What the store said.
enum Said<T> {
    /// This.
    Answer(T),
    /// That it cannot, or that it is not there: nothing happened.
    No(String),
    /// Nothing: it may have happened.
    Nothing,
    /// That it will not, ever.
    Never(String),
}

/// Asks the store and tells the breaker how that went.
async fn ask<T>(
    desk: &Desk,
    clock: &Arc<dyn Clock>,
    question: impl Future<Output = lease::Result<T>>,
) -> Said<T> {
    let began = clock.now();
    let said = tokio::select! {
        answer = question => match answer {
            Ok(answer) => Said::Answer(answer),
            Err(error @ (Error::Invalid { .. } | Error::Refused(_))) => Said::Never(error.to_string()),
            Err(error) if error.happened() == Happened::No => Said::No(error.to_string()),
            Err(_) => Said::Nothing,
        },
        () = clock.sleep_until(began + TIMEOUT) => Said::Nothing,
    };
    let now = clock.now();
    metric::asked(now.since(began));
    match &said {
        Said::Answer(_) | Said::Never(_) => desk.breaker.lock().succeeded(),
        Said::No(_) | Said::Nothing => desk.breaker.lock().failed(now),
    }
    said
}

/// Asks for something that can be asked again without harm.
pub(super) async fn read<T>(
    desk: &Desk,
    clock: &Arc<dyn Clock>,
    question: impl Future<Output = lease::Result<T>>,
) -> Result<T, LedgerError> {
    let now = clock.now();
    if !desk.breaker.lock().allows(now) {
        return Err(LedgerError::Unavailable("the breaker is open".to_owned()));
    }
    match ask(desk, clock, question).await {
        Said::Answer(answer) => Ok(answer),
        Said::No(why) => Err(LedgerError::Unavailable(why)),
        Said::Nothing => Err(LedgerError::Unavailable("no answer".to_owned())),
        Said::Never(why) => Err(LedgerError::Refused(why)),
    }
}

/// The two records that operators see.
pub(super) struct Signs {
    pub(super) generation: Option<Record>,
    pub(super) controller: Option<Record>,
}

impl Signs {
    pub(super) async fn read(ledger: &Ledger) -> Result<Self, LedgerError> {
        let (desk, clock) = (&ledger.desk, &ledger.clock);
        let generation = ledger.keys.generation().map_err(refused)?;
        let controller = ledger.keys.controller().map_err(refused)?;
        Ok(Self {
            generation: read(desk, clock, desk.store.get(&generation)).await?,
            controller: read(desk, clock, desk.store.get(&controller)).await?,
        })
    }

    /// Whether a controller that holds `own` may write over them.
    pub(super) fn admit(&self, own: Generation, mc_id: &str) -> Result<(), LedgerError> {
        let Some(record) = &self.generation else { return Ok(()) };
        let text = std::str::from_utf8(&record.value).unwrap_or_default();
        let controller =
            self.controller.as_ref().map(|record| String::from_utf8_lossy(&record.value).into_owned());
        let stranger = controller.filter(|controller| controller != mc_id);
        match Generation::parse(text) {
            Ok(written) if written > own => Err(fenced_out()),
            Ok(written) if written < own => Ok(()),
            Ok(_) => stranger.map_or(Ok(()), |stranger| Err(split_brain(stranger))),
            // Nobody knows who wrote that.
            Err(_) => Err(split_brain(stranger.unwrap_or_else(|| "somebody".to_owned()))),
        }
    }

    pub(super) fn revisions(&self) -> (Option<Revision>, Option<Revision>) {
        let revision = |record: &Option<Record>| record.as_ref().map(|record| record.revision);
        (revision(&self.generation), revision(&self.controller))
    }
}

fn fenced_out() -> LedgerError {
    metric::fenced_out("stale_generation");
    LedgerError::FencedOut
}

fn split_brain(stranger: String) -> LedgerError {
    metric::fenced_out("concurrent_write");
    LedgerError::SplitBrain(stranger)
}

impl Ledger {
    /// The operations that every write begins with: they say who writes, and hold only if nobody else wrote since.
    fn signature(&self) -> Result<[Op; 2], LedgerError> {
        let op = |key: Key, text: String, revision: Option<Revision>| {
            let value = Arc::from(text.into_bytes());
            match revision {
                Some(revision) => Op::PutIfRevision { key, value, ttl: None, revision },
                None => Op::PutIfAbsent { key, value, ttl: None },
            }
        };
        let generation = self.held.generation().to_string();
        Ok([
            op(self.keys.generation().map_err(refused)?, generation, self.generation),
            op(self.keys.controller().map_err(refused)?, self.desk.mc_id.clone(), self.controller),
        ])
    }

    /// Writes operations, all or none, and remembers if somebody else turned out to own the meeting.
    pub(super) async fn commit(&mut self, ops: &[Op], nonce: Option<Key>) -> Result<(), LedgerError> {
        tracing::debug!(target: metric::TARGET, lease = %self.held.key(), generation = %self.held.generation(), ops = ops.len(), "writing");
        let written = self.pursue(ops, nonce).await;
        self.outdone |= matches!(written, Err(LedgerError::FencedOut | LedgerError::SplitBrain(_)));
        written
    }

    /// If it cannot know which, it asks until the lease is lost or the doubt is too old; then the meeting is
    /// lost.
    async fn pursue(&mut self, ops: &[Op], nonce: Option<Key>) -> Result<(), LedgerError> {
        let (mut in_doubt, mut surprises) = (false, 0);
        let spend = nonce.map(Self::spend).transpose()?;
        let began = self.clock.now();
        loop {
            let now = self.clock.now();
            if in_doubt && now.since(began) > DOUBT {
                return Err(LedgerError::Lost);
            }
            let permit = self.held.permit(Duration::ZERO).map_err(|_| LedgerError::Lost)?;
            let fence = permit.fence(Mode::Strict);
            if !self.desk.breaker.lock().allows(now) {
                if !in_doubt {
                    return Err(LedgerError::Unavailable("the breaker is open".to_owned()));
                }
                self.pause().await?;
                continue;
            }
            let mut all = self.signature()?.to_vec();
            all.extend(spend.clone());
            all.extend_from_slice(ops);
            match ask(&self.desk, &self.clock, self.desk.store.write_fenced(&fence, &all)).await {
                Said::Answer(Committed::Written { revision }) => {
                    (self.generation, self.controller) = (Some(revision), Some(revision));
                    return Ok(());
                }
                Said::Answer(Committed::FencedOut { .. }) => return Err(fenced_out()),
                Said::Answer(Committed::Conflict { index, .. }) if index >= 2 => {
                    return Err(LedgerError::NonceSpent);
                }
                Said::Answer(Committed::Conflict { .. }) => match self.look().await {
                    // The write whose answer got lost: nobody else signs with this name and number.
                    Ok(true) if in_doubt => return Ok(()),
                    Ok(_) if surprises < SURPRISES => surprises += 1,
                    Ok(_) => return Err(split_brain("somebody".to_owned())),
                    Err(LedgerError::Unavailable(_)) if in_doubt => self.pause().await?,
                    Err(error) => return Err(error),
                },
                Said::Never(why) => return Err(LedgerError::Refused(why)),
                Said::No(why) if !in_doubt => return Err(LedgerError::Unavailable(why)),
                Said::No(_) => self.pause().await?,
                Said::Nothing => {
                    in_doubt = true;
                    self.pause().await?;
                }
            }
        }
    }

    /// Looks at who signed last: true if it was this controller, under a revision that it has not known. Ends if it was another.
    async fn look(&mut self) -> Result<bool, LedgerError> {
        let signs = Signs::read(self).await?;
        signs.admit(self.held.generation(), &self.desk.mc_id)?;
        let own =
            signs.controller.as_ref().is_some_and(|record| record.value[..] == *self.desk.mc_id.as_bytes());
        let before = (self.generation, self.controller);
        (self.generation, self.controller) = signs.revisions();
        let together = self.generation == self.controller && self.generation.is_some();
        if !own {
            // An older generation's sign cannot come back: somebody else changed it.
            let stranger = signs.controller.map(|record| String::from_utf8_lossy(&record.value).into_owned());
            return Err(split_brain(stranger.unwrap_or_else(|| "somebody".to_owned())));
        }
        Ok(together && before != (self.generation, self.controller))
    }

    async fn pause(&self) -> Result<(), LedgerError> {
        tokio::select! {
            _ = self.held.lost() => Err(LedgerError::Lost),
            () = self.clock.sleep_until(self.clock.now() + PAUSE) => Ok(()),
        }
    }
}
