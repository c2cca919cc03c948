//! Counts of n-grams in the files of a model: `config.json` with the sizes, and `model.safetensors` with the tree of n-grams as
//! three lists of u32 ([`KneserNey::to_lists`]). `transformers` has no such model.

use std::path::Path;

use safetensors::tensor::TensorView;
use safetensors::{Dtype, SafeTensors};
use serde::Serialize;

use super::fields::field;
use super::source::{Bytes, Source};
use super::{CONFIG_FILE, CheckpointError, WEIGHTS_FILE, config_json};
use crate::ngram::KneserNey;

/// The model type of counts of n-grams.
pub const NGRAM: &str = "gradus-ngram";
/// The names of the lists.
const LISTS: [&str; 3] = ["parents", "symbols", "counts"];

#[derive(Serialize)]
struct Config {
    model_type: String,
    order: usize,
    vocab_size: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    separator: Option<u32>,
}

/// Returns the files of a model by name.
pub fn ngram_files(model: &KneserNey) -> Vec<(&'static str, Vec<u8>)> {
    let config =
        Config { model_type: NGRAM.into(), order: model.order(), vocab_size: model.vocab(), separator: model.separator() };
    let lists = model.to_lists().map(|list| (list.len(), list.into_iter().flat_map(u32::to_le_bytes).collect::<Vec<u8>>()));
    let view = |(n, bytes)| TensorView::new(Dtype::U32, vec![n], bytes).expect("four bytes for each number");
    let tensors = LISTS.into_iter().zip(lists.iter().map(|(n, bytes)| view((*n, bytes))));
    vec![
        (CONFIG_FILE, serde_json::to_vec_pretty(&config).expect("plain values")),
        (WEIGHTS_FILE, safetensors::serialize(tensors, None).expect("each view has the length of its shape")),
    ]
}

/// Reads counts of n-grams; `None` for a model of another type.
///
/// # Errors
/// Returns an error if a file is missing or damaged, or if files do not belong together.
pub fn read_ngram(place: &Path, open: &dyn Fn(&str) -> std::io::Result<Bytes>) -> Result<Option<KneserNey>, CheckpointError> {
    let source = Source { place, open };
    let path = source.path(CONFIG_FILE);
    let (fields, _) = config_json::fields(&path, &source.read(CONFIG_FILE)?)?;
    if fields.get("model_type").is_none_or(|found| *found != NGRAM) {
        return Ok(None);
    }
    let problem = |problem: String| CheckpointError::ConfigFile { path: source.path(CONFIG_FILE), problem };
    let number = |name: &str, most: usize| match field(&fields, name, None).map_err(problem)? {
        Some(found) if (1..=most).contains(&found) => Ok(found),
        found => {
            let found = found.map_or("none".into(), |found| found.to_string());
            Err(problem(format!("{name}: expected a number from 1 to {most}, found {found}")))
        }
    };
    let (order, vocab_size) = (number("order", 255)?, number("vocab_size", 1 << 24)?);
    let separator: Option<u32> = field(&fields, "separator", None).map_err(problem)?;
    if let Some(found) = separator.filter(|&id| id as usize >= vocab_size) {
        return Err(problem(format!("separator: expected an id below the vocabulary size {vocab_size}, found {found}")));
    }
    let (path, bytes) = (source.path(WEIGHTS_FILE), source.read(WEIGHTS_FILE)?);
    let damaged = |problem: String| CheckpointError::Damaged { path: path.clone(), problem };
    let file = SafeTensors::deserialize(&bytes).map_err(|e| damaged(e.to_string()))?;
    let list = |name: &str| -> Result<Vec<u32>, CheckpointError> {
        let view = file.tensor(name).map_err(|e| damaged(format!("{name}: {e}")))?;
        if view.dtype() != Dtype::U32 || view.shape().len() != 1 {
            let problem = format!("{name}: expected a list of U32, found {:?} of shape {:?}", view.dtype(), view.shape());
            return Err(damaged(problem));
        }
        Ok(view.data().chunks_exact(4).map(|n| u32::from_le_bytes([n[0], n[1], n[2], n[3]])).collect())
    };
    let lists = [list(LISTS[0])?, list(LISTS[1])?, list(LISTS[2])?];
    let model = KneserNey::from_lists(separator, order, vocab_size, lists);
    model.map(Some).map_err(|problem| CheckpointError::Disagree { path: path.clone(), problem })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::io::ErrorKind;

    use super::*;

    fn read(files: &[(&str, Vec<u8>)]) -> Result<Option<KneserNey>, String> {
        let files: BTreeMap<&str, &Vec<u8>> = files.iter().map(|(name, bytes)| (*name, bytes)).collect();
        let open = |name: &str| files.get(name).map(|&bytes| bytes.clone().into()).ok_or(ErrorKind::NotFound.into());
        read_ngram(Path::new("there"), &open).map_err(|e| e.to_string())
    }

    #[test]
    fn saved_ngram_counts_load_and_invalid_ones_are_rejected() {
        let model = KneserNey::between(Some(3), 3, [vec![0, 1, 2], vec![1, 1, 2, 0]], 4);
        let files = ngram_files(&model);
        assert_eq!(read(&files), Ok(Some(model)));
        assert_eq!(read(&[(CONFIG_FILE, br#"{"model_type": "gpt2"}"#.to_vec())]), Ok(None));
        let refused = |config: &str, expected: &str| {
            let error = read(&[(CONFIG_FILE, config.into()), files[1].clone()]).unwrap_err();
            assert!(error.contains(expected), "{error}");
        };
        refused(
            r#"{"model_type": "gradus-ngram", "order": 3}"#,
            "config.json: vocab_size: expected a number from 1 to 16777216, found none",
        );
        refused(
            r#"{"model_type": "gradus-ngram", "order": 0, "vocab_size": 4}"#,
            "order: expected a number from 1 to 255, found 0",
        );
        let other = r#"{"model_type": "gradus-ngram", "order": 3, "vocab_size": 4, "separator": 4}"#;
        refused(other, "separator: expected an id below the vocabulary size 4, found 4");
        refused(r#"{"model_type": "gradus-ngram", "order": 2, "vocab_size": 4}"#, "expected a new n-gram of at most 2 ids");
        for (dtype, shape) in [(Dtype::F32, vec![2]), (Dtype::U32, vec![1, 2])] {
            let list = |name| (name, TensorView::new(dtype, shape.clone(), &[0; 8]).unwrap());
            let other = safetensors::serialize(LISTS.map(list), None).unwrap();
            let error = read(&[files[0].clone(), (WEIGHTS_FILE, other)]).unwrap_err();
            assert!(error.contains(&format!("expected a list of U32, found {dtype:?} of shape {shape:?}")), "{error}");
        }
        let cut = [files[0].clone(), (WEIGHTS_FILE, files[1].1[..40].to_vec())];
        assert!(read(&cut).unwrap_err().contains("model.safetensors"));
        assert!(read(&files[..1]).unwrap_err().contains("cannot read there/model.safetensors"));
    }
}
