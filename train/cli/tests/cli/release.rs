use gradus_text::Mode;

use super::*;

const IMPORT: &str = "import --openai golden/openai-release --heads 2";

#[test]
fn import_and_export_are_inverses() {
    let desk = Desk::new();
    let json = desk.gradus(&format!("{IMPORT} --out imported --json")).json();
    assert_eq!((&json["parameters"], &json["vocab"], &json["context"]), (&1952.into(), &20.into(), &6.into()));
    assert_eq!(
        (&json["width"], &json["layers"], &json["heads"], &json["mode"]),
        (&8.into(), &2.into(), &2.into(), &"spacy".into())
    );
    let plain = desk.gradus(&format!("{IMPORT} --out again"));
    assert_eq!(plain.printed(), "");
    assert_holds(
        &plain.stderr,
        &["1,952 parameters (2 blocks of width 8 and 2 heads, context 6) and 20 tokens, mode spacy → again"],
    );
    assert_eq!(desk.load("imported"), desk.load("again"));
    assert_eq!(Tokenizer::load(&desk.path("imported")).unwrap().mode(), Some(Mode::Spacy));

    // An imported model is complete: it reads and writes text.
    desk.write("page.txt", "The an\nTHE");
    let ids = ids_of(&desk.gradus("tokenizer encode --tokenizer imported --file page.txt --json").json()["ids"]);
    assert_eq!(ids, [16, 17, 19, 16], "the, an, a line end, the");
    desk.gradus("generate --model imported --prompt the --tokens 2 --json").json();

    let out = desk.gradus("export --model imported --openai out");
    assert_eq!(out.printed(), "");
    assert_holds(
        &out.stderr,
        &["train.py reads it with --n_ctx 6 --n_embd 8 --n_head 2 --n_layer 2 --afn gelu --embd_pdrop 0.1 "],
    );
    for (path, bytes) in files(&golden("openai-release")) {
        let name = path.file_name().unwrap();
        if name != "converted.safetensors" {
            assert_eq!(fs::read(desk.path("out").join(name)).unwrap(), bytes, "{}", path.display());
        }
    }
    // An import of the export restores the model, with the number of heads, which the release itself does not contain.
    desk.gradus("import --openai out --out back").printed();
    let relative = |folder: &str| {
        let strip = |(path, bytes): (PathBuf, _)| (path.strip_prefix(desk.path(folder)).unwrap().to_owned(), bytes);
        desk.files(folder).into_iter().map(strip).collect::<BTreeMap<_, _>>()
    };
    assert_eq!(relative("back"), relative("imported"));
}

/// A directory in Hugging Face's format needs no import, and the error message states this.
#[test]
fn importing_a_model_that_needs_no_import_is_an_error() {
    let desk = Desk::new();
    let run = desk.gradus("import --openai golden/relative-gpt2 --out out");
    run.misused(&["expected OpenAI's release (params_shapes.json)", "Hugging Face's format, which needs no import", "--model"]);
    assert!(!desk.exists("out"));
}

/// Special tokens have the last ids of the vocabulary and the last rows of the token table, as in OpenAI's train.py.
#[test]
fn a_trained_model_survives_export_and_import_with_its_specials() {
    let desk = Desk::new();
    desk.write("corpus.txt", "the cat sat on the mat and the rat sat on the hat\n".repeat(9));
    let sizes = "--layers 1 --width 8 --heads 2 --context 8 --batch 2 --steps 2 --quiet --json";
    desk.gradus("tokenizer train --corpus corpus.txt --vocab 40 --special <start> --out words").printed();
    for embedding in ["separate", "joint"] {
        let model = format!("model-{embedding}");
        desk.gradus(&format!("pretrain --corpus corpus.txt --tokenizer words --embedding {embedding} --out {model} {sizes}"))
            .json();
        let json = desk.gradus(&format!("export --model {model} --openai out-{embedding} --quiet --json")).json();
        assert_eq!((&json["vocab"], &json["mode"]), (&35.into(), &"basic".into()));
        let encoder = desk.json(&format!("out-{embedding}/encoder_bpe_40000.json"));
        assert_eq!((&encoder["<start>"], encoder.as_object().unwrap().len()), (&34.into(), 35));
        desk.gradus(&format!("import --openai out-{embedding} --out back-{embedding} --quiet")).printed();
        let back = format!("back-{embedding}");
        assert_eq!(desk.load(&back), desk.load(&model));
        assert_eq!(desk.read(&format!("{back}/tokenizer.json")), desk.read(&format!("{model}/tokenizer.json")));
    }
    assert_eq!(desk.json("out-joint/config.json")["gradus_embedding"], "joint");
    // The two tables of a release become one, with the same rows.
    desk.remove("out-separate/config.json");
    desk.gradus("import --openai out-separate --heads 2 --joint --out joined --quiet").printed();
    let table = |model: &str, parameter: &str| {
        let mut found = Vec::new();
        desk.load(model).as_ref().visit(|name, p| {
            if name == parameter {
                found = p.to_vec()
            }
        });
        found
    };
    let rows = [table("model-separate", "tokens_embed.weight"), table("model-separate", "positions_embed.weight")].concat();
    assert_eq!(table("joined", "tokens_embed.weight"), rows);
}

#[test]
fn existing_files_are_not_overwritten() {
    let desk = Desk::new();
    desk.gradus(&format!("{IMPORT} --out m --quiet")).printed();
    desk.spoil("m", "h.0.ln_1.bias", 7.0);
    let before = desk.files("m");
    desk.gradus(&format!("{IMPORT} --out m")).fails_with(&["m/", "already exists", "--overwrite"]);
    assert_eq!(desk.files("m"), before);
    desk.write("m/notes.txt", "mine");
    desk.gradus(&format!("{IMPORT} --out m --overwrite")).misused(&["m/notes.txt", "does not write", "another directory"]);
    desk.remove("m/notes.txt");
    assert_eq!(desk.files("m"), before);
    desk.gradus(&format!("{IMPORT} --out m --overwrite --quiet")).printed();
    assert_ne!(desk.files("m"), before);

    desk.gradus("export --model m --openai r --quiet").printed();
    desk.gradus("export --model m --openai r").fails_with(&["r/", "already exists", "--overwrite"]);
    desk.gradus("export --model m --openai r --overwrite --quiet").printed();
    desk.gradus("export --model m --openai m --overwrite").misused(&["m/", "does not write"]);
}

#[test]
fn bad_releases() {
    let desk = Desk::new();
    desk.copy(&golden("openai-release"));
    let fails = |words: &[&str]| {
        desk.gradus("import --openai . --heads 2 --out m").fails_with(words);
        assert!(!desk.exists("m"), "whole or absent");
    };
    desk.gradus("import --openai . --out m").fails_with(&["the paper's 12 do not divide width 8", "give --heads"]);
    let piece = desk.read("params_4.npy");
    desk.write("params_4.npy", &piece[..piece.len() - 4]);
    fails(&["params_4.npy: expected 195 numbers of 4 bytes each", "found 776 bytes"]);
    desk.remove("params_4.npy");
    fails(&["params_shapes.json: these are shapes of 1952 numbers, found 782 in the files before params_4.npy"]);
    desk.write("params_4.npy", piece);
    let encoder = desk.text("encoder_bpe_40000.json");
    desk.write("encoder_bpe_40000.json", encoder.replace(r#", "\n</w>": 19"#, ""));
    fails(&["the tokenizer has 19 ids, but the model has 20"]);
    desk.remove("encoder_bpe_40000.json");
    fails(&["encoder_bpe_40000.json"]);
    desk.remove("params_shapes.json");
    fails(&["params_shapes.json: there is no such file", "OpenAI's release is"]);
    desk.gradus("import --openai none --out m").fails_with(&["none/params_shapes.json: there is no such file"]);
}

#[test]
fn models_outside_openais_format_are_not_exported() {
    let desk = Desk::new();
    let export = |model: &str, words: &[&str]| {
        desk.gradus(&format!("export --model {model} --openai out")).fails_with(words);
        assert!(!desk.exists("out"));
    };
    export("golden/l1-d8-h2-epsilon", &["OpenAI's release cannot hold a layer norm's ε of 0.01"]);
    export("golden/heads-classify", &["cannot hold a task's head"]);
    export("golden/l2-d12-h3", &["there is no tokenizer beside the model"]);
    desk.byte_model("bytes", |_| ());
    export("bytes", &["a byte tokenizer does not have"]);
    export("golden/openai-release", &["gradus import --openai"]);
}

#[test]
fn pickled_weights_are_rejected_with_a_conversion_command() {
    let desk = Desk::new();
    desk.copy(&golden("l2-d12-h3"));
    desk.remove("model.safetensors");
    desk.write_ids("ids", &[1, 2]);
    let generate = || desk.gradus("generate --model . --ids ids --tokens 1");
    generate().fails_with(&["model.safetensors", "a model directory holds config.json and model.safetensors"]);
    desk.write("pytorch_model.bin", "PK");
    generate().fails_with(&["pytorch_model.bin: expected model.safetensors, found pickled weights", "python3 -c \"import sys"]);
}

/// A pipe would block the program forever, and a device would fill its memory.
#[cfg(unix)]
#[test]
fn only_regular_files_are_read() {
    let desk = Desk::new();
    desk.copy(&golden("l2-d12-h3"));
    desk.write_ids("ids", &[1, 2]);
    for (file, make) in [("config.json", "mkfifo"), ("model.safetensors", "mkfifo"), ("model.safetensors", "ln -s /dev/zero")] {
        let path = desk.path(file);
        fs::rename(&path, desk.path("kept")).unwrap();
        let made = Command::new("sh").args(["-c", &format!("{make} \"$0\"")]).arg(&path).status().unwrap();
        assert!(made.success());
        desk.gradus("generate --model . --ids ids --tokens 1").fails_with(&[file, "expected a plain file, found a pipe"]);
        fs::rename(desk.path("kept"), &path).unwrap();
    }
    desk.remove("model.safetensors");
    fs::create_dir(desk.path("model.safetensors")).unwrap();
    desk.gradus("generate --model . --ids ids --tokens 1").fails_with(&["expected a plain file, found a directory"]);
}
