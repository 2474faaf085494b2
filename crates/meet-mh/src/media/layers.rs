//! Which rendition and temporal layers a subscriber gets of each video, within its target.
//!
//! Less is given in steps, and within a step to the least important video first: temporal layers, then renditions, then
//! video pauses. Audio is not part of this.

/// Renditions of a video.
pub(crate) const RENDITIONS: usize = 3;
/// Temporal layers of a rendition.
pub(crate) const TEMPORAL: usize = 4;

/// What one video may take, in bits per second: `rates[rendition][temporal]` includes the layers below.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Demand {
    pub(crate) priority: u8,
    /// The greatest rendition that is wanted and published.
    pub(crate) rendition: u8,
    /// The greatest temporal layer that is wanted and published.
    pub(crate) temporal: u8,
    pub(crate) rates: [[u64; TEMPORAL]; RENDITIONS],
}

/// What a video is given.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Share {
    /// Nothing.
    Paused,
    /// A rendition up to a temporal layer.
    Flows { rendition: u8, temporal: u8 },
}

impl Demand {
    /// All of it.
    pub(crate) fn whole(&self) -> Share {
        Share::Flows { rendition: self.rendition, temporal: self.temporal }
    }

    /// The rate of a share.
    pub(crate) fn rate(&self, share: Share) -> u64 {
        let Share::Flows { rendition, temporal } = share else { return 0 };
        self.rates
            .get(usize::from(rendition))
            .and_then(|rates| rates.get(usize::from(temporal)))
            .copied()
            .unwrap_or_default()
    }

    /// The next share above this one, or `None` at the top.
    fn above(&self, share: Share) -> Option<Share> {
        match share {
            Share::Paused => Some(Share::Flows { rendition: 0, temporal: self.temporal }),
            Share::Flows { rendition, temporal } if temporal < self.temporal => {
                Some(Share::Flows { rendition, temporal: temporal + 1 })
            }
            Share::Flows { rendition, .. } if rendition < self.rendition => {
                Some(Share::Flows { rendition: rendition + 1, temporal: self.temporal })
            }
            Share::Flows { .. } => None,
        }
    }
}

/// The steps that lower a share.
#[derive(Clone, Copy)]
enum Step {
    Temporal,
    Rendition,
    Pause,
}

impl Step {
    fn lower(self, demand: &Demand, share: Share) -> Option<Share> {
        match (self, share) {
            (Self::Temporal, Share::Flows { rendition, temporal }) if temporal > 0 => {
                Some(Share::Flows { rendition, temporal: temporal - 1 })
            }
            (Self::Rendition, Share::Flows { rendition, .. }) if rendition > 0 => {
                Some(Share::Flows { rendition: rendition - 1, temporal: demand.temporal })
            }
            (Self::Pause, Share::Flows { .. }) => Some(Share::Paused),
            _ => None,
        }
    }
}

/// The total rate of shares.
pub(crate) fn total(demands: &[Demand], shares: &[Share]) -> u64 {
    demands.iter().zip(shares).map(|(demand, share)| demand.rate(*share)).sum()
}

/// Shares that fit into `target` bits per second.
pub(crate) fn allocate(demands: &[Demand], target: u64) -> Vec<Share> {
    let mut shares: Vec<Share> = demands.iter().map(Demand::whole).collect();
    let mut order: Vec<usize> = (0..demands.len()).collect();
    order.sort_by_key(|at| demands.get(*at).map(|demand| demand.priority));
    for step in [Step::Temporal, Step::Rendition, Step::Temporal, Step::Pause] {
        while total(demands, &shares) > target {
            let lowered = order.iter().find_map(|at| {
                let (demand, share) = (demands.get(*at)?, *shares.get(*at)?);
                step.lower(demand, share).map(|share| (*at, share))
            });
            let Some((at, share)) = lowered else { break };
            if let Some(place) = shares.get_mut(at) {
                *place = share;
            }
        }
    }
    shares
}

/// Shares after `allocate` that never rise above the present ones, except by one step where `raise` allows it. Returns
/// whether one rose.
pub(crate) fn settle(demands: &[Demand], present: &[Share], target: u64, raise: bool) -> (Vec<Share>, bool) {
    let mut shares = allocate(demands, target);
    for (share, present) in shares.iter_mut().zip(present) {
        *share = (*share).min(*present);
    }
    if !raise {
        return (shares, false);
    }
    let mut order: Vec<usize> = (0..demands.len()).collect();
    order.sort_by_key(|at| std::cmp::Reverse(demands.get(*at).map(|demand| demand.priority)));
    for at in order {
        if let (Some(demand), Some(share)) = (demands.get(at), shares.get_mut(at))
            && let Some(above) = demand.above(*share)
        {
            *share = above;
            return (shares, true);
        }
    }
    (shares, false)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Three renditions of 100, 400 and 1,000, half of each in the base layer.
    fn demand(priority: u8) -> Demand {
        let rates = [100, 400, 1_000].map(|rate| [rate / 2, rate, rate, rate]);
        Demand { priority, rendition: 2, temporal: 1, rates }
    }

    fn flows(rendition: u8, temporal: u8) -> Share {
        Share::Flows { rendition, temporal }
    }

    #[test]
    fn less_is_given_in_steps_to_the_least_important_first() {
        let demands = [demand(10), demand(200)];
        for (target, shares) in [
            (2_000, [flows(2, 1), flows(2, 1)]),
            (1_999, [flows(2, 0), flows(2, 1)]),
            (1_400, [flows(2, 0), flows(2, 0)]),
            (900, [flows(1, 1), flows(2, 0)]),
            (600, [flows(0, 1), flows(2, 0)]),
            (599, [flows(0, 1), flows(1, 1)]),
            (200, [flows(0, 1), flows(0, 1)]),
            (150, [flows(0, 0), flows(0, 1)]),
            (99, [Share::Paused, flows(0, 0)]),
            (49, [Share::Paused, Share::Paused]),
        ] {
            assert_eq!(allocate(&demands, target), shares, "{target}");
            assert!(total(&demands, &shares) <= target);
        }
    }

    #[test]
    fn a_share_falls_at_once_and_rises_by_one_step_when_allowed() {
        let demands = [demand(10), demand(200)];
        let low = [flows(0, 1), flows(0, 1)];
        assert_eq!(settle(&demands, &low, 9_000, false), (low.to_vec(), false));
        assert_eq!(settle(&demands, &low, 9_000, true), (vec![flows(0, 1), flows(1, 1)], true));
        let top = [flows(2, 1), flows(2, 1)];
        assert_eq!(settle(&demands, &top, 9_000, true), (top.to_vec(), false));
        assert_eq!(settle(&demands, &top, 900, false).0, [flows(1, 1), flows(2, 0)]);
        let paused = [Share::Paused, flows(2, 1)];
        assert_eq!(settle(&demands, &paused, 9_000, true).0, [flows(0, 1), flows(2, 1)]);
    }
}
