//! The program behind `.ci/mutants`: mutation testing, file by file.
//!
//! cargo-mutants plants its changes in a copy of the working tree, `target/mutants/tree`, so that the original stays usable. A
//! file's result is written when it is complete, with the file's digest. A stopped run continues with the files that have no result
//! or have changed.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use gradus_audit::mutants::{self, Group, Mutant, Results, Tested, digest};
use serde_json::Value;

const USAGE: &str = "usage: mutants [--list|--survivors] [--tests=NAME,…] [--skip=NAME,…] [FILE…]
Without FILE: the files that have changed since their mutants were run. --list prints these files and runs nothing. --survivors runs
the mutants that no test detected again, in files that have not changed since. --tests runs only the tests whose names contain one of
these, --skip all but those: a mutant that fast tests detect needs no others, and --survivors runs the rest with all tests.";

type Failure = Box<dyn std::error::Error>;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("error: {e}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), Failure> {
    let (options, wanted): (Vec<String>, Vec<String>) = std::env::args().skip(1).partition(|arg| arg.starts_with('-'));
    let (tests, options): (Vec<String>, Vec<String>) = options.into_iter().partition(|option| option.starts_with("--tests="));
    let (skipped, options): (Vec<String>, Vec<String>) = options.into_iter().partition(|option| option.starts_with("--skip="));
    let names = |options: &[String]| -> Vec<String> {
        options.iter().flat_map(|option| option.split(['=', ',']).skip(1)).map(str::to_owned).collect()
    };
    let filter = Filter { tests: names(&tests), skipped: names(&skipped) };
    let (list, again) = match &options.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => (false, false),
        ["--list"] => (true, false),
        ["--survivors"] => (false, true),
        _ => return Err(USAGE.into()),
    };
    let root = &Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize()?;
    let kept = root.join("train/audit/src/mutants.json");
    let mut results: Results = serde_json::from_slice(&std::fs::read(&kept)?)?;
    let mut known = false;
    for group in mutants::groups() {
        for (path, _) in &group.files {
            let text = std::fs::read_to_string(root.join(path))?;
            let asked = wanted.iter().any(|w| w == path);
            known |= asked;
            let before = results.get(path).filter(|tested| tested.source == digest(&text));
            let due = match again {
                true => before.is_some_and(|tested| !tested.survivors.is_empty()),
                false => before.is_none() || asked,
            };
            if !due || !(asked || wanted.is_empty()) {
                continue;
            }
            if list {
                println!("{path}");
                continue;
            }
            let before = before.filter(|_| again).cloned();
            let tested = test(root, &group, &filter, path, &text, before)?;
            println!("{path}: {} killed, {} unviable, {} survived", tested.killed, tested.unviable, tested.survivors.len());
            tested.survivors.iter().for_each(|m| println!("  {}, in `{}`", m.change, m.line));
            results.insert(path.clone(), tested);
            std::fs::write(&kept, serde_json::to_string_pretty(&results)? + "\n")?;
        }
    }
    if !wanted.is_empty() && !known {
        return Err(
            format!("{}: not a file whose mutants are run; --list prints the files that are due", wanted.join(", ")).into()
        );
    }
    Ok(())
}

/// The parts of names that select tests: those to run, all tests of the group if there are none, and those to leave out.
struct Filter {
    tests: Vec<String>,
    skipped: Vec<String>,
}

/// Tests the mutants of a file by the selected tests of its group; if it was tested `before`, only the survivors.
fn test(root: &Path, group: &Group, filter: &Filter, path: &str, text: &str, before: Option<Tested>) -> Result<Tested, Failure> {
    let dir = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from).join("mutants");
    let tree = dir.join("tree");
    copy(root, &tree)?;
    let mut command = Command::new("cargo");
    command.args([
        "mutants",
        "--workspace",
        "--in-place",
        "--profile",
        "mutants",
        "--minimum-test-timeout",
        "20",
        "--build-timeout",
        "1200",
    ]);
    command.args(["--no-shuffle", "--colors", "never", "--dir"]).arg(&tree).arg("--output").arg(&dir).args(["--file", path]);
    // Samples are inputs, so other samples make no derivative wrong. Separate tests require that they exist and that they reveal
    // an error of 0.1 %.
    command.args(["--exclude-re", r"::samples\b"]);
    let survived: BTreeSet<&str> = before.iter().flat_map(|tested| &tested.survivors).map(|m| m.change.as_str()).collect();
    command.args(survived.iter().map(|change| format!("--re={}", plain(change))));
    command.args(group.package.map(|package| format!("--cargo-arg=--package={package}")));
    // These arguments apply to building and testing, so that no example is built for a mutant.
    command.args(group.tests.iter().map(|target| format!("--cargo-arg={target}")));
    // The first `--` ends cargo-mutants' arguments, the second cargo test's: the test binary accepts several names.
    command.args(["--", "--"]);
    match &filter.tests[..] {
        [] => command.args(group.filter),
        names => command.args(names),
    };
    command.args(filter.skipped.iter().flat_map(|name| ["--skip", name]));
    command.env("CARGO_TARGET_DIR", dir.join("target")).stdin(Stdio::null());
    // 0: all killed, 2: some survived, 3: some timed out. Other codes are failures of cargo-mutants or of the tests without a
    // mutant (4), which would seem to kill every mutant.
    let code = command.status()?.code();
    if !matches!(code, Some(0 | 2 | 3)) {
        return Err(format!("cargo mutants ended with {code:?}; `{command:?}`").into());
    }
    let file = dir.join("mutants.out/outcomes.json");
    let outcomes: Value = match std::fs::read(&file) {
        Ok(found) => serde_json::from_slice(&found)?,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Value::Null, // the file has no place for a mutant
        Err(e) => return Err(format!("{}: {e}", file.display()).into()),
    };
    let (tested, planted) = read(&outcomes, text)?;
    let Some(before) = before else { return Ok(tested) };
    match before.survivors.iter().find(|mutant| !planted.contains(*mutant)) {
        Some(m) => Err(format!("{path}: `{}` in `{}` was not made again; run the whole file", m.change, m.line).into()),
        None => Ok(before.again(tested.survivors)),
    }
}

/// Returns the results of cargo-mutants for a file of this text, and all mutants that it planted.
fn read(outcomes: &Value, text: &str) -> Result<(Tested, BTreeSet<Mutant>), Failure> {
    let mutants = outcomes["outcomes"].as_array().into_iter().flatten();
    let verdicts: BTreeMap<&str, &Value> = mutants.filter_map(|o| Some((o["scenario"]["Mutant"]["name"].as_str()?, o))).collect();
    let mut tested = Tested { source: digest(text), killed: 0, unviable: 0, survivors: Vec::new() };
    let mut planted = BTreeSet::new();
    // cargo-mutants cannot exclude by name the mutants in the fields of a struct.
    for (name, outcome) in verdicts.into_iter().filter(|(name, _)| !name.ends_with("::samples")) {
        let mutant = mutant(name, outcome, text)?;
        planted.insert(mutant.clone());
        match outcome["summary"].as_str() {
            Some("CaughtMutant" | "Timeout") => tested.killed += 1,
            Some("Unviable") => tested.unviable += 1,
            Some("MissedMutant") => tested.survivors.push(mutant),
            other => return Err(format!("{name}: cargo mutants reported {other:?}").into()),
        }
    }
    tested.survivors.sort();
    Ok((tested, planted))
}

/// Returns a regular expression that matches this text literally.
fn plain(words: &str) -> String {
    let escaped = |c: char| r"\.+*?()|[]{}^$".contains(c).then_some('\\').into_iter().chain([c]);
    words.chars().flat_map(escaped).collect()
}

/// Parses `path:line:column: change` into a form that remains valid after lines have moved.
fn mutant(name: &str, outcome: &Value, text: &str) -> Result<Mutant, Failure> {
    let change = name.split_once(": ").map(|(_, change)| change.to_owned());
    let line = outcome["scenario"]["Mutant"]["span"]["start"]["line"].as_u64();
    let line = line.and_then(|n| text.lines().nth(n as usize - 1)).map(|line| line.trim().to_owned());
    match (change, line) {
        (Some(change), Some(line)) => Ok(Mutant { change, line }),
        _ => Err(format!("{name}: no line of the file").into()),
    }
}

/// Copies the files that git tracks or does not ignore, if they differ, and removes files that are gone.
fn copy(root: &Path, tree: &Path) -> Result<(), Failure> {
    let listed =
        Command::new("git").args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]).current_dir(root).output()?;
    let names = String::from_utf8(listed.stdout)?;
    let names: Vec<&str> = names.split('\0').filter(|name| root.join(name).is_file()).collect();
    if names.is_empty() {
        return Err(format!("{}: git lists no files; mutants need a clone", root.display()).into());
    }
    for name in &names {
        let (from, to) = (root.join(name), tree.join(name));
        let text = std::fs::read(&from)?;
        if std::fs::read(&to).ok().is_none_or(|there| there != text) {
            std::fs::create_dir_all(to.parent().ok_or("a file stands in a directory")?)?;
            std::fs::write(&to, text)?;
        }
    }
    forget(tree, tree, &names)
}

fn forget(dir: &Path, tree: &Path, names: &[&str]) -> Result<(), Failure> {
    for entry in std::fs::read_dir(dir)? {
        let path = entry?.path();
        if path.is_dir() {
            forget(&path, tree, names)?;
        } else if path.strip_prefix(tree).is_ok_and(|name| !names.contains(&name.to_string_lossy().as_ref())) {
            std::fs::remove_file(path)?;
        }
    }
    Ok(())
}
