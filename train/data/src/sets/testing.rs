//! Helpers for the tests of the data sets, and tests of all data sets.

use std::fs;
use std::path::{Path, PathBuf};

use gradus_text::corpus_files;
use proptest::{prelude::*, test_runner::TestRunner};
use tempfile::TempDir;

use super::{ALL, Answer, Example, Input, Label, Loaded, Split, Task, Transformation};

/// Returns a temporary folder with these files.
pub(super) fn folder(files: &[(&str, &str)]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    files.iter().for_each(|(name, content)| write(&folder, name, content.as_bytes()));
    folder
}

fn write(folder: &TempDir, name: &str, content: &[u8]) {
    let path = folder.path().join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let _ = fs::remove_file(&path); // some file systems wait for the disk when a file is overwritten
    fs::write(path, content).unwrap();
}

/// Formats the rows of a split: id, texts separated by `|` (`_` for a pronoun), label (`?` if unknown).
pub(super) fn rows(loaded: &Loaded) -> Vec<String> {
    let row = |example: &Example| {
        let texts = match &example.input {
            Input::One(text) => text.clone(),
            Input::Pair(a, b) => format!("{a}|{b}"),
            Input::Choices { document, question, answers } => format!("{document}|{question}|{}", answers.join("|")),
            Input::Reference { before, after, candidates: [a, b] } => format!("{before}_{after}|{a}|{b}"),
        };
        let label = match example.label {
            Some(Label::Class(class)) => class.to_string(),
            Some(Label::Score(score)) => format!("{score:?}"),
            None => "?".into(),
        };
        format!("{}: {texts} = {label}", example.id)
    };
    loaded.examples.iter().map(row).collect()
}

/// Returns the [`rows`] of a split of these files.
#[track_caller]
pub(super) fn load(task: &Task, files: &[(&str, &str)], split: Split) -> Vec<String> {
    rows(&task.load(folder(files).path(), split).unwrap())
}

/// Checks that loading from these files returns an error with these words.
#[track_caller]
pub(super) fn refused(task: &Task, files: &[(&str, &str)], split: Split, words: &str) {
    let message = task.load(folder(files).path(), split).unwrap_err().to_string();
    assert!(message.contains(words), "{message}");
}

/// Returns the folder of a data set's valid test files; every split has a row.
fn fixtures(task: &Task) -> PathBuf {
    Path::new("tests/data/sets").join(task.name)
}

/// Returns the files of [`fixtures`], with their names.
fn sound(task: &Task) -> Vec<(String, Vec<u8>)> {
    let root = fixtures(task);
    let read = |path: PathBuf| {
        let name = path.strip_prefix(&root).unwrap().to_str().unwrap();
        (name.to_owned(), fs::read(&path).unwrap())
    };
    corpus_files(&root).unwrap().into_iter().map(read).collect()
}

#[test]
fn names_and_answers_are_consistent() {
    for (k, task) in ALL.iter().enumerate() {
        assert!(std::ptr::eq(Task::named(task.name).unwrap(), *task));
        assert!(ALL[..k].iter().all(|other| other.name != task.name && other.title != task.title));
        assert!(!task.also.contains(&task.metric));
        let fits = match task.transformation {
            Transformation::Classify | Transformation::Entail => matches!(task.answer, Answer::Classes(_)),
            Transformation::Similar => matches!(task.answer, Answer::Classes(_) | Answer::Score { .. }),
            Transformation::Choose | Transformation::Refer => matches!(task.answer, Answer::Choice { .. }),
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
fn every_split_of_valid_files_loads_and_fits_the_task() {
    for task in ALL {
        for &split in task.splits {
            let loaded = task.load(&fixtures(task), split).unwrap();
            assert!(loaded.files.iter().all(|file| file.exists()), "{}", task.name);
            for example in loaded.examples {
                assert!(example.label.is_some() || split.is_test(), "{} {split}", task.name);
                assert!(example.label.is_none_or(|label| label.value() < task.answers() as f64));
                let fits = match &example.input {
                    Input::One(_) => task.transformation == Transformation::Classify,
                    Input::Pair(..) => matches!(task.transformation, Transformation::Entail | Transformation::Similar),
                    Input::Choices { answers, .. } => {
                        task.transformation == Transformation::Choose && answers.len() == task.answers()
                    }
                    Input::Reference { .. } => task.transformation == Transformation::Refer,
                };
                assert!(fits, "{}", task.name);
            }
        }
    }
}

/// QNLI's sentence is the premise, class 1 of WNLI is entailment, and a set without labels or ids still has rows.
#[test]
fn texts_and_labels_are_read_from_the_columns_of_each_set() {
    for (name, split, expected) in [
        ("qnli", Split::Dev, "0: B.|A? = 1"),
        ("rte", Split::Dev, "0: A.|B. = 0"),
        ("wnli", Split::Dev, "0: A.|B. = 1"),
        ("sst-2", Split::Dev, "0: a \"joy  = 1"),
        ("sst-2", Split::Test, "0: a bore  = ?"),
    ] {
        let task = Task::named(name).unwrap();
        assert_eq!(rows(&task.load(&fixtures(task), split).unwrap()), [expected]);
    }
    assert_eq!(Task::named("wnli").unwrap().answer, Answer::Classes(&["not_entailment", "entailment"]));
}

/// Users have unlabelled test sets to predict; some releases write `-1` or an empty label.
#[test]
fn the_test_set_of_every_task_may_lack_its_labels() {
    let story = "InputStoryid,InputSentence1,InputSentence2,InputSentence3,InputSentence4,RandomFifthSentenceQuiz1,\
                 RandomFifthSentenceQuiz2,AnswerRightEnding\na,One.,Two.,Three.,Four.,Sad.,Glad.,\n";
    let sentences = "The cup fell, for it shook.\nit\nThe cup,the shelf\n\nIt broke.\nIt\nThe cup,the shelf\n";
    let passage = r#"{"article": "A.", "questions": ["B?"], "options": [["a", "b", "c", "d"]]}"#;
    let caption = r#"{"sentence1": "A.", "sentence2": "B.", "pairID": "7"}"#;
    for (name, file, content) in [
        ("mnli", "test_matched.tsv", "index\tgenre\tsentence1\tsentence2\tgold_label\n0\toup\tA.\tB.\t-1\n"),
        ("snli", "snli_1.0_test.jsonl", caption),
        ("scitail", "scitail_1.0_test.tsv", "A.\tB.\nC.\tD.\n"),
        ("qnli", "test.tsv", "index\tquestion\tsentence\n0\tA?\tB.\n"),
        ("rte", "test.tsv", "index\tsentence1\tsentence2\tlabel\n0\tA.\tB.\t\n"),
        ("wnli", "test.tsv", "index\tsentence1\tsentence2\tlabel\n0\tA.\tB.\t-1\n"),
        ("story-cloze", "test.csv", story),
        ("race", "test/high/1.txt", passage),
        ("cola", "test.tsv", "index\tsentence\n0\tA.\n"),
        ("sst-2", "test.tsv", "index\tsentence\n0\tA.\n"),
        ("mrpc", "test.tsv", "index\t#1 ID\t#2 ID\t#1 String\t#2 String\n0\t1\t2\tA.\tB.\n"),
        ("sts-b", "test.tsv", "index\tgenre\tsentence1\tsentence2\n0\tx\tA.\tB.\n"),
        ("qqp", "test.tsv", "id\tquestion1\tquestion2\n0\tA?\tB?\n"),
        ("dprd", "test.c.txt", sentences),
        ("wsc273", "wsc273.txt", sentences),
    ] {
        let folder = folder(&[(file, content), ("test/middle/1.txt", passage)]);
        let loaded = Task::named(name).unwrap().load(folder.path(), Split::Test).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert!(!loaded.examples.is_empty() && loaded.examples.iter().all(|example| example.label.is_none()), "{name}");
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

/// Returns the content of a valid file with some bytes replaced, inserted or removed.
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

/// On any bytes, a reader returns examples that fit the task, or an error that names a file.
#[test]
fn random_and_mutated_files_never_panic() {
    let noise = proptest::collection::vec(any::<u8>(), 0..200);
    let edits = proptest::collection::vec((any::<usize>(), any::<u8>(), 0..8usize), 0..6);
    let folders = ALL.map(|task| (task, sound(task), tempfile::tempdir().unwrap()));
    let mut runner = TestRunner::new(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(64) });
    let result = runner.run(&(noise, edits), |(noise, edits)| {
        for (task, files, folder) in &folders {
            for content in [None, Some(&noise)] {
                for (name, sound) in files {
                    write(folder, name, &content.cloned().unwrap_or_else(|| mutated(sound.clone(), &edits)));
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
