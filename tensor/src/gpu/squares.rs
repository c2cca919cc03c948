//! Sums Σ x² whose squares may overflow or underflow, and the test whether all elements are finite.

use super::tree::{TREE_THREADS, row_shader};
use super::{Array, word};

/// The elements of a workgroup, if at most [`BLOCKS`] workgroups are needed.
const BLOCK: usize = 16 * TREE_THREADS;
const BLOCKS: usize = 1024;

/// A row of [`norm_into`], read from its table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Squares {
    scale: f32,
    sum: f32,
    largest: f32,
}

impl Squares {
    /// Returns the row with these three numbers.
    pub fn new(row: &[f32]) -> Self {
        Squares { scale: row[0], sum: row[1], largest: row[2] }
    }

    /// Returns Σ x²; ∞ or NaN if an element is ∞ or NaN.
    pub fn total(&self) -> f64 {
        if self.all_finite() { f64::from(self.scale).powi(2) * f64::from(self.sum) } else { f64::from(self.largest) }
    }

    pub fn all_finite(&self) -> bool {
        self.largest.is_finite()
    }

    /// Returns whether an element is not zero. Compares bits, since a device may flush denormals to 0.
    pub fn any_nonzero(&self) -> bool {
        self.largest.to_bits() != 0
    }
}

/// Writes [s, Σ (x/s)², largest |x|] for a power of two s to row `row` of `table` (…, 3), to be read as [`Squares`]. Many arrays
/// may use one table, which is then read at once.
pub(crate) fn norm_into(x: &Array, table: &Array, row: usize) {
    let x = x.dense();
    let blocks = x.len().div_ceil(BLOCK).clamp(1, BLOCKS);
    if blocks == 1 {
        return run(&x, x.len(), 1, table, row, false);
    }
    let parts = Array::unwritten(x.gpu(), [blocks, 3].into());
    run(&x, x.len(), blocks, &parts, 0, false);
    run(&parts, blocks, 1, table, row, true);
}

fn run(x: &Array, n: usize, blocks: usize, table: &Array, row: usize, join: bool) {
    let at = table.at() + word(3 * row);
    let params = [word(n), word(n.div_ceil(blocks)), word(blocks), x.at(), at, join.into()];
    let shader = row_shader!(256 threads, "squares");
    x.gpu().dispatch(&shader, &params, &[&table.buffer], &[&x.buffer], blocks);
}

/// Reads the [`Squares`] of x from the device.
pub(crate) fn squares(x: &Array) -> Squares {
    let table = Array::unwritten(x.gpu(), [1, 3].into());
    norm_into(x, &table, 0);
    Squares::new(&table.read())
}

#[cfg(test)]
mod tests {
    use super::super::testing::{gpu, on};
    use super::{Array, Squares, norm_into};
    use crate::Tensor;
    use crate::rng::Philox;

    /// A tree of f32 is within a few units in the last place, at every magnitude.
    #[test]
    fn sums_of_squares_are_accurate_at_every_magnitude() {
        let Some(gpu) = gpu() else { return };
        let mut rng = Philox::new(3);
        for (n, std) in [(1, 1.0), (100, 3e30), (4097, 1e37), (9001, 1e-30), (12_345, 1.0), (0, 1.0)] {
            let x = Tensor::<f32>::normal([n], std, &mut rng);
            let (there, expected) = (on(&gpu, &x), x.sum_squares());
            let found = there.sum_squares();
            assert!((found - expected).abs() <= 3e-7 * expected, "{n} of {std}: {found}, expected {expected}");
            assert_eq!(there.sum_squares().to_bits(), found.to_bits());
            assert_eq!((there.is_finite(), there.any_nonzero()), (true, n > 0));
        }
        let mixed = Tensor::new([5000], (0..5000u16).map(|i| if i % 1000 == 3 { 1e30 } else { 1e-3 }).collect());
        let found = on(&gpu, &mixed).sum_squares();
        assert!((found / mixed.sum_squares() - 1.0).abs() < 3e-7);
        let x = on(&gpu, &Tensor::new([2, 2], vec![1.0, 2.0, 3.0, f32::MAX]));
        assert_eq!(x.t().slice(0, 0..1).sum_squares(), 10.0);
        assert!((x.sum_squares().sqrt() / f64::from(f32::MAX) - 1.0).abs() < 1e-7);
    }

    #[test]
    fn several_norms_are_computed_and_read_together() {
        let Some(gpu) = gpu() else { return };
        let lengths = [3, 5000, 0, 1];
        let there: Vec<Tensor> = lengths.iter().map(|&n| on(&gpu, &Tensor::full([n], 2.0))).collect();
        let arrays: Vec<Array> = there.iter().map(|x| x.array().expect("on the GPU")).collect();
        let table = Array::unwritten(arrays[0].gpu(), [4, 3].into());
        arrays.iter().enumerate().for_each(|(row, x)| norm_into(x, &table, row));
        let totals: Vec<f64> = table.read().chunks(3).map(|row| Squares::new(row).total()).collect();
        assert_eq!(totals, lengths.map(|n| 4.0 * n as f64));
    }

    #[test]
    fn one_non_finite_element_among_many_is_detected() {
        let Some(gpu) = gpu() else { return };
        for n in [1, 70, 5000] {
            for at in [0, n / 2, n - 1] {
                let with = |value: f32| {
                    let mut values = vec![0.0; n];
                    values[at] = value;
                    on(&gpu, &Tensor::new([n], values))
                };
                assert!(with(f32::INFINITY).sum_squares() == f64::INFINITY && with(f32::NAN).sum_squares().is_nan());
                assert!([f32::INFINITY, f32::NEG_INFINITY, f32::NAN].iter().all(|&x| !with(x).is_finite()));
                assert!(
                    with(f32::MAX).is_finite() && with(f32::MIN_POSITIVE / 4.0).any_nonzero() && with(f32::NAN).any_nonzero()
                );
                assert!(!with(-0.0).any_nonzero());
            }
        }
    }
}
