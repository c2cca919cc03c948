//! An allocator for programs. If the system is out of memory, the process exits with a one-line error; the standard library would
//! abort.

use std::alloc::{GlobalAlloc, Layout, System};
use std::io::Write;
use std::ptr::NonNull;

/// The system's allocator. If the system is out of memory, the process exits with code 1 and a one-line error on stderr. Tensors
/// are not allocated here but by [`buffer`](crate::buffer), whose allocation failures can be caught.
#[derive(Clone, Copy, Debug)]
pub struct OrExit;

// SAFETY: every call goes to the system's allocator, with the same arguments; the returned pointer is never null.
unsafe impl GlobalAlloc for OrExit {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: by the caller's contract.
        or_exit(unsafe { System.alloc(layout) }, layout.size())
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: by the caller's contract.
        or_exit(unsafe { System.alloc_zeroed(layout) }, layout.size())
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: by the caller's contract.
        or_exit(unsafe { System.realloc(block, layout, size) }, size)
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: by the caller's contract.
        unsafe { System.dealloc(block, layout) }
    }
}

fn or_exit(block: *mut u8, bytes: usize) -> *mut u8 {
    match NonNull::new(block) {
        Some(block) => block.as_ptr(),
        None => exit(bytes),
    }
}

/// Prints the error and exits with code 1. Allocates nothing.
#[cold]
fn exit(bytes: usize) -> ! {
    let mut line = [0; 160];
    let room = line.len();
    let mut rest = &mut line[..];
    let _ = writeln!(
        rest,
        "error: the system has no memory left for {bytes} more bytes: use a smaller batch, context, model or text"
    );
    let written = room - rest.len();
    let _ = std::io::stderr().write_all(&line[..written]);
    std::process::exit(1)
}
