//! What a server prints when it has started.

/// The addresses in the start-up output of a server.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Greeting {
    /// The sign-in link.
    pub(super) console: Option<String>,
    /// The base URL.
    pub(super) address: String,
    /// `HOST:PORT` of clients of meetings, over UDP.
    pub(super) clients: Option<String>,
    /// The gRPC endpoint.
    pub(super) grpc: Option<String>,
}

impl Greeting {
    /// Reads a line. Returns whether it was the last one.
    pub(super) fn read(&mut self, line: &str) -> bool {
        let (label, value) = line.trim().split_once(' ').unwrap_or((line, ""));
        let value = value.trim().to_owned();
        match label {
            "console" => self.console = Some(value),
            "address" => self.address = value,
            "gRPC" => self.grpc = Some(value),
            "meetings" => self.clients = udp(&value),
            "Press" => return true,
            _ => {}
        }
        false
    }
}

/// The address in `https://HOST:PORT (UDP)`.
fn udp(text: &str) -> Option<String> {
    let (url, rest) = text.split_once(' ')?;
    rest.contains("UDP").then(|| url.trim_start_matches("https://").to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_addresses_are_read_from_the_start_up_output() {
        let output = "Tenure 0.1.0 is running\n  console   http://127.0.0.1:1/#login=x\n            (one-time \
                      sign-in link)\n  address   http://127.0.0.1:1\n  data      mc-1\n  meetings  \
                      https://127.0.0.1:2 (UDP)\n  gRPC      http://127.0.0.1:3\nPress Ctrl-C to stop.";
        let mut greeting = Greeting::default();
        let ends: Vec<bool> = output.lines().map(|line| greeting.read(line)).collect();
        assert_eq!(ends.iter().position(|end| *end), Some(ends.len() - 1));
        let expected = Greeting {
            console: Some("http://127.0.0.1:1/#login=x".to_owned()),
            address: "http://127.0.0.1:1".to_owned(),
            clients: Some("127.0.0.1:2".to_owned()),
            grpc: Some("http://127.0.0.1:3".to_owned()),
        };
        assert_eq!(greeting, expected);
        let mut gc = Greeting::default();
        gc.read("  meetings  http://127.0.0.1:1/api/v1/meetings");
        assert_eq!(gc.clients, None);
    }
}
