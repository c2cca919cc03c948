//! `gradus verify` reports every damage to files with checksums and their folders, for all commands that write checksums.
//!
//! `cargo test` draws a few random damages; `GRADUS_DAMAGES=1000` sets their number, and `GRADUS_SEED` repeats a draw. Excluded are
//! the bytes that `metrics.jsonl` gained after its checksum was computed.

use std::os::unix::fs::symlink;

use super::kills::Moments;
use super::*;

/// Makes directories with all commands that write checksums: finished, stopped and failed.
fn made(desk: &Desk) -> Vec<&'static str> {
    for of_others in [&reproduce::Miniature::get().desk, &survey::Made::get().desk] {
        desk.copy(&of_others.folder);
    }
    desk.write("corpus.txt", "the cat sat on the mat, and the dog sat on the cat. ".repeat(60));
    desk.byte_model("model", |c| c.sizes.context = 32);
    desk.write_pairs("rte", "label", &["entailment", "not_entailment"], [8, 4]);
    let pretrain = "pretrain --corpus corpus.txt --tokenizer char --layers 1 --width 8 --heads 2 --context 8 --batch 4 --steps 20 \
                    --eval-every 5 --quiet";
    let finetune = "finetune --model model --task rte --data rte --batch 4 --epochs 2 --quiet";
    for line in [
        format!("{pretrain} --out run"),
        format!("{pretrain} --stop-at 10 --out stopped"),
        format!("{finetune} --out tuned"),
        format!("{finetune} --seeds 2 --out seeds"),
        format!("{finetune} --seeds 2 --stop-at 3 --out halted"),
        "tokenizer train --corpus corpus.txt --vocab 60 --mode spacy --out bpe".into(),
        "import --openai golden/openai-release --heads 2 --out imported --quiet".into(),
        "world --tasks tasks --rows 20 --seed 1".into(),
    ] {
        let run = desk.gradus(&line);
        assert_eq!(run.code, Some(0), "{line}: {}", run.stderr);
    }
    desk.gradus(&format!("{pretrain} --lr 1e30 --warmup 0.0 --clip 0 --out failed")).fails_with(&["kept in failed/anomaly"]);
    vec!["mini", "s", "run", "stopped", "failed", "tuned", "seeds", "halted", "bpe", "imported", "tasks"]
}

/// A directory, its files that have checksums or contain them, and the subfolders of these files.
struct Kept {
    top: &'static str,
    files: Vec<String>,
    folders: Vec<String>,
}

impl Kept {
    fn of(desk: &Desk, top: &'static str) -> Self {
        let report = desk.gradus(&format!("verify {top}")).printed().to_owned();
        let mut files: Vec<String> =
            report.lines().filter_map(|line| line.strip_prefix("as written")).map(|path| path.trim().to_owned()).collect();
        let mut folders: Vec<String> = files.iter().flat_map(|file| Path::new(file).ancestors().skip(1)).map(text).collect();
        folders.sort();
        folders.dedup();
        folders.retain(|folder| folder.len() > top.len());
        let sums = |folder: &str| format!("{folder}/checksums.json");
        files.extend(folders.iter().map(String::as_str).chain([top]).map(sums).filter(|file| desk.exists(file)));
        assert!(files.len() > 3, "{top}: {files:?}");
        Kept { top, files, folders }
    }
}

fn text(path: &Path) -> String {
    path.to_str().expect("Unicode").to_owned()
}

/// Moves a file or folder to `away`, and replaces it by a kind of damage. Returns a description of it.
fn replace(desk: &Desk, name: &str, kind: u64) -> &'static str {
    let (path, away) = (desk.path(name), desk.path("away"));
    fs::rename(&path, &away).unwrap();
    match kind {
        0 => "lost",
        1 => {
            symlink(&away, &path).unwrap();
            "replaced by a link to it"
        }
        2 => {
            symlink("nowhere", &path).unwrap();
            "replaced by a link to nothing"
        }
        _ if away.is_dir() => {
            fs::write(&path, "").unwrap();
            "replaced by a file"
        }
        _ => {
            fs::create_dir(&path).unwrap();
            "replaced by a folder"
        }
    }
}

fn put_back(desk: &Desk, name: &str) {
    let path = desk.path(name);
    if path.is_dir() && !path.is_symlink() {
        fs::remove_dir(&path).unwrap();
    } else if path.symlink_metadata().is_ok() {
        fs::remove_file(&path).unwrap();
    }
    fs::rename(desk.path("away"), path).unwrap();
}

/// Returns the number of bytes of a log that its checksum covers; `None` for other files, which are compared completely.
fn summed(desk: &Desk, name: &str) -> Option<u64> {
    let folder = name.strip_suffix("metrics.jsonl")?;
    desk.json(&format!("{folder}checksums.json"))["files"]["metrics.jsonl"]["bytes"].as_u64()
}

/// Flips, cuts or appends bytes that are compared. Returns a description of the change.
fn change(desk: &Desk, name: &str, draw: &mut Moments) -> &'static str {
    let (mut bytes, log) = (desk.read(name), summed(desk, name));
    let compared = log.unwrap_or(bytes.len() as u64);
    let what = match draw.draw(if log.is_some() { 2 } else { 3 }) {
        0 if compared > 0 => {
            bytes[draw.draw(compared) as usize] ^= 1 + draw.draw(255) as u8;
            "flipped"
        }
        1 if compared > 0 => {
            bytes.truncate(draw.draw(compared) as usize);
            "cut"
        }
        _ => {
            let more: Vec<u8> = bytes.iter().copied().chain([b'\n']).cycle().take(1 + draw.draw(100) as usize).collect();
            bytes.extend(more);
            "appended to"
        }
    };
    desk.write(name, bytes);
    what
}

#[test]
fn every_damage_is_named() {
    let damages: u64 = std::env::var("GRADUS_DAMAGES").map_or(60, |n| n.parse().expect("GRADUS_DAMAGES is a number"));
    let (mut draw, seed) = Moments::of_environment();
    let desk = Desk::new();
    let all: Vec<Kept> = made(&desk).into_iter().map(|top| Kept::of(&desk, top)).collect();
    let counts = all.iter().map(|kept| (kept.files.len(), kept.folders.len())).fold((0, 0), |a, b| (a.0 + b.0, a.1 + b.1));
    eprintln!("{} directories, {} files with sums, {} folders; GRADUS_SEED={seed}", all.len(), counts.0, counts.1);
    for n in 0..damages {
        let kept = &all[draw.draw(all.len() as u64) as usize];
        let target = draw.draw((kept.files.len() + kept.folders.len()) as u64) as usize;
        let (name, what, good) = match kept.files.get(target) {
            Some(name) if draw.draw(2) == 0 && summed(&desk, name) != Some(0) => {
                let good = desk.read(name);
                (name, change(&desk, name, &mut draw), Some(good))
            }
            Some(name) => (name, replace(&desk, name, draw.draw(4)), None),
            None => {
                let name = &kept.folders[target - kept.files.len()];
                (name, replace(&desk, name, draw.draw(4)), None)
            }
        };
        let found = desk.gradus(&format!("verify {}", kept.top));
        let message = format!("damage {n} (GRADUS_SEED={seed}): {name} {what}: {}", found.stderr);
        let nothing = format!("{}: expected files with checksums, found no checksums.json", kept.top);
        let is_named = found.stderr.contains(name) || name.ends_with("/checksums.json") && found.stderr.contains(&nothing);
        assert!(found.code == Some(1) && is_named, "{message}");
        match good {
            Some(good) => desk.write(name, good),
            None => put_back(&desk, name),
        }
    }
    all.iter().for_each(|kept| _ = desk.gradus(&format!("verify {} --json", kept.top)).json());
}
