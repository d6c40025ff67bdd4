//! AITER's csv tables, tuned and untuned, of every family and age.
//!
//! Columns are found by name, so that their order does not matter: `err_ratio` or `errRatio`, `kernelId` or `solidx`,
//! `M` or `m`, with `gfx` and `bpreshuffle` or, in old files, without. Blanks and tabs around fields do not count, nor do
//! blank lines. Which family a file belongs to stands in its name, and in its columns where the name does not say.

mod family;
pub mod kernel;

use std::collections::HashMap;
use std::path::Path;

pub use family::{Family, split_count};

use super::Source;
use super::foreign::{Element, Entry, Foreign, NONE, Operation};
use crate::diag::BadInput;

/// The columns, in lower case; two spellings of one thing share a place.
const COLUMNS: [&[&str]; 19] = [
    &["gfx"],
    &["cu_num"],
    &["b"],
    &["m"],
    &["n"],
    &["k"],
    &["bias"],
    &["dtype"],
    &["outdtype"],
    &["scaleab"],
    &["bpreshuffle"],
    &["q_dtype_w"],
    &["libtype"],
    &["splitk"],
    &["us"],
    &["kernelname"],
    &["err_ratio", "errratio"],
    &["tflops"],
    &["kernelid", "solidx"],
];
const GFX: usize = 0;
const CU: usize = 1;
const B: usize = 2;
const M: usize = 3;
const N: usize = 4;
const K: usize = 5;
const BIAS: usize = 6;
const DTYPE: usize = 7;
const OUT: usize = 8;
const SCALE: usize = 9;
const SHUFFLE: usize = 10;
const QTYPE: usize = 11;
const LIB: usize = 12;
const SPLIT: usize = 13;
const US: usize = 14;
const NAME: usize = 15;
const ERR: usize = 16;
const TFLOPS: usize = 17;
const INDEX: usize = 18;

/// Columns that are read over: they repeat others.
const UNUSED: [&str; 2] = ["bw", "_tag"];

/// Whether a line is the header of one of these files.
pub(super) fn is_header(line: &str) -> bool {
    let has = |name: &str| line.split(',').any(|column| column.trim().eq_ignore_ascii_case(name));
    has("m") && has("n") && has("k")
}

/// Where each column stands.
struct Header {
    at: [Option<usize>; COLUMNS.len()],
    width: usize,
}

impl Header {
    fn get<'r>(&self, record: &'r csv::StringRecord, column: usize) -> &'r str {
        self.at[column].and_then(|place| record.get(place)).unwrap_or("")
    }
}

/// Reads a table.
///
/// # Errors
/// If it has no M, N and K, or is not csv.
pub(super) fn parse(path: &Path, text: &str) -> Result<Foreign, BadInput> {
    let mut foreign = Foreign::new(path, Source::Aiter);
    let mut reader =
        csv::ReaderBuilder::new().flexible(true).trim(csv::Trim::All).from_reader(text.as_bytes());
    let not_csv = |error: csv::Error| BadInput::one(path, error.to_string(), "give a csv table of AITER");
    let header = header(&mut foreign, reader.headers().map_err(not_csv)?)?;
    foreign.family = Family::guess(path, |column| {
        COLUMNS.iter().zip(header.at).any(|(names, at)| at.is_some() && names.contains(&column))
    });
    foreign.names_arch = header.at[GFX].is_some() || header.at[US].is_none();
    let mut operations = HashMap::new();
    let mut record = csv::StringRecord::new();
    let mut key = String::new();
    while reader.read_record(&mut record).map_err(not_csv)? {
        let line = record.position().map_or(0, |position| position.line() as u32);
        if record.iter().all(str::is_empty) {
            continue;
        }
        // A file ended without a line break before another was appended, or columns were added to some rows only.
        if record.len() != header.width {
            let message = format!("{} fields where the header names {}", record.len(), header.width);
            foreign.fault(line, "", message, "give every row all of the header's columns, and no others");
            continue;
        }
        key.clear();
        for column in [GFX, CU, BIAS, DTYPE, OUT, SCALE, SHUFFLE, QTYPE] {
            key.push_str(header.get(&record, column));
            key.push(',');
        }
        let operation = match operations.get(&key) {
            Some(known) => *known,
            None => match operation(foreign.family, &header, &record) {
                Ok(operation) => {
                    let index = foreign.operation(operation);
                    operations.insert(key.clone(), index);
                    index
                }
                Err((field, message)) => {
                    foreign.fault(line, field, message, "correct the field");
                    continue;
                }
            },
        };
        entry(&mut foreign, &header, &record, line, operation);
    }
    Ok(foreign)
}

fn header(foreign: &mut Foreign, names: &csv::StringRecord) -> Result<Header, BadInput> {
    let mut header = Header { at: [None; COLUMNS.len()], width: names.len() };
    for (place, name) in names.iter().enumerate() {
        let lower = name.to_ascii_lowercase();
        match COLUMNS.iter().position(|spellings| spellings.contains(&lower.as_str())) {
            Some(column) if header.at[column].is_some() => {
                foreign.fault(1, name, "stands in the header twice", "keep one of the columns");
            }
            Some(column) => header.at[column] = Some(place),
            None if UNUSED.contains(&lower.as_str()) => {}
            None => foreign.fault(1, name, "is no column that AITER reads", "remove or rename the column"),
        }
    }
    if [M, N, K].iter().any(|column| header.at[*column].is_none()) {
        let help = "AITER's tables begin with a header that names M, N and K";
        return Err(BadInput::one(&foreign.file, "has no columns M, N and K", help));
    }
    Ok(header)
}

fn operation(
    family: Option<Family>,
    header: &Header,
    record: &csv::StringRecord,
) -> Result<Operation, (&'static str, String)> {
    let field = |column| header.get(record, column);
    let units = match field(CU) {
        "" => None,
        text => {
            Some(integer(text).ok_or_else(|| ("cu_num", format!("{text:?} is no number of compute units")))?)
        }
    };
    let flag = |column, name| {
        let text = field(column);
        let is = |words: &[&str]| words.iter().any(|word| text.eq_ignore_ascii_case(word));
        if is(&["", "False", "0"]) {
            Ok(false)
        } else if is(&["True", "1"]) {
            Ok(true)
        } else {
            Err((name, format!("{text:?} is neither True nor False")))
        }
    };
    let arch = field(GFX).to_owned();
    let typed = if header.at[QTYPE].is_some() { field(QTYPE) } else { field(DTYPE) };
    let (a, b, scales) = family::elements(family, &arch, Element::parse(typed), flag(SCALE, "scaleAB")?);
    let out = match Element::parse(field(OUT)) {
        Element::Unsaid => Element::parse("bf16"),
        said => said,
    };
    let preshuffled = flag(SHUFFLE, "bpreshuffle")? || family.is_some_and(Family::is_preshuffled);
    Ok(Operation {
        arch,
        units,
        a,
        b,
        out,
        scales,
        bias: flag(BIAS, "bias")?,
        preshuffled,
        variant: String::new(),
    })
}

fn entry(foreign: &mut Foreign, header: &Header, record: &csv::StringRecord, line: u32, operation: u32) {
    let mut sizes = [1; 4];
    for (size, (column, name)) in sizes.iter_mut().zip([(B, "B"), (M, "M"), (N, "N"), (K, "K")]) {
        let text = header.get(record, column);
        match integer(text) {
            Some(value) if value > 0 => *size = value,
            None if text.is_empty() && column == B => {}
            _ => {
                let message = format!("{text:?} is no dimension");
                foreign.fault(line, name, message, "a whole number from 1 to 4294967295");
                return;
            }
        }
    }
    let mut numbers = [None; 3];
    for (number, (column, name)) in
        numbers.iter_mut().zip([(US, "us"), (ERR, "errRatio"), (TFLOPS, "tflops")])
    {
        let text = header.get(record, column);
        if header.at[column].is_some() {
            *number = text.parse::<f64>().ok();
            if number.is_none() {
                foreign.fault(line, name, format!("{text:?} is no number"), "measure the row again");
            }
        }
    }
    let split = header.get(record, SPLIT);
    let split_k = integer(split).and_then(|value| i32::try_from(value).ok());
    if split_k.is_none() && !split.is_empty() {
        foreign.fault(line, "splitK", format!("{split:?} is no split-K"), "a whole number from 0");
    }
    let (library, kernel) = (header.get(record, LIB), header.get(record, NAME));
    let library = if library.is_empty() { family::library_of(foreign.family, kernel) } else { library };
    let (library, kernel) = (foreign.intern(library), foreign.intern(kernel));
    if header.at[NAME].is_some() && kernel == NONE {
        foreign.fault(line, "kernelName", "is empty", "tune the row again");
    }
    let obstacle = if sizes[0] > 1 { foreign.intern("a batch of several GEMMs in one launch") } else { NONE };
    let [batch, m, n, k] = sizes;
    let [time_us, error, tflops] = numbers;
    foreign.push(Entry {
        line,
        operation,
        batch,
        m,
        n,
        k,
        library,
        kernel,
        split_k,
        time_us,
        error,
        tflops,
        index: header.get(record, INDEX).parse().ok(),
        origin: NONE,
        obstacle,
    });
}

/// A whole number, which pandas may have written as `128.0`.
fn integer(text: &str) -> Option<u32> {
    text.strip_suffix(".0").unwrap_or(text).parse().ok()
}
