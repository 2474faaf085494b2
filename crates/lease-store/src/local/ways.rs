//! Grants on their way to whoever asked, so that a claim that goes away gives back only what nobody else was told.

use hashbrown::HashMap;
use lease::Generation;

/// The reigns whose answers are on their way, by place and generation.
#[derive(Debug, Default)]
pub(crate) struct Ways(HashMap<(u32, Generation), Way>);

/// One reign and the claims with its token that have no answer yet.
#[derive(Debug, Default)]
struct Way {
    claims: u32,
    told: bool,
}

impl Ways {
    /// A claim got a reign that begins.
    pub(crate) fn begin(&mut self, at: u32, generation: Generation) {
        self.0.insert((at, generation), Way { claims: 1, told: false });
    }

    /// A claim got the reign that its token has. When nobody is on the way to it, its holder knows of it.
    pub(crate) fn join(&mut self, at: u32, generation: Generation) {
        let way = self.0.entry((at, generation)).or_insert(Way { claims: 0, told: true });
        way.claims += 1;
    }

    /// Somebody who is not on the way was told of this reign, or may ask for it again.
    pub(crate) fn know(&mut self, at: u32, generation: Generation) {
        if let Some(way) = self.0.get_mut(&(at, generation)) {
            way.told = true;
        }
    }

    /// A claim was told.
    pub(crate) fn arrive(&mut self, at: u32, generation: Generation) {
        if let Some(way) = self.0.get_mut(&(at, generation)) {
            way.told = true;
            way.claims -= 1;
            if way.claims == 0 {
                self.0.remove(&(at, generation));
            }
        }
    }

    /// A claim went away before it was told. Whether the reign is nobody's now.
    pub(crate) fn lose(&mut self, at: u32, generation: Generation) -> bool {
        let Some(way) = self.0.get_mut(&(at, generation)) else { return false };
        way.claims -= 1;
        let (last, told) = (way.claims == 0, way.told);
        if last {
            self.0.remove(&(at, generation));
        }
        last && !told
    }
}
