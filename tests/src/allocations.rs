//! The memory that a piece of work requests and holds at once, as counted by the allocator of its process.

// A global allocator is an `unsafe` trait; this one only counts and forwards to the system's.
#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard};

/// A counter of allocated blocks and bytes. A program that measures memory declares it as its `#[global_allocator]`.
#[derive(Debug)]
pub struct Counting;

static HELD: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);
static REQUESTED: AtomicUsize = AtomicUsize::new(0);
static BLOCKS: AtomicUsize = AtomicUsize::new(0);
static LARGE_BLOCKS: AtomicUsize = AtomicUsize::new(0);

/// The size of a large block: a page.
const LARGE: usize = 4096;

/// The alignment of vectors. Only the crate `matrixmultiply` requests it, to pack its operands, on CPUs for which `tensor` has no
/// tiles.
const VECTOR: usize = 32;

/// The largest block. A larger one is refused, so that the program ends with an error and not by exhausting the system's memory.
const LARGEST: usize = 1 << 30;

// SAFETY: every call is forwarded unchanged to the system's allocator, which upholds the trait's contract, or refused with null,
// as the trait allows.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if !take(layout.size(), layout.align()) {
            return std::ptr::null_mut();
        }
        // SAFETY: the caller upholds the contract of this method.
        unsafe { System.alloc(layout) }
    }
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if !take(layout.size(), layout.align()) {
            return std::ptr::null_mut();
        }
        // SAFETY: the caller upholds the contract of this method.
        unsafe { System.alloc_zeroed(layout) }
    }
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if !take(size, layout.align()) {
            return std::ptr::null_mut();
        }
        HELD.fetch_sub(layout.size(), Relaxed);
        // SAFETY: the caller upholds the contract of this method.
        unsafe { System.realloc(block, layout, size) }
    }
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        HELD.fetch_sub(layout.size(), Relaxed);
        // SAFETY: the caller upholds the contract of this method.
        unsafe { System.dealloc(block, layout) }
    }
}

fn take(size: usize, align: usize) -> bool {
    if size > LARGEST {
        return false;
    }
    MOST.fetch_max(HELD.fetch_add(size, Relaxed) + size, Relaxed);
    REQUESTED.fetch_add(size, Relaxed);
    BLOCKS.fetch_add(1, Relaxed);
    LARGE_BLOCKS.fetch_add(usize::from(size >= LARGE && (align < VECTOR || has_tiles())), Relaxed);
    true
}

/// Returns whether products are computed by the tiles of `tensor`, which allocate nothing.
fn has_tiles() -> bool {
    #[cfg(target_arch = "x86_64")]
    return is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma");
    #[cfg(not(target_arch = "x86_64"))]
    false
}

/// Locks the counters, which belong to the process, for one test.
pub fn alone() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock().unwrap_or_else(|e| e.into_inner())
}

/// Returns the bytes that the program holds.
pub fn held() -> usize {
    HELD.load(Relaxed)
}

/// Returns all bytes ever allocated, which reveal repeated copies.
pub fn requested() -> usize {
    REQUESTED.load(Relaxed)
}

/// Returns the number of blocks ever allocated, and of the large ones among them.
pub fn blocks() -> [usize; 2] {
    [&BLOCKS, &LARGE_BLOCKS].map(|counter| counter.load(Relaxed))
}

/// Returns the most bytes that `work` holds at once beyond those held before. Other threads are counted too, so none should run.
///
/// # Panics
/// Panics if the program has another allocator.
pub fn most_held(work: impl FnOnce()) -> usize {
    let before = held();
    assert!(before > 0, "expected `Counting` as the program's #[global_allocator]");
    MOST.store(before, Relaxed);
    work();
    MOST.load(Relaxed).saturating_sub(before)
}
