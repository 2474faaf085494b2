//! The W3C trace context, version 00.

use std::fmt;

/// Where a request belongs in a trace: `00-{trace-id}-{parent-id}-{flags}`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TraceParent {
    /// The trace, the same in every service.
    pub trace_id: u128,
    /// The span that caused this.
    pub parent_id: u64,
    /// Whether it is sampled (bit 0).
    pub flags: u8,
}

impl TraceParent {
    /// Reads the header's value. What is not exactly of the form is ignored, as the specification asks.
    pub fn parse(text: &str) -> Option<Self> {
        let hex = |part: &str, len: usize| {
            part.len() == len && part.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
        };
        let mut parts = text.split('-');
        let [version, trace, parent, flags] = [parts.next()?, parts.next()?, parts.next()?, parts.next()?];
        let form = version == "00" && parts.next().is_none();
        if !(form && hex(trace, 32) && hex(parent, 16) && hex(flags, 2)) {
            return None;
        }
        let trace_id = u128::from_str_radix(trace, 16).ok().filter(|id| *id != 0)?;
        let parent_id = u64::from_str_radix(parent, 16).ok().filter(|id| *id != 0)?;
        Some(Self { trace_id, parent_id, flags: u8::from_str_radix(flags, 16).ok()? })
    }
}

impl fmt::Display for TraceParent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "00-{:032x}-{:016x}-{:02x}", self.trace_id, self.parent_id, self.flags)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_parent_is_read_exactly_or_not_at_all() {
        let text = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        assert_eq!(TraceParent::parse(text).unwrap().to_string(), text);
        for bad in [
            "",
            "01-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "00-0AF7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "00-00000000000000000000000000000000-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-x",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331",
        ] {
            assert_eq!(TraceParent::parse(bad), None, "{bad}");
        }
    }
}
