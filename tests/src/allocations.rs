//! The memory that a piece of work holds at once, as counted by the allocator of its process.

// A global allocator is an `unsafe` trait; this one only counts and forwards to the system's.
#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// A counter of allocated bytes. A program that measures memory declares it as its `#[global_allocator]`.
#[derive(Debug)]
pub struct Counting;

static HELD: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);

/// The largest block. A larger one is refused, so that the program ends with an error and not by exhausting the system's memory.
const LARGEST: usize = 1 << 30;

// SAFETY: every call is forwarded unchanged to the system's allocator, which upholds the trait's contract, or refused with null,
// as the trait allows.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if !take(layout.size()) {
            return std::ptr::null_mut();
        }
        // SAFETY: the caller upholds the contract of this method.
        unsafe { System.alloc(layout) }
    }
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if !take(layout.size()) {
            return std::ptr::null_mut();
        }
        // SAFETY: the caller upholds the contract of this method.
        unsafe { System.alloc_zeroed(layout) }
    }
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if !take(size) {
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

fn take(size: usize) -> bool {
    if size > LARGEST {
        return false;
    }
    MOST.fetch_max(HELD.fetch_add(size, Relaxed) + size, Relaxed);
    true
}

/// Returns the most bytes that `work` holds at once beyond those held before. Other threads are counted too, so none should run.
///
/// # Panics
/// Panics if the program has another allocator.
pub fn most_held(work: impl FnOnce()) -> usize {
    let before = HELD.load(Relaxed);
    assert!(before > 0, "expected `Counting` as the program's #[global_allocator]");
    MOST.store(before, Relaxed);
    work();
    MOST.load(Relaxed).saturating_sub(before)
}
