use super::*;

#[test]
fn stories_and_their_probabilities() {
    let desk = Desk::new();
    let json = gradus("world --stories 4 --seed 7 --json").json();
    let stories = items(&json["stories"]);
    let texts: Vec<&str> = stories.iter().map(|s| s["text"].as_str().unwrap()).collect();
    assert_eq!(gradus("world --stories 4 --seed 7").printed().lines().collect::<Vec<_>>(), texts);
    assert_ne!(gradus("world --stories 4 --seed 8").printed().lines().next(), texts.first().copied());
    assert!(stories[0]["facts"]["hero"]["name"].is_string());

    let written = desk.gradus("world --stories 4 --seed 7 --out stories.txt --json").json();
    assert_eq!((&written["limit"], desk.text("stories.txt")), (&json["limit"], texts.join("\n") + "\n"));
    let read = desk.gradus("world --log-prob stories.txt --json").json();
    for (read, story) in numbers(&read["log_probs"]).into_iter().zip(stories) {
        assert_near(&story["log_prob"], read, 1e-9);
    }
    desk.gradus("world --stories 2 --out stories.txt").fails_with(&["stories.txt", "--overwrite"]);
    assert_eq!(desk.text("stories.txt").lines().count(), 4);
    desk.gradus("world --stories 2 --out stories.txt --overwrite").printed();
    assert_eq!(desk.text("stories.txt").lines().count(), 2);
}

#[test]
fn descriptions_and_bad_input() {
    let desk = Desk::new();
    // The described entropy fits the stories: it is their negative mean log-probability.
    let described = gradus("world --describe --json").json();
    let output = gradus("world --stories 2000 --json").json();
    let mean = items(&output["stories"]).iter().map(|s| number(&s["log_prob"])).sum::<f64>() / 2000.0;
    assert_near(&described["entropy"], -mean, 0.01 * -mean);
    for stories in ["0", "18446744073709551615"] {
        gradus(&format!("world --stories {stories}")).misused(&[&format!("--stories {stories}: expected")]);
    }
    desk.write("other", "\nOnce upon a time.\n");
    desk.gradus("world --log-prob other").fails_with(&["line 2", "continues with"]);
    desk.write("empty", "");
    desk.gradus("world --log-prob empty").fails_with(&["holds no text"]);
    desk.gradus("world --out none/stories").fails_with(&["none"]);
}

#[test]
fn tasks_in_folders() {
    let desk = Desk::new();
    let written = desk.gradus("world --tasks tasks --rows 10 --seed 2 --json").json();
    let of = |name: &str| items(&written["tasks"]).iter().find(|task| task["name"] == name).unwrap();
    assert_eq!((&of("mnli")["rows"], &of("sst-2")["bayes"]), (&28.into(), &0.9.into()));
    assert_eq!(desk.text("tasks/sst-2/dev.tsv").lines().count(), 4);
    desk.gradus("world --tasks tasks --rows 10").fails_with(&["not written over", "another folder"]);
    desk.gradus("world --tasks few --rows 1").misused(&["--rows 1: expected a number from 7 to 1000000"]);
    desk.gradus("world --tasks many --rows 99999999999").misused(&["--rows 99999999999: expected a number from 7 to 1000000"]);
    assert!(!desk.exists("few") && !desk.exists("many"));
}

/// Without a corpus, the run reads whole stories, with no flag but --out. A context too short for them is refused at once.
#[test]
fn a_run_without_a_corpus_reads_stories() {
    let desk = Desk::new();
    for (wrong, expected) in [("--context 206", "--context 206"), ("--preset tiny --context 64", "--context 64")] {
        desk.gradus(&format!("pretrain --out run {wrong}")).misused(&[expected, "at least 207", "--corpus"]);
    }
    assert!(!desk.exists("run"));
    let small = "--layers 1 --width 8 --heads 1 --batch 2 --steps 1 --eval-tokens 400 --quiet --json";
    assert_eq!(desk.gradus(&format!("pretrain --out run {small}")).json()["finished"], true);
    assert_eq!(desk.json("run/config.json")["n_positions"], 208);
}

#[cfg(unix)]
#[test]
fn a_closed_pipe_is_not_an_error() {
    use std::io::Read;
    let mut child = Desk::new().prepare(command("world --stories 100000")).spawn().unwrap();
    let mut first = [0; 10];
    child.stdout.take().unwrap().read_exact(&mut first).unwrap();
    let run = Run::from(child.wait_with_output().unwrap());
    assert_eq!((run.code, run.stderr.as_str()), (Some(0), ""));
}

/// The next write of a file removes the temporary files of its killed writers, but not those of live writers or of other names.
#[test]
fn writing_a_file_removes_leftovers_of_killed_writers() {
    let desk = Desk::new();
    for name in ["out/.big.txt.tmp-999999-0", "out/.big.txt.tmp-7-1", "out/.other.txt.tmp-999999-0"] {
        desk.write(name, "half");
    }
    desk.gradus("world --stories 2 --out out/big.txt").printed();
    let left: Vec<_> = desk.files("out").into_keys().collect();
    assert_eq!(left.len(), 2, "{left:?}");
    assert!(desk.exists("out/.other.txt.tmp-999999-0") && desk.exists("out/big.txt"));
}

#[test]
fn shuffling_sentences_of_a_corpus_is_rejected() {
    let desk = Desk::new();
    desk.write("corpus.txt", "a text. ".repeat(100));
    let words = ["--shuffle-sentences true: expected no --corpus with it", "the micro-world's sentences"];
    desk.gradus("pretrain --corpus corpus.txt --shuffle-sentences --out out").misused(&words);
    assert!(!desk.exists("out"));
}

/// Each world reads only its own stories, and a run names its world: in another world, it is not resumed.
#[test]
fn retold_stories_belong_to_their_own_world() {
    let desk = Desk::new();
    let names = ["", "--retold"].map(|retold| gradus(&format!("world --describe --json {retold}")).json()["name"].clone());
    assert_eq!(names, ["micro-world-1", "micro-world-1-retold"]);
    desk.gradus("world --retold --stories 3 --out retold").printed();
    let again = ["In short, ", "All in all, ", "In other words, "];
    assert!(desk.text("retold").lines().all(|story| again.iter().any(|words| story.contains(words))));
    desk.gradus("world --retold --log-prob retold").printed();
    desk.gradus("world --log-prob retold").fails_with(&["line 1", "found one of micro-world-1-retold: give --retold"]);

    desk.write("corpus.txt", "a text. ".repeat(100));
    desk.gradus("pretrain --corpus corpus.txt --retold --out run").misused(&["--retold true: expected no --corpus with it"]);
    desk.gradus("pretrain --retold --context 234 --out run").misused(&["--context 234", "at least 235"]);
    let small = "--layers 1 --width 8 --heads 1 --batch 2 --steps 2 --eval-tokens 400 --quiet --json";
    desk.gradus(&format!("pretrain --retold --out run {small} --stop-at 1")).json();
    assert_eq!((&desk.json("run/config.json")["n_positions"], &desk.json("run/run.json")["world"]), (&236.into(), &names[1]));
    desk.forget("run");
    let begun = desk.text("run/run.json");
    desk.write("run/run.json", begun.replace("micro-world-1-retold", "micro-world-7-retold"));
    desk.gradus("pretrain --resume run --quiet").fails_with(&["begun with micro-world-7-retold", "has micro-world-1-retold"]);
    desk.write("run/run.json", begun);
    assert_eq!(desk.gradus("pretrain --resume run --quiet --json").json()["finished"], true);
}
