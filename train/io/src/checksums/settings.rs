//! The settings files of runs and studies: their format, and whether their folder has checksums.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::disk;

/// The files that contain settings.
const FILES: [&str; 2] = ["run.json", "plan.json"];

/// The format of the folders that this version reads and writes.
pub const FORMAT: u64 = 1;

/// Settings with the fields `format` and `checksums: true`, which states that their folder has checksums.
#[derive(Debug, Serialize)]
pub struct Kept<T> {
    format: u64,
    #[serde(flatten)]
    settings: T,
    checksums: bool,
}

impl<T> Kept<T> {
    /// Adds the fields to these settings.
    pub fn with(settings: T) -> Self {
        Kept { format: FORMAT, settings, checksums: true }
    }
}

/// Returns the settings of a file without the fields that [`Kept`] adds.
///
/// # Errors
/// Returns a description of the problem if the bytes are not a JSON object, or if the folder has another format.
pub fn settings(bytes: &[u8]) -> Result<Map<String, Value>, String> {
    let mut settings: Map<String, Value> = serde_json::from_slice(bytes).map_err(|e| format!("{e}; the file is damaged"))?;
    settings.remove("checksums");
    match settings.remove("format") {
        Some(format) if format == FORMAT => Ok(settings),
        found => {
            let found = found.map_or("no format, as unreleased versions wrote".into(), |format| format!("format {format}"));
            Err(format!("expected format {FORMAT}, found {found}; continue it with the gradus that began it, or begin a new one"))
        }
    }
}

/// Returns the path of a folder's settings, if they state that it has checksums.
pub(super) fn settings_with_checksums(folder: &Path) -> Option<PathBuf> {
    #[derive(Deserialize)]
    struct Settings {
        checksums: bool,
    }
    let has_checksums = |path: &PathBuf| {
        let settings = disk::read(path).ok().and_then(|bytes| serde_json::from_slice::<Settings>(&bytes).ok());
        settings.is_some_and(|settings| settings.checksums)
    };
    FILES.map(|name| folder.join(name)).into_iter().find(has_checksums)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::json_text;

    #[test]
    fn other_formats_are_rejected() {
        let steps = |steps: u64| Map::from_iter([("steps".to_owned(), steps.into())]);
        assert_eq!(settings(&json_text(&Kept::with(steps(3)))), Ok(steps(3)));
        let refused = |text: &str| settings(text.as_bytes()).unwrap_err();
        assert!(refused(r#"{"steps": 3, "checksums": true}"#).starts_with("expected format 1, found no format, as unreleased"));
        assert!(refused(r#"{"format": 2, "steps": 3}"#).starts_with("expected format 1, found format 2; continue it with the"));
        assert!(refused("[]").ends_with("the file is damaged"));
    }
}
