//! Recycled memory.
//!
//! A training step needs the same few hundred buffers every time. Memory fresh from the system is paid for in page
//! faults, so a buffer that is dropped goes to a pool and the next of its size takes it from there: in steady state a
//! step asks the system for nothing. A recycled buffer holds old values of its own type; whoever takes one writes it whole.

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{LazyLock, Mutex};

use crate::Real;

/// Shelves of idle buffers, by scalar and capacity.
type Shelves = HashMap<(TypeId, usize), Vec<Box<dyn Any + Send>>>;
static POOL: LazyLock<Mutex<Shelves>> = LazyLock::new(Mutex::default);
static FRESH: AtomicUsize = AtomicUsize::new(0);
static LIVE: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

fn pool() -> std::sync::MutexGuard<'static, Shelves> {
    // A panic while the lock is held leaves the shelves consistent: they are only pushed to and popped from.
    POOL.lock().unwrap_or_else(|e| e.into_inner())
}

/// `len` elements of recycled memory; returned to the pool when dropped.
#[derive(Debug)]
pub struct Buffer<T: Real> {
    // `None` only while being dropped.
    #[allow(clippy::box_collection)] // the box is what moves between here and the shelf, so recycling allocates nothing
    store: Option<Box<Vec<T>>>,
    len: usize,
}

/// Capacities come in eighths of a power of two, so that near sizes share a shelf and at most an eighth is idle.
fn capacity(len: usize) -> usize {
    if len <= 64 {
        return 64;
    }
    let step = (len.next_power_of_two() / 16).max(64);
    len.div_ceil(step) * step
}

impl<T: Real> Buffer<T> {
    /// A buffer of `len` elements whose values are arbitrary (zeros when fresh, else what the last user left).
    pub fn recycled(len: usize) -> Self {
        let cap = capacity(len);
        let idle = pool().get_mut(&(TypeId::of::<T>(), cap)).and_then(Vec::pop);
        let store = match idle {
            Some(any) => any.downcast::<Vec<T>>().expect("a shelf holds buffers of its own scalar"),
            None => {
                FRESH.fetch_add(1, Relaxed);
                Box::new(vec![T::zero(); cap])
            }
        };
        let live = LIVE.fetch_add(cap * size_of::<T>(), Relaxed) + cap * size_of::<T>();
        PEAK.fetch_max(live, Relaxed);
        Buffer { store: Some(store), len }
    }

    /// A buffer of `len` zeros.
    pub fn zeroed(len: usize) -> Self {
        let mut b = Self::recycled(len);
        b.fill(T::zero());
        b
    }
}

impl<T: Real> Drop for Buffer<T> {
    fn drop(&mut self) {
        if let Some(store) = self.store.take() {
            LIVE.fetch_sub(store.len() * size_of::<T>(), Relaxed);
            pool().entry((TypeId::of::<T>(), store.len())).or_default().push(store);
        }
    }
}

impl<T: Real> Deref for Buffer<T> {
    type Target = [T];
    fn deref(&self) -> &[T] {
        &self.store.as_ref().expect("present until dropped")[..self.len]
    }
}

impl<T: Real> DerefMut for Buffer<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        &mut self.store.as_mut().expect("present until dropped")[..self.len]
    }
}

/// What the pool has done since the program began.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PoolStats {
    /// Buffers taken fresh from the system.
    pub fresh: usize,
    /// Bytes in use now.
    pub live_bytes: usize,
    /// Most bytes in use at once, since the program began or [`reset_peak`].
    pub peak_bytes: usize,
}

/// What the pool has done since the program began.
pub fn stats() -> PoolStats {
    PoolStats { fresh: FRESH.load(Relaxed), live_bytes: LIVE.load(Relaxed), peak_bytes: PEAK.load(Relaxed) }
}

/// Begins to count `peak_bytes` anew, from the bytes in use now.
pub fn reset_peak() {
    PEAK.store(LIVE.load(Relaxed), Relaxed);
}

/// Returns all idle buffers to the system.
pub fn trim() {
    pool().clear();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dropped_buffer_is_taken_again() {
        // A length no other test uses, so that tests running beside this one cannot take the buffer.
        const N: usize = 12_345_678;
        let first = Buffer::<f32>::recycled(N);
        let place = first.as_ptr();
        drop(first);
        let second = Buffer::<f32>::recycled(N - 5);
        assert_eq!((second.as_ptr(), second.len()), (place, N - 5));
        let other = Buffer::<f64>::recycled(N);
        assert_ne!(other.as_ptr().cast(), place);
    }

    #[test]
    fn little_of_a_buffer_is_idle() {
        for len in [0, 1, 64, 65, 1000, 4097, 40_478 * 768] {
            let cap = capacity(len);
            assert!(cap >= len && cap <= 64.max(len + len / 8 + 64), "{len} → {cap}");
            assert_eq!(capacity(cap), cap);
        }
    }
}
