//! A tokenised corpus on disk: made once, memory-mapped ever after.
//!
//! ```text
//! bytes     0  "GRADUSTK"     8  version (u32)    12  bytes of an id, 2 or 4 (u32)     16  tokens (u64)
//!          24  text bytes (u64)    32  documents (u64)    40  pieces (u64)    48  key (32)    80  digest (32)
//!         112  the ids, then for each piece: tokens and text bytes up to its end (u64, u64)      all little-endian
//!
//! key    = SHA-256(format, tokenizer's fingerprint, separator, contents of the corpus's files)
//! digest = SHA-256(bytes 0 … 79, SHA-256(bytes 112 …))
//! ```
//!
//! The key names the file, so another tokenizer or an edited corpus finds another file; the digest finds every other change.

use std::fs::{self, File};
use std::io::{self, BufWriter, Read, Seek, SeekFrom, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

use gradus_io::hex;
use gradus_tensor::mmap::{MappedFile, u16s, u32s};
use gradus_text::{TextError, corpus_files};
use rayon::prelude::*;
use sha2::{Digest, Sha256};

use crate::error::DataError;
use crate::pieces::{for_each_block, pieces};
use crate::tokens::{Encode, Tokens, check_ids};

const MAGIC: &[u8; 8] = b"GRADUSTK";
/// Goes up with the format, and with how text is read and cut.
const VERSION: u32 = 1;
const KEY: usize = 48;
const DIGEST: usize = 80;
const HEADER: usize = 112;
/// Pieces that are encoded before their ids are written, about 8 MiB of text.
const AT_ONCE: usize = 8192;

/// What takes its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// The corpus is read to find out whether it is the cached one.
    Comparing,
    /// It was not: text becomes ids.
    Tokenising,
}

/// How far it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Which of the two.
    pub phase: Phase,
    /// Bytes of the corpus done.
    pub done: u64,
    /// Bytes of the corpus in all.
    pub total: u64,
}

/// A tokenised corpus, memory-mapped.
#[derive(Debug)]
pub struct TokenFile {
    map: MappedFile,
    path: PathBuf,
    counts: Counts,
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
    /// The tokens of a corpus, a file or a folder, from the folder `cache` if they are there; else they are made and put
    /// there. A cache that is not sound is made anew. `separator` is put before each file's tokens.
    ///
    /// Memory is bounded whatever the size of the corpus, but for the index of pieces, 1.6 % of it. Ids do not depend on the
    /// number of threads.
    ///
    /// # Errors
    /// [`DataError::Text`] for a corpus that is missing, empty or no text, [`DataError::Encode`], [`DataError::Id`] from
    /// a tokenizer that gives ids outside its own vocabulary, [`DataError::Changed`], and [`DataError::Io`]. None of them
    /// touches what is in the cache.
    pub fn open_or_build<E: Encode>(
        cache: &Path,
        corpus: &Path,
        tokenizer: &E,
        separator: Option<u32>,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<TokenFile, DataError> {
        let vocab_size = tokenizer.vocab_size();
        check_ids(separator.as_slice(), vocab_size)?;
        let sources = sources(corpus)?;
        let key = key(&sources, &tokenizer.fingerprint(), separator, progress)?;
        let name: String = hex::encode(&key[..16]);
        let path = cache.join(format!("{name}.tokens"));
        match TokenFile::open_with(&path, Some(&key), vocab_size) {
            Err(DataError::Corrupt { .. }) => {}
            Err(DataError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {}
            sound_or_unreadable => return sound_or_unreadable,
        }
        fs::create_dir_all(cache).map_err(|e| DataError::io(cache, "make the folder of", e))?;
        replace(&path, |file| {
            let mut writer = Writer::new(&path, file, vocab_size)?;
            let mut total = Total::of(&sources, Phase::Tokenising, progress);
            for source in &sources {
                encode(source, tokenizer, separator, &mut writer, &mut total)?;
            }
            if !writer.saw_text {
                return Err(TextError::Empty { path: corpus.to_owned() }.into());
            }
            sources.iter().try_for_each(Source::check_unchanged)?;
            writer.finish(&key)
        })?;
        TokenFile::open_with(&path, Some(&key), vocab_size)
    }

    /// Opens a cache and reads it once to check that it is what was written, and that its ids are below `vocab_size`.
    ///
    /// # Errors
    /// [`DataError::Io`] or [`DataError::Corrupt`].
    pub fn open(path: &Path, vocab_size: usize) -> Result<TokenFile, DataError> {
        TokenFile::open_with(path, None, vocab_size)
    }

    fn open_with(path: &Path, key: Option<&[u8; 32]>, vocab_size: usize) -> Result<TokenFile, DataError> {
        let corrupt = |found: String| Err(DataError::Corrupt { path: path.to_owned(), found });
        // An empty file cannot be mapped everywhere, so lengths are looked at first.
        let length = fs::metadata(path).map_err(|e| DataError::io(path, "read", e))?.len();
        if length < HEADER as u64 {
            return corrupt(format!("it has {length} bytes, its header alone has {HEADER}"));
        }
        let map = MappedFile::open(path).map_err(|e| DataError::io(path, "read", e))?;
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
            return corrupt(format!("by its header it has {expected} bytes, but it has {}", map.len()));
        }
        if map[DIGEST..HEADER] != digest(&map[..DIGEST], Sha256::digest(&map[HEADER..]).into()) {
            return corrupt("its contents do not match its digest".into());
        }
        if key.is_some_and(|key| map[KEY..DIGEST] != key[..]) {
            return corrupt("it belongs to another corpus or tokenizer".into());
        }
        let file = TokenFile { map, path: path.to_owned(), counts };
        let largest = match counts.width {
            2 => u16s(file.ids()).max().map(u32::from),
            _ => u32s(file.ids()).max(),
        };
        match largest {
            Some(id) if id as usize >= vocab_size => corrupt(format!("it holds id {id}, the vocabulary has {vocab_size}")),
            _ => Ok(file),
        }
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Bytes of text that it was made from, without what was taken off (byte-order marks, Project Gutenberg's licence).
    pub fn text_bytes(&self) -> u64 {
        self.counts.bytes
    }

    /// Files that it was made from.
    pub fn documents(&self) -> u64 {
        self.counts.documents
    }

    fn ids(&self) -> &[u8] {
        &self.map[HEADER..HEADER + self.len() * self.counts.width as usize]
    }

    /// Tokens and text bytes up to the end of piece i.
    fn piece(&self, i: usize) -> (u64, u64) {
        let at = HEADER + self.ids().len() + 16 * i;
        let number = |at: usize| u64::from_le_bytes(std::array::from_fn(|i| self.map[at + i]));
        (number(at), number(at + 8))
    }

    /// Text bytes before a token: exact at the start of a piece, inside (about a kilobyte) in proportion.
    fn bytes_before(&self, token: u64) -> u64 {
        if token == 0 {
            return 0;
        }
        let (mut low, mut high) = (0, self.counts.pieces as usize); // the pieces before `low` end at or before the token
        while low < high {
            let middle = low.midpoint(high);
            if self.piece(middle).0 <= token { low = middle + 1 } else { high = middle }
        }
        let (tokens, bytes) = if low == 0 { (0, 0) } else { self.piece(low - 1) };
        if tokens == token || low == self.counts.pieces as usize {
            return bytes;
        }
        let (next_tokens, next_bytes) = self.piece(low);
        let share = u128::from(next_bytes - bytes) * u128::from(token - tokens) / u128::from(next_tokens - tokens);
        bytes + share as u64
    }
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

/// A file of the corpus as it was when it was looked at first.
struct Source {
    path: PathBuf,
    length: u64,
    modified: Option<SystemTime>,
}

impl Source {
    fn of(path: PathBuf) -> Result<Self, TextError> {
        let metadata = fs::metadata(&path).map_err(|e| TextError::io(&path, "read", e))?;
        Ok(Source { length: metadata.len(), modified: metadata.modified().ok(), path })
    }

    fn check_unchanged(&self) -> Result<(), DataError> {
        let now = Source::of(self.path.clone())?;
        let same = now.length == self.length && now.modified == self.modified;
        if same { Ok(()) } else { Err(DataError::Changed { path: self.path.clone() }) }
    }
}

fn sources(corpus: &Path) -> Result<Vec<Source>, TextError> {
    corpus_files(corpus)?.into_iter().map(Source::of).collect()
}

/// Reports progress by the bytes of whole files and of those under way.
struct Total<'a> {
    now: Progress,
    report: &'a mut dyn FnMut(Progress),
}

impl<'a> Total<'a> {
    fn of(sources: &[Source], phase: Phase, report: &'a mut dyn FnMut(Progress)) -> Self {
        let total = sources.iter().map(|s| s.length).sum();
        Total { now: Progress { phase, done: 0, total }, report }
    }

    /// Sets what is done; never beyond the end, should a file grow.
    fn done(&mut self, bytes: u64) {
        self.now.done = bytes.min(self.now.total);
        (self.report)(self.now);
    }
}

fn key(
    sources: &[Source],
    fingerprint: &str,
    separator: Option<u32>,
    progress: &mut dyn FnMut(Progress),
) -> Result<[u8; 32], DataError> {
    let mut total = Total::of(sources, Phase::Comparing, progress);
    let mut hash = Sha256::new();
    hash.update(format!("gradus tokens {VERSION}\n{fingerprint}\n{separator:?}\n"));
    let mut buffer = vec![0; 1 << 20];
    for source in sources {
        hash.update(source.length.to_le_bytes()); // a length before each file: no two corpora run together
        let failed = |e| TextError::io(&source.path, "read", e);
        let mut file = File::open(&source.path).map_err(failed)?;
        loop {
            match file.read(&mut buffer) {
                Ok(0) => break,
                Ok(n) => {
                    hash.update(&buffer[..n]);
                    total.done(total.now.done + n as u64);
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(failed(e).into()),
            }
        }
    }
    Ok(hash.finalize().into())
}

fn digest(header: &[u8], payload: [u8; 32]) -> [u8; 32] {
    let mut hash = Sha256::new();
    hash.update(header);
    hash.update(payload);
    hash.finalize().into()
}

/// Appends one file of the corpus: pieces are encoded in parallel and written in order.
fn encode<E: Encode>(
    source: &Source,
    tokenizer: &E,
    separator: Option<u32>,
    writer: &mut Writer<'_>,
    total: &mut Total<'_>,
) -> Result<(), DataError> {
    writer.counts.documents += 1;
    let before = total.now.done;
    let mut offset = 0; // of the next piece in the text
    let mut opening = separator;
    for_each_block(&source.path, |block| {
        for some in pieces(block).chunks(AT_ONCE) {
            let encoded: Vec<_> = some.par_iter().map(|piece| tokenizer.encode(piece)).collect();
            for (piece, ids) in some.iter().zip(encoded) {
                let mut ids = ids.map_err(|e| DataError::Encode { path: source.path.clone(), offset, source: e.into() })?;
                if let Some(separator) = opening.take() {
                    ids.insert(0, separator);
                }
                writer.push(piece, &ids)?;
                offset += piece.len() as u64;
            }
            total.done(before + offset.min(source.length));
        }
        Ok::<_, DataError>(())
    })?;
    total.done(before + source.length);
    Ok(())
}

/// Writes ids as they come; the index of pieces and the header follow at the end.
struct Writer<'a> {
    path: &'a Path,
    out: BufWriter<&'a mut File>,
    vocab_size: usize,
    counts: Counts,
    index: Vec<u8>,
    hash: Sha256,
    saw_text: bool,
}

impl<'a> Writer<'a> {
    fn new(path: &'a Path, file: &'a mut File, vocab_size: usize) -> Result<Self, DataError> {
        let width = if vocab_size <= 1 << 16 { 2 } else { 4 };
        let counts = Counts { width, ..Counts::default() };
        let mut out = BufWriter::with_capacity(1 << 20, file);
        out.write_all(&[0; HEADER]).map_err(|e| DataError::io(path, "write", e))?;
        Ok(Writer { path, out, vocab_size, counts, index: Vec::new(), hash: Sha256::new(), saw_text: false })
    }

    fn push(&mut self, piece: &str, ids: &[u32]) -> Result<(), DataError> {
        check_ids(ids, self.vocab_size)?;
        let bytes: Vec<u8> = match self.counts.width {
            2 => ids.iter().flat_map(|&id| (id as u16).to_le_bytes()).collect(),
            _ => ids.iter().flat_map(|&id| id.to_le_bytes()).collect(),
        };
        self.hash.update(&bytes);
        self.out.write_all(&bytes).map_err(|e| DataError::io(self.path, "write", e))?;
        self.counts.tokens += ids.len() as u64;
        self.counts.bytes += piece.len() as u64;
        self.counts.pieces += 1;
        self.index.extend(self.counts.tokens.to_le_bytes());
        self.index.extend(self.counts.bytes.to_le_bytes());
        self.saw_text |= !piece.trim_ascii().is_empty();
        Ok(())
    }

    fn finish(mut self, key: &[u8; 32]) -> Result<(), DataError> {
        self.hash.update(&self.index);
        let Counts { width, tokens, bytes, documents, pieces } = self.counts;
        let mut header = Vec::with_capacity(HEADER);
        header.extend(MAGIC);
        header.extend(VERSION.to_le_bytes());
        header.extend(width.to_le_bytes());
        for count in [tokens, bytes, documents, pieces] {
            header.extend(count.to_le_bytes());
        }
        header.extend(key);
        header.extend(digest(&header, self.hash.finalize().into()));
        self.out
            .write_all(&self.index)
            .and_then(|()| self.out.seek(SeekFrom::Start(0)).map(drop))
            .and_then(|()| self.out.write_all(&header))
            .and_then(|()| self.out.flush())
            .map_err(|e| DataError::io(self.path, "write", e))
    }
}

/// Replaces a file whole or not at all: `write` fills a temporary file beside it, which is brought to the disk and renamed.
fn replace(path: &Path, write: impl FnOnce(&mut File) -> Result<(), DataError>) -> Result<(), DataError> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let temporary = path.with_file_name(format!(".{name}.{}.{number}.tmp", std::process::id()));
    let failed = |e| DataError::io(path, "write", e);
    let mut file = File::create(&temporary).map_err(failed)?;
    let written = write(&mut file)
        .and_then(|()| file.sync_all().map_err(failed))
        .and_then(|()| fs::rename(&temporary, path).map_err(failed));
    if written.is_err() {
        let _ = fs::remove_file(&temporary); // the first error is the one to report
    }
    written
}

#[cfg(test)]
mod tests {
    use super::*;
    use gradus_text::{BpeTrainer, Tokenizer};
    use std::convert::Infallible;
    use tempfile::{TempDir, tempdir};

    /// Bytes shifted to high ids, so that four bytes an id are needed.
    struct Wide;

    impl Encode for Wide {
        type Error = Infallible;

        fn fingerprint(&self) -> String {
            "wide".into()
        }

        fn vocab_size(&self) -> usize {
            100_256
        }

        fn encode(&self, text: &str) -> Result<Vec<u32>, Infallible> {
            Ok(text.bytes().map(|b| 100_000 + u32::from(b)).collect())
        }
    }

    /// Says that it has fewer ids than it gives.
    struct Lying;

    impl Encode for Lying {
        type Error = Infallible;

        fn fingerprint(&self) -> String {
            "lying".into()
        }

        fn vocab_size(&self) -> usize {
            100
        }

        fn encode(&self, text: &str) -> Result<Vec<u32>, Infallible> {
            Ok(text.bytes().map(u32::from).collect())
        }
    }

    fn corpus(files: &[(&str, &str)]) -> TempDir {
        let dir = tempdir().unwrap();
        fs::create_dir_all(dir.path().join("text/sub")).unwrap();
        for (name, text) in files {
            fs::write(dir.path().join("text").join(name), text).unwrap();
        }
        dir
    }

    fn build(dir: &TempDir, tokenizer: &impl Encode, separator: Option<u32>) -> Result<TokenFile, DataError> {
        TokenFile::open_or_build(&dir.path().join("cache"), &dir.path().join("text"), tokenizer, separator, &mut |_| ())
    }

    /// Whether the corpus had to be tokenised.
    fn builds(dir: &TempDir, tokenizer: &impl Encode) -> (bool, TokenFile) {
        let mut built = false;
        let mut watch = |p: Progress| built |= p.phase == Phase::Tokenising;
        let (cache, text) = (dir.path().join("cache"), dir.path().join("text"));
        let file = TokenFile::open_or_build(&cache, &text, tokenizer, None, &mut watch).unwrap();
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
    fn ids_are_the_text_in_order_of_the_paths() {
        let dir = corpus(&[("b.txt", "two"), ("a.txt", "\u{feff}one\n"), ("sub/c.txt", "thrée")]);
        let file = build(&dir, &Tokenizer::bytes(), None).unwrap();
        let text = "one\ntwothrée";
        assert_eq!(ids(&file), text.bytes().map(u32::from).collect::<Vec<_>>());
        assert_eq!((file.text_bytes(), file.documents()), (text.len() as u64, 3));
        let mut middle = [0; 3];
        file.read(4, &mut middle);
        assert_eq!(middle.map(|b| b as u8), *b"two");

        let wide = build(&dir, &Wide, Some(7)).unwrap();
        assert_eq!(wide.len(), text.len() + 3);
        assert_eq!(ids(&wide)[..5], [7, 100_111, 100_110, 100_101, 100_010]);
        assert_eq!(wide.counts.width, 4);
        assert_eq!(cached(&dir).len(), 2);
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
            let file = pool.install(|| build(&dir, &tokenizer, None)).unwrap();
            assert!(file.counts.pieces > 100);
            assert!(ids(&file) == expected, "{threads} threads");
            assert_eq!(file.bytes(0..file.len()), story.len() as u64);
        }
    }

    #[test]
    fn bytes_of_a_range() {
        let text = "a line of text\n".repeat(1000) + " \n";
        let dir = corpus(&[("a.txt", &text)]);
        let bytes = build(&dir, &Tokenizer::bytes(), None).unwrap();
        for range in [0..0, 0..1, 3..4000, 5000..bytes.len(), 0..bytes.len()] {
            assert_eq!(bytes.bytes(range.clone()), range.len() as u64, "{range:?}");
        }
        let mut words = BpeTrainer::new(60).word_counts();
        words.add(&text);
        let bpe = build(&dir, &BpeTrainer::new(60).train(&words, |_, _| ()).unwrap(), None).unwrap();
        assert_eq!(bpe.bytes(0..bpe.len()), text.len() as u64);
        let half = bpe.bytes(0..bpe.len() / 2);
        assert!(half.abs_diff(text.len() as u64 / 2) <= 15, "{half} of {}: within a line", text.len());
    }

    #[test]
    fn the_cache_is_found_again_and_follows_content_and_tokenizer() {
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

    #[test]
    fn a_cache_that_is_not_sound_is_made_anew() {
        let dir = corpus(&[("a.txt", &"some text\n".repeat(300))]);
        let (_, file) = builds(&dir, &Tokenizer::bytes());
        let (path, expected) = (file.path().to_owned(), ids(&file));
        drop(file);
        let sound = fs::read(&path).unwrap();
        // Every field of the header, an id, the index, and lengths from nothing to one byte too many.
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
            let error = TokenFile::open(&path, 256).unwrap_err();
            assert!(matches!(error, DataError::Corrupt { .. }), "case {i}: {error}");
            let (built, file) = builds(&dir, &Tokenizer::bytes());
            assert!(built && ids(&file) == expected, "case {i}");
            drop(file);
            assert!(fs::read(&path).unwrap() == sound, "case {i}");
        }
        let error = TokenFile::open(&path, 50).unwrap_err().to_string();
        assert!(error.contains("holds id 120") && error.contains("vocabulary has 50"), "{error}");
        assert_eq!(cached(&dir).len(), 1, "no temporary file is left");
    }

    #[test]
    fn a_failure_leaves_what_was_there() {
        let dir = corpus(&[("a.txt", "abc")]);
        let path = dir.path().join("old.tokens");
        fs::write(&path, "old").unwrap();
        let full = |file: &mut File| {
            file.write_all(b"half").unwrap();
            Err(DataError::io(&path, "write", io::ErrorKind::StorageFull.into()))
        };
        let error = replace(&path, full).unwrap_err().to_string();
        assert!(error.contains("Free some space") && error.contains("old.tokens"), "{error}");
        assert_eq!(fs::read(&path).unwrap(), b"old");

        // A file where the folder should be; a folder where the file should be.
        fs::write(dir.path().join("cache"), "in the way").unwrap();
        let error = build(&dir, &Tokenizer::bytes(), None).unwrap_err().to_string();
        assert!(error.contains("cache"), "{error}");
        assert_eq!(fs::read(dir.path().join("cache")).unwrap(), b"in the way");
        fs::create_dir(dir.path().join("folder")).unwrap();
        assert!(replace(&dir.path().join("folder"), |_| Ok(())).is_err());
        let left = fs::read_dir(dir.path()).unwrap().filter(|e| {
            let name = e.as_ref().unwrap().file_name();
            name.to_string_lossy().ends_with(".tmp")
        });
        assert_eq!(left.count(), 0);
    }

    #[test]
    fn bad_text_and_bad_ids_are_placed_and_leave_no_file() {
        let dir = corpus(&[("a.txt", &"abc\n".repeat(1000)), ("b.txt", "abc\nabx\n")]);
        let error = build(&dir, &Tokenizer::characters(["abc\n"]), None).unwrap_err().to_string();
        assert!(error.contains("b.txt") && error.contains("'x'") && error.contains("byte 6"), "{error}");
        let error = build(&dir, &Lying, None).unwrap_err().to_string();
        assert!(error.contains("0 to 99"), "{error}");
        assert!(build(&dir, &Tokenizer::bytes(), Some(256)).unwrap_err().to_string().contains("id 256"));
        assert_eq!(cached(&dir).len(), 0);

        fs::write(dir.path().join("text/b.txt"), b"abc\0").unwrap();
        assert!(build(&dir, &Tokenizer::bytes(), None).unwrap_err().to_string().contains("byte 3 is NUL"));
        let blank = corpus(&[("a.txt", " \n"), ("b.txt", "")]);
        assert!(build(&blank, &Tokenizer::bytes(), None).unwrap_err().to_string().contains("holds no text"));
        assert!(build(&corpus(&[]), &Tokenizer::bytes(), None).unwrap_err().to_string().contains("no files"));
    }

    #[test]
    fn progress_ends_at_the_whole() {
        let dir = corpus(&[("a.txt", "abc"), ("b.txt", "defg")]);
        let mut seen = Vec::new();
        let (cache, text) = (dir.path().join("cache"), dir.path().join("text"));
        TokenFile::open_or_build(&cache, &text, &Tokenizer::bytes(), None, &mut |p| seen.push(p)).unwrap();
        for phase in [Phase::Comparing, Phase::Tokenising] {
            let last = seen.iter().rfind(|p| p.phase == phase).unwrap();
            assert_eq!((last.done, last.total), (7, 7));
        }
        assert!(seen.windows(2).all(|w| w[0].phase != w[1].phase || w[0].done <= w[1].done));
    }

    #[test]
    fn a_file_that_changes_meanwhile_is_noticed() {
        let dir = corpus(&[("a.txt", "abc")]);
        let path = dir.path().join("text/a.txt");
        let mut change = |p: Progress| {
            if p.phase == Phase::Comparing {
                fs::write(&path, "abcdef").unwrap();
            }
        };
        let (cache, text) = (dir.path().join("cache"), dir.path().join("text"));
        let error = TokenFile::open_or_build(&cache, &text, &Tokenizer::bytes(), None, &mut change).unwrap_err();
        assert!(matches!(error, DataError::Changed { .. }), "{error}");
        assert_eq!(cached(&dir).len(), 0);
    }
}
