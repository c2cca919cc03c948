//! Reading of a corpus in bounded memory: files in blocks, blocks in pieces, each cut where the tokens do not change.

use std::io::Read;
use std::path::Path;

use gradus_io::disk;
use gradus_io::files::FileError;
use gradus_text::{Cut, read_text, strip_gutenberg, utf8};

use crate::error::DataError;

/// The largest file, in bytes, that is read whole and stripped of Project Gutenberg's licence. Larger files are read in blocks,
/// unchanged.
const WHOLE: u64 = 64 << 20;
/// The size of a block of a larger file, in bytes, and the limit to which the block grows until a line ends.
const BLOCK: usize = 8 << 20;
const LONGEST_BLOCK: usize = 64 << 20;
/// The size in bytes from which a piece ends at the next allowed cut; with [`Cut::Words`], at the next line end.
const PIECE: usize = 1 << 10;
/// The size in bytes from which a piece ends after the next word with [`Cut::Words`], if no line has ended before.
const LONGEST_LINE: usize = 64 << 10;

/// Calls `block` with each block of a file's text, in order. A block ends with a line, unless lines are longer than a block. If
/// `cut` allows only blanks, a block ends before a blank.
pub(crate) fn for_each_block(
    path: &Path,
    cut: Cut,
    mut block: impl FnMut(&str) -> Result<(), DataError>,
) -> Result<(), DataError> {
    let failed = |e| FileError::new("read", path, e);
    let file = disk::open_to_read(path).map_err(failed)?;
    if file.metadata().map_err(failed)?.len() <= WHOLE {
        return block(&strip_gutenberg(&read_text(path)?));
    }
    blocks(path, file, cut, [BLOCK, LONGEST_BLOCK], block)
}

fn blocks(
    path: &Path,
    mut file: impl Read,
    cut: Cut,
    [size, longest]: [usize; 2],
    mut block: impl FnMut(&str) -> Result<(), DataError>,
) -> Result<(), DataError> {
    let mut buffer = Vec::new();
    let mut offset = 0; // the offset in the file of the buffer's first byte
    loop {
        let before = buffer.len();
        let read = file.by_ref().take(size as u64).read_to_end(&mut buffer).map_err(|e| FileError::new("read", path, e))?;
        let end = read < size;
        let rule = if cut == Cut::Words { Cut::Lines } else { cut };
        let place = (before.max(1)..=buffer.len()).rev().find(|&at| rule.allows(&buffer, at));
        let cut = match place {
            _ if end => buffer.len(),
            Some(place) => place,
            None if buffer.len() < longest => continue,
            None => word_end(&buffer),
        };
        block(utf8(path, offset, &buffer[..cut])?)?;
        buffer.drain(..cut);
        offset += cut;
        if end {
            return Ok(());
        }
    }
}

/// Returns the offset after the last blank; without a blank, before the last character, which may be incomplete.
fn word_end(bytes: &[u8]) -> usize {
    let blank = bytes.iter().rposition(u8::is_ascii_whitespace).map(|i| i + 1);
    blank.or_else(|| bytes.iter().rposition(|&b| b & 0xC0 != 0x80).filter(|&i| i > 0)).unwrap_or(bytes.len())
}

/// Cuts a block at places that `cut` allows, into pieces of about a kilobyte. [`Cut::Words`] cuts after a line end if there is
/// one.
pub fn pieces(mut text: &str, cut: Cut) -> Vec<&str> {
    let mut pieces = Vec::with_capacity(text.len() / PIECE + 1);
    while !text.is_empty() {
        let (piece, rest) = text.split_at(piece_end(text.as_bytes(), cut));
        pieces.push(piece);
        text = rest;
    }
    pieces
}

fn piece_end(bytes: &[u8], cut: Cut) -> usize {
    let first = |rule: Cut, from: usize, to: usize| (from..=to.min(bytes.len())).find(|&at| rule.allows(bytes, at));
    let end = match cut {
        Cut::Words => first(Cut::Lines, PIECE, LONGEST_LINE).or_else(|| first(Cut::Words, LONGEST_LINE, usize::MAX)),
        Cut::Lines | Cut::Blanks | Cut::BlanksBut(_) => first(cut, PIECE, usize::MAX),
    };
    end.unwrap_or(bytes.len())
}

#[cfg(test)]
mod tests {
    use gradus_text::TextError;

    use super::*;

    fn collect(text: &[u8], size: usize, longest: usize) -> Result<Vec<String>, DataError> {
        let mut all = Vec::new();
        blocks(Path::new("file"), text, Cut::Words, [size, longest], |block| {
            all.push(block.to_owned());
            Ok(())
        })?;
        Ok(all)
    }

    #[test]
    fn blocks_end_with_lines_and_join_to_the_file() {
        let text = "\u{feff}one\ntwo zwei\nthrée\n\nfour".as_bytes();
        for size in 4..40 {
            let blocks = collect(text, size, 1000).unwrap();
            assert_eq!(blocks.concat().as_bytes(), &text[3..], "size {size}");
            assert!(blocks[..blocks.len() - 1].iter().all(|b| b.ends_with('\n')), "size {size}: {blocks:?}");
        }
        assert_eq!(collect("aé éa bbb".as_bytes(), 4, 4).unwrap(), ["aé ", "éa ", "bbb"], "no lines: after a word");
        assert_eq!(collect("日本語日本".as_bytes(), 4, 4).unwrap().concat(), "日本語日本", "no words: between characters");
    }

    #[test]
    fn invalid_bytes_are_located_in_the_file() {
        // The path, offset and byte of the error.
        let place = |text: &[u8]| match collect(text, 4, 4).unwrap_err() {
            DataError::Text(TextError::Binary { path, offset }) => (path, offset, 0),
            DataError::Text(TextError::NotUtf8 { path, offset, byte }) => (path, offset, byte),
            other => panic!("{other}"),
        };
        for (text, offset, byte) in [
            (&b"abc\nde\0f"[..], 6, 0),
            (b"abc\nde\nf\xe9g", 8, 0xe9),
            (b"\xff\xff\xff\xff\xff", 0, 0xff),
            (b"\x80\x80\x80\x80\x80", 0, 0x80),
        ] {
            assert_eq!(place(text), ("file".into(), offset, byte));
        }
    }

    #[test]
    fn pieces_end_with_lines_and_join_to_the_block() {
        let lines = "a line of some length, é\n".repeat(500);
        let cut = pieces(&lines, Cut::Words);
        assert_eq!(cut.concat(), lines);
        assert_eq!(cut.len(), 13, "500 lines of 26 bytes, 39 in a piece");
        assert!(cut.iter().all(|p| p.ends_with('\n') && p.len() < PIECE + 30));
        let (words, none) = ("word ".repeat(30_000), "é".repeat(70_000));
        let cut = pieces(&words, Cut::Words);
        assert_eq!(pieces(&words, Cut::Lines), [&words]);
        assert!(cut.len() == 3 && cut.concat() == words && cut.iter().all(|p| p.ends_with(' ')));
        assert_eq!(pieces(&none, Cut::Words), [&none]);
        assert!(pieces("", Cut::Words).is_empty());
    }

    #[test]
    fn text_is_cut_before_blanks() {
        let text = "some words\n  and\u{a0} more.\n\n".repeat(300);
        let cut = pieces(&text, Cut::Blanks);
        assert!(cut.concat() == text && cut.len() > 5, "{}", cut.len());
        assert!(cut[1..].iter().all(|piece| piece.starts_with(" words")), "{cut:?}");
        let mut blocks_of = Vec::new();
        blocks(Path::new("file"), text.as_bytes(), Cut::Blanks, [1000, 2000], |block| {
            blocks_of.push(block.to_owned());
            Ok(())
        })
        .unwrap();
        assert!(blocks_of.concat() == text && blocks_of[1..].iter().all(|block| block.starts_with(" words")));
    }

    #[test]
    fn large_files_are_read_block_by_block() {
        let folder = tempfile::tempdir().unwrap();
        let sizes = |text: &str| {
            let path = folder.path().join("text");
            std::fs::write(&path, text).unwrap();
            let mut all = Vec::new();
            for_each_block(&path, Cut::Words, |block| {
                all.push(block.len());
                Ok(())
            })
            .unwrap();
            all
        };
        let gutenberg =
            "Title\n*** START OF THE PROJECT GUTENBERG EBOOK X ***\nthe text\n*** END OF THE PROJECT GUTENBERG EBOOK X ***\n";
        let licence = gutenberg.len() - "the text\n".len();
        assert!(sizes(gutenberg)[0] <= gutenberg.len() - licence, "a small one whole, without its licence");
        // One line longer than a block, then short lines.
        let mebibyte = 1 << 20;
        let large = "word ".repeat(2 * mebibyte) + "\n" + &"a line\n".repeat(8 * mebibyte);
        let blocks = sizes(&large);
        assert_eq!(blocks.iter().sum::<usize>(), large.len());
        assert!((10 * mebibyte..17 * mebibyte).contains(&blocks[0]), "the long line is not cut: {blocks:?}");
        assert!(blocks.len() == 8 && blocks[1..].iter().all(|&size| size <= 9 * mebibyte), "{blocks:?}");
    }

    #[test]
    fn a_block_without_a_word_end_is_cut_at_a_character() {
        assert_eq!(word_end("aé é".as_bytes()), 4);
        assert_eq!(word_end("aéé".as_bytes()), 3, "before a character that may not be whole");
        assert_eq!(word_end(b"\xc3\x80\x80\x80"), 4, "none is begun after the first");
    }
}
