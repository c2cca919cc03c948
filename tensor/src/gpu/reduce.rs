//! Sums of one term per element, by a tree that depends on shapes alone.

use super::squares::norm_into;
use super::tree::{Lines, TREE_THREADS, row_shader};
use super::{Array, word};

/// The number of elements that a thread adds before its sum is combined with others.
const SHARE: usize = 16;
/// The most partial sums of one line at a time.
const BLOCKS: usize = 1024;

/// An input of a term, named x, y, z or w: an array, and the expression of the position at which it is read, counted from its
/// first element. In the expression, `i` is the element's position and `k` the position along its line.
type Input<'a> = (&'a Array, &'static str);

/// Computes Σ over `axes` (ascending, at least one), which keep extent 1.
pub(crate) fn sum(x: &Array, axes: &[usize]) -> Array {
    let shape = x.shape();
    let adjacent = axes.windows(2).all(|pair| pair[0] + 1 == pair[1]);
    let (x, first) = if adjacent {
        (x.dense(), axes[0])
    } else {
        let rest = (0..shape.len()).filter(|a| !axes.contains(a));
        let order: Vec<usize> = axes.iter().copied().chain(rest).collect();
        (Array { layout: x.layout.permute(&order), buffer: x.buffer.clone() }.dense(), 0)
    };
    let lines = Lines::along(&x.shape(), first..first + axes.len());
    sums(&lines, ["x", "1.0"], &[(&x, "i")]).reshaped(axes.iter().fold(shape, |s, &a| s.with(a, 1)))
}

/// Returns Σ xᵢyᵢ in f64, for arrays of one shape. Elements are scaled to about 1, so that no product overflows or underflows.
pub(crate) fn dot(x: &Array, y: &Array) -> f64 {
    let (x, y) = (x.dense(), y.dense());
    let table = Array::unwritten(x.gpu(), [2, 3].into());
    norm_into(&x, &table, 0);
    norm_into(&y, &table, 1);
    let [of_x, of_y] = [0, 3].map(|at| table.reshaped([6].into()).element(at));
    let term = ["x * one_over_power(z)", "y * one_over_power(w)"];
    let lines = Lines { outer: 1, n: x.len(), inner: 1 };
    let parts = partial_sums(&lines, term, &[(&x, "i"), (&y, "i"), (&of_x, "0u"), (&of_y, "0u")]).read();
    let table = table.read();
    let sum: f64 = parts.into_iter().map(f64::from).sum();
    sum * f64::from(table[0]) * f64::from(table[3])
}

/// Computes Σ of the product of two factors along each line: (outer, 1, inner).
pub(super) fn sums(lines: &Lines, term: [&str; 2], inputs: &[Input<'_>]) -> Array {
    let parts = partial_sums(lines, term, inputs);
    let blocks = parts.shape()[1];
    if blocks <= 1 { parts } else { sums(&Lines { n: blocks, ..*lines }, ["x", "1.0"], &[(&parts, "i")]) }
}

/// Computes [`sums`] in blocks of each line: (outer, blocks, inner).
fn partial_sums(lines: &Lines, term: [&str; 2], inputs: &[Input<'_>]) -> Array {
    let Lines { outer, n, inner } = *lines;
    let width = lines.width();
    let blocks = n.div_ceil(SHARE * TREE_THREADS / width).clamp(1, BLOCKS);
    let block = n.div_ceil(blocks);
    let out = Array::unwritten(inputs[0].0.gpu(), [outer, blocks, inner].into());
    let mut params = [lines.count(), n, inner, width, block, blocks].map(word).to_vec();
    params.extend(inputs.iter().map(|(x, _)| x.at()));
    let shader = row_shader!(256 threads, "reduce");
    let shader = shader.adapted(format!("sum of ({})·({})", term[0], term[1]), |text| filled(text, term, inputs));
    let reads: Vec<_> = inputs.iter().map(|(x, _)| &*x.buffer).collect();
    out.gpu().dispatch(&shader, &params, &[&out.buffer], &reads, lines.count().div_ceil(width) * blocks);
    out
}

fn filled(template: &str, [left, right]: [&str; 2], inputs: &[Input<'_>]) -> String {
    let named = || ["x", "y", "z", "w"].into_iter().zip(inputs);
    let binding = |(i, (name, _))| format!("@group(0) @binding({}) var<storage, read> {name}s: array<f32>;", i + 2);
    let bindings: Vec<String> = named().enumerate().map(binding).collect();
    let elements: Vec<String> = named().map(|(name, (_, at))| format!("let {name} = {name}s[p.{name}_at + {at}];")).collect();
    template
        .replace("BINDINGS", &bindings.join("\n"))
        .replace("ELEMENTS", &elements.join("\n        "))
        .replace("LEFT", left)
        .replace("RIGHT", right)
}

#[cfg(test)]
mod tests {
    use super::super::testing::{assert_close, gpu, on};
    use crate::Tensor;
    use crate::rng::Philox;

    /// Returns whole numbers, whose sums are exact, to check that every element is summed once.
    fn whole(shape: &[usize]) -> Tensor {
        let n = shape.iter().product();
        Tensor::new(shape, (0..n).map(|i: usize| (i * 7919 % 31) as f32 - 14.0).collect())
    }

    #[test]
    fn every_element_is_summed_once() {
        let Some(gpu) = gpu() else { return };
        let cases: [(&[usize], &[usize]); 14] = [
            (&[5, 7], &[0]),
            (&[5, 7], &[1]),
            (&[1, 1], &[0, 1]),
            (&[40_000], &[0]),
            (&[5000, 3], &[0]),
            (&[3, 5000], &[1]),
            (&[300, 33], &[0]),
            (&[4500, 40], &[0]),
            (&[3, 301, 5], &[1]),
            (&[2, 3, 4, 5], &[0, 2]),
            (&[2, 3, 4, 5], &[1, 2, 3]),
            (&[0, 3], &[0]),
            (&[3, 0], &[0]),
            (&[0, 3], &[1]),
        ];
        for (shape, axes) in cases {
            let x = whole(shape);
            assert_eq!(on(&gpu, &x).sum(axes), x.sum(axes), "{shape:?} over {axes:?}");
        }
        let x = whole(&[9, 20, 30]);
        let view = |x: &Tensor| x.permute(&[2, 0, 1]).slice(1, 2..7);
        for axes in [&[0][..], &[1], &[0, 2], &[0, 1, 2]] {
            assert_eq!(view(&on(&gpu, &x)).sum(axes), view(&x).sum(axes), "a view over {axes:?}");
        }
        assert_eq!(on(&gpu, &x).sum_all(), x.sum_all());
    }

    /// A tree of 10⁵ numbers errs by a few units in the last place of Σ |x|, and has the same bits in every run.
    #[test]
    fn long_sums_are_accurate_and_repeatable() {
        let Some(gpu) = gpu() else { return };
        let mut rng = Philox::new(1);
        let x = Tensor::<f32>::uniform([100_001], 0.0, 1.0, &mut rng);
        let exact = x.to_vec().into_iter().map(f64::from).sum::<f64>();
        let there = on(&gpu, &x);
        let found = there.sum_all();
        assert!((f64::from(found.item()) / exact - 1.0).abs() < 3e-7, "{found:?}, not {exact}");
        assert_eq!(there.sum_all().item().to_bits(), found.item().to_bits());
        let columns = Tensor::<f32>::normal([1000, 17], 1.0, &mut rng);
        assert_close("columns", &on(&gpu, &columns).sum(&[0]), &columns.sum(&[0]), 2e-5);
    }

    /// The error is a few units in the last place of Σ |xᵢyᵢ|, at every magnitude.
    #[test]
    fn dot_neither_overflows_nor_vanishes() {
        let Some(gpu) = gpu() else { return };
        let mut rng = Philox::new(2);
        for (n, a, b) in [(1, 1.0, 1.0), (5000, 1e30, 1e30), (777, 1e-30, 1e-30), (300, 1e30, 1e-35), (0, 1.0, 1.0)] {
            let (x, y) = (Tensor::<f32>::normal([n], a, &mut rng), Tensor::<f32>::normal([n], b, &mut rng));
            let (found, expected) = (on(&gpu, &x).dot(&on(&gpu, &y)), x.dot(&y));
            assert!((found - expected).abs() <= 1e-6 * a * b * n as f64, "{n}: {found}, expected {expected}");
        }
        let (x, views) = (whole(&[30, 30]), |x: &Tensor| [x.slice(0, 1..6).t(), x.slice(1, 4..9)]);
        let dot = |[x, y]: [Tensor; 2]| x.dot(&y);
        assert_eq!(dot(views(&on(&gpu, &x))), dot(views(&x)));
        let endless = Tensor::new([2], vec![f32::INFINITY, 1.0]);
        assert_eq!(on(&gpu, &endless).dot(&on(&gpu, &endless)), f64::INFINITY);
    }
}
