//! The format of a file that is not text in UTF-8, by its first bytes.

/// The first bytes, the format that begins with them, and the command that makes it readable.
const KINDS: [(&[u8], &str, &str); 7] = [
    (b"\xFF\xFE", "UTF-16", "iconv -f UTF-16 -t UTF-8"),
    (b"\xFE\xFF", "UTF-16", "iconv -f UTF-16 -t UTF-8"),
    (b"\x1F\x8B", "a file packed by gzip", "gzip -dc FILE > TEXT"),
    (b"PK\x03\x04", "a zip archive", "unzip"),
    (b"BZh", "a file packed by bzip2", "bzip2 -dc FILE > TEXT"),
    (b"\xFD7zXZ\0", "a file packed by xz", "xz -dc FILE > TEXT"),
    (b"\x28\xB5\x2F\xFD", "a file packed by zstd", "zstd -dc FILE > TEXT"),
];

/// Returns the format of a file with these first bytes, and the command that makes it readable; `None` if the format is unknown.
pub fn foreign(bytes: &[u8]) -> Option<(&'static str, &'static str)> {
    KINDS.into_iter().find(|(first, ..)| bytes.starts_with(first)).map(|(_, what, command)| (what, command))
}
