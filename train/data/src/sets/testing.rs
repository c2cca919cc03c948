//! What the tests of the data sets share, and what holds for all of them.

use std::fs;

use proptest::{prelude::*, test_runner::TestRunner};
use tempfile::TempDir;

use super::{ALL, Answer, Form, Input, Loaded, Split, Task};

/// A folder with these files.
pub(super) fn folder(files: &[(&str, &str)]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    files.iter().for_each(|(name, content)| write(&folder, name, content.as_bytes()));
    folder
}

fn write(folder: &TempDir, name: &str, content: &[u8]) {
    let path = folder.path().join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let _ = fs::remove_file(&path); // some file systems wait for the disk when a file is written over
    fs::write(path, content).unwrap();
}

/// The error that loading from these files ends in.
pub(super) fn message(task: &Task, files: &[(&str, &str)], split: Split) -> String {
    task.load(folder(files).path(), split).unwrap_err().to_string()
}

/// The texts of each example, `|` between two.
pub(super) fn texts(loaded: &Loaded) -> Vec<String> {
    let text = |input: &Input| match input {
        Input::One(text) => text.clone(),
        Input::Pair(a, b) => format!("{a}|{b}"),
        other => panic!("one text or two, not {other:?}"),
    };
    loaded.examples.iter().map(|example| text(&example.input)).collect()
}

/// Sound files of each data set, whose every split has a row.
fn sound(task: &Task) -> Vec<(&'static str, String)> {
    let glue = |train: &str, test: &str| vec![("train.tsv", train.into()), ("dev.tsv", train.into()), ("test.tsv", test.into())];
    let nli = "index\tgenre\tsentence1\tsentence2\tlabel1\tgold_label\n0\tx\tA.\tB.\tneutral\tneutral\n1\tx\tA.\tB.\t-\t-\n";
    let pairs = "index\tsentence1\tsentence2";
    let blocks = "The cup fell off the shelf as it shook.\nit\nThe cup,the shelf\nthe shelf\n\n".repeat(10);
    match task.name {
        "cola" => glue("x\t1\t\tAn owl.\nx\t0\t*\tOwl an.\n", "index\tsentence\n0\tOwls.\n"),
        "sst-2" => glue("sentence\tlabel\na \"joy \t1\n", "index\tsentence\n0\ta bore \n"),
        "mrpc" => {
            let columns = "#1 ID\t#2 ID\t#1 String\t#2 String";
            glue(
                &format!("\u{feff}Quality\t{columns}\n1\t5\t6\tA \" .\tB .\n"),
                &format!("index\t{columns}\n0\t5\t6\tA .\tB .\n"),
            )
        }
        "sts-b" => glue(&format!("{pairs}\tscore\n0\tA.\tB.\t2.5\n"), &format!("{pairs}\tgenre\n0\tA.\tB.\tx\n")),
        "qqp" => glue(
            "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate\n0\t1\t2\tA?\tB?\t1\n1\t3\ttorn\n",
            "id\tquestion1\tquestion2\n0\tA?\tB?\n",
        ),
        "mnli" => ["train.tsv", "dev_matched.tsv", "dev_mismatched.tsv", "test_matched.tsv", "test_mismatched.tsv"]
            .map(|file| (file, nli.to_owned()))
            .into(),
        "qnli" => glue("index\tquestion\tsentence\tlabel\n0\tA?\tB.\tentailment\n", "index\tquestion\tsentence\n0\tA?\tB.\n"),
        "rte" => glue(&format!("{pairs}\tlabel\n0\tA.\tB.\tentailment\n"), &format!("{pairs}\n0\tA.\tB.\n")),
        "wnli" => glue(&format!("{pairs}\tlabel\n0\tA.\tB.\t1\n"), &format!("{pairs}\n0\tA.\tB.\n")),
        "snli" => ["snli_1.0_train.jsonl", "snli_1.0_dev.jsonl", "snli_1.0_test.jsonl"]
            .map(|file| (file, r#"{"gold_label":"neutral","pairID":"1","sentence1":"A.","sentence2":"B."}"#.to_owned()))
            .into(),
        "scitail" => ["scitail_1.0_train.tsv", "scitail_1.0_dev.tsv", "scitail_1.0_test.tsv"]
            .map(|file| (file, "A.\tB.\tentails\n".to_owned()))
            .into(),
        "race" => {
            let passage = r#"{"article":"A.","questions":["B?"],"options":[["a","b","c","d"]],"answers":["C"]}"#;
            [
                "train/middle/1.txt",
                "train/high/1.txt",
                "dev/middle/1.txt",
                "dev/high/1.txt",
                "test/middle/1.txt",
                "test/high/1.txt",
            ]
            .map(|file| (file, passage.to_owned()))
            .into()
        }
        "story-cloze" => {
            let header = "InputStoryid,InputSentence1,InputSentence2,InputSentence3,InputSentence4,RandomFifthSentenceQuiz1,\
                          RandomFifthSentenceQuiz2,AnswerRightEnding\n";
            let file = format!("{header}{}", "s,A.,\"B, \"\"b\"\".\",C.,D.,E.,F.,1\n".repeat(5));
            vec![("val.csv", file.clone()), ("test.csv", file)]
        }
        "dprd" => vec![("train.c.txt", blocks.clone()), ("test.c.txt", blocks)],
        "wsc273" => vec![("wsc273.txt", blocks)],
        other => panic!("no files for {other}"),
    }
}

#[test]
fn names_and_answers_are_consistent() {
    for (k, task) in ALL.iter().enumerate() {
        assert!(std::ptr::eq(Task::named(task.name).unwrap(), *task));
        assert!(ALL[..k].iter().all(|other| other.name != task.name && other.title != task.title));
        assert!(!task.also.contains(&task.metric));
        let fits = match task.form {
            Form::Classify | Form::Entail => matches!(task.answer, Answer::Classes(_)),
            Form::Similar => matches!(task.answer, Answer::Classes(_) | Answer::Score { .. }),
            Form::Choose | Form::Refer => matches!(task.answer, Answer::Choice { .. }),
        };
        assert!(fits, "{}", task.name);
    }
    let unknown = Task::named("colla").unwrap_err().to_string();
    assert!(unknown.contains("expected one of mnli, snli,") && unknown.contains("found `colla`"), "{unknown}");
    for split in Split::ALL {
        assert_eq!(split.name().parse::<Split>().unwrap(), split);
    }
    let unknown = "validation".parse::<Split>().unwrap_err().to_string();
    assert_eq!(unknown, "split: expected one of train, dev, dev-mismatched, test, test-mismatched; found `validation`");
}

#[test]
fn every_split_of_sound_files_loads_and_fits_the_task() {
    for task in ALL {
        let folder = tempfile::tempdir().unwrap();
        sound(task).iter().for_each(|(name, content)| write(&folder, name, content.as_bytes()));
        for &split in task.splits {
            let loaded = task.load(folder.path(), split).unwrap();
            assert!(loaded.files.iter().all(|file| file.exists()), "{}", task.name);
            for example in loaded.examples {
                assert!(example.label.is_some() || split.is_test(), "{} {split}", task.name);
                assert!(example.label.is_none_or(|label| label.value() < task.answers() as f64));
                let fits = match &example.input {
                    Input::One(_) => task.form == Form::Classify,
                    Input::Pair(..) => matches!(task.form, Form::Entail | Form::Similar),
                    Input::Choices { answers, .. } => task.form == Form::Choose && answers.len() == task.answers(),
                    Input::Reference { .. } => task.form == Form::Refer,
                };
                assert!(fits, "{}", task.name);
            }
        }
    }
}

#[test]
fn no_files_empty_files_and_a_folder_that_is_a_file_are_errors() {
    for task in ALL {
        let (none, empty, file) =
            (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap(), tempfile::NamedTempFile::new().unwrap());
        sound(task).iter().for_each(|(name, _)| write(&empty, name, b""));
        for &split in task.splits {
            for missing in [none.path(), file.path()] {
                let found = task.load(missing, split).unwrap_err().to_string();
                assert!(found.contains(&format!("The folder of {} must hold {}", task.title, task.folder)), "{found}");
            }
            let found = task.load(empty.path(), split).unwrap_err().to_string();
            let expected = if task.name == "race" { "expected a JSON object" } else { "expected at least one row, found none" };
            assert!(found.contains(expected), "{found}");
        }
    }
}

/// A sound file with some of its bytes replaced, put in or cut out.
fn mutated(mut content: Vec<u8>, edits: &[(usize, u8, usize)]) -> Vec<u8> {
    for &(at, byte, kind) in edits {
        let at = at % (content.len() + 1);
        match kind {
            0 => content.insert(at, byte),
            1 => content.truncate(at),
            _ if at == content.len() => content.push(byte),
            2 => content[at] = byte,
            3 => drop(content.remove(at)),
            _ => content[at] = b"\t\n\r\",[]{}-\0\xFF"[usize::from(byte) % 12],
        }
    }
    content
}

/// Whatever the bytes, a reader answers with examples that fit the task, or with an error that names a file.
#[test]
fn no_bytes_make_a_reader_panic() {
    let noise = proptest::collection::vec(any::<u8>(), 0..200);
    let edits = proptest::collection::vec((any::<usize>(), any::<u8>(), 0..8usize), 0..6);
    let folders = ALL.map(|task| (task, tempfile::tempdir().unwrap()));
    let mut runner = TestRunner::new(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(64) });
    let result = runner.run(&(noise, edits), |(noise, edits)| {
        for (task, folder) in &folders {
            for content in [None, Some(&noise)] {
                for (name, sound) in sound(task) {
                    write(folder, name, &content.cloned().unwrap_or_else(|| mutated(sound.into_bytes(), &edits)));
                }
                for &split in task.splits {
                    match task.load(folder.path(), split) {
                        Ok(loaded) => {
                            let fits = |value: f64| (0.0..task.answers() as f64).contains(&value);
                            let labels = loaded.examples.iter().filter_map(|example| example.label);
                            prop_assert!(labels.map(|label| label.value()).all(fits), "{} {:?}", task.name, loaded);
                        }
                        Err(error) => prop_assert!(error.to_string().contains(&*folder.path().to_string_lossy()), "{}", error),
                    }
                }
            }
        }
        Ok(())
    });
    result.unwrap_or_else(|failure| panic!("{failure}"));
}
