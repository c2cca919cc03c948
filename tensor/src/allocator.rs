//! An allocator for programs: without memory they end with an error of one line, where the standard library would abort.

use std::alloc::{GlobalAlloc, Layout, System};
use std::io::Write;
use std::ptr::NonNull;

/// The system's allocator. Where the system has no memory left, the process ends with exit code 1 and a line on stderr. Tensors do
/// not come from here, but from [`buffer`](crate::buffer), whose refusal can be caught.
#[derive(Clone, Copy, Debug)]
pub struct OrExit;

// SAFETY: every call goes to the system's allocator, with the same arguments; what it returns is never null.
unsafe impl GlobalAlloc for OrExit {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as the caller promises.
        or_exit(unsafe { System.alloc(layout) }, layout.size())
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as the caller promises.
        or_exit(unsafe { System.alloc_zeroed(layout) }, layout.size())
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: as the caller promises.
        or_exit(unsafe { System.realloc(block, layout, size) }, size)
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(block, layout) }
    }
}

fn or_exit(block: *mut u8, bytes: usize) -> *mut u8 {
    match NonNull::new(block) {
        Some(block) => block.as_ptr(),
        None => exit(bytes),
    }
}

/// Nothing here needs memory.
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
