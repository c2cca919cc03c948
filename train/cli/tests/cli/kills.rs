//! Runs that are killed repeatedly at random moments end as if undisturbed: with equal files, except for times, and no others.
//!
//! `cargo test` kills a few times, at random moments; `GRADUS_KILLS=1000` sets the number, and `GRADUS_SEED` repeats a draw.

use std::process::Child;
use std::time::{Duration, Instant, SystemTime};

use super::*;

/// A pre-training, or a fine-tuning of two seeds, with its duration.
struct Work {
    begin: String,
    resume: String,
    out: &'static str,
    took: Duration,
}

/// A generator of random moments and other numbers.
pub struct Moments(u64);

impl Moments {
    pub fn of_environment() -> (Self, u64) {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("after 1970").as_micros() as u64;
        let seed = std::env::var("GRADUS_SEED").map_or(now, |seed| seed.parse().expect("GRADUS_SEED is a number"));
        (Moments(seed), seed)
    }

    pub fn draw(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n
    }
}

fn works(desk: &Desk) -> Vec<Work> {
    desk.write("corpus.txt", "the cat sat on the mat, and the dog sat on the cat. ".repeat(60));
    desk.byte_model("model", |c| c.sizes.context = 32);
    desk.write_pairs("sts", "score", &["0.0", "1.0", "2.0", "3.0", "4.0"], [24, 8]);
    let pretrain = "pretrain --corpus corpus.txt --tokenizer char --preset tiny --layers 1 --width 48 --heads 2 --context 32 --batch 8 \
                    --steps 60 --eval-every 4 --dropout 0.1 --threads 1 --quiet";
    let finetune = "finetune --model model --task sts-b --data sts --batch 4 --epochs 4 --seeds 2 --lr 0.01 --threads 1 --quiet";
    let work = |begin: &str, command: &str, out: &'static str| {
        let started = Instant::now();
        desk.gradus(&format!("{begin} --out {out}")).printed();
        let whole = format!("whole-{out}");
        fs::rename(desk.path(out), desk.path(&whole)).unwrap();
        Work {
            begin: format!("{begin} --out {out}"),
            resume: format!("{command} --resume {out} --threads 1 --quiet"),
            out,
            took: started.elapsed(),
        }
    };
    vec![work(pretrain, "pretrain", "run"), work(finetune, "finetune", "tuned")]
}

impl Work {
    /// Begins or resumes the run, as a user would.
    fn start(&self, desk: &Desk) -> Child {
        let begun = desk.path(self.out).join("run.json").exists();
        desk.prepare(command(if begun { &self.resume } else { &self.begin })).spawn().expect("the program starts")
    }
}

#[test]
fn a_run_killed_at_any_time_ends_with_the_same_files() {
    let kills: u64 = std::env::var("GRADUS_KILLS").map_or(16, |n| n.parse().expect("GRADUS_KILLS is a number"));
    let (mut moments, seed) = Moments::of_environment();
    let desk = Desk::new();
    let works = works(&desk);
    let (mut killed, mut ended, mut whole_runs) = (0, 0, 0);
    while killed < kills {
        for work in &works {
            let _ = fs::remove_dir_all(desk.path(work.out));
            // The run is killed up to six times, then completed and compared.
            let mut left = 1 + moments.draw(6);
            loop {
                let mut child = work.start(&desk);
                if left == 0 {
                    assert!(
                        child.wait().unwrap().success(),
                        "GRADUS_SEED={seed}: it does not go on: {:?}",
                        child.wait_with_output()
                    );
                    break;
                }
                left -= 1;
                std::thread::sleep(work.took.mul_f64(moments.draw(1000) as f64 / 1000.0));
                let signal = ["-KILL", "-KILL", "-KILL", "-TERM", "-HUP", "-INT"][moments.draw(6) as usize];
                let _ = Command::new("kill").args([signal, &child.id().to_string()]).stderr(Stdio::null()).status();
                let run = child.wait_with_output().unwrap();
                match run.status.code() {
                    None => killed += 1,                                    // killed by the signal
                    Some(130) => (killed, ended) = (killed + 1, ended + 1), // ended with a checkpoint
                    Some(0) => left = 0,                                    // finished before the signal
                    code => panic!("GRADUS_SEED={seed}, {signal}: {code:?}, {}", String::from_utf8_lossy(&run.stderr)),
                }
            }
            whole_runs += 1;
            assert_same(&desk, work.out, seed);
        }
    }
    eprintln!("{killed} kills, {ended} of them with a checkpoint, {whole_runs} runs that ended the same");
}

/// Asserts that the files of a run equal those of the run that was never killed.
fn assert_same(desk: &Desk, out: &str, seed: u64) {
    let whole = format!("whole-{out}");
    let names = |folder: &str| -> Vec<PathBuf> {
        desk.files(folder).keys().map(|path| path.strip_prefix(desk.path(folder)).unwrap().to_owned()).collect()
    };
    // A stopped run keeps its state at that moment as the previous state.
    let but_previous = |mut names: Vec<PathBuf>| {
        names.retain(|name| !name.ends_with("trainer.previous.safetensors"));
        names
    };
    assert_eq!(but_previous(names(out)), but_previous(names(&whole)), "GRADUS_SEED={seed}");
    desk.gradus(&format!("verify {out}")).printed();
    for name in names(out) {
        let (found, expected) = (desk.path(out).join(&name), desk.path(&whole).join(&name));
        let name = name.to_string_lossy();
        if name.ends_with("metrics.jsonl") {
            assert_eq!(measurements(&found), measurements(&expected), "GRADUS_SEED={seed}: {name}");
        } else if name.ends_with("model.safetensors") || name.ends_with("config.json") || name.contains("tokenizer") {
            assert!(fs::read(found).unwrap() == fs::read(expected).unwrap(), "GRADUS_SEED={seed}: {name}");
        }
    }
}

/// Returns the records of a log without their times, and without the records of checkpoints.
fn measurements(log: &Path) -> Vec<Value> {
    let text = fs::read_to_string(log).unwrap();
    let mut records: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    records.retain(|record| record["record"] != "checkpoint");
    for fields in records.iter_mut().filter_map(Value::as_object_mut) {
        fields.retain(|name, _| !["elapsed", "tokens_per_second"].contains(&name.as_str()));
    }
    records
}
