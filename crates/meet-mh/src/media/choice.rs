//! Which group a subscriber gets next.

use super::layers::RENDITIONS;

/// The newest group of a rendition that can be read from its beginning.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Candidate {
    /// The order in which groups began.
    pub(crate) serial: u64,
    /// Whether it is still arriving.
    pub(crate) open: bool,
}

/// The groups of all renditions.
pub(crate) type Candidates = [Option<Candidate>; RENDITIONS];

/// Chooses the rendition to continue with, or `None` to stay where the subscriber is. `wanted` is the rendition that fits
/// its path, `current` what it was given last.
pub(crate) fn choose(candidates: &Candidates, wanted: u8, current: Option<(u8, u64)>) -> Option<u8> {
    let get = |rendition: u8| candidates.get(usize::from(rendition)).copied().flatten();
    let newer = |rendition: u8| {
        get(rendition).filter(|candidate| current.is_none_or(|(_, serial)| candidate.serial > serial))
    };
    let lower = || (0..wanted).rev();
    let Some((at, _)) = current else {
        // A picture at once: an arriving group if there is one, else the last one.
        let arriving = newer(wanted).filter(|candidate| candidate.open).map(|_| wanted);
        let below = || lower().find(|below| newer(*below).is_some_and(|candidate| candidate.open));
        let last = || (0..=wanted).rev().find(|rendition| newer(*rendition).is_some());
        return arriving.or_else(below).or_else(last);
    };
    if newer(wanted).is_some() {
        return Some(wanted);
    }
    if at == wanted {
        let ended = get(at).is_none_or(|candidate| !candidate.open);
        // The publisher stopped this rendition: take a lower one rather than nothing.
        return lower().find(|below| ended && newer(*below).is_some_and(|candidate| candidate.open));
    }
    if at < wanted && newer(at).is_some() {
        return Some(at);
    }
    lower().find(|below| newer(*below).is_some_and(|candidate| candidate.open) && at > wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn open(serial: u64) -> Option<Candidate> {
        Some(Candidate { serial, open: true })
    }

    const fn ended(serial: u64) -> Option<Candidate> {
        Some(Candidate { serial, open: false })
    }

    #[test]
    fn the_next_group_follows_the_wanted_rendition() {
        for (name, candidates, wanted, current, chosen) in [
            ("nothing is published", [None, None, None], 2, None, None),
            ("a joiner gets the wanted one", [open(1), open(2), open(3)], 2, None, Some(2)),
            ("a joiner gets what arrives", [open(1), open(2), ended(3)], 2, None, Some(1)),
            ("a joiner gets the last picture", [ended(1), None, None], 2, None, Some(0)),
            ("never above the wanted one", [None, None, open(3)], 1, None, None),
            ("stays in its group", [open(1), open(2), open(3)], 2, Some((2, 3)), None),
            ("goes on to the next group", [open(1), open(2), open(4)], 2, Some((2, 3)), Some(2)),
            ("rises at a key frame", [open(4), open(3), None], 1, Some((0, 2)), Some(1)),
            ("waits for the wanted one to rise", [open(4), open(3), None], 1, Some((0, 4)), None),
            ("goes on below while it waits", [open(5), open(3), None], 1, Some((0, 4)), Some(0)),
            ("falls at a key frame", [open(6), None, open(5)], 0, Some((2, 5)), Some(0)),
            ("waits for a key frame to fall", [open(4), None, open(5)], 0, Some((2, 5)), None),
            ("falls when its rendition stopped", [open(6), None, ended(5)], 2, Some((2, 5)), Some(0)),
        ] {
            assert_eq!(choose(&candidates, wanted, current), chosen, "{name}");
        }
    }
}
