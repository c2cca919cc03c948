use std::io::Write;

use rand::Rng;

use super::super::super::testing::{normals, on_threads};
use super::pack::{Factor, Left};
use super::path::{all, paths};
use super::*;
use crate::operands::Form;
use crate::rng::Philox;

/// The kinds of numbers that a case draws.
#[derive(Clone, Copy, Debug)]
enum Kind {
    /// About 1.
    Ordinary,
    /// Of any bits but infinities and NaN, with many zeros and subnormals.
    Finite,
    /// Products and sums are around 2⁻¹²⁶.
    Small,
    /// Of any bits.
    Any,
}

fn draw(random: &mut Philox, kind: Kind) -> f32 {
    let [bits, choice] = [random.next_u32(), random.next_u32()];
    let (sign, fraction, exponent) = (bits & 1 << 31, bits & 0x7F_FFFF, bits >> 23 & 0xFF);
    let from = |exponent: u32, fraction: u32| f32::from_bits(sign | exponent << 23 | fraction);
    match (kind, choice % 16) {
        (Kind::Ordinary, _) => (random.uniform_f64() - random.uniform_f64()) as f32,
        (_, 0) => from(0, 0),
        (_, 1) => from(0, fraction),
        (Kind::Small, _) => from(62 + exponent % 5, if choice & 16 == 0 { fraction } else { fraction & 0x40_0000 }),
        (Kind::Any, 2) if choice & 0x70 == 0 => from(255, 0),
        (Kind::Any, 3) if choice & 0x3F0 == 0 => from(255, fraction | 1),
        (Kind::Any, 4 | 5) => from(254, fraction),
        _ => from(exponent.clamp(1, 254), fraction),
    }
}

fn same(a: f32, b: f32) -> bool {
    a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan()
}

/// Names the paths that this CPU cannot run on standard error, which the test harness does not capture.
fn name_paths_not_run() {
    for (path, runs) in all() {
        if let Err(why) = runs {
            writeln!(std::io::stderr(), "NOT RUN: the path `{}` of products in bf16: {why}", path.name).expect("standard error");
        }
    }
}

#[test]
fn every_path_has_the_bits_of_the_definition() {
    name_paths_not_run();
    let mut random = Philox::new(1);
    // Edges of strips, panels and blocks; more blocks, rows and columns than pass at a time.
    let sizes = [[1, 1, 1], [32, 32, 32], [33, 0, 5], [31, 33, 65], [70, 300, 40], [16, 1100, 48], [7, 17, 129], [100, 63, 96]];
    for [m, k, n] in sizes.into_iter().chain([[32, 544, 32], [270, 5, 33], [3, 40, 530]]) {
        for kind in [Kind::Ordinary, Kind::Finite, Kind::Small, Kind::Any] {
            for layout in 0..9 {
                let onto = (layout + m) % 3;
                has_the_bits([m, k, n], [layout / 3, layout % 3], onto, || draw(&mut random, kind));
            }
        }
    }
}

fn has_the_bits([m, k, n]: [usize; 3], layouts: [usize; 2], onto: usize, mut number: impl FnMut() -> f32) {
    let ld = n + 3;
    let mut some = |n: usize| (0..n).map(|_| number()).collect::<Vec<f32>>();
    let (a, b) = (some(2 * (m + 1) * (k + 1)), some(2 * (n + 1) * (k + 1)));
    let (row, before) = (some(n), some(m * ld));
    // A line's elements are neighbours, lines are neighbours, or every other number is read.
    let strides = |layout: usize, lines: usize| [[k + 1, 1], [1, lines + 1], [2 * k + 2, 2]][layout];
    let (of_a, of_b) = (strides(layouts[0], m), strides(layouts[1], n));
    let onto = [Onto::Nothing, Onto::Itself, Onto::Row(&row)][onto];
    let start = |i: usize, j: usize| match onto {
        Onto::Nothing => 0.0,
        Onto::Itself => before[i * ld + j],
        Onto::Row(row) => row[j],
    };
    let expected: Vec<f32> = (0..m * ld)
        .map(|at| match (at / ld, at % ld) {
            (_, j) if j >= n => before[at], // the numbers between the rows do not change
            (i, j) => element(start(i, j), k, |p| a[i * of_a[0] + p * of_a[1]], |p| b[j * of_b[0] + p * of_b[1]]),
        })
        .collect();
    for path in paths() {
        let mut c = before.clone();
        let (mut a_space, mut b_space) = (vec![7; Left::len(path, m, k)], vec![7; Right::len(k, n)]);
        // SAFETY: the vectors hold the factors and C.
        unsafe {
            let [a, b] = [(&a, of_a), (&b, of_b)].map(|(x, [line, along])| Factor { at: x.as_ptr(), line, along });
            let (a, b) = (Left::new(path, a, m, k, &mut a_space, 1), Right::new(path, b, k, n, &mut b_space, 1));
            part(&a, 0, 0..m, &b, 0..n, 0..b.blocks, c.as_mut_ptr(), ld, onto);
        }
        let wrong = c.iter().zip(&expected).position(|(&got, &expected)| !same(got, expected));
        if let Some(at) = wrong {
            let (i, j) = (at / ld, at % ld);
            panic!(
                "{}: ({m}, {k}, {n}), layouts {layouts:?}, {onto:?}, [{i}, {j}]: {:e} for {:e}",
                path.name, c[at], expected[at]
            );
        }
    }
}

/// Rows, columns and elements along k that are more than a chunk, in both forms of a factor.
#[test]
fn chunks_of_a_factor_give_the_bits_of_the_definition() {
    for [m, k, n] in [[150, 1100, 40], [40, 600, 530], [1, 1100, 300], [260, 0, 30]] {
        let (a, b): (Vec<f32>, Vec<f32>) = (normals(m * k, 1), normals(k * n, 2));
        let row: Vec<f32> = normals(n, 3);
        let halves = |x: &[f32]| x.iter().map(|&x| round(x)).collect::<Vec<u16>>();
        let (half_a, half_b) = (halves(&a), halves(&b));
        for layout in 0..4 {
            let of_a = if layout & 1 == 0 { Mat::dense(&a, m, k) } else { Mat::transposed(&a, m, k) };
            let of_b = if layout & 2 == 0 { Mat::dense(&b, k, n) } else { Mat::transposed(&b, k, n) };
            let expected: Vec<f32> = (0..m * n)
                .map(|at| {
                    let (i, j) = (at / n, at % n);
                    let a = |p: usize| a[i * of_a.row_stride + p * of_a.col_stride];
                    element(row[j], k, a, |p| b[p * of_b.row_stride + j * of_b.col_stride])
                })
                .collect();
            let rounded = (
                Mat { data: &[], form: Form::Rounded(&half_a), ..of_a },
                Mat { data: &[], form: Form::Rounded(&half_b), ..of_b },
            );
            for (a, b) in [(of_a, of_b), rounded] {
                let c = on_threads(|| {
                    let mut c = vec![f32::NAN; m * n];
                    Bf16::matmul(a, b, MatMut::dense(&mut c, m, n), Onto::Row(&row));
                    c
                });
                assert!(c.iter().zip(&expected).all(|(&c, &expected)| same(c, expected)), "({m}, {k}, {n}), layout {layout}");
            }
        }
    }
}

#[test]
fn factors_are_rounded_to_nearest_even() {
    let rounded = [
        (1.0, 0x3F80),
        (1.0 + 1.0 / 256.0, 0x3F80), // a tie: to even
        (1.0 + 3.0 / 256.0, 0x3F82), // a tie: to even
        (1.0 + 1.0 / 255.0, 0x3F81),
        (-1.0 - 1.0 / 255.0, 0xBF81),
        (f32::MAX, 0x7F80),
        (f32::from_bits(0x7F7F_7FFF), 0x7F7F),
        (f32::NEG_INFINITY, 0xFF80),
        (f32::MIN_POSITIVE, 0x0080),
        (f32::from_bits(0x007F_FFFF), 0x0000), // the largest subnormal is a zero
        (f32::from_bits(0x8000_0001), 0x8000),
        (f32::from_bits(0x7F80_0001), 0x7FC0), // a NaN stays a NaN
    ];
    for (x, expected) in rounded {
        assert_eq!(round(x), expected, "{x:e}");
    }
}

/// 2⁻¹²⁶ − 1.5·2⁻¹⁵¹ is rounded to 24 bits first, which is subnormal and becomes 0. Gradual underflow would return 2⁻¹²⁶.
#[test]
fn a_sum_below_the_normal_numbers_is_flushed() {
    let (a, b) = ([2f32.powi(-63), -1.5 * 2f32.powi(-75)], [2f32.powi(-63), 2f32.powi(-76)]);
    assert_eq!(multiply_add(a[1], b[1], f32::MIN_POSITIVE).to_bits(), 0);
    assert_eq!(multiply_add(a[1] / 3.0, b[1], f32::MIN_POSITIVE), f32::MIN_POSITIVE, "a quarter of 2⁻¹⁵⁰ is rounded up");
    let (a, b, mut c) = ([a[0], 0.0, a[1]], [b[0], 0.0, b[1]], [1.0]); // neighbours in the even chain
    Bf16::matmul(Mat::dense(&a, 1, 3), Mat::dense(&b, 3, 1), MatMut::dense(&mut c, 1, 1), Onto::Nothing);
    assert_eq!((c[0].to_bits(), element(0.0, 3, |p| a[p], |p| b[p]).to_bits()), (0, 0));
}

#[test]
fn any_part_of_a_packed_factor_can_be_multiplied() {
    let [m, depth, width] = [30, 300, 75];
    let (a, b): (Vec<f32>, Vec<f32>) = (normals(m * depth, 1), normals(depth * width, 2));
    let (a, b) = (Strided { at: a.as_ptr(), strides: [depth, 1] }, Strided { at: b.as_ptr(), strides: [1, depth] });
    let mut space = vec![1.0; Bf16::packed_len(depth, width)];
    for [first, k, n] in [[0, 300, 75], [0, 300, 40], [0, 290, 33], [32, 120, 75], [288, 12, 75], [0, 0, 3]] {
        for onto in [Onto::Nothing, Onto::Itself] {
            let (mut want, mut got) = (vec![1.0; m * n], vec![1.0; m * n]);
            let mut part = vec![1.0; Bf16::packed_len(k, n)];
            // SAFETY: the vectors hold their matrices.
            unsafe {
                Bf16::times(&Bf16::pack(b.from(first, 0), k, n, &mut part), [m, k, n], a, 0, want.as_mut_ptr(), n, onto);
                let packed = Bf16::pack(b, depth, width, &mut space);
                Bf16::times(&packed, [m, k, n], a, first, got.as_mut_ptr(), n, onto);
            }
            assert_eq!(got, want, "{k} rows from {first} on, {n} columns");
        }
    }
}

/// Returns a digest of the bits of a product.
fn digest(c: &[f32]) -> u64 {
    c.iter().fold(0xCBF2_9CE4_8422_2325, |hash, c| (hash ^ u64::from(c.to_bits())).wrapping_mul(0x0100_0000_01B3))
}

/// The digests hold on any CPU: they fix the definition and the paths that a CPU cannot run.
#[test]
fn products_have_the_same_bits_on_every_cpu() {
    let cases = [
        ([64, 256, 96], 0x5498_DD76_B877_5E5B),
        ([33, 1000, 700], 0xC03B_B8B0_65E7_4E05),
        ([700, 100, 33], 0x8B0B_3FBD_6AC6_6224),
        ([1, 513, 300], 0x0D37_0D26_AA8E_8164),
    ];
    for ([m, k, n], expected) in cases {
        // Multiples of 2⁻¹⁰, so that no bit depends on how normal numbers are drawn.
        let some =
            |n: usize, seed| normals::<f32>(n, seed).into_iter().map(|x| (x * 1024.0).round() / 1024.0).collect::<Vec<_>>();
        let (a, b) = (some(m * k, 1), some(k * n, 2));
        let c = on_threads(|| {
            let mut c = vec![0.0; m * n];
            Bf16::matmul(Mat::dense(&a, m, k), Mat::transposed(&b, k, n), MatMut::dense(&mut c, m, n), Onto::Nothing);
            c
        });
        let mut row = vec![0.0; n];
        Bf16::row(&a[..k], Mat::transposed(&b, k, n), &mut row);
        assert_eq!(row, c[..n], "a row alone");
        assert_eq!(digest(&c), expected, "({m}, {k}, {n})");
    }
}
