//! A strict walk over a TOML document that goes on after a fault, so that all of a file's faults are reported at once.
//!
//! Every `Section` method that reads a key gives a value even where the file has none or a wrong one; the fault is
//! recorded, and [`Document::finish`] turns any fault into an error before such a value can be used. Lines of all
//! fields read are kept by path (`weight[0].row[2].m`), for faults that are found later.

use std::cell::{OnceCell, RefCell};
use std::collections::HashMap;
use std::ops::Range;
use std::path::{Path, PathBuf};

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::diag::{BadInput, Fault};

/// Faults and lines of one document.
pub(super) struct Document {
    file: PathBuf,
    /// Offsets of the newlines, ascending: a table has a line a field, and counting them again for each is quadratic.
    newlines: Vec<usize>,
    faults: RefCell<Vec<Fault>>,
    lines: RefCell<Lines>,
}

/// Where each field stands, by path. They are noted as they are read, and sorted when a fault first asks for one.
#[derive(Clone, Debug, Default)]
pub(super) struct Lines {
    noted: Vec<(String, usize)>,
    sorted: OnceCell<HashMap<String, usize>>,
}

impl Lines {
    fn note(&mut self, path: String, line: usize) {
        self.noted.push((path, line));
    }

    /// The line of a field that was in the file.
    pub(super) fn of(&self, path: &str) -> Option<usize> {
        self.sorted.get_or_init(|| self.noted.iter().cloned().collect()).get(path).copied()
    }
}

impl Document {
    /// Parses a document.
    ///
    /// # Errors
    /// All syntax errors.
    pub(super) fn parse<'t>(file: &Path, text: &'t str) -> Result<(Self, Spanned<DeTable<'t>>), BadInput> {
        let (root, errors) = DeTable::parse_recoverable(text);
        let newlines = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n').map(|(offset, _)| offset);
        let document = Document {
            file: file.into(),
            newlines: newlines.collect(),
            faults: RefCell::default(),
            lines: RefCell::default(),
        };
        if errors.is_empty() {
            return Ok((document, root));
        }
        let faults = errors.iter().map(|error| Fault {
            file: file.into(),
            line: error.span().map(|span| document.line(span)),
            field: String::new(),
            message: error.message().to_owned(),
            help: "this is not TOML; see https://toml.io".to_owned(),
        });
        Err(BadInput(faults.collect()))
    }

    /// The section of the document's top level.
    pub(super) fn root<'d>(&'d self, table: &'d Spanned<DeTable<'d>>) -> Section<'d> {
        Section {
            document: self,
            table: table.get_ref(),
            path: String::new(),
            line: 1,
            asked: RefCell::default(),
        }
    }

    /// The lines, if there was no fault.
    ///
    /// # Errors
    /// All faults, in the order of their lines.
    pub(super) fn finish(self) -> Result<Lines, BadInput> {
        let mut faults = self.faults.into_inner();
        faults.sort_by_key(|fault| fault.line);
        if faults.is_empty() { Ok(self.lines.into_inner()) } else { Err(BadInput(faults)) }
    }

    /// The line, from 1, where something begins.
    pub(super) fn line(&self, span: Range<usize>) -> usize {
        1 + self.newlines.partition_point(|newline| *newline < span.start)
    }
}

/// One table of a document.
pub(super) struct Section<'d> {
    document: &'d Document,
    table: &'d DeTable<'d>,
    path: String,
    pub(super) line: usize,
    asked: RefCell<Vec<&'static str>>,
}

impl<'d> Section<'d> {
    /// The path of a field of this section.
    fn field(&self, key: &str) -> String {
        if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) }
    }

    /// Records a fault of a field.
    pub(super) fn fault(&self, key: &str, line: usize, message: impl Into<String>, help: impl Into<String>) {
        self.document.faults.borrow_mut().push(Fault {
            file: self.document.file.clone(),
            line: Some(line),
            field: self.field(key),
            message: message.into(),
            help: help.into(),
        });
    }

    fn wrong(&self, key: &str, line: usize, expected: &str, found: &DeValue<'_>) {
        let message = format!("expected {expected}, found {}", shown(found));
        self.fault(key, line, message, "restore the table or tune again");
    }

    fn find(&self, key: &'static str) -> Option<(&'d DeValue<'d>, usize)> {
        self.asked.borrow_mut().push(key);
        let value = self.table.get(key)?;
        let line = self.document.line(value.span());
        self.document.lines.borrow_mut().note(self.field(key), line);
        Some((value.get_ref(), line))
    }

    /// A value read by `read`, which says what it expected instead. `None` if the key is missing or wrong.
    pub(super) fn optional<T>(
        &self,
        key: &'static str,
        read: impl FnOnce(&'d DeValue<'d>) -> Result<T, String>,
    ) -> Option<T> {
        let (value, line) = self.find(key)?;
        match read(value) {
            Ok(value) => Some(value),
            Err(expected) => {
                self.wrong(key, line, &expected, value);
                None
            }
        }
    }

    /// As [`Section::optional`], and a missing key is a fault.
    pub(super) fn required<T>(
        &self,
        key: &'static str,
        read: impl FnOnce(&'d DeValue<'d>) -> Result<T, String>,
    ) -> Option<T> {
        let value = self.optional(key, read);
        if !self.table.contains_key(key) {
            self.fault(key, self.line, "missing", "every table has this key; restore it or tune again");
        }
        value
    }

    /// A sub-section.
    pub(super) fn section(&self, key: &'static str) -> Option<Section<'d>> {
        if !self.table.contains_key(key) {
            self.fault(key, self.line, "missing", "every table has this section; restore it or tune again");
        }
        self.optional_section(key)
    }

    /// A sub-section that need not be there.
    pub(super) fn optional_section(&self, key: &'static str) -> Option<Section<'d>> {
        let (value, line) = self.find(key)?;
        let table = value.as_table();
        if table.is_none() {
            self.wrong(key, line, "a table", value);
        }
        Some(self.child(key.to_owned(), table?, line))
    }

    /// The sections of an array of tables; none if it is missing.
    pub(super) fn sections(&self, key: &'static str) -> Vec<Section<'d>> {
        let Some((value, line)) = self.find(key) else { return Vec::new() };
        let Some(array) = value.as_array() else {
            self.wrong(key, line, "an array of tables", value);
            return Vec::new();
        };
        let mut sections = Vec::new();
        for (index, element) in array.iter().enumerate() {
            let line = self.document.line(element.span());
            let name = format!("{key}[{index}]");
            self.document.lines.borrow_mut().note(self.field(&name), line);
            match element.get_ref().as_table() {
                Some(table) => sections.push(self.child(name, table, line)),
                None => self.fault(&name, line, "expected a table", "write it as [[…]]"),
            }
        }
        sections
    }

    fn child(&self, name: String, table: &'d DeTable<'d>, line: usize) -> Section<'d> {
        Section { document: self.document, table, path: self.field(&name), line, asked: RefCell::default() }
    }

    /// Makes every key that was not asked for a fault.
    pub(super) fn close(self) {
        let asked = self.asked.borrow();
        for key in self.table.keys() {
            if !asked.contains(&key.get_ref().as_ref()) {
                let line = self.document.line(key.span());
                self.fault(key.get_ref(), line, "unknown key", format!("known here: {}", asked.join(", ")));
            }
        }
    }
}

/// A value as it may stand in a message: short, and without control characters.
fn shown(value: &DeValue<'_>) -> String {
    let (text, quote) = match value {
        DeValue::String(text) => (text.as_ref(), "\""),
        DeValue::Integer(integer) => (integer.as_str(), ""),
        DeValue::Float(float) => (float.as_str(), ""),
        other => return format!("another {}", other.type_str()),
    };
    let text: String = text.chars().take(40).flat_map(char::escape_debug).collect();
    format!("{quote}{text}{quote}")
}

/// Reads a string.
pub(super) fn string(value: &DeValue<'_>) -> Result<String, String> {
    value.as_str().map(str::to_owned).ok_or_else(|| "a string".to_owned())
}

/// Reads true or false.
pub(super) fn boolean(value: &DeValue<'_>) -> Result<bool, String> {
    value.as_bool().ok_or_else(|| "true or false".to_owned())
}

/// Reads an unsigned integer that fits `T`.
pub(super) fn integer<T: TryFrom<u64>>(value: &DeValue<'_>) -> Result<T, String> {
    let number = value.as_integer().and_then(|i| u64::from_str_radix(i.as_str(), i.radix()).ok());
    let limit = if size_of::<T>() < 8 { " below 2^32" } else { " below 2^64" };
    number.and_then(|number| T::try_from(number).ok()).ok_or_else(|| format!("a whole number{limit}"))
}

/// Reads a number.
pub(super) fn float(value: &DeValue<'_>) -> Result<f64, String> {
    let text = match value {
        DeValue::Float(float) => float.as_str().to_owned(),
        DeValue::Integer(integer) if integer.radix() == 10 => integer.as_str().to_owned(),
        _ => return Err("a number".to_owned()),
    };
    text.parse().map_err(|_| "a number".to_owned())
}

/// Reads a list of values.
pub(super) fn list<T>(
    value: &DeValue<'_>,
    read: impl Fn(&DeValue<'_>) -> Result<T, String>,
) -> Result<Vec<T>, String> {
    let array = value.as_array().ok_or_else(|| "an array".to_owned())?;
    array
        .iter()
        .map(|element| read(element.get_ref()).map_err(|what| format!("an array of which each is {what}")))
        .collect()
}

/// Reads one of an enum's names.
pub(super) fn named<T: Copy>(
    value: &DeValue<'_>,
    all: &[T],
    name: impl Fn(T) -> &'static str,
) -> Result<T, String> {
    let found = value.as_str().and_then(|text| all.iter().copied().find(|item| name(*item) == text));
    found.ok_or_else(|| {
        let names: Vec<&str> = all.iter().copied().map(name).collect();
        format!("one of {}", names.join(", "))
    })
}
