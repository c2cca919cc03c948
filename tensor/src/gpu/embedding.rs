//! Gather of table rows by ids, and scatter-add of their gradients.

use super::{Array, THREADS, word};
use crate::Shape;
use crate::cpu::embedding::check;
use crate::device::shader;

/// Returns the table's rows `ids` as (shape…, d): row i is the table's row `ids[i]`.
pub(crate) fn gather(table: &Array, ids: &[u32], shape: &Shape) -> Array {
    assert_eq!(table.shape().len(), 2, "gather: a table (rows, d), got {}", table.shape());
    let d = table.shape()[1];
    let y = Array::unwritten(table.gpu(), Shape::new(&[shape, &[d][..]].concat()));
    check("gather", table.len(), d, ids, y.len());
    let sent = table.gpu().send(ids);
    let strides = table.layout.strides;
    let params = [word(y.len()), word(d), table.at(), word(strides[0]), word(strides[1])];
    table.gpu().dispatch(&shader!("gather"), &params, &[&y.buffer], &[&table.buffer, &sent], y.len().div_ceil(THREADS));
    y
}

/// Adds row i of x to row `ids[i]` of this table, in the order of i. The table is dense and not shared.
pub(crate) fn add_rows(table: &Array, ids: &[u32], x: &Array) {
    let d = table.shape()[1];
    check("scatter_add", table.len(), d, ids, x.len());
    let x = x.dense();
    let (count, plan) = plan(ids);
    let sent = x.gpu().send(&plan);
    let params = [word(count), word(d), table.at(), x.at()];
    x.gpu().dispatch(&shader!("scatter_add"), &params, &[&table.buffer], &[&x.buffer, &sent], (count * d).div_ceil(THREADS));
}

/// Returns the number of distinct ids, and the plan of the shader: the distinct ids; the offsets at which the positions of each
/// begin, and the end of the last; the positions of all ids, sorted by id and position.
fn plan(ids: &[u32]) -> (usize, Vec<u32>) {
    let mut by_id: Vec<(u32, u32)> = ids.iter().zip(0..).map(|(&id, i)| (id, i)).collect();
    by_id.sort_unstable();
    let groups = || by_id.chunk_by(|a, b| a.0 == b.0);
    let begins = groups().scan(0, |end, group| {
        let begin = *end;
        *end += group.len();
        Some(word(begin))
    });
    let mut plan: Vec<u32> = groups().map(|group| group[0].0).collect();
    let count = plan.len();
    plan.extend(begins.chain([word(ids.len())]));
    plan.extend(by_id.iter().map(|&(_, i)| i));
    (count, plan)
}

#[cfg(test)]
mod tests {
    use super::super::testing::{gpu, on};
    use crate::rng::Philox;
    use crate::{Shape, Tensor};

    #[test]
    fn positions_are_grouped_by_id_in_order() {
        assert_eq!(super::plan(&[7, 2, 7, 7, 0]), (3, vec![0, 2, 7, 0, 1, 2, 5, 4, 1, 0, 2, 3]));
        assert_eq!(super::plan(&[]), (0, vec![0]));
    }

    /// The kernels copy, and sum in the CPU's order, so the bits are equal.
    #[test]
    fn gather_scatter_add_and_add_rows_equal_the_cpu() {
        let Some(gpu) = gpu() else { return };
        let mut rng = Philox::new(4);
        for (rows, d, n) in [(1, 1, 1), (5, 3, 40), (50, 70, 300), (3, 2, 0), (3, 0, 4)] {
            let ids: Vec<u32> = (0..n).map(|i| (i * i * 3 % rows) as u32).collect();
            let (table, x) = (Tensor::<f32>::normal([rows, d], 1.0, &mut rng), Tensor::<f32>::normal([n, d], 1.0, &mut rng));
            let (there, gx) = (on(&gpu, &table), on(&gpu, &x));
            let shape = Shape::new(&[n, 1]);
            assert_eq!(there.gather(&ids, &shape), table.gather(&ids, &shape), "{n} of {rows} rows of {d}");
            assert_eq!(gx.scatter_add(&ids, rows), x.scatter_add(&ids, rows), "{n} to {rows} rows of {d}");
            let (mut sum, mut expected) = (there.clone(), table.clone());
            sum.add_rows(&ids, &gx);
            expected.add_rows(&ids, &x);
            assert_eq!((sum, there.to_vec()), (expected, table.to_vec()), "what is shared stays");
        }
    }

    #[test]
    fn views_are_accepted_as_tables_and_rows() {
        let Some(gpu) = gpu() else { return };
        let mut rng = Philox::new(5);
        let x = Tensor::<f32>::normal([9, 6], 1.0, &mut rng);
        let view = |x: &Tensor| x.slice(0, 1..8).t();
        let ids = [5, 0, 0, 3, 5, 2];
        let there = on(&gpu, &x);
        assert_eq!(view(&there).gather(&ids, &[2, 3].into()), view(&x).gather(&ids, &[2, 3].into()));
        let (mut sum, mut expected) = (view(&there), view(&x));
        sum.add_rows(&ids, &view(&there));
        expected.add_rows(&ids, &view(&x));
        assert_eq!(sum, expected);
    }

    #[test]
    #[should_panic(expected = "gather: id 4 at position 1 is outside the table's 4 rows")]
    fn an_id_out_of_range_panics() {
        let Some(gpu) = gpu() else { panic!("gather: id 4 at position 1 is outside the table's 4 rows (skipped)") };
        on(&gpu, &Tensor::zeros([4, 2])).gather(&[0, 4], &[2].into());
    }
}
