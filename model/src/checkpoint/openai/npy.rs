//! `.npy`, the format of `numpy.save`, for flat arrays of numbers
//! ([specification](https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html)):
//!
//! ```text
//! 0x93 NUMPY, version (1 or 2 or 3, 0), length of the header (u16; from version 2 on u32), header, elements
//! {'descr': '<f4', 'fortran_order': False, 'shape': (11653479,), }     spaces and a line end fill up to a multiple of 64 bytes
//! ```

use crate::checkpoint::values::Number;

const MAGIC: &[u8] = b"\x93NUMPY";

/// A flat array: the format of its numbers, and their bytes.
#[derive(Debug, PartialEq)]
pub(super) struct Array<'a> {
    pub number: Number,
    pub data: &'a [u8],
}

impl Array<'_> {
    /// Returns the number of elements.
    pub fn len(&self) -> usize {
        self.data.len() / self.number.size()
    }
}

/// Reads the array in a file.
///
/// # Errors
/// Returns the expected and the found content, unless this is a flat little-endian array of floating-point numbers.
pub(super) fn read(bytes: &[u8]) -> Result<Array<'_>, String> {
    let rest =
        bytes.strip_prefix(MAGIC).ok_or("expected an array that numpy.save wrote, found no \"\\x93NUMPY\" at its start")?;
    let cut = || "the header is cut off".to_owned();
    let (&[major, minor], rest) = rest.split_first_chunk().ok_or_else(cut)?;
    let (length, rest) = match (major, minor) {
        (1, 0) => rest.split_first_chunk().map(|(n, rest)| (usize::from(u16::from_le_bytes(*n)), rest)).ok_or_else(cut)?,
        (2 | 3, 0) => rest.split_first_chunk().map(|(n, rest)| (u32::from_le_bytes(*n) as usize, rest)).ok_or_else(cut)?,
        _ => return Err(format!("expected .npy version 1.0, 2.0 or 3.0, found {major}.{minor}")),
    };
    let (header, data) = rest.split_at_checked(length).ok_or_else(cut)?;
    let header = std::str::from_utf8(header).map_err(|_| "the header is not text")?;
    let Header { number, len } = Words(header).header()?;
    if len.checked_mul(number.size()) != Some(data.len()) {
        let found = data.len();
        return Err(format!("expected {len} numbers of {} bytes each, as its header states, found {found} bytes", number.size()));
    }
    Ok(Array { number, data })
}

/// Returns the bytes before the elements of a flat array of f32, to the byte as NumPy 2 writes them.
pub(super) fn header(len: usize) -> Vec<u8> {
    let mut header = format!("{{'descr': '<f4', 'fortran_order': False, 'shape': ({len},), }}");
    // NumPy leaves room for a length of 21 digits, so that a file can grow in place.
    header += &" ".repeat(21usize.saturating_sub(len.to_string().len()));
    let before = MAGIC.len() + 4;
    header += &" ".repeat((before + header.len() + 1).next_multiple_of(64) - before - header.len() - 1);
    header += "\n";
    let length = (header.len() as u16).to_le_bytes(); // some hundred bytes
    [MAGIC, &[1, 0], &length, header.as_bytes()].concat()
}

struct Header {
    number: Number,
    len: usize,
}

/// The unread rest of a header: a dictionary as Python writes it.
struct Words<'a>(&'a str);

impl<'a> Words<'a> {
    fn header(mut self) -> Result<Header, String> {
        let (mut number, mut order, mut shape) = (None, None, None);
        self.expect("{")?;
        while !self.eat("}") {
            let key = self.quoted()?;
            self.expect(":")?;
            match key {
                "descr" if number.is_none() => number = Some(self.number()?),
                "fortran_order" if order.is_none() => order = Some(self.order()?),
                "shape" if shape.is_none() => shape = Some(self.shape()?),
                _ => return Err(format!("expected descr, fortran_order and shape in the header, each once, found {key:?}")),
            }
            if !self.eat(",") {
                self.expect("}")?;
                break;
            }
        }
        self.0 = self.0.trim_start();
        match (number, order, shape) {
            (Some(number), Some(()), Some(len)) if self.0.is_empty() => Ok(Header { number, len }),
            (Some(_), Some(()), Some(_)) => Err(self.instead_of("nothing after the header's }")),
            _ => Err("expected descr, fortran_order and shape in the header, found fewer".into()),
        }
    }

    fn number(&mut self) -> Result<Number, String> {
        let expected = "descr '<f4', '<f8' or '<f2', little-endian numbers";
        if !self.0.trim_start().starts_with(['\'', '"']) {
            return Err(self.instead_of(expected));
        }
        match self.quoted()? {
            "<f4" => Ok(Number::F32),
            "<f8" => Ok(Number::F64),
            "<f2" => Ok(Number::F16),
            other => Err(format!("expected {expected}, found '{other}'")),
        }
    }

    fn order(&mut self) -> Result<(), String> {
        if self.eat("False") { Ok(()) } else { Err(self.instead_of("fortran_order False")) }
    }

    /// Reads the length of a flat array: `(3,)`, or `(3L,)` as Python 2 wrote it.
    fn shape(&mut self) -> Result<usize, String> {
        let before = Words(self.0);
        let flat = self.eat("(").then(|| self.whole()).flatten();
        let flat = flat.filter(|_| {
            self.eat("L");
            self.eat(",") && self.eat(")")
        });
        flat.ok_or_else(|| before.instead_of("the shape of a flat array, such as (3,)"))
    }

    fn whole(&mut self) -> Option<usize> {
        let text = self.0.trim_start();
        let (digits, rest) = text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()));
        self.0 = rest;
        digits.parse().ok()
    }

    fn quoted(&mut self) -> Result<&'a str, String> {
        for quote in ["'", "\""] {
            if self.eat(quote) {
                let (word, rest) = self.0.split_once(quote).ok_or("the header is cut off within quotes")?;
                self.0 = rest;
                return Ok(word);
            }
        }
        Err(self.instead_of("a word in quotes"))
    }

    fn eat(&mut self, sign: &str) -> bool {
        let rest = self.0.trim_start().strip_prefix(sign);
        self.0 = rest.unwrap_or(self.0);
        rest.is_some()
    }

    fn expect(&mut self, sign: &str) -> Result<(), String> {
        if self.eat(sign) { Ok(()) } else { Err(self.instead_of(sign)) }
    }

    fn instead_of(&self, expected: &str) -> String {
        let found: String = self.0.trim().chars().take(40).collect();
        format!("expected {expected} in the header, found {found:?}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a file of this version with this header and this number of bytes of data.
    fn file(version: u8, header: &str, data: usize) -> Vec<u8> {
        let n = header.len() as u32;
        let length = if version == 1 { (n as u16).to_le_bytes().to_vec() } else { n.to_le_bytes().to_vec() };
        [MAGIC, &[version, 0], &length, header.as_bytes(), &vec![0; data]].concat()
    }

    #[test]
    fn header_versions_dtypes_and_spellings_are_accepted() {
        for (version, header, number) in [
            (1, "{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }      \n", Number::F32),
            (2, "{'shape': (3L,), 'fortran_order': False, 'descr': '<f8'}\n", Number::F64),
            (3, "{\"descr\":\"<f2\",\"shape\":( 3 , ),\"fortran_order\":False,}", Number::F16),
        ] {
            let bytes = file(version, header, 3 * number.size());
            let array = read(&bytes).unwrap();
            assert_eq!((array.number, array.len()), (number, 3), "{header}");
        }
    }

    #[test]
    fn a_written_header_is_aligned_and_parses_back() {
        for len in [0, 1, 12, 11_653_479, usize::MAX / 8] {
            let header = header(len);
            assert_eq!(header.len(), 128, "NumPy's length for an array of one axis");
            let found = Words(std::str::from_utf8(&header[10..]).unwrap()).header().unwrap();
            assert_eq!((found.number, found.len), (Number::F32, len));
        }
    }

    #[test]
    fn errors_describe_why_an_array_is_rejected() {
        let with = |descr: &str, order: &str, shape: &str| {
            read(&file(1, &format!("{{'descr': {descr}, 'fortran_order': {order}, 'shape': {shape}, }}\n"), 12)).unwrap_err()
        };
        for (error, words) in [
            (with("'>f4'", "False", "(3,)"), "'<f4', '<f8' or '<f2', little-endian numbers, found '>f4'"),
            (with("'|O'", "False", "(3,)"), "found '|O'"),
            (with("[('a', '<f4')]", "False", "(3,)"), "found \"[('a', '<f4')]"),
            (with("'<f4'", "True", "(3,)"), "expected fortran_order False in the header, found \"True"),
            (with("'<f4'", "False", "(3, 1)"), "a flat array, such as (3,) in the header, found \"(3, 1)"),
            (with("'<f4'", "False", "()"), "found \"(), }"),
            (with("'<f4'", "False", "(99999999999999999999999,)"), "found \"(99999999999999999999999,)"),
            (with("'<f4'", "False", "(4611686018427387905,)"), "expected 4611686018427387905 numbers of 4 bytes"),
            (with("'<f4'", "False", "(4,)"), "expected 4 numbers of 4 bytes each, as its header states, found 12 bytes"),
            (read(b"PK\x03\x04").unwrap_err(), "no \"\\x93NUMPY\" at its start"),
            (read(&file(4, "{}", 0)).unwrap_err(), "version 1.0, 2.0 or 3.0, found 4.0"),
            (read(&file(1, "{'descr': '<f4'}", 0)).unwrap_err(), "found fewer"),
            (read(&file(1, "{'descr': '<f4', 'descr': '<f4'}", 0)).unwrap_err(), "each once, found \"descr\""),
            (with("'<f4'", "False, 'fortran_order': False", "(3,)"), "each once, found \"fortran_order\""),
            (with("'<f4'", "False", "(3,), 'shape': (3,)"), "each once, found \"shape\""),
            (with("'<f4'", "False", "(3,)} more {"), "expected nothing after the header's } in the header, found \"more"),
        ] {
            assert!(error.contains(words), "{error}");
        }
    }

    /// Every prefix and every change of a byte gives an array or an error, and no panic.
    #[test]
    fn changed_or_truncated_bytes_do_not_panic() {
        let whole = [header(3), vec![0; 12]].concat();
        for end in 0..whole.len() {
            assert!(read(&whole[..end]).is_err(), "cut at {end}");
        }
        for at in 0..128 {
            for byte in 0..=255 {
                let mut bytes = whole.clone();
                bytes[at] = byte;
                if let Ok(array) = read(&bytes) {
                    assert!(array.data.len() <= bytes.len());
                }
            }
        }
    }
}
