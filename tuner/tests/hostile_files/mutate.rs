//! Mutations of a corpus: bytes and tokens changed, parts removed, repeated and exchanged.

use tilewright::stats::Rng;

/// What readers stumble over.
const TOKENS: [&str; 20] = [
    "0",
    "-1",
    "4294967296",
    "18446744073709551616",
    "1e999",
    "nan",
    "null",
    "\"\"",
    "[",
    "]",
    "{",
    "}",
    ",",
    "=",
    "\n",
    "\u{0}",
    "\u{feff}",
    "../../x",
    "9999999999",
    "\\",
];

pub(crate) struct Mutator<'a> {
    rng: Rng,
    corpus: &'a [Vec<u8>],
}

impl<'a> Mutator<'a> {
    pub(crate) fn new(seed: u64, corpus: &'a [Vec<u8>]) -> Self {
        Mutator { rng: Rng::new(seed), corpus }
    }

    /// The next input.
    pub(crate) fn next(&mut self) -> Vec<u8> {
        let mut input = self.corpus[self.rng.below(self.corpus.len())].clone();
        for _ in 0..=self.rng.below(4) {
            self.mutate(&mut input);
        }
        input
    }

    fn mutate(&mut self, input: &mut Vec<u8>) {
        let at = self.rng.below(input.len() + 1);
        let end = (at + 1 + self.rng.below(40)).min(input.len());
        match self.rng.below(9) {
            0 if at < input.len() => input[at] ^= 1 << self.rng.below(8),
            1 if at < input.len() => input[at] = self.rng.below(256) as u8,
            2 => drop(input.splice(at..at, TOKENS[self.rng.below(TOKENS.len())].bytes())),
            3 => drop(input.drain(at.min(end)..end)),
            4 => {
                let part = input[at.min(end)..end].to_vec();
                let times = 1 + self.rng.below(20);
                input.splice(at..at, part.repeat(times));
            }
            5 => input.truncate(at),
            6 => {
                let other = &self.corpus[self.rng.below(self.corpus.len())];
                let from = self.rng.below(other.len() + 1);
                let to = (from + self.rng.below(200)).min(other.len());
                input.splice(at..at, other[from..to].iter().copied());
            }
            7 => self.replace_number(input, at),
            _ => self.exchange_lines(input),
        }
    }

    /// Another number in the place of the next one.
    fn replace_number(&mut self, input: &mut Vec<u8>, at: usize) {
        let Some(start) = input[at..].iter().position(u8::is_ascii_digit).map(|offset| at + offset) else {
            return;
        };
        let digits = input[start..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        let numbers = ["0", "1", "7", "4294967295", "4294967296", "9223372036854775808", "1e308", "-5", "00"];
        input.splice(start..start + digits, numbers[self.rng.below(numbers.len())].bytes());
    }

    fn exchange_lines(&mut self, input: &mut Vec<u8>) {
        let mut lines: Vec<Vec<u8>> = input.split(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect();
        let (x, y) = (self.rng.below(lines.len()), self.rng.below(lines.len()));
        lines.swap(x, y);
        *input = lines.join(&b'\n');
    }
}
