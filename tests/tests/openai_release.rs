//! OpenAI's release of GPT-1, compared with `transformers`' own converter and NumPy's own files.
//!
//! The fixture comes from `tests/golden/openai_release.py`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use gradus_autograd::Tensor;
use gradus_model::checkpoint::openai::{self, Untold};
use gradus_model::{Model, Tree};
use gradus_tests::{Arrays, golden};
use gradus_text::{Mode, Tokenizer};

fn release() -> PathBuf {
    golden().join("openai-release")
}

fn imported() -> Model<Tensor<f32>> {
    openai::load(&release(), Untold { heads: Some(2), ..Untold::default() }).unwrap()
}

#[test]
fn imported_parameters_equal_those_of_transformers() {
    let converted = Arrays::read(&release().join("converted.safetensors"));
    let model = imported();
    let mut names = Vec::new();
    model.as_ref().visit(|name, p| {
        let expected = converted.get(name);
        assert_eq!(p.shape(), expected.shape(), "{name}");
        let bits = |values: Vec<f64>| values.into_iter().map(f64::to_bits).collect::<Vec<_>>();
        assert_eq!(bits(p.to_vec().into_iter().map(f64::from).collect()), bits(expected.to_vec()), "{name}");
        names.push(name.to_owned());
    });
    names.sort();
    assert_eq!(names, converted.names());
}

#[test]
fn exported_files_equal_those_of_numpy_and_python() {
    let read = |name: &str| std::fs::read(release().join(name)).unwrap();
    let files: BTreeMap<String, Vec<u8>> = openai::files(&imported()).unwrap().collect();
    assert_eq!(files.keys().cloned().collect::<Vec<_>>().len(), 12, "ten pieces, their shapes and a config.json");
    for (name, bytes) in files.iter().filter(|(name, _)| *name != "config.json") {
        assert!(*bytes == read(name), "{name}");
    }
    let folder = tempfile::tempdir().unwrap();
    let tokenizer = Tokenizer::load(&release()).unwrap().with_mode(Mode::Spacy).unwrap();
    tokenizer.save_release(folder.path()).unwrap();
    for name in openai::VOCABULARY_FILES {
        let written = std::fs::read_to_string(folder.path().join(name)).unwrap();
        assert_eq!(written, std::fs::read_to_string(release().join(name)).unwrap());
    }
    assert!(Path::new(&folder.path().join("tokenizer_config.json")).exists());
}
