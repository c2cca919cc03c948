//! A tensor prepared for display: all numbers of a small one; means of blocks and a corner of a large one.

use gradus_autograd::Tensor;
use gradus_tensor::Real;
use serde::{Serialize, Serializer};

/// The largest number of elements of a tensor that is shown whole.
const WHOLE: usize = 4096;
/// The maximum number of rows and of columns of a heat map of means.
const MAP: usize = 40;
/// The number of rows and columns of the corner with exact numbers.
const CORNER: usize = 8;
/// The maximum number of rows of the corner if rows are selected.
const PICKED: usize = 32;
/// The number of slices shown of a large tensor.
const SLICES: usize = 4;

/// The statistics of a tensor, and slices of its last two axes.
#[derive(Clone, Debug, Serialize)]
pub struct View {
    /// The shape of the tensor.
    pub shape: Vec<usize>,
    /// The square root of the sum of squares.
    pub norm: f64,
    /// The smallest element.
    pub least: f64,
    /// The largest element.
    pub most: f64,
    /// The mean.
    pub mean: f64,
    /// The number of elements that are 0.
    pub zeros: usize,
    /// The number of NaN or infinite elements, which the other statistics ignore.
    pub odd: usize,
    /// The number of slices, of which `slices` may be the first few.
    pub of: usize,
    /// The value that 127 represents in the maps of means; `None` if the tensor is shown whole.
    pub top: Option<f64>,
    /// Slices of the last two axes; a vector is one row.
    pub slices: Vec<Slice>,
}

/// A slice prepared for display: a matrix.
#[derive(Clone, Debug, Serialize)]
pub struct Slice {
    /// The index of the slice along the leading axes.
    pub at: Vec<usize>,
    /// The number of rows and columns.
    pub size: [usize; 2],
    /// The number of rows and columns of `map`.
    pub cells: [usize; 2],
    /// The elements row by row if the tensor is shown whole, else means of blocks in 127ths of `top`.
    pub map: Numbers,
    /// The first numbers of `rows`, row by row, unless the tensor is shown whole.
    pub corner: Option<Numbers>,
    /// The indices of the corner's rows.
    pub rows: Vec<usize>,
}

/// Numbers as JSON, which lacks NaN and the infinities: these are written as strings.
#[derive(Clone, Debug, PartialEq)]
pub struct Numbers(pub Vec<f64>);

impl Serialize for Numbers {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        #[serde(untagged)]
        enum Number {
            Whole(i64),
            Finite(f64),
            Word(&'static str),
        }
        to.collect_seq(self.0.iter().map(|&x| match x {
            x if x.abs() < 1e6 && x.fract() == 0.0 => Number::Whole(x as i64), // 0, not 0.0: a page has millions of numbers
            x if x.is_finite() => Number::Finite(x),
            x if x.is_nan() => Number::Word("NaN"),
            x if x > 0.0 => Number::Word("∞"),
            _ => Number::Word("−∞"),
        }))
    }
}

impl View {
    /// Returns the view of a tensor.
    pub fn of<T: Real>(x: &Tensor<T>) -> Self {
        View::with_rows(x, &[])
    }

    /// Returns the view of a tensor. If it is too large to be shown whole, the corner has the first 32 of the rows `wanted`, or by
    /// default the first eight rows.
    pub fn with_rows<T: Real>(x: &Tensor<T>, wanted: &[usize]) -> Self {
        let values: Vec<f64> = x.to_vec().into_iter().map(T::to_f64).collect();
        let shape = x.shape().to_vec();
        let finite = || values.iter().copied().filter(|x| x.is_finite());
        let n = finite().count();
        let [rows, cols] = match shape[..] {
            [] => [1, 1],
            [n] => [1, n],
            [.., rows, cols] => [rows, cols],
        };
        let each = rows * cols;
        let of = values.len().checked_div(each).unwrap_or(0);
        let whole = values.len() <= WHOLE;
        let shown = if whole { of } else { of.min(SLICES) };
        let part = |i: usize| &values[i * each..(i + 1) * each];
        let maps: Vec<_> = if whole { vec![] } else { (0..shown).map(|i| means(part(i), rows, cols)).collect() };
        let all = maps.iter().flat_map(|(_, map)| map).filter(|m| m.is_finite());
        let top = all.fold(0.0, |top: f64, m| top.max(m.abs()));
        let picked: Vec<usize> = match wanted {
            [] => (0..rows.min(CORNER)).collect(),
            _ => wanted.iter().copied().filter(|&r| r < rows).take(PICKED).collect(),
        };
        let slice = |i: usize| {
            let values = part(i);
            let at = place(i, &shape[..shape.len().saturating_sub(2)]);
            if whole {
                let map = Numbers(values.to_vec());
                return Slice { at, size: [rows, cols], cells: [rows, cols], map, corner: None, rows: Vec::new() };
            }
            let (cells, map) = &maps[i];
            let map = map.iter().map(|m| if m.is_finite() && top > 0.0 { (m / top * 127.0).round() } else { *m });
            let corner = picked.iter().flat_map(|r| values[r * cols..].iter().take(cols.min(CORNER)).copied());
            let (map, corner) = (Numbers(map.collect()), Some(Numbers(corner.collect())));
            Slice { at, size: [rows, cols], cells: *cells, map, corner, rows: picked.clone() }
        };
        View {
            norm: finite().map(|x| x * x).sum::<f64>().sqrt(),
            least: finite().fold(f64::INFINITY, f64::min),
            most: finite().fold(f64::NEG_INFINITY, f64::max),
            mean: finite().sum::<f64>() / n.max(1) as f64,
            zeros: values.iter().filter(|&&x| x == 0.0).count(),
            odd: values.len() - n,
            of,
            top: (!whole).then_some(top),
            slices: (0..shown).map(slice).collect(),
            shape,
        }
    }
}

/// Returns index `i` of the leading axes, axis by axis.
fn place(mut i: usize, axes: &[usize]) -> Vec<usize> {
    let mut at = vec![0; axes.len()];
    for (k, n) in at.iter_mut().zip(axes).rev() {
        (*k, i) = (i % n, i / n);
    }
    at
}

/// Returns the means over blocks of rows and columns as equal as possible, at most [`MAP`] each way.
fn means(values: &[f64], rows: usize, cols: usize) -> ([usize; 2], Vec<f64>) {
    let cells = [rows.min(MAP), cols.min(MAP)];
    let range = |i: usize, n: usize, parts: usize| i * n / parts..(i + 1) * n / parts;
    let mut means = Vec::with_capacity(cells[0] * cells[1]);
    for r in 0..cells[0] {
        for c in 0..cells[1] {
            let (height, width) = (range(r, rows, cells[0]), range(c, cols, cells[1]));
            let n = height.len() * width.len();
            let sum: f64 = height.map(|row| values[row * cols..][width.clone()].iter().sum::<f64>()).sum();
            means.push(sum / n as f64);
        }
    }
    (cells, means)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_tensor_is_shown_whole() {
        let x = Tensor::new([2, 3, 2], (0..12).map(f64::from).collect());
        let view = View::of(&x);
        assert_eq!((view.of, view.slices.len(), view.zeros, view.odd), (2, 2, 1, 0));
        assert_eq!((view.least, view.most, view.mean), (0.0, 11.0, 5.5));
        assert!((view.norm - 506f64.sqrt()).abs() < 1e-12);
        let second = &view.slices[1];
        assert_eq!((&second.at[..], second.size, &second.corner), (&[1][..], [3, 2], &None));
        assert_eq!(second.map.0, [6.0, 7.0, 8.0, 9.0, 10.0, 11.0]);
        let scalar = View::of(&Tensor::scalar(2.5f32));
        assert_eq!((&scalar.slices[0].map.0[..], scalar.slices[0].size), (&[2.5][..], [1, 1]));
        assert_eq!(View::of(&Tensor::<f64>::zeros([0, 3])).slices.len(), 0);
    }

    #[test]
    fn a_large_tensor_is_shown_in_parts() {
        let (slices, rows, cols) = (9, 130, 65);
        let x = Tensor::new([slices, rows, cols], (0..slices * rows * cols).map(|i| (i % 7) as f64 - 3.0).collect());
        let view = View::of(&x);
        assert_eq!((view.of, view.slices.len()), (9, SLICES));
        let slice = &view.slices[3];
        assert_eq!((&slice.at[..], slice.size, slice.cells), (&[3][..], [130, 65], [MAP, MAP]));
        let first = 3 * rows * cols;
        let corner = &slice.corner.as_ref().unwrap().0;
        assert_eq!((slice.map.0.len(), corner.len()), (MAP * MAP, CORNER * CORNER));
        assert_eq!(corner[9], ((first + cols + 1) % 7) as f64 - 3.0);
        // Other rows if they are selected; one beyond the last row is left out.
        let view = View::with_rows(&x, &[129, 4, 130]);
        let slice = &view.slices[3];
        assert_eq!(slice.rows, [129, 4]);
        let corner = &slice.corner.as_ref().unwrap().0;
        assert_eq!((corner.len(), corner[9]), (2 * CORNER, ((first + 4 * cols + 1) % 7) as f64 - 3.0));
    }

    #[test]
    fn blocks_of_means_cover_everything_once() {
        let (rows, cols) = (70, 3);
        let (cells, all) = means(&vec![2.0; rows * cols], rows, cols);
        assert_eq!((cells, all), ([MAP, 3], vec![2.0; MAP * 3]));
        let mut one = vec![0.0; rows * cols];
        one[69 * 3 + 2] = 4.0;
        let (_, all) = means(&one, rows, cols);
        assert_eq!(all.iter().filter(|m| **m != 0.0).collect::<Vec<_>>(), [&2.0]); // the last block has two rows
    }

    #[test]
    fn non_finite_values_are_counted_separately() {
        let view = View::of(&Tensor::new([3], vec![f64::NAN, 1.0, f64::INFINITY]));
        assert_eq!((view.odd, view.most, view.norm), (2, 1.0, 1.0));
        assert_eq!(serde_json::to_string(&view.slices[0].map).unwrap(), r#"["NaN",1,"∞"]"#);
    }
}
