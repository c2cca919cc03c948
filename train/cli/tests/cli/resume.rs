//! `gradus pretrain` from outside: the same bits on any number of threads, across stops, interruptions and kills; and what
//! is left on the disk when something goes wrong.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use gradus_model::checkpoint;
use gradus_train::pretrain;
use safetensors::SafeTensors;
use serde_json::Value;

use super::{Run, command, copy};

/// A folder with a corpus, in which runs are made.
struct Bench(tempfile::TempDir);

impl Bench {
    fn new() -> Self {
        let bench = Bench(tempfile::tempdir().unwrap());
        fs::write(bench.corpus(), text(1)).unwrap();
        bench
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// A copy of the runs in `data/stopped`, each stopped half-way, with the corpus and the rows that they go on with.
    fn stopped() -> Self {
        let bench = Bench(tempfile::tempdir().unwrap());
        copy(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/stopped"), bench.0.path());
        bench
    }

    fn corpus(&self) -> PathBuf {
        self.path("corpus.txt")
    }

    /// The program, its files kept within the folder.
    fn prepare(&self, mut command: Command) -> Command {
        command.env("XDG_CACHE_HOME", self.path("cache")).current_dir(self.0.path());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    fn gradus(&self, arguments: &str) -> Command {
        self.prepare(command(arguments, &[]))
    }

    /// A new run in `out`. Its model is just large enough for threads to share the work.
    fn begin(&self, out: &str, more: &str) -> Command {
        self.gradus(&format!(
            "pretrain --corpus corpus.txt --tokenizer char --preset tiny --layers 1 --width 64 --heads 2 --context 64 --batch 8 \
             --eval-tokens 300 --seed 3 --quiet --json --out {out} {more}"
        ))
    }

    fn resume(&self, out: &str, more: &str) -> Command {
        self.gradus(&format!("pretrain --resume {out} --quiet --json {more}"))
    }

    /// Every file below a folder, with its bytes.
    fn files(&self, name: &str) -> BTreeMap<PathBuf, Vec<u8>> {
        let mut files = BTreeMap::new();
        let mut folders = vec![self.path(name)];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    folders.push(path);
                } else {
                    files.insert(path.clone(), fs::read(path).unwrap());
                }
            }
        }
        files
    }
}

/// Sentences of a few words, drawn by a small generator.
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

#[track_caller]
fn run(mut command: Command) -> Run {
    command.output().expect("the program starts").into()
}

#[track_caller]
fn done(command: Command) -> Value {
    run(command).json()
}

/// The bits that a run came to, after so many updates.
fn sha(outcome: &Value, steps: u64) -> String {
    assert_eq!(outcome["steps"], steps, "{outcome}");
    outcome["parameters_sha256"].as_str().expect("a hash").to_owned()
}

/// What the program said when it ended with exit code 1.
#[track_caller]
fn refusal(command: Command) -> String {
    let run = run(command);
    run.fails_with(&[]);
    run.stderr
}

#[test]
fn threads_and_stops_do_not_change_a_bit() {
    let bench = Bench::new();
    let whole = sha(&done(bench.begin("one", "--steps 20 --threads 1")), 20);
    assert_eq!(sha(&done(bench.begin("two", "--steps 20 --threads 2")), 20), whole, "two threads against one");
    let half = done(bench.begin("halves", "--steps 20 --threads 2 --stop-at 10"));
    assert_eq!(half["total_steps"], 20);
    assert_ne!(sha(&half, 10), whole);
    let resumed = done(bench.resume("halves", "--threads 1 --recompute"));
    assert_eq!(sha(&resumed, 20), whole, "stopped at 10, and resumed recomputing activations");
    // Shards are part of a run: another sum, other bits; but the same on any number of threads.
    let shards = "--steps 20 --shards 2 --accumulate 2";
    let sharded = sha(&done(bench.begin("sharded-1", &format!("{shards} --threads 1"))), 20);
    assert_eq!(sha(&done(bench.begin("sharded-2", &format!("{shards} --threads 2"))), 20), sharded);
    // What was logged is one run's: each update once, in order.
    let log = fs::read_to_string(bench.path("halves/metrics.jsonl")).unwrap();
    let records: Vec<Value> = log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let steps: Vec<u64> = records.iter().filter(|r| r["lr"].is_number()).map(|r| r["step"].as_u64().unwrap()).collect();
    assert_eq!(steps, (1..=20).collect::<Vec<_>>());
}

/// Runs that version 0.1.0 stopped half-way go on to the bits that it came to itself. Their settings, identities and states must
/// stay readable. `data/stopped/README.md` says how they were made.
#[test]
fn what_an_earlier_build_stopped_goes_on_to_the_same_bits() {
    let bench = Bench::stopped();
    // The bits of a product depend on whether it has fused multiply-add: these are of CPUs with it.
    #[cfg(target_arch = "x86_64")]
    let fused = is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma");
    #[cfg(not(target_arch = "x86_64"))]
    let fused = cfg!(target_arch = "aarch64");
    // The fine-tuning first: it reads the model that `gpt` had when it was stopped.
    for (run, steps, known) in [
        ("tuned", 18, "f9b67f395344ecf62330198097287f017fe48c505c15a0d0b86832dd57514db5"),
        ("gpt", 12, "3bb1d11b057836760982ad5d82733191d0886fa1325322afaf4e0d0d214ba301"),
        ("lstm", 12, "ca19f8ec8598e79c0fb3937c40384bd928ba1163ff5dfc0694c9db29d684722a"),
    ] {
        let command = if run == "tuned" { "finetune" } else { "pretrain" };
        let outcome = done(bench.gradus(&format!("{command} --resume {run} --quiet --json")));
        assert_eq!(outcome["finished"], true, "{run}: {outcome}");
        let log = fs::read_to_string(bench.path(run).join("metrics.jsonl")).unwrap();
        let records: Vec<Value> = log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let made: Vec<u64> = records.iter().filter(|r| r["lr"].is_number()).map(|r| r["step"].as_u64().unwrap()).collect();
        assert_eq!(made, (1..=steps).collect::<Vec<_>>(), "{run}: each update once, in order");
        let params = checkpoint::load(&bench.path(run)).unwrap();
        let found = pretrain::digest(&params);
        assert!(!fused || found == known, "{run}: expected the parameters {known}, found {found}");
    }
}

/// Starts a run without end, and waits until it has made some updates.
fn running(bench: &Bench, out: &str, options: &str) -> Child {
    let mut child = bench.begin(out, options).spawn().unwrap();
    let log = bench.path(out).join("metrics.jsonl");
    while fs::read_to_string(&log).map_or(0, |log| log.lines().count()) < 12 {
        assert!(child.try_wait().unwrap().is_none(), "ended early: {:?}", child.wait_with_output());
        std::thread::sleep(Duration::from_millis(3));
    }
    child
}

fn signal(child: &Child, name: &str) {
    assert!(Command::new("kill").args([name, &child.id().to_string()]).status().unwrap().success());
}

#[test]
fn ctrl_c_ends_with_a_checkpoint_that_goes_on_to_the_same_bits() {
    let bench = Bench::new();
    let options = "--steps 1000000 --eval-every 500000";
    // What asks a process to end, at a terminal and from a supervisor.
    for name in ["-INT", "-TERM"] {
        let (run, straight) = (format!("run{name}"), format!("straight{name}"));
        let child = running(&bench, &run, options);
        signal(&child, name);
        let stopped = Run::from(child.wait_with_output().unwrap()).json_with(130);
        let at = stopped["steps"].as_u64().unwrap();
        assert!((1..1_000_000).contains(&at), "{stopped}");
        let log = fs::read_to_string(bench.path(&run).join("metrics.jsonl")).unwrap();
        assert!(!log.contains("\"evaluation\""), "it saves at once: {log}");
        let resumed = done(bench.resume(&run, &format!("--stop-at {}", at + 5)));
        let straight = done(bench.begin(&straight, &format!("{options} --stop-at {}", at + 5)));
        assert_eq!(sha(&resumed, at + 5), sha(&straight, at + 5));
    }
}

#[test]
fn a_kill_at_any_instant_leaves_a_checkpoint_that_goes_on_to_the_same_bits() {
    let bench = Bench::new();
    // It saves after every update: the kill most likely comes while it writes.
    let options = "--steps 1000000 --eval-every 1";
    let mut child = running(&bench, "run", options);
    signal(&child, "-KILL");
    assert!(!child.wait().unwrap().success());
    // With nothing left to do, it says where it is.
    let at = done(bench.resume("run", "--stop-at 1"))["steps"].as_u64().unwrap();
    assert!(at >= 1);
    let resumed = done(bench.resume("run", &format!("--stop-at {}", at + 3)));
    let straight = done(bench.begin("straight", &format!("{options} --stop-at {}", at + 3)));
    assert_eq!(sha(&resumed, at + 3), sha(&straight, at + 3));
}

#[test]
fn a_run_is_never_written_over() {
    let bench = Bench::new();
    done(bench.begin("run", "--steps 2"));
    let before = bench.files("run");
    let said = refusal(bench.begin("run", "--steps 2"));
    assert!(said.contains("already holds") && said.contains("--resume") && said.contains("--out"), "{said}");
    assert!(bench.files("run") == before, "nothing was written");
    std::fs::create_dir(bench.path("notes")).unwrap();
    std::fs::write(bench.path("notes").join("report.html"), "mine").unwrap();
    assert!(refusal(bench.begin("notes", "--steps 2")).contains("report.html"));
    assert_eq!(std::fs::read_to_string(bench.path("notes").join("report.html")).unwrap(), "mine");
}

#[test]
fn a_damaged_checkpoint_is_refused_and_left_as_it_is() {
    let bench = Bench::new();
    done(bench.begin("run", "--steps 4 --stop-at 2"));
    let path = bench.path("run/trainer.safetensors");
    let good = fs::read(&path).unwrap();
    let header = |length: u64| [&length.to_le_bytes()[..], &good[8..]].concat();
    let damages = [
        ("empty", vec![]),
        ("cut within the header", good[..100].to_vec()),
        ("cut within the values", good[..good.len() - 4].to_vec()),
        ("longer than its header says", [&good[..], &[0; 4]].concat()),
        ("a header of 2⁶⁴ − 1 bytes", header(u64::MAX)),
        ("a header longer than the file", header(good.len() as u64)),
        ("not a safetensors file", text(2).into_bytes()),
    ];
    for (what, bytes) in damages {
        fs::write(&path, bytes).unwrap();
        let before = bench.files("run");
        let said = refusal(bench.resume("run", ""));
        assert!(said.contains("trainer.safetensors") && said.contains("cannot be continued"), "{what}: {said}");
        assert!(bench.files("run") == before, "{what}: nothing was written");
    }
    fs::write(&path, good).unwrap();
    assert_eq!(done(bench.resume("run", ""))["steps"], 4);
}

#[test]
fn a_run_goes_on_with_its_own_corpus_alone() {
    let bench = Bench::new();
    done(bench.begin("run", "--steps 4 --stop-at 2"));
    let before = bench.files("run");
    fs::write(bench.corpus(), text(2)).unwrap();
    let said = refusal(bench.resume("run", ""));
    assert!(said.contains("corpus") && said.contains("put that one back"), "{said}");
    fs::remove_file(bench.corpus()).unwrap();
    let said = refusal(bench.resume("run", ""));
    assert!(said.contains("corpus.txt"), "{said}");
    assert!(bench.files("run") == before, "nothing was written");
    fs::write(bench.corpus(), text(1)).unwrap();
    assert_eq!(done(bench.resume("run", ""))["steps"], 4);
}

#[test]
fn what_is_no_run_is_not_resumed() {
    let bench = Bench::new();
    for run in ["nowhere", "."] {
        let said = refusal(bench.resume(run, ""));
        assert!(said.contains("run.json") && said.contains("--out of a `gradus pretrain`"), "{said}");
    }
}

/// The first update has rate 0, the second throws the parameters out of any range: what it made must not replace the
/// checkpoint before it, and without a checkpoint between them the third update finds no loss.
#[test]
fn a_diverged_run_stops_and_keeps_the_last_good_checkpoint() {
    let bench = Bench::new();
    let wild = "--steps 20 --lr 1e30 --clip 0 --optimizer sgd";
    let said = refusal(bench.begin("rarely", &format!("{wild} --eval-every 10")));
    assert!(said.contains("update 3") && said.contains("diverged") && said.contains("--lr"), "{said}");
    assert!(said.contains("The first number that is not finite: going forward,"), "{said}");
    assert!(!bench.path("rarely/trainer.safetensors").exists(), "there was no checkpoint to keep");
    // The update is kept beside it, and a command of its own finds the same number again.
    assert!(said.contains("gradus audit replay") && said.contains("anomaly"), "{said}");
    let found = done(bench.gradus("audit replay rarely/anomaly --quiet --json"));
    assert_eq!((found["update"].as_u64(), found["direction"].as_str()), (Some(3), Some("Forward")));
    assert!(said.contains(found["op"].as_str().unwrap()) && said.contains(found["source"].as_str().unwrap()), "{said}");
    assert!(refusal(bench.gradus("audit replay rarely")).contains("the run's own directory, whose update is in rarely/anomaly"));
    // Parameters that are not the update's: another number is met, and that is said.
    let kept = bench.path("rarely/anomaly/model.safetensors");
    let (whole, sound) = (fs::read(&kept).unwrap(), bench.path("sound"));
    done(bench.begin("sound", "--steps 1"));
    fs::copy(sound.join("model.safetensors"), &kept).unwrap();
    assert!(refusal(bench.gradus("audit replay rarely/anomaly")).contains("no number that is not finite"));
    fs::write(&kept, whole).unwrap();
    let step = bench.path("rarely/anomaly/step.json");
    fs::write(&step, fs::read_to_string(&step).unwrap().replace("going forward", "going on")).unwrap();
    assert!(refusal(bench.gradus("audit replay rarely/anomaly")).contains("this is not what the run said"));
    for (out, more) in [("held-out", ""), ("none", "--held-out 0")] {
        let said = refusal(bench.begin(out, &format!("{wild} --eval-every 1 {more}")));
        assert!(said.contains("update 2") && said.contains("diverged") && said.contains("--lr"), "{said}");
        // The evaluation met it; the next update would, names the op, and is kept.
        assert!(said.contains("going forward,"), "{said}");
        assert_eq!(done(bench.gradus(&format!("audit replay {out}/anomaly --quiet --json")))["update"].as_u64(), Some(3));
        let bytes = fs::read(bench.path(out).join("trainer.safetensors")).unwrap();
        let (_, header) = SafeTensors::read_metadata(&bytes).unwrap();
        assert_eq!(header.metadata().as_ref().unwrap()["updates"], "1");
        for (name, tensor) in SafeTensors::deserialize(&bytes).unwrap().tensors() {
            let finite = tensor.data().as_chunks().0.iter().all(|&b| f32::from_le_bytes(b).is_finite());
            assert!(finite, "{name}");
        }
        // It diverges again from there, and says so again.
        assert!(refusal(bench.resume(out, "")).contains("diverged"));
    }
}

/// A limit on the size of files stands in for a full disk: the state does not fit in it, the model does.
#[test]
fn a_full_disk_costs_nothing_but_the_new_checkpoint() {
    let bench = Bench::new();
    let options = "--steps 20 --eval-every 5";
    let whole = sha(&done(bench.begin("whole", options)), 20);
    done(bench.begin("run", &format!("{options} --stop-at 10")));
    let state = fs::read(bench.path("run/trainer.safetensors")).unwrap();
    // In blocks of 512 or 1024 bytes, as the shell has it.
    let blocks = state.len() / 1024 * 9 / 10;
    assert!(blocks * 512 > fs::read(bench.path("run/model.safetensors")).unwrap().len());
    let mut command = bench.prepare(Command::new("sh"));
    let script = format!("trap '' XFSZ; ulimit -f {blocks}; exec \"$0\" \"$@\"");
    command.args(["-c", &script, env!("CARGO_BIN_EXE_gradus"), "pretrain", "--resume", "run", "--quiet", "--json"]);
    let said = refusal(command);
    assert!(said.contains("cannot write") && said.contains("trainer.safetensors"), "{said}");
    assert!(said.contains("disk"), "what to do: {said}");
    assert!(fs::read(bench.path("run/trainer.safetensors")).unwrap() == state, "the old checkpoint is as it was");
    let left = |path: &Path| path.file_name().unwrap().to_string_lossy().starts_with('.');
    assert_eq!(bench.files("run").keys().filter(|p| left(p)).count(), 0, "no temporary file is left");
    assert_eq!(sha(&done(bench.resume("run", "")), 20), whole);
}
