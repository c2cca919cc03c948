//! `model.safetensors.index.json`: the shard of each tensor.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;

use super::CheckpointError;

#[derive(Deserialize)]
struct Index {
    weight_map: BTreeMap<String, String>,
}

/// Reads the shard of each tensor, by name. A shard is a file beside the index: no path leads out of the directory.
pub(super) fn read(path: &Path, bytes: &[u8]) -> Result<BTreeMap<String, String>, CheckpointError> {
    let damaged = |problem: String| CheckpointError::Damaged { path: path.to_owned(), problem };
    let index: Index = serde_json::from_slice(bytes).map_err(|e| damaged(e.to_string()))?;
    if index.weight_map.is_empty() {
        return Err(damaged("weight_map names no tensor".into()));
    }
    match index.weight_map.iter().find(|(_, shard)| !is_name(shard)) {
        Some((tensor, shard)) => Err(damaged(format!(
            "weight_map, {tensor}: expected the name of a .safetensors file beside the index, found {shard:?}"
        ))),
        None => Ok(index.weight_map),
    }
}

fn is_name(shard: &str) -> bool {
    shard.len() > ".safetensors".len() && shard.ends_with(".safetensors") && !shard.contains(['/', '\\', ':', '\0'])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_file_names_name_a_shard() {
        assert!(is_name("model-00001-of-00002.safetensors") && is_name("a.safetensors"));
        for other in ["", ".safetensors", "a.bin", "a.safetensors.bin", "../a.safetensors", "d\\a.safetensors", "c:a.safetensors"]
        {
            assert!(!is_name(other), "{other}");
        }
    }
}
