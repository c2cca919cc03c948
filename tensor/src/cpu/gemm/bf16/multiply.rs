//! The product of packed factors, in blocks that fit into the caches.

use std::mem::MaybeUninit;
use std::ops::Range;

use super::pack::{Left, Right, padded};
use super::path::Strips;
use crate::operands::Onto;

/// The blocks along k that pass at a time: a panel of them, 16 KiB, stays in the first-level cache.
pub(super) const DEEP: usize = 8;
/// The columns of C that stay in the second-level cache, with the rows of [`TALL`], until k is done.
const BROAD: usize = 512;
/// The rows of C, at most, that stay in the second-level cache.
const TALL: usize = 256;

/// Computes C ← onto + A·B for these rows of A, from a multiple of a strip's rows on, these columns of B, from a multiple of 32 on,
/// and the blocks `along` k of B, which belong to those of A from `first` on, a multiple of [`DEEP`]. `c` is the first of these
/// rows and columns. The rows of C are contiguous and `ld` apart.
///
/// # Safety
/// C has these rows and columns, and nothing else reads or writes them during the call.
#[allow(clippy::too_many_arguments, reason = "operands and their parts")]
pub(super) unsafe fn part(
    left: &Left<'_>,
    first: usize,
    rows: Range<usize>,
    right: &Right<'_>,
    cols: Range<usize>,
    along: Range<usize>,
    c: *mut f32,
    ld: usize,
    onto: Onto<'_, f32>,
) {
    let path = left.path;
    let fits = rows.end <= left.rows && cols.end <= right.cols && along.end <= right.blocks;
    // Packed A is read in groups of DEEP blocks, of which the last may have fewer.
    let end = first + along.len();
    let groups = first.is_multiple_of(DEEP) && (end == left.blocks || end < left.blocks && along.len().is_multiple_of(DEEP));
    let whole = rows.start.is_multiple_of(path.rows) && cols.start.is_multiple_of(32) && std::ptr::eq(path, right.path);
    assert!(fits && groups && whole, "rows {rows:?} of {}, columns {cols:?} of {}, blocks {along:?}", left.rows, right.cols);
    let tall = TALL / path.rows * path.rows;
    for j0 in cols.clone().step_by(BROAD) {
        for i0 in rows.clone().step_by(tall) {
            let (i1, j1) = (rows.end.min(i0 + tall), cols.end.min(j0 + BROAD));
            for p in (0..along.len().max(1)).step_by(DEEP) {
                let depth = DEEP.min(along.len() - p);
                for j in (j0..j1).step_by(32) {
                    let onto = if p > 0 { Onto::Itself } else { onto.columns_from(j - cols.start) };
                    let b = if depth > 0 {
                        right.words[(j / 32 * right.blocks + along.start + p) * 512..].as_ptr()
                    } else {
                        std::ptr::null()
                    };
                    // SAFETY: by the caller's contract; `b` has `depth` blocks of the panel.
                    unsafe {
                        let c = c.add((i0 - rows.start) * ld + j - cols.start);
                        panel(
                            left,
                            i0..i1,
                            first + p,
                            depth,
                            [b, b.wrapping_add(512 * right.blocks)],
                            32.min(j1 - j),
                            c,
                            ld,
                            onto,
                        );
                    }
                }
            }
        }
    }
}

/// Computes rows of C and at most 32 columns, from `depth` blocks from `p` on.
///
/// # Safety
/// The contract of [`part`]; `b` has the blocks. `ahead` is the next panel.
#[allow(clippy::too_many_arguments, reason = "operands and their sizes")]
unsafe fn panel(
    left: &Left<'_>,
    rows: Range<usize>,
    p: usize,
    depth: usize,
    [b, ahead]: [*const u32; 2],
    cols: usize,
    c: *mut f32,
    ld: usize,
    onto: Onto<'_, f32>,
) {
    let Left { path, words, rows: all, .. } = *left;
    let (height, kernels) = (path.rows, path.kernels);
    let group = &words[p * padded(path, all) * path.order.of_a()..];
    // SAFETY: by the caller's contract. A kernel writes whole strips in place, and edges in a copy.
    unsafe {
        if depth == 0 {
            return start(rows.len(), cols, c, ld, onto);
        }
        let (onto, onto_ld) = match onto {
            Onto::Nothing => (ZEROS.as_ptr(), 0),
            Onto::Itself => (c.cast_const(), 4 * ld),
            Onto::Row(row) => (row[..cols].as_ptr(), 0),
        };
        let whole = if cols == 32 { rows.len() / height } else { 0 };
        let a = group[rows.start * depth * path.order.of_a()..].as_ptr();
        let all_strips = Strips { strips: whole, blocks: depth, a, b, ahead, onto, onto_ld, c, ld: 4 * ld };
        if whole > 0 {
            kernels[kernels.len() - 1](all_strips);
        }
        for i in (rows.start + whole * height..rows.end).step_by(height) {
            let (here, in_strip) = (height.min(rows.end - i), height.min(all - i));
            let a = group[i * depth * path.order.of_a()..].as_ptr();
            let (c, onto) = (c.add((i - rows.start) * ld), onto.byte_add((i - rows.start) * onto_ld));
            let (kernel, strip) = (kernels[in_strip.min(kernels.len()) - 1], Strips { strips: 1, a, onto, c, ..all_strips });
            if cols == 32 && kernels.len() > 1 {
                kernel(strip);
                continue;
            }
            let mut aside = MaybeUninit::<Aside>::uninit(); // the columns and rows past the edge may hold anything
            let aside = aside.as_mut_ptr().cast::<f32>();
            for i in 0..here {
                std::ptr::copy_nonoverlapping(onto.byte_add(i * onto_ld), aside.add(32 * i), cols);
            }
            kernel(Strips { onto: aside, onto_ld: 128, c: aside, ld: 128, ..strip });
            for i in 0..here {
                std::ptr::copy_nonoverlapping(aside.add(32 * i), c.add(i * ld), cols);
            }
        }
    }
}

static ZEROS: [f32; 32] = [0.0; 32];

#[repr(C, align(64))]
struct Aside([f32; 32 * 32]);

/// Writes the term alone, for a product without blocks.
///
/// # Safety
/// C has the rows and columns.
unsafe fn start(rows: usize, cols: usize, c: *mut f32, ld: usize, onto: Onto<'_, f32>) {
    for i in 0..rows {
        // SAFETY: by the caller's contract.
        let c = unsafe { std::slice::from_raw_parts_mut(c.add(i * ld), cols) };
        match onto {
            Onto::Nothing => c.fill(0.0),
            Onto::Itself => return,
            Onto::Row(x) => c.copy_from_slice(&x[..cols]),
        }
    }
}
