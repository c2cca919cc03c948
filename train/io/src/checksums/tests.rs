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
fn a_group_is_written_with_its_sums_and_nothing_else() {
    let folder = folder();
    let at = folder.path();
    write(at, &[("a", b"one".to_vec()), ("b", b"".to_vec())]).unwrap();
    assert_eq!(names(at), ["a", "b", CHECKSUMS_FILE]);
    let found = sums(at);
    // `printf one | sha256sum`
    let known = "7692c3ad3540bb803c020b3aee66cd8887123234ea0c6e7143c0add73ff431ed";
    assert_eq!(found.files["a"].now, Sum { bytes: 3, sha256: known.into() });
    assert!(found.files.values().all(|entry| entry.before.is_empty()));
    assert!(found.check("a").unwrap() && !found.check("other").unwrap());
    assert_eq!(read(at, "a").unwrap(), b"one");
    write(at, &[("a", b"two".to_vec())]).unwrap();
    assert!(check(at, &["a", "b"]).unwrap());
    // A file that cannot be written leaves those before it as they were.
    let error = write(at, &[("a", b"three".to_vec()), ("none/b", vec![])]).unwrap_err();
    assert_eq!((error.action, error.cause.kind()), ("write", io::ErrorKind::NotFound), "{error}");
    assert_eq!((read(at, "a").unwrap(), names(at).len()), (b"two".to_vec(), 3));
}

#[test]
fn what_is_not_what_was_written_is_named() {
    let folder = folder();
    let at = folder.path();
    write(at, &[("a", b"one".to_vec()), ("log.jsonl", b"{}\n".to_vec())]).unwrap();
    let told = |name: &str| check(at, &[name]).unwrap_err().to_string();
    fs::write(at.join("a"), "onf").unwrap();
    assert!(told("a").contains("SHA-256 7692c3ad3540bb80… was written") && told("a").contains("--accept"), "{}", told("a"));
    fs::write(at.join("a"), "on").unwrap();
    assert!(told("a").contains("3 bytes were written, it has 2"), "{}", told("a"));
    fs::write(at.join("a"), "one more").unwrap();
    assert!(told("a").contains("3 bytes were written, it has 8"), "{}", told("a"));
    fs::remove_file(at.join("a")).unwrap();
    assert!(told("a").contains("missing, though it was written"), "{}", told("a"));
    assert!(!check(at, &["a"]).unwrap_err().is_of_sums());
    fs::create_dir(at.join("a")).unwrap();
    assert!(told("a").starts_with("cannot read "), "{}", told("a"));
    fs::remove_dir(at.join("a")).unwrap();
    assert!(read(at, "a").is_err());
    // A log may grow, and no more.
    fs::write(at.join("log.jsonl"), "{}\n{}\n").unwrap();
    assert!(check(at, &["log.jsonl"]).unwrap());
    fs::write(at.join("log.jsonl"), "{ \n{}\n").unwrap();
    assert!(told("log.jsonl").contains("damaged"));
    // Without sums nothing is said; with some that cannot be read it is.
    fs::remove_file(at.join(CHECKSUMS_FILE)).unwrap();
    assert!(!check(at, &["a", "log.jsonl"]).unwrap());
    fs::create_dir(at.join(CHECKSUMS_FILE)).unwrap();
    let error = check(at, &["a"]).unwrap_err();
    assert!(error.is_of_sums() && error.to_string().starts_with("cannot read "), "{error}");
}

#[test]
fn what_is_read_again_is_kept_wherever_its_sum_stands() {
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
    let told = check_listed(&at, "task/notes.md").unwrap_err().to_string();
    assert!(told.contains("its sum, with which it was written, is not in checksums.json"), "{told}");
}

/// Whatever a crash left of a group, each file has one of its sums, and the next group settles them.
#[test]
fn between_two_states_either_is_right() {
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
        assert_eq!(settled.files["a"].now, Sum::of(a.as_bytes()));
        assert_eq!(settled.files.contains_key("b"), b.is_some());
        assert!(settled.files.values().all(|entry| entry.before.is_empty()));
    }
    // One that was there before is not lost by a crash.
    half.store().unwrap();
    fs::remove_file(at.join("a")).unwrap();
    write(at, &[("c", vec![])]).unwrap();
    assert!(check(at, &["a"]).unwrap_err().to_string().contains("missing"));
    // What is neither is damaged, before and after.
    half.store().unwrap();
    fs::write(at.join("a"), "odd").unwrap();
    assert!(check(at, &["a"]).is_err());
    write(at, &[("c", vec![])]).unwrap();
    assert!(check(at, &["a"]).is_err());
}

#[test]
fn the_file_before_is_kept() {
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
fn a_log_is_listed_with_as_much_as_was_written() {
    let folder = folder();
    let at = folder.path();
    fs::write(at.join("log.jsonl"), "{}\n{").unwrap();
    let mut group = Group::of(at);
    group.add("a", b"one").unwrap();
    group.log("log.jsonl", Sum::of(b"{}\n"));
    group.commit().unwrap();
    assert_eq!(sums(at).files["log.jsonl"].now, Sum::of(b"{}\n"));
    assert!(check(at, &["log.jsonl"]).unwrap());
}

#[test]
fn pages_are_not_taken_but_where_they_are_listed() {
    let folder = folder();
    let at = folder.path();
    for name in ["a", "report.html", "loss.svg"] {
        fs::write(at.join(name), name).unwrap();
    }
    accept(at).unwrap();
    assert_eq!(sums(at).files.keys().collect::<Vec<_>>(), ["a"]);
    // A page that is listed stays so.
    write(at, &[("report.html", b"x".to_vec())]).unwrap();
    fs::write(at.join("report.html"), "y").unwrap();
    accept(at).unwrap();
    assert_eq!(sums(at).files.keys().collect::<Vec<_>>(), ["a", "report.html"]);
    assert!(check(at, &["report.html"]).unwrap());
}

#[test]
fn a_first_group_that_was_cut_off_is_undone_and_no_other() {
    let folder = folder();
    let at = folder.path();
    let mut first = Checksums { folder: at.to_owned(), files: BTreeMap::new() };
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
fn damaged_sums_are_not_believed() {
    let folder = folder();
    let at = folder.path();
    write(at, &[("a", b"one".to_vec())]).unwrap();
    let good = fs::read(at.join(CHECKSUMS_FILE)).unwrap();
    for i in (0..good.len()).step_by(7) {
        let mut bad = good.clone();
        bad[i] ^= 2;
        match Checksums::parse(at, &bad) {
            Ok(found) => assert_eq!(found.files["a"].now, Sum::of(b"one"), "byte {i}: white space"),
            Err(problem) => assert!(!problem.is_empty()),
        }
    }
    for outside in ["../a", "/a", "", "a/../../b", "./a"] {
        let files = BTreeMap::from([(outside.to_owned(), Entry { now: Sum::of(b""), before: vec![] })]);
        let text = serde_json::to_vec(&Stored::of(files)).unwrap();
        assert!(Checksums::parse(at, &text).unwrap_err().contains("outside"), "{outside:?}");
    }
}

#[test]
fn a_folder_is_verified_and_accepted_with_those_below() {
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
fn neither_links_nor_what_is_unfinished_is_verified() {
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
