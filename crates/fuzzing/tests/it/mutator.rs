//! Mutations of a corpus from a seed. It has no coverage feedback: every build tries some inputs, and
//! libFuzzer in `fuzz/` searches thoroughly.

/// Boundary numbers for parsers.
const NUMBERS: [&str; 12] = [
    "0",
    "-1",
    "1",
    "255",
    "65536",
    "4294967296",
    "9007199254740991",
    "9007199254740992",
    "9223372036854775807",
    "18446744073709551615",
    "18446744073709551616",
    "1e9",
];

/// The longest generated input.
const LONGEST: usize = 4_096;

pub(crate) struct Mutator {
    state: u64,
    corpus: Vec<Vec<u8>>,
}

impl Mutator {
    pub(crate) fn new(seed: u64, corpus: Vec<Vec<u8>>) -> Self {
        Self { state: seed, corpus }
    }

    fn roll(&mut self, end: usize) -> usize {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) as usize % end.max(1)
    }

    /// The next input.
    pub(crate) fn next(&mut self) -> Vec<u8> {
        let first = self.roll(self.corpus.len());
        let mut input = self.corpus[first].clone();
        for _ in 0..=self.roll(4) {
            self.mutate(&mut input);
        }
        input.truncate(LONGEST);
        input
    }

    fn mutate(&mut self, input: &mut Vec<u8>) {
        let at = self.roll(input.len() + 1);
        let span = at..(at + 1 + self.roll(16)).min(input.len()).max(at);
        match self.roll(8) {
            0 if at < input.len() => input[at] ^= 1 << self.roll(8),
            1 if at < input.len() => input[at] = self.roll(256) as u8,
            2 => drop(input.drain(span)),
            3 => {
                let piece = input[span].to_vec();
                input.splice(at..at, piece);
            }
            4 => {
                let other = self.roll(self.corpus.len());
                let from = self.roll(self.corpus[other].len() + 1);
                let piece = self.corpus[other][from..].to_vec();
                input.truncate(at);
                input.extend(piece);
            }
            5 => {
                let bytes: Vec<u8> = (0..=self.roll(8)).map(|_| self.roll(256) as u8).collect();
                input.splice(at..at, bytes);
            }
            6 => input.truncate(at),
            _ => self.number(input, at),
        }
    }

    /// Replaces a number.
    fn number(&mut self, input: &mut Vec<u8>, from: usize) {
        let start = input[from..].iter().position(u8::is_ascii_digit).map(|at| from + at);
        let Some(start) = start.or_else(|| input.iter().position(u8::is_ascii_digit)) else { return };
        let length = input[start..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        let number = NUMBERS[self.roll(NUMBERS.len())].bytes();
        input.splice(start..start + length, number);
    }
}
