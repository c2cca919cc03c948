//! Comparisons of every kernel with its definition. The fast kernel agrees with the naive one to within rounding. Its bits are
//! the same on any number of threads.

use super::gemm::Gemm;
use super::testing::*;
use crate::kernels::Kernels;
use crate::operands::{AdamStep, Form, Mat, MatMut, Onto, OutputGrads, OutputOperands};
use crate::rng::DropoutKey;

/// Defines one test per family of kernels and precision.
macro_rules! families {
    ($($family:ident),* $(,)?) => {
        mod single { $(#[test] fn $family() { super::$family::<f32>(); })* }
        mod double { $(#[test] fn $family() { super::$family::<f64>(); })* }
    };
}

families!(
    matmul,
    unary,
    gelu,
    softmax,
    log_softmax,
    layer_norm,
    rms_norm,
    cross_entropy,
    linear_cross_entropy,
    lstm_cell,
    lstm,
    embedding,
    dropout,
    sums,
    arithmetic,
    adam,
);

#[test]
fn no_kernel_is_left_out() {
    let table = format!("{:?}", Kernels::<f32>::NAIVE);
    let tests = [include_str!("twins.rs"), include_str!("attention/tests.rs")].concat();
    let names: Vec<&str> = table.split(' ').filter_map(|word| word.strip_suffix(':')).collect();
    assert!(names.contains(&"matmul"), "{table}");
    for name in names {
        assert!(tests.contains(&format!("(k.{name})")), "`{name}` is not compared with its definition");
    }
}

/// Lengths around the lanes of a reduction, and a length that is split among threads.
const LENGTHS: [usize; 10] = [0, 1, 3, 31, 32, 33, 65, 127, 1000, 70_001];
/// Rows and columns: none, one, around the lanes, more than a block of rows, enough for several threads.
const ROWS: [(usize, usize); 11] =
    [(0, 5), (3, 0), (1, 1), (5, 1), (7, 8), (7, 31), (3, 33), (2, 64), (65, 33), (129, 64), (200, 401)];

fn matmul<T: Gemm>() {
    let sizes =
        [(0, 3, 2), (2, 0, 3), (3, 2, 0), (3, 5, 7), (17, 33, 9), (65, 257, 31), (130, 40, 129), (33, 300, 700), (700, 30, 33)];
    // Single rows: whole and partial lines, groups of rows and blocks of k; with and without threads; more columns than `WIDEST`.
    let rows = [(1, 1), (1, 0), (0, 7), (7, 15), (8, 16), (9, 17), (255, 33), (256, 64), (517, 100), (600, 1100), (30, 4117)];
    for (m, k, n) in sizes.into_iter().chain(rows.map(|(k, n)| (1, k, n))) {
        let (a, b, row): (Vec<T>, Vec<T>, Vec<T>) = (normals(2 * m * k, 1), normals(k * (n + 5), 2), normals(n, 3));
        for a in
            [Mat::dense(&a, m, k), Mat::transposed(&a, m, k), Mat { row_stride: 2 * k, col_stride: 2, ..Mat::dense(&a, m, k) }]
        {
            for b in [Mat { row_stride: n + 5, ..Mat::dense(&b, k, n) }, Mat::transposed(&b, k, n)] {
                for onto in [Onto::Nothing, Onto::Itself, Onto::Row(&row)] {
                    // Sums of k products of unit normals in another order: an error of about √k·ε on values of size √k.
                    let root = (k as f64).sqrt();
                    assert_twins(root, root.max(1.0), |k| {
                        let row_stride = n + 3; // the elements between the rows must not change
                        written([m * row_stride], |[data]| (k.matmul)(a, b, MatMut { data, rows: m, cols: n, row_stride }, onto))
                    });
                }
            }
        }
    }
}

fn unary<T: Gemm>() {
    for n in LENGTHS {
        let x: Vec<T> = normals(n, 1).into_iter().map(|x: T| x * T::lit(5.0)).collect();
        // Each twin is within a few units in the last place.
        assert_twins(4.0, 0.0, |k| written([n], |[y]| (k.exp)(&x, y)));
        assert_twins(4.0, 0.0, |k| written([n], |[y]| (k.tanh)(&x, y)));
        assert_twins(4.0, 0.0, |k| written([n], |[y]| (k.sigmoid)(&x, y)));
    }
}

fn gelu<T: Gemm>() {
    for n in LENGTHS {
        let x: Vec<T> = normals(n, 1).into_iter().map(|x: T| x * T::lit(2.0)).collect();
        let gy: Vec<T> = normals(n, 2);
        // The naive 1 + tanh u cancels for negative x: an error of ε in absolute terms, times |x| < 10.
        assert_twins(4.0, 2.0, |k| written([n], |[y]| (k.gelu)(&x, y)));
        // The derivative has two such terms, x·u′ as large as 10, and a cotangent of up to 4.
        assert_twins(16.0, 4.0, |k| written([n], |[gx]| (k.gelu_vjp)(&x, &gy, gx)));
    }
}

fn softmax<T: Gemm>() {
    for (rows, n) in ROWS {
        let (x, gy): (Vec<T>, Vec<T>) = (normals(rows * n, 1), normals(rows * n, 2));
        // A sum of n terms in another order has a relative error of up to nε, in practice about √n·ε, which is 20ε for these n.
        let y = assert_twins(20.0, 0.0, |k| written([x.len()], |[y]| (k.softmax)(&x, y, n)));
        assert_twins(20.0, 1.0, |k| written([x.len()], |[gx]| (k.softmax_vjp)(&y, &gy, gx, n)));
    }
}

fn log_softmax<T: Gemm>() {
    for (rows, n) in ROWS {
        let (x, gy): (Vec<T>, Vec<T>) = (normals(rows * n, 1), normals(rows * n, 2));
        // Sums of n terms in another order: about √n·ε of their size (the logarithm's argument, or Σ|gy|).
        let y = assert_twins(20.0, 1.0, |k| written([x.len()], |[y]| (k.log_softmax)(&x, y, n)));
        assert_twins(20.0, 4.0, |k| written([x.len()], |[gx]| (k.log_softmax_vjp)(&y, &gy, gx, n)));
    }
}

fn layer_norm<T: Gemm>() {
    for (rows, n) in ROWS {
        let (x, gy): (Vec<T>, Vec<T>) = (normals(rows * n, 1), normals(rows * n, 4));
        let (gain, bias): (Vec<T>, Vec<T>) = (normals(n, 2), normals(n, 3));
        // A row of one element has r = 1/√ε ≈ 316, which magnifies errors. Sums of up to 401 terms in another order err by about
        // 20ε.
        let scale = if n == 1 { 300.0 } else { 10.0 };
        let forward = |k: &Kernels<T>| {
            written([rows * n, rows, rows], |[y, mean, rstd]| (k.layer_norm)(&x, &gain, &bias, 1e-5, y, mean, rstd))
        };
        let out = if n > 0 { assert_twins(20.0, scale, forward) } else { forward(&Kernels::FAST) };
        let (mean, rstd) = out[rows * n..].split_at(rows);
        assert_twins(20.0, scale, |k| {
            written([rows * n, n, n], |[gx, ggain, gbias]| (k.layer_norm_vjp)(&x, &gain, mean, rstd, &gy, gx, ggain, gbias))
        });
    }
}

fn rms_norm<T: Gemm>() {
    for (rows, n) in ROWS {
        let (x, gain, gy): (Vec<T>, Vec<T>, Vec<T>) = (normals(rows * n, 1), normals(n, 2), normals(rows * n, 4));
        // As in `layer_norm`, except that a row of one element is divided by itself, which may be small.
        let scale = if n == 1 { 100.0 } else { 10.0 };
        let forward = |k: &Kernels<T>| written([rows * n, rows], |[y, rrms]| (k.rms_norm)(&x, &gain, 1e-5, y, rrms));
        let out = if n > 0 { assert_twins(20.0, scale, forward) } else { forward(&Kernels::FAST) };
        let rrms = &out[rows * n..];
        assert_twins(20.0, scale, |k| written([rows * n, n], |[gx, ggain]| (k.rms_norm_vjp)(&x, &gain, rrms, &gy, gx, ggain)));
    }
}

fn cross_entropy<T: Gemm>() {
    for (rows, n) in [(0, 5), (1, 1), (5, 2), (7, 33), (200, 401)] {
        let (z, gy): (Vec<T>, Vec<T>) = (normals(rows * n, 1), normals(rows, 2));
        let targets: Vec<u32> = (0..rows).map(|i| (i * 7 % n) as u32).collect();
        // A sum of 401 terms in another order errs by about 20ε of its value, and its logarithm by as much in absolute terms.
        let out = assert_twins(20.0, 1.0, |k| written([rows; 2], |[loss, lse]| (k.cross_entropy)(&z, &targets, loss, lse)));
        let lse = &out[rows..];
        assert_twins(20.0, 1.0, |k| written([z.len()], |[gz]| (k.cross_entropy_vjp)(&z, &targets, lse, &gy, gz)));
    }
}

fn linear_cross_entropy<T: Gemm>() {
    for (n, d, classes) in [(0, 3, 0), (0, 3, 4), (1, 1, 1), (3, 5, 7), (1025, 8, 33), (70, 33, 301)] {
        let (h, w): (Vec<T>, Vec<T>) = (normals(n * d, 1), normals(classes * d, 2));
        let (weights, bias): (Vec<T>, Vec<T>) = (normals(n, 3), normals(classes, 4));
        let targets: Vec<u32> = (0..n).map(|i| (i * 5 % classes) as u32).collect();
        for bias in [None, Some(&bias[..])] {
            let x = OutputOperands { h: &h, w: &w, w_form: Form::Elements, bias, width: d, targets: &targets, weights: &weights };
            // Logits of size √d with an error of √d·ε, exponentiated; w̄ sums n rows of them.
            let tolerance = 4.0 * (d as f64).sqrt() * (n as f64).sqrt().max(1.0);
            assert_twins(tolerance, 2.0, |k| {
                written([n, n * d, classes * (d + 1)], |[loss, h, rest]| {
                    let (w, of_bias) = rest.split_at_mut(classes * d);
                    let grads = OutputGrads { h, w, bias: bias.is_some().then_some(of_bias) };
                    (k.linear_cross_entropy)(&x, loss, Some(grads));
                })
            });
            assert_twins(tolerance, 1.0, |k| written([n], |[loss]| (k.linear_cross_entropy)(&x, loss, None)));
        }
    }
}

fn lstm_cell<T: Gemm>() {
    for (rows, units) in [(0, 3), (1, 1), (3, 7), (5, 33), (2, 64), (70, 300)] {
        let n = rows * units;
        let [z, before, gh, gc] = [(4 * n, 1), (n, 2), (n, 3), (n, 4)].map(|(n, seed)| normals::<T>(n, seed));
        // A dozen roundings of numbers up to about 4, and exponentials within four units in the last place.
        let out = assert_twins(16.0, 4.0, |k| {
            written([4 * n, n, n], |[gates, c, h]| {
                gates.copy_from_slice(&z);
                (k.lstm_cell)(units, gates, &before, c, h);
            })
        });
        let (gates, c) = (&out[..4 * n], &out[4 * n..5 * n]);
        assert_twins(16.0, 4.0, |k| {
            written([n, 4 * n], |[of_c, gz]| {
                of_c.copy_from_slice(&gc);
                (k.lstm_cell_vjp)(units, gates, &before, c, &gh, of_c, gz);
            })
        });
    }
}

fn lstm<T: Gemm>() {
    // One unit, one row, one step; more rows than a tile; panels past the edge; several blocks along k; several pieces.
    let sizes = [(0, 2, 3), (3, 0, 2), (1, 3, 5), (4, 1, 37), (2, 1, 300), (5, 2, 1), (3, 17, 33), (3, 5, 290), (2, 40, 70)];
    for (steps, batch, units) in sizes.into_iter().chain([(2, 3, 600)]) {
        let (n, sizes) = (steps * batch * units, [batch, units]);
        let (x, gy): (Vec<T>, Vec<T>) = (normals(4 * n, 1), normals(n, 2));
        let shrink = T::lit(0.5 / (units as f64).sqrt());
        let w: Vec<T> = normals::<T>(4 * units * units, 3).into_iter().map(|w| w * shrink).collect();
        // Errors of √H·ε in the products pass through a few steps; W̄ sums over steps and rows.
        let tolerance = 16.0 * (units.max(steps * batch) as f64).sqrt();
        let out = assert_twins(tolerance, 4.0, |k| written([4 * n, n, n], |[gates, c, h]| (k.lstm)(&x, &w, sizes, gates, c, h)));
        let (gates, [c, h]) = (&out[..4 * n], [4, 5].map(|i| &out[i * n..][..n]));
        let both = assert_twins(tolerance, 4.0, |k| {
            written([4 * n, w.len()], |[gx, gw]| (k.lstm_vjp)(&w, sizes, gates, c, h, &gy, gx, Some(gw)))
        });
        let alone =
            assert_twins(tolerance, 4.0, |k| written([4 * n], |[gx]| (k.lstm_vjp)(&w, sizes, gates, c, h, &gy, gx, None)));
        assert!(both[..4 * n] == alone, "x̄ does not depend on whether W̄ is wanted");
    }
}

fn embedding<T: Gemm>() {
    for (known, d, count) in [(1, 1, 0), (3, 0, 2), (4, 5, 3), (10, 33, 2000)] {
        let (table, x): (Vec<T>, Vec<T>) = (normals(known * d, 1), normals(count * d, 2));
        let ids: Vec<u32> = (0..count).map(|i| (i * i % known) as u32).collect();
        assert_twins(0.0, 0.0, |k| written([count * d], |[y]| (k.gather)(&table, d, &ids, y)));
        assert_twins(0.0, 0.0, |k| changed(&table, |table| (k.scatter_add)(table, d, &ids, &x)));
    }
}

fn dropout<T: Gemm>() {
    let key = DropoutKey::new(0.3, [7, 8], 9, u64::from(u32::MAX) - 2);
    for (rows, n) in ROWS.into_iter().chain([(3, 127), (2, 129), (1, 70_001)]) {
        let x: Vec<T> = normals(rows * n, 1);
        assert_twins(0.0, 0.0, |k| written([x.len()], |[y]| (k.dropout)(&key, &x, y, n)));
    }
}

fn sums<T: Gemm>() {
    for (rows, n) in ROWS.into_iter().chain([(1, 70_001)]) {
        let x: Vec<T> = normals(rows * n, 1);
        // Sums of N unit normals in another order: an error of about √N·ε on values of size √N.
        let [of_rows, of_n] = [rows, n].map(|terms| (terms as f64).sqrt().max(1.0));
        assert_twins(of_rows, of_rows, |k| written([n], |[y]| (k.sum_rows)(&x, y, n)));
        assert_twins(of_n, of_n, |k| written([rows], |[y]| (k.sum_cols)(&x, y, n)));
        let squares = |k: &Kernels<T>| vec![(k.sum_squares)(&x)];
        assert_close(&on_threads(|| squares(&Kernels::FAST)), &squares(&Kernels::NAIVE), 1e-13, 0.0);
    }
}

/// Compares the elementwise kernels bit by bit: both twins round each operation once.
fn arithmetic<T: Gemm>() {
    for n in LENGTHS {
        let (x, y): (Vec<T>, Vec<T>) = (normals(n, 1), normals(n, 2));
        assert_twins(0.0, 0.0, |k| written([n], |[z]| (k.add)(&x, &y, z)));
        assert_twins(0.0, 0.0, |k| written([n], |[z]| (k.sub)(&x, &y, z)));
        assert_twins(0.0, 0.0, |k| written([n], |[z]| (k.mul)(&x, &y, z)));
        assert_twins(0.0, 0.0, |k| written([n], |[y]| (k.affine)(&x, T::lit(-1.7), T::lit(0.3), y)));
        assert_twins(0.0, 0.0, |k| changed(&y, |y| (k.accumulate)(y, &x)));
    }
}

/// Compares Adam bit by bit: both twins round each operation once.
fn adam<T: Gemm>() {
    let step = AdamStep { beta1: 0.9, beta2: 0.999, step: 0.01, v_scale: 1.3, eps: 1e-8, decay: 0.001, l2: 0.02 };
    for n in LENGTHS {
        let [p0, m0, v0, g]: [Vec<T>; 4] = [1, 2, 3, 4].map(|seed| normals(n, seed));
        assert_twins(0.0, 0.0, |k| {
            written([n; 3], |[p, m, v]| {
                p.copy_from_slice(&p0);
                m.copy_from_slice(&m0);
                v.iter_mut().zip(&v0).for_each(|(v, &x)| *v = x * x);
                (k.adam)(&step, T::lit(0.7), p, m, v, &g);
            })
        });
    }
}
