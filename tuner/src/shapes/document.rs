//! Walking a TOML document by hand, so that one fault hides no other.
//!
//! Deriving a reader stops at the first type error. Here every value is asked for with its span, what is wrong is noted
//! and the walk goes on; the caller sees a [`Setting`] that says whether a key was absent, unusable or given.

use std::ops::Range;
use std::path::Path;

use tilewright_kernels::Format;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::diag::{BadInput, Fault};

/// What a key of a table held.
#[derive(Clone, Debug)]
pub(super) enum Setting<T> {
    /// The key is not there.
    Absent,
    /// The key is there and its value unusable; the fault is noted.
    Faulty,
    /// A usable value.
    Given(T),
}

impl<T> Setting<T> {
    /// The usable value, if there is one.
    pub(super) fn given(self) -> Option<T> {
        match self {
            Setting::Given(value) => Some(value),
            Setting::Absent | Setting::Faulty => None,
        }
    }

    /// This setting, or the default's where the key is absent.
    pub(super) fn or(self, default: &Setting<T>) -> Setting<T>
    where
        T: Clone,
    {
        match self {
            Setting::Absent => default.clone(),
            other => other,
        }
    }

    /// Whether the key was there, usable or not.
    pub(super) fn is_present(&self) -> bool {
        !matches!(self, Setting::Absent)
    }

    /// Turns a usable value into another, noting what is wrong with it.
    pub(super) fn and_then<U>(self, check: impl FnOnce(T) -> Option<U>) -> Setting<U> {
        match self {
            Setting::Absent => Setting::Absent,
            Setting::Faulty => Setting::Faulty,
            Setting::Given(value) => check(value).map_or(Setting::Faulty, Setting::Given),
        }
    }
}

/// Most faults of one file that are listed; the others are counted.
const MOST_FAULTS: usize = 1000;

/// The faults of one file, collected with their lines.
pub(super) struct Faults<'t> {
    file: &'t Path,
    newlines: Vec<usize>,
    list: Vec<Fault>,
    unlisted: usize,
}

impl<'t> Faults<'t> {
    /// No fault yet.
    pub(super) fn new(file: &'t Path, text: &str) -> Self {
        let newlines =
            text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n').map(|(at, _)| at).collect();
        Faults { file, newlines, list: Vec::new(), unlisted: 0 }
    }

    /// The line, from 1, of a byte offset.
    pub(super) fn line(&self, offset: usize) -> usize {
        1 + self.newlines.partition_point(|newline| *newline < offset)
    }

    /// Notes a fault at a byte offset.
    pub(super) fn at(
        &mut self,
        offset: usize,
        field: impl Into<String>,
        message: impl Into<String>,
        help: impl Into<String>,
    ) {
        if self.list.len() == MOST_FAULTS {
            self.unlisted += 1;
            return;
        }
        let line = Some(self.line(offset));
        let (field, message, help) = (field.into(), message.into(), help.into());
        self.list.push(Fault { file: self.file.into(), line, field, message, help });
    }

    /// Notes a fault of the file as a whole.
    pub(super) fn of_file(&mut self, message: impl Into<String>, help: impl Into<String>) {
        self.list.push(Fault::of_file(self.file, message, help));
    }

    /// Whether there is none.
    pub(super) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// All of them, in the order of their lines; of very many the first that were found.
    pub(super) fn into_bad_input(mut self) -> BadInput {
        self.list.sort_by_key(|fault| fault.line);
        if self.unlisted > 0 {
            let message = format!("and {} faults more", self.unlisted);
            self.list.push(Fault::of_file(self.file, message, "is this a declaration?"));
        }
        BadInput(self.list)
    }
}

/// One table of the document, with the path that messages name it by.
pub(super) struct Section<'d> {
    pub(super) table: &'d DeTable<'d>,
    /// `gemm[2] "mlp.down"`, or empty for the document itself.
    pub(super) path: String,
    /// Where it begins.
    pub(super) start: usize,
}

impl<'d> Section<'d> {
    /// The path of one of its keys.
    pub(super) fn field(&self, key: &str) -> String {
        if self.path.is_empty() { shown_key(key) } else { format!("{}.{}", self.path, shown_key(key)) }
    }

    /// The value of a key.
    pub(super) fn get(&self, key: &str) -> Option<&'d Spanned<DeValue<'d>>> {
        self.table.get(key)
    }

    /// Where the value of a key begins, or the table where the key is absent.
    pub(super) fn offset(&self, key: &str) -> usize {
        self.get(key).map_or(self.start, |value| value.span().start)
    }

    /// Notes every key that is not one of `known`.
    pub(super) fn expect_keys(&self, faults: &mut Faults<'_>, known: &[&str]) {
        for key in self.table.keys().filter(|key| !known.contains(&key.get_ref().as_ref())) {
            let name = key.get_ref();
            let help = match did_you_mean(name, known) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("known here: {}", known.join(", ")),
            };
            faults.at(key.span().start, self.field(name), "unknown key", help);
        }
    }

    /// Notes a key that has to be there.
    pub(super) fn missing(&self, faults: &mut Faults<'_>, key: &str, help: &str) {
        faults.at(self.start, self.field(key), "missing", help);
    }

    /// A string.
    pub(super) fn string(&self, faults: &mut Faults<'_>, key: &str) -> Setting<&'d str> {
        self.read(faults, key, "a string", |value| value.as_str())
    }

    /// `true` or `false`.
    pub(super) fn boolean(&self, faults: &mut Faults<'_>, key: &str) -> Setting<bool> {
        self.read(faults, key, "true or false", DeValue::as_bool)
    }

    /// An array.
    pub(super) fn array(&self, faults: &mut Faults<'_>, key: &str) -> Setting<&'d [Spanned<DeValue<'d>>]> {
        self.read(faults, key, "an array", |value| value.as_array().map(|array| &array[..]))
    }

    /// An integer within bounds.
    pub(super) fn integer(&self, faults: &mut Faults<'_>, key: &str, bounds: Range<u64>) -> Setting<u64> {
        match self.get(key) {
            None => Setting::Absent,
            Some(value) => integer(faults, value, &self.field(key), bounds),
        }
    }

    /// A number, written as a float or an integer.
    pub(super) fn number(&self, faults: &mut Faults<'_>, key: &str) -> Setting<f64> {
        self.read(faults, key, "a number", |value| match value {
            DeValue::Float(float) => float.as_str().parse().ok(),
            DeValue::Integer(_) => int(value).map(|int| int as f64),
            _ => None,
        })
    }

    /// An element format by its name.
    pub(super) fn format(&self, faults: &mut Faults<'_>, key: &str) -> Setting<Format> {
        match self.get(key) {
            None => Setting::Absent,
            Some(value) => format(faults, value, &self.field(key)),
        }
    }

    fn read<T>(
        &self,
        faults: &mut Faults<'_>,
        key: &str,
        wanted: &str,
        convert: impl FnOnce(&'d DeValue<'d>) -> Option<T>,
    ) -> Setting<T> {
        let Some(value) = self.get(key) else { return Setting::Absent };
        match convert(value.get_ref()) {
            Some(converted) => Setting::Given(converted),
            None => {
                wrong_type(faults, value, &self.field(key), wanted);
                Setting::Faulty
            }
        }
    }
}

/// An integer within bounds (`bounds.end` excluded).
pub(super) fn integer(
    faults: &mut Faults<'_>,
    value: &Spanned<DeValue<'_>>,
    field: &str,
    bounds: Range<u64>,
) -> Setting<u64> {
    let Some(literal) = value.get_ref().as_integer() else {
        wrong_type(faults, value, field, "an integer");
        return Setting::Faulty;
    };
    match int(value.get_ref()).and_then(|int| u64::try_from(int).ok()).filter(|int| bounds.contains(int)) {
        Some(int) => Setting::Given(int),
        None => {
            let range = format!("allowed: {} to {}", bounds.start, bounds.end - 1);
            faults.at(
                value.span().start,
                field,
                format!("{} is out of range", brief(&literal.to_string())),
                range,
            );
            Setting::Faulty
        }
    }
}

/// An element format by its name.
pub(super) fn format(faults: &mut Faults<'_>, value: &Spanned<DeValue<'_>>, field: &str) -> Setting<Format> {
    let Some(name) = value.get_ref().as_str() else {
        wrong_type(faults, value, field, "the name of a format");
        return Setting::Faulty;
    };
    match Format::from_name(name) {
        Some(format) => Setting::Given(format),
        None => {
            let names: Vec<_> = Format::ALL.iter().map(|format| format.name()).collect();
            let mut help = format!("formats: {}", names.join(", "));
            if let Some(near) = did_you_mean(name, &names) {
                help = format!("did you mean `{near}`? {help}");
            }
            faults.at(value.span().start, field, format!("there is no format {}", quoted(name)), help);
            Setting::Faulty
        }
    }
}

/// Notes a value of another type.
pub(super) fn wrong_type(faults: &mut Faults<'_>, value: &Spanned<DeValue<'_>>, field: &str, wanted: &str) {
    let found = value.get_ref().type_str();
    let article = if matches!(found.as_bytes()[0], b'a' | b'i') { "an" } else { "a" };
    faults.at(value.span().start, field, format!("expected {wanted}, found {article} {found}"), "");
}

/// A string in quotes with control characters escaped, cut where it is long: names in messages may be hostile.
pub(super) fn quoted(text: &str) -> String {
    format!("{:?}", brief(text))
}

fn brief(text: &str) -> String {
    const LONGEST: usize = 80;
    match text.char_indices().nth(LONGEST) {
        Some((cut, _)) => format!("{}…", &text[..cut]),
        None => text.to_owned(),
    }
}

fn shown_key(key: &str) -> String {
    let bare = !key.is_empty() && key.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-');
    if bare { brief(key) } else { quoted(key) }
}

fn int(value: &DeValue<'_>) -> Option<i128> {
    let literal = value.as_integer()?;
    i128::from_str_radix(literal.as_str(), literal.radix()).ok()
}

/// The candidate that a misspelt or shortened word most likely stands for.
pub(super) fn did_you_mean<'c>(word: &str, candidates: &[&'c str]) -> Option<&'c str> {
    if word.len() >= 3
        && let Some(longer) = candidates.iter().find(|candidate| candidate.starts_with(word))
    {
        return Some(longer);
    }
    let allowed = (word.len() / 3).min(3);
    candidates
        .iter()
        .filter(|candidate| candidate.len().abs_diff(word.len()) <= allowed)
        .map(|candidate| (distance(word.as_bytes(), candidate.as_bytes()), *candidate))
        .filter(|(distance, _)| *distance <= allowed)
        .min()
        .map(|(_, candidate)| candidate)
}

/// Levenshtein distance.
fn distance(a: &[u8], b: &[u8]) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.iter().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, to) in b.iter().enumerate() {
            let substituted = diagonal + usize::from(!from.eq_ignore_ascii_case(to));
            diagonal = row[j + 1];
            row[j + 1] = substituted.min(row[j] + 1).min(row[j + 1] + 1);
        }
    }
    row[b.len()]
}
