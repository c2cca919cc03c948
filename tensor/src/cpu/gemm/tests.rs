use super::super::testing::*;
use super::*;

#[cfg(target_arch = "x86_64")]
fn layouts(rows: usize, cols: usize) -> [[usize; 2]; 5] {
    [[cols + 2, 1], [1, rows + 1], [2 * cols, 2], [1, 0], [0, 1]] // the last two are broadcast
}

#[cfg(target_arch = "x86_64")]
fn has_the_bits_of_its_definition<T: Gemm>(tiles: &Tiles<T>) {
    for [m, k, n] in [[1, 1, 1], [3, 0, 5], [15, 7, 33], [29, 300, 70], [6, 513, 16], [40, 20, 700], [14, 256, 32]] {
        let (a, b): (Vec<T>, Vec<T>) = (normals(2 * (m + 2) * (k + 2), 1), normals(2 * (k + 2) * (n + 2), 2));
        let (row, ld): (Vec<T>, usize) = (normals(n, 3), n + 3);
        for a_strides in layouts(m, k) {
            for b_strides in layouts(k, n) {
                let a_at = |i, p| a[i * a_strides[0] + p * a_strides[1]];
                let b_at = |p, j| b[p * b_strides[0] + j * b_strides[1]];
                let (a, b) = (Strided { at: a.as_ptr(), strides: a_strides }, Strided { at: b.as_ptr(), strides: b_strides });
                for onto in [Onto::Nothing, Onto::Itself, Onto::Row(&row[..n])] {
                    let before: Vec<T> = normals(m * ld, 4);
                    let mut c = before.clone();
                    // SAFETY: the vectors hold all elements that the strides reach, and C (m, ld).
                    unsafe { product_by(tiles, [m, k, n], a, b, c.as_mut_ptr(), ld, onto) };
                    for (at, &c) in c.iter().enumerate() {
                        let (i, j) = (at / ld, at % ld);
                        let start = match onto {
                            Onto::Nothing if j < n => T::zero(),
                            Onto::Row(row) if j < n => row[j],
                            _ => before[at],
                        };
                        // Each block of k is a chain of fused multiply-adds. Elements past the columns of C do not change.
                        let k = if j < n { k } else { 0 };
                        let chain = |sum, p| T::fused(a_at(i, p), b_at(p, j), sum);
                        let block = |p: usize| (p..k.min(p + K_BLOCK)).fold(T::zero(), chain);
                        let expected = (0..k).step_by(K_BLOCK).map(block).fold(start, |c, sum| c + sum);
                        assert!(c == expected, "({m}, {k}, {n}) {onto:?} [{i}, {j}]: {c:?} for {expected:?}");
                    }
                }
            }
        }
    }
}

#[test]
#[cfg(target_arch = "x86_64")]
fn every_tile_has_the_bits_of_the_definition() {
    let (single, double) = tile::available();
    let kinds = usize::from(f32::tiles().is_some());
    assert!(single.len() >= kinds && double.len() >= kinds, "those that are used are tested");
    single.into_iter().for_each(has_the_bits_of_its_definition);
    double.into_iter().for_each(has_the_bits_of_its_definition);
}

fn packed_once<T: Gemm>() {
    let [m, deepest, widest] = [30, 300, 75];
    let (a, b): (Vec<T>, Vec<T>) = (normals(m * deepest, 1), normals(deepest * widest, 2));
    let (a, b) = (Strided { at: a.as_ptr(), strides: [deepest, 1] }, Strided { at: b.as_ptr(), strides: [1, deepest] });
    let mut space = vec![T::one(); Packed::<T>::len(deepest, widest)];
    let whole = [[0, 300, 75], [0, 300, 40], [0, 290, 33], [0, 120, 75], [0, 0, 3]].map(|part| (deepest, part));
    for (depth, [first, k, n]) in whole.into_iter().chain([(40, [7, 33, 75])]) {
        for onto in [Onto::Nothing, Onto::Itself] {
            let (mut want, mut got) = (vec![T::one(); m * n], vec![T::one(); m * n]);
            // SAFETY: the vectors hold their matrices.
            unsafe {
                product([m, k, n], a, b.from(first, 0), want.as_mut_ptr(), n, onto);
                let packed = Packed::new(b, depth, widest, &mut space);
                packed.times([m, k, n], a, first, got.as_mut_ptr(), n, onto);
            }
            assert_eq!(got, want, "{k} rows of {depth} from {first} on, {n} columns");
        }
    }
}

#[test]
fn any_part_of_a_packed_factor_can_be_multiplied() {
    packed_once::<f32>();
    packed_once::<f64>();
}

fn is_matrixmultiply<T: Gemm>() {
    let [m, k, n] = [37, 600, 75];
    let (a, b): (Vec<T>, Vec<T>) = (normals(m * k, 1), normals(k * n, 2));
    let (a, b) = (Strided { at: a.as_ptr(), strides: [1, m] }, Strided { at: b.as_ptr(), strides: [n, 1] });
    let (mut got, mut want) = (vec![T::one(); m * n], vec![T::one(); m * n]);
    for onto in [Onto::Nothing, Onto::Itself, Onto::Row(&[T::one(); 75])] {
        // SAFETY: the vectors hold their matrices.
        unsafe {
            product([m, k, n], a, b, got.as_mut_ptr(), n, onto);
            elsewhere([m, k, n], a, b, want.as_mut_ptr(), n, onto);
        }
        assert_eq!(got, want);
    }
}

#[test]
fn the_bits_are_those_of_matrixmultiply() {
    is_matrixmultiply::<f32>();
    is_matrixmultiply::<f64>();
}

/// GPT-1's vocabulary gives 512 rows. Every result is a multiple of the block along k.
#[test]
fn rows_of_logits_are_a_multiple_of_a_block() {
    let classes = [0, 10, 20_000, 25_000, 40_478, 40_479, 80_000, 1 << 20];
    let of = |rows: fn(usize, usize) -> usize| classes.map(|classes| rows(classes, 384));
    assert_eq!(of(<Fused as Products<f32>>::rows_of_logits), [1024, 1024, 1024, 768, 512, 256, 256, 256]);
    assert_eq!([1, 128, 129, 384, 768].map(|width| Bf16::rows_of_logits(8000, width)), [256, 256, 256, 512, 512]);
}
