//! Parsers of data sets, from files in memory.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use gradus_data::sets::{self, Files, Split, Task};

use super::{MIB, Parser, files};

/// The parser of a data set: its name, then its files; `labels.tsv` labels its test set.
pub static SETS: Parser = Parser { name: "sets", read: read_set, seeds: folders, always: MIB, per_byte: 500 };

/// The parser of a packed file of SST-2. It may unpack to 1 MiB, or to 100 times its size, and each row is kept as strings.
pub static PACKED: Parser =
    Parser { name: "packed", read: read_packed, seeds: packed_files, always: 256 * MIB, per_byte: 20_000 };

struct InMemory<'a>(&'a [(String, &'a [u8])]);

const FOLDER: &str = "set";

impl InMemory<'_> {
    fn name(path: &Path) -> Option<&str> {
        path.strip_prefix(FOLDER).ok()?.to_str()
    }
}

impl Files for InMemory<'_> {
    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        files::find(self.0, Self::name(path).unwrap_or_default()).map(<[u8]>::to_vec)
    }

    fn list(&self, folder: &Path) -> io::Result<Vec<PathBuf>> {
        let paths = self.0.iter().map(|(name, _)| Path::new(FOLDER).join(name));
        let mut found: Vec<PathBuf> = paths.filter(|path| path.parent() == Some(folder)).collect();
        found.sort();
        if found.is_empty() { Err(io::ErrorKind::NotFound.into()) } else { Ok(found) }
    }

    fn exists(&self, path: &Path) -> bool {
        self.0.iter().any(|(name, _)| !name.is_empty() && Path::new(FOLDER).join(name).starts_with(path))
    }
}

fn read_set(input: &[u8]) {
    let files = files::split(input);
    if files.iter().any(|(_, bytes)| bytes.starts_with(b"\x1F\x8B") || bytes.starts_with(b"PK\x03\x04")) {
        return; // the other parser reads these
    }
    let name = String::from_utf8_lossy(files[0].1);
    if let Ok(task) = Task::named(name.trim()) {
        load(task, &InMemory(&files));
    }
}

fn load(task: &Task, files: &InMemory<'_>) {
    for &split in task.splits {
        match task.load_from(files, Path::new(FOLDER), split) {
            Err(error) => assert!(!error.to_string().is_empty()),
            Ok(mut loaded) => {
                let labels = loaded.examples.iter().filter_map(|example| example.label);
                assert!(labels.map(|label| label.value()).all(|value| (0.0..task.answers() as f64).contains(&value)));
                let path = Path::new(FOLDER).join("labels.tsv");
                let labelled = sets::label_from(files, task, split, &mut loaded.examples, &path);
                assert!(labelled.is_err() || loaded.examples.iter().all(|example| example.label.is_some()));
            }
        }
    }
}

fn read_packed(input: &[u8]) {
    load(&sets::sst2::SST2, &InMemory(&[("dev.tsv".into(), input), ("test.tsv".into(), input)]));
}

/// Returns the files that the data sets' own tests read.
fn folders() -> Vec<Vec<u8>> {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../train/data/tests/data/sets");
    let folder = |task: &&Task| {
        let root = fixtures.join(task.name);
        let named = gradus_text::corpus_files(&root).expect("fixtures").into_iter().map(|path| {
            let name = path.strip_prefix(&root).expect("within").to_string_lossy().into_owned();
            (name, fs::read(&path).expect("readable"))
        });
        let mut files: Vec<(String, Vec<u8>)> = named.collect();
        let test = task.load(&root, Split::Test).map(|loaded| loaded.examples).unwrap_or_default();
        let rows = test.iter().map(|example| format!("{}\t0\n", example.id));
        files.push(("labels.tsv".into(), format!("index\tprediction\n{}", rows.collect::<String>()).into_bytes()));
        [task.name.as_bytes(), b"\n", &files::join(&files)].concat()
    };
    sets::ALL.iter().map(folder).collect()
}

/// Returns `sentence\tlabel\nfine\t1\n` packed by gzip and zip.
fn packed_files() -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("golden/packed");
    ["dev.tsv.gz", "dev.tsv.zip", "stored.zip"].map(|name| fs::read(folder.join(name)).expect("fixtures")).into()
}
