//! Messages between the holder and the watchdog.

#[path = "../../tenure/src/watchdog"]
#[allow(dead_code, unreachable_pub, reason = "the binary uses the rest")]
mod messages {
    mod message;
    mod plan;

    use message::{Instruction, LineBuffer, WorkReport};

    /// Lines are complete however the bytes arrive, and a parsed message has the same text again.
    pub(crate) fn watchdog(data: &[u8]) {
        let (step, data) =
            data.split_first().map_or((1, data), |(step, rest)| (usize::from(*step).max(1), rest));
        let mut buffer = LineBuffer::default();
        let mut lines = Vec::new();
        for chunk in data.chunks(step) {
            let valid = buffer.push(chunk);
            while let Some(line) = buffer.pop() {
                lines.push(line);
            }
            if !valid {
                break;
            }
        }
        let whole = data.split(|byte| *byte == b'\n').map(String::from_utf8_lossy);
        assert!(lines.iter().zip(whole).all(|(line, whole)| *line == whole));
        for line in lines {
            if let Some(instruction) = Instruction::parse(&line) {
                let text = instruction.to_string();
                assert_eq!(Instruction::parse(text.trim_end_matches('\n')), Some(instruction));
            }
            if let Some(report) = WorkReport::parse(&line) {
                assert_eq!(WorkReport::parse(report.to_string().trim_end_matches('\n')), Some(report));
            }
        }
    }
}

pub(crate) use messages::watchdog;
