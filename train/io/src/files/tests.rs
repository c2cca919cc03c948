use std::fs;

use super::*;
use crate::disk::tests::calls;

fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<_> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn copy_tree(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap().path();
        let target = to.join(entry.file_name().unwrap());
        if entry.is_dir() { copy_tree(&entry, &target) } else { fs::copy(&entry, &target).map(|_| ()).unwrap() }
    }
}

const FILES: [&str; 3] = ["config.json", "model.safetensors", "trainer.bin"];

/// Writes a checkpoint of three files with the same content.
fn save(folder: &Path, content: &str) -> Result<(), FileError> {
    for file in FILES {
        write_atomically(&folder.join(file), |out| out.write_all(content.as_bytes()))?;
    }
    Ok(())
}

/// Returns the content of a complete checkpoint; panics if it is incomplete or mixed.
fn load(folder: &Path) -> String {
    let contents = FILES.map(|file| fs::read_to_string(folder.join(file)).unwrap());
    assert!(contents.iter().all(|content| *content == contents[0]), "mixed checkpoint: {contents:?}");
    contents[0].clone()
}

#[test]
fn a_file_is_replaced_whole_and_a_full_disk_leaves_the_old_one() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.safetensors");
    for content in ["first", "second, which is longer", "old"] {
        write_atomically(&path, |out| out.write_all(content.as_bytes())).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), content);
    }
    let error = write_atomically(&path, |out| {
        out.write_all(&vec![1; 1 << 20])?;
        Err(io::ErrorKind::StorageFull.into())
    })
    .unwrap_err();
    assert_eq!(fs::read_to_string(&path).unwrap(), "old");
    assert_eq!(names(folder.path()), ["model.safetensors"]);
    let message = error.to_string();
    assert!(message.starts_with(&format!("cannot write {}: ", path.display())), "{message}");
    assert!(message.contains("; free some space there"), "{message}");
}

#[test]
fn errors_name_the_path_and_the_remedy() {
    let folder = tempfile::tempdir().unwrap();
    let message = |path: &Path| write_atomically(path, |out| out.write_all(b"x")).unwrap_err().to_string();
    let assert_message = |path: &Path, remedy: &str| {
        let message = message(path);
        assert!(message.starts_with(&format!("cannot write {}: ", path.display())) && message.contains(remedy), "{message}");
    };
    assert_message(&folder.path().join("no/such/file"), "folders above it exist");
    assert_message(folder.path(), "name a file");
    assert_message(Path::new(".."), "plain name");

    let file = folder.path().join("plain");
    fs::write(&file, "mine").unwrap();
    let error = replace_directory(&file, |fresh| save(fresh, "new")).unwrap_err().to_string();
    assert!(error.contains("where a folder is needed"), "{error}");
    assert_eq!(fs::read_to_string(&file).unwrap(), "mine");
}

#[test]
fn a_directory_is_replaced_with_all_that_is_in_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("runs/best");
    replace_directory(&path, |fresh| save(fresh, "first")).unwrap();
    fs::write(path.join("vocab.json"), "of the first").unwrap();
    replace_directory(&path, |fresh| save(fresh, "second")).unwrap();
    assert_eq!(load(&path), "second");
    assert_eq!(names(&path), FILES);
    assert_eq!(names(path.parent().unwrap()), ["best"]);
}

#[test]
fn a_failing_save_leaves_the_old_directory_and_no_other() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("last");
    replace_directory(&path, |fresh| save(fresh, "old")).unwrap();
    let error = replace_directory(&path, |fresh| {
        fs::write(fresh.join(FILES[0]), "new").unwrap();
        Err(FileError::new("write", fresh, io::ErrorKind::StorageFull.into()))
    })
    .unwrap_err();
    assert!(error.to_string().contains("free some space"));
    assert_eq!(load(&path), "old");
    assert_eq!(names(folder.path()), ["last"]);
}

/// Copies the disk at each point where a crash would leave a new state. From every copy, a reader and a writer must find a
/// complete checkpoint, and the next save must succeed without leftovers.
#[test]
fn every_crash_leaves_a_complete_checkpoint() {
    for replaces in [false, true] {
        let (disk, copies) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let path = disk.path().join("last");
        if replaces {
            replace_directory(&path, |fresh| save(fresh, "old")).unwrap();
        }
        let taken = std::cell::Cell::new(0);
        let copy = || {
            copy_tree(disk.path(), &copies.path().join(taken.get().to_string()));
            taken.set(taken.get() + 1);
        };
        let fill = |fresh: &Path| -> Result<(), FileError> {
            copy();
            for file in FILES {
                fs::write(fresh.join(file), "new").unwrap();
                copy();
            }
            Ok(())
        };
        replace_observed(&path, fill, &mut || copy()).unwrap();
        copy();

        let (mut seen, mut restored) = (Vec::new(), 0);
        for crash in 0..taken.get() {
            let path = copies.path().join(crash.to_string()).join("last");
            let found = resolve_directory(&path).unwrap();
            let reader = found.exists().then(|| load(&found));
            restored += usize::from(recover_directory(&path).unwrap());
            assert_eq!(path.exists().then(|| load(&path)), reader, "crash {crash}");
            seen.push(reader.unwrap_or_else(|| "none".into()));
            replace_directory(&path, |fresh| save(fresh, "next")).unwrap();
            assert_eq!(load(&path), "next");
            assert_eq!(names(path.parent().unwrap()), ["last"], "crash {crash}");
        }
        // Up to some point, the content is the old one (or none); after it, the new one.
        let before = if replaces { "old" } else { "none" };
        let turn = seen.iter().position(|content| content == "new").unwrap();
        assert!(seen[..turn].iter().all(|content| content == before), "{seen:?}");
        assert!(seen[turn..].iter().all(|content| content == "new"), "{seen:?}");
        assert_eq!(restored, usize::from(replaces), "the instant between the renames is among the copies");
    }
}

#[test]
fn every_cause_of_a_file_error_has_a_remedy() {
    use io::ErrorKind as Kind;
    let advice = |action: &'static str, kind: Kind| {
        let message = FileError::new(action, Path::new("runs/my run/log"), kind.into()).to_string();
        let begins = format!("cannot {action} runs/my run/log: {}; ", io::Error::from(kind));
        message.strip_prefix(&begins).unwrap_or_else(|| panic!("{message}")).to_owned()
    };
    for (kind, remedy) in [
        (Kind::FileTooLarge, "ulimit -f"),
        (Kind::StorageFull, "free some space"),
        (Kind::QuotaExceeded, "free some space"),
        (Kind::InvalidData, "it is damaged or of another format"),
        (Kind::OutOfMemory, "more memory"),
        (Kind::PermissionDenied, "check the write permission"),
        (Kind::ReadOnlyFilesystem, "check the write permission"),
        (Kind::ResourceBusy, "another gradus process is using the folder"),
        (Kind::NotFound, "check the spelling"),
        (Kind::IsADirectory, "name a file"),
        (Kind::NotADirectory, "where a folder is needed"),
        (Kind::AlreadyExists, "a file has that name: name another path"),
        (Kind::InvalidInput, "a plain name"),
        (Kind::Other, "check the path and its disk"),
    ] {
        assert!(advice("write", kind).contains(remedy), "{}", advice("write", kind));
    }
    for action in ["read", "list"] {
        assert_eq!(advice(action, Kind::PermissionDenied), "check its read permission");
    }
    assert!(advice("read", Kind::ReadOnlyFilesystem).contains("check the write permission"));
    for kind in [Kind::PermissionDenied, Kind::ReadOnlyFilesystem] {
        assert!(advice("make the cache", kind).ends_with("with --cache"));
    }
    assert!(advice("make the cache", Kind::StorageFull).contains("free some space"));
    let ours = io::Error::new(Kind::InvalidInput, "expected a plain file");
    let ours = FileError::new("lock", Path::new("run/x"), ours).to_string();
    assert_eq!(ours, "cannot lock run/x: expected a plain file; replace the existing file or folder by it, or name another path");
    // A file that differs from what was written can be accepted; a file that cannot be read cannot.
    let damaged = FileError::damaged(Path::new("runs/my run/log"), "it has 2 bytes".into()).to_string();
    assert!(damaged.starts_with("cannot trust runs/my run/log: it has 2 bytes; "), "{damaged}");
    assert!(damaged.ends_with("`gradus verify 'runs/my run' --accept`"), "{damaged}");
    assert!(!advice(TRUST, Kind::NotFound).contains("--accept"));
}

#[test]
fn a_word_is_quoted_where_a_shell_needs_it() {
    for plain in ["a-b_c.d/e=f:g,h+i@j%k", "naïve", "9"] {
        assert_eq!(quoted(plain), plain);
    }
    for (word, wanted) in [("", "''"), ("two words", "'two words'"), ("it's", r"'it'\''s'"), ("$HOME", "'$HOME'")] {
        assert_eq!(quoted(word), wanted);
    }
}

#[test]
fn json_is_indented_and_ends_with_a_newline() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.json");
    let wanted = "{\n  \"a\": 1\n}\n";
    let value = std::collections::BTreeMap::from([("a", 1)]);
    write_json(&path, &value).unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), wanted);
    assert_eq!(json_text(&value), wanted.as_bytes());
}

#[test]
fn a_file_is_written_despite_leftovers_of_killed_processes() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log");
    // Leftovers of a process with the same process id.
    for n in 0..1000 {
        fs::write(folder.path().join(format!(".log.tmp-{}-{n}", process::id())), "half").unwrap();
    }
    write_atomically(&path, |out| out.write_all(b"whole")).unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), "whole");
    assert_eq!(names(folder.path()).len(), 1001);
    remove_unfinished(folder.path(), Some("log".as_ref())).unwrap();
    assert_eq!(names(folder.path()), ["log"]);
}

#[cfg(unix)]
#[test]
fn a_pipe_is_not_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("pipe");
    assert!(process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let error = write_atomically(&pipe, |_| Ok(())).unwrap_err();
    assert_eq!(error.cause.kind(), io::ErrorKind::InvalidInput);
    assert!(error.to_string().contains("found a device, pipe or socket"), "{error}");
    assert_eq!(names(folder.path()), ["pipe"]);
}

#[test]
fn unfinished_files_are_recognized_by_name() {
    for name in [".log.tmp-1", ".log.tmp-12-3", ".a.b.tmp-4"] {
        assert!(is_unfinished(&Path::new("of/a").join(name), None), "{name}");
    }
    for name in ["log.tmp-1", ".log.tmp-", ".log.tmp-1x", ".log.tmp1", ".log.old", "log", ".tmp-1"] {
        assert!(!is_unfinished(&Path::new("of/a").join(name), None), "{name}");
    }
    assert!(is_unfinished(Path::new(".log.tmp-1"), Some("log".as_ref())));
    assert!(!is_unfinished(Path::new(".log.tmp-1"), Some("lo".as_ref())));
    assert!(!is_unfinished(Path::new(".."), None));
}

#[cfg(unix)]
#[test]
fn unfinished_files_are_removed_unless_locked() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let held = Output::create(&at(".a.tmp-1-0")).unwrap();
    assert!(held.lock());
    fs::write(at(".a.tmp-1-1"), "").unwrap();
    fs::write(at(".b.tmp-1-2"), "").unwrap();
    fs::write(at("mine"), "").unwrap();
    fs::create_dir(at(".a.tmp-2")).unwrap();
    fs::write(at(".a.tmp-2/x"), "").unwrap();
    std::os::unix::fs::symlink(at("mine"), at(".a.tmp-3")).unwrap();
    remove_unfinished(folder.path(), Some("a".as_ref())).unwrap();
    assert_eq!(names(folder.path()), [".a.tmp-1-0", ".b.tmp-1-2", "mine"]);
    drop(held);
    remove_unfinished(folder.path(), None).unwrap();
    assert_eq!(names(folder.path()), ["mine"]);
    remove_unfinished(&at("none"), None).unwrap();
    // If a removal fails, the error states the path.
    fs::write(at(".a.tmp-1"), "").unwrap();
    let (_, result) = calls(folder.path(), "remove", || remove_unfinished(folder.path(), None));
    assert_eq!(result.unwrap_err().path, at(".a.tmp-1"));
}

#[test]
fn a_folder_with_only_locks_and_leftovers_counts_as_empty() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let nothing = || assert_eq!(occupant(folder.path()), None);
    nothing();
    fs::write(at(LOCK), "").unwrap();
    fs::write(at(".log.tmp-1-0"), "").unwrap();
    nothing();
    fs::write(at("log"), "").unwrap();
    assert_eq!(occupant(folder.path()), Some(at("log")));
    assert_eq!((occupant(&at("none")), occupant(&at("log"))), (None, None));
    // A folder that cannot be listed counts as occupied.
    fs::remove_file(at("log")).unwrap();
    let (_, found) = calls(folder.path(), "list", || occupant(folder.path()));
    assert_eq!(found.as_deref(), Some(folder.path()));
}

#[test]
fn a_folder_is_locked_by_one_process() {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("runs/a");
    let lock = Lock::take(&run).unwrap();
    assert_eq!(names(&run), [LOCK]);
    let error = Lock::take(&run).unwrap_err();
    assert!(error.to_string().contains("another gradus process is using the folder"), "{error}");
    drop(lock);
    assert!(!run.exists(), "it was made here and is empty");
    let lock = Lock::take(&run).unwrap();
    fs::write(run.join("log"), "").unwrap();
    drop(lock);
    assert_eq!(names(&run), ["log"]);
    fs::remove_file(run.join("log")).unwrap();
    drop(Lock::take(&run).unwrap());
    assert_eq!(names(&run), [] as [&str; 0], "it was there before");
}

#[cfg(unix)]
#[test]
fn an_own_folder_must_not_be_a_link() {
    let folder = tempfile::tempdir().unwrap();
    let (own, link) = (folder.path().join("own/deep"), folder.path().join("link"));
    make_own_folder(&own).unwrap();
    make_own_folder(&own).unwrap();
    assert!(own.is_dir());
    std::os::unix::fs::symlink(&own, &link).unwrap();
    assert!(make_own_folder(&link).unwrap_err().to_string().contains("found a link"));
}

/// The calls in the diagram of the module documentation.
#[test]
fn files_and_folders_are_renamed_only_after_they_are_synced() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let plain = |calls: Vec<String>| -> Vec<String> {
        let number = format!("tmp-{}", process::id());
        let short = |word: &str| match word.split_once(&number) {
            Some((before, after)) => format!("{before}tmp{}", after.trim_start_matches(|c: char| c == '-' || c.is_ascii_digit())),
            None => word.to_owned(),
        };
        calls.iter().map(|call| call.split(' ').map(short).collect::<Vec<_>>().join(" ")).collect()
    };
    let (observed, result) = calls(at, "", || write_atomically(&at.join("log"), |out| out.write_all(b"new")));
    result.unwrap();
    assert_eq!(
        plain(observed),
        ["create .log.tmp", "write .log.tmp 3", "sync .log.tmp", "rename .log.tmp -> log", "sync folder"]
    );

    let fill = |fresh: &Path| -> Result<(), FileError> {
        fs::create_dir(fresh.join("in")).unwrap();
        fs::write(fresh.join("in/a"), "").unwrap();
        Ok(())
    };
    let run = || calls(at, "", || replace_directory(&at.join("d"), fill));
    let looks = |call: &String| !call.starts_with("list");
    let first = plain(run().0).into_iter().filter(looks).collect::<Vec<_>>();
    let made = ["make folder .d.tmp", "sync .d.tmp/in/a", "sync folder .d.tmp/in", "sync folder .d.tmp"];
    assert_eq!(first, [&made[..], &["rename .d.tmp -> d", "sync folder"]].concat());
    let again = plain(run().0).into_iter().filter(looks).collect::<Vec<_>>();
    let replaced = ["rename d -> .d.old", "rename .d.tmp -> d", "sync folder", "rename .d.old -> .d.tmp", "remove folder .d.tmp"];
    assert_eq!(again, [&made[..], &replaced].concat());
}

#[test]
fn a_folder_that_cannot_be_renamed_leaves_the_old_one() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("last");
    let write = |refused| calls(folder.path(), refused, || replace_directory(&path, |fresh| save(fresh, "new"))).1;
    let fresh = format!("rename .last.tmp-{} ->", process::id()).leak() as &'static str;
    assert_eq!(write(fresh).unwrap_err().action, "put in place");
    assert_eq!(names(folder.path()), [] as [&str; 0]);
    replace_directory(&path, |fresh| save(fresh, "old")).unwrap();
    for (refused, action) in
        [("rename last", "set aside"), (fresh, "put in place"), ("make folder", "create a fresh folder beside")]
    {
        assert_eq!(write(refused).unwrap_err().action, action);
        assert_eq!((load(&path), names(folder.path())), ("old".to_owned(), vec!["last".to_owned()]));
    }
}

#[cfg(unix)]
#[test]
fn a_link_to_an_old_folder_is_removed_without_its_target() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    save_at(&at("last"));
    save_at(&at("theirs"));
    std::os::unix::fs::symlink(at("theirs"), at(".last.old")).unwrap();
    assert!(!recover_directory(&at("last")).unwrap());
    assert_eq!((names(folder.path()), load(&at("theirs"))), (vec!["last".into(), "theirs".into()], "saved".into()));
    save_at(&at(".last.old"));
    assert!(!recover_directory(&at("last")).unwrap());
    assert_eq!(names(folder.path()), ["last", "theirs"]);
}

#[cfg(unix)]
fn save_at(folder: &Path) {
    fs::create_dir(folder).unwrap();
    save(folder, "saved").unwrap();
}
