//! Tests of `gradus pretrain`: equal bits on any number of threads, across stops, interruptions and kills; and the files on disk
//! after an error.

use std::process::Child;
use std::time::Duration;

use safetensors::SafeTensors;

use super::*;

/// Runs of pre-training on a small corpus.
impl Desk {
    fn with_corpus() -> Self {
        let desk = Desk::new();
        desk.write("corpus.txt", text(1));
        desk
    }

    /// Returns the command of a new run in `out`. Its model is just large enough for threads to share the work.
    fn pretraining(&self, out: &str, more: &str) -> Command {
        self.prepare(command(&format!(
            "pretrain --corpus corpus.txt --tokenizer char --preset tiny --layers 1 --width 64 --heads 2 --context 64 --batch 8 \
             --eval-tokens 300 --seed 3 --quiet --json --out {out} {more}"
        )))
    }

    fn pretrain(&self, out: &str, more: &str) -> Run {
        self.pretraining(out, more).output().expect("the program starts").into()
    }

    fn go_on(&self, out: &str, more: &str) -> Run {
        self.gradus(&format!("pretrain --resume {out} --quiet --json {more}"))
    }
}

/// Returns sentences of a few words, drawn by a small generator.
fn text(seed: u64) -> String {
    let words = ["the", "cat", "sat", "on", "a", "mat", "and", "dreamt", "of", "fish", "while", "rain", "fell"];
    let mut state = seed;
    let mut draw = |n: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % n
    };
    let mut sentence = || (0..4 + draw(5)).map(|_| words[draw(13) as usize]).collect::<Vec<_>>().join(" ");
    (0..150).map(|_| sentence() + ".\n").collect()
}

/// Returns the checksum of the parameters of a run after this many steps.
fn sha(outcome: &Value, steps: u64) -> String {
    assert_eq!(outcome["steps"], steps, "{outcome}");
    outcome["parameters_sha256"].as_str().expect("a hash").to_owned()
}

#[test]
fn threads_and_stops_do_not_change_a_bit() {
    let desk = Desk::with_corpus();
    let begin = |out: &str, more: &str| desk.pretrain(out, &format!("--steps 20 {more}")).json();
    let whole = sha(&begin("one", "--threads 1"), 20);
    assert_eq!(sha(&begin("two", "--threads 2"), 20), whole, "two threads against one");
    let half = begin("halves", "--threads 2 --stop-at 10");
    assert_eq!(half["total_steps"], 20);
    assert_ne!(sha(&half, 10), whole);
    let resumed = desk.go_on("halves", "--threads 1 --recompute").json();
    assert_eq!(sha(&resumed, 20), whole, "stopped at 10, and resumed recomputing activations");
    // Shards are part of a run: their sum has other bits, but equal ones on any number of threads.
    let sharded = sha(&begin("sharded-1", "--shards 2 --accumulate 2 --threads 1"), 20);
    assert_eq!(sha(&begin("sharded-2", "--shards 2 --accumulate 2 --threads 2"), 20), sharded);
    assert_eq!(logged_steps(&desk, "halves"), (1..=20).collect::<Vec<_>>());
}

/// Returns the steps that a run logged: all from one run, each once and in order.
fn logged_steps(desk: &Desk, run: &str) -> Vec<u64> {
    desk.records(run).iter().filter(|r| r["lr"].is_number()).map(|r| r["step"].as_u64().unwrap()).collect()
}

#[test]
fn a_run_of_another_format_is_rejected() {
    let desk = Desk::new();
    desk.write("corpus.txt", text(3));
    desk.pretrain("run", "--steps 2 --stop-at 1").json();
    desk.forget("run");
    let own = desk.text("run/run.json");
    for (format, found) in [("\"format\": 7,", "format 7"), ("", "no format, as unreleased versions wrote")] {
        desk.write("run/run.json", own.replace("\"format\": 1,", format));
        let problem = format!("run/run.json: expected format 1, found {found}; continue it with the gradus that began it");
        desk.go_on("run", "").fails_with(&[&problem]);
    }
    desk.write("run/run.json", own);
    assert_eq!(desk.go_on("run", "").json()["finished"], true);
}

/// Starts a run without end, and waits until it has made some steps.
fn running(desk: &Desk, out: &str, options: &str) -> Child {
    let mut child = desk.pretraining(out, options).spawn().unwrap();
    let log = desk.path(out).join("metrics.jsonl");
    while fs::read_to_string(&log).map_or(0, |log| log.lines().count()) < 12 {
        assert!(child.try_wait().unwrap().is_none(), "ended early: {:?}", child.wait_with_output());
        std::thread::sleep(Duration::from_millis(3));
    }
    child
}

/// Returns whether these tests ignore a signal: a closed terminal under `nohup`, or Ctrl-C in the background of a shell. The runs
/// that they start then ignore it too, as they should.
fn is_ignored(signal: &str) -> bool {
    let number = match signal {
        "-HUP" => 1,
        "-INT" => 2,
        _ => return false,
    };
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.is_some_and(|mask| u64::from_str_radix(mask.trim(), 16).is_ok_and(|mask| mask >> (number - 1) & 1 == 1))
}

fn signal(child: &Child, name: &str) {
    assert!(Command::new("kill").args([name, &child.id().to_string()]).status().unwrap().success());
}

/// Asserts that `run`, stopped at some step, continues for `more` steps to the bits of a run that was never stopped.
#[track_caller]
fn assert_goes_on(desk: &Desk, run: &str, options: &str, at: u64, more: u64) {
    let to = at + more;
    let resumed = desk.go_on(run, &format!("--stop-at {to}")).json();
    let straight = desk.pretrain(&format!("straight-{run}"), &format!("{options} --stop-at {to}")).json();
    assert_eq!(sha(&resumed, to), sha(&straight, to));
}

#[test]
fn ctrl_c_ends_with_a_checkpoint_that_resumes_to_the_same_bits() {
    let desk = Desk::with_corpus();
    let options = "--steps 1000000 --eval-every 500000";
    // Signals that request an end, from a terminal and from a supervisor.
    for name in ["-INT", "-TERM", "-HUP"].into_iter().filter(|name| !is_ignored(name)) {
        let run = format!("run{name}");
        let child = running(&desk, &run, options);
        signal(&child, name);
        let stopped = Run::from(child.wait_with_output().unwrap()).json_with(130);
        let at = stopped["steps"].as_u64().unwrap();
        assert!((1..1_000_000).contains(&at), "{stopped}");
        assert!(!desk.text(&format!("{run}/metrics.jsonl")).contains("\"evaluation\""), "it saves at once");
        assert_goes_on(&desk, &run, options, at, 5);
    }
}

/// A closed terminal may signal its process more than once, and so may a supervisor. Only Ctrl-C stops at once.
#[test]
fn repeated_signals_do_not_prevent_the_checkpoint() {
    let desk = Desk::with_corpus();
    let options = "--steps 1000000 --eval-every 500000";
    for (first, then) in [("-HUP", "-HUP"), ("-TERM", "-HUP"), ("-HUP", "-TERM")] {
        if is_ignored(first) {
            continue;
        }
        let run = format!("run{first}{then}");
        let child = running(&desk, &run, options);
        signal(&child, first);
        for _ in 0..5 {
            let _ = Command::new("kill").args([then, &child.id().to_string()]).status(); // it may have ended
        }
        let stopped = Run::from(child.wait_with_output().unwrap()).json_with(130);
        assert_goes_on(&desk, &run, options, stopped["steps"].as_u64().unwrap(), 2);
    }
}

/// A run under `nohup` ignores a closed terminal, and a run in the background of a shell ignores Ctrl-C.
#[cfg(target_os = "linux")]
#[test]
fn a_run_that_ignores_a_signal_continues() {
    ["HUP", "INT"].into_iter().for_each(goes_on_after);
}

#[cfg(target_os = "linux")]
fn goes_on_after(name: &str) {
    let desk = Desk::with_corpus();
    let line = desk.pretraining("run", "--steps 1000000 --eval-every 500000");
    let mut shell = Command::new("sh");
    shell.arg("-c").arg(format!("trap '' {name}; exec \"$0\" \"$@\"")).arg(line.get_program()).args(line.get_args());
    shell.current_dir(line.get_current_dir().unwrap()).stdout(Stdio::piped()).stderr(Stdio::piped());
    shell.envs(line.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let steps = || fs::read_to_string(desk.path("run/metrics.jsonl")).map_or(0, |log| log.lines().count());
    let (mut child, ignored) = (shell.spawn().unwrap(), format!("-{name}"));
    for wanted in [12, 40] {
        while steps() < wanted {
            assert!(child.try_wait().unwrap().is_none(), "ended early: {:?}", child.wait_with_output());
            std::thread::sleep(Duration::from_millis(3));
        }
        signal(&child, if wanted == 12 { &ignored } else { "-TERM" });
    }
    assert!(Run::from(child.wait_with_output().unwrap()).json_with(130)["steps"].as_u64().unwrap() >= 30);
}

#[test]
fn after_a_kill_at_any_time_a_run_resumes_to_the_same_bits() {
    let desk = Desk::with_corpus();
    // The run saves after every step, so the kill most likely comes during a write.
    let options = "--steps 1000000 --eval-every 1";
    let mut child = running(&desk, "run", options);
    signal(&child, "-KILL");
    assert!(!child.wait().unwrap().success());
    // With no steps left, the run reports its position.
    let at = desk.go_on("run", "--stop-at 1").json()["steps"].as_u64().unwrap();
    assert!(at >= 1);
    assert_goes_on(&desk, "run", options, at, 3);
}

#[test]
fn a_run_is_never_written_over() {
    let desk = Desk::with_corpus();
    desk.pretrain("run", "--steps 2").json();
    let before = desk.files("run");
    desk.pretrain("run", "--steps 2").fails_with(&["run already holds run/", "--resume run", "--out"]);
    assert!(desk.files("run") == before, "nothing was written");
    desk.write("notes/report.html", "mine");
    desk.pretrain("notes", "--steps 2").fails_with(&["notes already holds notes/report.html", "--out"]);
    assert_eq!(desk.text("notes/report.html"), "mine");
}

/// A run within its corpus would read its own files as text when it is resumed.
#[test]
fn a_run_inside_its_corpus_is_rejected() {
    let desk = Desk::new();
    desk.write("texts/corpus.txt", text(1));
    let begin = |corpus: &str, out: &str| {
        desk.gradus(&format!(
            "pretrain --corpus {corpus} --tokenizer char --preset tiny --context 64 --steps 1 --quiet --out {out}"
        ))
    };
    std::os::unix::fs::symlink(desk.path("texts"), desk.path("linked")).unwrap();
    for (corpus, out) in [("texts", "texts/run"), ("texts", "texts/deep/run"), ("linked", "texts/run"), ("texts", "linked/run")] {
        begin(corpus, out).misused(&[&format!("--out {out}"), "outside of --corpus"]);
    }
    assert_eq!(desk.files("texts").len(), 1, "nothing was written");
    begin("texts", "texts-run").printed();
}

/// Paths that cannot be stored as text are refused before anything is written.
#[cfg(target_os = "linux")]
#[test]
fn paths_that_are_not_unicode_are_rejected() {
    use std::os::unix::ffi::OsStrExt;
    let desk = Desk::with_corpus();
    let odd = std::ffi::OsStr::from_bytes(b"caf\xE9");
    fs::copy(desk.path("corpus.txt"), desk.path(Path::new(odd))).unwrap();
    for (flag, rest) in [("--corpus", "--out run"), ("--out", "--corpus corpus.txt")] {
        let mut line = desk.prepare(command(&format!("pretrain --tokenizer char --steps 1 --quiet --json {rest}")));
        Run::from(line.arg(flag).arg(odd).output().unwrap()).misused(&[flag, "a path in Unicode"]);
    }
    assert!(!desk.exists("run"));
}

#[test]
fn a_damaged_checkpoint_is_rejected_and_left_as_it_is() {
    let desk = Desk::with_corpus();
    desk.pretrain("run", "--steps 4 --stop-at 2").json();
    let state = "run/trainer.safetensors";
    let good = desk.read(state);
    let header = |length: u64| [&length.to_le_bytes()[..], &good[8..]].concat();
    for (what, bytes) in [
        ("empty", vec![]),
        ("cut within the header", good[..100].to_vec()),
        ("cut within the values", good[..good.len() - 4].to_vec()),
        ("longer than its header says", [&good[..], &[0; 4]].concat()),
        ("a header of 2⁶⁴ − 1 bytes", header(u64::MAX)),
        ("a header longer than the file", header(good.len() as u64)),
        ("not a safetensors file", text(2).into_bytes()),
    ] {
        desk.forget("run");
        desk.write(state, bytes);
        let before = desk.files("run");
        desk.go_on("run", "").fails_with(&["trainer.safetensors", "cannot be continued"]);
        assert!(desk.files("run") == before, "{what}: nothing was written");
    }
    desk.write(state, good);
    assert_eq!(desk.go_on("run", "").json()["steps"], 4);
}

#[test]
fn a_run_resumes_only_with_its_own_corpus() {
    let desk = Desk::with_corpus();
    desk.pretrain("run", "--steps 4 --stop-at 2").json();
    let before = desk.files("run");
    desk.write("corpus.txt", text(2));
    desk.go_on("run", "").fails_with(&["cannot resume", "corpus", "put the old one back"]);
    desk.remove("corpus.txt");
    desk.go_on("run", "").fails_with(&["corpus.txt"]);
    assert!(desk.files("run") == before, "nothing was written");
    desk.write("corpus.txt", text(1));
    assert_eq!(desk.go_on("run", "").json()["steps"], 4);
}

#[test]
fn a_directory_without_a_run_is_not_resumed() {
    let desk = Desk::with_corpus();
    for run in ["nowhere", "."] {
        desk.go_on(run, "").fails_with(&[&format!("{run}/run.json"), "--out directory of a `gradus pretrain`"]);
    }
}

const WILD: &str = "--steps 20 --lr 1e30 --clip 0 --optimizer sgd";

/// The first step has rate 0, the second makes the parameters huge, and the loss of the third is non-finite.
#[test]
fn a_diverged_run_keeps_the_step_that_failed() {
    let desk = Desk::with_corpus();
    let run = desk.pretrain("run", &format!("{WILD} --eval-every 10"));
    let first = "The first non-finite number: in the forward pass,";
    run.fails_with(&["step 3", "diverged", "--lr", first, "gradus audit replay", "anomaly"]);
    assert!(!desk.exists("run/trainer.safetensors"), "there was no checkpoint to keep");
    let replay = |path: &str| desk.gradus(&format!("audit replay {path} --quiet --json"));
    let found = replay("run/anomaly").json();
    assert_eq!((&found["update"], &found["direction"]), (&3.into(), &"Forward".into()));
    assert_holds(&run.stderr, &[found["op"].as_str().unwrap(), found["source"].as_str().unwrap()]);
    replay("run").fails_with(&["the run's own directory; its step is in run/anomaly"]);
    // With the parameters of another step, the replay finds another number and reports that.
    desk.forget("run/anomaly");
    let kept = desk.read("run/anomaly/model.safetensors");
    desk.pretrain("sound", "--steps 1").json();
    desk.write("run/anomaly/model.safetensors", desk.read("sound/model.safetensors"));
    replay("run/anomaly").fails_with(&["expected a non-finite number in step 3, found none"]);
    desk.write("run/anomaly/model.safetensors", kept);
    desk.write("run/anomaly/step.json", desk.text("run/anomaly/step.json").replace("in the forward pass", "going on"));
    replay("run/anomaly").fails_with(&["expected the number that the run reported, found another in step"]);
}

/// The parameters of the second step must not replace the checkpoint before it.
#[test]
fn a_diverged_run_keeps_the_last_good_checkpoint() {
    let desk = Desk::with_corpus();
    for (out, more) in [("held-out", ""), ("none", "--held-out 0")] {
        // The evaluation finds the non-finite loss. The next step, which would also find it, names the op and is stored.
        let run = desk.pretrain(out, &format!("{WILD} --eval-every 1 {more}"));
        run.fails_with(&["step 2", "diverged", "--lr", "in the forward pass,"]);
        assert_eq!(desk.gradus(&format!("audit replay {out}/anomaly --quiet --json")).json()["update"], 3);
        let bytes = desk.read(&format!("{out}/trainer.safetensors"));
        let (_, header) = SafeTensors::read_metadata(&bytes).unwrap();
        assert_eq!(header.metadata().as_ref().unwrap()["steps"], "1");
        for (name, tensor) in SafeTensors::deserialize(&bytes).unwrap().tensors() {
            let finite = tensor.data().as_chunks().0.iter().all(|&b| f32::from_le_bytes(b).is_finite());
            assert!(finite, "{name}");
        }
        desk.go_on(out, "").fails_with(&["diverged"]); // from there again
    }
}

#[test]
fn a_full_disk_loses_only_the_new_checkpoint() {
    let desk = Desk::with_corpus();
    let options = "--steps 20 --eval-every 5";
    let whole = sha(&desk.pretrain("whole", options).json(), 20);
    desk.pretrain("run", &format!("{options} --stop-at 10")).json();
    let state = desk.read("run/trainer.safetensors");
    // The blocks have 512 or 1024 bytes, depending on the shell.
    let blocks = state.len() / 1024 * 9 / 10;
    assert!(blocks * 512 > desk.read("run/model.safetensors").len());
    let run = desk.on_a_full_disk(blocks, "pretrain --resume run --quiet --json");
    run.fails_with(&["cannot write", "trainer.safetensors", "ulimit -f"]);
    assert!(desk.read("run/trainer.safetensors") == state, "the old checkpoint is as it was");
    let left = |path: &Path| path.file_name().unwrap().to_string_lossy().starts_with('.');
    assert_eq!(desk.files("run").keys().filter(|p| left(p)).count(), 0, "no temporary file is left");
    assert_eq!(sha(&desk.go_on("run", "").json(), 20), whole);
}
