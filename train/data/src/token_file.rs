//! A tokenised corpus on disk: written once, then memory-mapped.
//!
//! ```text
//! bytes     0  "GRADUSTK"     8  version (u32)    12  bytes of an id, 2 or 4 (u32)     16  tokens (u64)
//!          24  text bytes (u64)    32  documents (u64)    40  pieces (u64)    48  key (32)    80  digest (32)
//!         112  the ids, then for each piece: tokens and text bytes up to its end (u64, u64)      all little-endian
//!
//! key    = SHA-256(format, tokenizer's fingerprint, contents of the corpus's files)
//! digest = SHA-256(bytes 0 … 79, SHA-256(bytes 112 …))
//! ```
//!
//! The key gives the file its name, so another tokenizer or an edited corpus uses another file. The digest detects every other
//! change.

use std::fs;
use std::io::{self, BufWriter, Read, Seek, SeekFrom, Write};
use std::ops::{Deref, Range};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use gradus_io::disk::{self, Output};
use gradus_io::files::{FileError, remove_unfinished, replace_file};
use gradus_io::hex;
use gradus_io::progress::{Job, Monitor};
use gradus_tensor::mmap::{MappedFile, u16s, u32s};
use gradus_text::{TextError, Tokenizer, corpus_files};
use rayon::prelude::*;
use sha2::{Digest, Sha256};

use crate::error::DataError;
use crate::pieces::{for_each_block, pieces};
use crate::tokens::Tokens;

const MAGIC: &[u8; 8] = b"GRADUSTK";
/// The format version. It increases when the format changes, or the way in which text is read or cut.
const VERSION: u32 = 1;
const KEY: usize = 48;
const DIGEST: usize = 80;
const HEADER: usize = 112;
/// The number of pieces that are encoded before their ids are written, about 8 MiB of text.
const AT_ONCE: usize = 8192;

/// A tokenised corpus, memory-mapped.
#[derive(Debug)]
pub struct TokenFile {
    bytes: Contents,
    path: PathBuf,
    counts: Counts,
}

/// The file's bytes.
#[derive(Debug)]
enum Contents {
    Mapped(MappedFile),
    InMemory(Vec<u8>),
}

impl Deref for Contents {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Contents::Mapped(map) => map,
            Contents::InMemory(bytes) => bytes,
        }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counts {
    width: u32,
    tokens: u64,
    bytes: u64,
    documents: u64,
    pieces: u64,
}

impl TokenFile {
    /// Opens the tokens of a corpus, a file or a folder, from the folder `cache`. If they are missing or damaged, tokenises the
    /// corpus and writes them there, with progress to `monitor`.
    ///
    /// Memory is bounded for a corpus of any size, except for the index of pieces, 1.6 % of the corpus. Ids do not depend on the
    /// number of threads.
    ///
    /// # Errors
    /// Returns an error if the corpus is missing, empty or not text ([`DataError::Text`]), cannot be encoded
    /// ([`DataError::Encode`]) or changes meanwhile ([`DataError::Changed`]), or if a file operation fails ([`DataError::File`]).
    /// No error changes the cache.
    pub fn open_or_build(
        cache: &Path,
        corpus: &Path,
        tokenizer: &Tokenizer,
        monitor: &dyn Monitor,
    ) -> Result<TokenFile, DataError> {
        let vocab_size = tokenizer.vocab_size();
        let files = corpus_files(corpus)?.into_iter().map(CorpusFile::of).collect::<Result<Vec<_>, _>>()?;
        let key = key(&files, &tokenizer.fingerprint())?;
        let path = cache.join(format!("{}.tokens", hex::encode(&key[..16])));
        match TokenFile::open(&path, &key, vocab_size) {
            Err(DataError::Corrupt { .. }) => {}
            Err(DataError::File(error)) if error.cause.kind() == io::ErrorKind::NotFound => {}
            sound_or_unreadable => return sound_or_unreadable,
        }
        disk::make_private_folders(cache).map_err(|e| FileError::new("make the cache", cache, e))?;
        remove_unfinished(cache, path.file_name())?;
        let total = files.iter().map(|file| file.length).sum();
        let mut progress = monitor.begin(Job::new(&format!("tokenising {}", corpus.display()), total, "bytes"));
        replace_file(&path, |file| {
            // The file contains the text of the corpus, and an existing folder may be readable by all users.
            file.get_ref().make_private().map_err(|e| FileError::new("write", &path, e))?;
            let mut writer = Writer::new(&path, file, vocab_size)?;
            let mut before = 0;
            for file in &files {
                encode(file, tokenizer, &mut writer, &mut |done| progress.reach(before + done))?;
                before += file.length;
            }
            if !writer.saw_text {
                return Err(TextError::Empty { path: corpus.to_owned() }.into());
            }
            files.iter().try_for_each(CorpusFile::check_unchanged)?;
            writer.finish(&key)
        })?;
        progress.complete();
        progress.finish();
        TokenFile::open(&path, &key, vocab_size)
    }

    /// Opens a cache and reads it once, to check its digest, that its key is `key`, and that its ids are below `vocab_size`.
    fn open(path: &Path, key: &[u8; 32], vocab_size: usize) -> Result<TokenFile, DataError> {
        // Not every system maps an empty file, so the length is checked first.
        let length = fs::metadata(path).map_err(|e| FileError::new("read", path, e))?.len();
        if length < HEADER as u64 {
            return Self::read(path, Contents::InMemory(Vec::new()), key, vocab_size);
        }
        let map = disk::map(path, |path| MappedFile::open(path)).map_err(|e| FileError::new("read", path, e))?;
        Self::read(path, Contents::Mapped(map), key, vocab_size)
    }

    /// Parses the bytes of a token file of any corpus and tokenizer; errors name `path`.
    ///
    /// # Errors
    /// Returns an error if the bytes are not a valid token file ([`DataError::Corrupt`]).
    pub fn parse(path: &Path, bytes: Vec<u8>, vocab_size: usize) -> Result<TokenFile, DataError> {
        let key = bytes.get(KEY..DIGEST).and_then(|key| key.try_into().ok()).unwrap_or([0; 32]);
        Self::read(path, Contents::InMemory(bytes), &key, vocab_size)
    }

    fn read(path: &Path, map: Contents, key: &[u8; 32], vocab_size: usize) -> Result<TokenFile, DataError> {
        let corrupt = |found: String| Err(DataError::Corrupt { path: path.to_owned(), found });
        if map.len() < HEADER {
            return corrupt(format!("it has {} bytes, fewer than the {HEADER} of its header", map.len()));
        }
        if !map.starts_with(MAGIC) {
            return corrupt("it does not begin with GRADUSTK".into());
        }
        let u32_at = |at: usize| u32::from_le_bytes(std::array::from_fn(|i| map[at + i]));
        let u64_at = |at: usize| u64::from_le_bytes(std::array::from_fn(|i| map[at + i]));
        if u32_at(8) != VERSION {
            return corrupt(format!("its version is {}, this program writes {VERSION}", u32_at(8)));
        }
        let counts =
            Counts { width: u32_at(12), tokens: u64_at(16), bytes: u64_at(24), documents: u64_at(32), pieces: u64_at(40) };
        let expected = u128::from(counts.tokens) * u128::from(counts.width) + 16 * u128::from(counts.pieces) + HEADER as u128;
        if !matches!(counts.width, 2 | 4) || expected != map.len() as u128 {
            return corrupt(format!("its header states {expected} bytes, but it has {}", map.len()));
        }
        if map[DIGEST..HEADER] != digest(&map[..DIGEST], Sha256::digest(&map[HEADER..]).into()) {
            return corrupt("its contents do not match its digest".into());
        }
        if map[KEY..DIGEST] != key[..] {
            return corrupt("it belongs to another corpus or tokenizer".into());
        }
        let file = TokenFile { bytes: map, path: path.to_owned(), counts };
        // The digest only shows that the file is as written; the writer may have been another program.
        let mut ends = file.index().iter().map(up_to);
        let is_in_order = ends.clone().zip(ends.clone().skip(1)).all(|(a, b)| a.0 <= b.0 && a.1 <= b.1);
        if !is_in_order || ends.next_back().unwrap_or_default() != (counts.tokens, counts.bytes) {
            return corrupt("its index of pieces does not match the numbers of tokens and bytes in its header".into());
        }
        let largest = match counts.width {
            2 => u16s(file.ids()).max().map(u32::from),
            _ => u32s(file.ids()).max(),
        };
        match largest {
            Some(id) if id as usize >= vocab_size => corrupt(format!("it holds id {id}, the vocabulary has {vocab_size}")),
            _ => Ok(file),
        }
    }

    /// Returns the path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn ids(&self) -> &[u8] {
        &self.bytes[HEADER..HEADER + self.len() * self.counts.width as usize]
    }

    fn index(&self) -> &[[[u8; 8]; 2]] {
        self.bytes[HEADER + self.ids().len()..].as_chunks::<8>().0.as_chunks::<2>().0
    }

    /// Returns the number of text bytes before a token: exact at the start of a piece, interpolated within it (about a kilobyte).
    fn bytes_before(&self, token: u64) -> u64 {
        if token == 0 {
            return 0;
        }
        let index = self.index();
        let before = index.partition_point(|piece| up_to(piece).0 <= token); // pieces that end at or before the token
        let (tokens, bytes) = before.checked_sub(1).map_or((0, 0), |last| up_to(&index[last]));
        match index.get(before).map(up_to) {
            Some((next_tokens, next_bytes)) => {
                let share = u128::from(next_bytes - bytes) * u128::from(token - tokens) / u128::from(next_tokens - tokens);
                bytes + share as u64
            }
            None => bytes,
        }
    }
}

/// Returns the numbers of tokens and of text bytes up to the end of a piece.
fn up_to(piece: &[[u8; 8]; 2]) -> (u64, u64) {
    (u64::from_le_bytes(piece[0]), u64::from_le_bytes(piece[1]))
}

impl Tokens for TokenFile {
    fn len(&self) -> usize {
        self.counts.tokens as usize
    }

    fn read(&self, start: usize, out: &mut [u32]) {
        let width = self.counts.width as usize;
        let bytes = &self.ids()[start * width..(start + out.len()) * width];
        match width {
            2 => out.iter_mut().zip(u16s(bytes)).for_each(|(out, id)| *out = id.into()),
            _ => out.iter_mut().zip(u32s(bytes)).for_each(|(out, id)| *out = id),
        }
    }

    fn bytes(&self, range: Range<usize>) -> u64 {
        self.bytes_before(range.end as u64) - self.bytes_before(range.start as u64)
    }
}

/// A file of the corpus, with its length and modification time when first opened.
struct CorpusFile {
    path: PathBuf,
    length: u64,
    modified: Option<SystemTime>,
}

impl CorpusFile {
    fn of(path: PathBuf) -> Result<Self, FileError> {
        let metadata = fs::metadata(&path).map_err(|e| FileError::new("read", &path, e))?;
        Ok(CorpusFile { length: metadata.len(), modified: metadata.modified().ok(), path })
    }

    fn check_unchanged(&self) -> Result<(), DataError> {
        let now = CorpusFile::of(self.path.clone())?;
        let same = now.length == self.length && now.modified == self.modified;
        if same { Ok(()) } else { Err(DataError::Changed { path: self.path.clone() }) }
    }
}

fn key(files: &[CorpusFile], fingerprint: &str) -> Result<[u8; 32], FileError> {
    let mut hash = Sha256::new();
    hash.update(format!("gradus tokens {VERSION}\n{fingerprint}\nNone\n")); // the files follow without separators
    let mut buffer = Vec::new();
    for file in files {
        hash.update(file.length.to_le_bytes()); // the length before each file separates it from the next
        let failed = |e| FileError::new("read", &file.path, e);
        let mut contents = disk::open_to_read(&file.path).map_err(failed)?;
        while (&mut contents).take(1 << 20).read_to_end(&mut buffer).map_err(failed)? > 0 {
            hash.update(&buffer);
            buffer.clear();
        }
    }
    Ok(hash.finalize().into())
}

fn digest(header: &[u8], payload: [u8; 32]) -> [u8; 32] {
    Sha256::new().chain_update(header).chain_update(payload).finalize().into()
}

/// Appends one file of the corpus. Pieces are encoded in parallel and written in order. `done` receives the number of bytes
/// encoded so far.
fn encode(file: &CorpusFile, tokenizer: &Tokenizer, writer: &mut Writer<'_>, done: &mut dyn FnMut(u64)) -> Result<(), DataError> {
    writer.counts.documents += 1;
    let mut offset = 0; // the offset of the next piece in the text
    let mut joint = Joint::new(tokenizer);
    for_each_block(&file.path, tokenizer.cut(), |block| {
        for some in pieces(block, tokenizer.cut()).chunks(AT_ONCE) {
            let after = some.iter().map(|piece| (*piece, joint.after(piece))).collect::<Vec<_>>();
            let encoded: Vec<_> = after.par_iter().map(|&(piece, html)| tokenizer.encode_after(piece, html)).collect();
            for (piece, ids) in some.iter().zip(encoded) {
                let ids = ids.map_err(|e| DataError::Encode { path: file.path.clone(), offset, source: e.into() })?;
                writer.push(piece, &joint.join(piece, ids))?;
                offset += piece.len() as u64;
            }
            done(offset.min(file.length));
        }
        Ok(())
    })?;
    done(file.length);
    Ok(())
}

/// The state that joins the ids of the pieces of a text into the ids of the whole text.
struct Joint<'t> {
    tokenizer: &'t Tokenizer,
    /// The ids of a line end: [`Tokenizer::line_end`].
    line_end: Option<Vec<u32>>,
    /// Whether an earlier piece contains a `<`: [`Tokenizer::is_html`].
    html: bool,
    /// The last id, and whether a line has ended since.
    last: Option<(u32, bool)>,
}

impl<'t> Joint<'t> {
    fn new(tokenizer: &'t Tokenizer) -> Self {
        Joint { tokenizer, line_end: tokenizer.line_end(), html: false, last: None }
    }

    /// Returns whether an earlier piece contains a `<`, and records whether this one does.
    fn after(&mut self, piece: &str) -> bool {
        let html = self.html;
        self.html = html || self.line_end.is_some() && self.tokenizer.is_html(piece);
        html
    }

    /// Returns the ids of a piece, preceded by those of the line end before it.
    fn join(&mut self, piece: &str, mut ids: Vec<u32>) -> Vec<u32> {
        let Some(line_end) = &self.line_end else { return ids };
        let ends = piece.ends_with('\n');
        let Some((&first, &last)) = ids.first().zip(ids.last()) else {
            self.last = self.last.map(|(last, ended)| (last, ended || ends));
            return ids;
        };
        let is_added = |id| self.tokenizer.is_added(id);
        if self.last.is_some_and(|(last, ended)| ended && !is_added(last) && !is_added(first)) {
            ids.splice(0..0, line_end.iter().copied());
        }
        self.last = Some((last, ends));
        ids
    }
}

/// A writer of a token file: ids as they arrive, then the index of pieces and the header.
struct Writer<'a> {
    path: &'a Path,
    out: &'a mut BufWriter<Output>,
    counts: Counts,
    index: Vec<u8>,
    hash: Sha256,
    saw_text: bool,
}

impl<'a> Writer<'a> {
    fn new(path: &'a Path, out: &'a mut BufWriter<Output>, vocab_size: usize) -> Result<Self, FileError> {
        let counts = Counts { width: if vocab_size <= 1 << 16 { 2 } else { 4 }, ..Counts::default() };
        let mut writer = Writer { path, out, counts, index: Vec::new(), hash: Sha256::new(), saw_text: false };
        writer.write(&[0; HEADER])?;
        Ok(writer)
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), FileError> {
        self.out.write_all(bytes).map_err(|e| FileError::new("write", self.path, e))
    }

    fn push(&mut self, piece: &str, ids: &[u32]) -> Result<(), FileError> {
        let bytes: Vec<u8> = match self.counts.width {
            2 => ids.iter().flat_map(|&id| (id as u16).to_le_bytes()).collect(),
            _ => ids.iter().flat_map(|&id| id.to_le_bytes()).collect(),
        };
        self.hash.update(&bytes);
        self.write(&bytes)?;
        self.counts.tokens += ids.len() as u64;
        self.counts.bytes += piece.len() as u64;
        self.counts.pieces += 1;
        self.index.extend(self.counts.tokens.to_le_bytes());
        self.index.extend(self.counts.bytes.to_le_bytes());
        self.saw_text |= !piece.trim_ascii().is_empty();
        Ok(())
    }

    fn finish(self, key: &[u8; 32]) -> Result<(), DataError> {
        let Writer { path, out, counts: Counts { width, tokens, bytes, documents, pieces }, index, .. } = self;
        let mut header = [&MAGIC[..], &VERSION.to_le_bytes(), &width.to_le_bytes()].concat();
        for count in [tokens, bytes, documents, pieces] {
            header.extend(count.to_le_bytes());
        }
        header.extend(key);
        header.extend(digest(&header, self.hash.chain_update(&index).finalize().into()));
        let written = out.write_all(&index).and_then(|()| out.seek(SeekFrom::Start(0))).and_then(|_| out.write_all(&header));
        Ok(written.map_err(|e| FileError::new("write", path, e))?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gradus_io::progress::{Progress, Silent};
    use gradus_text::{BpeTrainer, ByteBpe, Mode};
    use std::sync::{Arc, Mutex};
    use tempfile::{TempDir, tempdir};

    fn corpus(files: &[(&str, &str)]) -> TempDir {
        let dir = tempdir().unwrap();
        fs::create_dir_all(dir.path().join("text/sub")).unwrap();
        for (name, text) in files {
            fs::write(dir.path().join("text").join(name), text).unwrap();
        }
        dir
    }

    fn build(dir: &TempDir, tokenizer: &Tokenizer) -> Result<TokenFile, DataError> {
        watched(dir, tokenizer, &Silent)
    }

    /// A monitor that records the reported progress: the total, then the amounts done. It may damage a file at the beginning.
    #[derive(Clone, Default)]
    struct Watch {
        reports: Arc<Mutex<Vec<u64>>>,
        spoil: Option<Arc<dyn Fn() + Send + Sync>>,
    }

    impl std::fmt::Debug for Watch {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            write!(f, "{:?}", self.reports)
        }
    }

    impl Monitor for Watch {
        fn begin(&self, job: Job) -> Box<dyn Progress> {
            self.reports.lock().unwrap().push(job.total);
            self.spoil.as_ref().inspect(|spoil| spoil());
            Box::new(self.clone())
        }
        fn say(&self, _: &str) {}
    }

    impl Progress for Watch {
        fn reach(&mut self, position: u64) {
            self.reports.lock().unwrap().push(position);
        }
        fn warn(&mut self, _: &str) {}
    }

    fn watched(dir: &TempDir, tokenizer: &Tokenizer, monitor: &dyn Monitor) -> Result<TokenFile, DataError> {
        TokenFile::open_or_build(&dir.path().join("cache"), &dir.path().join("text"), tokenizer, monitor)
    }

    /// Returns whether the corpus had to be tokenised.
    fn builds(dir: &TempDir, tokenizer: &Tokenizer) -> (bool, TokenFile) {
        let watch = Watch::default();
        let file = watched(dir, tokenizer, &watch).unwrap();
        let built = !watch.reports.lock().unwrap().is_empty();
        (built, file)
    }

    fn ids(tokens: &impl Tokens) -> Vec<u32> {
        let mut ids = vec![0; tokens.len()];
        tokens.read(0, &mut ids);
        ids
    }

    fn cached(dir: &TempDir) -> Vec<String> {
        let entries = fs::read_dir(dir.path().join("cache")).unwrap();
        entries.map(|e| e.unwrap().file_name().into_string().unwrap()).collect()
    }

    #[test]
    fn ids_follow_the_text_in_the_order_of_paths() {
        let dir = corpus(&[("b.txt", "two"), ("a.txt", "\u{feff}one\n"), ("sub/c.txt", "thrée")]);
        let file = build(&dir, &Tokenizer::bytes()).unwrap();
        let text = "one\ntwothrée";
        assert_eq!(ids(&file), text.bytes().map(u32::from).collect::<Vec<_>>());
        assert_eq!((file.counts.bytes, file.counts.documents), (text.len() as u64, 3));
        let mut middle = [0; 3];
        file.read(4, &mut middle);
        assert_eq!(middle.map(|b| b as u8), *b"two");

        // The vocabulary is larger than two bytes can encode; its first ids are ASCII.
        let alphabet: String = ('\0'..).take((1 << 16) + 1).collect();
        let wide = build(&dir, &Tokenizer::characters([&*alphabet])).unwrap();
        assert_eq!((wide.len(), wide.counts.width), (text.chars().count(), 4));
        assert_eq!(ids(&wide)[..4], [111, 110, 101, 10]);
        assert_eq!(cached(&dir).len(), 2);
    }

    /// An existing cache folder may be readable by all users; a file written into it is not.
    #[cfg(unix)]
    #[test]
    fn token_files_are_readable_by_their_owner_only() {
        use std::os::unix::fs::PermissionsExt;
        let dir = corpus(&[("a.txt", "one")]);
        let cache = dir.path().join("cache");
        fs::create_dir(&cache).unwrap();
        fs::set_permissions(&cache, PermissionsExt::from_mode(0o755)).unwrap();
        build(&dir, &Tokenizer::bytes()).unwrap();
        let file = fs::read_dir(&cache).unwrap().next().unwrap().unwrap();
        assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn pieces_and_threads_do_not_change_the_ids() {
        let story: String = (0..4000).map(|i| format!("Line {i} of <s> some Tëxt, with words. \r\n")).collect();
        let mut trainer = BpeTrainer::new(200);
        trainer.specials.push("<s>".into());
        let mut words = trainer.word_counts();
        words.add(&story);
        let tokenizer = trainer.train(&words, |_, _| ()).unwrap();
        let expected = tokenizer.encode(&story).unwrap();
        for threads in [1, 2, 3] {
            let dir = corpus(&[("a.txt", &story)]);
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            let file = pool.install(|| build(&dir, &tokenizer)).unwrap();
            assert_eq!(file.counts.pieces, 165);
            assert!(ids(&file) == expected, "{threads} threads");
            assert_eq!(file.bytes(0..file.len()), story.len() as u64);
        }
    }

    /// Mode `spacy` has tokens for line ends, and keeps entities after a `<`.
    #[test]
    fn pieces_of_mode_spacy_join_to_the_ids_of_the_text() {
        let lines = |n: usize| (0..n).map(|i| format!("Line {i}, <s> don&#39;t…\r\n\r\n")).collect::<String>();
        let html = format!("\n \n{}{}<b>\n{}", "no &amp; yes\n".repeat(200), " \n".repeat(2000), "no &amp; yes\n".repeat(200));
        let long = format!("{}\n<s>\n{}\n", "a long line ".repeat(20_000), lines(100));
        let mut trainer = BpeTrainer { mode: Mode::Spacy, ..BpeTrainer::new(200) };
        trainer.specials.push("<s>".into());
        let mut words = trainer.word_counts();
        [&lines(50), &html, &long].into_iter().for_each(|text| words.add(text));
        let tokenizer = trainer.train(&words, |_, _| ()).unwrap();
        for text in [&lines(2000), &html, &long, &"<s>\n".repeat(900)] {
            let file = build(&corpus(&[("a.txt", text)]), &tokenizer).unwrap();
            assert!(file.counts.pieces > 3, "{}", file.counts.pieces);
            assert!(ids(&file) == tokenizer.encode(text).unwrap(), "{}…", &text[..20]);
        }
    }

    /// GPT-2's words begin with their blank, and the split of white space depends on what follows it.
    #[test]
    fn pieces_of_byte_level_bpe_join_to_the_ids_of_the_text() {
        let merges = [("Ġ", "w"), ("Ċ", "Ċ"), ("Ġ", "Ġ"), ("ĠĠ", "Ġ")].map(|(a, b)| (a.to_owned(), b.to_owned()));
        let bytes = (0..=255).map(|byte| Tokenizer::letter(byte).to_string());
        let merged = merges.iter().map(|(a, b)| format!("{a}{b}"));
        let tokens = bytes.chain(merged).chain(["<|endoftext|>".to_owned()]).collect();
        let tokenizer = Tokenizer::byte_bpe(ByteBpe::new(tokens, &merges).unwrap());
        let text: String =
            (0..900).map(|i| format!("Line {i}\n\n  <|endoftext|> of   words\n \n\u{a0} we'll\t see \r\n\n")).collect();
        let file = build(&corpus(&[("a.txt", &text)]), &tokenizer).unwrap();
        assert!(file.counts.pieces > 9 && ids(&file) == tokenizer.encode(&text).unwrap(), "{}", file.counts.pieces);
    }

    #[test]
    fn bytes_of_a_range() {
        let text = "a line of text\n".repeat(1000) + " \n";
        let dir = corpus(&[("a.txt", &text)]);
        let bytes = build(&dir, &Tokenizer::bytes()).unwrap();
        for range in [0..0, 0..1, 3..4000, 5000..bytes.len(), 0..bytes.len()] {
            assert_eq!(bytes.bytes(range.clone()), range.len() as u64, "{range:?}");
        }
        let mut words = BpeTrainer::new(60).word_counts();
        words.add(&text);
        let bpe = build(&dir, &BpeTrainer::new(60).train(&words, |_, _| ()).unwrap()).unwrap();
        assert_eq!(bpe.bytes(0..bpe.len()), text.len() as u64);
        let half = bpe.bytes(0..bpe.len() / 2);
        assert!(half.abs_diff(text.len() as u64 / 2) <= 15, "{half} of {}: within a line", text.len());
    }

    #[test]
    fn the_cache_key_depends_on_content_and_tokenizer() {
        let dir = corpus(&[("a.txt", "some text")]);
        assert!(builds(&dir, &Tokenizer::bytes()).0);
        assert!(!builds(&dir, &Tokenizer::bytes()).0);
        fs::rename(dir.path().join("text/a.txt"), dir.path().join("text/b.txt")).unwrap();
        assert!(!builds(&dir, &Tokenizer::bytes()).0, "content counts, not names");
        assert!(builds(&dir, &Tokenizer::characters(["some text"])).0);
        fs::write(dir.path().join("text/b.txt"), "same text").unwrap();
        let (built, file) = builds(&dir, &Tokenizer::bytes());
        assert!(built);
        assert_eq!(ids(&file)[2], u32::from(b'm'));
        assert_eq!(cached(&dir).len(), 3);
    }

    /// A forged file may have a valid digest and any index. In an index that decreases, `bytes` would overflow.
    #[test]
    fn an_index_that_does_not_rise_to_its_end_is_rejected() {
        let dir = corpus(&[("a.txt", &"some text\n".repeat(300))]);
        let sound = fs::read(build(&dir, &Tokenizer::bytes()).unwrap().path()).unwrap();
        let parse = |bytes| TokenFile::parse(Path::new("forged"), bytes, 256);
        assert_eq!(parse(sound.clone()).unwrap().bytes(5..3000), 2995);
        let index = HEADER + 2 * 3000;
        for (at, number) in [(index, 9000), (index + 8, 9000), (index + 24, 0), (sound.len() - 16, 2999), (24, 2999)] {
            let mut forged = sound.clone();
            forged[at..at + 8].copy_from_slice(&u64::to_le_bytes(number));
            let sum = digest(&forged[..DIGEST], Sha256::digest(&forged[HEADER..]).into());
            forged[DIGEST..HEADER].copy_from_slice(&sum);
            let error = parse(forged).unwrap_err().to_string();
            assert!(error.contains("its index of pieces does not match"), "{error}");
        }
    }

    #[test]
    fn a_damaged_cache_is_rebuilt() {
        let dir = corpus(&[("a.txt", &"some text\n".repeat(300))]);
        let (_, file) = builds(&dir, &Tokenizer::bytes());
        let (path, expected) = (file.path().to_owned(), ids(&file));
        drop(file);
        let sound = fs::read(&path).unwrap();
        let key: [u8; 32] = sound[KEY..DIGEST].try_into().unwrap();
        // Damage to every field of the header, to an id and to the index, and lengths from 0 to one byte too many.
        let flip = |at: usize| {
            let mut bytes = sound.clone();
            bytes[at] ^= 1;
            bytes
        };
        let mut huge = sound.clone();
        huge[16..24].fill(0xff);
        let flipped = [0, 8, 12, 16, 24, 32, 40, 48, 80, HEADER, HEADER + 77, sound.len() - 1].map(flip);
        let cut = [0, 5, HEADER, sound.len() - 1].map(|n| sound[..n].to_vec());
        let long = [sound.iter().copied().chain([0]).collect(), huge];
        for (i, wrong) in flipped.into_iter().chain(cut).chain(long).enumerate() {
            fs::write(&path, wrong).unwrap();
            let error = TokenFile::open(&path, &key, 256).unwrap_err();
            assert!(matches!(&error, DataError::Corrupt { path: named, .. } if *named == path), "case {i}: {error}");
            let (built, file) = builds(&dir, &Tokenizer::bytes());
            assert!(built && ids(&file) == expected, "case {i}");
            drop(file);
            assert!(fs::read(&path).unwrap() == sound, "case {i}");
        }
        let DataError::Corrupt { path: named, found } = TokenFile::open(&path, &key, 50).unwrap_err() else { panic!("sound") };
        assert!(
            named == path && found.contains("id 120") && found.ends_with("vocabulary has 50"),
            "{}: {found}",
            named.display()
        );
        assert_eq!(cached(&dir).len(), 1, "no temporary file is left");
    }

    #[test]
    fn a_file_in_place_of_the_cache_is_kept() {
        let dir = corpus(&[("a.txt", "abc")]);
        fs::write(dir.path().join("cache"), "in the way").unwrap();
        let error = build(&dir, &Tokenizer::bytes()).unwrap_err().to_string();
        assert!(error.contains("cache"), "{error}");
        assert_eq!(fs::read(dir.path().join("cache")).unwrap(), b"in the way");
    }

    #[test]
    fn invalid_text_is_located_and_leaves_no_file() {
        let dir = corpus(&[("a.txt", &"abc\n".repeat(1000)), ("b.txt", "abc\nabx\n")]);
        let bad = dir.path().join("text/b.txt");
        let error = build(&dir, &Tokenizer::characters(["abc\n"])).unwrap_err();
        let DataError::Encode { path, offset: 0, source } = &error else { panic!("{error}") };
        assert!(matches!(**source, TextError::UnknownCharacter { character: 'x', offset: 6, known: 4 }), "{source}");
        assert_eq!((path, cached(&dir).len()), (&bad, 0));

        fs::write(&bad, b"abc\0").unwrap();
        let error = build(&dir, &Tokenizer::bytes()).unwrap_err();
        assert!(matches!(&error, DataError::Text(TextError::Binary { path, offset: 3 }) if *path == bad), "{error}");
        let blank = corpus(&[("a.txt", " \n"), ("b.txt", "")]);
        let error = build(&blank, &Tokenizer::bytes()).unwrap_err();
        assert!(matches!(&error, DataError::Text(TextError::Empty { path }) if path.starts_with(blank.path())), "{error}");
        let empty = corpus(&[]);
        let error = build(&empty, &Tokenizer::bytes()).unwrap_err();
        assert!(matches!(&error, DataError::Text(TextError::Missing { path, .. }) if path.starts_with(empty.path())), "{error}");
    }

    #[test]
    fn progress_ends_at_the_total() {
        let dir = corpus(&[("a.txt", "abc"), ("b.txt", "defg")]);
        let watch = Watch::default();
        watched(&dir, &Tokenizer::bytes(), &watch).unwrap();
        let reports = watch.reports.lock().unwrap();
        assert_eq!((reports[0], reports.last()), (7, Some(&7)));
        assert!(reports[1..].is_sorted());
    }

    #[test]
    fn a_file_that_changes_during_reading_is_detected() {
        // A change of the length, of the time, or of both.
        type Change = fn(&Path, SystemTime);
        let changes: [Change; 3] = [
            |path, _| fs::write(path, "abcdef").unwrap(),
            |path, _| fs::File::options().write(true).open(path).unwrap().set_modified(SystemTime::UNIX_EPOCH).unwrap(),
            |path, time| {
                fs::write(path, "abcdef").unwrap();
                fs::File::options().write(true).open(path).unwrap().set_modified(time).unwrap();
            },
        ];
        for change in changes {
            let dir = corpus(&[("a.txt", "abc")]);
            let changed = dir.path().join("text/a.txt");
            let (path, time) = (changed.clone(), fs::metadata(&changed).unwrap().modified().unwrap());
            let watch = Watch { spoil: Some(Arc::new(move || change(&path, time))), ..Watch::default() };
            let error = watched(&dir, &Tokenizer::bytes(), &watch).unwrap_err();
            assert!(matches!(&error, DataError::Changed { path } if *path == changed), "{error}");
            assert_eq!(cached(&dir).len(), 0);
        }
    }

    #[test]
    fn a_damaged_cache_is_rejected_with_its_first_fault() {
        let dir = corpus(&[("a.txt", &"some text\n".repeat(300))]);
        let sound = fs::read(build(&dir, &Tokenizer::bytes()).unwrap().path()).unwrap();
        let path = dir.path().join("cut");
        let key: [u8; 32] = sound[KEY..DIGEST].try_into().unwrap();
        let refused = |bytes: &[u8]| {
            fs::write(&path, bytes).unwrap();
            let [mapped, parsed] = [TokenFile::open(&path, &key, 256), TokenFile::parse(&path, bytes.to_vec(), 256)];
            let [mapped, parsed] = [mapped, parsed].map(|file| file.unwrap_err().to_string());
            assert!(bytes.len() < HEADER || mapped == parsed, "{mapped} / {parsed}");
            parsed
        };
        let wide = |width: u32, tokens: u64| {
            let mut bytes = sound.clone();
            bytes[12..16].copy_from_slice(&width.to_le_bytes());
            bytes[16..24].copy_from_slice(&tokens.to_le_bytes());
            bytes
        };
        for (bytes, fault) in [
            (&sound[..HEADER - 1], "it has 111 bytes, fewer than the 112 of its header"),
            (&sound[..HEADER], "but it has 112"),
            (&[0; HEADER], "it does not begin with GRADUSTK"),
            (&wide(3, 2000), "its header states"),
            (&wide(2, 2999), "its header states"),
        ] {
            assert!(refused(bytes).contains(fault), "{fault}: {}", refused(bytes));
        }
        // A file without tokens is valid.
        let mut empty = sound[..HEADER].to_vec();
        empty[16..DIGEST].fill(0);
        let sum = digest(&empty[..DIGEST], Sha256::digest([]).into());
        empty[DIGEST..].copy_from_slice(&sum);
        assert_eq!(TokenFile::parse(&path, empty, 256).unwrap().len(), 0);
    }

    #[test]
    fn a_folder_in_place_of_a_cache_is_kept() {
        let dir = corpus(&[("a.txt", "abc")]);
        let path = build(&dir, &Tokenizer::bytes()).unwrap().path().to_owned();
        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
        let watch = Watch::default();
        assert!(watched(&dir, &Tokenizer::bytes(), &watch).is_err());
        assert!(watch.reports.lock().unwrap().is_empty(), "nothing is tokenised");
    }

    #[test]
    fn an_unknown_character_is_located_in_its_file() {
        let dir = corpus(&[("a.txt", &("abc\n".repeat(1000) + "x"))]);
        let DataError::Encode { offset, source, .. } = build(&dir, &Tokenizer::characters(["abc\n"])).unwrap_err() else {
            panic!()
        };
        let TextError::UnknownCharacter { offset: within, .. } = *source else { panic!("{source}") };
        assert_eq!(offset + within as u64, 4000);
    }

    /// A line that is longer than a block may be cut so that a piece begins with its line end.
    #[test]
    fn a_leading_line_end_of_a_piece_ends_the_previous_line() {
        let mut trainer = BpeTrainer { mode: Mode::Spacy, ..BpeTrainer::new(60) };
        trainer.specials.push("<s>".into());
        let mut words = trainer.word_counts();
        words.add("one two\nthree\n");
        let tokenizer = trainer.train(&words, |_, _| ()).unwrap();
        let mut joint = Joint::new(&tokenizer);
        let joined: Vec<u32> = ["one two ", " \n", "three\n"]
            .into_iter()
            .flat_map(|piece| joint.join(piece, tokenizer.encode(piece.trim()).unwrap()))
            .collect();
        assert_eq!(joined, tokenizer.encode("one two  \nthree\n").unwrap());
    }
}
