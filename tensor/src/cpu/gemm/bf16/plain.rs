//! The kernel in plain loops, for CPUs without vector instructions that this crate uses. It computes the definition.

use super::path::{StripFn, Strips};
use super::{chains, widen};

pub(super) const STRIPS: [StripFn; 1] = [strips];

/// Computes strips of one row.
///
/// # Safety
/// The contract of [`StripFn`].
unsafe fn strips(it: Strips) {
    let Strips { strips, blocks, a, b, onto, onto_ld, c, ld, .. } = it;
    for (i, j) in (0..strips).flat_map(|i| (0..32).map(move |j| (i, j))) {
        // SAFETY: by the caller's contract.
        unsafe {
            let pair = |p: usize| {
                let word = *b.add(p / 2 * 32 + j);
                (f32::from_bits(*a.add(i * blocks * 32 + p)), widen((word >> (p % 2 * 16)) as u16))
            };
            let block = |c, q: usize| chains(c, |p| pair(q * 32 + p));
            *c.byte_add(i * ld).add(j) = (0..blocks).fold(*onto.byte_add(i * onto_ld).add(j), block);
        }
    }
}
