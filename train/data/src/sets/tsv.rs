//! Text files by lines, and GLUE's kind of table: tabs between fields, and nothing else.
//!
//! There is no quoting: a bare `"` is a character of the text. A file may open with a byte order mark, end its lines with
//! CR LF, lack the end of the last line, and have blank lines at its end; a blank line elsewhere is an error.

use std::path::Path;
use std::{fs, io};

use super::error::{SetError, quote};
use super::task::{Answer, Example, Input, Label, Loaded, Split, Task};

/// The label where annotators found no majority, and why such rows are passed over.
pub(super) const UNDECIDED: (&str, &str) = ("-", "the annotators had no majority (label `-`)");
const TORN: &str = "lines with fewer columns than the header: a line break inside a text tears its row";

/// Reads a file that ends: a pipe could keep its reader waiting for ever.
fn bytes(path: &Path) -> io::Result<Vec<u8>> {
    let found = path.metadata()?;
    match found.is_file() || found.is_dir() {
        true => fs::read(path),
        false => Err(io::Error::new(io::ErrorKind::InvalidInput, "expected a plain file, found a pipe, socket or device")),
    }
}

/// The lines of a text, numbered from 1, without their ends. Blank lines at the end of the text are passed over.
pub(super) fn lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let lines = text.trim_end_matches(['\r', '\n']).split_terminator('\n');
    (1..).zip(lines.map(|line| line.strip_suffix('\r').unwrap_or(line)))
}

/// A whole file as text, without its byte order mark.
pub(super) fn text(task: &Task, path: &Path) -> Result<String, SetError> {
    let bytes = bytes(path).map_err(|cause| SetError::io(task, path, "file", cause))?;
    let bytes = bytes.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(&bytes);
    let text = std::str::from_utf8(bytes).map_err(|error| {
        let (sound, rest) = bytes.split_at(error.valid_up_to());
        let at = place(&String::from_utf8_lossy(sound), 1);
        let found = format!("the byte 0x{:02X} as character {} of the line", rest[0], at.1);
        SetError::malformed(path, at, "text in UTF-8", found, "Download the file again, or convert it to UTF-8")
    })?;
    Ok(text.to_owned())
}

/// Line and column of the character after `text`, which begins on line `first`.
pub(super) fn place(text: &str, first: usize) -> (usize, usize) {
    let last = text.rsplit('\n').next().unwrap_or_default();
    (first + text.matches('\n').count(), last.chars().count() + 1)
}

/// How the labels of a table are written.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Written {
    /// As the names of the classes.
    Words,
    /// As the places of the classes, from 0.
    Numbers,
    /// As scores.
    Scores,
}

impl Written {
    /// The label that `text` stands for.
    pub(super) fn parse(self, task: &Task, text: &str) -> Option<Label> {
        let text = text.trim();
        match (self, task.answer) {
            (Written::Words, Answer::Classes(names)) => names.iter().position(|&name| name == text).map(Label::Class),
            (Written::Numbers, Answer::Classes(names)) => (0..names.len()).find(|k| k.to_string() == text).map(Label::Class),
            (Written::Scores, Answer::Score { max }) => {
                text.parse().ok().filter(|score| (0.0..=max as f64).contains(score)).map(Label::Score)
            }
            _ => None,
        }
    }

    /// What a label must be, in words.
    pub(super) fn expected(self, task: &Task) -> String {
        match (self, task.answer) {
            (Written::Words, Answer::Classes(names)) => format!("one of the labels {}", names.join(", ")),
            (Written::Scores, Answer::Score { max }) => format!("a score from 0 to {max}"),
            _ => {
                let numbers: Vec<_> = (0..task.answers()).map(|k| k.to_string()).collect();
                format!("one of the labels {}", numbers.join(", "))
            }
        }
    }
}

/// The columns of a table.
pub(super) struct Columns {
    /// The names of all columns, for a file without a header.
    pub names: Option<&'static [&'static str]>,
    /// The columns that make the id, joined by `-`. Where the header lacks them, the row's number from 0 is the id.
    pub id: &'static [&'static str],
    /// The one text, or the two.
    pub texts: &'static [&'static str],
    /// The label, which only test sets may lack.
    pub label: &'static str,
    /// How it is written.
    pub written: Written,
    /// Columns that are not read, but tell this data set from similar ones. Without such columns, a file without labels has the
    /// id and the texts alone: that tells it from similar ones with marks.
    pub marks: &'static [&'static str],
    /// A row may have more labels, one per annotator, than the header has columns for: then the gold one, the header's last column,
    /// is the row's last field. Undecided rows are passed over.
    pub wide: bool,
    /// A wide row may have fewer fields than the header, down to its texts and a label: not every one has five annotators.
    pub narrow: bool,
    /// A row may have more fields than there are names; the rest is not read.
    pub longer: bool,
    /// Rows with too few fields are passed over, while they are few: ten, or one in a hundred.
    pub torn: bool,
}

impl Columns {
    /// GLUE's commonest table.
    pub const GLUE: Columns = Columns {
        names: None,
        id: &["index"],
        texts: &["sentence1", "sentence2"],
        label: "label",
        written: Written::Words,
        marks: &[],
        wide: false,
        narrow: false,
        longer: false,
        torn: false,
    };
}

/// Where the columns are in one file.
struct Layout {
    names: Vec<String>,
    id: Vec<usize>,
    texts: Vec<usize>,
    label: Option<usize>,
}

impl Layout {
    /// Finds the columns by their names, given as the fields of the header.
    fn of(task: &Task, path: &Path, split: Split, columns: &Columns, names: &[&str]) -> Result<Self, SetError> {
        let find = |name: &&str| names.iter().position(|found| found.trim() == *name);
        let label = find(&columns.label);
        let needed = columns.marks.iter().chain(columns.texts).chain((!split.is_test()).then_some(&columns.label));
        let own = |name: &&str| columns.id.iter().chain(columns.texts).any(|own| name.trim() == *own);
        let missing = needed.clone().any(|name| find(name).is_none());
        let foreign = !missing && label.is_none() && columns.marks.is_empty() && !names.iter().all(own);
        if missing || foreign {
            let these = needed.copied().collect::<Vec<_>>().join(", ");
            let alone = if foreign { " and no texts but these" } else { "" };
            let expected = format!("a header with the columns {these}{alone}");
            return Err(SetError::malformed(path, (1, 1), expected, quote(&names.join("\t")), wrong_folder(task)));
        }
        Ok(Layout {
            names: names.iter().map(|name| name.trim().to_owned()).collect(),
            id: columns.id.iter().map(find).collect::<Option<_>>().unwrap_or_default(),
            texts: columns.texts.iter().filter_map(find).collect(),
            label,
        })
    }
}

/// Up to this many torn rows do not point to another kind of file.
const FEW: usize = 10;

/// A line of a table below its header, at its place.
struct Line<'a> {
    task: &'a Task,
    path: &'a Path,
    columns: &'a Columns,
    layout: &'a Layout,
    number: usize,
    /// Empty for a blank line.
    fields: Vec<&'a str>,
}

impl Line<'_> {
    fn wrong_width(&self) -> SetError {
        let (found, width) = (self.fields.len(), self.layout.names.len());
        let expected = format!("{width} columns separated by tabs ({})", self.layout.names.join(", "));
        let what = if found == 0 { "a blank line".into() } else { found.to_string() };
        SetError::malformed(self.path, (self.number, found.min(width) + 1), expected, what, wrong_folder(self.task))
    }

    /// Does it have fewer fields than it should, in a file whose torn lines are passed over?
    ///
    /// # Errors
    /// Fewer or more fields than a row of this table may have.
    fn is_torn(&self) -> Result<bool, SetError> {
        let (found, width) = (self.fields.len(), self.layout.names.len());
        let labelled = self.layout.label.is_some();
        let least = match self.columns.narrow && labelled {
            true => self.layout.texts.iter().chain(&self.layout.id).max().map_or(width, |last| last + 2),
            false => width,
        };
        let too_many = found > width && !(self.columns.wide && labelled) && !self.columns.longer;
        match found < width && self.columns.torn {
            true => Ok(true),
            false if found < least || too_many => Err(self.wrong_width()),
            false => Ok(false),
        }
    }

    /// The example, the file's `row`th from 0, unless the annotators were undecided. In a row of another width than the header,
    /// what follows the texts must be labels: a tab in a text is an error.
    fn example(&self, row: usize) -> Result<Option<Example>, SetError> {
        let (fields, layout) = (&self.fields, self.layout);
        let label = match layout.label.map(|named| self.gold(named)).transpose()? {
            Some((_, text)) if self.columns.wide && text == UNDECIDED.0 => return Ok(None),
            Some((place, text)) => Some(self.columns.written.parse(self.task, text).ok_or_else(|| self.no_label(place, text))?),
            None => None,
        };
        let id = match &layout.id[..] {
            [] => row.to_string(),
            id => id.iter().map(|&place| fields[place].trim()).collect::<Vec<_>>().join("-"),
        };
        let input = match layout.texts[..] {
            [a, b] => Input::Pair(fields[a].into(), fields[b].into()),
            _ => Input::One(layout.texts.iter().map(|&place| fields[place]).collect()),
        };
        Ok(Some(Example { id, input, label, group: None }))
    }

    /// Place and text of the label, whose column the header has at `named`; in a wide row those of the first field that is not a
    /// label, if any.
    fn gold(&self, named: usize) -> Result<(usize, &str), SetError> {
        let (fields, written) = (&self.fields, self.columns.written);
        let (last, first) = match self.columns.wide && fields.len() != self.layout.names.len() {
            true if named + 1 < self.layout.names.len() => return Err(self.wrong_width()),
            true => (fields.len() - 1, self.layout.texts.iter().max().map_or(0, |last| last + 1)),
            false => (named, named),
        };
        let is_label = |text: &str| text.is_empty() || text == UNDECIDED.0 || written.parse(self.task, text).is_some();
        let place = (first..last).find(|&at| !is_label(fields[at].trim())).unwrap_or(last);
        Ok((place, fields[place].trim()))
    }

    fn no_label(&self, place: usize, found: &str) -> SetError {
        let remedy = format!("Correct the row's `{}`, or check that the folder is {}'s", self.columns.label, self.task.title);
        let expected = self.columns.written.expected(self.task);
        SetError::malformed(self.path, (self.number, place + 1), expected, quote(found), remedy)
    }
}

/// Reads the table that GLUE's folders have for a split.
pub(super) fn glue(task: &Task, folder: &Path, split: Split, columns: &Columns) -> Result<Loaded, SetError> {
    read(task, &folder.join(format!("{split}.tsv")), split, columns)
}

/// Reads a table.
pub(super) fn read(task: &Task, path: &Path, split: Split, columns: &Columns) -> Result<Loaded, SetError> {
    let mut loaded = Loaded { files: vec![path.into()], ..Loaded::default() };
    let mut layout = columns.names.map(|names| Layout::of(task, path, split, columns, names)).transpose()?;
    let (mut rows, mut torn) = (0, Vec::new());
    for (number, line) in lines(&text(task, path)?) {
        let fields: Vec<&str> = if line.is_empty() { Vec::new() } else { line.split('\t').collect() };
        let Some(layout) = &layout else {
            layout = Some(Layout::of(task, path, split, columns, &fields)?);
            continue;
        };
        rows += usize::from(!line.is_empty());
        let line = Line { task, path, columns, layout, number, fields };
        if line.is_torn()? {
            torn.push(line.wrong_width());
            continue;
        }
        match line.example(rows - 1)? {
            Some(example) => loaded.examples.push(example),
            None => loaded.drop_row(UNDECIDED.1),
        }
    }
    torn.iter().for_each(|_| loaded.drop_row(TORN));
    match torn.len() > FEW.max(rows / 100) {
        true => Err(torn.remove(0)),
        false => Ok(loaded),
    }
}

/// What to do about a file that is another data set's.
pub(super) fn wrong_folder(task: &Task) -> String {
    format!("Check the file, and that the folder is {}'s: it must hold {}", task.title, task.folder)
}

#[cfg(test)]
mod tests {
    use super::super::sst2::SST2;
    use super::super::testing::{folder, load, refused};
    use super::*;

    /// The table has no column of ids: the id is the row's number.
    #[test]
    fn bare_quotes_byte_order_mark_and_every_line_end() {
        let rows = ["sentence\tlabel", "a \"bare quote \t1", "\"\t0", " \"whole\" \t1"];
        for (end, last) in [("\n", ""), ("\n", "\n"), ("\r\n", ""), ("\r\n", "\r\n"), ("\r\n", "\r"), ("\n", "\n\n\n")] {
            let file = format!("\u{feff}{}{last}", rows.join(end));
            let expected = ["0: a \"bare quote  = 1", "1: \" = 0", "2:  \"whole\"  = 1"];
            assert_eq!(load(&SST2, &[("dev.tsv", &file)], Split::Dev), expected);
        }
    }

    #[test]
    #[cfg(unix)]
    fn what_never_ends_is_not_read() {
        let folder = folder(&[]);
        std::os::unix::fs::symlink("/dev/zero", folder.path().join("dev.tsv")).unwrap();
        let message = SST2.load(folder.path(), Split::Dev).unwrap_err().to_string();
        assert!(message.contains("dev.tsv: expected a plain file, found a pipe, socket or device"), "{message}");
    }

    #[test]
    fn columns_are_found_by_name() {
        assert_eq!(load(&SST2, &[("dev.tsv", "label\tnotes\tsentence\n1\tx\tfine")], Split::Dev), ["0: fine = 1"]);
    }

    #[test]
    fn malformed_rows_are_named_with_line_and_column() {
        for (content, words) in [
            (
                "sentence\tlabel\nfine\t1\n\nbad\t0",
                "dev.tsv, line 3, column 1: expected 2 columns separated by tabs (sentence, label), found a",
            ),
            ("sentence\tlabel\nfine", "line 2, column 2: expected 2 columns separated by tabs (sentence, label), found 1"),
            ("sentence\tlabel\nfine\t1\t1", "line 2, column 3: expected 2 columns separated by tabs (sentence, label), found 3"),
            ("sentence\tlabel\nfine\t1\nbad\t2", "line 3, column 2: expected one of the labels 0, 1, found `2`"),
            ("sentence\tlabel\nfine\t", "line 2, column 2: expected one of the labels 0, 1, found nothing"),
            ("sentence\nfine", "line 1, column 1: expected a header with the columns sentence, label, found `sentence`"),
            ("sentence\tlabel\n", "SST-2, split `dev`: expected at least one row, found none (passed over: 0)"),
            ("", "SST-2, split `dev`: expected at least one row, found none"),
        ] {
            refused(&SST2, &[("dev.tsv", content)], Split::Dev, words);
        }
    }

    #[test]
    fn bytes_that_are_not_text_are_named() {
        let folder = folder(&[]);
        std::fs::write(folder.path().join("dev.tsv"), b"sentence\tlabel\nna\xC3\xAFve \xFF\t1").unwrap();
        let found = SST2.load(folder.path(), Split::Dev).unwrap_err().to_string();
        assert!(found.contains("line 2, column 7: expected text in UTF-8, found the byte 0xFF"), "{found}");
    }

    #[test]
    fn a_missing_file_is_answered_with_what_the_folder_must_hold() {
        let words = "train.tsv: there is no such file. The folder of SST-2 must hold `train.tsv`";
        refused(&SST2, &[], Split::Train, words);
    }
}
