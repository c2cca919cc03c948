//! The conversion of numbers in files to f32.

use gradus_tensor::Tensor;

use super::source::Bytes;

/// The format of a number in a file; all are little-endian.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Number {
    F64,
    F32,
    F16,
    BF16,
}

impl Number {
    /// Returns the number of bytes of a number.
    pub fn size(self) -> usize {
        match self {
            Number::F64 => 8,
            Number::F32 => 4,
            Number::F16 | Number::BF16 => 2,
        }
    }
}

/// The number of elements that are converted at a time. A map's pages are released after each of these lots, so that reading a
/// file takes hardly more memory than its tensors.
const LOT: usize = 1 << 20;

/// Converts the numbers of `part`, which are a part of `file`, into `out`, of the same length.
pub(super) fn convert(file: &Bytes, part: &[u8], number: Number, out: &mut [f32]) {
    debug_assert_eq!(part.len(), out.len() * number.size());
    for (out, part) in out.chunks_mut(LOT).zip(part.chunks(LOT * number.size())) {
        match number {
            Number::F32 => each(part, f32::from_le_bytes, out),
            Number::F64 => each(part, |b| f64::from_le_bytes(b) as f32, out),
            Number::BF16 => each(part, |b| f32::from_bits(u32::from(u16::from_le_bytes(b)) << 16), out),
            Number::F16 => each(part, |b| half(u16::from_le_bytes(b)), out),
        }
        file.release(part);
    }
}

fn each<const N: usize>(bytes: &[u8], f: impl Fn([u8; N]) -> f32, out: &mut [f32]) {
    bytes.as_chunks::<N>().0.iter().zip(out).for_each(|(&b, x)| *x = f(b));
}

/// Returns a tensor whose elements `fill` writes in place.
#[expect(clippy::disallowed_methods, reason = "a file's numbers are on the CPU; a vector on the way would double their memory")]
pub(super) fn tensor(shape: &[usize], fill: impl FnOnce(&mut [f32])) -> Tensor<f32> {
    Tensor::write(shape, fill)
}

/// Converts an IEEE 754 half to f32: 1 sign, 5 exponent (bias 15), 10 fraction bits.
fn half(bits: u16) -> f32 {
    let sign = if bits >> 15 == 1 { -1.0 } else { 1.0 };
    let (exponent, fraction) = (i32::from(bits >> 10 & 31), f32::from(bits & 1023) / 1024.0);
    sign * match exponent {
        0 => fraction * 2f32.powi(-14),
        31 if fraction == 0.0 => f32::INFINITY,
        31 => f32::NAN,
        e => (1.0 + fraction) * 2f32.powi(e - 15),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_are_read_exactly() {
        let cases =
            [(0x3C00, 1.0), (0xC000, -2.0), (0x7BFF, 65504.0), (0x0001, 5.960_464_5e-8), (0x8000, 0.0), (0x7C00, f32::INFINITY)];
        for (bits, value) in cases {
            assert_eq!(half(bits), value, "{bits:#06x}");
        }
        assert!(half(0x7E00).is_nan());
    }

    #[test]
    fn long_files_are_converted_in_chunks() {
        let values: Vec<f32> = (0..2 * LOT + 3).map(|i| i as f32).collect();
        let file = Bytes::from(values.iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<u8>>());
        let mut out = vec![-1.0; values.len()];
        convert(&file, &file, Number::F32, &mut out);
        assert!(out == values);
    }

    #[test]
    fn numbers_of_every_form_are_converted() {
        let values = [0.0, -1.5, 3.25, f32::INFINITY];
        let bits = |of: fn(f32) -> Vec<u8>| values.iter().flat_map(|&x| of(x)).collect::<Vec<u8>>();
        let half = bits(|x| {
            let bits: u16 = if x == 0.0 {
                0
            } else if x == -1.5 {
                0xBE00
            } else if x == 3.25 {
                0x4280
            } else {
                0x7C00
            };
            bits.to_le_bytes().into()
        });
        for (number, bytes) in [
            (Number::F64, bits(|x| f64::from(x).to_le_bytes().into())),
            (Number::F32, bits(|x| x.to_le_bytes().into())),
            (Number::BF16, bits(|x| x.to_le_bytes()[2..].into())),
            (Number::F16, half),
        ] {
            let file = Bytes::from(bytes);
            assert_eq!(tensor(&[4], |out| convert(&file, &file, number, out)).to_vec(), values, "{number:?}");
        }
    }
}
