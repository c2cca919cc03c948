//! How much memory a piece of work holds at once, as the allocator of its process counts it.

// A global allocator is an `unsafe` trait; this one only counts and passes on to the system's.
#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Counts what is held. A program that measures has it as its `#[global_allocator]`.
#[derive(Debug)]
pub struct Counting;

static HELD: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);

/// A larger block is refused, which ends the program by name instead of by the system's want of memory.
const LARGEST: usize = 1 << 30;

// SAFETY: every call is passed on unchanged to the system's allocator, which keeps the trait's promises, or refused by null, as
// the trait allows.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if !take(layout.size()) {
            return std::ptr::null_mut();
        }
        // SAFETY: the caller's.
        unsafe { System.alloc(layout) }
    }
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if !take(layout.size()) {
            return std::ptr::null_mut();
        }
        // SAFETY: the caller's.
        unsafe { System.alloc_zeroed(layout) }
    }
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if !take(size) {
            return std::ptr::null_mut();
        }
        HELD.fetch_sub(layout.size(), Relaxed);
        // SAFETY: the caller's.
        unsafe { System.realloc(block, layout, size) }
    }
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        HELD.fetch_sub(layout.size(), Relaxed);
        // SAFETY: the caller's.
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

/// The most bytes that `work` holds at once beyond those held before. Other threads count too: let there be none.
///
/// # Panics
/// Where the program's allocator is another.
pub fn most_held(work: impl FnOnce()) -> usize {
    let before = HELD.load(Relaxed);
    assert!(before > 0, "expected `Counting` as the program's #[global_allocator]");
    MOST.store(before, Relaxed);
    work();
    MOST.load(Relaxed).saturating_sub(before)
}
