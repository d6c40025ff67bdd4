//! The measurements behind a table: `tables/<device>/<model>.csv`, one line per finalist of every race.

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::diag::{BadInput, Fault};

/// One kernel in the finals of one weight at one M.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Finalist {
    /// The weight's name.
    pub weight: String,
    /// Rows of the activation.
    pub m: u32,
    /// Name of the format the activation was multiplied in.
    pub activation: String,
    /// Name of the weight's format.
    pub format: String,
    /// How the race ended for it.
    pub status: Status,
    /// Whether it is the default config.
    pub baseline: bool,
    /// Its time relative to the winner's.
    pub ratio: Option<f64>,
    /// Lower end of the ratio's interval.
    pub ratio_low: Option<f64>,
    /// Upper end of the ratio's interval.
    pub ratio_high: Option<f64>,
    /// Trimmed mean time, in nanoseconds.
    pub time_ns: Option<f64>,
    /// Timed launches that count.
    pub samples: u32,
    /// Canonical text.
    pub config: String,
    /// Hash of `config`, 16 hexadecimal digits.
    pub id: String,
    /// Why it failed or was eliminated, or empty.
    pub reason: String,
}

/// How a race ended for a finalist.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// It won.
    Winner,
    /// It could not be told from the winner.
    Tied,
    /// It was slower.
    Eliminated,
    /// It was disqualified or did not launch.
    Failed,
}

impl Status {
    /// The name in files.
    pub const fn name(self) -> &'static str {
        match self {
            Status::Winner => "winner",
            Status::Tied => "tied",
            Status::Eliminated => "eliminated",
            Status::Failed => "failed",
        }
    }
}

const COLUMNS: [&str; 14] = [
    "weight",
    "m",
    "activation",
    "format",
    "status",
    "baseline",
    "ratio",
    "ratio_low",
    "ratio_high",
    "time_ns",
    "samples",
    "config",
    "id",
    "reason",
];

/// The file's text: sorted by weight, M, status, ratio and config, so that equal evidence gives equal bytes.
pub fn to_csv(finalists: &[Finalist]) -> String {
    let mut sorted: Vec<&Finalist> = finalists.iter().collect();
    sorted.sort_by(|a, b| {
        let ratio = |f: &Finalist| f.ratio.unwrap_or(f64::INFINITY);
        (&a.weight, a.m, a.status)
            .cmp(&(&b.weight, b.m, b.status))
            .then(ratio(a).total_cmp(&ratio(b)))
            .then_with(|| (&a.config, &a.reason).cmp(&(&b.config, &b.reason)))
    });
    let mut writer = csv::WriterBuilder::new().has_headers(false).from_writer(Vec::new());
    writer.write_record(COLUMNS).expect("writing to memory");
    for finalist in sorted {
        writer.serialize(finalist).expect("writing to memory");
    }
    String::from_utf8(writer.into_inner().expect("writing to memory")).expect("all fields are UTF-8")
}

/// Reads a text; `file` is for messages.
///
/// # Errors
/// All faulty lines.
pub fn parse(file: &Path, text: &str) -> Result<Vec<Finalist>, BadInput> {
    let help = "this file is written by `tilewright tune`: restore it or tune again";
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    let header = reader.headers().map(|header| header.iter().eq(COLUMNS)).unwrap_or(false);
    if !header {
        return Err(BadInput::one(file, format!("the columns are not {}", COLUMNS.join(",")), help));
    }
    let (mut finalists, mut faults) = (Vec::new(), Vec::new());
    for record in reader.deserialize() {
        match record {
            Ok(finalist) => finalists.push(finalist),
            Err(error) => faults.push(Fault {
                file: file.into(),
                line: error.position().map(|position| position.line() as usize),
                field: String::new(),
                message: error.to_string(),
                help: help.to_owned(),
            }),
        }
    }
    if faults.is_empty() { Ok(finalists) } else { Err(BadInput(faults)) }
}

/// Reads a file.
///
/// # Errors
/// If it cannot be read, or all faulty lines.
pub fn read(file: &Path) -> Result<Vec<Finalist>, BadInput> {
    let text = std::fs::read_to_string(file).map_err(|error| {
        BadInput::one(
            file,
            format!("cannot be read: {error}"),
            "the evidence lies next to the table's .toml file",
        )
    })?;
    parse(file, &text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finalist(m: u32, status: Status, ratio: Option<f64>, reason: &str) -> Finalist {
        Finalist {
            weight: "mlp.down".into(),
            m,
            activation: "bf16".into(),
            format: "bf16".into(),
            status,
            baseline: status == Status::Eliminated,
            ratio,
            ratio_low: ratio.map(|r| r - 0.0125),
            ratio_high: ratio.map(|r| r + 0.0125),
            time_ns: ratio.map(|r| r * 1234.5),
            samples: 40,
            config: "family@1(a=1,b=2)".into(),
            id: "0123456789abcdef".into(),
            reason: reason.into(),
        }
    }

    #[test]
    fn evidence_reads_back_as_written_whatever_the_order() {
        let sorted = vec![
            finalist(1, Status::Winner, Some(1.0), ""),
            finalist(1, Status::Tied, Some(1.004), ""),
            finalist(1, Status::Eliminated, Some(1.7), "at look 2, \"slower\"\nby far"),
            finalist(8, Status::Failed, None, "row 3, column 4: NaN"),
        ];
        let text = to_csv(&sorted);
        let mut turned = sorted.clone();
        turned.reverse();
        assert_eq!(to_csv(&turned), text);
        assert_eq!(parse(Path::new("e.csv"), &text), Ok(sorted));
    }

    #[test]
    fn no_evidence_is_a_file_with_a_header() {
        assert_eq!(parse(Path::new("e.csv"), &to_csv(&[])), Ok(vec![]));
    }

    #[test]
    fn every_faulty_line_is_reported() {
        let text = to_csv(&[finalist(1, Status::Winner, Some(1.0), "")]);
        let bad = text.clone()
            + "a,x,bf16,bf16,winner,true,1,1,1,1,4,c,i,\na,1,bf16,bf16,won,true,1,1,1,1,4,c,i,\n";
        let faults = parse(Path::new("e.csv"), &bad).unwrap_err().0;
        assert_eq!(faults.iter().map(|f| f.line).collect::<Vec<_>>(), [Some(3), Some(4)]);
        assert!(parse(Path::new("e.csv"), "weight,m\n").is_err());
    }
}
