//! The shell commands in documents.

use std::fs;
use std::path::{Path, PathBuf};

/// A command that begins with `gradus` or `cargo`.
#[derive(Clone, Debug)]
pub struct Line {
    /// The file that contains the command, relative to the root of the repository.
    pub file: String,
    /// The command, without comments, pipes and redirections.
    pub text: String,
    /// Whether the command is in a code block, to be typed as it is. A command mentioned in prose may lack required arguments.
    pub alone: bool,
}

impl Line {
    /// Returns the command's words, split as by a shell.
    pub fn words(&self) -> Vec<String> {
        words(&self.text)
    }
}

/// Returns the root of the repository.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the root").to_owned()
}

/// Returns all commands of a program in the documents and in the headers of examples.
pub fn beginning_with(program: &str) -> Vec<Line> {
    let mut lines = Vec::new();
    for path in files(&root()) {
        let name = path.strip_prefix(root()).expect("below the root").to_string_lossy().into_owned();
        let text = fs::read_to_string(&path).unwrap_or_else(|e| panic!("{name}: {e}"));
        lines.extend(of(&name, &prose(&name, &text), program));
    }
    lines
}

/// Returns the commands of a program in one document.
pub fn of(file: &str, text: &str, program: &str) -> Vec<Line> {
    let line = |text: &str, alone| Line { file: file.to_owned(), text: shell(text), alone };
    let (mut lines, mut paragraphs) = (Vec::new(), String::new());
    let (mut fenced, mut rest) = (false, text.lines());
    while let Some(next) = rest.next() {
        if next.starts_with("```") {
            fenced = !fenced;
        } else if fenced || next.starts_with("    ") {
            let mut typed = next.trim().to_owned();
            while let Some(begun) = typed.strip_suffix('\\') {
                typed = format!("{} {}", begun.trim(), rest.next().unwrap_or_default().trim());
            }
            if typed.starts_with(&format!("{program} ")) || typed == program {
                lines.push(line(&typed, true));
            }
        } else {
            paragraphs += &format!("{}\n", next.trim());
        }
    }
    let quoted = paragraphs.split('`').skip(1).step_by(2).map(|code| code.split_whitespace().collect::<Vec<_>>().join(" "));
    lines.extend(quoted.filter(|code| code.starts_with(&format!("{program} "))).map(|code| line(&code, false)));
    lines
}

/// Returns the text of a document, or of the header comment of an example.
fn prose(name: &str, text: &str) -> String {
    let header = |mark: &str| -> String {
        let lines = text.lines().map_while(|line| line.strip_prefix(mark));
        lines.map(|line| format!("{}\n", line.strip_prefix(' ').unwrap_or(line))).collect()
    };
    match name.rsplit('.').next() {
        Some("rs") => header("//!"),
        Some("toml") => header("#"),
        _ => text.to_owned(),
    }
}

/// Returns the documents, and the files in folders of examples.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let entries = fs::read_dir(folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    for path in entries.map(|entry| entry.expect("an entry").path()) {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let is_example = folder.ends_with("examples") && (name.ends_with(".rs") || name.ends_with(".toml"));
        if path.is_dir() {
            let own = !name.starts_with('.') && !["target", "runs"].contains(&&*name) && !path.join("CACHEDIR.TAG").exists();
            found.extend(if own { files(&path) } else { Vec::new() });
        } else if name.ends_with(".md") || is_example {
            found.push(path);
        }
    }
    found.sort();
    found
}

/// Returns the part of a line before a comment, a pipe, a redirection or a second command.
fn shell(line: &str) -> String {
    let (mut kept, mut quoted) = (String::new(), false);
    let ends = |at: usize| [" #", " | ", " > ", " 2>", " && ", "; ", " …"].iter().any(|sign| line[at..].starts_with(sign));
    for (at, c) in line.char_indices() {
        if !quoted && ends(at) {
            break;
        }
        quoted ^= c == '"';
        kept.push(c);
    }
    kept.trim().to_owned()
}

/// Splits a line into words. A quoted text is one word.
pub fn words(line: &str) -> Vec<String> {
    let (mut words, mut word, mut quoted) = (Vec::new(), None::<String>, false);
    for c in line.chars() {
        match c {
            '"' => {
                quoted = !quoted;
                word.get_or_insert_default();
            }
            c if c.is_whitespace() && !quoted => words.extend(word.take()),
            c => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_in_a_document_are_extracted_with_their_words() {
        let page = "Say `gradus\nsystems` or\n\n    gradus a --text \"b  # c\" \\\n        --d   # e\n    cargo f\n\n```sh\ngradus g > h\n```\n";
        let found = of("page.md", page, "gradus");
        let found: Vec<_> = found.iter().map(|line| (line.words(), line.alone)).collect();
        let word = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        let whole = [word(&["gradus", "a", "--text", "b  # c", "--d"]), word(&["gradus", "g"])];
        assert_eq!(found, [(whole[0].clone(), true), (whole[1].clone(), true), (word(&["gradus", "systems"]), false)]);
        assert_eq!(prose("x.rs", "//! A\n//!\n//!     gradus b\nuse c;\n//! d\n"), "A\n\n    gradus b\n");
    }
}
