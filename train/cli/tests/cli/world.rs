use std::fs;

use super::*;

#[test]
fn stories_and_their_probabilities() {
    let dir = tempfile::tempdir().unwrap();
    let json = gradus("world --stories 4 --seed 7 --json", &[]).json();
    let stories = json["stories"].as_array().unwrap();
    let texts: Vec<&str> = stories.iter().map(|s| s["text"].as_str().unwrap()).collect();
    assert_eq!(gradus("world --stories 4 --seed 7", &[]).stdout.lines().collect::<Vec<_>>(), texts);
    assert_ne!(gradus("world --stories 4 --seed 8", &[]).stdout.lines().next(), texts.first().copied());
    assert!(stories[0]["facts"]["hero"]["name"].is_string());

    let out = dir.path().join("stories.txt");
    let written = gradus("world --stories 4 --seed 7 --out {} --json", &[&out]).json();
    assert_eq!((&written["limit"], fs::read_to_string(&out).unwrap()), (&json["limit"], format!("{}\n", texts.join("\n"))));
    let read = gradus("world --log-prob {} --json", &[&out]).json();
    for (read, story) in numbers(&read["log_probs"]).into_iter().zip(stories) {
        assert!((read - story["log_prob"].as_f64().unwrap()).abs() < 1e-9);
    }
    gradus("world --stories 2 --out {}", &[&out]).fails_with(&["stories.txt", "--overwrite"]);
    assert_eq!(fs::read_to_string(&out).unwrap().lines().count(), 4);
    assert_eq!(gradus("world --stories 2 --out {} --overwrite", &[&out]).code, Some(0));
    assert_eq!(fs::read_to_string(&out).unwrap().lines().count(), 2);
}

#[test]
fn descriptions_and_bad_input() {
    assert!(gradus("world --describe --json", &[]).json()["entropy"].as_f64().unwrap() > 10.0);
    gradus("world --stories 0", &[]).misused(&["--stories 0"]);
    gradus("world --stories 18446744073709551615 --json", &[]).misused(&["--stories 18446744073709551615"]);
    let dir = tempfile::tempdir().unwrap();
    let other = write(dir.path(), "other", "\nOnce upon a time.\n");
    gradus("world --log-prob {}", &[&other]).fails_with(&["line 2", "goes on with"]);
    gradus("world --log-prob {}", &[&write(dir.path(), "empty", "")]).fails_with(&["holds no text"]);
    gradus("world --out {}", &[&dir.path().join("none/stories")]).fails_with(&["none"]);
}

#[test]
fn tasks_in_folders() {
    let dir = tempfile::tempdir().unwrap();
    let tasks = dir.path().join("tasks");
    let written = gradus("world --tasks {} --rows 10 --seed 2 --json", &[&tasks]).json();
    let of = |name: &str| written["tasks"].as_array().unwrap().iter().find(|task| task["name"] == name).unwrap().clone();
    assert_eq!((of("mnli")["rows"].as_u64(), of("sst-2")["bayes"].as_f64()), (Some(28), Some(0.9)));
    assert_eq!(fs::read_to_string(tasks.join("sst-2/dev.tsv")).unwrap().lines().count(), 4);
    gradus("world --tasks {} --rows 10", &[&tasks]).fails_with(&["not written over", "another folder"]);
    gradus("world --tasks {} --rows 1", &[&dir.path().join("few")]).misused(&["rows of train", "at least 4"]);
    gradus("world --tasks {} --rows 99999999999", &[&dir.path().join("many")]).misused(&["rows of train", "at most 1000000"]);
    assert!(!dir.path().join("few").exists());
    for wrong in ["world --rows 10", "world --tasks x --rows 10 --overwrite"] {
        assert_eq!(gradus(wrong, &[]).code, Some(2), "{wrong}");
    }
}

/// Without a corpus the stories are read whole, with no flag but --out; a context that does not hold them is refused at once.
#[test]
fn a_run_without_a_corpus_reads_stories() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("run");
    for wrong in ["--context 206", "--preset tiny --context 64"] {
        gradus(&format!("pretrain --out {{}} {wrong}"), &[&out]).misused(&["--context", "at least 207", "--corpus"]);
    }
    assert!(!out.exists());
    let small = "--layers 1 --width 8 --heads 1 --batch 2 --steps 1 --eval-tokens 400 --quiet --json";
    let made = gradus(&format!("pretrain --out {{}} {small}"), &[&out]).json();
    assert_eq!(made["finished"], true);
    let config = fs::read_to_string(out.join("config.json")).unwrap();
    assert!(config.contains("\"n_positions\": 208"), "{config}");
}

#[cfg(unix)]
#[test]
fn a_reader_who_leaves_is_no_error() {
    use std::io::Read;
    use std::process::Stdio;
    let mut child = Command::new(env!("CARGO_BIN_EXE_gradus"))
        .args(["world", "--stories", "100000"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut first = [0; 10];
    child.stdout.take().unwrap().read_exact(&mut first).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), String::from_utf8(output.stderr).unwrap().as_str()), (Some(0), ""));
}
