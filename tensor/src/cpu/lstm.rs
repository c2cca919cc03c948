//! Long short-term memory (Hochreiter and Schmidhuber 1997), with the forget gate of Gers, Schmidhuber and Cummins 2000.
//!
//! ```text
//! one step      i = σ(zᵢ),  f = σ(z_f),  g = tanh(z_g),  o = σ(zₒ)          z = [zᵢ | z_f | z_g | zₒ]
//!               c′ = f ∘ c + i ∘ g        t = tanh c′        h = o ∘ t
//! its VJP       s = c̄′ + h̄ ∘ o ∘ (1 − t²)                                   the whole cotangent of c′
//!               z̄ᵢ = s ∘ g ∘ i(1 − i)     z̄_f = s ∘ c ∘ f(1 − f)     z̄_g = s ∘ i ∘ (1 − g²)     z̄ₒ = h̄ ∘ t ∘ o(1 − o)
//!               c̄ = s ∘ f
//!
//! a sequence    zₜ = xₜ + hₜ₋₁ W        h₋₁ = c₋₁ = 0
//! its VJP       h̄ₜ = ȳₜ + z̄ₜ₊₁ Wᵀ       x̄ₜ = z̄ₜ       W̄ = Σₜ hₜ₋₁ᵀ z̄ₜ
//! ```
//!
//! Each step depends on the previous one. The fast kernel therefore packs W once and divides the units among threads, with all
//! four gates of a unit on one thread: the threads synchronise once per step. W̄ is one product over all steps.

use rayon::prelude::*;

use super::gemm::{Gemm, K_BLOCK, Products, Strided};
use super::parallel::Shared;
use super::{matmul, parallel, row_count, same_len};
use crate::Scalar;
use crate::buffer::with_scratch;
use crate::operands::{Mat, MatMut, Onto};
use crate::simd::{Elementary, vectorized};

/// Computes one step for rows of `units`. `gates` (B, 4H) holds z and is overwritten by [i | f | g | o]. The new cell `c` and the
/// output `h` (B, H) follow from the previous cell `before` (B, H).
pub fn naive_cell<T: Scalar>(units: usize, gates: &mut [T], before: &[T], c: &mut [T], h: &mut [T]) {
    check_cell("lstm_cell", units, &[gates.len()], &[before.len(), c.len(), h.len()]);
    let sigmoid = |z: T| T::one() / (T::one() + (-z).exp());
    for (row, gates) in gates.chunks_exact_mut(4 * units).enumerate() {
        for u in 0..units {
            let at = row * units + u;
            let [i, f, g, o] = [0, 1, 2, 3].map(|gate| gates[gate * units + u]);
            let [i, f, g, o] = [sigmoid(i), sigmoid(f), g.tanh(), sigmoid(o)];
            c[at] = f * before[at] + i * g;
            h[at] = o * c[at].tanh();
            [i, f, g, o].into_iter().enumerate().for_each(|(gate, a)| gates[gate * units + u] = a);
        }
    }
}

/// Computes the VJP of [`naive_cell`] from its results. `gc` holds c̄′ and is overwritten by c̄. Writes z̄ to `gz` (B, 4H).
pub fn naive_cell_vjp<T: Scalar>(units: usize, gates: &[T], before: &[T], c: &[T], gh: &[T], gc: &mut [T], gz: &mut [T]) {
    check_cell("lstm_cell_vjp", units, &[gates.len(), gz.len()], &[before.len(), c.len(), gh.len(), gc.len()]);
    let one = T::one();
    for (row, gates) in gates.chunks_exact(4 * units).enumerate() {
        for u in 0..units {
            let at = row * units + u;
            let [i, f, g, o] = [0, 1, 2, 3].map(|gate| gates[gate * units + u]);
            let t = c[at].tanh();
            let s = gc[at] + gh[at] * o * (one - t * t);
            let to = &mut gz[row * 4 * units + u..];
            to[0] = s * g * (i * (one - i));
            to[units] = s * before[at] * (f * (one - f));
            to[2 * units] = s * i * (one - g * g);
            to[3 * units] = gh[at] * t * (o * (one - o));
            gc[at] = s * f;
        }
    }
}

/// Computes all steps from x (T, B, 4H) and w (H, 4H): the gates (T, B, 4H), the cells c and the outputs h (T, B, H).
pub fn naive<T: Scalar>(x: &[T], w: &[T], [batch, units]: [usize; 2], gates: &mut [T], c: &mut [T], h: &mut [T]) {
    check("lstm", w.len(), [batch, units], &[x.len(), gates.len()], &[c.len(), h.len()]);
    let n = batch * units;
    let zeros = vec![T::zero(); n];
    gates.copy_from_slice(x);
    for (t, gates) in gates.chunks_exact_mut((4 * n).max(1)).enumerate() {
        let ((h_before, h), (c_before, c)) = (split(h, t, n), split(c, t, n));
        if let Some(h) = h_before {
            let to = MatMut::dense(gates, batch, 4 * units);
            matmul::naive(Mat::dense(h, batch, units), Mat::dense(w, units, 4 * units), to, Onto::Itself);
        }
        naive_cell(units, gates, c_before.unwrap_or(&zeros), c, h);
    }
}

/// Computes the VJP of [`naive`] from its results and ȳ (T, B, H): x̄ (T, B, 4H), and W̄ (H, 4H) if requested.
#[allow(clippy::too_many_arguments, reason = "operands and their sizes")]
pub fn naive_vjp<T: Scalar>(
    w: &[T],
    [batch, units]: [usize; 2],
    gates: &[T],
    c: &[T],
    h: &[T],
    gy: &[T],
    gx: &mut [T],
    gw: Option<&mut [T]>,
) {
    check("lstm_vjp", w.len(), [batch, units], &[gates.len(), gx.len()], &[c.len(), h.len(), gy.len()]);
    gw.iter().for_each(|gw| same_len("lstm_vjp", &[w.len(), gw.len()]));
    let n = batch * units;
    let (zeros, mut gc) = (vec![T::zero(); n], vec![T::zero(); n]);
    for t in (0..steps(h.len(), n)).rev() {
        let (gz, later) = gx[4 * t * n..].split_at_mut(4 * n);
        let mut gh = gy[t * n..][..n].to_vec();
        if !later.is_empty() {
            let (later, w) = (Mat::dense(later, batch, 4 * units), Mat::transposed(w, 4 * units, units));
            matmul::naive(later, w, MatMut::dense(&mut gh, batch, units), Onto::Itself);
        }
        let before = if t > 0 { &c[(t - 1) * n..][..n] } else { &zeros };
        naive_cell_vjp(units, &gates[4 * t * n..][..4 * n], before, &c[t * n..][..n], &gh, &mut gc, gz);
    }
    if let Some(gw) = gw {
        weight_gradient(matmul::naive, [batch, units], h, gx, gw);
    }
}

/// Computes W̄ = Σₜ hₜ₋₁ᵀ z̄ₜ as one product: (H, (T−1)·B)·((T−1)·B, 4H).
fn weight_gradient<T>(product: Product<T>, [batch, units]: [usize; 2], h: &[T], gx: &[T], gw: &mut [T]) {
    let rows = (h.len() / units).saturating_sub(batch);
    let gz = &gx[(4 * batch * units).min(gx.len())..];
    let (h, gz) = (Mat::transposed(h, units, rows), Mat::dense(gz, rows, 4 * units));
    product(h, gz, MatMut::dense(gw, units, 4 * units), Onto::Nothing);
}

type Product<T> = fn(Mat<'_, T>, Mat<'_, T>, MatMut<'_, T>, Onto<'_, T>);

/// Returns the number of steps of n elements.
fn steps(len: usize, n: usize) -> usize {
    len.checked_div(n).unwrap_or(0)
}

/// Returns step t − 1, unless t is the first, and step t to write, for steps of n elements.
fn split<T>(x: &mut [T], t: usize, n: usize) -> (Option<&[T]>, &mut [T]) {
    let (before, now) = x.split_at_mut(t * n);
    (t.checked_sub(1).map(|t| &before[t * n..]), &mut now[..n])
}

/// Panics unless the lengths `ones` are equal and whole rows of `units`, and the lengths `fours` are four times as large.
#[track_caller]
pub(crate) fn check_cell(kernel: &str, units: usize, fours: &[usize], ones: &[usize]) {
    assert!(units > 0, "{kernel}: at least one unit");
    row_count(kernel, ones[0], units);
    same_len(kernel, ones);
    fours.iter().for_each(|&len| same_len(kernel, &[4 * ones[0], len]));
}

/// Panics unless the lengths pass [`check_cell`] and are whole steps of a batch, and W has 4·units² elements.
#[track_caller]
pub(crate) fn check(kernel: &str, w: usize, [batch, units]: [usize; 2], fours: &[usize], ones: &[usize]) {
    check_cell(kernel, units, fours, ones);
    same_len(kernel, &[4 * units * units, w]);
    row_count(kernel, ones[0], batch * units);
}

/// Computes [`naive_cell`], vectorised and parallel by rows.
pub fn fast_cell<T: Gemm>(units: usize, gates: &mut [T], before: &[T], c: &mut [T], h: &mut [T]) {
    check_cell("lstm_cell", units, &[gates.len()], &[before.len(), c.len(), h.len()]);
    let rows = |gates: &mut [T], before: &[T], c: &mut [T], h: &mut [T]| {
        let states = before.chunks_exact(units).zip(c.chunks_exact_mut(units)).zip(h.chunks_exact_mut(units));
        for (gates, ((before, c), h)) in gates.chunks_exact_mut(4 * units).zip(states) {
            let [i, f, g, o] = quarters(gates);
            cell(i, f, g, o, before, c, h);
        }
    };
    if !parallel::worth_it(gates.len()) {
        return rows(gates, before, c, h);
    }
    let n = parallel::rows_per_chunk(4 * units) * units;
    let states = before.par_chunks(n).zip(c.par_chunks_mut(n)).zip(h.par_chunks_mut(n));
    gates.par_chunks_mut(4 * n).zip(states).for_each(|(gates, ((before, c), h))| rows(gates, before, c, h));
}

/// Computes [`naive_cell_vjp`], vectorised and parallel by rows.
pub fn fast_cell_vjp<T: Gemm>(units: usize, gates: &[T], before: &[T], c: &[T], gh: &[T], gc: &mut [T], gz: &mut [T]) {
    check_cell("lstm_cell_vjp", units, &[gates.len(), gz.len()], &[before.len(), c.len(), gh.len(), gc.len()]);
    let row = |(row, (gc, gz)): (usize, (&mut [T], &mut [T]))| {
        let at = row * units;
        let [before, c, gh] = [before, c, gh].map(|x| &x[at..][..units]);
        let [i, f, g, o] = [0, 1, 2, 3].map(|gate| &gates[4 * at + gate * units..][..units]);
        let [gi, gf, gg, go] = quarters(gz);
        cell_vjp(i, f, g, o, before, c, gh, gc, gi, gf, gg, go);
    };
    if !parallel::worth_it(gates.len()) {
        return gc.chunks_exact_mut(units).zip(gz.chunks_exact_mut(4 * units)).enumerate().for_each(row);
    }
    let least = parallel::rows_per_chunk(4 * units);
    gc.par_chunks_exact_mut(units).zip(gz.par_chunks_exact_mut(4 * units)).enumerate().with_min_len(least).for_each(row);
}

/// Returns the four gates of a row.
fn quarters<T>(row: &mut [T]) -> [&mut [T]; 4] {
    let (low, high) = row.split_at_mut(row.len() / 2);
    let ((i, f), (g, o)) = (low.split_at_mut(low.len() / 2), high.split_at_mut(high.len() / 2));
    [i, f, g, o]
}

vectorized! {
    /// Computes one row, with the gates in place.
    fn cell<T: Gemm>(i: &mut [T], f: &mut [T], g: &mut [T], o: &mut [T], before: &[T], c: &mut [T], h: &mut [T]) {
        let n = h.len();
        let (i, f, g, o) = (&mut i[..n], &mut f[..n], &mut g[..n], &mut o[..n]);
        let (before, c) = (&before[..n], &mut c[..n]);
        for u in 0..n {
            i[u] = i[u].fast_sigmoid::<FMA>();
            f[u] = f[u].fast_sigmoid::<FMA>();
            g[u] = g[u].fast_tanh::<FMA>();
            o[u] = o[u].fast_sigmoid::<FMA>();
            c[u] = f[u] * before[u] + i[u] * g[u];
            h[u] = o[u] * c[u].fast_tanh::<FMA>();
        }
    }
}

vectorized! {
    /// Computes the VJP of one row, with gc in place.
    fn cell_vjp<T: Gemm>(
        i: &[T], f: &[T], g: &[T], o: &[T], before: &[T], c: &[T], gh: &[T],
        gc: &mut [T], gi: &mut [T], gf: &mut [T], gg: &mut [T], go: &mut [T],
    ) {
        let (n, one) = (gc.len(), T::one());
        let (i, f, g, o) = (&i[..n], &f[..n], &g[..n], &o[..n]);
        let (before, c, gh) = (&before[..n], &c[..n], &gh[..n]);
        let (gi, gf, gg, go) = (&mut gi[..n], &mut gf[..n], &mut gg[..n], &mut go[..n]);
        for u in 0..n {
            let t = c[u].fast_tanh::<FMA>();
            let s = gc[u] + gh[u] * o[u] * (one - t * t);
            gi[u] = s * g[u] * (i[u] * (one - i[u]));
            gf[u] = s * before[u] * (f[u] * (one - f[u]));
            gg[u] = s * i[u] * (one - g[u] * g[u]);
            go[u] = gh[u] * t * (o[u] * (one - o[u]));
            gc[u] = s * f[u];
        }
    }
}

/// The number of multiplications per step from which a second thread pays off.
const WORTH_IT: usize = 1 << 19;

/// The bytes of a packed factor that stay in a core's second-level cache while the rows of a batch pass, one strip at a time.
const IN_CACHE: usize = 512 << 10;

/// Returns the number of units per piece, in whole panels of the product.
fn piece_width<T>([batch, units]: [usize; 2]) -> usize {
    let threads = if 4 * batch * units * units < WORTH_IT { 1 } else { rayon::current_num_threads() };
    units.div_ceil(threads).next_multiple_of(32).min(IN_CACHE / K_BLOCK / size_of::<T>())
}

/// A range of units, and their columns of the packed factor: one part per gate for W, one part for Wᵀ.
#[derive(Debug)]
struct Piece<P, const N: usize> {
    first: usize,
    units: usize,
    packed: [P; N],
}

/// Cuts the units of `sizes` into pieces and calls `f` with them. For the units from `first` on, part `part` of the right factor
/// starts at `w[start(first, part)]` and has `k` rows and one column per unit, with these strides.
fn with_pieces<T: Gemm, P: Products<T>, const N: usize, R>(
    sizes: [usize; 2],
    w: &[T],
    [k, row, col]: [usize; 3],
    start: impl Fn(usize, usize) -> usize + Sync,
    f: impl FnOnce(&[Piece<P::Packed<'_>, N>]) -> R,
) -> R {
    let (units, width) = (sizes[1], piece_width::<T>(sizes));
    let each = P::packed_len(k, width);
    with_scratch(N * each * units.div_ceil(width), |space| {
        let pieces: Vec<_> = space
            .par_chunks_mut(N * each)
            .enumerate()
            .map(|(piece, space)| {
                let first = piece * width;
                let columns = width.min(units - first);
                let mut spaces = space.chunks_mut(each);
                let packed = std::array::from_fn(|part| {
                    let (space, b) = (spaces.next().expect("a space for each part"), &w[start(first, part)..]);
                    assert!((k - 1) * row + (columns - 1) * col < b.len(), "a part of the factor leaves its slice");
                    // SAFETY: the last element of the part lies in the slice.
                    unsafe {
                        P::pack(
                            Strided { at: b.as_ptr(), strides: [row, col] },
                            k,
                            columns,
                            &mut space[..P::packed_len(k, columns)],
                        )
                    }
                });
                Piece { first, units: columns, packed }
            })
            .collect();
        f(&pieces)
    })
}

/// Applies f to each piece. A single piece is processed on the calling thread.
fn each_piece<P: Sync, const N: usize>(pieces: &[Piece<P, N>], f: impl Fn(&Piece<P, N>) + Sync + Send) {
    match pieces {
        [one] => f(one),
        _ => pieces.par_iter().for_each(f),
    }
}

/// Computes [`naive`]. W is packed once, and the units are processed in parallel.
pub fn fast<T: Gemm, P: Products<T>>(x: &[T], w: &[T], [batch, units]: [usize; 2], gates: &mut [T], c: &mut [T], h: &mut [T]) {
    check("lstm", w.len(), [batch, units], &[x.len(), gates.len()], &[c.len(), h.len()]);
    let n = batch * units;
    if n == 0 {
        return;
    }
    with_scratch(units, |zeros| {
        zeros.fill(T::zero());
        if batch == 1 {
            // A single row reads W in place: packing would cost more than it saves.
            for (t, (x, gates)) in x.chunks_exact(4 * n).zip(gates.chunks_exact_mut(4 * n)).enumerate() {
                let ((h_before, h), (c_before, c)) = (split(h, t, n), split(c, t, n));
                gates.copy_from_slice(x);
                if let Some(h) = h_before {
                    P::matmul(Mat::dense(h, 1, n), Mat::dense(w, n, 4 * n), MatMut::dense(gates, 1, 4 * n), Onto::Itself);
                }
                fast_cell(units, gates, c_before.unwrap_or(zeros), c, h);
            }
            return;
        }
        let gate = |first, gate| gate * units + first;
        with_pieces::<T, P, 4, _>([batch, units], w, [units, 4 * units, 1], gate, |pieces| {
            for (t, (x, gates)) in x.chunks_exact(4 * n).zip(gates.chunks_exact_mut(4 * n)).enumerate() {
                let ((h_before, h), (c_before, c)) = (split(h, t, n), split(c, t, n));
                let (gates, c, h) = (Shared::new(gates), Shared::new(c), Shared::new(h));
                each_piece(pieces, |piece| {
                    let (first, count) = (piece.first, piece.units);
                    for (gate, packed) in piece.packed.iter().enumerate() {
                        for at in (0..batch).map(|b| (4 * b + gate) * units + first) {
                            // SAFETY: the range lies in row b of the step, and no other piece writes these units of the gate.
                            unsafe { gates.slice(at, count) }.copy_from_slice(&x[at..][..count]);
                        }
                        let Some(h) = h_before else { continue };
                        let h = Strided { at: h.as_ptr(), strides: [units, 1] };
                        let to = gates.at(gate * units + first);
                        // SAFETY: h holds (B, H) and is not written; no other piece writes these columns.
                        unsafe { P::times(packed, [batch, units, count], h, 0, to, 4 * units, Onto::Itself) };
                    }
                    for b in 0..batch {
                        let at = b * units + first;
                        let before = c_before.map_or(&zeros[..count], |c| &c[at..][..count]);
                        // SAFETY: as above: no other piece writes these units of row b, and the four gates do not overlap.
                        let ([i, f, g, o], c, h) = unsafe {
                            let gate = |gate| gates.slice((4 * b + gate) * units + first, count);
                            ([gate(0), gate(1), gate(2), gate(3)], c.slice(at, count), h.slice(at, count))
                        };
                        cell(i, f, g, o, before, c, h);
                    }
                });
            }
        });
    });
}

/// Computes [`naive_vjp`]. Wᵀ is packed once, the units are processed in parallel, and W̄ is one product at the end.
#[expect(clippy::too_many_lines, reason = "one way back through time, for one sequence and for pieces of many")]
#[allow(clippy::too_many_arguments, reason = "operands and their sizes")]
pub fn fast_vjp<T: Gemm, P: Products<T>>(
    w: &[T],
    [batch, units]: [usize; 2],
    gates: &[T],
    c: &[T],
    h: &[T],
    gy: &[T],
    gx: &mut [T],
    gw: Option<&mut [T]>,
) {
    check("lstm_vjp", w.len(), [batch, units], &[gates.len(), gx.len()], &[c.len(), h.len(), gy.len()]);
    gw.iter().for_each(|gw| same_len("lstm_vjp", &[w.len(), gw.len()]));
    let n = batch * units;
    let steps = steps(h.len(), n);
    // Step t: its gates, and the cells before and after it.
    let step = |t: usize| (&gates[4 * t * n..][..4 * n], t.checked_sub(1).map(|t| &c[t * n..][..n]), &c[t * n..][..n]);
    with_scratch(units + 2 * n, |scratch| {
        let (zeros, scratch) = scratch.split_at_mut(units);
        let (gh, gc) = scratch.split_at_mut(n);
        zeros.fill(T::zero());
        gc.fill(T::zero());
        if batch == 1 {
            for t in (0..steps).rev() {
                let ((gates, before, c), (gz, later)) = (step(t), gx[4 * t * n..].split_at_mut(4 * n));
                gh.copy_from_slice(&gy[t * n..][..n]);
                if !later.is_empty() {
                    let (later, w) = (Mat::dense(later, 1, 4 * n), Mat::transposed(w, 4 * n, n));
                    P::matmul(later, w, MatMut::dense(gh, 1, n), Onto::Itself);
                }
                fast_cell_vjp(units, gates, before.unwrap_or(zeros), c, gh, gc, gz);
            }
            return;
        }
        if n == 0 {
            return;
        }
        with_pieces::<T, P, 1, _>(
            [batch, units],
            w,
            [4 * units, 1, 4 * units],
            |first, _| first * 4 * units,
            |pieces| {
                let (gh, gc) = (Shared::new(gh), Shared::new(gc));
                for t in (0..steps).rev() {
                    let ((gates, before, c), (gz, later)) = (step(t), gx[4 * t * n..].split_at_mut(4 * n));
                    let (gy, gz, later) = (&gy[t * n..][..n], Shared::new(gz), &*later);
                    each_piece(pieces, |piece| {
                        let (first, count) = (piece.first, piece.units);
                        for at in (0..batch).map(|b| b * units + first) {
                            // SAFETY: the range lies in row b, and no other piece writes these units.
                            unsafe { gh.slice(at, count) }.copy_from_slice(&gy[at..][..count]);
                        }
                        if !later.is_empty() {
                            let later = Strided { at: later.as_ptr(), strides: [4 * units, 1] };
                            // SAFETY: z̄ₜ₊₁ holds (B, 4H) and is not written; no other piece writes these columns of h̄.
                            unsafe {
                                P::times(&piece.packed[0], [batch, 4 * units, count], later, 0, gh.at(first), units, Onto::Itself)
                            };
                        }
                        for b in 0..batch {
                            let at = b * units + first;
                            let before = before.map_or(&zeros[..count], |c| &c[at..][..count]);
                            let [i, f, g, o] = [0, 1, 2, 3].map(|gate| &gates[(4 * b + gate) * units + first..][..count]);
                            // SAFETY: as above: no other piece writes these units of row b, and the four gates do not overlap.
                            let (gh, gc, [gi, gf, gg, go]) = unsafe {
                                let gate = |gate| gz.slice((4 * b + gate) * units + first, count);
                                (gh.slice(at, count), gc.slice(at, count), [gate(0), gate(1), gate(2), gate(3)])
                            };
                            cell_vjp(i, f, g, o, before, &c[at..][..count], gh, gc, gi, gf, gg, go);
                        }
                    });
                }
            },
        );
    });
    if let Some(gw) = gw {
        weight_gradient(P::matmul, [batch, units], h, gx, gw);
    }
}

#[cfg(test)]
mod tests {
    use super::super::gemm::{Bf16, Fused};
    use super::super::testing::*;
    use super::*;

    fn rows_alone<T: Gemm, P: Products<T>>() {
        let (steps, batch, units) = (4, 3, 290);
        let n = batch * units;
        let x: Vec<T> = normals(steps * 4 * n, 1);
        let w: Vec<T> = normals::<T>(4 * units * units, 2).into_iter().map(|w| w * T::lit(0.03)).collect();
        let run = |x: &[T], batch: usize| {
            let (mut gates, mut c, mut h) = (x.to_vec(), vec![T::one(); x.len() / 4], vec![T::one(); x.len() / 4]);
            fast::<T, P>(x, &w, [batch, units], &mut gates, &mut c, &mut h);
            h
        };
        let all = run(&x, batch);
        for b in 0..batch {
            let alone: Vec<T> = (0..steps).flat_map(|t| x[4 * (t * n + b * units)..][..4 * units].to_vec()).collect();
            for (t, h) in run(&alone, 1).chunks(units).enumerate() {
                assert_eq!(h, &all[t * n + b * units..][..units], "sequence {b}, step {t}");
            }
        }
    }

    #[test]
    fn a_sequence_has_the_same_bits_alone_and_among_others() {
        rows_alone::<f32, Fused>();
        rows_alone::<f64, Fused>();
        rows_alone::<f32, Bf16>();
    }

    /// Checks W̄ = Σₜ hₜ₋₁ᵀ z̄ₜ summand by summand, since the kernel and its definition share that product.
    #[test]
    fn the_gradient_of_the_weights_sums_over_steps_and_rows() {
        for (steps, batch, units) in [(1, 2, 3), (4, 1, 3), (4, 2, 3), (3, 5, 2)] {
            let n = batch * units;
            let (x, w, gy): (Vec<f64>, Vec<f64>, Vec<f64>) =
                (normals(4 * steps * n, 1), normals(4 * units * units, 2), normals(steps * n, 3));
            let (mut gates, mut c, mut h) = (x.clone(), vec![0.0; steps * n], vec![0.0; steps * n]);
            naive(&x, &w, [batch, units], &mut gates, &mut c, &mut h);
            let (mut gx, mut gw) = (vec![0.0; x.len()], vec![9.0; w.len()]);
            naive_vjp(&w, [batch, units], &gates, &c, &h, &gy, &mut gx, Some(&mut gw));
            let mut expected = vec![0.0; w.len()];
            for t in 1..steps {
                for b in 0..batch {
                    let (before, gz) = (&h[(t - 1) * n + b * units..][..units], &gx[4 * (t * n + b * units)..][..4 * units]);
                    for (i, h) in before.iter().enumerate() {
                        gz.iter().enumerate().for_each(|(j, gz)| expected[i * 4 * units + j] += h * gz);
                    }
                }
            }
            assert_close(&gw, &expected, 1e-14, 1.0); // a dozen summands in another order
            // x̄ is the derivative of ⟨ȳ, h⟩, by central differences: the truncation error is about (1e-5)², the rounding error
            // 1e-16/1e-5.
            let loss = |x: &[f64]| -> f64 {
                let (mut gates, mut c, mut h) = (x.to_vec(), vec![0.0; steps * n], vec![0.0; steps * n]);
                naive(x, &w, [batch, units], &mut gates, &mut c, &mut h);
                h.iter().zip(&gy).map(|(h, gy)| h * gy).sum()
            };
            for i in 0..x.len() {
                let [more, less] = [1e-5, -1e-5].map(|step| {
                    let mut x = x.clone();
                    x[i] += step;
                    loss(&x)
                });
                assert!((gx[i] - (more - less) / 2e-5).abs() < 1e-8, "element {i}");
            }
        }
    }

    #[test]
    fn far_pre_activations_saturate() {
        // i open, g saturated at 1, f and o open in the first row and closed in the second: c′ = c + 1 or 1.
        let (mut c, mut h) = ([0.0f32; 2], [0.0f32; 2]);
        fast_cell(1, &mut [1e4, 1e4, 1e4, 1e4, 1e4, -1e4, 1e4, -1e4], &[3.0, 3.0], &mut c, &mut h);
        assert_eq!((c, h[1]), ([4.0, 1.0], 0.0));
        assert!((h[0] - Scalar::tanh(4f32)).abs() < 1e-6);
    }
}
