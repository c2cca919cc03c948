//! Matrix products in tiles of the result: one shader with parameters.
//!
//! A [rule](Tile::of) chooses the tile by the shape. With tuning, a device measures once for each kind of product which tile is
//! fastest, and uses a tile only if its results equal those of the rule's tile ([`tune`]). In f32 all tiles have the same bits:
//! an element is one chain over k or, if k is long, one chain for each part of k, depending on the shape alone. In f16,
//! cooperative matrices are candidates too, if the device has them. They add in a different order, so reproducing the bits
//! requires the choices to be kept.

mod tile;
mod tune;

use std::cmp::Reverse;
use std::ops::Range;

use super::{Array, word};
use crate::Shape;
use crate::device::{MatmulPrecision, Shader};
use crate::layout::Layout;
use tile::{Tile, Unit};

/// The term that a product is added to.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Onto<'a> {
    /// No term: Y ← A·B.
    Nothing,
    /// A vector (n), added to every row: yᵢⱼ ← xⱼ + (A·B)ᵢⱼ.
    Row(&'a Array),
    /// A vector (n), added to every row, then the GELU: yᵢⱼ ← gelu(uᵢⱼ), uᵢⱼ ← xⱼ + (A·B)ᵢⱼ. U has Y's layout, or is not kept.
    RowThenGelu(&'a Array, Option<&'a Array>),
    /// The current Y: Y ← Y + A·B.
    Accumulate,
}

/// The most terms in one chain of sums. Its rounding errors grow with its length.
const CHAIN: usize = 8192;

/// The WGSL functions, GELU among them.
const FUNCTIONS: &str = include_str!("functions.wgsl");

/// Computes (…, m, k)·(…, k, n) → (…, m, n) for equal leading axes. Both factors are read through their strides.
#[track_caller]
pub(crate) fn matmul(a: &Array, b: &Array) -> Array {
    let (of_a, of_b) = (a.shape(), b.shape());
    let lead = of_a.len() - 2;
    assert!(of_b.len() == lead + 2 && of_a[..lead] == of_b[..lead], "matmul: equal leading axes, got {of_a}·{of_b}");
    let y = Array::unwritten(a.gpu(), of_a.with(lead + 1, of_b[lead + 1]));
    check(&of_a[lead..], &of_b[lead..], &y.shape()[lead..]);
    let ([outer, inner], [a, b]) = match folded(lead, [a, b]) {
        Some((extents, [of_a, of_b])) => (extents, [Matrices::of(a, of_a), Matrices::of(b, of_b)]),
        None => {
            let lines = |x: &Array| Matrices::of(&x.dense(), [0, x.shape()[lead..].iter().product()]);
            ([1, of_a[..lead].iter().product()], [lines(a), lines(b)])
        }
    };
    let size = a.extents[0] * b.extents[1];
    multiply([outer, inner], &a, &b, &Matrices::of(&y, [inner * size, size]), Onto::Nothing);
    y
}

/// Computes (…, k)·w (k, n) + b (n) → (…, n).
#[track_caller]
pub(crate) fn linear(x: &Array, w: &Array, b: &Array) -> Array {
    let y = Array::unwritten(x.gpu(), x.shape().with(x.shape().len() - 1, b.len()));
    product_into(&flat(x), w, &flat(&y), Onto::Row(b));
    y
}

/// Computes gelu(u) and, if `keeps_u`, u = (…, k)·w (k, n) + b (n): each (…, n).
#[track_caller]
pub(crate) fn linear_gelu(x: &Array, w: &Array, b: &Array, keeps_u: bool) -> (Array, Option<Array>) {
    let result = || Array::unwritten(x.gpu(), x.shape().with(x.shape().len() - 1, b.len()));
    let (y, u) = (result(), keeps_u.then(result));
    product_into(&flat(x), w, &flat(&y), Onto::RowThenGelu(b, u.as_ref().map(flat).as_ref()));
    (y, u)
}

/// Reshapes (…, n) to (rows, n): a view, or a copy if the rows are not evenly spaced.
fn flat(x: &Array) -> Array {
    let lead = x.shape().len() - 1;
    let (rows, n) = (x.shape()[..lead].iter().product(), x.shape()[lead]);
    match folded(lead, [x]) {
        Some(([1, _], [[_, row]])) => {
            let layout = Layout { shape: [rows, n].into(), strides: [row, x.layout.strides[lead]].into(), ..x.layout };
            Array { layout, buffer: x.buffer.clone() }
        }
        _ => x.dense().reshaped([rows, n].into()),
    }
}

/// Computes y ← onto + a·b for matrices. A row of y is dense.
#[track_caller]
pub(crate) fn product_into(a: &Array, b: &Array, y: &Array, onto: Onto<'_>) {
    check(&a.shape(), &b.shape(), &y.shape());
    let [a, b, y] = [a, b, y].map(|x| Matrices::of(x, [0, 0]));
    multiply([1, 1], &a, &b, &y, onto);
}

/// Panics unless the shapes agree.
#[track_caller]
fn check(a: &[usize], b: &[usize], y: &[usize]) {
    let agree = a.len() == 2 && b.len() == 2 && a[1] == b[0] && *y == [a[0], b[1]];
    assert!(agree, "matmul: [m,k]·[k,n] → [m,n], got {a:?}·{b:?} → {y:?}");
}

/// Folds the first `lead` axes of all arrays, which have equal extents, into two. Returns the extents of the two axes, and their
/// strides in each array. Returns `None` if more than two axes remain after merging those that are evenly spaced in every array.
fn folded<const N: usize>(lead: usize, arrays: [&Array; N]) -> Option<([usize; 2], [[usize; 2]; N])> {
    let mut axes: Vec<(usize, [usize; N])> = Vec::new(); // inner axes first
    for i in (0..lead).rev() {
        let (extent, strides) = (arrays[0].shape()[i], arrays.map(|x| x.layout.strides[i]));
        match axes.last_mut() {
            _ if extent == 1 => {}
            Some((inner, inner_strides)) if strides == inner_strides.map(|stride| *inner * stride) => *inner *= extent,
            _ => axes.push((extent, strides)),
        }
    }
    if axes.len() > 2 {
        return None;
    }
    axes.resize(2, (1, [0; N]));
    let [inner, outer] = [axes[0], axes[1]];
    Some(([outer.0, inner.0], std::array::from_fn(|x| [outer.1[x], inner.1[x]])))
}

/// Matrices at constant distances along two batch axes.
struct Matrices {
    array: Array,
    batches: [usize; 2],
    /// The numbers of rows and columns.
    extents: [usize; 2],
    strides: [usize; 2],
}

impl Matrices {
    /// Returns the matrices of the last two axes, at these distances.
    fn of(x: &Array, batches: [usize; 2]) -> Self {
        let (shape, strides) = (x.shape(), x.layout.strides);
        let last = |of: &Shape| [of[of.len() - 2], of[of.len() - 1]];
        Matrices { batches, extents: last(&shape), strides: last(&strides), array: x.clone() }
    }

    /// Returns the most elements, 1, 2 or 4, that one access may read along `axis`: the axis is contiguous, and every line begins
    /// at a multiple of that number.
    fn vector(&self, axis: usize) -> usize {
        let line = if self.extents[1 - axis] == 1 { 0 } else { self.strides[1 - axis] };
        let starts = [self.array.layout.offset, self.batches[0], self.batches[1], line];
        let even = |vector: usize| starts.iter().all(|start| start.is_multiple_of(vector));
        if self.strides[axis] != 1 && self.extents[axis] != 1 {
            return 1;
        }
        [4, 2].into_iter().find(|&vector| even(vector)).unwrap_or(1)
    }

    /// Returns the part of the matrices in this range of an axis.
    fn part(&self, axis: usize, range: Range<usize>) -> Self {
        let mut part = Matrices { array: self.array.clone(), ..*self };
        part.array.layout.offset += range.start * self.strides[axis];
        part.extents[axis] = range.len();
        part
    }

    /// Returns the offset of the first element, and the distances of batches.
    fn places(&self) -> [u32; 3] {
        [self.array.at(), word(self.batches[0]), word(self.batches[1])]
    }
}

/// The order in which a factor is read: in lines along k or across it, and the number of elements read at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Reading {
    along_k: bool,
    vector: usize,
}

impl Reading {
    /// Returns the reading of a factor whose axis `k` is the axis of the sums.
    fn of(x: &Matrices, k: usize) -> Self {
        // The factor is read along the axis with the smaller step. An axis without steps is excluded.
        let step = |axis: usize| if x.extents[axis] == 1 || x.strides[axis] == 0 { usize::MAX } else { x.strides[axis] };
        let axis = if (step(k), Reverse(x.extents[k])) <= (step(1 - k), Reverse(x.extents[1 - k])) { k } else { 1 - k };
        Reading { along_k: axis == k, vector: x.vector(axis) }
    }

    /// Returns `k` for lines along k, followed by the number of elements read at once.
    fn name(&self) -> String {
        format!("{}{}", if self.along_k { "k" } else { "" }, self.vector)
    }

    /// Returns the parameters of the factor for the shader.
    fn words(&self, x: &Matrices, k: usize) -> [u32; 7] {
        let axis = if self.along_k { k } else { 1 - k };
        let [at, outer, inner] = x.places();
        let [lines, line, run] = [x.extents[1 - axis], x.strides[1 - axis], x.extents[axis]].map(word);
        [at, outer, inner, lines, line, run, word(x.strides[axis])]
    }
}

/// Computes Y ← onto + A·B in every batch.
fn multiply(batches: [usize; 2], a: &Matrices, b: &Matrices, y: &Matrices, onto: Onto<'_>) {
    assert!(y.extents[1] <= 1 || y.strides[1] == 1, "matmul: a row of the result is dense");
    if batches.iter().chain(&y.extents).any(|&extent| extent == 0) {
        return;
    }
    // The GELU needs the whole sum, so the sum is not split.
    let (k, is_whole) = (a.extents[1], matches!(onto, Onto::RowThenGelu(..)));
    for first in (0..k.max(1)).step_by(if is_whole { k.max(1) } else { CHAIN }) {
        let range = first..if is_whole { k } else { k.min(first + CHAIN) };
        let (a, b) = (a.part(1, range.clone()), b.part(0, range));
        by(tune::tile(batches, &a, &b), batches, &a, &b, y, if first == 0 { onto } else { Onto::Accumulate });
    }
}

/// Computes Y ← onto + A·B in every batch, with the given tile. Y is not empty.
fn by(tile: Tile, batches: [usize; 2], a: &Matrices, b: &Matrices, y: &Matrices, onto: Onto<'_>) {
    let ([m, n], k, count) = (y.extents, a.extents[1], batches.iter().product::<usize>());
    let variant = Variant::of(tile, a, b, y, onto);
    let mut writes = vec![&*y.array.buffer];
    if let Onto::RowThenGelu(_, Some(u)) = onto {
        assert!(u.layout == y.array.layout, "matmul: U lies as Y does, got {:?} and {:?}", u.layout, y.array.layout);
        writes.push(&*u.buffer);
    }
    let (mut x_at, mut reads) = (0, vec![&*a.array.buffer, &*b.array.buffer]);
    let row = if let Onto::Row(row) | Onto::RowThenGelu(row, _) = onto { Some(row.dense()) } else { None };
    if let Some(row) = &row {
        assert!(row.len() == n, "matmul: a row of {} to add to C of {n} columns", row.len());
        x_at = row.at();
        reads.push(&*row.buffer);
    }
    let [row_tiles, column_tiles] = [m.div_ceil(tile.m), n.div_ceil(tile.n)];
    let sizes = [m, n, k, row_tiles, column_tiles, count, batches[1]].map(word);
    let result = [&y.places()[..], &[word(y.strides[0]), x_at]].concat();
    let params = [&sizes[..], &result, &variant.a.words(a, 1), &variant.b.words(b, 0)].concat();
    y.array.gpu().dispatch(&variant.shader(), &params, &writes, &reads, count * row_tiles * column_tiles);
}

/// One of the shaders that are made from matmul.wgsl.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Variant {
    tile: Tile,
    precision: MatmulPrecision,
    a: Reading,
    b: Reading,
    y_vector: usize,
    /// The term that is added: empty for none, `row` or `y`.
    onto: &'static str,
    outcome: Outcome,
}

/// The results of a sum and its added term.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    /// The sum is an element of Y.
    Sum,
    /// The GELU of the sum is an element of Y.
    Gelu,
    /// The GELU of the sum is an element of Y, and the sum is an element of U.
    GeluAndSum,
}

impl Variant {
    /// Returns the variant of such a product for a given tile.
    fn of(tile: Tile, a: &Matrices, b: &Matrices, y: &Matrices, onto: Onto<'_>) -> Self {
        let n = y.extents[1];
        let whole = n.is_multiple_of(4) && y.vector(1) == 4;
        Variant {
            tile,
            precision: y.array.gpu().matmul_precision(),
            a: Reading::of(a, 1),
            b: Reading::of(b, 0),
            y_vector: if whole { 4 } else { 1 },
            onto: match onto {
                Onto::Nothing => "",
                Onto::Row(_) | Onto::RowThenGelu(..) => "row",
                Onto::Accumulate => "y",
            },
            outcome: match onto {
                Onto::RowThenGelu(_, Some(_)) => Outcome::GeluAndSum,
                Onto::RowThenGelu(_, None) => Outcome::Gelu,
                _ => Outcome::Sum,
            },
        }
    }

    fn shader(self) -> Shader<'static> {
        let Variant { tile, precision, a, b, y_vector, onto, outcome } = self;
        let onto = if onto.is_empty() { onto.into() } else { format!(" + {onto}") };
        let of_factors = if precision == MatmulPrecision::F32 { String::new() } else { format!(" in {precision}") };
        let outcome = match outcome {
            Outcome::Sum => "",
            Outcome::Gelu => ", gelu",
            Outcome::GeluAndSum => ", gelu and sum",
        };
        let name = format!("matmul{of_factors} {tile}, {}·{}→{y_vector}{onto}{outcome}", a.name(), b.name());
        Shader::new(name, move || self.text())
    }

    fn text(&self) -> String {
        let constants = self.constants();
        let (head, main) = match self.tile.unit {
            Unit::Thread => ("", include_str!("matmul/threads.wgsl").replace("SHARED", "")),
            Unit::Subgroup => ("", include_str!("matmul/threads.wgsl").replace("SHARED", "subgroupBroadcastFirst")),
            Unit::Cooperative { size, .. } => {
                let square = format!("coop_mat{size}x{size}");
                let main = include_str!("matmul/cooperative.wgsl").replace("coop_matSIZExSIZE", &square);
                ("enable wgpu_cooperative_matrix;\ndiagnostic(off, derivative_uniformity);\n", main)
            }
        };
        let (enabled, staged) = match self.precision {
            MatmulPrecision::F32 => ("", "vec4f"),
            MatmulPrecision::F16 => ("enable f16;\n", "vec4<f16>"),
            MatmulPrecision::BF16 => unreachable!("a GPU is not opened with products in bf16"),
        };
        let head = format!("{enabled}{head}alias Staged = {staged};\n");
        let first = if self.tile.rows < 4 { "row % 4" } else { "0" };
        let text = [include_str!("matmul.wgsl"), &main].concat().replace("FIRST_OF_FOUR", first).replace("SUM;", self.sum());
        let mut text = written_out(&text, &constants);
        text = self.with_outcome(&text);
        let types = [("y", self.y_vector), ("a", self.a.vector), ("b", self.b.vector)];
        for (name, vector) in types {
            let ty = ["", "f32", "vec2f", "", "vec4f"][vector];
            text = text.replace(&format!("TYPE_{name}"), ty);
            text = text.replace(&format!("FOUR_{name};"), &format!("{};", four(name, vector)));
        }
        let binding = "@group(0) @binding(FIRST_READ + 2) var<storage, read> x: array<f32>;";
        text = text.replace("BINDING_x", if self.onto == "row" { binding } else { "" });
        let constants = constants.iter().map(|(name, value)| format!("const {name} = {value}u;\n"));
        let booleans = [("a", self.a), ("b", self.b)].map(|(name, it)| format!("const ALONG_K_{name} = {};\n", it.along_k));
        std::iter::once(head).chain(constants).chain(booleans).chain([text]).collect()
    }

    /// Returns `text` with the code of the results.
    fn with_outcome(&self, text: &str) -> String {
        let keeps = self.outcome == Outcome::GeluAndSum;
        let [binding, keep] =
            if keeps { ["@group(0) @binding(2) var<storage, read_write> u: array<TYPE_y>;", "u[i] = sum_i;"] } else { [""; 2] };
        let [functions, result] = match (self.outcome, self.y_vector) {
            (Outcome::Sum, _) => ["", "sum_i"],
            (_, 4) => [FUNCTIONS, "vec4f(gelu(sum_i.x), gelu(sum_i.y), gelu(sum_i.z), gelu(sum_i.w))"],
            _ => [FUNCTIONS, "gelu(sum_i)"],
        };
        let text = text.replace("BINDING_u", binding).replace("KEEP_u", keep).replace("RESULT", result);
        format!("{functions}{text}")
    }

    /// Returns the sizes under their names in the shader.
    fn constants(&self) -> Vec<(&'static str, usize)> {
        let Tile { m, n, k, rows, columns, threads, .. } = self.tile;
        let [blocks_a, blocks_b] = [m, n].map(|across| across / 4 * (k / 4));
        // Eight blocks across use all banks of workgroup memory. Lines along k would otherwise access the same bank at once.
        let near = |reading: Reading, across: usize| if reading.along_k { (across / 4).min(8) } else { across / 4 };
        let (size, subgroup) = match self.tile.unit {
            Unit::Thread | Unit::Subgroup => (4, 1),
            Unit::Cooperative { size, threads } => (size, threads),
        };
        vec![
            ("M", m),
            ("N", n),
            ("K", k),
            ("ROWS", rows),
            ("COLUMNS", columns),
            ("SIZE", size),
            ("SUBGROUP", subgroup),
            ("SUBGROUPS", threads / subgroup),
            ("MATRIX_ROWS", rows / size),
            ("MATRIX_COLUMNS", columns / size),
            ("ROW_FOURS", rows.div_ceil(4)),
            ("ROWS_OF_FOUR", rows.min(4)),
            ("FOURS", columns / 4),
            ("ACROSS", n / columns),
            ("THREADS", threads),
            ("READS", (blocks_a + blocks_b).div_ceil(threads)),
            ("BLOCKS_a", blocks_a),
            ("BLOCKS_b", blocks_b),
            ("FOURS_a", m / 4),
            ("FOURS_b", n / 4),
            ("NEAR_a", near(self.a, m)),
            ("NEAR_b", near(self.b, n)),
            ("VECTOR_y", self.y_vector),
            ("STORES", 4 / self.y_vector),
            ("FIRST_READ", if self.outcome == Outcome::GeluAndSum { 3 } else { 2 }),
        ]
    }

    /// Returns the expression of element i of Y, in column j, with the statement's end.
    fn sum(&self) -> &'static str {
        match (self.onto, self.y_vector) {
            ("row", 4) => "vec4f(x[p.x_at + j], x[p.x_at + j + 1], x[p.x_at + j + 2], x[p.x_at + j + 3]) + sum;",
            ("y", 4) => "y[i] + sum;",
            (_, 4) => "sum;",
            ("row", _) => "x[p.x_at + j] + sum[$q];",
            ("y", _) => "y[i] + sum[$q];",
            _ => "sum[$q];",
        }
    }
}

/// Returns the expression of elements i, i + step, … of a factor, of which `last` exist after the first. The step is 1 if a read
/// takes several elements.
fn four(name: &str, vector: usize) -> String {
    match vector {
        4 => format!("{name}[i / 4]"),
        2 => format!("vec4f({name}[i / 2], {name}[i / 2 + min(1, last / 2)])"),
        _ => format!(
            "vec4f({name}[i], {name}[i + min(1, last) * step], {name}[i + min(2, last) * step], {name}[i + min(3, last) * step])"
        ),
    }
}

/// Returns `text` with every `for $x in 0..N {` or `for $x in [a, b] {` replaced by its body, repeated for each x: in blocks
/// inside a function, and without braces outside.
fn written_out(text: &str, constants: &[(&str, usize)]) -> String {
    let mut lines = text.lines();
    let mut out = String::new();
    while let Some(line) = lines.next() {
        let inside = line.trim_start();
        let Some((name, values)) = inside.strip_prefix("for $").and_then(|it| it.strip_suffix(" {")?.split_once(" in ")) else {
            out += line;
            out += "\n";
            continue;
        };
        let indent = &line[..line.len() - inside.len()];
        let end = format!("{indent}}}");
        let body: String = lines.by_ref().take_while(|line| **line != end).map(|line| format!("{line}\n")).collect();
        let [open, close] = if indent.is_empty() { ["", ""] } else { ["{\n", "}\n"] };
        for value in values_of(values, constants) {
            let one = body.replace(&format!("${name}"), &value);
            out += &[open, &written_out(&one, constants), close].concat();
        }
    }
    out
}

/// Returns the values of `0..N` or `[a, b]`.
fn values_of(range: &str, constants: &[(&str, usize)]) -> Vec<String> {
    match range.strip_prefix("0..") {
        Some(end) => {
            let constant = || constants.iter().find(|(name, _)| *name == end).map(|&(_, value)| value);
            let end = end.parse().ok().or_else(constant).expect("a number or a constant's name");
            (0..end).map(|i: usize| i.to_string()).collect()
        }
        None => range.trim_matches(['[', ']']).split(", ").map(str::to_string).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{assert_close, gpu, on};
    use super::tile::{FEW_COLUMNS, FEW_ROWS, SMALL, TILES};
    use super::*;
    use crate::Tensor;
    use crate::device::{Device, Rounding};
    use crate::rng::Philox;

    /// In f32, one chain of 300,001 equal terms is off by 2.1e-3, since each term is rounded the same way. Chains of 8,192 terms
    /// are off by 3.4e-5.
    #[test]
    fn long_sums_are_computed_in_chunks() {
        let Some(gpu) = gpu() else { return };
        let k = 300_001;
        let (a, b, row) = (Tensor::full([2, k], 0.1), Tensor::full([k, 3], 0.3), Tensor::new([3], vec![1.0, 2.0, 3.0]));
        let (there, b_there) = (on(&gpu, &a), on(&gpu, &b));
        let (product, sum) = (there.matmul(&b_there), k as f32 * 0.1 * 0.3);
        assert_close("A·B", &product, &Tensor::full([2, 3], sum), 1e-4);
        let expected = Tensor::new([2, 3], [1.0, 2.0, 3.0].repeat(2).into_iter().map(|x: f32| sum + x).collect());
        assert_close("A·B and a row", &there.linear(&b_there, &on(&gpu, &row)), &expected, 1e-4);
        let turned = on(&gpu, &a.t().dense()).t().matmul(&b_there);
        assert_eq!(turned.to_vec(), product.to_vec(), "cut alike in every layout");
    }

    fn normal(shape: impl Into<Shape>, seed: u64) -> Tensor {
        Tensor::normal(shape, 1.0, &mut Philox::new(seed))
    }

    /// Returns a matrix on the GPU and on the CPU, with these strides and this offset, surrounded by NaN.
    fn laid_out(gpu: &Device, [rows, columns]: [usize; 2], (strides, offset): ([usize; 2], usize), seed: u64) -> [Tensor; 2] {
        let (last, mut values) = ([rows, columns].map(|n| n.max(1) - 1), normal([rows * columns], seed).to_vec().into_iter());
        let mut all = vec![f32::NAN; 2 * offset + last[0] * strides[0] + last[1] * strides[1] + 1];
        for (i, j) in (0..rows).flat_map(|i| (0..columns).map(move |j| (i, j))) {
            all[offset + i * strides[0] + j * strides[1]] = values.next().expect("one each");
        }
        let whole = Tensor::new([all.len()], all);
        let layout = Layout { shape: [rows, columns].into(), strides: strides.into(), offset };
        [on(gpu, &whole), whole].map(|x| Tensor { layout, ..x })
    }

    /// Returns layouts with contiguous rows or columns that begin at multiples of 4, 2 or 1 elements, layouts with neither
    /// contiguous, and layouts with one axis broadcast.
    fn layouts([rows, columns]: [usize; 2]) -> [([usize; 2], usize); 10] {
        let [r, c] = [rows, columns].map(|n| n.next_multiple_of(4));
        let contiguous = [([c, 1], 4), ([1, r], 8), ([c + 2, 1], 2), ([1, r + 2], 6), ([c + 1, 1], 3), ([1, r + 1], 4)];
        let [a, b, c, d, e, f] = contiguous;
        [a, b, c, d, e, f, ([2 * columns, 2], 5), ([3, 3 * rows], 0), ([0, 1], 4), ([1, 0], 0)]
    }

    /// Computes onto + the chain of multiply-adds from 0 on, each rounded as on this GPU.
    fn chains(gpu: &Device, a: &Tensor, b: &Tensor, onto: impl Fn(usize, usize) -> Option<f32>) -> Tensor {
        let Device::Gpu(device) = gpu else { unreachable!() };
        let once = device.arithmetic().fma == Rounding::Once;
        let (a, b) = (a.view(), b.view());
        let (m, k, n) = (a.shape()[0], a.shape()[1], b.shape()[1]);
        let fma = |a: f32, b: f32, sum: f32| if once { a.mul_add(b, sum) } else { a * b + sum };
        let sum = |i: usize, j: usize| (0..k).fold(0.0, |sum, p| fma(a[[i, p]], b[[p, j]], sum));
        let element = |i: usize, j: usize| onto(i, j).map_or(sum(i, j), |x| x + sum(i, j));
        Tensor::new([m, n], (0..m).flat_map(|i| (0..n).map(move |j| (i, j))).map(|(i, j)| element(i, j)).collect())
    }

    /// Asserts equal bits, up to the bits of a NaN.
    #[track_caller]
    fn assert_bits(what: &str, found: &Tensor, expected: &Tensor) {
        assert_eq!(found.shape(), expected.shape(), "{what}");
        for (i, (found, expected)) in found.to_vec().into_iter().zip(expected.to_vec()).enumerate() {
            let same = found.to_bits() == expected.to_bits() || found.is_nan() && expected.is_nan();
            assert!(same, "{what}: element {i} is {found:?}, expected {expected:?}");
        }
    }

    /// Computes A·B with the given tile.
    fn product(tile: Tile, a: &Tensor, b: &Tensor) -> Tensor {
        let [a, b] = [a, b].map(|x| x.array().expect("on the GPU"));
        let y = Array::unwritten(a.gpu(), [a.shape()[0], b.shape()[1]].into());
        let [a, b, of_y] = [&a, &b, &y].map(|x| Matrices::of(x, [0, 0]));
        by(tile, [1, 1], &a, &b, &of_y, Onto::Nothing);
        y.into()
    }

    #[test]
    fn products_of_every_layout_have_the_defined_bits() {
        let Some(gpu) = gpu() else { return };
        let (m, k, n) = (33, 70, 37);
        for i in 0..10 {
            let (of_a, of_b) = (layouts([m, k])[i], layouts([k, n])[(7 * i + 1) % 10]);
            let [[a, on_cpu_a], [b, on_cpu_b]] = [laid_out(&gpu, [m, k], of_a, 1), laid_out(&gpu, [k, n], of_b, 2)];
            assert_bits(&format!("{of_a:?} {of_b:?}"), &product(SMALL, &a, &b), &chains(&gpu, &on_cpu_a, &on_cpu_b, |_, _| None));
        }
    }

    /// The sizes have more than one stage, a partial stage, and rows and columns beyond one tile.
    #[test]
    fn every_tile_has_the_same_bits() {
        let Some(gpu) = gpu() else { return };
        let Device::Gpu(device) = &gpu else { unreachable!() };
        let by_subgroups = TILES.iter().filter_map(|tile| tile.by_subgroups(device.units)).take(2);
        for (tile, transposed) in TILES.into_iter().chain(by_subgroups).zip([false, true].into_iter().cycle()) {
            for [m, k, n] in [[131, 41, 68], [9, 128, 132]] {
                let (a, b) = (normal([m, k], 3), normal([n, k], 4).t());
                let a = if transposed { a.t().dense().t() } else { a };
                let expected = chains(&gpu, &a, &b, |_, _| None);
                let there = |x: &Tensor| on(&gpu, &x.t()).t();
                let (a, b) = if transposed { (there(&a), on(&gpu, &b)) } else { (on(&gpu, &a), there(&b)) };
                assert_bits(&format!("{tile} {m} {k} {n}"), &product(tile, &a, &b), &expected);
                assert_bits("a second run", &product(tile, &a, &b), &expected);
            }
        }
    }

    /// Rounds x to half precision, to nearest, ties to even; ∞ beyond 65,504.
    fn half(x: f32) -> f32 {
        if x == 0.0 || !x.is_finite() {
            return x;
        }
        let step = 2f32.powi((x.abs().log2().floor() as i32).max(-14) - 10);
        let rounded = (x / step).round_ties_even() * step;
        if rounded.abs() > 65_504.0 { f32::INFINITY.copysign(x) } else { rounded }
    }

    #[test]
    fn factors_are_rounded_to_half_precision_and_sums_are_not() {
        let Some(gpu) = Device::shared(MatmulPrecision::F16) else { return };
        let (m, k, n) = (33, 70, 37);
        for (i, tile) in [SMALL, TILES[1], FEW_ROWS, FEW_COLUMNS, SMALL].into_iter().enumerate() {
            let (of_a, of_b) = (layouts([m, k])[i], layouts([k, n])[(7 * i + 1) % 10]);
            let [[a, on_cpu_a], [b, on_cpu_b]] = [laid_out(&gpu, [m, k], of_a, 1), laid_out(&gpu, [k, n], of_b, 2)];
            let expected = chains(&gpu, &on_cpu_a.map(half), &on_cpu_b.map(half), |_, _| None);
            assert_bits(&format!("{tile}"), &product(tile, &a, &b), &expected);
        }
        // Small factors are rounded to multiples of 2⁻²⁴, the smallest number of half precision. Sums may exceed its largest
        // number.
        let a = Tensor::new([2, 4], vec![3e-5, 1e-6, 1e-9, 1.0, 6e4, 6e4, 6e4, 6e4]);
        let b = Tensor::new([4, 1], vec![1.0f32; 4]);
        let found = product(FEW_COLUMNS, &on(&gpu, &a), &on(&gpu, &b)).to_vec();
        assert_eq!(found, [half(3e-5) + half(1e-6) + 1.0, 240_000.0]);
        let beyond = on(&gpu, &Tensor::new([1, 2], vec![70_000.0f32, 1.0])).matmul(&on(&gpu, &b.slice(0, 0..2))).item();
        assert!(!beyond.is_finite(), "a factor that half precision cannot hold shows: {beyond}");
    }

    /// Tests the sizes of cooperative matrices that the device has, if any.
    #[test]
    fn cooperative_matrices_add_the_same_in_another_order() {
        let Some(gpu) = Device::shared(MatmulPrecision::F16) else { return };
        let Device::Gpu(device) = &gpu else { unreachable!() };
        for tile in Tile::cooperative(device.units) {
            for [m, k, n] in [[70, 41, 68], [9, 100, 37], [64, 64, 64]] {
                let (a, b) = (normal([m, k], 3), normal([n, k], 4).t());
                let expected = a.map(half).matmul(&b.map(half));
                let found = product(tile, &on(&gpu, &a), &on(&gpu, &b.t()).t());
                assert_close(&format!("{tile} {m} {k} {n}"), &found, &expected, 1e-4);
                let transposed = product(tile, &on(&gpu, &b.t()), &on(&gpu, &a).t());
                assert_close(&format!("{tile} {m} {k} {n}, transposed"), &transposed, &expected.t(), 1e-4);
            }
        }
    }

    /// A sum that underflows keeps the sign of one rounding, −0. NaN and ∞ stay in their row or column.
    #[test]
    fn padding_of_tiles_does_not_affect_results() {
        let Some(gpu) = gpu() else { return };
        let (m, k, n) = (10, 5, 9);
        let tiny = |shape: [usize; 2], x: f32| Tensor::new(shape, vec![x; shape[0] * shape[1]]);
        let (a, b) = (tiny([m, k], -1e-30), tiny([k, n], 1e-30));
        assert_bits("tiny", &product(SMALL, &on(&gpu, &a), &on(&gpu, &b)), &chains(&gpu, &a, &b, |_, _| None));
        let mut a = normal([m, k], 5);
        let mut b = normal([k, n], 6);
        (a.to_mut()[3 * k], b.to_mut()[n + 4], b.to_mut()[2 * n + 8]) = (f32::NAN, f32::INFINITY, f32::NAN);
        let expected = chains(&gpu, &a, &b, |_, _| None);
        for tile in [SMALL, FEW_ROWS, FEW_COLUMNS] {
            assert_bits("NaN and ∞", &product(tile, &on(&gpu, &a), &on(&gpu, &b)), &expected);
        }
        let finite = expected.to_vec().into_iter().filter(|x| x.is_finite()).count();
        assert_eq!(finite, (m - 1) * (n - 2));
    }

    #[test]
    fn a_product_is_added_to_a_row_or_to_existing_values() {
        let Some(gpu) = gpu() else { return };
        let vector = |x: &Tensor| x.array().expect("on the GPU");
        for (n, k) in [(12, 6), (13, 0)] {
            let (a, b, x, y) = (normal([9, k], 7), normal([k, n], 8), normal([n + 3], 9), normal([11, n + 4], 10));
            let [there_a, there_b, there_x, there_y] = [&a, &b, &x, &y].map(|x| on(&gpu, x));
            // Rows 1..10 of Y, columns 4 on.
            let part = |y: &Tensor| y.slice(0, 1..10).slice(1, 4..n + 4);
            let view = vector(&part(&there_y));
            product_into(&vector(&there_a), &vector(&there_b), &view, Onto::Accumulate);
            let added = chains(&gpu, &a, &b, |i, j| Some(part(&y).view()[[i, j]]));
            assert_bits("y", &part(&there_y), &added);
            assert_bits("beside y", &there_y.slice(1, 0..4), &y.slice(1, 0..4));
            let row = vector(&there_x.slice(0, 3..n + 3));
            product_into(&vector(&there_a), &vector(&there_b), &view, Onto::Row(&row));
            assert_bits("a row", &part(&there_y), &chains(&gpu, &a, &b, |_, j| Some(x.as_slice()[3 + j])));
        }
    }

    /// The tolerance for sums of k ≤ 128 products of order 1 in another order: at most k·2⁻²⁴·Σ|a||b| ≤ 6e-4, usually far less.
    const OTHER_ORDER: f32 = 1e-4;

    #[test]
    fn matmul_and_linear_match_the_cpu() {
        let Some(gpu) = gpu() else { return };
        for [m, k, n] in [[1, 1, 1], [1, 17, 65], [17, 3, 1], [65, 70, 17], [3, 0, 5], [0, 4, 3], [3, 4, 0]] {
            let (a, b) = (normal([m, k], 11), normal([k, n], 12));
            assert_close("matmul", &on(&gpu, &a).matmul(&on(&gpu, &b)), &a.matmul(&b), OTHER_ORDER);
            assert_close("transposed", &on(&gpu, &b).t().matmul(&on(&gpu, &a).t()), &b.t().matmul(&a.t()), OTHER_ORDER);
        }
        let (x, w, b) = (normal([3, 4, 6], 14), normal([6, 5], 15), normal([5], 16));
        let [there_x, there_w, there_b] = [&x, &w, &b].map(|x| on(&gpu, x));
        let views =
            |x: &Tensor| [x.clone(), x.slice(1, 1..3), x.permute(&[1, 0, 2]), x.slice(1, 2..3), x.slice(2, 0..6).slice(0, 1..2)];
        for (there, x) in views(&there_x).into_iter().zip(views(&x)) {
            assert_close("linear", &there.linear(&there_w, &there_b), &x.linear(&w, &b), OTHER_ORDER);
        }
    }

    /// U has the bits of `linear`, and its GELU the bits of `gelu`: in fours, one by one, for one row and for a view.
    #[test]
    fn linear_gelu_has_the_bits_of_linear_and_gelu() {
        let Some(gpu) = gpu() else { return };
        for [rows, k, n] in [[9, 20, 12], [33, 6, 13], [1, 5, 8], [0, 3, 4]] {
            let x = on(&gpu, &normal([3, rows, k], 21)).slice(0, 1..3);
            let (w, b) = (on(&gpu, &normal([k, n], 22)), on(&gpu, &normal([n], 23)));
            let expected = x.linear(&w, &b);
            let (y, u) = x.linear_gelu(&w, &b, true);
            assert_bits("u", &u.expect("kept"), &expected);
            assert_bits("gelu(u)", &y, &expected.gelu());
            let (y, u) = x.linear_gelu(&w, &b, false);
            assert_bits("gelu(u) alone", &y, &expected.gelu());
            assert!(u.is_none());
        }
    }

    /// Scores and values of heads, as in attention; factors that all batches share; three leading axes.
    #[test]
    fn batches_are_read_through_their_strides() {
        let Some(gpu) = gpu() else { return };
        let (x, w) = (normal([2, 9, 3, 8], 17), normal([8, 10], 18));
        let heads = |x: &Tensor| x.permute(&[0, 2, 1, 3]);
        let products = |x: &Tensor, w: &Tensor| {
            let (h, shared) = (heads(x), w.expand([2, 3, 8, 10]));
            let five = |x: &Tensor| heads(x).reshape([2, 1, 3, 9, 8]).permute(&[2, 0, 1, 3, 4]);
            [h.matmul(&h.t()), h.t().matmul(&h), h.matmul(&shared), five(x).matmul(&five(x).t())]
        };
        for (found, expected) in products(&on(&gpu, &x), &on(&gpu, &w)).into_iter().zip(products(&x, &w)) {
            assert_close("heads", &found, &expected, OTHER_ORDER);
        }
        let (a, b) = (normal([2, 3, 4, 5, 6], 19), normal([6, 7], 20));
        let turned = |x: &Tensor| x.permute(&[2, 1, 0, 3, 4]);
        let found = turned(&on(&gpu, &a)).matmul(&on(&gpu, &b).expand([4, 3, 2, 6, 7]));
        assert_close("copied", &found, &turned(&a).matmul(&b.expand([4, 3, 2, 6, 7])), OTHER_ORDER);
    }

    #[test]
    #[should_panic(expected = "matmul: [m,k]·[k,n] → [m,n], got [2, 3]·[4, 5] → [2, 5]")]
    fn shapes_that_do_not_agree_are_rejected() {
        let Some(gpu) = gpu() else { panic!("matmul: [m,k]·[k,n] → [m,n], got [2, 3]·[4, 5] → [2, 5] (skipped)") };
        on(&gpu, &normal([2, 3], 1)).matmul(&on(&gpu, &normal([4, 5], 2)));
    }
}
