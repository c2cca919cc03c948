//! The folder of files that can be regenerated.

use std::path::{Path, PathBuf};

/// Returns the folder of tokenised corpora and measured kernels: the user's cache directory, or else a folder in the run.
pub fn cache(run: Option<&Path>) -> PathBuf {
    let set = |name: &str| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
    set("XDG_CACHE_HOME")
        .or_else(|| set("HOME").map(|h| h.join(".cache")))
        .map(|c| c.join("gradus"))
        .unwrap_or_else(|| run.unwrap_or(Path::new(".")).join("cache"))
}
