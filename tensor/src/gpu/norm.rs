//! The norm of many tensors together. It stays on the device until it is read, with other numbers.

use super::squares::{Squares, norm_into};
use super::tree::row_shader;
use super::{Array, copy, map, word};
use crate::cpu::same_len;
use crate::device::DeviceError;

/// A table with one row of [`norm_into`] per tensor, followed by some numbers; and ‖x‖ of all tensors together.
#[derive(Debug)]
pub(crate) struct NormTable {
    table: Array,
    rows: usize,
    norm: Array,
}

impl NormTable {
    /// Computes the table of these tensors and of these numbers, of one element each. At least one tensor or number is required.
    pub fn of(tensors: &[Array], numbers: &[Array]) -> Self {
        let gpu = tensors.iter().chain(numbers).next().expect("a tensor or a number").gpu();
        let rows = tensors.len();
        let table = Array::unwritten(gpu, [3 * rows + numbers.len()].into());
        tensors.iter().enumerate().for_each(|(row, x)| norm_into(x, &table, row));
        for (i, x) in numbers.iter().enumerate() {
            same_len("norm", &[x.len(), 1]);
            copy::copy(&x.dense().reshaped([1].into()), &table.element(3 * rows + i));
        }
        let norm = Array::unwritten(gpu, [].into());
        let params = [word(rows), word(numbers.len()), f32::NAN.to_bits()];
        gpu.dispatch(&row_shader!(64 threads, "norm"), &params, &[&norm.buffer], &[&table.buffer], 1);
        NormTable { table, rows, norm }
    }

    /// Computes `expression` of the norm x and of constants by [`map`]; NaN if a tensor or a number is not finite.
    pub fn map(&self, expression: &str, constants: &[f32]) -> Array {
        let nan = format!("select(x, {expression}, is_number(x))");
        map(std::slice::from_ref(&self.norm), &nan, constants)
    }

    /// Reads Σ x² of each tensor, and the numbers.
    pub fn read(&self) -> Result<(Vec<f64>, Vec<f64>), DeviceError> {
        let words = self.table.buffer.read(self.table.layout.range()).wait()?;
        let (rows, numbers) = words.split_at(3 * self.rows);
        let squares = rows.chunks(3).map(|row| Squares::new(row).total()).collect();
        Ok((squares, numbers.iter().map(|&x| x.into()).collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{gpu, on};
    use crate::{GlobalNorm, Tensor};

    #[test]
    fn norms_of_every_magnitude_are_accurate_and_guarded() {
        let Some(gpu) = gpu() else { return };
        let vector = |values: &[f32]| on(&gpu, &Tensor::new([values.len()], values.to_vec()));
        let of = |tensors: &[&Tensor], loss: f32| {
            let norm = GlobalNorm::of(tensors, &[&on(&gpu, &Tensor::scalar(loss))]);
            let read = norm.read().unwrap();
            (norm.map("a / x", &[10.0], |_| unreachable!("on a GPU")).item(), read.norm(), read.numbers)
        };
        let close = |found: f64, expected: f64| (found / expected - 1.0).abs() < 1e-6;
        assert_eq!(of(&[&vector(&[3.0, 0.0]), &vector(&[4.0])], 0.5), (2.0, 5.0, vec![0.5]));
        let (factor, norm, _) = of(&[&vector(&[3e30]), &vector(&[1e-30, 4e30])], 1.0);
        assert!(close(norm, 5e30) && close(factor.into(), 2e-30), "{norm} {factor}");
        let (factor, norm, _) = of(&[&vector(&[3e-30, 4e-30]), &vector(&[])], 1.0);
        assert!(close(norm, 5e-30) && close(factor.into(), 2e30), "{norm} {factor}");
        for wrong in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            assert!(of(&[&vector(&[1.0, wrong]), &vector(&[4.0])], 1.0).0.is_nan());
            let (factor, norm, numbers) = of(&[&vector(&[3.0, 4.0])], wrong);
            assert!(factor.is_nan() && norm == 5.0 && !numbers[0].is_finite());
        }
    }
}
