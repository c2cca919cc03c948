//! Copies between views: dense copies, concatenation, padding, and writes of rows.

use super::{Array, THREADS, fill, word};
use crate::Shape;
use crate::device::shader;
use crate::shape::MAX_RANK;

/// Copies `from` to `to`, views of one shape in two buffers.
pub(super) fn copy(from: &Array, to: &Array) {
    let shape = from.shape();
    assert_eq!(shape, to.shape(), "views of one shape");
    let words = |axes: &[usize], or: usize| {
        let mut inner_first = [word(or); MAX_RANK];
        inner_first.iter_mut().zip(axes.iter().rev()).for_each(|(to, &from)| *to = word(from));
        inner_first
    };
    let n = shape.numel();
    let head = [word(n), word(shape.len()), from.at(), to.at()];
    let axes = [words(&shape, 1), words(&from.layout.strides, 0), words(&to.layout.strides, 0)].concat();
    from.gpu().dispatch(&shader!("copy"), &[&head[..], &axes].concat(), &[&to.buffer], &[&from.buffer], n.div_ceil(THREADS));
}

/// Writes `rows` to the positions from `start` on along `axis` of `to`.
pub(crate) fn write_rows(to: &Array, axis: usize, start: usize, rows: &Array) {
    let layout = to.layout.slice(axis, start..start + rows.shape()[axis]);
    copy(rows, &Array { layout, buffer: to.buffer.clone() });
}

/// Concatenates the parts along `axis`.
pub(crate) fn concat(parts: &[Array], axis: usize) -> Array {
    let extent = parts.iter().map(|x| x.shape()[axis]).sum();
    let out = Array::unwritten(parts[0].gpu(), parts[0].shape().with(axis, extent));
    let mut start = 0;
    for part in parts {
        write_rows(&out, axis, start, part);
        start += part.shape()[axis];
    }
    out
}

/// Returns x with `before` zeros before it and `after` zeros after it along `axis`.
pub(crate) fn pad(x: &Array, axis: usize, before: usize, after: usize) -> Array {
    let shape: Shape = x.shape();
    let out = fill(x.gpu(), shape.with(axis, before + shape[axis] + after), 0.0);
    write_rows(&out, axis, before, x);
    out
}

#[cfg(test)]
mod tests {
    use super::super::testing::{gpu, on};
    use crate::Tensor;

    #[test]
    fn views_are_copied_joined_padded_and_written() {
        let Some(gpu) = gpu() else { return };
        let x = Tensor::new([2, 3, 5], (0..30u8).map(f32::from).collect());
        let there = on(&gpu, &x);
        let view = |x: &Tensor| x.permute(&[2, 0, 1]).slice(0, 1..4);
        assert_eq!(view(&there).dense().to_vec(), view(&x).to_vec());
        assert_eq!(there.slice(1, 2..3).expand([4, 2, 3, 5]).dense(), x.slice(1, 2..3).expand([4, 2, 3, 5]).dense());
        let joined = |x: &Tensor| Tensor::concat(&[x, &x.slice(1, 1..2), x], 1);
        assert_eq!(joined(&there), joined(&x));
        assert_eq!(there.t().pad(1, 2, 1), x.t().pad(1, 2, 1));
        let written = |mut x: Tensor, rows: Tensor| {
            x.write_rows(2, 1, &rows);
            x
        };
        let rows = |x: &Tensor| x.slice(2, 3..5);
        assert_eq!(written(there.clone(), rows(&there)), written(x.clone(), rows(&x)));
        let none = there.slice(0, 1..1);
        assert_eq!((none.to_vec(), none.t().dense().len()), (vec![], 0));
        let deep = Tensor::new([2, 1, 2, 1, 2, 1, 2, 2], (0..32u8).map(f32::from).collect());
        assert_eq!(on(&gpu, &deep).permute(&[7, 6, 5, 4, 3, 2, 1, 0]).to_vec(), deep.permute(&[7, 6, 5, 4, 3, 2, 1, 0]).to_vec());
    }
}
