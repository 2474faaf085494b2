//! What the holder and the watchdog say to each other.

#[path = "../../tenure/src/watchdog"]
#[allow(dead_code, unreachable_pub, reason = "the binary uses the rest")]
mod lines {
    mod line;
    mod plan;

    use line::{Inbox, Order, Report};

    /// Lines come out whole however the bytes come in; what is understood is said the same way again.
    pub(crate) fn watchdog(data: &[u8]) {
        let (step, data) =
            data.split_first().map_or((1, data), |(step, rest)| (usize::from(*step).max(1), rest));
        let mut inbox = Inbox::default();
        let mut lines = Vec::new();
        for chunk in data.chunks(step) {
            let spoken = inbox.push(chunk);
            while let Some(line) = inbox.pop() {
                lines.push(line);
            }
            if !spoken {
                break;
            }
        }
        let whole = data.split(|byte| *byte == b'\n').map(String::from_utf8_lossy);
        assert!(lines.iter().zip(whole).all(|(line, whole)| *line == whole));
        for line in lines {
            if let Some(order) = Order::parse(&line) {
                assert_eq!(Order::parse(order.to_string().trim_end_matches('\n')), Some(order));
            }
            if let Some(report) = Report::parse(&line) {
                assert_eq!(Report::parse(report.to_string().trim_end_matches('\n')), Some(report));
            }
        }
    }
}

pub(crate) use lines::watchdog;
