//! A disk that fails on purpose, with a record of what a crash would have lost.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::{fs, io};

use gradus_io::disk::{Call, Watcher};

/// The fault at the n-th call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The system returns an error.
    Error(io::ErrorKind),
    /// The disk is full: half of a write succeeds, then it fails. Any other call fails at once.
    Short,
    /// The machine stops before the call, and this data is lost.
    Crash(Loss),
}

/// The data that a crash may lose, which differs between file systems.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// Nothing: only the process was killed.
    Nothing,
    /// Names since the last sync of their folder, and contents since the last sync of their file.
    All,
    /// Only contents; names were written earlier.
    Contents,
    /// Contents, each except its first half.
    Halves,
}

impl Fault {
    pub const ALL: [Fault; 8] = [
        Fault::Error(io::ErrorKind::StorageFull),
        Fault::Error(io::ErrorKind::PermissionDenied),
        Fault::Error(io::ErrorKind::Other),
        Fault::Short,
        Fault::Crash(Loss::Nothing),
        Fault::Crash(Loss::All),
        Fault::Crash(Loss::Contents),
        Fault::Crash(Loss::Halves),
    ];
}

/// A watched folder of a disk.
pub struct Disk {
    root: PathBuf,
    state: Mutex<State>,
}

struct State {
    calls: u64,
    /// A description of each call.
    seen: Vec<String>,
    planned: Option<(u64, Fault)>,
    is_off: bool,
    nodes: Vec<Node>,
}

enum Node {
    /// The contents that a crash leaves; `None`: it was never synced.
    File(Option<Vec<u8>>),
    Folder(Folder),
}

#[derive(Default)]
struct Folder {
    now: BTreeMap<OsString, usize>,
    /// The names that a crash leaves.
    synced: BTreeMap<OsString, usize>,
}

impl Disk {
    /// Starts watching the folder at `root`, in its present state, all of it synced.
    pub fn new(root: &Path, planned: Option<(u64, Fault)>) -> Self {
        let mut state =
            State { calls: 0, seen: Vec::new(), planned, is_off: false, nodes: vec![Node::Folder(Folder::default())] };
        state.take_in(root, 0);
        Disk { root: root.to_owned(), state: Mutex::new(state) }
    }

    /// Returns descriptions of the calls so far.
    pub fn seen(&self) -> Vec<String> {
        self.state.lock().unwrap().seen.clone()
    }

    /// Brings the disk into its state after a crash of the planned kind; changes nothing if there was no crash.
    pub fn crash(&self) {
        let state = self.state.lock().unwrap();
        let (Some((_, Fault::Crash(loss))), true) = (state.planned, state.is_off) else { return };
        if loss == Loss::Nothing {
            return;
        }
        let mut left = BTreeMap::new();
        state.survivors(0, &self.root, &PathBuf::new(), loss, &mut left);
        fs::remove_dir_all(&self.root).unwrap();
        fs::create_dir(&self.root).unwrap();
        for (path, bytes) in left {
            let path = self.root.join(path);
            match bytes {
                None => fs::create_dir_all(path).unwrap(),
                Some(bytes) => {
                    fs::create_dir_all(path.parent().unwrap()).unwrap();
                    fs::write(path, bytes).unwrap();
                }
            }
        }
    }
}

impl State {
    fn take_in(&mut self, path: &Path, at: usize) {
        for entry in fs::read_dir(path).unwrap() {
            let (entry, id) = (entry.unwrap(), self.nodes.len());
            if entry.path().is_dir() {
                self.nodes.push(Node::Folder(Folder::default()));
                self.take_in(&entry.path(), id);
            } else {
                self.nodes.push(Node::File(Some(fs::read(entry.path()).unwrap())));
            }
            let Node::Folder(folder) = &mut self.nodes[at] else { unreachable!() };
            folder.now.insert(entry.file_name(), id);
            folder.synced.insert(entry.file_name(), id);
        }
    }

    /// Returns the folder of a path within the root, and the path's last name.
    fn folder(&mut self, root: &Path, path: &Path) -> Option<(&mut Folder, OsString)> {
        let within = path.strip_prefix(root).ok()?;
        let at = self.find(within.parent()?)?;
        let name = within.file_name()?.to_owned();
        match &mut self.nodes[at] {
            Node::Folder(folder) => Some((folder, name)),
            Node::File(_) => None,
        }
    }

    fn find(&self, within: &Path) -> Option<usize> {
        within.iter().try_fold(0, |at, name| match &self.nodes[at] {
            Node::Folder(folder) => folder.now.get(name).copied(),
            Node::File(_) => None,
        })
    }

    fn insert(&mut self, root: &Path, path: &Path, node: Node) {
        let id = self.nodes.len();
        self.nodes.push(node);
        if let Some((folder, name)) = self.folder(root, path) {
            folder.now.insert(name, id);
        }
    }

    /// Records a call that succeeded.
    fn note(&mut self, root: &Path, call: Call<'_>) {
        match call {
            Call::Create(path) => self.insert(root, path, Node::File(None)),
            Call::MakeFolder(path) => self.insert(root, path, Node::Folder(Folder::default())),
            Call::Lock(path) => {
                if self.folder(root, path).is_some_and(|(folder, name)| !folder.now.contains_key(&name)) {
                    self.insert(root, path, Node::File(None));
                }
            }
            Call::Remove(path) | Call::RemoveFolder(path) => {
                self.folder(root, path).and_then(|(folder, name)| folder.now.remove(&name));
            }
            Call::Rename(from, to) => {
                if let Some(id) = self.folder(root, from).and_then(|(folder, name)| folder.now.remove(&name))
                    && let Some((folder, name)) = self.folder(root, to)
                {
                    folder.now.insert(name, id);
                }
            }
            Call::Sync(path) => {
                if let Some(id) = path.strip_prefix(root).ok().and_then(|within| self.find(within)) {
                    self.nodes[id] = Node::File(Some(fs::read(path).unwrap()));
                }
            }
            Call::SyncFolder(path) => {
                let id = path.strip_prefix(root).ok().and_then(|within| self.find(within));
                if let Some(Node::Folder(folder)) = id.map(|id| &mut self.nodes[id]) {
                    folder.synced = folder.now.clone();
                }
            }
            Call::Read(_) | Call::Map(_) | Call::List(_) | Call::Append(_) | Call::Write(..) => {}
        }
    }

    fn survivors(&self, at: usize, real: &Path, within: &Path, loss: Loss, left: &mut BTreeMap<PathBuf, Option<Vec<u8>>>) {
        match &self.nodes[at] {
            Node::Folder(folder) => {
                left.insert(within.to_owned(), None);
                let names = if loss == Loss::All { &folder.synced } else { &folder.now };
                names.iter().for_each(|(name, &id)| self.survivors(id, &real.join(name), &within.join(name), loss, left));
            }
            Node::File(synced) => {
                let synced = synced.clone().unwrap_or_default();
                let bytes = match loss {
                    Loss::Halves => {
                        let now = fs::read(real).unwrap_or_default();
                        // Rewriting in place is not distinguished from appending: half of the new contents remains.
                        let kept = synced.len().min(now.len());
                        if now.starts_with(&synced) { now[..kept + (now.len() - kept) / 2].to_vec() } else { synced }
                    }
                    _ => synced,
                };
                left.insert(within.to_owned(), Some(bytes));
            }
        }
    }
}

impl Watcher for Disk {
    fn around(&self, call: Call<'_>, go: &mut dyn FnMut() -> io::Result<()>) -> io::Result<()> {
        let mut state = self.state.lock().unwrap();
        if state.is_off {
            return Err(io::Error::other("the machine is off"));
        }
        state.calls += 1;
        let words = format!("{call:?}").replace(&*self.root.to_string_lossy(), "");
        state.seen.push(words);
        if let Some((_, fault)) = state.planned.filter(|(n, _)| *n == state.calls) {
            match fault {
                Fault::Error(kind) => return Err(kind.into()),
                Fault::Short => {
                    if let Call::Write(path, n) = call {
                        let before = fs::metadata(path)?.len();
                        go()?;
                        fs::File::options().write(true).open(path)?.set_len(before + n as u64 / 2)?;
                    }
                    return Err(io::ErrorKind::StorageFull.into());
                }
                Fault::Crash(_) => {
                    state.is_off = true;
                    return Err(io::Error::other("the machine is off"));
                }
            }
        }
        let result = go();
        if result.is_ok() {
            state.note(&self.root, call);
        }
        result
    }
}
