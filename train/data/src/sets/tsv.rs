//! GLUE's table format: fields separated by tabs.
//!
//! There is no quoting (except in [QQP](super::qqp)): a bare `"` is a character of the text. A file may end its lines with CR LF,
//! lack the end of the last line, and have blank lines at its end. A blank line elsewhere is an error.

use super::error::{SetError, quote};
use super::file::SetFile;
use super::kinds::{Label, Split};
use super::location::Location;
use super::task::{Answer, Example, Input, Loaded, Task};
use std::borrow::Cow;

/// The label for annotators without a majority, and the reason for skipping such rows.
pub(super) const UNDECIDED: (&str, &str) = ("-", "the annotators had no majority (label `-`)");
/// The labels of an unlabelled row in a test set.
pub(super) const UNLABELLED: [&str; 2] = ["", "-1"];
/// The largest number of lines after the first in a quoted text.
const MOST_LINES: usize = 8;
const TORN: &str = "lines with fewer columns than the header: a line break inside a text splits its row";

/// The format of the labels in a table.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Written {
    /// The names of the classes.
    Words,
    /// The indices of the classes, from 0.
    Numbers,
    /// Scores.
    Scores,
}

impl Written {
    /// Parses the label in `text`.
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

    /// Describes a valid label, in words.
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

/// The columns of a table, and the permitted deviations of its rows.
pub(super) struct Columns {
    /// The names of all columns, for a file without a header.
    pub names: Option<&'static [&'static str]>,
    /// The columns that form the id, joined by `-`. If the header lacks them, the id is the row number from 0.
    pub id: &'static [&'static str],
    /// The columns of the one or two texts.
    pub texts: &'static [&'static str],
    /// The column of the label, which only test sets may lack.
    pub label: &'static str,
    /// The format of the label.
    pub written: Written,
    /// Columns that are not read, but distinguish this data set from similar ones. Without marks, an unlabelled file must have
    /// only the id and the texts, which distinguishes it from similar ones with marks.
    pub marks: &'static [&'static str],
    /// Whether a row may have more labels, one per annotator, than the header has columns for. The gold label, the header's last
    /// column, is then the row's last field. Undecided rows are skipped.
    pub wide: bool,
    /// Whether a wide row may have fewer fields than the header, down to its texts and one label, since not every row has five
    /// annotators.
    pub narrow: bool,
    /// Whether a row of a test set may lack its last field, the label.
    pub short: bool,
    /// Whether a row may have more fields than there are names; the additional fields are not read.
    pub longer: bool,
    /// Whether rows with too few fields are skipped, up to ten or one in a hundred.
    pub torn: bool,
    /// Whether a field may be quoted, with each `"` of its text doubled, and may then contain tabs and line breaks.
    pub quoted: bool,
}

impl Columns {
    /// GLUE's most common table.
    pub const GLUE: Columns = Columns {
        names: None,
        id: &["index"],
        texts: &["sentence1", "sentence2"],
        label: "label",
        written: Written::Words,
        marks: &[],
        wide: false,
        narrow: false,
        short: false,
        longer: false,
        torn: false,
        quoted: false,
    };
}

/// The positions of the columns in one file.
struct Layout {
    names: Vec<String>,
    id: Vec<usize>,
    texts: Vec<usize>,
    label: Option<usize>,
}

impl Layout {
    /// Finds the columns by name in the fields of the header.
    fn of<N: AsRef<str>>(task: &Task, file: &SetFile, split: Split, columns: &Columns, names: &[N]) -> Result<Self, SetError> {
        let names: Vec<&str> = names.iter().map(|name| name.as_ref().trim()).collect();
        let find = |name: &&str| names.iter().position(|found| found == name);
        let label = find(&columns.label);
        let needed = columns.marks.iter().chain(columns.texts).chain((!split.is_test()).then_some(&columns.label));
        let own = |name: &&str| columns.id.iter().chain(columns.texts).any(|own| name == own);
        let missing = needed.clone().any(|name| find(name).is_none());
        let foreign = !missing && label.is_none() && columns.marks.is_empty() && !names.iter().all(own);
        if missing || foreign {
            let these = needed.copied().collect::<Vec<_>>().join(", ");
            let alone = if foreign { " and no texts but these" } else { "" };
            let expected = format!("a header with the columns {these}{alone}");
            return Err(file.malformed((1, 1), expected, quote(&names.join("\t")), wrong_folder(task)));
        }
        Ok(Layout {
            names: names.iter().map(|&name| name.to_owned()).collect(),
            id: columns.id.iter().map(find).collect::<Option<_>>().unwrap_or_default(),
            texts: columns.texts.iter().filter_map(find).collect(),
            label,
        })
    }
}

/// The number of torn rows that is always accepted.
const FEW: usize = 10;

/// A row of a table below its header, with its position.
struct Row<'a> {
    task: &'a Task,
    file: &'a SetFile,
    split: Split,
    columns: &'a Columns,
    layout: &'a Layout,
    /// The number of its first line.
    number: usize,
    /// The fields; empty for a blank line.
    fields: Vec<Cow<'a, str>>,
}

impl Row<'_> {
    fn wrong_width(&self) -> SetError {
        let (found, width) = (self.fields.len(), self.layout.names.len());
        let expected = format!("{width} columns separated by tabs ({})", self.layout.names.join(", "));
        let what = if found == 0 { "a blank line".into() } else { found.to_string() };
        self.file.malformed((self.number, found.min(width) + 1), expected, what, wrong_folder(self.task))
    }

    /// Returns whether the row has too few fields, in a file whose torn rows are skipped.
    ///
    /// # Errors
    /// Returns an error if the row has fewer or more fields than this table allows.
    fn is_torn(&self) -> Result<bool, SetError> {
        let (found, width) = (self.fields.len(), self.layout.names.len());
        let labelled = self.layout.label.is_some();
        let least = match self.columns {
            columns if columns.narrow && labelled => {
                self.layout.texts.iter().chain(&self.layout.id).max().map_or(width, |last| last + 2)
            }
            columns if columns.short && self.split.is_test() => width - 1,
            _ => width,
        };
        let too_many = found > width && !(self.columns.wide && labelled) && !self.columns.longer;
        match found < width && self.columns.torn {
            true => Ok(true),
            false if found < least || too_many => Err(self.wrong_width()),
            false => Ok(false),
        }
    }

    /// Returns the example with row number `row` from 0, or `None` if the annotators were undecided. In a row of another width
    /// than the header, all fields after the texts must be labels, so a tab in a text is an error.
    fn example(&self, row: usize) -> Result<Option<Example>, SetError> {
        let (fields, layout) = (&self.fields, self.layout);
        let label = match layout.label.map(|named| self.gold(named)).transpose()? {
            Some((_, text)) if self.columns.wide && text == UNDECIDED.0 => return Ok(None),
            Some((_, text)) if self.split.is_test() && UNLABELLED.contains(&text) => None,
            Some((place, text)) => Some(self.columns.written.parse(self.task, text).ok_or_else(|| self.no_label(place, text))?),
            None => None,
        };
        let id = match &layout.id[..] {
            [] => row.to_string(),
            id => id.iter().map(|&place| fields[place].trim()).collect::<Vec<_>>().join("-"),
        };
        let input = match layout.texts[..] {
            [a, b] => Input::Pair(fields[a].to_string(), fields[b].to_string()),
            _ => Input::One(layout.texts.iter().map(|&place| &*fields[place]).collect()),
        };
        Ok(Some(Example { id, input, label, group: None }))
    }

    /// Returns the position and text of the label, whose column in the header is `named`. In a wide row, returns the first field
    /// that is not a label, if any.
    fn gold(&self, named: usize) -> Result<(usize, &str), SetError> {
        let (fields, written) = (&self.fields, self.columns.written);
        if self.columns.short && named == fields.len() {
            return Ok((named, UNLABELLED[0]));
        }
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
        self.file.malformed((self.number, place + 1), expected, quote(found), remedy)
    }
}

/// Reads the table of a split in GLUE's folder.
pub(super) fn glue(task: &Task, folder: &Location<'_>, split: Split, columns: &Columns) -> Result<Loaded, SetError> {
    read(task, &folder.join(format!("{split}.tsv")), split, columns)
}

/// Reads a table.
pub(super) fn read(task: &Task, place: &Location<'_>, split: Split, columns: &Columns) -> Result<Loaded, SetError> {
    let file = &SetFile::read(task, place)?;
    let mut loaded = Loaded::of(file);
    let mut layout = columns.names.map(|names| Layout::of(task, file, split, columns, names)).transpose()?;
    let (mut rows, mut torn, mut first_torn) = (0, 0, None);
    let mut lines = file.lines();
    while let Some((number, line)) = lines.next() {
        let width = layout.as_ref().map_or(0, |layout| layout.names.len());
        let fields = match () {
            () if line.is_empty() => Vec::new(),
            () if columns.quoted => joined(line, &mut lines, width),
            () => line.split('\t').map(Cow::Borrowed).collect(),
        };
        let Some(layout) = &layout else {
            layout = Some(Layout::of(task, file, split, columns, &fields)?);
            continue;
        };
        rows += usize::from(!line.is_empty());
        let row = Row { task, file, split, columns, layout, number, fields };
        if row.is_torn()? {
            torn += 1;
            first_torn.get_or_insert_with(|| row.wrong_width()); // built once: the error searches the whole file
            loaded.drop_row(TORN);
            continue;
        }
        match row.example(rows - 1)? {
            Some(example) => loaded.examples.push(example),
            None => loaded.drop_row(UNDECIDED.1),
        }
    }
    match first_torn {
        Some(error) if torn > FEW.max(rows / 100) => Err(error),
        _ => Ok(loaded),
    }
}

/// Returns the fields of a row whose quoted fields may contain line breaks. Further lines are joined if the result has `width`
/// fields. If quotes do not give this width, but tabs alone do, quotes are characters.
fn joined<'t>(line: &'t str, rest: &mut (impl Iterator<Item = (usize, &'t str)> + Clone), width: usize) -> Vec<Cow<'t, str>> {
    let (fields, open) = unquoted(line);
    if fields.len() != width && line.split('\t').count() == width {
        return line.split('\t').map(Cow::Borrowed).collect();
    }
    if !open || fields.len() >= width {
        return fields;
    }
    let mut whole = line.to_owned();
    for (taken, (_, next)) in (0..MOST_LINES).zip(rest.clone()) {
        whole.push('\n');
        whole.push_str(next);
        if !next.contains('"') {
            continue;
        }
        let (fields, open) = unquoted(&whole);
        if !open && fields.len() == width {
            rest.nth(taken);
            return fields.into_iter().map(|field| Cow::Owned(field.into_owned())).collect();
        }
    }
    fields
}

/// Returns the fields of a row without their quotes, and whether a quote is still open at its end. A field that begins with a
/// quote but does not end with one, or contains a quote that is not doubled, is kept unchanged.
fn unquoted(row: &str) -> (Vec<Cow<'_, str>>, bool) {
    let (mut fields, mut rest, mut open) = (Vec::new(), Some(row), false);
    while let Some(text) = rest {
        let (field, after) = match quoted(text) {
            Quoted::Closed(end) if text[1..end].contains('"') => {
                (Cow::Owned(text[1..end].replace("\"\"", "\"")), &text[end + 1..])
            }
            Quoted::Closed(end) => (Cow::Borrowed(&text[1..end]), &text[end + 1..]),
            other => {
                open |= matches!(other, Quoted::Open);
                let (field, after) = text.split_at(text.find('\t').unwrap_or(text.len()));
                (Cow::Borrowed(field), after)
            }
        };
        fields.push(field);
        rest = after.strip_prefix('\t');
    }
    (fields, open)
}

/// The quoting at the beginning of a text.
enum Quoted {
    /// A quoted field, with the byte offset of its closing quote.
    Closed(usize),
    /// A quote that is not closed.
    Open,
    /// A field that is not quoted.
    No,
}

fn quoted(text: &str) -> Quoted {
    let Some(inner) = text.strip_prefix('"') else { return Quoted::No };
    let mut quotes = inner.match_indices('"').map(|(at, _)| at + 1);
    while let Some(at) = quotes.next() {
        match text[at + 1..].chars().next() {
            None | Some('\t') => return Quoted::Closed(at),
            Some('"') => drop(quotes.next()),
            Some(_) => return Quoted::No,
        }
    }
    Quoted::Open
}

/// Returns the remedy for a file of another data set.
pub(super) fn wrong_folder(task: &Task) -> String {
    format!("Check the file, and that the folder is {}'s: it must hold {}", task.title, task.folder)
}

#[cfg(test)]
mod tests {
    use super::super::sst2::SST2;
    use super::super::testing::{folder, load, refused};
    use super::*;

    /// The table has no id column: the id is the row number.
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
    fn a_device_in_place_of_a_file_is_not_read() {
        let folder = folder(&[]);
        std::os::unix::fs::symlink("/dev/zero", folder.path().join("dev.tsv")).unwrap();
        let message = SST2.load(folder.path(), Split::Dev).unwrap_err().to_string();
        assert!(message.contains("dev.tsv: expected a plain file, found a pipe, socket or device"), "{message}");
    }

    #[test]
    fn columns_are_found_by_name() {
        assert_eq!(load(&SST2, &[("dev.tsv", "label\tnotes\tsentence\n1\tx\tfine")], Split::Dev), ["0: fine = 1"]);
    }

    /// Only QQP's file is quoted.
    #[test]
    fn quotes_in_other_tables_are_literal() {
        let rows = "sentence\tlabel\n\"so it goes\"\t1\n\"and on\t0\nit goes\"\t1\n";
        let expected = ["0: \"so it goes\" = 1", "1: \"and on = 0", "2: it goes\" = 1"];
        assert_eq!(load(&SST2, &[("dev.tsv", rows)], Split::Dev), expected);
    }

    /// Lines are joined only after an open quote, and only if the result has the expected width.
    #[test]
    fn lines_are_joined_only_into_a_complete_row() {
        let joined = |line, rest: &[&'static str], width| {
            let mut rest = rest.iter().copied().enumerate();
            let fields: Vec<String> = joined(line, &mut rest, width).into_iter().map(Cow::into_owned).collect();
            (fields.join("|"), rest.len())
        };
        assert_eq!(joined("a\t\"b", &["c\"\td"], 3), ("a|b\nc|d".to_owned(), 0));
        assert_eq!(joined("a\t\"b", &["c", "d\"\te"], 3), ("a|b\nc\nd|e".to_owned(), 0));
        assert_eq!(joined("a\t\"b", &["c\""], 3), ("a|\"b".to_owned(), 1), "closed, but of another width");
        assert_eq!(joined("a\t\"b", &["c\""], 2), ("a|\"b".to_owned(), 1), "as wide as it should be already");
        assert_eq!(joined("a", &["\"b\"\tc"], 2), ("a".to_owned(), 1), "nothing is open");
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
            ("sentence\tlabel\n", "SST-2, split `dev`: expected at least one row, found none (skipped: 0)"),
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
    fn a_missing_file_error_lists_the_expected_files() {
        let words = "train.tsv: there is no such file. The folder of SST-2 must hold `train.tsv`";
        refused(&SST2, &[], Split::Train, words);
    }
}
