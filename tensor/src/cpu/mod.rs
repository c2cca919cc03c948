//! The CPU kernels, one file each. Each file begins with the naive loops, which define the kernel for any
//! [`Scalar`](crate::Scalar). The amount of their arithmetic depends on shapes and masks, not on values.

pub mod adam;
pub mod attention;
#[cfg(test)]
mod bits;
pub mod cross_entropy;
pub mod dropout;
pub mod elementwise;
pub mod embedding;
pub mod gelu;
pub(crate) mod gemm;
pub mod layer_norm;
#[cfg(test)]
mod length_errors;
pub mod linear_cross_entropy;
pub mod log_softmax;
pub mod lstm;
pub mod matmul;
mod matvec;
pub(crate) mod parallel;
pub mod reduce;
pub mod rms_norm;
pub mod softmax;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod twins;
pub mod unary;

/// Panics unless every length equals the first.
#[track_caller]
pub(crate) fn same_len(kernel: &str, lens: &[usize]) {
    assert!(lens.windows(2).all(|w| w[0] == w[1]), "{kernel}: slices of one length expected, got {lens:?}");
}

/// Returns the number of rows of n in `len` elements (0 if n is 0). Panics if the last row is incomplete.
#[track_caller]
pub(crate) fn row_count(kernel: &str, len: usize, n: usize) -> usize {
    let rows = len.checked_div(n).unwrap_or(0);
    assert!(rows * n == len, "{kernel}: {len} elements are not whole rows of {n}");
    rows
}

/// Returns the largest element of a row, by comparisons alone. A NaN is ignored, unless it is the first element.
pub(crate) fn largest<T: crate::Scalar>(row: &[T]) -> T {
    let mut most = row[0];
    for &x in row {
        if x > most {
            most = x;
        }
    }
    most
}
