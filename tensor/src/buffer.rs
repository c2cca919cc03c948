//! Recycled memory.
//!
//! A training step needs the same few hundred buffers every time. Fresh memory costs page faults, so memory is kept: it comes
//! from the system in a few large slabs, a buffer is a range of a slab, ranges are given out first fit, and a freed range is
//! joined to its free neighbours (Knuth, The Art of Computer Programming 1, §2.5). So the memory of a block's activations next
//! serves the gradients of its parameters, whatever their sizes; and since every step asks for the same lengths in the same
//! order, it finds the free ranges that the step before left, and asks the system for nothing. (On several threads the orders
//! interleave, and a later step may still need a little more.)
//!
//! A recycled buffer holds old values; whoever takes one must write all of it.

use std::any::TypeId;
use std::collections::BTreeMap;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use crate::Scalar;

/// Ranges begin and end at multiples of this many bytes: a cache line, and the widest vector.
const LINE: usize = 64;
/// A slab is as large as all before it together, within these bounds, or as the buffer that it is made for. Its unused
/// part costs only addresses: systems provide memory page by page, as it is first written.
const SLAB: std::ops::RangeInclusive<usize> = 1 << 20..=1 << 28;

static POOL: Mutex<Pool> = Mutex::new(Pool::new());

/// A range of a slab.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place {
    slab: usize,
    offset: usize,
    bytes: usize,
}

/// Memory from the system.
struct Slab {
    first: NonNull<u8>,
    bytes: usize,
    /// Bytes from its beginning that buffers have ever used.
    reached: usize,
}

// SAFETY: the memory is the slab's alone, and a pointer to it may be used on any thread.
unsafe impl Send for Slab {}

/// Slabs, and what is free of them.
struct Pool {
    slabs: Vec<Slab>,
    /// From the slab and offset of every free range to its bytes; no two ranges touch.
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

    /// `bytes`, a positive multiple of [`LINE`], from the first free range that has them.
    fn take(&mut self, bytes: usize) -> (Place, NonNull<u8>) {
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
        (Place { slab, offset, bytes }, unsafe { of.first.add(offset) })
    }

    /// Makes a range free again.
    fn give(&mut self, place: Place) {
        let Place { slab, mut offset, mut bytes } = place;
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

    /// Adds a slab; returns it as a free range.
    fn grow(&mut self, bytes: usize) -> ((usize, usize), usize) {
        let so_far: usize = self.slabs.iter().map(|s| s.bytes).sum();
        let bytes = bytes.max(so_far.clamp(*SLAB.start(), *SLAB.end()));
        self.slabs.push(Slab { first: zeros(bytes), bytes, reached: 0 });
        let at = (self.slabs.len() - 1, 0);
        self.free.insert(at, bytes);
        (at, bytes)
    }
}

/// Zeroed memory, which the system provides page by page, in large pages where it has them: a step walks through all of its
/// memory, and with small pages would wait for address translation.
#[cfg(not(any(target_family = "wasm", miri)))]
fn zeros(bytes: usize) -> NonNull<u8> {
    use memmap2::MmapMut;
    let memory = MmapMut::map_anon(bytes).unwrap_or_else(|e| refuse(bytes, &e.to_string()));
    #[cfg(target_os = "linux")]
    let _ = memory.advise(memmap2::Advice::HugePage); // only a hint: the memory is ours without it
    NonNull::from(&mut Box::leak(Box::new(memory))[..]).cast()
}

/// Zeroed memory where the system has no maps, nor Miri: a vector of lines.
#[cfg(any(target_family = "wasm", miri))]
fn zeros(bytes: usize) -> NonNull<u8> {
    #[derive(Clone, Copy)]
    #[repr(align(64))]
    struct Line(#[allow(dead_code, reason = "only its place is used")] [u8; LINE]);
    NonNull::from(vec![Line([0; LINE]); bytes.div_ceil(LINE)].leak()).cast()
}

/// Bytes that the system refused; 0: none.
static REFUSED: AtomicUsize = AtomicUsize::new(0);
/// Buffers to be given out until one is refused; 0: none is.
static LEFT: AtomicU64 = AtomicU64::new(0);

fn refuse(bytes: usize, reason: &str) -> ! {
    REFUSED.store(bytes, Ordering::SeqCst);
    panic!("cannot get {bytes} bytes of memory from the system: {reason}")
}

/// How many bytes the system refused to a buffer, which then panicked; `None`: it never has.
pub fn refused() -> Option<usize> {
    Some(REFUSED.load(Ordering::SeqCst)).filter(|&bytes| bytes > 0)
}

/// For tests: the n-th buffer from now on is refused, as if the system had no memory left; 0: none is. Returns how many were left until
/// the one that was to be refused.
pub fn refuse_nth(n: u64) -> u64 {
    REFUSED.store(0, Ordering::SeqCst);
    LEFT.swap(n, Ordering::SeqCst)
}

/// Counts a buffer; panics if it is the one to be refused.
fn count(bytes: usize) {
    if LEFT.load(Ordering::Relaxed) > 0 && LEFT.fetch_sub(1, Ordering::SeqCst) == 1 {
        refuse(bytes, "a test refuses this one");
    }
}

fn pool() -> std::sync::MutexGuard<'static, Pool> {
    // Nothing under the lock panics between two changes that belong together.
    POOL.lock().unwrap_or_else(|e| e.into_inner())
}

/// `len` elements of recycled memory; returned to the pool when dropped.
#[derive(Debug)]
pub struct Buffer<T: Scalar> {
    store: Store<T>,
    len: usize,
}

#[derive(Debug)]
enum Store<T> {
    /// A range of a slab, for `f32` and `f64`, in which every bit pattern is a value.
    Pooled(Place, NonNull<T>),
    /// Its own memory, for any other scalar.
    Own(Vec<T>),
}

// SAFETY: a buffer owns its memory, as a vector does.
unsafe impl<T: Scalar> Send for Buffer<T> {}
// SAFETY: as above.
unsafe impl<T: Scalar> Sync for Buffer<T> {}

impl<T: Scalar> Buffer<T> {
    /// A buffer of `len` elements whose values are arbitrary (zeros when fresh, else what the last user left).
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
            // SAFETY: the place has room for `len` elements, begins at a line, was zero or holds floats, and is this
            // buffer's alone until dropped.
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

/// Lends `len` elements of arbitrary values to a kernel.
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

/// What the pool has done since the program began.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PoolStats {
    /// Number of slabs taken from the system.
    pub slabs: usize,
    /// Bytes that buffers have ever reached into: what the system provides for them.
    pub held_bytes: usize,
    /// Bytes in use now; the rest of `held_bytes` is idle.
    pub live_bytes: usize,
    /// The most bytes in use at one time, since the program began or since [`reset_peak`].
    pub peak_bytes: usize,
    /// The most bytes lent to kernels as working space at one time, since the program began.
    pub scratch_bytes: usize,
}

/// What the pool has done since the program began.
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

/// Restarts `peak_bytes` from the bytes in use now.
pub fn reset_peak() {
    let mut pool = pool();
    pool.peak = pool.live;
}

#[cfg(test)]
mod tests;
