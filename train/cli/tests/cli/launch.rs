//! Tests of several processes that train one model: the same bits in any number, stopped, interrupted, killed and restarted. A
//! process that does not belong to a run is refused by name.
//!
//! `cargo test` kills a few processes, at random moments; `GRADUS_KILLS=200` sets their number, and `GRADUS_SEED` repeats a draw.

use std::process::Child;
use std::time::{Duration, Instant};

use gradus_cluster::rendezvous::local_addresses;

use super::kills::Moments;
use super::*;

/// The time after which a wait is considered a hang.
const DEADLINE: Duration = Duration::from_secs(120);

/// A run of several processes.
struct Work {
    /// The command, with dropout and with shards for eight processes.
    begin: String,
    command: &'static str,
    /// The number of steps of the whole run, or of its first seed.
    steps: u64,
}

fn desk() -> Desk {
    let desk = Desk::new();
    desk.write("corpus.txt", "the cat sat on the mat, and 0123456789 big dogs sat on the cat. ".repeat(60));
    desk.byte_model("gpt", |c| c.sizes.context = 32);
    desk.write_pairs("sts", "score", &["0.0", "1.0", "2.0", "3.0", "4.0"], [48, 8]);
    desk
}

fn pretraining(model: &str, steps: u64) -> Work {
    let begin = format!(
        "pretrain --corpus corpus.txt --tokenizer char --preset tiny {model} --context 32 --batch 8 --shards 8 --dropout 0.1 \
         --eval-every 20 --seed 3 --quiet --json --steps {steps}"
    );
    Work { begin, command: "pretrain", steps }
}

fn gpt(steps: u64) -> Work {
    pretraining("--layers 1 --width 32 --heads 2", steps)
}

fn lstm(steps: u64) -> Work {
    pretraining("--backbone lstm --width 24 --units 24", steps)
}

fn finetuning(model: &str) -> Work {
    let begin = format!(
        "finetune --model {model} --task sts-b --data sts --batch 8 --shards 8 --epochs 3 --seeds 2 --lr 0.01 --dropout 0.1 --quiet --json"
    );
    Work { begin, command: "finetune", steps: 18 }
}

/// Returns a run with a masked view of pairs of texts, and both losses.
fn bert(steps: u64) -> Work {
    pretraining("--system bert --layers 1 --width 32 --heads 2", steps)
}

impl Work {
    fn begin(&self, desk: &Desk, out: &str, more: &str) -> Run {
        desk.gradus(&format!("{} --out {out} {more}", self.begin))
    }

    fn resume(&self, desk: &Desk, out: &str, more: &str) -> Run {
        desk.gradus(&format!("{} --resume {out} --quiet --json {more}", self.command))
    }

    /// Begins or resumes the run, as a user would.
    fn start(&self, desk: &Desk, out: &str, more: &str) -> Child {
        let begun = desk.path(out).join("run.json").exists();
        let line =
            if begun { format!("{} --resume {out} --quiet --json", self.command) } else { format!("{} --out {out}", self.begin) };
        desk.prepare(command(&format!("{line} {more}"))).spawn().expect("the program starts")
    }

    /// Returns the models of a run in one process.
    fn alone(&self, desk: &Desk, out: &str) -> BTreeMap<PathBuf, Vec<u8>> {
        self.begin(desk, out, "").printed();
        models(desk, out)
    }
}

/// Returns the models of a run by their paths in it, and checks that all of its files are whole.
#[track_caller]
fn models(desk: &Desk, out: &str) -> BTreeMap<PathBuf, Vec<u8>> {
    desk.gradus(&format!("verify {out}")).printed();
    let root = desk.path(out);
    let all = desk.files(out).into_iter().filter(|(path, _)| path.ends_with("model.safetensors"));
    all.map(|(path, bytes)| (path.strip_prefix(&root).unwrap().to_owned(), bytes)).collect()
}

/// Waits until `look` returns a value; panics after the deadline.
#[track_caller]
fn wait_for<R>(what: &str, mut look: impl FnMut() -> Option<R>) -> R {
    let until = Instant::now() + DEADLINE;
    loop {
        match look() {
            Some(found) => return found,
            None if Instant::now() > until => panic!("{what}: not in {DEADLINE:?}"),
            None => std::thread::sleep(Duration::from_millis(5)),
        }
    }
}

/// Waits for the end of a started process and returns its result.
#[track_caller]
fn ended(mut child: Child) -> Run {
    wait_for("the end of a process", || child.try_wait().unwrap());
    child.wait_with_output().unwrap().into()
}

/// Returns the processes that work in a folder, each with its number in a run; `None` for one that started others.
fn at_work(desk: &Desk) -> Vec<(u32, Option<usize>)> {
    let folder = desk.folder.canonicalize().unwrap();
    let process = |entry: fs::DirEntry| {
        let pid = entry.file_name().to_str()?.parse().ok()?;
        if fs::read_link(entry.path().join("cwd")).ok()? != folder {
            return None;
        }
        let line = fs::read(entry.path().join("cmdline")).ok()?;
        let words: Vec<&str> = line.split(|&byte| byte == 0).filter_map(|word| str::from_utf8(word).ok()).collect();
        let member = words.iter().position(|word| *word == "--child").and_then(|at| words.get(at + 1)?.parse().ok());
        Some((pid, member))
    };
    fs::read_dir("/proc").unwrap().filter_map(|entry| process(entry.ok()?)).collect()
}

/// Waits for the process with this number and returns it.
#[track_caller]
fn member(desk: &Desk, number: usize) -> u32 {
    let find = || at_work(desk).into_iter().find(|(_, member)| *member == Some(number)).map(|(pid, _)| pid);
    wait_for("a process of the run", find)
}

fn signal(signal: &str, pid: u32) {
    let _ = Command::new("kill").args([signal, &pid.to_string()]).stderr(Stdio::null()).status();
}

/// Waits until a run has made some steps.
#[track_caller]
fn wait_for_steps(desk: &Desk, out: &str, steps: usize) {
    let log = desk.path(out).join("metrics.jsonl");
    wait_for("steps", || (fs::read_to_string(&log).unwrap_or_default().lines().count() > steps).then_some(()));
}

/// The sum of the shards' gradients differs if a process multiplies in another precision.
#[test]
fn processes_in_bf16_give_the_bits_of_one() {
    let desk = desk();
    for work in [gpt(6), finetuning("gpt")] {
        let run = |out: &str, more: &str| {
            work.begin(&desk, &format!("{}-{out}", work.command), &format!("--matmul-precision bf16 {more}")).json();
            models(&desk, &format!("{}-{out}", work.command))
        };
        let alone = run("alone", "");
        assert!(run("three", "--processes 3") == alone, "{}", work.command);
        run("half", "--processes 2 --shard-moments --stop-at 4");
        let half = format!("{}-half", work.command);
        work.resume(&desk, &half, "--processes 4").json();
        assert!(models(&desk, &half) == alone, "{}, resumed", work.command);
    }
}

#[test]
fn four_processes_stop_and_any_number_resumes_to_the_same_bits() {
    let desk = desk();
    lstm(2).begin(&desk, "lstm", "").printed();
    for work in [gpt(12), lstm(12), bert(12), finetuning("gpt"), finetuning("lstm")] {
        let Work { begin, steps, .. } = &work;
        let whole = work.alone(&desk, "whole");
        work.begin(&desk, "half", &format!("--processes 4 --shard-moments --stop-at {}", steps / 2)).json();
        for (processes, more) in [(1, ""), (3, ""), (8, "--shard-moments")] {
            let _ = fs::remove_dir_all(desk.path("run"));
            for (path, bytes) in desk.files("half") {
                desk.write(Path::new("run").join(path.strip_prefix(desk.path("half")).unwrap()), bytes);
            }
            let resumed = work.resume(&desk, "run", &format!("--processes {processes} {more}")).json();
            assert!(resumed["finished"] == true, "{resumed}");
            assert!(models(&desk, "run") == whole, "{processes} processes: {begin}");
        }
        ["half", "run", "whole"].into_iter().for_each(|folder| fs::remove_dir_all(desk.path(folder)).unwrap());
    }
    assert_eq!(at_work(&desk), []);
}

/// Starts one of two processes on two machines, both of which are this machine.
fn of_two(desk: &Desk, hosts: &str, me: usize, more: &str) -> Child {
    let line = format!("--hosts {hosts} --process {me} --wait 4 --timeout 10 {more}");
    let mut work = gpt(12);
    if more.contains("--corpus") {
        work.begin = work.begin.replace("--corpus corpus.txt", "");
    }
    work.start(desk, &format!("run-{me}"), &line)
}

fn with_hosts(desk: &Desk) {
    desk.write("hosts", local_addresses(2).unwrap().join("\n"));
    desk.write("secret", "only two processes know it");
}

#[test]
fn two_hosts_train_one_model() {
    let desk = desk();
    with_hosts(&desk);
    fs::copy(desk.path("secret"), desk.path("open")).unwrap();
    for (name, mode) in [("secret", 0o600), ("open", 0o640)] {
        fs::set_permissions(desk.path(name), std::os::unix::fs::PermissionsExt::from_mode(mode)).unwrap();
    }
    let whole = gpt(12).alone(&desk, "whole");
    let [first, second] =
        [(0, "--secret secret"), (1, "--secret open")].map(|(me, line)| of_two(&desk, "hosts", me, line)).map(ended);
    assert!(!first.stderr.contains("warning: --secret"), "{}", first.stderr);
    assert_holds(&second.stderr, &["warning: --secret open: other users can read it (mode 640)", "`chmod 600 open`"]);
    first.json();
    assert_eq!((second.printed(), models(&desk, "run-0") == whole, desk.exists("run-1")), ("", true, false));
}

#[test]
fn a_process_with_other_settings_data_or_secret_is_rejected_by_name() {
    let desk = desk();
    desk.write("other-secret", "another one, of the same length");
    desk.write("other-corpus.txt", "a dog and a cat sat. ".repeat(100));
    for (more, hosts, words, second) in [
        ("--secret secret --stop-at 3", "hosts", "settings than process 0: stop_at is 3, in process 0 not given", ["", ""]),
        ("--secret secret --shard-moments", "hosts", "shard_moments is true, in process 0 false", ["", ""]),
        ("--secret secret --lr 0.5", "hosts", "process 1 stopped: it was started with other settings than process 0: ", ["", ""]),
        (
            "--secret secret --corpus other-corpus.txt",
            "hosts",
            "process 1 has another digest of its data than process 0",
            ["", ""],
        ),
        (
            "--secret other-secret",
            "hosts",
            "did not connect within 4 s: 1; ",
            ["process 0 at ", "refused: it has another secret"],
        ),
        ("--secret secret", "other-hosts", "did not connect within 4 s: 1; ", ["process 0 at ", "another list of hosts"]),
    ] {
        with_hosts(&desk);
        desk.write("other-hosts", format!("{}\n127.0.0.1:9\n", desk.text("hosts").lines().next().unwrap()));
        let all = [of_two(&desk, "hosts", 0, "--secret secret"), of_two(&desk, hosts, 1, more)];
        let [first, of_second] = all.map(ended);
        let words = [words];
        for (run, words) in [(&first, &words[..]), (&of_second, &second[..])] {
            assert!(run.code.is_some_and(|code| code > 0) && !run.stderr.contains("panicked"), "{more}: {}", run.stderr);
            assert_holds(&run.stderr, words);
        }
        assert!(!desk.exists("run-0"), "{more}: a run has begun");
    }
    assert_eq!(at_work(&desk), []);
}

#[test]
fn processes_started_with_different_commands_are_rejected() {
    let desk = desk();
    for (of_first, of_second) in [(gpt(12), finetuning("gpt")), (finetuning("gpt"), gpt(12))] {
        with_hosts(&desk);
        let start =
            |work: &Work, me| work.start(&desk, "run", &format!("--hosts hosts --process {me} --secret secret --timeout 10"));
        let ends = [start(&of_first, 0), start(&of_second, 1)].map(ended);
        let words =
            format!("process 0 was started as `gradus {}`, process 1 as `gradus {}`", of_first.command, of_second.command);
        assert!(ends.iter().all(|run| run.code == Some(1)), "{:?}", ends.map(|run| run.stderr));
        assert_holds(&ends[0].stderr, &[&words, "process 1 stopped: "]);
        assert!(!desk.exists("run"));
    }
}

#[test]
fn flags_of_several_processes_need_several() {
    let desk = desk();
    for flag in ["--wait 9", "--timeout 9", "--step-timeout 9", "--restart 1", "--shard-moments"] {
        let refused = gpt(12).begin(&desk, "run", flag);
        assert_eq!((refused.code, desk.exists("run")), (Some(2), false), "{flag}");
        assert_holds(&refused.stderr, &["--processes", "--hosts"]);
    }
}

#[test]
fn ctrl_c_on_any_process_ends_all_with_a_checkpoint() {
    let desk = desk();
    let work = gpt(400);
    let whole = work.alone(&desk, "whole");
    for on in [None, Some(0), Some(2)] {
        let child = work.start(&desk, "run", "--processes 3");
        wait_for_steps(&desk, "run", 20);
        signal("-INT", on.map_or(child.id(), |number| member(&desk, number)));
        let run = ended(child);
        assert_eq!((run.code, at_work(&desk)), (Some(130), vec![]), "{on:?}: {}", run.stderr);
        assert!(!run.stderr.contains("panicked"), "{}", run.stderr);
        work.resume(&desk, "run", "--processes 2").json();
        assert!(models(&desk, "run") == whole, "{on:?}");
        fs::remove_dir_all(desk.path("run")).unwrap();
    }
}

#[test]
fn ctrl_c_on_one_of_two_hosts_ends_both() {
    let desk = desk();
    with_hosts(&desk);
    for on in [0, 1] {
        let all = [0, 1].map(|me| {
            let line = format!("--hosts hosts --process {me} --secret secret --timeout 10");
            gpt(100_000).start(&desk, if me == 0 { "run" } else { "none" }, &line)
        });
        wait_for_steps(&desk, "run", 20);
        signal("-INT", all[on].id());
        let ends = all.map(ended);
        assert!(ends.iter().all(|end| end.code == Some(130)), "{on}: {:?}", ends.map(|end| end.stderr));
        models(&desk, "run");
        fs::remove_dir_all(desk.path("run")).unwrap();
    }
}

#[test]
fn a_run_starts_again_where_a_process_was_lost() {
    let desk = desk();
    let work = gpt(400);
    let whole = work.alone(&desk, "whole");
    let child = work.start(&desk, "run", "--processes 3 --timeout 5 --restart 3");
    for number in [1, 0] {
        wait_for_steps(&desk, "run", if number == 1 { 20 } else { 200 });
        signal("-KILL", member(&desk, number));
    }
    let run = ended(child);
    run.json();
    let next = "to go on with the run: `gradus pretrain --resume run`";
    assert_holds(
        &run.stderr,
        &["a process was lost; starting again from the last checkpoint (attempts left: 3)", "process 1", next],
    );
    assert!(models(&desk, "run") == whole);
    let run = desk.json("run/run.json")["command"].to_string();
    assert!(run.contains("--processes 3") && !run.contains("--child"), "the recorded command is the user's: {run}");
    assert_eq!(at_work(&desk), []);
}

/// If a signal stops a process on one of two hosts, both hosts restart. If a launcher is killed, the other host detects the loss.
#[test]
fn two_hosts_start_again_where_one_hangs() {
    let desk = desk();
    with_hosts(&desk);
    let whole = gpt(400).alone(&desk, "whole");
    let start = |wait| {
        [0, 1].map(|me| {
            let line = format!("--hosts hosts --process {me} --secret secret --timeout 2 --wait {wait} --restart 1");
            gpt(400).start(&desk, "run", &line)
        })
    };
    let all = start(30);
    wait_for_steps(&desk, "run", 20);
    signal("-STOP", member(&desk, 1));
    let [first, second] = all.map(ended);
    first.json();
    assert_holds(&first.stderr, &["process 1 sent nothing for 2 s", "starting again"]);
    assert_holds(&second.stderr, &["process 1 was suspended for 3.5 s and is killed", "starting again"]);
    assert_eq!((second.code, models(&desk, "run") == whole, at_work(&desk)), (Some(0), true, vec![]));
    fs::remove_dir_all(desk.path("run")).unwrap();

    let all = start(3);
    wait_for_steps(&desk, "run", 20);
    signal("-KILL", all[1].id());
    let [first, second] = all.map(ended);
    assert_holds(
        &first.stderr,
        &["process 1 ended without reporting an error", "starting again", "did not connect within 3 s: 1;"],
    );
    assert_eq!((first.code, second.code, at_work(&desk)), (Some(1), None, vec![]));
    gpt(400).resume(&desk, "run", "").json();
    assert!(models(&desk, "run") == whole);
}

/// A signal to one of the processes of a run, or to the process that started them.
struct Harm {
    signal: &'static str,
    /// The number of the process; `None` for the process that started them.
    victim: Option<usize>,
}

/// The outcome of a harmed run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum End {
    /// Success: the harm came too late.
    Well,
    /// An end with a checkpoint.
    Stopped,
    /// An end with an error that names the victim.
    Named,
    /// An end without an error: the process that would have printed it was killed.
    Unsaid,
}

impl Harm {
    fn draw(moments: &mut Moments, processes: u64) -> Self {
        let victim = moments.draw(processes + 1).checked_sub(1).map(|number| number as usize);
        Harm { signal: ["-KILL", "-STOP"][moments.draw(2) as usize], victim }
    }

    /// Sends the signal after a while. Returns false if no such process is left.
    fn is_done(&self, desk: &Desk, after: Duration, child: &mut Child) -> bool {
        std::thread::sleep(after);
        let until = Instant::now() + DEADLINE;
        while child.try_wait().unwrap().is_none() && Instant::now() < until {
            let found = || at_work(desk).into_iter().find(|(_, number)| *number == self.victim).map(|(pid, _)| pid);
            // The process that started the others is known. A new process resembles it until it becomes one of them.
            if let Some(pid) = if self.victim.is_none() { Some(child.id()) } else { found() } {
                signal(self.signal, pid);
                return true;
            }
        }
        false
    }

    /// Waits for the end of the run. All processes end by themselves, except for a stopped process that starts the others or is
    /// the last one at the end of the run: it continues after SIGCONT.
    fn end(&self, desk: &Desk, mut child: Child) -> End {
        let (first, stopped) = (child.id(), self.signal == "-STOP");
        let mut alone = Instant::now();
        wait_for("the end of a harmed run", || {
            let left = at_work(desk);
            let may_stay = |(pid, number): &(u32, Option<usize>)| match self.victim {
                // Processes that the launcher has not configured yet wait for it.
                None => true,
                Some(0) => *pid == first || *number == Some(0),
                Some(_) => false,
            };
            if !stopped || !left.iter().all(may_stay) {
                alone = Instant::now();
            }
            // Longer than processes, and the process that starts them, wait for one another.
            let is_alone = alone.elapsed() > Duration::from_secs(12);
            let only_first = stopped && self.victim.is_none() && left.iter().all(|(pid, _)| *pid == first);
            (is_alone || only_first || left.is_empty()).then_some(())
        });
        at_work(desk).into_iter().for_each(|(pid, _)| signal("-CONT", pid));
        wait_for("the end of all", || at_work(desk).into_iter().all(|(pid, _)| pid == first).then_some(()));
        wait_for("the end of its first process", || child.try_wait().unwrap());
        let run: Run = child.wait_with_output().unwrap().into();
        assert!(!run.stderr.contains("panicked"), "{}", run.stderr);
        match (run.code, self.victim) {
            (Some(0), _) => End::Well,
            (Some(130), None) => End::Stopped,
            (None, None) => End::Unsaid,
            // It was stopped before it had started all processes.
            (Some(1), None) if run.stderr.contains("did not connect within 5 s: ") => End::Named,
            // The exit code is 1 before the processes have met.
            (Some(1 | 75), Some(victim)) if run.stderr.contains(&format!("process {victim} ")) => End::Named,
            (Some(1), Some(victim)) if run.stderr.contains(&format!("did not connect within 5 s: {victim};")) => End::Named,
            code => panic!("{code:?}: {}", run.stderr),
        }
    }
}

#[test]
fn a_run_killed_or_stopped_in_any_process_resumes_to_the_same_bits() {
    let kills: u64 = std::env::var("GRADUS_KILLS").map_or(6, |n| n.parse().expect("GRADUS_KILLS is a number"));
    let (mut moments, seed) = Moments::of_environment();
    let desk = desk();
    let works = [gpt(150), finetuning("gpt"), lstm(150)];
    let mut whole: Vec<(Duration, _)> = Vec::new();
    for (i, work) in works.iter().enumerate() {
        let started = Instant::now();
        work.begin(&desk, &format!("timed-{i}"), "--processes 2").printed();
        whole.push((started.elapsed(), work.alone(&desk, &format!("whole-{i}"))));
    }
    let mut ends: BTreeMap<(End, &str, bool), u64> = BTreeMap::new();
    for n in 0..kills {
        let i = (n % 3) as usize;
        let (work, (took, models_of_one)) = (&works[i], &whole[i]);
        let processes = 2 + moments.draw(3);
        let harm = Harm::draw(&mut moments, processes);
        // One time in five, the signal is sent at once, before the processes have met.
        let after = if moments.draw(5) == 0 { Duration::ZERO } else { took.mul_f64(moments.draw(1000) as f64 / 1000.0) };
        let what = format!("GRADUS_SEED={seed}, harm {n}: {} to {:?} of {processes} after {after:?}", harm.signal, harm.victim);
        eprintln!("{what}");
        let more = ["", "--shard-moments"][moments.draw(2) as usize];
        let mut child = work.start(&desk, "run", &format!("--processes {processes} --timeout 2 --wait 5 {more}"));
        let is_done = harm.is_done(&desk, after, &mut child);
        let end = harm.end(&desk, child);
        assert!(is_done || end == End::Well, "{what}: {end:?}");
        assert_eq!(at_work(&desk), [], "{what}");
        *ends.entry((end, harm.signal, harm.victim.is_none())).or_default() += 1;
        ended(work.start(&desk, "run", &format!("--processes {}", 1 + moments.draw(4)))).printed();
        assert!(models(&desk, "run") == *models_of_one, "{what}");
        fs::remove_dir_all(desk.path("run")).unwrap();
    }
    for ((end, signal, is_first), n) in ends {
        eprintln!("{n:4} × {signal} to {}: {end:?}", if is_first { "the one that starts the others" } else { "one of them" });
    }
}
