//! Random damage to inputs.

use std::ops::Range;

use proptest::prelude::*;

/// One change of an input: its kind, place, length and content.
#[derive(Clone, Copy, Debug)]
pub struct Edit {
    kind: usize,
    at: usize,
    len: usize,
    with: u8,
}

/// Draws a few changes, seldom none.
pub fn edits() -> impl Strategy<Value = Vec<Edit>> {
    let edit =
        (0..9usize, any::<usize>(), any::<usize>(), any::<u8>()).prop_map(|(kind, at, len, with)| Edit { kind, at, len, with });
    proptest::collection::vec(edit, 0..6)
}

/// Numbers that make arithmetic fail.
const NUMBERS: [&str; 18] = [
    "0",
    "-1",
    "1",
    "2",
    "255",
    "65536",
    "2147483648",
    "4294967295",
    "4294967296",
    "9223372036854775807",
    "18446744073709551615",
    "18446744073709551616",
    "1e400",
    "8.7e307",
    "-1e308",
    "5e-324",
    "0.1",
    "null",
];

/// Characters that form structure.
const SIGNS: &[u8; 16] = b"\0\xFF\n\r\t \"',[]{}:-9";

/// Returns the input with these changes, one after the other.
pub fn damaged(input: &[u8], edits: &[Edit]) -> Vec<u8> {
    edits.iter().fold(input.to_vec(), |bytes, edit| edit.made(bytes))
}

impl Edit {
    fn made(self, mut bytes: Vec<u8>) -> Vec<u8> {
        if bytes.is_empty() {
            return vec![self.with];
        }
        let at = self.at % bytes.len();
        // A piece from that place; most are short.
        let len = self.len % (1 << (self.with % 12)).min(bytes.len() - at + 1);
        match self.kind {
            0 => bytes[at] ^= 1 << (self.with % 8),
            1 => bytes[at] = self.with,
            2 => bytes[at] = SIGNS[usize::from(self.with) % SIGNS.len()],
            3 => bytes.truncate(at),
            4 => bytes.insert(at, self.with),
            5 => drop(bytes.drain(at..at + len)),
            6 => {
                let piece = bytes[at..at + len].to_vec();
                bytes.splice(at..at, piece);
            }
            7 => {
                // Moves the piece to another place.
                let piece: Vec<u8> = bytes.drain(at..at + len).collect();
                let to = self.len % (bytes.len() + 1);
                bytes.splice(to..to, piece);
            }
            _ => {
                let number = NUMBERS[usize::from(self.with) % NUMBERS.len()];
                let digits = number_after(&bytes, at);
                bytes.splice(digits, number.bytes());
            }
        }
        bytes
    }
}

/// Returns the place of the first number from `at` on, or an empty range at `at` if there is none.
fn number_after(bytes: &[u8], at: usize) -> Range<usize> {
    let is_part = |byte: &u8| byte.is_ascii_digit() || b"+-.eE".contains(byte);
    let Some(first) = bytes[at..].iter().position(u8::is_ascii_digit) else { return at..at };
    let start = at + first;
    let len = bytes[start..].iter().position(|byte| !is_part(byte)).unwrap_or(bytes.len() - start);
    start..start + len
}

/// Returns a few pieces of an input: short ones at places that differ from input to input.
pub fn pieces(input: &[u8], nth: usize) -> Vec<Range<usize>> {
    let places = (0..6).map(|k| (nth * 31 + k * input.len() / 6) % input.len().max(1));
    places.zip([1, 2, 7, 30, 80, 300]).map(|(at, len)| at..(at + len).min(input.len())).collect()
}

/// Returns the input with this piece repeated until it is about `size` long: whole, and cut off after the repetitions.
pub fn repeated(input: &[u8], piece: Range<usize>, size: usize) -> [Vec<u8>; 2] {
    let times = size / piece.len().max(1);
    let cut = [&input[..piece.start], &input[piece.clone()].repeat(times)].concat();
    [[&cut, &input[piece.end..]].concat(), cut]
}
