//! hipBLASLt: tuning files and bench lines of its log.
//!
//! A tuning file (`HIPBLASLT_TUNING_FILE`) has a line `Git Version: …` and then rows in the columns that its bench prints,
//! with the architecture and CU count at the end. A log (`HIPBLASLT_LOG_MASK=32`) has command lines of that bench, which
//! are problems to tune. A solution's index holds for one build of the library on one architecture only.

use std::collections::HashMap;
use std::path::Path;

use super::Source;
use super::blas::{Call, Row, lines};
use super::foreign::{Element, Foreign, Operation, Scales};
use crate::diag::BadInput;

/// The columns of a row without a header, by place; what is not read here has no name.
const PLACES: [(&str, usize); 18] = [
    ("transA", 0),
    ("transB", 1),
    ("grouped_gemm", 2),
    ("batch_count", 3),
    ("m", 4),
    ("n", 5),
    ("k", 6),
    ("ldb", 11),
    ("ldd", 15),
    ("a_type", 17),
    ("b_type", 18),
    ("d_type", 20),
    ("scaleA", 22),
    ("bias_vector", 28),
    ("us", 33),
    ("solution_index", 34),
    ("arch", 35),
    ("cu", 36),
];

/// Fields of such a row.
const WIDTH: usize = 37;

/// Whether a line is a row or a header of a tuning file.
pub(super) fn is_row(line: &str) -> bool {
    let first = line.split(',').next().unwrap_or("").trim();
    first == "transA" || (matches!(first, "N" | "T" | "C") && line.split(',').count() == WIDTH)
}

/// Reads a file.
///
/// # Errors
/// None of its lines is hipBLASLt's.
pub(super) fn parse(path: &Path, text: &str) -> Result<Foreign, BadInput> {
    let mut foreign = Foreign::new(path, Source::HipBlasLt);
    let mut columns: HashMap<String, usize> =
        PLACES.iter().map(|(name, place)| ((*name).to_owned(), *place)).collect();
    let (mut width, mut recognised) = (WIDTH, false);
    for (number, line, fields) in lines(text) {
        if let Some(version) = line.strip_prefix("Git Version") {
            foreign.software.push(format!("HIPBLASLT={}", version.trim_start_matches([':', ' '])));
            recognised = true;
        } else if let Some(arguments) = line.split_once("hipblaslt-bench").map(|(_, rest)| rest) {
            recognised = true;
            let options = options(arguments);
            push(&mut foreign, number, line, |name| options.get(name).map_or("", |value| value));
        } else if line.contains(',') {
            if fields[0] == "transA" {
                columns = fields.iter().enumerate().map(|(at, name)| ((*name).to_owned(), at)).collect();
                // The bench prints the name this way.
                if let Some(place) = columns.get("soulution_index").copied() {
                    columns.insert("solution_index".to_owned(), place);
                }
                width = fields.len();
                recognised = true;
            } else if fields.len() == width || fields.len() == WIDTH {
                recognised = true;
                push(&mut foreign, number, line, |name| {
                    columns.get(name).and_then(|place| fields.get(*place)).copied().unwrap_or("")
                });
            } else {
                let message = format!("{} fields, not {width}", fields.len());
                foreign.fault(number, "", message, "hipBLASLt passes over such a line: tune the row again");
            }
        } else {
            foreign.fault(number, "", "is neither a row nor a bench line", "remove the line");
        }
    }
    if !recognised {
        let help = "give a file of HIPBLASLT_TUNING_FILE, or a log of HIPBLASLT_LOG_MASK=32";
        return Err(BadInput::one(path, "is no file of hipBLASLt", help));
    }
    Ok(foreign)
}

/// The options of a bench line, named as the columns are.
fn options(arguments: &str) -> HashMap<String, String> {
    let mut options = HashMap::new();
    let mut words = arguments.split_whitespace().peekable();
    while let Some(word) = words.next() {
        let name = word.trim_start_matches('-');
        if name.len() == word.len() || name.is_empty() {
            continue;
        }
        // A negative number is a value, not the next option.
        let is_value =
            |next: &&str| !next.starts_with('-') || next[1..].starts_with(|c: char| c.is_ascii_digit());
        let value = words.next_if(is_value).unwrap_or("1");
        let name = match name {
            "sizem" => "m",
            "sizen" => "n",
            "sizek" => "k",
            // `--precision` and `-r` set all types.
            "precision" | "r" => {
                for each in ["a_type", "b_type", "d_type"] {
                    options.entry(each.to_owned()).or_insert_with(|| value.to_owned());
                }
                continue;
            }
            name => name,
        };
        options.insert(name.to_owned(), value.to_owned());
    }
    options
}

fn push<'a>(foreign: &mut Foreign, line: u32, text: &str, field: impl Fn(&str) -> &'a str) {
    let number = |name: &str| field(name).parse::<u32>().ok().filter(|value| *value > 0);
    let (Some(m), Some(n), Some(k)) = (number("m"), number("n"), number("k")) else {
        foreign.fault(line, "m, n, k", "are no dimensions", "whole numbers from 1");
        return;
    };
    let transposed = ["transA", "transB"].map(|name| matches!(field(name), "T" | "C"));
    let leading = |name: &str| field(name).parse::<u64>().ok();
    let leading = leading("ldb").zip(leading("ldd")).map(|(b, d)| [b, d]);
    let call = Call { transposed, sizes: [m, n, k], leading };
    let scales = match field("scaleA") {
        "" | "0" => Scales::Usual,
        "1" => Scales::Tensor,
        "2" => Scales::Channel,
        // 3: the blocks of the MX formats.
        _ => Scales::Usual,
    };
    let (arch, units) = (field("arch").split(':').next().unwrap_or("").to_owned(), number("cu"));
    let operation = Operation {
        arch,
        units,
        a: Element::parse(field("b_type")),
        b: Element::parse(field("a_type")),
        out: Element::parse(field("d_type")),
        scales,
        bias: matches!(field("bias_vector"), "1" | "true"),
        preshuffled: false,
        // Its key has no leading dimensions.
        variant: Call { leading: None, ..call }.variant(),
    };
    let index = field("solution_index").parse::<i32>().ok().filter(|index| *index >= 0);
    Row {
        line,
        call,
        batch: number("batch_count").unwrap_or(1),
        kernel: &index.map_or_else(String::new, |index| format!("solution {index}")),
        library: "hipblaslt",
        index,
        time_us: field("us").parse().ok(),
        origin: text,
        obstacle: matches!(field("grouped_gemm"), "1" | "true").then_some("a grouped GEMM"),
    }
    .push(foreign, operation);
}
