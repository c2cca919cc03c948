use std::fs;

use super::*;

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

fn sums(folder: &Path) -> Checksums {
    Checksums::of(folder).unwrap().unwrap()
}

fn names(folder: &Path) -> Vec<String> {
    let name = |path: PathBuf| path.file_name().unwrap().to_string_lossy().into_owned();
    disk::list(folder).unwrap().into_iter().map(name).collect()
}

#[test]
fn a_group_of_files_is_written_with_its_checksums() {
    let folder = folder();
    let at = folder.path();
    write(at, &[("a", b"one".to_vec()), ("b", b"".to_vec())]).unwrap();
    assert_eq!(names(at), ["a", "b", CHECKSUMS_FILE]);
    let found = sums(at);
    // `printf one | sha256sum`
    let known = "7692c3ad3540bb803c020b3aee66cd8887123234ea0c6e7143c0add73ff431ed";
    assert_eq!(found.listed.files["a"].now, Sum { bytes: 3, sha256: known.into() });
    assert!(found.listed.files.values().all(|entry| entry.before.is_empty()));
    assert!(found.check("a").unwrap() && !found.check("other").unwrap());
    assert_eq!(read(at, "a").unwrap(), b"one");
    write(at, &[("a", b"two".to_vec())]).unwrap();
    assert!(check(at, &["a", "b"]).unwrap());
    // If a file cannot be written, the files before it are unchanged.
    let error = write(at, &[("a", b"three".to_vec()), ("none/b", vec![])]).unwrap_err();
    assert_eq!((error.action, error.cause.kind()), ("write", io::ErrorKind::NotFound), "{error}");
    assert_eq!((read(at, "a").unwrap(), names(at).len()), (b"two".to_vec(), 3));
}

#[test]
fn files_that_differ_from_their_checksums_are_reported() {
    let folder = folder();
    let at = folder.path();
    write(at, &[("a", b"one".to_vec()), ("metrics.jsonl", b"{}\n".to_vec())]).unwrap();
    let message = |name: &str| check(at, &[name]).unwrap_err().to_string();
    fs::write(at.join("a"), "onf").unwrap();
    assert!(
        message("a").contains("SHA-256 7692c3ad3540bb80… was written") && message("a").contains("--accept"),
        "{}",
        message("a")
    );
    fs::write(at.join("a"), "on").unwrap();
    assert!(message("a").contains("3 bytes were written, it has 2"), "{}", message("a"));
    fs::write(at.join("a"), "one more").unwrap();
    assert!(message("a").contains("3 bytes were written, it has 8"), "{}", message("a"));
    fs::remove_file(at.join("a")).unwrap();
    assert!(message("a").contains("missing, though it was written"), "{}", message("a"));
    assert!(!check(at, &["a"]).unwrap_err().is_of_sums());
    fs::create_dir(at.join("a")).unwrap();
    assert!(message("a").starts_with("cannot read "), "{}", message("a"));
    fs::remove_dir(at.join("a")).unwrap();
    assert!(read(at, "a").is_err());
    // Only the log may grow, and its first bytes may not change.
    fs::write(at.join("metrics.jsonl"), "{}\n{}\n").unwrap();
    assert!(check(at, &["metrics.jsonl"]).unwrap());
    fs::write(at.join("metrics.jsonl"), "{ \n{}\n").unwrap();
    assert!(message("metrics.jsonl").contains("damaged"));
    write(at, &[("test.jsonl", b"{}\n".to_vec())]).unwrap();
    fs::write(at.join("test.jsonl"), "{}\n{}\n").unwrap();
    assert!(message("test.jsonl").contains("3 bytes were written, it has 6"), "{}", message("test.jsonl"));
    // Missing sums are no error; unreadable sums are.
    fs::remove_file(at.join(CHECKSUMS_FILE)).unwrap();
    assert!(!check(at, &["a", "metrics.jsonl"]).unwrap());
    fs::create_dir(at.join(CHECKSUMS_FILE)).unwrap();
    let error = check(at, &["a"]).unwrap_err();
    assert!(error.is_of_sums() && error.to_string().starts_with("cannot read "), "{error}");
}

#[test]
fn a_file_is_covered_by_checksums_of_any_folder_above() {
    let folder = folder();
    let at = folder.path().join("world");
    replace_directory(&at, |fresh| {
        fs::create_dir(fresh.join("task")).unwrap();
        fs::write(fresh.join("task/train.tsv"), "rows").map_err(|cause| FileError::new("write", fresh, cause))
    })
    .unwrap();
    fs::write(at.join("task/notes.md"), "mine").unwrap();
    let kept = |name: &str| is_kept(&at.join(name)).unwrap();
    assert!(kept("task/train.tsv") && kept(CHECKSUMS_FILE));
    assert!(!kept("task/notes.md") && !kept("task/none") && !is_kept(folder.path()).unwrap());
    check_listed(&at, "task/train.tsv").unwrap();
    let error = check_listed(&at, "task/notes.md").unwrap_err().to_string();
    assert!(error.contains("its checksum is missing from checksums.json"), "{error}");
}

/// After a crash at any point of a group, each file has one of its listed sums, and the next group resolves them.
#[test]
fn after_a_crash_either_state_of_a_file_is_valid() {
    let folder = folder();
    let at = folder.path();
    write(at, &[("a", b"old".to_vec())]).unwrap();
    let mut half = sums(at);
    half.announce("a", Sum::of(b"new")).unwrap();
    half.announce("b", Sum::of(b"first")).unwrap();
    half.store().unwrap();
    for (a, b) in [("old", None), ("new", None), ("new", Some("first")), ("old", Some("first"))] {
        half.store().unwrap();
        fs::write(at.join("a"), a).unwrap();
        let _ = fs::remove_file(at.join("b"));
        if let Some(b) = b {
            fs::write(at.join("b"), b).unwrap();
        }
        assert!(check(at, &["a", "b"]).unwrap(), "{a}, {b:?}");
        write(at, &[("c", vec![])]).unwrap();
        let settled = sums(at);
        assert_eq!(settled.listed.files["a"].now, Sum::of(a.as_bytes()));
        assert_eq!(settled.listed.files.contains_key("b"), b.is_some());
        assert!(settled.listed.files.values().all(|entry| entry.before.is_empty()));
    }
    // A crash does not lose a file that existed before.
    half.store().unwrap();
    fs::remove_file(at.join("a")).unwrap();
    write(at, &[("c", vec![])]).unwrap();
    assert!(check(at, &["a"]).unwrap_err().to_string().contains("missing"));
    // A file with neither sum is damaged, before and after.
    half.store().unwrap();
    fs::write(at.join("a"), "odd").unwrap();
    assert!(check(at, &["a"]).is_err());
    write(at, &[("c", vec![])]).unwrap();
    assert!(check(at, &["a"]).is_err());
}

#[test]
fn the_previous_file_is_kept() {
    let folder = folder();
    let at = folder.path();
    for content in [b"1", b"2", b"3"] {
        let mut group = Group::of(at);
        group.keep("state", "previous");
        group.add("state", content).unwrap();
        group.commit().unwrap();
        assert!(check(at, &["state", "previous"]).unwrap());
    }
    assert_eq!((read(at, "state").unwrap(), read(at, "previous").unwrap()), (b"3".to_vec(), b"2".to_vec()));
    remove(at, &["state", "previous", "never"]).unwrap();
    assert_eq!(names(at), [CHECKSUMS_FILE]);
    assert!(check(at, &["state"]).unwrap(), "no longer listed");
}

#[test]
fn a_log_is_listed_with_the_length_written_so_far() {
    let folder = folder();
    let at = folder.path();
    fs::write(at.join("metrics.jsonl"), "{}\n{").unwrap();
    let mut group = Group::of(at);
    group.add("a", b"one").unwrap();
    group.log(Sum::of(b"{}\n"));
    group.commit().unwrap();
    assert_eq!(sums(at).listed.files["metrics.jsonl"].now, Sum::of(b"{}\n"));
    assert!(check(at, &["metrics.jsonl"]).unwrap());
}

#[test]
fn pages_are_accepted_only_if_already_listed() {
    let folder = folder();
    let at = folder.path();
    for name in ["a", "report.html", "loss.svg"] {
        fs::write(at.join(name), name).unwrap();
    }
    accept(at).unwrap();
    assert_eq!(sums(at).listed.files.keys().collect::<Vec<_>>(), ["a"]);
    // A listed page stays listed.
    write(at, &[("report.html", b"x".to_vec())]).unwrap();
    fs::write(at.join("report.html"), "y").unwrap();
    accept(at).unwrap();
    assert_eq!(sums(at).listed.files.keys().collect::<Vec<_>>(), ["a", "report.html"]);
    assert!(check(at, &["report.html"]).unwrap());
}

#[test]
fn only_an_interrupted_first_group_is_undone() {
    let folder = folder();
    let at = folder.path();
    let mut first = Checksums::none(at);
    for name in ["a", "b"] {
        first.announce(name, Sum::of(b"x")).unwrap();
    }
    first.store().unwrap();
    fs::write(at.join("a"), "x").unwrap();
    fs::write(at.join("mine"), "x").unwrap();
    undo_first(at).unwrap();
    assert_eq!(names(at), ["mine"]);
    write(at, &[("a", b"x".to_vec())]).unwrap();
    undo_first(at).unwrap();
    assert_eq!(names(at), ["a", CHECKSUMS_FILE, "mine"], "it was not cut off");
}

#[test]
fn damaged_checksum_files_are_rejected() {
    let folder = folder();
    let at = folder.path();
    write(at, &[("a", b"one".to_vec())]).unwrap();
    let good = fs::read(at.join(CHECKSUMS_FILE)).unwrap();
    for i in 0..good.len() {
        for bit in 0..8 {
            let mut bad = good.clone();
            bad[i] ^= 1 << bit;
            assert!(Checksums::parse(at, &bad).is_err(), "bit {bit} of byte {i}");
        }
    }
    for bad in [&good[..good.len() - 1], &[&good[..], b"\n"].concat(), &[b" ", &good[..]].concat()] {
        assert!(Checksums::parse(at, bad).is_err(), "white space");
    }
    for outside in ["../a", "/a", "", "a/../../b", "./a"] {
        let mut listed = [(); 3].map(|()| Listed::default());
        listed[0].files.insert(outside.to_owned(), Entry { now: Sum::of(b""), before: vec![] });
        listed[1].folders.insert(outside.to_owned(), Digests::new());
        listed[2].links.insert(outside.to_owned());
        for listed in listed {
            let text = json_text(&Stored::of(listed));
            assert!(Checksums::parse(at, &text).unwrap_err().contains("outside"), "{outside:?}");
        }
    }
}

#[test]
fn a_folder_is_verified_and_accepted_with_its_subfolders() {
    let folder = folder();
    let at = folder.path();
    write(at, &[("a", b"one".to_vec())]).unwrap();
    replace_directory(&at.join("best"), |fresh| -> Result<(), FileError> {
        fs::create_dir(fresh.join("deep")).unwrap();
        fs::write(fresh.join("deep/b"), "two").unwrap();
        Ok(())
    })
    .unwrap();
    fs::create_dir(at.join("plain")).unwrap();
    fs::write(at.join("plain/c"), "three").unwrap();
    let found = |at: &Path| -> Vec<(String, Option<bool>)> {
        let name = |v: &Verdict| v.path.strip_prefix(at).unwrap().to_string_lossy().into_owned();
        verify(at).unwrap().iter().map(|v| (name(v), v.found.as_ref().ok().copied())).collect()
    };
    let is = |name: &str, verdict| (name.to_owned(), verdict);
    assert_eq!(found(at), [is("a", Some(true)), is("plain/c", Some(false)), is("best/deep/b", Some(true))]);
    assert!(check_within(&at.join("best"), "deep").unwrap());
    fs::write(at.join("best/deep/b"), "twO").unwrap();
    assert_eq!(found(at)[2], is("best/deep/b", None));
    assert!(check_within(&at.join("best"), "deep").is_err() && check_within(&at.join("best"), "dee").unwrap());
    accept(&at.join("best")).unwrap();
    accept(at).unwrap();
    assert_eq!(found(at), [is("a", Some(true)), is("plain/c", Some(false)), is("best/deep/b", Some(true))]);
    fs::write(at.join(CHECKSUMS_FILE), "{").unwrap();
    assert_eq!(found(at)[0], is(CHECKSUMS_FILE, None));
}

#[cfg(unix)]
#[test]
fn links_and_unfinished_files_are_not_verified() {
    let (folder, other) = (folder(), folder());
    let at = folder.path();
    write(at, &[("a", b"one".to_vec())]).unwrap();
    write(other.path(), &[("b", b"two".to_vec())]).unwrap();
    std::os::unix::fs::symlink(other.path(), at.join("link")).unwrap();
    fs::create_dir(at.join(".best.tmp-7")).unwrap();
    write(&at.join(".best.tmp-7"), &[("c", b"three".to_vec())]).unwrap();
    let verified: Vec<PathBuf> = verify(at).unwrap().into_iter().map(|verdict| verdict.path).collect();
    assert_eq!(verified, [at.join("a")]);
}

fn replace(folder: &Path, content: &[u8]) {
    replace_within(folder, "best", &[("model", content.to_vec())]).unwrap();
}

fn faults(folder: &Path) -> Vec<String> {
    verify(folder).unwrap().into_iter().filter_map(|verdict| verdict.found.err()).map(|error| error.to_string()).collect()
}

#[test]
fn a_listed_folder_must_exist() {
    let (folder, other) = (folder(), folder());
    let [at, beside] = [folder.path(), other.path()];
    write(at, &[("a", b"one".to_vec())]).unwrap();
    write(&at.join("best"), &[]).unwrap_err(); // the folder does not exist
    replace(at, b"1");
    write(beside, &[("a", b"one".to_vec())]).unwrap();
    replace(beside, b"2");
    assert_eq!(faults(at), [""; 0]);
    let assert_reported = |words: &str| {
        let found = faults(at);
        assert!(found.len() == 1 && found[0].contains(words), "{words}: {found:?}");
        assert!(found[0].contains("put back a copy") && found[0].contains("--accept"), "{found:?}");
    };
    fs::rename(at.join("best"), at.join("away")).unwrap();
    assert_reported("best: this directory is missing, though it was written");
    assert_eq!(check_folder(at, "best").unwrap(), Some(Lost(at.join("best"))));
    fs::write(at.join("best"), "").unwrap();
    assert_reported("best: expected a directory, found a file");
    fs::remove_file(at.join("best")).unwrap();
    // An undamaged subfolder of another run.
    fs::rename(beside.join("best"), at.join("best")).unwrap();
    assert_reported("it belongs to another directory: SHA-256 ");
    assert!(check_folder(at, "best").is_err());
    accept(at).unwrap();
    assert_eq!(faults(at), [""; 0]);
    // A subfolder whose checksums are lost.
    fs::remove_file(at.join("best/checksums.json")).unwrap();
    assert_reported("best/checksums.json: it is missing, though it was written");
    let error = read(&at.join("best"), "model").unwrap_err();
    assert!(error.is_of_sums() && error.to_string().contains("states that checksums are kept"), "{error}");
    // Checksums that cannot be read are not missing.
    fs::create_dir(at.join("best/checksums.json")).unwrap();
    assert!(faults(at)[0].starts_with("cannot read"), "{:?}", faults(at));
    fs::remove_dir(at.join("best/checksums.json")).unwrap();
    accept(at).unwrap();
    assert_eq!((faults(at), read(&at.join("best"), "model").unwrap()), (vec![], b"2".to_vec()));
    fs::remove_dir_all(at.join("best")).unwrap();
    accept(at).unwrap();
    assert!(faults(at).is_empty() && check_folder(at, "best").unwrap().is_none(), "no longer expected");
}

/// The command that an error message names, `gradus verify FOLDER --accept`, suffices: it updates the checksums above, too.
#[test]
fn accepting_a_folder_updates_the_checksums_above() {
    let folder = folder();
    let at = folder.path();
    write(at, &[("a", b"one".to_vec())]).unwrap();
    let world = at.join("seed-1/world");
    replace_directory(&world, |fresh| {
        fs::create_dir(fresh.join("task")).unwrap();
        fs::write(fresh.join("task/rows"), "rows").map_err(|cause| FileError::new("write", fresh, cause))
    })
    .unwrap();
    assert_eq!(relist(at, |name| name == "seed-1/world").unwrap(), []);
    fs::write(world.join("task/rows"), "more rows").unwrap();
    let found = faults(at);
    assert!(found.len() == 1 && found[0].contains(&format!("gradus verify {} --accept", world.display())), "{found:?}");
    accept(&world).unwrap();
    assert_eq!(faults(at).len(), 1);
    accept_above(&world).unwrap();
    assert_eq!(faults(at), [""; 0]);
}

#[test]
fn missing_checksums_below_an_unlisted_folder_are_reported() {
    let folder = folder();
    let at = folder.path().join("runs/a");
    fs::create_dir_all(&at).unwrap();
    write(&at, &[("run.json", b"{\"checksums\": true}".to_vec()), ("model", b"1".to_vec())]).unwrap();
    assert_eq!(faults(folder.path()), [""; 0]);
    fs::write(at.join("model"), "2").unwrap();
    fs::remove_file(at.join(CHECKSUMS_FILE)).unwrap();
    let found = faults(folder.path());
    assert!(found.len() == 1 && found[0].contains("runs/a/checksums.json: it is missing, though"), "{found:?}");
    assert!(has_checksums(&at) && !has_checksums(folder.path()));
    accept(&at).unwrap();
    assert_eq!(faults(folder.path()), [""; 0]);
}

#[test]
fn a_study_lists_its_existing_folders() {
    let folder = folder();
    let at = folder.path();
    write(at, &[("plan.json", b"{}".to_vec())]).unwrap();
    for name in ["seed-1/gpt", "seed-1/results", ".old"] {
        fs::create_dir_all(at.join(name)).unwrap();
        write(&at.join(name), &[("x", name.into())]).unwrap();
    }
    let listed = || sums(at).listed.folders;
    relist(at, |name| name == "seed-1/gpt").unwrap();
    assert_eq!(listed().keys().collect::<Vec<_>>(), ["seed-1/gpt", "seed-1/results"]);
    assert_eq!((listed()["seed-1/gpt"].len(), listed()["seed-1/results"].len()), (1, 0));
    // A subfolder in progress may change; a finished one may not.
    write(&at.join("seed-1/results"), &[("y", vec![])]).unwrap();
    assert_eq!(faults(at), [""; 0]);
    write(&at.join("seed-1/gpt"), &[("y", vec![])]).unwrap();
    assert_eq!(faults(at).len(), 1);
    assert!(relist(at, |_| true).is_err());
    list(at, "seed-1/gpt", true).unwrap();
    fs::remove_dir_all(at.join("seed-1/results")).unwrap();
    assert_eq!(relist(at, |_| true).unwrap(), [Lost(at.join("seed-1/results"))]);
    assert_eq!((listed().len(), faults(at)), (1, vec![]));
    unlist(at, "seed-1/gpt").unwrap();
    assert!(listed().is_empty());
}

/// At every point of its replacement a subfolder is the old or the new one, and the list permits both.
#[test]
fn a_folder_and_the_list_above_are_replaced_consistently() {
    let [old, new] = [folder(), folder()];
    for (at, contents) in [(old.path(), &["1"][..]), (new.path(), &["1", "2"])] {
        write(at, &[("a", b"one".to_vec())]).unwrap();
        contents.iter().for_each(|content| replace(at, content.as_bytes()));
    }
    let first = folder();
    write(first.path(), &[("a", b"one".to_vec())]).unwrap();
    let digest_of = |folder: &tempfile::TempDir| sums(folder.path()).listed.folders["best"][0].clone();
    for (before, was) in [(&first, None), (&old, digest_of(&old))] {
        for renames in 0..4 {
            let there = folder();
            let at = there.path();
            let copy = |from: &Path, name: &str| {
                let (from, to) = (from.join("best"), at.join(name));
                fs::create_dir(&to).unwrap();
                for file in ["model", CHECKSUMS_FILE] {
                    fs::copy(from.join(file), to.join(file)).unwrap();
                }
            };
            write(at, &[("a", b"one".to_vec())]).unwrap();
            let mut both = sums(at);
            both.listed.folders.insert("best".into(), vec![digest_of(&new), was.clone()]);
            both.store().unwrap();
            // 0: nothing renamed; 1: the old folder set aside; 2: the new one in place; 3: the old one removed.
            match (renames, was.is_some()) {
                (0, true) => copy(before.path(), "best"),
                (1, true) => copy(before.path(), ".best.old"),
                (0 | 1, false) => {}
                (2, true) => {
                    copy(before.path(), ".best.old");
                    copy(new.path(), "best");
                }
                _ => copy(new.path(), "best"),
            }
            assert_eq!(faults(at), [""; 0], "{was:?}, {renames}");
            assert_eq!(check_folder(at, "best").unwrap(), None);
            crate::files::recover_directory(&at.join("best")).unwrap();
            write(at, &[("b", vec![])]).unwrap(); // settles it
            let expected = if renames < 2 { was.clone() } else { digest_of(&new) };
            let listed = sums(at).listed.folders.get("best").cloned();
            assert_eq!(listed, expected.map(|digest| vec![Some(digest)]), "{was:?}, {renames}");
            assert_eq!(faults(at), [""; 0], "{was:?}, {renames}");
        }
    }
}

#[cfg(unix)]
#[test]
fn a_link_to_the_checksums_of_a_folder_is_rejected() {
    let folder = folder();
    let at = folder.path();
    write(at, &[("a", b"one".to_vec())]).unwrap();
    replace(at, b"1");
    fs::rename(at.join("best/checksums.json"), at.join("elsewhere")).unwrap();
    std::os::unix::fs::symlink(at.join("elsewhere"), at.join("best/checksums.json")).unwrap();
    assert!(check_folder(at, "best").unwrap_err().to_string().contains("found a link"));
}

#[test]
fn each_part_of_the_list_is_covered_by_its_checksum() {
    let folder = folder();
    let mut sums = Checksums::none(folder.path());
    sums.listed.files.insert("file".into(), Entry { now: Sum::of(b"1"), before: Vec::new() });
    sums.listed.folders.insert("folder".into(), Digests::new());
    sums.listed.links.insert("link".into());
    sums.store().unwrap();
    let text = fs::read_to_string(folder.path().join(CHECKSUMS_FILE)).unwrap();
    assert!(Checksums::parse(folder.path(), text.as_bytes()).is_ok());
    for name in ["file", "folder", "link"] {
        let other = text.replace(&format!("\"{name}\""), "\"other\"");
        let error = Checksums::parse(folder.path(), other.as_bytes()).unwrap_err();
        assert!(error.contains("its own SHA-256"), "{name}: {error}");
    }
}

#[test]
fn a_missing_folder_stays_listed() {
    for digests in [vec![Some("1")], vec![Some("1"), Some("2")]] {
        let folder = folder();
        let at = folder.path();
        write(at, &[("a", b"one".to_vec())]).unwrap();
        let mut sums = sums(at);
        sums.listed.folders.insert("best".into(), digests.iter().map(|digest| digest.map(str::to_owned)).collect());
        sums.store().unwrap();
        write(at, &[("b", vec![])]).unwrap(); // settles it
        assert!(faults(at)[0].contains("best: this directory is missing"), "{:?}", faults(at));
    }
}

#[test]
fn a_folder_with_neither_of_two_listed_digests_stays_damaged() {
    let folder = folder();
    let at = folder.path();
    write(at, &[("a", b"one".to_vec())]).unwrap();
    replace(at, b"1");
    let mut sums = sums(at);
    sums.listed.folders.insert("best".into(), ["1", "2"].map(|digest| Some(digest.to_owned())).into());
    sums.store().unwrap();
    write(at, &[("b", vec![])]).unwrap(); // settles it
    assert!(faults(at)[0].contains("it belongs to another directory"), "{:?}", faults(at));
}

#[test]
fn missing_checksums_are_reported_if_the_settings_require_them() {
    let folder = folder();
    let at = folder.path();
    #[derive(Serialize)]
    struct Settings {
        steps: u64,
    }
    let settings = json_text(&Kept::with(Settings { steps: 3 }));
    assert_eq!(settings, b"{\n  \"format\": 1,\n  \"steps\": 3,\n  \"checksums\": true\n}\n");
    for name in ["run.json", "plan.json"] {
        write(at, &[(name, settings.clone())]).unwrap();
        fs::remove_file(at.join(CHECKSUMS_FILE)).unwrap();
        let error = read(at, name).unwrap_err().to_string();
        let remedy = format!("gradus verify {} --accept", at.display());
        assert!(error.contains("checksums.json: it is missing, though ") && error.contains(&remedy), "{error}");
        assert!(write(at, &[("a", vec![])]).is_err() && faults(at).len() == 1);
        accept(at).unwrap();
        assert_eq!(read(at, name).unwrap(), settings);
        fs::remove_file(at.join(CHECKSUMS_FILE)).unwrap();
        fs::write(at.join(name), b"{\"steps\": 3}").unwrap(); // the settings of another program
        assert!(!check(at, &[name]).unwrap());
    }
}

#[cfg(unix)]
#[test]
fn a_link_is_rejected_until_it_is_accepted() {
    use std::os::unix::fs::symlink;
    let (folder, other) = (folder(), folder());
    let (at, away) = (folder.path(), other.path());
    write(at, &[("a", b"one".to_vec())]).unwrap();
    replace(at, b"1");
    for name in ["a", "best", "best/model", "best/checksums.json", CHECKSUMS_FILE] {
        fs::rename(at.join(name), away.join("moved")).unwrap();
        symlink(away.join("moved"), at.join(name)).unwrap();
        let found = faults(at);
        assert!(
            found.len() == 1 && found[0].contains(&format!("{name}: expected what was written there, found a link")),
            "{found:?}"
        );
        let accepted = if name.starts_with("best/") { at.join("best") } else { at.to_owned() };
        accept(&accepted).unwrap();
        accept_above(&accepted).unwrap();
        assert_eq!(faults(at), [""; 0], "{name}");
        // The target of an accepted link is compared.
        if name == "a" {
            fs::write(away.join("moved"), "two").unwrap();
            assert!(faults(at)[0].contains("SHA-256"));
        }
        fs::remove_file(at.join(name)).unwrap();
        fs::rename(away.join("moved"), at.join(name)).unwrap();
        accept(at).unwrap();
    }
}
