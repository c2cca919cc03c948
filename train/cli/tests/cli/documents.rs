//! Tests that run the commands in documents, with flags that shorten them to seconds.

use gradus_tests::lines;

use super::*;

/// The beginnings of the commands to run, in this order, each with flags that replace its own or are added.
const RUN: &[(&str, &str)] = &[
    ("gradus audit step --by-hand", ""),
    ("gradus audit ledger", "--root ROOT"),
    ("gradus pretrain --corpus shakespeare.txt", "--steps 2 --layers 1 --eval-tokens 200"),
    (
        "gradus pretrain --corpus novels/ --preset small --out",
        "--preset tiny --vocab 300 --layers 1 --width 16 --heads 2 --batch 2 --steps 2 --eval-tokens 200",
    ),
    ("gradus pretrain --resume runs/novels", ""),
    ("gradus verify runs/novels", ""),
    ("gradus generate --model runs/novels", "--tokens 4"),
    ("gradus evaluate --model runs/novels", ""),
    ("gradus fill --model runs/miniature", "--model runs/novels"),
    ("gradus tokenizer encode --tokenizer runs/miniature", "--tokenizer runs/novels"),
    ("gradus systems", ""),
    (
        "gradus pretrain --system bert",
        "--corpus corpus.txt --tokenizer char --layers 1 --width 16 --heads 2 --context 40 --batch 2 --steps 2 --eval-tokens 200",
    ),
    ("gradus tasks", ""),
    ("gradus finetune --model runs/novels --task rte --data glue/RTE --out", "--epochs 1 --rows 8 --dev-rows 8 --batch 4"),
    ("gradus evaluate --model runs/rte", ""),
    ("gradus predict --model runs/rte", ""),
    ("gradus devices", ""),
];

/// The beginnings of the commands that are not run, each with the reason.
const NOT_RUN: &[(&str, &str)] = &[
    ("gradus reproduce", "a quarter of an hour to days; `reproduce.rs` runs it on a few rows"),
    ("gradus survey", "minutes to days; `survey.rs` runs a small one"),
    ("gradus audit step", "half a minute in this profile; `audit.rs` opens steps of smaller models"),
    ("gradus audit ops", "a minute; `tests/tests/gradients.rs` has the same witnesses"),
    ("gradus audit model", "minutes; `audit.rs` audits a smaller one"),
    ("gradus audit cost", "measures a step of some seconds many times; `audit.rs` measures a smaller one"),
    ("gradus bench", "measures for minutes; `bench.rs` measures small ones"),
    ("gradus pretrain --config", "half an hour; a test of `train/src/pretrain/settings.rs` reads the file"),
    ("gradus pretrain --corpus novels/ --held-out-corpus", "hours; the flags are those of the other runs"),
    ("gradus pretrain --corpus novels/ --device gpu", "needs a GPU; `.ci/gpu` trains on one"),
    ("gradus pretrain --corpus novels/ --shards 8", "needs several processes; `launch.rs` starts some"),
    ("gradus finetune --model runs/novels --task rte --data glue/RTE --rows", "the fine-tuning above, of more rows"),
];

/// Each command in a document is run, or has a reason not to be run. Each entry above matches a command.
#[test]
fn commands_in_documents_run() {
    let desk = Desk::new();
    let typed: Vec<lines::Line> = lines::beginning_with("gradus").into_iter().filter(|line| line.alone).collect();
    let entry = |text: &str| {
        let all = RUN.iter().chain(NOT_RUN).map(|(start, _)| *start);
        all.filter(|start| text.starts_with(start)).max_by_key(|start| start.len())
    };
    for line in &typed {
        assert!(entry(&line.text).is_some(), "{}: {}: say how it is run, or why not", line.file, line.text);
    }
    for (start, _) in RUN.iter().chain(NOT_RUN) {
        assert!(typed.iter().any(|line| entry(&line.text) == Some(start)), "no line begins with {start}");
    }
    write_files(&desk);
    for (start, changes) in RUN {
        let mut texts: Vec<&str> = typed.iter().map(|line| &*line.text).filter(|text| entry(text) == Some(start)).collect();
        texts.sort_unstable();
        texts.dedup();
        // Both commands write to the same directory.
        if start.contains("shakespeare") {
            texts.truncate(1);
        }
        for text in texts {
            let words = shortened(&lines::words(text)[1..], changes);
            let mut program = desk.prepare(Command::new(env!("CARGO_BIN_EXE_gradus")));
            let run = Run::from(program.args(&words).output().expect("the program starts"));
            assert_eq!(run.code, Some(0), "{text}: {words:?}: {}", run.stderr);
        }
    }
}

/// Writes the files that the commands read.
fn write_files(desk: &Desk) {
    desk.gradus("world --stories 25 --seed 3 --out corpus.txt").printed();
    desk.gradus("world --tasks glue --rows 40 --seed 1").printed();
    fs::rename(desk.path("glue/rte"), desk.path("glue/RTE")).unwrap();
    let corpus = desk.text("corpus.txt");
    ["shakespeare.txt", "novels/one.txt", "held_out.txt"].iter().for_each(|name| desk.write(name, &corpus));
    desk.write("story.txt", corpus.lines().next().expect("a story"));
}

/// Returns the words of a command with other values for some of its flags. ROOT represents the root of the repository.
fn shortened(words: &[String], changes: &str) -> Vec<String> {
    let mut words = words.to_vec();
    let changes: Vec<&str> = changes.split_whitespace().collect();
    for change in changes.chunks(2) {
        let value = if change[1] == "ROOT" { lines::root().display().to_string() } else { change[1].to_owned() };
        match words.iter().position(|word| word == change[0]) {
            Some(at) => words[at + 1] = value,
            None => words.extend([change[0].to_owned(), value]),
        }
    }
    words
}
