use std::sync::Mutex;

use super::*;

/// A watcher that records the calls below a folder, and makes those that begin with `refused` fail.
struct Notes {
    folder: PathBuf,
    refused: &'static str,
    calls: Mutex<Vec<String>>,
}

impl Notes {
    /// Describes a call, with paths relative to the folder; `None` for a call elsewhere.
    fn line(&self, call: Call<'_>) -> Option<String> {
        use Call::*;
        let (name, path) = match call {
            Read(path) => ("read", path),
            Map(path) => ("map", path),
            List(path) => ("list", path),
            Create(path) => ("create", path),
            Append(path) => ("append", path),
            Write(path, _) => ("write", path),
            Sync(path) => ("sync", path),
            SyncFolder(path) => ("sync folder", path),
            Rename(path, _) => ("rename", path),
            Remove(path) => ("remove", path),
            RemoveFolder(path) => ("remove folder", path),
            MakeFolder(path) => ("make folder", path),
            Lock(path) => ("lock", path),
        };
        let short = |path: &Path| Some(path.strip_prefix(&self.folder).ok()?.display().to_string());
        let path = short(path)?;
        Some(match call {
            Write(_, bytes) => format!("{name} {path} {bytes}"),
            Rename(_, to) => format!("{name} {path} -> {}", short(to)?),
            _ => format!("{name} {path}").trim_end().to_owned(),
        })
    }
}

impl Watcher for Notes {
    fn around(&self, call: Call<'_>, go: &mut dyn FnMut() -> io::Result<()>) -> io::Result<()> {
        let Some(line) = self.line(call) else { return go() };
        let is_refused = !self.refused.is_empty() && line.starts_with(self.refused);
        self.calls.lock().unwrap().push(line);
        if is_refused { Err(io::ErrorKind::StorageFull.into()) } else { go() }
    }
}

/// Returns the calls below a folder during `act`; calls that begin with `refused` fail.
pub(crate) fn calls<T>(folder: &Path, refused: &'static str, act: impl FnOnce() -> T) -> (Vec<String>, T) {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _one = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let notes = Arc::new(Notes { folder: folder.to_owned(), refused, calls: Mutex::default() });
    watch(Some(notes.clone()));
    let done = act();
    watch(None);
    let _ = list(folder); // not recorded
    let calls = std::mem::take(&mut *notes.calls.lock().unwrap());
    (calls, done)
}

#[test]
fn a_watcher_receives_every_call() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let (calls, ()) = calls(at, "", || {
        make_folders(&at.join("a/b")).unwrap();
        let file = at.join("a/file");
        write(&file, "wörd".as_bytes()).unwrap();
        sync(&file).unwrap();
        let mut out = Output::append(&file).unwrap();
        out.write_all(b"s").unwrap();
        out.sync().unwrap();
        sync_folder(&at.join("a")).unwrap();
        assert_eq!(read_text(&file).unwrap(), "wörds");
        assert_eq!(out.seek(SeekFrom::End(-2)).unwrap(), 4);
        assert_eq!(map(&file, |path| fs::metadata(path)).unwrap().len(), 6);
        assert_eq!(list(&at.join("a")).unwrap(), [at.join("a/b"), file.clone()]);
        rename(&file, &at.join("a/other")).unwrap();
        remove(&at.join("a/other")).unwrap();
        remove_empty_folder(&at.join("a/b")).unwrap();
        remove_folder(&at.join("a")).unwrap();
        assert!(lock(&at.join("lock")).unwrap().is_some() && !at.join("a").exists());
    });
    let wanted = [
        "make folder a",
        "sync folder",
        "make folder a/b",
        "sync folder a",
        "create a/file",
        "write a/file 5",
        "sync a/file",
        "append a/file",
        "write a/file 1",
        "sync a/file",
        "sync folder a",
        "read a/file",
        "map a/file",
        "list a",
        "rename a/file -> a/other",
        "remove a/other",
        "remove a/b",
        "remove folder a",
        "lock lock",
    ];
    assert_eq!(calls, wanted);
}

#[test]
fn a_call_rejected_by_the_watcher_is_not_made() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    let (observed, result) = calls(folder.path(), "create", || write(&path, b"x"));
    assert_eq!((observed, result.unwrap_err().kind()), (vec!["create file".to_owned()], io::ErrorKind::StorageFull));
    assert!(!path.exists());
    write(&path, b"x").unwrap();
    for refused in ["sync file", "read file", "remove file"] {
        let (_, result) = calls(folder.path(), refused, || {
            sync(&path)?;
            read(&path)?;
            remove(&path)
        });
        assert!(result.is_err() && path.exists(), "{refused}");
    }
}

#[test]
fn invalid_utf8_is_reported_with_its_position() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    write(&path, b"abc\xff").unwrap();
    let error = read_text(&path).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::InvalidData);
    assert_eq!(error.to_string(), "expected text in UTF-8, found invalid UTF-8 at byte 3");
}

#[test]
fn a_file_can_be_locked_by_one_writer() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    let first = Output::create(&path).unwrap();
    assert!(first.lock());
    let second = Output::append(&path).unwrap();
    assert!(!second.lock());
    drop(first);
    assert!(second.lock());
}

/// Another process creates the folder between the check and the call.
#[test]
fn a_folder_created_concurrently_is_accepted() {
    struct Other(PathBuf, fn(&Path));
    impl Watcher for Other {
        fn around(&self, call: Call<'_>, go: &mut dyn FnMut() -> io::Result<()>) -> io::Result<()> {
            if call == Call::MakeFolder(&self.0) {
                self.1(&self.0);
            }
            go()
        }
    }
    let folder = tempfile::tempdir().unwrap();
    let made = |name: &str, by: fn(&Path)| {
        let path = folder.path().join(name);
        // Within `calls`, so that no other test replaces the watcher.
        calls(Path::new("/nowhere"), "", || {
            watch(Some(Arc::new(Other(path.clone(), by))));
            make_folders(&path)
        })
        .1
    };
    made("a", |path| fs::create_dir(path).unwrap()).unwrap();
    let error = made("b", |path| fs::write(path, "").unwrap()).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
    // A failure for another reason is an error.
    let (_, result) = calls(folder.path(), "make folder c", || make_folders(&folder.path().join("c")));
    assert_eq!(result.unwrap_err().kind(), io::ErrorKind::StorageFull);
}

#[cfg(unix)]
#[test]
fn private_folders_and_files_are_accessible_only_to_their_owner() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let path = folder.path().join("of/mine");
    make_private_folders(&path).unwrap();
    assert_eq!(mode(&path), 0o700);
    // An existing folder is unchanged.
    let theirs = folder.path().join("theirs");
    fs::create_dir(&theirs).unwrap();
    fs::set_permissions(&theirs, PermissionsExt::from_mode(0o750)).unwrap();
    make_private_folders(&theirs).unwrap();
    assert_eq!(mode(&theirs), 0o750);
    // A single file can be made private too.
    let file = theirs.join("a");
    let output = Output::create(&file).unwrap();
    fs::set_permissions(&file, PermissionsExt::from_mode(0o644)).unwrap();
    assert_eq!(readable_by_others(&file).as_deref(), Some("644"));
    output.make_private().unwrap();
    assert_eq!((mode(&file), readable_by_others(&file)), (0o600, None));
}

#[cfg(unix)]
#[test]
fn devices_and_pipes_are_not_read() {
    for path in ["/dev/zero", "/dev/null"] {
        let error = read(Path::new(path)).unwrap_err();
        assert!(error.to_string().contains("expected a plain file"), "{error}");
    }
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    assert_eq!(read(&pipe).unwrap_err().kind(), io::ErrorKind::InvalidInput);
    assert_eq!(read(folder.path()).unwrap_err().kind(), io::ErrorKind::IsADirectory);
    assert!(map(&pipe, |_| -> io::Result<()> { unreachable!("not opened") }).is_err());
}

#[cfg(unix)]
#[test]
fn links_are_not_written_through() {
    let folder = tempfile::tempdir().unwrap();
    let (link, target) = (folder.path().join("link"), folder.path().join("target"));
    std::os::unix::fs::symlink(&target, &link).unwrap();
    assert_eq!(Output::create(&link).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
    assert!(lock(&link).unwrap_err().to_string().contains("found a link"));
    assert!(Output::append(&link).unwrap_err().to_string().contains("found a link"));
    assert!(!target.exists());
}

/// The lock of a file that was removed and created again does not lock the new file.
#[cfg(unix)]
#[test]
fn a_lock_belongs_to_the_file_currently_at_the_path() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("lock");
    let first = lock(&path).unwrap().unwrap();
    assert!(is_at(&first, &path) && lock(&path).unwrap().is_none());
    fs::remove_file(&path).unwrap();
    assert!(!is_at(&first, &path));
    let second = lock(&path).unwrap().unwrap();
    assert!(is_at(&second, &path) && !is_at(&first, &path));
}
