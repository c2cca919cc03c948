//! Work in chunks on rayon's current pool. The size alone determines the chunks, and short work stays on the calling thread. No
//! bit of a result depends on the cuts.

use rayon::prelude::*;

use crate::Scalar;
use crate::buffer::with_scratch;

/// Runs `f` on a thread of rayon's current pool. Code that calls many kernels should run there: on any other thread, each kernel
/// would wake the pool and wait for it.
pub fn on_pool<R: Send>(f: impl FnOnce() -> R + Send) -> R {
    rayon::scope(|_| f())
}

/// The number of elements per chunk: about ten microseconds of work, well above the cost of scheduling it.
const CHUNK: usize = 1 << 14;

/// Returns the number of rows of n in a chunk of about [`CHUNK`] elements.
pub(crate) fn rows_per_chunk(n: usize) -> usize {
    (CHUNK / n.max(1)).max(1)
}

/// Returns whether `elements` are enough work for more than one thread.
pub(crate) fn worth_it(elements: usize) -> bool {
    elements >= 2 * CHUNK && rayon::current_num_threads() > 1
}

/// Applies f to chunks of whole rows of n of x and y.
pub(crate) fn each_2<T: Sync, U: Send>(n: usize, x: &[T], y: &mut [U], f: impl Fn(&[T], &mut [U]) + Sync + Send) {
    if worth_it(y.len()) {
        let size = n * rows_per_chunk(n);
        y.par_chunks_mut(size).zip(x.par_chunks(size)).for_each(|(y, x)| f(x, y));
    } else {
        f(x, y);
    }
}

/// Applies f to chunks of whole rows of n of x, y and z.
pub(crate) fn each_3<T: Send + Sync>(n: usize, x: &[T], y: &[T], z: &mut [T], f: impl Fn(&[T], &[T], &mut [T]) + Sync + Send) {
    if worth_it(z.len()) {
        let size = n * rows_per_chunk(n);
        z.par_chunks_mut(size).zip(x.par_chunks(size)).zip(y.par_chunks(size)).for_each(|((z, x), y)| f(x, y, z));
    } else {
        f(x, y, z);
    }
}

/// The number of rows per partial sum. It is constant, so that the bits do not depend on the number of threads.
const BLOCK: usize = 64;

/// Applies f to blocks of the rows of n of y. f receives the index of the block's first row, the block's rows of y, and room for
/// its partial `sums` (n elements each, one after the other), which it writes. The partial sums are added in order.
pub(crate) fn each_with_sums<T: Scalar, const S: usize>(
    n: usize,
    y: &mut [T],
    mut sums: [&mut [T]; S],
    f: impl Fn(usize, &mut [T], &mut [T]) + Sync + Send,
) {
    sums.iter_mut().for_each(|sum| sum.fill(T::zero()));
    if y.is_empty() {
        return;
    }
    with_scratch((y.len() / n).div_ceil(BLOCK) * S * n, |shares| {
        let block = |(i, (share, y)): (usize, (&mut [T], &mut [T]))| f(i * BLOCK, y, share);
        if worth_it(y.len()) {
            shares.par_chunks_mut(S * n).zip(y.par_chunks_mut(BLOCK * n)).enumerate().for_each(block);
        } else {
            shares.chunks_mut(S * n).zip(y.chunks_mut(BLOCK * n)).enumerate().for_each(block);
        }
        for share in shares.chunks_exact(S * n) {
            for (sum, share) in sums.iter_mut().zip(share.chunks_exact(n)) {
                sum.iter_mut().zip(share).for_each(|(sum, &share)| *sum += share);
            }
        }
    });
}

/// A pointer shared by tasks that write disjoint elements.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shared<T>(*mut T);

// SAFETY: the pointer may be sent to any thread; code that dereferences it guarantees that accesses do not overlap.
unsafe impl<T: Send> Send for Shared<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Sync for Shared<T> {}

impl<T> Shared<T> {
    pub(crate) fn new(data: &mut [T]) -> Self {
        Shared(data.as_mut_ptr())
    }

    /// Returns the address of element `offset`.
    pub(crate) fn at(self, offset: usize) -> *mut T {
        self.0.wrapping_add(offset)
    }

    /// Returns `len` elements from `offset` on.
    ///
    /// # Safety
    /// They must lie in the slice that the pointer was made from, which must still be borrowed, and no other reference to
    /// them may exist while the result lives.
    pub(crate) unsafe fn slice<'a>(self, offset: usize, len: usize) -> &'a mut [T] {
        // SAFETY: by the caller's contract.
        unsafe { std::slice::from_raw_parts_mut(self.at(offset), len) }
    }
}
