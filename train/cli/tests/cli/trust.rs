//! Tests of checksums: a flipped bit, a truncated file or a lost file is named, and the previous state is used.

use super::*;

const PRETRAIN: &str = "pretrain --corpus corpus.txt --tokenizer char --layers 1 --width 8 --heads 2 --context 8 --batch 4 --steps 20 \
                        --eval-every 5 --quiet --json";

fn desk_with_run(more: &str) -> Desk {
    let desk = Desk::new();
    desk.write("corpus.txt", "the cat sat on the mat, and the dog sat on the cat. ".repeat(30));
    desk.gradus(&format!("{PRETRAIN} --out run {more}")).json();
    desk
}

impl Desk {
    /// Flips one bit in the middle of a file.
    fn flip(&self, name: &str) {
        let mut bytes = self.read(name);
        let middle = bytes.len() / 2;
        bytes[middle] ^= 4;
        self.write(name, bytes);
    }

    /// Asserts that `verify` finds exactly one fault in a folder.
    #[track_caller]
    fn finds(&self, folder: &str, words: &[&str]) {
        let found = self.gradus(&format!("verify {folder}"));
        let faults = found.stdout.lines().filter(|line| line.starts_with("DAMAGED") || line.starts_with("MISSING")).count();
        assert_eq!((found.code, faults), (Some(1), 1), "{}", found.stdout);
        assert_holds(&found.stderr, words);
    }

    fn listed(&self, folder: &str) -> Vec<String> {
        let sums = self.json(&format!("{folder}/checksums.json"));
        sums["files"].as_object().expect("files").keys().cloned().collect()
    }
}

/// Each file that is read again, damaged in each way, is the only fault that `verify` finds.
#[test]
fn every_damaged_file_is_named() {
    let desk = desk_with_run("");
    let sound = desk.gradus("verify run --json").json();
    assert!(sound["faults"].as_array().unwrap().is_empty() && sound["sound"].as_u64().unwrap() >= 10, "{sound}");
    let unlisted: Vec<&str> = items(&sound["unlisted"]).iter().map(|path| path.as_str().unwrap()).collect();
    assert_eq!(unlisted, ["run/loss.svg", "run/report.html"], "what nobody reads again");
    let mut listed: Vec<String> = desk.listed("run");
    listed.extend(desk.listed("run/best").into_iter().map(|name| format!("best/{name}")));
    for name in ["run.json", "trainer.safetensors", "trainer.previous.safetensors", "model.safetensors", "config.json"] {
        assert!(listed.iter().any(|listed| listed == name), "{name} in {listed:?}");
    }
    for name in listed.iter().map(|name| format!("run/{name}")).chain(["run/checksums.json".into()]) {
        let good = desk.read(&name);
        let damages: [&dyn Fn(); 3] =
            [&|| desk.flip(&name), &|| desk.write(&name, &good[..good.len() / 2]), &|| desk.write(&name, b"")];
        for damage in damages {
            damage();
            desk.finds("run", &["a fault was found", &name, "put back a copy", "--accept"]);
        }
        if name != "run/checksums.json" {
            desk.remove(&name);
            desk.finds("run", &["a fault was found", &name, "missing"]);
        }
        desk.write(&name, good);
    }
    desk.gradus("verify run").printed();
    desk.flip("run/model.safetensors");
    let mut unread = desk.prepare(command("verify run")).stdout(std::process::Stdio::piped()).spawn().unwrap();
    drop(unread.stdout.take());
    assert_eq!(unread.wait().unwrap().code(), Some(1), "damage, even if nothing reads stdout");
    desk.flip("run/model.safetensors");
    desk.gradus("verify nowhere").misused(&["nowhere", "there is no such directory"]);
}

/// A command that reads a damaged file reports it, and changes nothing.
#[test]
fn a_damaged_file_is_not_used() {
    let desk = desk_with_run("--stop-at 10");
    let resume = "pretrain --resume run --quiet";
    let evaluate = "evaluate --model run --corpus corpus.txt --quiet";
    for (name, command) in [
        ("run.json", resume),
        ("metrics.jsonl", resume),
        ("gradus_tokenizer.json", resume),
        ("model.safetensors", evaluate),
        ("config.json", evaluate),
        ("gradus_tokenizer.json", evaluate),
    ] {
        let path = format!("run/{name}");
        let good = desk.read(&path);
        desk.flip(&path);
        let before = desk.files("run");
        desk.gradus(command).fails_with(&[&path, "damaged", "SHA-256"]);
        assert!(desk.files("run") == before, "{name}: nothing was written");
        desk.write(&path, good);
    }
    // A record after the last checkpoint is made again, whatever its damage.
    let log = desk.text("run/metrics.jsonl");
    desk.write("run/metrics.jsonl", log + "{\"record\":\"st");
    desk.gradus(resume).printed();
}

/// A damaged or lost state is replaced by the previous one, and the run ends with the same bits.
#[test]
fn a_damaged_state_is_replaced_by_the_previous_one() {
    let desk = desk_with_run("--stop-at 15");
    let whole = desk.gradus(&format!("{PRETRAIN} --out whole")).json()["parameters_sha256"].clone();
    let begun = desk.files("run");
    let restore = || begun.iter().for_each(|(path, bytes)| fs::write(path, bytes).unwrap());
    let damages: [&dyn Fn(); 3] =
        [&|| desk.flip("run/trainer.safetensors"), &|| desk.write("run/trainer.safetensors", b"short"), &|| {
            desk.remove("run/trainer.safetensors")
        }];
    for damage in damages {
        damage();
        let run = desk.gradus("pretrain --resume run --json");
        assert_holds(&run.stderr, &["warning: run/trainer.safetensors: it is", "after step 10", "the same"]);
        assert_eq!(run.json()["parameters_sha256"], whole);
        desk.gradus("verify run").printed();
        restore();
    }
    // The next state that is saved replaces the damaged one, not the sound one before it.
    let sound = desk.read("run/trainer.previous.safetensors");
    desk.flip("run/trainer.safetensors");
    assert_eq!(desk.gradus("pretrain --resume run --stop-at 12 --json").json()["steps"], 12);
    assert!(desk.read("run/trainer.previous.safetensors") == sound);
    desk.gradus("verify run").printed();
    assert_eq!(desk.gradus("pretrain --resume run --stop-at 13 --json").json()["steps"], 13);
    assert!(desk.read("run/trainer.previous.safetensors") != sound, "a sound state is kept");
    restore();
    desk.flip("run/trainer.safetensors");
    desk.flip("run/trainer.previous.safetensors");
    desk.gradus("pretrain --resume run --quiet").fails_with(&["run/trainer.safetensors", "damaged"]);
}

/// A deliberate change of a file is accepted on demand. A model of another program needs no checksums.
#[test]
fn a_deliberate_change_is_accepted_on_demand() {
    let desk = desk_with_run("");
    desk.write("run/config.json", desk.text("run/config.json") + "\n");
    let evaluate = "evaluate --model run --corpus corpus.txt --quiet";
    desk.gradus(evaluate).fails_with(&["run/config.json", "gradus verify"]);
    let accepted = desk.gradus("verify run --accept");
    accepted.printed();
    assert_holds(&accepted.stderr, &["run/config.json: accepted as it is"]);
    desk.gradus(evaluate).printed();
    desk.forget("run");
    desk.remove("run/best/checksums.json");
    desk.gradus(evaluate).printed();
    let nothing = desk.gradus("verify run");
    assert_eq!(nothing.code, Some(1), "{}", nothing.stdout);
    assert_holds(
        &nothing.stderr,
        &["run: expected files with checksums, found no checksums.json", "`gradus verify run --accept`"],
    );
}

/// No command reads a run whose checksums are lost, and the remedy in the error message works.
#[test]
fn a_run_without_checksums_is_rejected() {
    let desk = desk_with_run("--stop-at 10");
    desk.remove("run/checksums.json");
    desk.flip("run/trainer.safetensors");
    for command in [
        "pretrain --resume run --quiet",
        "evaluate --model run --corpus corpus.txt --quiet",
        "generate --model run --prompt the --tokens 2",
        "tokenizer encode --tokenizer run --file corpus.txt",
        "export --model run --openai release",
        "finetune --model run --task rte --data rte --out tuned",
    ] {
        desk.gradus(command).fails_with(&[
            "run/checksums.json: it is missing",
            "run.json states",
            "`gradus verify ",
            "run --accept`",
        ]);
    }
    desk.finds("run", &["run/checksums.json: it is missing"]);
    desk.flip("run/trainer.safetensors");
    desk.remove("run/best/checksums.json");
    let accepted = desk.gradus("verify run --accept");
    accepted.printed();
    assert_holds(&accepted.stderr, &["run/checksums.json: written anew"]);
    desk.gradus("verify run").printed();
    assert!(!desk.exists("run/best/checksums.json"), "nothing listed it any more: its files are the run's");
    desk.gradus("pretrain --resume run --quiet").printed();
    desk.gradus("verify run").printed();
    desk.remove("run/best/checksums.json");
    let best = "evaluate --model run/best --corpus corpus.txt --quiet";
    desk.gradus(best).fails_with(&["run/best/checksums.json: it is missing", "run/checksums.json states"]);
    desk.gradus("verify run/best --accept").printed();
    desk.gradus(best).printed();
    desk.gradus("verify run").printed();
}

/// A run without its settings and its checksums is not mistaken for a directory of another program.
#[test]
fn a_run_without_settings_and_checksums_is_reported() {
    let desk = desk_with_run("");
    for name in ["run.json", "checksums.json"] {
        desk.remove(&format!("run/{name}"));
    }
    let words = ["run/run.json: it is missing, and so is checksums.json", "`gradus verify run --accept`"];
    desk.finds("run", &words);
    for name in ["metrics.jsonl", "trainer.safetensors"] {
        desk.remove(&format!("run/{name}"));
        desk.finds("run", &words);
    }
    desk.gradus("verify run --accept").printed();
    desk.gradus("verify run").printed();
    // The model of another program, beside directories with checksums, is not a lost run.
    let desk = desk_with_run("");
    desk.write("models/other/model.safetensors", "x");
    fs::rename(desk.path("run"), desk.path("models/run")).unwrap();
    desk.gradus("verify models").printed();
}

/// A run continues without its best model, with a warning that it is lost.
#[test]
fn a_missing_best_model_is_reported() {
    let desk = desk_with_run("--stop-at 10");
    fs::rename(desk.path("run/best"), desk.path("best")).unwrap();
    desk.finds("run", &["run/best: this directory is missing, though it was written", "`gradus verify run --accept`"]);
    let run = desk.gradus("pretrain --resume run --stop-at 12 --quiet");
    assert_eq!(run.code, Some(0));
    assert_holds(&run.stderr, &["run/best is missing, though it was written"]);
    let _ = fs::remove_dir_all(desk.path("run/best"));
    fs::rename(desk.path("best"), desk.path("run/best")).unwrap();
    // A link in the place of the directory is refused, since its target may change.
    fs::rename(desk.path("run/best"), desk.path("best")).unwrap();
    #[cfg(unix)]
    {
        std::os::unix::fs::symlink(desk.path("best"), desk.path("run/best")).unwrap();
        desk.finds("run", &["run/best: expected what was written there, found a link"]);
        desk.gradus("pretrain --resume run --quiet").fails_with(&["run/best", "found a link"]);
        // Without the checksums that list the directory, the link is not accepted.
        let sums = desk.read("run/checksums.json");
        desk.remove("run/checksums.json");
        desk.gradus("verify run --accept").fails_with(&["run/best: expected a directory, found a link", "put the directory"]);
        assert!(!desk.exists("run/checksums.json"));
        desk.write("run/checksums.json", sums);
        desk.gradus("verify run --accept").printed();
    }
}

/// Resuming a finished run reports the last loss and the rates in its log.
#[test]
fn resuming_a_finished_run_reports_its_loss() {
    let desk = desk_with_run("");
    let again = desk.gradus("pretrain --resume run --json").json();
    let steps: Vec<Value> = desk.text("run/metrics.jsonl").lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let last = steps.iter().rev().find(|record| record["record"] == "step").unwrap();
    assert_eq!(again["final_loss"], last["loss"]);
    assert!(again["tokens_per_second"].as_f64().is_some_and(|rate| rate > 0.0), "{again}");
}

/// If a log was lengthened and accepted, each resumed run cuts it between two records, not within one.
#[test]
fn a_longer_log_is_cut_at_a_record() {
    let desk = desk_with_run("--stop-at 10");
    let note = "{\"record\":\"warning\",\"step\":1,\"elapsed\":0.0,\"text\":\"a note of my own\"}\n";
    desk.write("run/metrics.jsonl", note.to_owned() + &desk.text("run/metrics.jsonl"));
    desk.finds("run", &["run/metrics.jsonl"]);
    desk.gradus("verify run --accept").printed();
    for stop in [10, 15, 20] {
        desk.gradus(&format!("pretrain --resume run --stop-at {stop} --quiet")).printed();
        desk.gradus("verify run").printed();
    }
    let log = desk.text("run/metrics.jsonl");
    assert!(log.starts_with(note), "{log}");
    let steps = log.lines().filter(|line| line.starts_with("{\"record\":\"step\"")).count();
    assert_eq!(steps, 20);
}

/// Rows appended to a task's test set would change its scores, so they are reported. Only the log may grow.
#[test]
fn appended_data_is_reported() {
    let desk = Desk::new();
    desk.gradus("world --tasks tasks --rows 20 --seed 1").printed();
    let name = "tasks/snli/snli_1.0_test.jsonl";
    let rows = desk.text(name);
    desk.write(name, rows.clone() + rows.lines().next().unwrap() + "\n");
    desk.finds("tasks", &[name, "bytes were written", "`gradus verify tasks --accept`"]);
}

/// A lost log is reported, not replaced: it records which model is the best.
#[test]
fn a_missing_log_is_reported() {
    let desk = desk_with_run("--stop-at 10");
    desk.remove("run/metrics.jsonl");
    let resume = || desk.gradus("pretrain --resume run --quiet");
    resume().fails_with(&["run/metrics.jsonl", "missing", "put back a copy", "`gradus verify run --accept`"]);
    // The remedy in the message works.
    let accepted = desk.gradus("verify run --accept");
    accepted.printed();
    assert_holds(&accepted.stderr, &["run/metrics.jsonl: missing, no longer expected"]);
    let run = resume();
    assert_holds(&run.stderr, &["bytes of metrics.jsonl are lost"]);
    assert_eq!(run.code, Some(0));
    desk.gradus("verify run").printed();
}

/// The mode of a tokenizer is in a separate file. Without it, text would be read in another mode.
#[test]
fn a_missing_tokenizer_file_is_reported() {
    let desk = Desk::new();
    desk.write("corpus.txt", "the cat sat on the mat, and the dog sat on the cat. ".repeat(30));
    assert_eq!(desk.gradus("tokenizer train --corpus corpus.txt --vocab 60 --mode spacy --out bpe").code, Some(0));
    let encode = || desk.gradus("tokenizer encode --tokenizer bpe --file corpus.txt --json");
    encode().json();
    for name in ["tokenizer_config.json", "merges.txt", "vocab.json"] {
        let path = format!("bpe/{name}");
        let good = desk.read(&path);
        desk.remove(&path);
        encode().fails_with(&[&path, "missing, though it was written"]);
        desk.write(&path, good);
    }
}

/// Unfinished files are not damage, and `--accept` accepts only listed files.
#[test]
fn unfinished_files_are_ignored() {
    let desk = desk_with_run("--stop-at 10");
    desk.write("run/.model.safetensors.tmp-1-2", "half");
    desk.write("run/.best.tmp-12/checksums.json", desk.read("run/best/checksums.json"));
    let sound = desk.gradus("verify run --json").json();
    assert!(items(&sound["faults"]).is_empty() && !sound.to_string().contains(".tmp-"), "{sound}");
    let listed = desk.listed("run");
    desk.gradus("verify run --accept").printed();
    assert_eq!(desk.listed("run"), listed);
    desk.gradus("pretrain --resume run --quiet").printed();
    desk.gradus("verify run").printed();
    assert!(!desk.exists("run/.best.tmp-12"));
}

/// Control characters in names and files are escaped, not sent to the terminal.
#[test]
fn control_characters_are_not_sent_to_the_terminal() {
    let desk = Desk::new();
    desk.write("config.toml", "wid\x1b[31mth = 3\n");
    desk.write("model/config.json", r#"{"model_type": "openai-gpt", "afn": "\u001b[2J"}"#);
    for arguments in [
        &["verify", "no\x1b[31mred\x1b]0;T\x07"][..],
        &["tasks", "show", "x\x1b[2J", "--data", "."],
        &["predict", "--model", "model", "--task", "rte", "--data", "no\x1b[1m"],
        &["pretrain", "--resume", "no\x1b[1m"],
        &["pretrain", "--config", "config.toml", "--out", "out"],
        &["generate", "--model", "model", "--prompt", "a"],
        &["generate", "--tok\x1bens", "3"],
        &["foo\x1b[2J"],
    ] {
        let run = Run::from(desk.prepare(command("")).args(arguments).output().unwrap());
        assert!(run.code.is_some_and(|code| code != 0) && run.stderr.contains("error: "), "{arguments:?}: {}", run.stderr);
        assert!(!run.stderr.contains(|c: char| c.is_control() && c != '\n'), "{arguments:?}: {:?}", run.stderr);
    }
    desk.byte_model("bytes", |c| c.sizes.context = 32);
    let fill = ["fill", "--model", "bytes", "--text", "a\x1b[31m [MASK]\x07", "--top", "256"];
    let filled = Run::from(desk.prepare(command("")).args(fill).output().unwrap());
    assert_holds(filled.printed(), &[r"a\u{1b}[31m "]);
    assert!(!filled.stdout.contains(|c: char| c.is_control() && c != '\n'), "{:?}", filled.stdout);
    let message = Run::from(desk.prepare(command("")).args(["verify", "no\x1b[31m"]).output().unwrap()).stderr;
    assert_holds(&message, &[r"no\u{1b}[31m: there is no such directory"]);
}

/// A name that is not Unicode is not an error.
#[cfg(target_os = "linux")]
#[test]
fn names_outside_unicode_are_accepted() {
    use std::os::unix::ffi::OsStrExt;
    let desk = desk_with_run("");
    let odd = Path::new(std::ffi::OsStr::from_bytes(b"caf\xE9"));
    fs::rename(desk.path("run"), desk.path(odd)).unwrap();
    let found = Run::from(desk.prepare(command("verify --json")).arg(odd).output().unwrap()).json();
    assert!(items(&found["faults"]).is_empty());
}

#[test]
fn a_damaged_file_of_a_finished_fine_tuning_is_reported() {
    let desk = Desk::new();
    desk.byte_model("model", |c| c.sizes.context = 32);
    desk.write_pairs("rte", "label", &["entailment", "not_entailment"], [8, 4]);
    desk.gradus("finetune --model model --task rte --data rte --batch 4 --epochs 1 --out tuned --quiet").printed();
    desk.gradus("verify tuned").printed();
    for name in ["model.safetensors", "seed.json", "metrics.jsonl"] {
        let path = format!("tuned/{name}");
        let good = desk.read(&path);
        desk.flip(&path);
        desk.finds("tuned", &[&path]);
        if name != "metrics.jsonl" {
            desk.gradus("finetune --resume tuned --quiet").fails_with(&[&path, "damaged"]);
        }
        desk.write(&path, good);
    }
}

/// In a run's directory prepared by an attacker, no command writes through links or waits for pipes.
#[cfg(unix)]
#[test]
fn links_are_not_followed_and_pipes_do_not_block() {
    use std::os::unix::fs::symlink;
    let desk = desk_with_run("--stop-at 10");
    let resume = || desk.gradus("pretrain --resume run --quiet");
    fs::create_dir(desk.path("victim")).unwrap();
    symlink(desk.path("victim/lock"), desk.path("run/.gradus.lock")).unwrap();
    resume().fails_with(&["cannot lock run/.gradus.lock: expected a plain file or none, found a link"]);
    desk.remove("run/.gradus.lock");
    // Temporary files of all processes are never opened, and are removed.
    for n in 0..20 {
        symlink(desk.path("victim/file"), desk.path(format!("run/.metrics.jsonl.tmp-{n}-0"))).unwrap();
    }
    for (name, command) in [
        ("run.json", "pretrain --resume run --quiet"),
        ("trainer.safetensors", "pretrain --resume run --quiet"),
        ("metrics.jsonl", "pretrain --resume run --quiet"),
        ("model.safetensors", "evaluate --model run --corpus corpus.txt --quiet"),
        ("config.json", "generate --model run --prompt t --tokens 1"),
    ] {
        let path = format!("run/{name}");
        desk.forget("run");
        let good = desk.read(&path);
        for way in ["pipe", "endless"] {
            desk.remove(&path);
            match way {
                "pipe" => assert!(Command::new("mkfifo").arg(desk.path(&path)).status().unwrap().success()),
                _ => symlink("/dev/zero", desk.path(&path)).unwrap(),
            }
            desk.gradus(command).fails_with(&[name, "pipe, socket or device"]);
        }
        desk.remove(&path);
        desk.write(&path, good);
    }
    resume().printed();
    assert_eq!(fs::read_dir(desk.path("victim")).unwrap().count(), 0, "nothing was written outside");
    let left = desk.files("run").into_keys().filter(|path| path.to_string_lossy().contains(".tmp-")).count();
    assert_eq!(left, 0, "what was unfinished is gone");

    // A link in the place of a seed's directory; a pipe in the place of a result.
    desk.byte_model("model", |c| c.sizes.context = 32);
    desk.write_pairs("rte", "label", &["entailment", "not_entailment"], [8, 4]);
    let tuning = "finetune --model model --task rte --data rte --batch 4 --epochs 1 --seeds 2 --quiet";
    desk.gradus(&format!("{tuning} --stop-at 1 --out tuned")).printed();
    fs::remove_dir_all(desk.path("tuned/seed-1")).unwrap();
    symlink(desk.path("victim"), desk.path("tuned/seed-1")).unwrap();
    desk.gradus("finetune --resume tuned --quiet").fails_with(&["tuned/seed-1", "found a link"]);
    assert!(Command::new("mkfifo").arg(desk.path("pipe")).status().unwrap().success());
    desk.gradus("world --stories 2 --out pipe --overwrite").fails_with(&["pipe", "expected a plain file there"]);
    assert_eq!(fs::read_dir(desk.path("victim")).unwrap().count(), 0, "nothing was written outside");
}

/// Too little memory, for a tensor or anything else, is an error of one line, and existing files are kept.
#[cfg(target_os = "linux")]
#[test]
fn too_little_memory_is_an_error() {
    let desk = desk_with_run("--stop-at 10");
    desk.write("long.txt", "the cat sat on the mat, and the dog sat on the cat. ".repeat(1000));
    let before = desk.files("run");
    for (kilobytes, line) in [
        (400_000, "pretrain --corpus corpus.txt --tokenizer char --preset gpt1 --steps 1 --threads 1 --quiet --out big"),
        (
            600_000,
            "pretrain --corpus long.txt --tokenizer char --context 19000 --batch 2000 --steps 1 --threads 1 --quiet --out wide",
        ),
    ] {
        let program = desk.prepare(command(line));
        let mut shell = Command::new("sh");
        shell
            .arg("-c")
            .arg(format!("ulimit -v {kilobytes}; exec \"$0\" \"$@\""))
            .arg(program.get_program())
            .args(program.get_args());
        shell.current_dir(program.get_current_dir().unwrap()).env("RUST_BACKTRACE", "1");
        shell.envs(program.get_envs().filter_map(|(name, value)| Some((name, value?))));
        let run = Run::from(shell.output().unwrap());
        run.fails_with(&["error: the system has no memory left for", "more bytes: use a smaller"]);
        assert!(!run.stderr.contains("panicked") && run.stderr.lines().count() == 1, "{}", run.stderr);
    }
    assert!(desk.files("run") == before);
}
