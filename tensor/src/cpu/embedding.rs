//! Gather of table rows by ids, and scatter-add of their gradients.

use rayon::prelude::*;

use super::parallel::{self, Shared};
use super::{row_count, same_len};
use crate::Scalar;
use crate::simd::Float;

/// Copies table row `ids[i]` to row i of y.
pub fn naive<T: Scalar>(table: &[T], d: usize, ids: &[u32], y: &mut [T]) {
    check("gather", table.len(), d, ids, y.len());
    for (i, &id) in ids.iter().enumerate() {
        y[i * d..][..d].copy_from_slice(&table[id as usize * d..][..d]);
    }
}

/// Adds row i of x to table row `ids[i]`, in the order of i.
pub fn naive_scatter_add<T: Scalar>(table: &mut [T], d: usize, ids: &[u32], x: &[T]) {
    check("scatter_add", table.len(), d, ids, x.len());
    for (i, &id) in ids.iter().enumerate() {
        for (t, &x) in table[id as usize * d..][..d].iter_mut().zip(&x[i * d..][..d]) {
            *t += x;
        }
    }
}

/// Panics unless the lengths agree and every id is a row of the table.
#[track_caller]
pub(crate) fn check(kernel: &str, table: usize, d: usize, ids: &[u32], rows: usize) {
    let known = row_count(kernel, table, d);
    same_len(kernel, &[rows, ids.len() * d]);
    if d > 0
        && let Some(i) = ids.iter().position(|&id| id as usize >= known)
    {
        panic!("{kernel}: id {} at position {i} is outside the table's {known} rows", ids[i]);
    }
}

/// Computes [`naive`], parallel by rows.
pub fn fast<T: Float>(table: &[T], d: usize, ids: &[u32], y: &mut [T]) {
    if !parallel::worth_it(y.len()) {
        return naive(table, d, ids, y);
    }
    check("gather", table.len(), d, ids, y.len());
    let rows = parallel::rows_per_chunk(d);
    y.par_chunks_mut(rows * d).zip(ids.par_chunks(rows)).for_each(|(y, ids)| {
        for (y, &id) in y.chunks_exact_mut(d).zip(ids) {
            y.copy_from_slice(&table[id as usize * d..][..d]);
        }
    });
}

/// Computes [`naive_scatter_add`], parallel by columns, so that the summands of an element keep their order.
pub fn fast_scatter_add<T: Float>(table: &mut [T], d: usize, ids: &[u32], x: &[T]) {
    if !parallel::worth_it(x.len()) {
        return naive_scatter_add(table, d, ids, x);
    }
    check("scatter_add", table.len(), d, ids, x.len());
    let width = d.div_ceil(rayon::current_num_threads()).next_multiple_of(16);
    let table = Shared::new(table);
    (0..d).into_par_iter().step_by(width).for_each(|column| {
        let width = width.min(d - column);
        for (i, &id) in ids.iter().enumerate() {
            // SAFETY: `check` found the row inside the table, which is borrowed mutably; tasks own disjoint columns.
            let t = unsafe { table.slice(id as usize * d + column, width) };
            for (t, &x) in t.iter_mut().zip(&x[i * d + column..][..width]) {
                *t += x;
            }
        }
    });
}
