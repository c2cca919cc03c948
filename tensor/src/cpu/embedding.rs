//! Rows of a table by their ids, and the gradient's way back.

use super::{row_count, same_len};
use crate::Real;

/// y row i = table row ids[i].
pub fn naive<T: Real>(table: &[T], d: usize, ids: &[u32], y: &mut [T]) {
    check("gather", table.len(), d, ids, y.len());
    for (i, &id) in ids.iter().enumerate() {
        y[i * d..][..d].copy_from_slice(&table[id as usize * d..][..d]);
    }
}

/// table row ids[i] += x row i, in the order of i.
pub fn naive_scatter_add<T: Real>(table: &mut [T], d: usize, ids: &[u32], x: &[T]) {
    check("scatter_add", table.len(), d, ids, x.len());
    for (i, &id) in ids.iter().enumerate() {
        for (t, &x) in table[id as usize * d..][..d].iter_mut().zip(&x[i * d..][..d]) {
            *t += x;
        }
    }
}

/// Panics unless the lengths agree and every id is a row of the table.
#[track_caller]
fn check(kernel: &str, table: usize, d: usize, ids: &[u32], rows: usize) {
    let known = row_count(kernel, table, d);
    same_len(kernel, &[rows, ids.len() * d]);
    if d > 0
        && let Some(i) = ids.iter().position(|&id| id as usize >= known)
    {
        panic!("{kernel}: id {} at position {i} is outside the table's {known} rows", ids[i]);
    }
}
