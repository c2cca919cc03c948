//! Several files in one input, each preceded by a line `%%% NAME`.

use std::io;

const MARK: &[u8] = b"%%% ";

/// Splits an input into its files, by name; the text before the first file has an empty name.
pub fn split(input: &[u8]) -> Vec<(String, &[u8])> {
    let mut files: Vec<(String, &[u8])> = vec![(String::new(), input)];
    let mut at = 0;
    while let Some(found) = input[at..].windows(MARK.len()).position(|window| window == MARK) {
        let mark = at + found;
        at = mark + MARK.len();
        if mark > 0 && input[mark - 1] != b'\n' {
            continue;
        }
        let rest = &input[at..];
        let end = rest.iter().position(|&byte| byte == b'\n').unwrap_or(rest.len());
        if let Some((_, before)) = files.last_mut() {
            let cut = before.len() - (input.len() - mark);
            *before = &before[..cut.saturating_sub(1)]; // without the line break before the mark
        }
        files.push((String::from_utf8_lossy(&rest[..end]).into_owned(), rest.get(end + 1..).unwrap_or_default()));
        at += end;
    }
    files
}

/// Joins files into an input that [`split`] splits into the same files.
pub fn join<N: AsRef<str>>(files: &[(N, Vec<u8>)]) -> Vec<u8> {
    let file = |(name, bytes): &(N, Vec<u8>)| [MARK, name.as_ref().as_bytes(), b"\n", bytes].concat();
    files.iter().map(file).collect::<Vec<_>>().join(&b'\n')
}

/// Returns the bytes of the first file of this name, or the error of a missing file.
pub fn find<'a>(files: &[(String, &'a [u8])], name: &str) -> io::Result<&'a [u8]> {
    let named = files.iter().find(|(found, _)| found == name && !name.is_empty());
    named.map(|(_, bytes)| *bytes).ok_or_else(|| io::ErrorKind::NotFound.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn joined_files_are_split_again() {
        let files = [("a/b.txt", b"one\n".to_vec()), ("c", Vec::new()), ("d", b"x %%% y".to_vec())];
        let input = join(&files);
        let found: Vec<_> = split(&input).into_iter().skip(1).map(|(name, bytes)| (name, bytes.to_vec())).collect();
        assert_eq!(found, files.map(|(name, bytes)| (name.to_owned(), bytes)));
        assert_eq!(find(&split(&input), "d").unwrap(), b"x %%% y");
        for (input, last) in [(&b""[..], ""), (b"x", "x"), (b"%%% ", ""), (b"%%% a", ""), (b"\n%%% a\n%%% b\nc", "c")] {
            assert_eq!(split(input).last().unwrap().1, last.as_bytes(), "{input:?}");
        }
    }
}
