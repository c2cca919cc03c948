//! A corpus: one file of text, or a folder of them.

use std::borrow::Cow;
use std::fs;
use std::path::{Path, PathBuf};

use crate::error::TextError;

/// One file of a corpus.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Document {
    /// Where it was read.
    pub path: PathBuf,
    /// Its text, without byte-order mark, and without Project Gutenberg's licence if it had one.
    pub text: String,
}

/// The files of a corpus: the file itself, or every file of the folder and its subfolders, sorted by path. Names that
/// begin with a dot are passed over, and so are links to folders (they could lead round in circles).
///
/// # Errors
/// [`TextError::Io`] if nothing is at `path`; [`TextError::Missing`] if it is neither file nor folder, or holds no file.
pub fn corpus_files(path: &Path) -> Result<Vec<PathBuf>, TextError> {
    let metadata = fs::metadata(path).map_err(|e| TextError::io(path, "read", e))?;
    if metadata.is_file() {
        return Ok(vec![path.to_owned()]);
    }
    if !metadata.is_dir() {
        return Err(TextError::Missing {
            path: path.to_owned(),
            found: "neither a file nor a folder, but a device or a pipe, which may never end".into(),
            remedy: "Write its text to a file".into(),
        });
    }
    let mut files = Vec::new();
    let mut folders = vec![path.to_owned()];
    while let Some(folder) = folders.pop() {
        let failed = |e| TextError::io(&folder, "list", e);
        for entry in fs::read_dir(&folder).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let kind = entry.file_type().map_err(failed)?;
            if entry.file_name().as_encoded_bytes().starts_with(b".") {
                continue;
            }
            if kind.is_dir() {
                folders.push(entry.path());
            } else if entry.path().is_file() {
                files.push(entry.path());
            }
        }
    }
    files.sort_unstable();
    if files.is_empty() {
        return Err(TextError::Missing {
            path: path.to_owned(),
            found: "the folder holds no files".into(),
            remedy: "Put UTF-8 text files into it".into(),
        });
    }
    Ok(files)
}

/// Reads a UTF-8 text file. A byte-order mark is taken off; nothing else is changed.
///
/// # Errors
/// [`TextError::Io`], [`TextError::Binary`] (a NUL byte) or [`TextError::NotUtf8`], with the byte offset.
pub fn read_text(path: &Path) -> Result<String, TextError> {
    let bytes = fs::read(path).map_err(|e| TextError::io(path, "read", e))?;
    if let Some(offset) = bytes.iter().position(|&b| b == 0) {
        return Err(TextError::Binary { path: path.to_owned(), offset });
    }
    let mut text = String::from_utf8(bytes).map_err(|error| {
        let offset = error.utf8_error().valid_up_to();
        TextError::NotUtf8 { path: path.to_owned(), offset, byte: error.as_bytes()[offset] }
    })?;
    if text.starts_with('\u{feff}') {
        text.drain(..'\u{feff}'.len_utf8());
    }
    Ok(text)
}

/// Reads a whole corpus into memory: each file of [`corpus_files`] by [`read_text`], then [`strip_gutenberg`]. For a
/// corpus larger than memory, do the same file by file.
///
/// # Errors
/// Theirs, and [`TextError::Empty`] if no file holds anything but white space.
pub fn read_corpus(path: &Path) -> Result<Vec<Document>, TextError> {
    let mut documents = Vec::new();
    for file in corpus_files(path)? {
        let text = match strip_gutenberg(&read_text(&file)?) {
            Cow::Borrowed(text) => text.to_owned(),
            Cow::Owned(text) => text,
        };
        documents.push(Document { path: file, text });
    }
    if documents.iter().all(|d| d.text.trim().is_empty()) {
        return Err(TextError::Empty { path: path.to_owned() });
    }
    Ok(documents)
}

/// What a line of a Project Gutenberg file says about the lines after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Marker {
    /// `*** START OF THIS PROJECT GUTENBERG EBOOK …`, or the end of the older "small print".
    Start,
    /// `*** END OF THE PROJECT GUTENBERG EBOOK …`.
    End,
    /// `End of Project Gutenberg's …`: the notice before the end, by a few lines.
    Notice,
}

impl Marker {
    fn of(line: &str) -> Option<Self> {
        let line = line.trim();
        if !line.starts_with(['*', 'E', 'e']) {
            return None;
        }
        let line = line.to_ascii_uppercase();
        let is_of_book = line.contains("PROJECT GUTENBERG") || line.contains("ETEXT");
        let stars = line.trim_start_matches(['*', ' ']);
        let after = |word: &str| stars.strip_prefix(word).is_some_and(|rest| rest.starts_with([' ', '*']));
        match line.starts_with('*') {
            true if after("START OF") && is_of_book => Some(Marker::Start),
            true if after("END OF") && is_of_book => Some(Marker::End),
            true if stars.starts_with("END") && line.contains("SMALL PRINT") => Some(Marker::Start),
            false if line.starts_with("END OF PROJECT GUTENBERG") => Some(Marker::Notice),
            false if line.starts_with("END OF THE PROJECT GUTENBERG") => Some(Marker::Notice),
            _ => None,
        }
    }
}

/// The text between a Project Gutenberg file's start and end markers, with `\r\n` as `\n` and the blank lines at both
/// ends removed. Several books in one text are each stripped. A text without markers is returned as it is, byte for
/// byte.
pub fn strip_gutenberg(text: &str) -> Cow<'_, str> {
    const NOTICE_TO_END: usize = 10; // lines
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let markers: Vec<(usize, Marker)> = lines.iter().enumerate().filter_map(|(i, l)| Some((i, Marker::of(l)?))).collect();
    let mut marks = markers.iter().filter(|(_, m)| *m != Marker::Notice);
    let Some(first) = marks.next() else {
        return Cow::Borrowed(text);
    };

    let mut books: Vec<(usize, usize)> = Vec::new(); // lines from, to
    let mut open = (first.1 == Marker::End).then_some(0);
    for &(i, marker) in std::iter::once(first).chain(marks) {
        match (marker, open) {
            (Marker::End, Some(from)) => {
                let near = |j: usize| j >= from && j < i && i - j <= NOTICE_TO_END;
                let notice = markers.iter().find(|(j, m)| *m == Marker::Notice && near(*j));
                books.push((from, notice.map_or(i, |&(j, _)| j)));
                open = None;
            }
            (Marker::Start, _) => open = Some(i + 1),
            _ => {}
        }
    }
    books.extend(open.map(|from| (from, lines.len())));

    let book = |(from, to): (usize, usize)| {
        let body = lines[from..to].concat().replace("\r\n", "\n");
        let body = body.trim_start_matches('\n').trim_end();
        if body.is_empty() { String::new() } else { format!("{body}\n") }
    };
    Cow::Owned(books.into_iter().map(book).filter(|b| !b.is_empty()).collect::<Vec<_>>().join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOOK: &str = "Title: A Book\r\n\r\n*** START OF THIS PROJECT GUTENBERG EBOOK A BOOK ***\r\n\r\n\r\nCHAPTER I\r\n\
        \r\nEnd of a chapter.\r\n  *** \r\nThe end.\r\n\r\nEnd of Project Gutenberg's A Book, by\r\nNobody\r\n\r\n\
        *** END OF THIS PROJECT GUTENBERG EBOOK A BOOK ***\r\nlicence\r\n*** START: FULL LICENSE ***\r\nmore licence\r\n";
    const BODY: &str = "CHAPTER I\n\nEnd of a chapter.\n  *** \nThe end.\n";

    #[test]
    fn gutenberg() {
        assert_eq!(strip_gutenberg(BOOK), BODY);
        assert_eq!(strip_gutenberg(&BOOK.replace("*** START", "***START").replace("*** END", "***END")), BODY);
        assert_eq!(strip_gutenberg(&BOOK.repeat(2)), format!("{BODY}\n{BODY}"), "two books in one file");
        let old = "header\n*END*THE SMALL PRINT! FOR PUBLIC DOMAIN ETEXTS*Ver.04.29.93*END*\n\nBody.\n";
        assert_eq!(strip_gutenberg(old), "Body.\n");
        assert_eq!(strip_gutenberg("Body.\n*** END OF THE PROJECT GUTENBERG EBOOK X ***\nlicence"), "Body.\n");
        let other = "No markers.\r\nEnd of the Project Gutenberg matter.\r\n*** START OF SOMETHING ***\r\n";
        assert!(matches!(strip_gutenberg(other), Cow::Borrowed(text) if text == other));
        // A notice far from any end is the author's own.
        let far = format!("*** END OF THE PROJECT GUTENBERG EBOOK X ***{}", "\n");
        let text = format!("End of Project Gutenberg is discussed.\n{}{far}", "x\n".repeat(20));
        assert!(strip_gutenberg(&text).starts_with("End of Project Gutenberg is discussed.\n"));
    }

    #[test]
    fn folders_in_sorted_order() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("b")).unwrap();
        for (name, text) in [("c.txt", "three"), ("a.txt", "\u{feff}one"), ("b/x.txt", "two"), (".hidden", "\0")] {
            fs::write(dir.path().join(name), text).unwrap();
        }
        let texts: Vec<_> = read_corpus(dir.path()).unwrap().into_iter().map(|d| d.text).collect();
        assert_eq!(texts, ["one", "two", "three"]);
        assert_eq!(read_corpus(&dir.path().join("c.txt")).unwrap()[0].text, "three");
    }

    #[test]
    fn bad_corpora() {
        let dir = tempfile::tempdir().unwrap();
        let message = |path: &Path| read_corpus(path).unwrap_err().to_string();
        assert!(message(&dir.path().join("none")).contains("Check the path"));
        assert!(message(dir.path()).contains("holds no files"));
        #[cfg(unix)]
        assert!(message(Path::new("/dev/zero")).contains("neither a file nor a folder"));
        let file = dir.path().join("f.txt");
        for (bytes, words) in [
            (&b""[..], "holds no text"),
            (b" \n", "holds no text"),
            (b"abc\0d", "byte 3 is NUL"),
            (b"caf\xe9 au lait", "byte 3 (0xe9) is not valid UTF-8"),
        ] {
            fs::write(&file, bytes).unwrap();
            let message = message(dir.path());
            assert!(message.contains(words) && message.contains(dir.path().to_str().unwrap()), "{message}");
        }
    }
}
