//! A corpus: one file of text, or a folder of them.

use std::borrow::Cow;
use std::fs;
use std::path::{Path, PathBuf};

use gradus_io::disk;
use gradus_io::files::FileError;

use crate::error::TextError;
use crate::foreign::foreign;

/// Returns the files of a corpus: the file itself, or every file of the folder and its subfolders, sorted by path. Names that
/// begin with a dot are skipped, and so are links to folders (they could form loops).
///
/// # Errors
/// Returns [`TextError::File`] if `path` does not exist; [`TextError::Missing`] if it is neither file nor folder, or contains no
/// file.
pub fn corpus_files(path: &Path) -> Result<Vec<PathBuf>, TextError> {
    let metadata = fs::metadata(path).map_err(|e| FileError::new("read", path, e))?;
    if metadata.is_file() {
        return Ok(vec![path.to_owned()]);
    }
    if !metadata.is_dir() {
        let found = "neither a file nor a folder, but a device or a pipe, which may never end";
        return Err(TextError::missing(path, found, "Write its text to a file"));
    }
    let mut files = Vec::new();
    let mut folders = vec![path.to_owned()];
    while let Some(folder) = folders.pop() {
        let failed = |e| FileError::new("list", &folder, e);
        for path in disk::list(&folder).map_err(failed)? {
            let is_hidden = path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
            if is_hidden {
                continue;
            }
            if path.is_dir() && !path.is_symlink() {
                folders.push(path);
            } else if path.is_file() {
                files.push(path);
            } else if !path.is_dir() {
                let found = "neither a file nor a folder, but a link to nothing, a device or a pipe";
                return Err(TextError::missing(&path, found, "Take it out of the folder"));
            }
        }
    }
    files.sort_unstable();
    if files.is_empty() {
        return Err(TextError::missing(path, "the folder holds no files", "Put UTF-8 text files into it"));
    }
    Ok(files)
}

/// Reads a UTF-8 text file. A byte-order mark is removed; nothing else is changed.
///
/// # Errors
/// Returns [`TextError::File`], and the errors of [`utf8`].
pub fn read_text(path: &Path) -> Result<String, TextError> {
    let bytes = disk::read(path).map_err(|e| FileError::new("read", path, e))?;
    Ok(utf8(path, 0, &bytes)?.to_owned())
}

/// Returns `bytes`, found at byte `offset` of a file, as text, without a byte-order mark at the file's beginning.
///
/// # Errors
/// Returns [`TextError::Foreign`], [`TextError::Binary`] (a NUL byte) or [`TextError::NotUtf8`], with the offset in the file.
pub fn utf8<'a>(path: &Path, offset: usize, bytes: &'a [u8]) -> Result<&'a str, TextError> {
    if let Some((what, command)) = foreign(bytes).filter(|_| offset == 0) {
        return Err(TextError::Foreign { path: path.to_owned(), what, command });
    }
    if let Some(at) = bytes.iter().position(|&b| b == 0) {
        return Err(TextError::Binary { path: path.to_owned(), offset: offset + at });
    }
    let text = std::str::from_utf8(bytes).map_err(|error| {
        let at = error.valid_up_to();
        TextError::NotUtf8 { path: path.to_owned(), offset: offset + at, byte: bytes[at] }
    })?;
    Ok(if offset == 0 { text.strip_prefix('\u{feff}').unwrap_or(text) } else { text })
}

/// Reads the files of a corpus one after another, each by [`read_text`] and [`strip_gutenberg`], and calls `document` with its
/// path and text.
///
/// # Errors
/// Returns the errors of [`corpus_files`], [`read_text`] and `document`, and [`TextError::Empty`] if all files are empty or white
/// space.
pub fn each_document<E: From<TextError>>(path: &Path, mut document: impl FnMut(&Path, &str) -> Result<(), E>) -> Result<(), E> {
    let mut blank = true;
    for file in corpus_files(path)? {
        let raw = read_text(&file)?;
        let text = strip_gutenberg(&raw);
        blank &= text.trim().is_empty();
        document(&file, &text)?;
    }
    if blank { Err(TextError::Empty { path: path.to_owned() }.into()) } else { Ok(()) }
}

/// The meaning of a line of a Project Gutenberg file for the lines after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Marker {
    /// `*** START OF THIS PROJECT GUTENBERG EBOOK …`, or the end of the older "small print".
    Start,
    /// `*** END OF THE PROJECT GUTENBERG EBOOK …`.
    End,
    /// `End of Project Gutenberg's …`: the notice a few lines before the end.
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

/// Returns the text between a Project Gutenberg file's start and end markers, with `\r\n` as `\n` and the blank lines at both
/// ends removed. Several books in one text are each stripped. A text without markers is returned unchanged, byte for byte.
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
        // A notice far from any end belongs to the book.
        let far = format!("*** END OF THE PROJECT GUTENBERG EBOOK X ***{}", "\n");
        let text = format!("End of Project Gutenberg is discussed.\n{}{far}", "x\n".repeat(20));
        assert_eq!(strip_gutenberg(&text), format!("End of Project Gutenberg is discussed.\n{}", "x\n".repeat(20)));
    }

    fn texts(path: &Path) -> Result<Vec<String>, TextError> {
        let mut texts = Vec::new();
        each_document(path, |_, text| {
            texts.push(text.to_owned());
            Ok::<_, TextError>(())
        })?;
        Ok(texts)
    }

    #[test]
    fn folders_in_sorted_order() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("b")).unwrap();
        for (name, text) in [("c.txt", "three"), ("a.txt", "\u{feff}one"), ("b/x.txt", "two"), (".hidden", "\0")] {
            fs::write(dir.path().join(name), text).unwrap();
        }
        assert_eq!(texts(dir.path()).unwrap(), ["one", "two", "three"]);
        assert_eq!(texts(&dir.path().join("c.txt")).unwrap(), ["three"]);
    }

    #[test]
    fn bad_corpora() {
        let dir = tempfile::tempdir().unwrap();
        let message = |path: &Path| texts(path).unwrap_err().to_string();
        assert!(message(&dir.path().join("none")).contains("check the spelling"));
        assert!(message(dir.path()).contains("holds no files"));
        #[cfg(unix)]
        {
            assert!(message(Path::new("/dev/zero")).contains("neither a file nor a folder"));
            // Within a folder, too, nothing is skipped in silence.
            let link = dir.path().join("link.txt");
            std::os::unix::fs::symlink(dir.path().join("none"), &link).unwrap();
            assert!(message(dir.path()).contains("link.txt") && message(dir.path()).contains("a link to nothing"));
            fs::remove_file(link).unwrap();
        }
        let file = dir.path().join("f.txt");
        let error = |bytes: &[u8]| {
            fs::write(&file, bytes).unwrap();
            texts(dir.path()).unwrap_err()
        };
        for blank in [error(b""), error(b" \n")] {
            assert!(matches!(&blank, TextError::Empty { path } if path == dir.path()), "{blank}");
        }
        for (bytes, words) in [
            (&b"\x1f\x8b\x08\0"[..], "f.txt: expected text in UTF-8, found a file packed by gzip. Convert it: gzip -d"),
            (b"\xff\xfea\0", "found UTF-16. Convert it: iconv -f UTF-16 -t UTF-8"),
            (b"PK\x03\x04", "found a zip archive"),
        ] {
            let found = error(bytes).to_string();
            assert!(found.contains(words), "{found}");
        }
        let binary = error(b"abc\0d");
        assert!(matches!(&binary, TextError::Binary { path, offset: 3 } if *path == file), "{binary}");
        let latin = error(b"caf\xe9 au lait");
        assert!(matches!(&latin, TextError::NotUtf8 { path, offset: 3, byte: 0xe9 } if *path == file), "{latin}");
    }
}
