//! Updates of sums, rows and parameters in place. A tensor whose buffer is shared is copied first.

use rayon::prelude::*;

use crate::cpu::gemm::Repacked;
use crate::operands::{AdamStep, Packed};
use crate::tensor::on_gpu;
use crate::{Real, Tensor};

impl<T: Real> Tensor<T> {
    /// Computes x ← x + y for tensors of one shape.
    #[track_caller]
    pub fn add_assign(&mut self, y: &Self) {
        assert_eq!(self.shape(), y.shape(), "add_assign: tensors of one shape");
        on_gpu!(mut x = self, y = y => gpu::assign(&x, &[y], "x + y", &[]));
        let (y, cpu) = (y.dense(), self.cpu());
        match self.get_mut() {
            Some(x) => (cpu.kernels.accumulate)(x, y.as_slice()),
            None => *self = self.add(&y),
        }
    }

    /// Computes x ← f(x, y) element by element for tensors of one shape: [`Tensor::elementwise`] in place. `wgsl` is f for a GPU:
    /// an expression of x, y and of at most four `constants` a, b, c and d.
    #[track_caller]
    pub fn zip_assign(&mut self, y: &Self, wgsl: &str, constants: &[f64], f: impl Fn(T, T) -> T + Sync) {
        assert_eq!(self.shape(), y.shape(), "zip_assign: tensors of one shape");
        on_gpu!(mut x = self, y = y => gpu::assign(&x, &[y], wgsl, &constants.iter().map(|&c| c as f32).collect::<Vec<_>>()));
        let y = y.dense();
        self.to_mut().par_iter_mut().with_min_len(1 << 14).zip(y.as_slice()).for_each(|(x, &y)| *x = f(*x, y));
    }

    /// Sets element `at`, in row-major order, to `value`.
    #[track_caller]
    pub fn set(&mut self, at: usize, value: T) {
        on_gpu!(mut x = self => {
            let at = x.reshaped([x.len()].into()).element(at);
            gpu::assign(&at, &[], "a", &[value.to_f64() as f32])
        });
        self.to_mut()[at] = value;
    }

    /// Sets this tensor, of one element, to NaN if `x` contains a NaN or an infinity. One mark may serve many tensors. On a GPU,
    /// nothing waits until the mark is read.
    #[track_caller]
    pub fn mark_non_finite(&mut self, x: &Self) {
        assert_eq!(self.len(), 1, "mark_non_finite: a mark of one element");
        on_gpu!(mut mark = self, x = x => gpu::mark_non_finite(&mark, &x));
        if !x.is_finite() {
            self.set(0, T::lit(f64::NAN));
        }
    }

    /// Adds row i of x (…, d) to row `ids[i]` of this table (V, d), in the order of i.
    #[track_caller]
    pub fn add_rows(&mut self, ids: &[u32], x: &Self) {
        on_gpu!(mut table = self, x = x => gpu::add_rows(&table, ids, &x));
        let d = self.shape()[1];
        (self.cpu().kernels.scatter_add)(self.to_mut(), d, ids, x.dense().as_slice());
    }

    /// Writes `rows` to the positions from `start` on along `axis`. The other extents must be equal.
    #[track_caller]
    pub fn write_rows(&mut self, axis: usize, start: usize, rows: &Self) {
        let (outer, n, inner) = self.shape().around(axis);
        let count = rows.shape()[axis];
        let fits = *rows.shape() == self.shape().with(axis, count) && start + count <= n;
        assert!(fits, "write_rows: {} at {start} of axis {axis} of {}", rows.shape(), self.shape());
        on_gpu!(mut to = self, rows = rows => gpu::write_rows(&to, axis, start, &rows));
        let rows = rows.dense();
        let to = self.to_mut();
        for o in 0..outer {
            let width = count * inner;
            to[(o * n + start) * inner..][..width].copy_from_slice(&rows.as_slice()[o * width..][..width]);
        }
    }

    /// Computes one step of Adam (Kingma and Ba 2015, algorithm 1) of these parameters and of their moments `m` and `v`, by the
    /// gradient `g` times `clip`. `clip` has one element; the other tensors have one shape. If `clip` is NaN, nothing changes.
    #[track_caller]
    pub fn adam(&mut self, step: &AdamStep, clip: &Self, m: &mut Self, v: &mut Self, g: &Self) {
        on_gpu!(mut [p = self, first = m, second = v], clip = clip, g = g => gpu::adam(step, &clip, [&p, &first, &second], &g));
        let clip = clip.item();
        if clip.to_f64().is_nan() {
            return;
        }
        let (adam, g) = (self.cpu().kernels.adam, g.dense());
        let packed = self.packed_forms().filter(|_| self.is_dense());
        let keys: Vec<_> = packed.into_iter().flat_map(Packed::keys).collect();
        self.to_mut(); // drops the packed forms, whose memory the new ones take
        let forms: Vec<_> = keys.into_iter().filter_map(Repacked::new).collect();
        if forms.is_empty() {
            return adam(step, clip, self.to_mut(), m.to_mut(), v.to_mut(), g.as_slice());
        }
        // The packed forms of a matrix are made again from each block of rows while it is in the cache.
        let size = (Repacked::ROWS * self.shape()[1]).max(1);
        let moments = m.to_mut().par_chunks_mut(size).zip(v.to_mut().par_chunks_mut(size));
        let blocks = self.to_mut().par_chunks_mut(size).zip(g.as_slice().par_chunks(size)).zip(moments);
        blocks.enumerate().for_each(|(i, ((p, g), (m, v)))| {
            adam(step, clip, p, m, v, g);
            if let Some(p) = T::as_f32s(p) {
                // SAFETY: each block of rows is packed once.
                forms.iter().for_each(|form| unsafe { form.rows(i * Repacked::ROWS, p) });
            }
        });
        if let Some(packed) = self.packed_forms() {
            forms.into_iter().for_each(|form| form.keep(packed));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// No two of the sizes and positions are equal.
    #[test]
    fn write_rows_writes_at_the_given_position() {
        let mut x = Tensor::<f64>::zeros([2, 5, 2]);
        x.write_rows(1, 2, &Tensor::new([2, 3, 2], (1..13).map(f64::from).collect()));
        let [o, p] = [[0.0; 2]; 2];
        let expected = [o, p, [1.0, 2.0], [3.0, 4.0], [5.0, 6.0], o, p, [7.0, 8.0], [9.0, 10.0], [11.0, 12.0]];
        assert_eq!(x.to_vec(), expected.concat());
    }

    #[test]
    fn add_rows_adds_rows_by_id() {
        let mut x = Tensor::new([3, 2], vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
        x.add_rows(&[2, 0, 2], &Tensor::new([3, 2], vec![10.0, 20.0, 30.0, 40.0, 50.0, 60.0]));
        assert_eq!(x.to_vec(), [31.0, 42.0, 3.0, 4.0, 65.0, 86.0]);
    }

    #[test]
    fn a_step_of_adam_moves_parameters_and_both_moments() {
        let step = AdamStep { beta1: 0.5, beta2: 0.75, step: 2.0, v_scale: 3.0, eps: 1.0, decay: 0.25, l2: 0.25 };
        let tensor = |x| Tensor::new([1], vec![x]);
        let (mut p, mut m, mut v) = (tensor(4.0), tensor(2.0), tensor(9.0));
        p.adam(&step, &tensor(f64::NAN), &mut m, &mut v, &tensor(4.0));
        assert_eq!((p.item(), m.item(), v.item()), (4.0, 2.0, 9.0));
        p.adam(&step, &tensor(0.5), &mut m, &mut v, &tensor(4.0)); // computed by hand in cpu/adam.rs
        assert_eq!((p.item(), m.item(), v.item()), (2.5, 2.5, 9.0));
    }

    #[test]
    fn elements_are_set_and_combined_one_by_one() {
        let mut x = Tensor::new([2, 2], vec![1.0, 2.0, 3.0, 4.0]);
        x.set(2, 5.0);
        x.zip_assign(&Tensor::new([2, 2], vec![10.0, 20.0, 30.0, 40.0]).t(), "x * y", &[], |x, y| x * y);
        assert_eq!(x.to_vec(), [10.0, 60.0, 100.0, 160.0]);
    }

    #[test]
    #[should_panic(expected = "write_rows: [2, 2, 2] at 2 of axis 1 of [2, 3, 2]")]
    fn rows_that_do_not_fit_are_named() {
        Tensor::<f64>::zeros([2, 3, 2]).write_rows(1, 2, &Tensor::zeros([2, 2, 2]));
    }

    #[test]
    fn adding_in_place_leaves_a_shared_buffer_unchanged() {
        let mut x = Tensor::new([2], vec![1.0, 2.0]);
        let (y, seen) = (Tensor::new([2, 1], vec![10.0, 20.0]).t().reshape([2]), x.clone());
        x.add_assign(&y);
        x.add_assign(&y);
        assert_eq!((x.to_vec(), seen.to_vec()), (vec![21.0, 42.0], vec![1.0, 2.0]));
        let at = x.as_slice().as_ptr();
        x.add_assign(&y);
        assert_eq!((x.to_vec(), x.as_slice().as_ptr()), (vec![31.0, 62.0], at), "nobody shares it");
    }

    #[test]
    #[should_panic(expected = "add_assign: tensors of one shape")]
    fn adding_tensors_of_two_shapes_panics() {
        Tensor::<f64>::zeros([3]).add_assign(&Tensor::zeros([1, 3]));
    }
}
