//! A memory pool that recycles buffers.
//!
//! A training step needs the same few hundred buffers every time. Fresh memory costs page faults, so the pool keeps freed memory.
//! The memory comes from the system in a few large slabs. A buffer is a range of a slab. Ranges are allocated first fit, and a
//! freed range is merged with its free neighbours (Knuth, The Art of Computer Programming 1, §2.5). The memory of a block's
//! activations is thus reused for the gradients of its parameters, whatever their sizes. Every step requests the same lengths in
//! the same order, so it finds the ranges that the previous step freed, and needs no memory from the system. With several threads
//! the orders interleave, and a later step may still need a little more.
//!
//! A recycled buffer holds old values. Its user must write every element.

use std::any::TypeId;
use std::collections::BTreeMap;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use crate::Scalar;

/// The alignment and granularity of ranges in bytes: a cache line, and the widest vector.
const LINE: usize = 64;
/// The size of a new slab in bytes: as large as all slabs before it together, within these bounds, or as large as the requested
/// buffer if that is larger. The unused part of a slab costs only address space: the system provides each page when it is first
/// written.
const SLAB: std::ops::RangeInclusive<usize> = 1 << 20..=1 << 28;

static POOL: Mutex<Pool> = Mutex::new(Pool::new());

/// A range of a slab.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Span {
    slab: usize,
    offset: usize,
    bytes: usize,
}

/// A block of memory from the system.
struct Slab {
    first: NonNull<u8>,
    bytes: usize,
    /// The number of bytes from the start of the slab that buffers have ever used.
    reached: usize,
}

// SAFETY: the slab owns its memory, and a pointer to it may be used on any thread.
unsafe impl Send for Slab {}

/// The slabs and their free ranges.
struct Pool {
    slabs: Vec<Slab>,
    /// The length in bytes of every free range, by slab and offset. No two free ranges are adjacent.
    free: BTreeMap<(usize, usize), usize>,
    live: usize,
    peak: usize,
    scratch: usize,
    scratch_peak: usize,
}

impl Pool {
    const fn new() -> Self {
        Pool { slabs: Vec::new(), free: BTreeMap::new(), live: 0, peak: 0, scratch: 0, scratch_peak: 0 }
    }

    /// Allocates `bytes`, a positive multiple of [`LINE`], from the first free range that is large enough.
    fn take(&mut self, bytes: usize) -> (Span, NonNull<u8>) {
        let first_fit = self.free.iter().find(|(_, free)| **free >= bytes).map(|(&at, &free)| (at, free));
        let ((slab, offset), free) = first_fit.unwrap_or_else(|| self.grow(bytes));
        self.free.remove(&(slab, offset));
        if free > bytes {
            self.free.insert((slab, offset + bytes), free - bytes);
        }
        self.live += bytes;
        self.peak = self.peak.max(self.live);
        let of = &mut self.slabs[slab];
        of.reached = of.reached.max(offset + bytes);
        // SAFETY: a free range lies within its slab.
        (Span { slab, offset, bytes }, unsafe { of.first.add(offset) })
    }

    /// Frees a range.
    fn give(&mut self, place: Span) {
        let Span { slab, mut offset, mut bytes } = place;
        self.live -= bytes;
        if let Some(after) = self.free.remove(&(slab, offset + bytes)) {
            bytes += after;
        }
        if let Some((&(_, before), &free)) = self.free.range((slab, 0)..(slab, offset)).next_back()
            && before + free == offset
        {
            (offset, bytes) = (before, free + bytes);
        }
        self.free.insert((slab, offset), bytes);
    }

    /// Adds a slab and returns it as a free range.
    fn grow(&mut self, bytes: usize) -> ((usize, usize), usize) {
        let so_far: usize = self.slabs.iter().map(|s| s.bytes).sum();
        let bytes = bytes.max(so_far.clamp(*SLAB.start(), *SLAB.end()));
        self.slabs.push(Slab { first: zeros(bytes), bytes, reached: 0 });
        let at = (self.slabs.len() - 1, 0);
        self.free.insert(at, bytes);
        (at, bytes)
    }
}

/// Returns zeroed memory. The system provides each page when it is first written, in huge pages if it has them. A step touches
/// all its memory; with small pages it would wait for address translation.
#[cfg(not(any(target_family = "wasm", miri)))]
fn zeros(bytes: usize) -> NonNull<u8> {
    use memmap2::MmapMut;
    let memory = MmapMut::map_anon(bytes).unwrap_or_else(|e| refuse(bytes, &e.to_string()));
    #[cfg(target_os = "linux")]
    let _ = memory.advise(memmap2::Advice::HugePage); // only a hint: the memory is usable without it
    NonNull::from(&mut Box::leak(Box::new(memory))[..]).cast()
}

/// Returns zeroed memory as a vector of cache lines, for systems without memory maps and for Miri.
#[cfg(any(target_family = "wasm", miri))]
fn zeros(bytes: usize) -> NonNull<u8> {
    #[derive(Clone, Copy)]
    #[repr(align(64))]
    struct Line(#[allow(dead_code, reason = "only its place is used")] [u8; LINE]);
    NonNull::from(vec![Line([0; LINE]); bytes.div_ceil(LINE)].leak()).cast()
}

/// The bytes of the last refused allocation; 0 if there was none.
static REFUSED: AtomicUsize = AtomicUsize::new(0);
/// The number of buffers to allocate until one is refused, that one included; 0 if none is to be refused.
static LEFT: AtomicU64 = AtomicU64::new(0);

fn refuse(bytes: usize, reason: &str) -> ! {
    REFUSED.store(bytes, Ordering::SeqCst);
    panic!("cannot get {bytes} bytes of memory from the system: {reason}")
}

/// Returns the size in bytes of the buffer that the system refused and whose allocation panicked, or `None` if there was none.
pub fn refused() -> Option<usize> {
    Some(REFUSED.load(Ordering::SeqCst)).filter(|&bytes| bytes > 0)
}

/// Makes the n-th buffer from now on fail, for tests, as if the system were out of memory; 0 disables the failure. Returns the
/// previous setting: the number of buffers that were left until the failure.
pub fn refuse_nth(n: u64) -> u64 {
    REFUSED.store(0, Ordering::SeqCst);
    LEFT.swap(n, Ordering::SeqCst)
}

/// Counts a buffer. Panics if it is the one to be refused.
fn count(bytes: usize) {
    if LEFT.load(Ordering::Relaxed) > 0 && LEFT.fetch_sub(1, Ordering::SeqCst) == 1 {
        refuse(bytes, "a test refuses this one");
    }
}

fn pool() -> std::sync::MutexGuard<'static, Pool> {
    // A poisoned lock is usable: no code under the lock panics between two dependent changes.
    POOL.lock().unwrap_or_else(|e| e.into_inner())
}

/// A buffer of `len` elements of recycled memory, returned to the pool when dropped.
#[derive(Debug)]
pub struct Buffer<T: Scalar> {
    store: Store<T>,
    len: usize,
}

#[derive(Debug)]
enum Store<T> {
    /// A range of a slab, for `f32` and `f64`, in which every bit pattern is a value.
    Pooled(Span, NonNull<T>),
    /// A vector, for any other scalar.
    Own(Vec<T>),
}

// SAFETY: a buffer owns its memory, as a vector does.
unsafe impl<T: Scalar> Send for Buffer<T> {}
// SAFETY: as above.
unsafe impl<T: Scalar> Sync for Buffer<T> {}

impl<T: Scalar> Buffer<T> {
    /// Returns a buffer of `len` elements with arbitrary values: zeros if the memory is fresh, otherwise the values of its last
    /// user.
    pub fn recycled(len: usize) -> Self {
        let is_float = [TypeId::of::<f32>(), TypeId::of::<f64>()].contains(&TypeId::of::<T>());
        let store = if is_float {
            let bytes = len.checked_mul(size_of::<T>()).filter(|&bytes| bytes < isize::MAX as usize - LINE);
            let bytes = bytes.unwrap_or_else(|| panic!("a buffer of {len} elements is larger than any memory"));
            let bytes = bytes.next_multiple_of(LINE).max(LINE);
            count(bytes);
            let (place, first) = pool().take(bytes);
            Store::Pooled(place, first.cast())
        } else {
            Store::Own(vec![T::zero(); len])
        };
        Buffer { store, len }
    }
}

impl<T: Scalar> Drop for Buffer<T> {
    fn drop(&mut self) {
        if let Store::Pooled(place, _) = self.store {
            pool().give(place);
        }
    }
}

impl<T: Scalar> Deref for Buffer<T> {
    type Target = [T];
    fn deref(&self) -> &[T] {
        match &self.store {
            // SAFETY: the place has room for `len` elements, begins at a multiple of `LINE`, was zeroed or holds floats, and
            // belongs to this buffer alone until it is dropped.
            Store::Pooled(_, first) => unsafe { std::slice::from_raw_parts(first.as_ptr(), self.len) },
            Store::Own(values) => values,
        }
    }
}

impl<T: Scalar> DerefMut for Buffer<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        match &mut self.store {
            // SAFETY: as in `deref`.
            Store::Pooled(_, first) => unsafe { std::slice::from_raw_parts_mut(first.as_ptr(), self.len) },
            Store::Own(values) => values,
        }
    }
}

/// Calls `f` with `len` elements of recycled memory, whose values are arbitrary.
pub(crate) fn with_scratch<T: Scalar, R>(len: usize, f: impl FnOnce(&mut [T]) -> R) -> R {
    let mut buffer = Buffer::recycled(len);
    let bytes = len * size_of::<T>();
    {
        let mut pool = pool();
        pool.scratch += bytes;
        pool.scratch_peak = pool.scratch_peak.max(pool.scratch);
    }
    let result = f(&mut buffer);
    pool().scratch -= bytes;
    result
}

/// Statistics of the pool.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PoolStats {
    /// The number of slabs allocated from the system.
    pub slabs: usize,
    /// The bytes of all slabs up to the highest one ever used, which are the bytes that the system provides.
    pub held_bytes: usize,
    /// The bytes in use now; the rest of `held_bytes` is free.
    pub live_bytes: usize,
    /// The most bytes in use at one time, since the program began or since [`reset_peak`].
    pub peak_bytes: usize,
    /// The most bytes used by kernels as scratch memory at one time, since the program began.
    pub scratch_bytes: usize,
}

/// Returns the statistics of the pool.
pub fn stats() -> PoolStats {
    let pool = pool();
    PoolStats {
        slabs: pool.slabs.len(),
        held_bytes: pool.slabs.iter().map(|s| s.reached).sum(),
        live_bytes: pool.live,
        peak_bytes: pool.peak,
        scratch_bytes: pool.scratch_peak,
    }
}

/// Resets `peak_bytes` to the bytes in use now.
pub fn reset_peak() {
    let mut pool = pool();
    pool.peak = pool.live;
}

#[cfg(test)]
mod tests;
