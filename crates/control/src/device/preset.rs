//! Looks with a name.

use serde::{Deserialize, Serialize};

use super::scene::Look;

/// As many as there are.
pub(crate) const MOST_PRESETS: usize = 64;

/// A look with a name.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct Preset {
    /// The name.
    pub name: String,
    /// The look.
    pub look: Look,
}
