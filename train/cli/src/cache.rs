//! The folder of what can be made again.

use std::path::{Path, PathBuf};

/// Where tokenised corpora and measured kernels are kept: the user's cache directory, or else beside the run.
pub fn cache(run: Option<&Path>) -> PathBuf {
    let set = |name: &str| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
    set("XDG_CACHE_HOME")
        .or_else(|| set("HOME").map(|h| h.join(".cache")))
        .map(|c| c.join("gradus"))
        .unwrap_or_else(|| run.unwrap_or(Path::new(".")).join("cache"))
}
