//! Reads a recording: a csv file, gzipped or not, of parameters and raw timings.

use std::collections::{BTreeSet, HashMap};
use std::fs::File;
use std::io::Read;
use std::path::Path;

use flate2::read::MultiGzDecoder;

use crate::diag::{BadInput, Fault};
use crate::search::Space;

/// Every config of one space with its raw timings.
#[derive(Clone, Debug)]
pub struct Recording {
    /// The file's name without its extensions.
    pub name: String,
    /// Names of the parameters, in the order of the header.
    pub parameters: Vec<String>,
    /// The values of the parameters, as written, by point.
    pub configs: Vec<Vec<String>>,
    /// The timings in nanoseconds, by point, in the order in which they were taken.
    pub samples: Vec<Vec<f64>>,
}

/// At most this many faults are listed; a wrong column has one a line.
const MOST_FAULTS: usize = 20;

impl Recording {
    /// Reads a file. Columns named `t<number>_ms` are timings in milliseconds, all others parameters.
    ///
    /// # Errors
    /// All faults of the file together: unreadable, no timing or parameter column, a time that is no positive number, a
    /// config twice.
    pub fn read(path: &Path) -> Result<Self, BadInput> {
        let unreadable = |error: std::io::Error| {
            BadInput::one(path, format!("cannot read it: {error}"), "give a csv or csv.gz file")
        };
        let mut file = File::open(path).map_err(unreadable)?;
        let mut bytes = Vec::new();
        if path.extension().is_some_and(|extension| extension == "gz") {
            MultiGzDecoder::new(file).read_to_end(&mut bytes).map_err(unreadable)?;
        } else {
            file.read_to_end(&mut bytes).map_err(unreadable)?;
        }
        Self::parse(path, &bytes)
    }

    /// Parses the text of a file; `path` names it in faults.
    ///
    /// # Errors
    /// As [`Recording::read`].
    pub fn parse(path: &Path, text: &[u8]) -> Result<Self, BadInput> {
        let mut reader = csv::ReaderBuilder::new().trim(csv::Trim::All).from_reader(text);
        let bad_csv = |error: csv::Error| {
            BadInput::one(path, format!("is no csv: {error}"), "one header line, then one line a config")
        };
        let header = reader.headers().map_err(bad_csv)?.clone();
        let (timings, parameters): (Vec<usize>, Vec<usize>) =
            (0..header.len()).partition(|column| is_timing(&header[*column]));
        let mut faults = Vec::new();
        if timings.is_empty() {
            faults.push(Fault::of_file(path, "has no timing column", "name timing columns t0_ms, t1_ms, …"));
        }
        if parameters.is_empty() {
            faults.push(Fault::of_file(path, "has no parameter column", "name a column by each parameter"));
        }
        let mut seen: HashMap<Vec<String>, usize> = HashMap::new();
        let mut recording = Recording {
            name: stem(path),
            parameters: parameters.iter().map(|column| header[*column].to_owned()).collect(),
            configs: Vec::new(),
            samples: Vec::new(),
        };
        for record in reader.records() {
            let record = record.map_err(bad_csv)?;
            let line = record.position().map(|position| position.line() as usize);
            let fault = |field: &str, message: String, help: &str| Fault {
                file: path.into(),
                line,
                field: field.to_owned(),
                message,
                help: help.to_owned(),
            };
            let config: Vec<String> = parameters.iter().map(|column| record[*column].to_owned()).collect();
            if let Some(first) = seen.insert(config.clone(), line.unwrap_or(0)) {
                let message = format!("the config of line {first} again");
                faults.push(fault("", message, "keep one of the two lines"));
            }
            let mut samples = Vec::with_capacity(timings.len());
            for column in &timings {
                match record[*column].parse::<f64>() {
                    Ok(ms) if ms.is_finite() && ms > 0.0 => samples.push(1e6 * ms),
                    _ => {
                        let message = format!("`{}` is no time in milliseconds", &record[*column]);
                        faults.push(fault(&header[*column], message, "leave out configs that failed"));
                    }
                }
            }
            recording.configs.push(config);
            recording.samples.push(samples);
            if faults.len() >= MOST_FAULTS {
                break;
            }
        }
        if recording.configs.is_empty() && faults.is_empty() {
            faults.push(Fault::of_file(path, "has no config", "give one line a config below the header"));
        }
        if faults.is_empty() { Ok(recording) } else { Err(BadInput(faults)) }
    }

    /// The space: one group, positions in the order of each parameter's values, as numbers where all are, and no prior.
    pub fn space(&self) -> Space {
        self.space_with_prior(vec![0.0; self.configs.len()])
    }

    /// The space with a prior by point.
    ///
    /// # Panics
    /// If the prior has another length.
    pub fn space_with_prior(&self, prior: Vec<f64>) -> Space {
        let ranks: Vec<HashMap<&str, u16>> =
            (0..self.parameters.len()).map(|parameter| self.ranks(parameter)).collect();
        let position = |config: &Vec<String>| {
            config.iter().zip(&ranks).map(|(value, ranks)| ranks[value.as_str()]).collect()
        };
        let positions = self.configs.iter().map(position).collect();
        Space::new(vec![0; self.configs.len()], positions, prior).expect("configs are distinct and alike")
    }

    fn ranks(&self, parameter: usize) -> HashMap<&str, u16> {
        let distinct: BTreeSet<&str> = self.configs.iter().map(|config| config[parameter].as_str()).collect();
        let mut values: Vec<&str> = distinct.into_iter().collect();
        if values.iter().all(|value| value.parse::<f64>().is_ok_and(|number| !number.is_nan())) {
            let number = |value: &str| value.parse::<f64>().expect("checked");
            values.sort_by(|a, b| number(a).total_cmp(&number(b)));
        }
        values.into_iter().zip(0..).collect()
    }

    /// The points of this recording with the configs of the other's best, best first: at most `most`, fewer where they are
    /// not legal here. `time` gives the other's times.
    pub fn seeds_from(&self, other: &Recording, times: &[f64], most: usize) -> Vec<usize> {
        let order: Option<Vec<usize>> =
            self.parameters.iter().map(|name| other.parameters.iter().position(|o| o == name)).collect();
        let Some(order) = order else { return Vec::new() };
        let here: HashMap<&[String], usize> =
            self.configs.iter().enumerate().map(|(point, config)| (config.as_slice(), point)).collect();
        let mut ranked: Vec<usize> = (0..other.configs.len()).collect();
        ranked.sort_by(|a, b| times[*a].total_cmp(&times[*b]).then(a.cmp(b)));
        let translate = |point: usize| {
            let config: Vec<String> =
                order.iter().map(|parameter| other.configs[point][*parameter].clone()).collect();
            here.get(config.as_slice()).copied()
        };
        ranked.into_iter().take(most).filter_map(translate).collect()
    }
}

fn is_timing(column: &str) -> bool {
    let number = column.strip_prefix('t').and_then(|rest| rest.strip_suffix("_ms"));
    number.is_some_and(|digits| !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()))
}

fn stem(path: &Path) -> String {
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let name = name.strip_suffix(".gz").unwrap_or(&name);
    name.strip_suffix(".csv").unwrap_or(name).to_owned()
}
