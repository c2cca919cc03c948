//! Numbers in memory and the kernels over them.
