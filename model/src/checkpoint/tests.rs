//! Tests of files in memory: valid, in shards, and invalid in every way.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use gradus_tensor::Tensor;
use safetensors::tensor::TensorView;
use safetensors::{Dtype, SafeTensors};
use serde_json::{Value, json};

use super::*;
use crate::check::{samples, tiny_bert, tiny_gpt2};
use crate::config::Sizes;
use crate::model::ModelConfig;
use crate::transformer::Positions;

/// Files by name.
type Files = BTreeMap<String, Vec<u8>>;

pub(super) fn opened(files: &Files) -> impl Fn(&str) -> io::Result<Bytes> {
    |name| files.get(name).map(|bytes| bytes.clone().into()).ok_or_else(|| io::ErrorKind::NotFound.into())
}

fn read_files(files: &Files) -> Result<Model<Tensor<f32>>, CheckpointError> {
    read(Path::new("m"), &opened(files))
}

fn files_of(model: &Model<Tensor<f32>>) -> Files {
    files(model).unwrap().into_iter().map(|(name, bytes)| (name.to_owned(), bytes)).collect()
}

pub(super) fn tiny() -> Model<Tensor<f32>> {
    let config = ModelConfig::gpt(Sizes { vocab: 7, context: 5, width: 4 }, 1, 2);
    Model::init(&config, 3)
}

#[track_caller]
fn refused(files: &Files, words: &[&str]) {
    let error = read_files(files).unwrap_err().to_string();
    words.iter().for_each(|word| assert!(error.contains(word), "{word:?} in: {error}"));
}

#[test]
fn a_saved_model_loads_unchanged() {
    for sample in samples() {
        let model = Model::init(&sample.config, 1);
        assert_eq!(read_files(&files_of(&model)).unwrap(), model, "{}", sample.name);
    }
}

/// Returns a file in which each tensor is replaced by those that `change` returns for it.
fn rewritten(file: &[u8], change: impl Fn(&str, &[u8]) -> Vec<(String, Dtype, Vec<u8>)>) -> Vec<u8> {
    let file = SafeTensors::deserialize(file).unwrap();
    let mut all = Vec::new();
    for (name, view) in file.tensors() {
        all.extend(change(&name, view.data()).into_iter().map(|(name, dtype, data)| (name, dtype, view.shape().to_vec(), data)));
    }
    let views = all.iter().map(|(name, dtype, shape, data)| (name, TensorView::new(*dtype, shape.clone(), data).unwrap()));
    safetensors::serialize(views, None).unwrap()
}

#[test]
fn bf16_weights_are_read_and_integer_weights_rejected() {
    let model = tiny();
    let mut files = files_of(&model);
    let cut = |name: &str, data: &[u8]| {
        let bytes = data.chunks(4).flat_map(|b| [b[2], b[3]]).collect();
        vec![(name.to_owned(), Dtype::BF16, bytes)]
    };
    files.insert(WEIGHTS_FILE.into(), rewritten(&files[WEIGHTS_FILE], cut));
    let expected = model.map(|_, p| {
        let cut = p.to_vec().into_iter().map(|x| f32::from_bits(x.to_bits() & 0xFFFF_0000)).collect();
        Tensor::new(*p.shape(), cut)
    });
    assert_eq!(read_files(&files).unwrap(), expected);
    files.insert(WEIGHTS_FILE.into(), rewritten(&files[WEIGHTS_FILE], |name, data| vec![(name.into(), Dtype::I16, data.into())]));
    refused(&files, &["m/model.safetensors: ", "expected F32, F64, F16 or BF16, found I16"]);
}

#[test]
fn a_name_with_and_without_its_prefix_is_rejected() {
    let mut files = files_of(&tiny());
    let doubled = rewritten(&files[WEIGHTS_FILE], |name, data| {
        let short = name.strip_prefix("transformer.").unwrap();
        let names = if short == "h.0.ln_1.bias" { vec![name, short] } else { vec![name] };
        names.into_iter().map(|name| (name.to_owned(), Dtype::F32, data.to_vec())).collect()
    });
    files.insert(WEIGHTS_FILE.into(), doubled);
    refused(&files, &["h.0.ln_1.bias occurs twice"]);
}

/// Returns the files of the model in three shards.
fn sharded() -> Files {
    let mut files = files_of(&tiny());
    let whole = files.remove(WEIGHTS_FILE).unwrap();
    let names: Vec<String> = SafeTensors::deserialize(&whole).unwrap().names().into_iter().map(str::to_owned).collect();
    let shard = |i: usize| format!("model-0000{}-of-00003.safetensors", i % 3 + 1);
    let weight_map: BTreeMap<&str, String> = names.iter().enumerate().map(|(i, name)| (&**name, shard(i))).collect();
    for i in 0..3 {
        let part = rewritten(&whole, |name, data| {
            let here = weight_map[name] == shard(i);
            here.then(|| (name.to_owned(), Dtype::F32, data.to_vec())).into_iter().collect()
        });
        files.insert(shard(i), part);
    }
    files.insert(INDEX_FILE.into(), json!({"metadata": {"total_size": 1}, "weight_map": weight_map}).to_string().into());
    files
}

/// Returns the files with another map of tensors to shards.
fn with_index(mut files: Files, change: &dyn Fn(&mut Value)) -> Files {
    let mut index: Value = serde_json::from_slice(&files[INDEX_FILE]).unwrap();
    change(&mut index["weight_map"]);
    files.insert(INDEX_FILE.into(), index.to_string().into());
    files
}

const SHARD: &str = "model-00002-of-00003.safetensors";

#[test]
fn shards_are_read_together() {
    assert_eq!(read_files(&sharded()).unwrap(), tiny());
}

#[test]
fn shards_that_do_not_fit_their_index_are_rejected() {
    let mut missing = sharded();
    let second = missing.remove(SHARD).unwrap();
    refused(&missing, &["cannot read m/model-00002-of-00003.safetensors", "the index names it"]);

    let mut absent = sharded();
    absent.insert(SHARD.into(), absent["model-00001-of-00003.safetensors"].clone());
    let in_two = [" is in model-00002-of-00003.safetensors; the index has it in model-00001-of-00003.safetensors"];
    refused(&absent, &["m/model.safetensors.index.json: ", in_two[0]]);
    let nothing = rewritten(&second, |_, _| Vec::new());
    absent.insert(SHARD.into(), nothing);
    refused(&absent, &["transformer.", " is not in model-00002-of-00003.safetensors, where the index has it"]);

    let change = |change: &dyn Fn(&mut Value)| with_index(sharded(), change);
    let gone = change(&|map| drop(map.as_object_mut().unwrap().remove("transformer.h.0.ln_2.bias")));
    refused(&gone, &["transformer.h.0.ln_2.bias is in model-0000", "but not in the index; config.json and this file"]);
    for path in ["../x.safetensors", "/etc/x.safetensors", "a/b.safetensors", "..\\x.safetensors", "C:x.safetensors", ".."] {
        let elsewhere = change(&|map| map["transformer.h.0.ln_2.bias"] = path.into());
        let mut changed = elsewhere.clone();
        changed.insert(path.into(), second.clone());
        let quoted = format!("{path:?}");
        refused(&changed, &["transformer.h.0.ln_2.bias: expected the name of a .safetensors file beside the index", &quoted]);
    }
    refused(&change(&|map| *map = json!({})), &["weight_map names no tensor"]);
    refused(&change(&|map| *map = json!(3)), &["m/model.safetensors.index.json: ", "expected a map"]);
}

/// Returns the files in which the tensor whose name ends with `from` is named `to`.
fn renamed(files: Files, from: &str, to: &str) -> Files {
    let rename = |name: &str, data: &[u8]| {
        let name = if name.ends_with(from) { to } else { name };
        vec![(name.to_owned(), Dtype::F32, data.to_vec())]
    };
    let of_file = |(name, bytes): (String, Vec<u8>)| {
        let bytes = if name.ends_with(".safetensors") { rewritten(&bytes, rename) } else { bytes };
        (name, bytes)
    };
    files.into_iter().map(of_file).collect()
}

/// An index may list both names of a tied tensor, of which the shards have one.
#[test]
fn a_tied_tensor_may_be_in_the_shards_under_either_name() {
    for files in [sharded(), renamed(sharded(), "tokens_embed.weight", "lm_head.weight")] {
        let both = |map: &mut Value| map["lm_head.weight"] = map["transformer.tokens_embed.weight"].clone();
        assert_eq!(read_files(&with_index(files.clone(), &both)).unwrap(), tiny());
        let more = |map: &mut Value| {
            both(map);
            map["x"] = SHARD.into();
        };
        refused(&with_index(files, &more), &["x is not in model-00002-of-00003.safetensors, where the index has it"]);
    }
}

#[test]
fn a_copy_of_a_tied_tensor_may_be_alone_and_a_copied_bias_prevails() {
    let alone = renamed(files_of(&tiny()), "tokens_embed.weight", "lm_head.weight");
    assert_eq!(read_files(&alone).unwrap(), tiny());
    let bert = Model::init(&tiny_bert(), 3);
    let (bias, copy) = ("cls.predictions.bias", "cls.predictions.decoder.bias");
    assert_eq!(read_files(&renamed(files_of(&bert), bias, copy)).unwrap(), bert);
    let mut files = files_of(&bert);
    let both = rewritten(&files[WEIGHTS_FILE], |name, data| {
        let ones = data.chunks(4).flat_map(|_| 1f32.to_le_bytes()).collect();
        let copied = (name == bias).then(|| (copy.to_owned(), Dtype::F32, ones));
        [(name.to_owned(), Dtype::F32, data.to_vec())].into_iter().chain(copied).collect()
    });
    files.insert(WEIGHTS_FILE.into(), both);
    let expected = bert.map(|path, p| if path == "transform.bias" { p.full_like(*p.shape(), 1.0) } else { p });
    assert_eq!(read_files(&files).unwrap(), expected);
}

/// If a tensor is missing, those left over are named; otherwise the class is named if it is unknown.
#[test]
fn tensors_in_place_of_a_missing_one_are_named() {
    let lacking = |others: &[&str]| {
        let mut files = files_of(&tiny());
        let changed = rewritten(&files[WEIGHTS_FILE], |name, data| {
            let names = if name.ends_with("h.0.ln_1.bias") { others.to_vec() } else { vec![name] };
            names.into_iter().map(|name| (name.to_owned(), Dtype::F32, data.to_vec())).collect()
        });
        files.insert(WEIGHTS_FILE.into(), changed);
        files
    };
    for (others, instead) in [
        (&["a"][..], "a; config.json"),
        (&["a", "b", "c"], "a, b, c; config.json"),
        (&["a", "b", "c", "d", "e"], "a, b, c and 2 more; config.json"),
    ] {
        refused(&lacking(others), &["h.0.ln_1.bias is missing; the file has instead", &format!("instead {instead}")]);
    }
    let more = |class: &str| {
        let mut files = with_more(&[("other", "h.0.ln_1.bias")]);
        let mut fields: Value = serde_json::from_slice(&files[CONFIG_FILE]).unwrap();
        fields["architectures"] = json!([class]);
        files.insert(CONFIG_FILE.into(), fields.to_string().into_bytes());
        read_files(&files).unwrap_err().to_string()
    };
    let (known, unknown) = (more("OpenAIGPTLMHeadModel"), more("OtherModel"));
    assert!(known.contains("other is not a parameter of this model; config.json"), "{known}");
    assert!(unknown.contains("this model; architectures: OtherModel is not a class that Gradus reads"), "{unknown}");
}

/// Returns the files of a model with more tensors: a name of each, and the parameter whose bytes it has.
fn with_more(more: &[(&str, &str)]) -> Files {
    let mut files = files_of(&tiny());
    let larger = rewritten(&files[WEIGHTS_FILE], |name, data| {
        let others = more.iter().filter(|(_, like)| name.ends_with(like)).map(|(other, _)| *other);
        [name].into_iter().chain(others).map(|name| (name.to_owned(), Dtype::F32, data.to_vec())).collect()
    });
    files.insert(WEIGHTS_FILE.into(), larger);
    files
}

#[test]
fn only_the_known_buffers_of_older_versions_are_ignored() {
    let buffers = ["transformer.h.0.attn.bias", "h.0.attn.masked_bias", "position_ids"].map(|name| (name, "h.0.ln_1.bias"));
    assert_eq!(read_files(&with_more(&buffers)).unwrap(), tiny());
    for other in ["h.0.attn.other", "h.0.mlp.bias", "h.0.masked_bias", "positions", "positions_ids"] {
        let message = format!("{other} is not a parameter of this model");
        refused(&with_more(&[(other, "h.0.ln_1.bias")]), &["m/model.safetensors: ", &message]);
    }
}

#[test]
fn an_output_that_differs_from_the_tied_embedding_is_rejected() {
    assert_eq!(read_files(&with_more(&[("lm_head.weight", "tokens_embed.weight")])).unwrap(), tiny());
    let other = with_more(&[("lm_head.weight", "positions_embed.weight")]);
    refused(&other, &["lm_head.weight differs from tokens_embed.weight"]);
}

#[test]
fn notes_describe_wrapped_names_and_untied_outputs() {
    let found = |files: &Files| notes(Path::new("m"), &opened(files)).unwrap().join("\n");
    assert_eq!(found(&files_of(&tiny())), "");
    let mut wrapped = files_of(&tiny());
    let weights = rewritten(&wrapped[WEIGHTS_FILE], |name, data| vec![(format!("module.{name}"), Dtype::F32, data.to_vec())]);
    wrapped.insert(WEIGHTS_FILE.into(), weights);
    assert!(found(&wrapped).starts_with("every tensor's name begins with module., which"), "{}", found(&wrapped));
    let untied = |mut files: Files| {
        let mut fields: Value = serde_json::from_slice(&files[CONFIG_FILE]).unwrap();
        fields["tie_word_embeddings"] = json!(false);
        files.insert(CONFIG_FILE.into(), fields.to_string().into_bytes());
        found(&files)
    };
    let flag = "config.json has tie_word_embeddings: false; ";
    assert!(untied(files_of(&tiny())).starts_with(&format!("{flag}the file has no output matrix")));
    let with_output = with_more(&[("lm_head.weight", "tokens_embed.weight")]);
    assert!(untied(with_output).starts_with(&format!("{flag}an output's matrix that equals the embedding")));
}

#[test]
fn a_parameter_of_another_shape_is_named() {
    let mut files = files_of(&tiny());
    let mut larger = tiny().config();
    larger.sizes.context = 6;
    files.insert(CONFIG_FILE.into(), config_json::encode(&larger));
    refused(&files, &["positions_embed.weight: config.json expects shape [6, 4], found [5, 4]"]);
}

#[test]
fn an_error_lists_the_first_problems_and_counts_the_rest() {
    let error = |problems: &[&str]| {
        let problems: Vec<String> = problems.iter().map(|&problem| problem.to_owned()).collect();
        stored::disagree("m".into(), &problems, "").map_err(|e| e.to_string())
    };
    let begins = |words: &str| format!("m: {words}; config.json and this file do not belong together");
    assert_eq!(error(&[]), Ok(()));
    for (problems, words) in
        [(&["a"][..], "a"), (&["a", "b", "c"], "a; b; c"), (&["a", "b", "c", "d", "e"], "a; b; c; and 2 more")]
    {
        assert!(error(problems).unwrap_err().starts_with(&begins(words)), "{:?}", error(problems));
    }
}

/// Fixed positions are written as if they had been learned, so that other programs compute the same.
#[test]
fn sinusoidal_positions_are_in_the_file() {
    let config = tiny().config().with_transformer(|c| c.positions = Positions::Sinusoidal);
    let model = Model::init(&config, 1);
    let files = files_of(&model);
    let found = SafeTensors::deserialize(&files[WEIGHTS_FILE]).unwrap();
    let positions = found.tensor("transformer.positions_embed.weight").unwrap();
    let expected = crate::transformer::sinusoids(&Tensor::scalar(0.0), 0..config.sizes.context as u32, config.sizes.width);
    assert_eq!((positions.shape(), positions.data()), (&[5, 4][..], &*weights::little_endian(&expected)));
    assert_eq!(read_files(&files).unwrap(), model);
}

#[test]
fn a_pointer_of_git_lfs_is_named() {
    let mut files = files_of(&tiny());
    files.insert(WEIGHTS_FILE.into(), b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n".into());
    refused(&files, &["m/model.safetensors: expected weights, found a Git LFS pointer", "`git lfs pull`"]);
}

#[test]
fn an_unreadable_file_is_not_treated_as_missing() {
    let mut files = sharded();
    let open = |name: &str| match name {
        WEIGHTS_FILE => Err(io::ErrorKind::PermissionDenied.into()),
        name => opened(&files)(name),
    };
    let error = read(Path::new("m"), &open).unwrap_err().to_string();
    assert!(error.starts_with("cannot read m/model.safetensors: permission denied"), "{error}");
    files.remove(CONFIG_FILE);
    refused(&files, &["cannot read m/config.json", "a model directory holds config.json and model.safetensors"]);
}

#[test]
fn each_kind_of_io_error_suggests_a_remedy() {
    use io::ErrorKind as Kind;
    for (kind, remedy) in [
        (Kind::NotFound, "a model directory holds config.json"),
        (Kind::StorageFull, "free some space"),
        (Kind::FileTooLarge, "ulimit -f"),
        (Kind::PermissionDenied, "check the permissions"),
        (Kind::OutOfMemory, "more memory"),
        (Kind::Other, "check the path and its disk"),
    ] {
        let error = io(Path::new("m/x"), "read")(kind.into()).to_string();
        let (problem, advice) = error.split_once("; ").unwrap();
        assert!(problem.starts_with("cannot read m/x: ") && advice.contains(remedy), "{error}");
    }
}

#[test]
fn a_saved_model_loads_and_its_parameter_bytes_match() {
    let dir = std::env::temp_dir().join(format!("gradus-saved-{}", std::process::id()));
    let model = tiny();
    let error = save(&dir, &model).unwrap_err().to_string();
    assert!(error.starts_with(&format!("cannot create {}", dir.join(CONFIG_FILE).display())), "{error}");
    std::fs::create_dir(&dir).unwrap();
    save(&dir, &model).unwrap();
    assert_eq!(load(&dir).unwrap(), model);
    std::fs::remove_dir_all(&dir).unwrap();
    let (mut found, mut expected) = (Vec::new(), Vec::new());
    parameter_bytes(&model, |bytes| found.extend_from_slice(bytes)).unwrap();
    model.as_ref().visit(|_, p| expected.extend(p.to_vec().into_iter().flat_map(f32::to_le_bytes)));
    assert!(found == expected && found.len() == 4 * model.config().parameters());
}

#[test]
fn a_single_weights_file_takes_precedence_over_an_index() {
    let mut files = sharded();
    let other = Model::init(&tiny().config(), 9);
    files.extend(files_of(&other));
    assert_eq!(read_files(&files).unwrap(), other);
}

#[test]
fn weights_of_another_format_are_rejected_with_a_remedy() {
    for (name, words) in [
        ("pytorch_model.bin", &["pickled weights", "python3 -c \"import", "weights_only=True", " 'm' 'pytorch_model.bin'"][..]),
        ("pytorch_model.bin.index.json", &["pickled shards", " 'm' 'pytorch_model-*.bin'"]),
        ("params_shapes.json", &["OpenAI's release", "gradus import --openai 'm' --out DIR"]),
        ("tf_model.h5", &["weights of TensorFlow", "model.safetensors"]),
    ] {
        let mut files = files_of(&tiny());
        files.remove(WEIGHTS_FILE);
        refused(&files, &["cannot read m/model.safetensors", "a model directory holds config.json and model.safetensors"]);
        files.insert(name.into(), Vec::new());
        refused(&files, &[&[&*format!("m/{name}: expected model.safetensors, found ")], words].concat());
    }
}

/// Every change of a byte in the small files or the header, and every truncation, gives a model or an error, and no panic.
#[test]
fn changed_or_truncated_files_do_not_panic() {
    let mut files = sharded();
    files.insert(WEIGHTS_FILE.into(), files_of(&tiny())[WEIGHTS_FILE].clone());
    for name in [CONFIG_FILE, WEIGHTS_FILE, INDEX_FILE] {
        if name == INDEX_FILE {
            files.remove(WEIGHTS_FILE);
        }
        let whole = files[name].clone();
        for at in 0..whole.len().min(1200) {
            for byte in [whole[at] ^ 1, whole[at].wrapping_add(1), 0xFF, b'9', b'"'] {
                let mut bytes = whole.clone();
                bytes[at] = byte;
                files.insert(name.into(), bytes);
                let _ = read_files(&files);
            }
            files.insert(name.into(), whole[..at].to_vec());
            assert!(read_files(&files).is_err(), "{name} cut at {at}");
        }
        files.insert(name.into(), whole);
    }
}

/// Invalid values of any field of the other dialects give a model or an error, and no panic.
#[test]
fn invalid_configuration_values_do_not_panic() {
    for config in [tiny_bert(), tiny_gpt2()] {
        let mut files = files_of(&Model::init(&config, 1));
        let whole: Value = serde_json::from_slice(&files[CONFIG_FILE]).unwrap();
        for name in whole.as_object().unwrap().keys() {
            for value in
                [json!(null), json!(0), json!(-1), json!(u64::MAX), json!(1e300), json!("x"), json!([]), json!({}), json!(true)]
            {
                let mut changed = whole.clone();
                changed[name] = value;
                files.insert(CONFIG_FILE.into(), changed.to_string().into());
                let _ = read_files(&files);
            }
        }
    }
}

#[cfg(unix)]
#[test]
fn only_regular_files_are_opened() {
    let error = |path: &str| Bytes::open(Path::new(path)).unwrap_err();
    assert_eq!(error("/dev/zero").to_string(), "expected a regular file, found a pipe, a socket or a device");
    assert_eq!(
        (error("/").kind(), error("/").to_string().as_str()),
        (io::ErrorKind::IsADirectory, "expected a regular file, found a directory")
    );
    assert_eq!(error("/no/such/file").kind(), io::ErrorKind::NotFound);
}

/// A large file is mapped, and releasing its pages does not change its bytes.
#[test]
fn large_files_are_mapped() {
    let path = std::env::temp_dir().join(format!("gradus-bytes-{}", std::process::id()));
    let small = vec![7; 1 << 20];
    std::fs::write(&path, &small).unwrap();
    assert!(matches!(Bytes::open(&path).unwrap(), Bytes::Read(bytes) if bytes == small));
    let large: Vec<u8> = (0..3 << 20).map(|i: u32| (i % 251) as u8).collect();
    std::fs::write(&path, &large).unwrap();
    let bytes = Bytes::open(&path).unwrap();
    assert!(matches!(bytes, Bytes::Mapped(_)));
    bytes.release(&bytes[5..2 << 20]);
    bytes.release(&large[..100]); // not a part of it: nothing happens
    assert_eq!(bytes[..], large[..]);
    std::fs::remove_file(&path).unwrap();
}
