//! Presets: named looks.

use serde::{Deserialize, Serialize};

use super::light_look::LightLook;

/// Maximum number of presets.
pub(crate) const MAX_PRESETS: usize = 64;

/// A named look.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct Preset {
    /// The name.
    pub name: String,
    /// The look.
    pub look: LightLook,
}
