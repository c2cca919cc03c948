//! Kernels in which the threads of a workgroup combine their results, and the division of tensors for them.

use std::ops::Range;

use crate::Shape;

/// The threads of a workgroup, unless fewer suffice for short rows.
pub(super) const TREE_THREADS: usize = 256;

/// Returns the shader in the files of these names next to the caller, after `tree.wgsl`, with fewer threads for short rows of n.
macro_rules! row_shader {
    ($n:expr, $($name:literal),+) => {
        if $n > 256 {
            $crate::gpu::tree::row_shader!(256 threads, $($name),+)
        } else {
            $crate::gpu::tree::row_shader!(64 threads, $($name),+)
        }
    };
    ($threads:literal threads, $($name:literal),+) => {
        $crate::device::Shader::new(concat!($($name, " "),+, $threads), || concat!(
            "const THREADS = ", $threads, "u;\n",
            include_str!("tree.wgsl"), $(include_str!(concat!($name, ".wgsl"))),+
        ))
    };
}
pub(super) use row_shader;

/// The lines of n elements along the middle axis of (outer, n, inner).
#[derive(Clone, Copy, Debug)]
pub(super) struct Lines {
    pub outer: usize,
    pub n: usize,
    pub inner: usize,
}

impl Lines {
    /// Returns the lines along these axes of a dense tensor, taken as one axis.
    pub fn along(shape: &Shape, axes: Range<usize>) -> Self {
        let [outer, n, inner] = [&shape[..axes.start], &shape[axes.clone()], &shape[axes.end..]].map(|s| s.iter().product());
        Lines { outer, n, inner }
    }

    pub fn count(&self) -> usize {
        self.outer * self.inner
    }

    /// Returns the number of lines that a workgroup processes, a power of two: adjacent lines in memory, or more if they are too
    /// short for all of its threads.
    pub fn width(&self) -> usize {
        self.inner.min(32).max(TREE_THREADS / self.n.max(1)).next_power_of_two().min(TREE_THREADS)
    }
}
