//! From rows to a declaration, prior evidence, and the list of what neither can say.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use tilewright_kernels::{Format, OutType};

use super::foreign::{Element, Entry, Foreign, NONE, Operation, Scales};
use super::prior::Prior;
use super::{Source, aiter, vllm};
use crate::diag::BadInput;
use crate::shapes::{DEFAULT_FORMATS, DIMENSION_MAX, Declaration, Gemm, MPoint, Notes, POINTS_MAX};

/// What files became.
#[derive(Clone, Debug)]
pub struct Converted {
    /// The declaration, or `None` where no row can be declared.
    pub declaration: Option<Declaration>,
    /// Its text, with comments.
    pub text: String,
    /// The tuned rows that it covers.
    pub priors: Vec<Prior>,
    /// What was left out or is declared as something else.
    pub unexpressed: Vec<Unexpressed>,
    /// Rows that were declared.
    pub rows: usize,
}

/// Rows of a file that a declaration says less than, or nothing of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unexpressed {
    /// The file.
    pub file: PathBuf,
    /// The lines, ascending; 0 where a source has none.
    pub lines: Vec<u32>,
    /// Whether the rows are declared all the same, as something else.
    pub declared: bool,
    /// Why.
    pub reason: String,
}

/// What rows of one GEMM share.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    n: u32,
    k: u32,
    activation: Format,
    formats: Vec<Format>,
    out: OutType,
    bias: bool,
}

impl Key {
    fn name(&self, alone: bool) -> String {
        let Key { n, k, activation, formats, out, bias } = self;
        if alone {
            return format!("n{n}-k{k}");
        }
        let format = if formats.len() == 1 { formats[0].name() } else { "open" };
        format!("n{n}-k{k}-{activation}-{format}-{out}{}", if *bias { "-bias" } else { "" })
    }
}

/// Makes one model's declaration and priors of files.
///
/// # Errors
/// If the declaration would be faulty, for instance by too many GEMMs; all its faults.
pub fn declare(files: &[Foreign], model: &str) -> Result<Converted, BadInput> {
    let mut unexpressed: BTreeMap<(usize, bool, String), Vec<u32>> = BTreeMap::new();
    let mut gemms: BTreeMap<Key, BTreeSet<u32>> = BTreeMap::new();
    let mut kept: Vec<(usize, &Entry, Key)> = Vec::new();
    for (index, foreign) in files.iter().enumerate() {
        let mut note = |declared: bool, reason: &str, line: u32| {
            unexpressed.entry((index, declared, reason.to_owned())).or_default().push(line);
        };
        for entry in &foreign.entries {
            match key(foreign, entry) {
                Ok((key, changes)) => {
                    for change in changes {
                        note(true, change, entry.line);
                    }
                    gemms.entry(key.clone()).or_default().insert(entry.m);
                    kept.push((index, entry, key));
                }
                Err(reason) => note(false, &reason, entry.line),
            }
        }
    }
    for (key, points) in &mut gemms {
        let dropped = thin(points);
        for (index, entry, _) in kept.iter().filter(|(_, entry, of)| of == key && dropped.contains(&entry.m))
        {
            let reason =
                format!("more than {POINTS_MAX} values of M: this one is evidence, but not declared");
            unexpressed.entry((*index, true, reason)).or_default().push(entry.line);
        }
    }
    let mut shapes: BTreeMap<(u32, u32), usize> = BTreeMap::new();
    for key in gemms.keys() {
        *shapes.entry((key.n, key.k)).or_default() += 1;
    }
    let name = |key: &Key| key.name(shapes[&(key.n, key.k)] == 1);
    let priors = kept
        .iter()
        .filter(|(_, entry, _)| entry.kernel != NONE)
        .map(|(index, entry, key)| prior(&files[*index], entry, key, name(key)))
        .collect();
    let (declaration, text) = if gemms.is_empty() {
        (None, String::new())
    } else {
        let gemms = gemms.iter().map(|(key, points)| gemm(key, name(key), points)).collect();
        let (declaration, text) = write(files, model, gemms)?;
        (Some(declaration), text)
    };
    let unexpressed = unexpressed
        .into_iter()
        .map(|((index, declared, reason), mut lines)| {
            lines.sort_unstable();
            let file = files[index].file.clone();
            Unexpressed { file, lines, declared, reason }
        })
        .collect();
    Ok(Converted { declaration, text, priors, unexpressed, rows: kept.len() })
}

/// Takes as many values of M, evenly spread, as exceed what a declaration may hold, and gives them.
fn thin(points: &mut BTreeSet<u32>) -> BTreeSet<u32> {
    if points.len() <= POINTS_MAX {
        return BTreeSet::new();
    }
    let step = points.len().div_ceil(POINTS_MAX);
    let kept: BTreeSet<u32> = points.iter().copied().step_by(step).collect();
    let dropped = points.difference(&kept).copied().collect();
    *points = kept;
    dropped
}

/// What a row is declared as, and what that changes; or why it cannot be.
fn key(foreign: &Foreign, entry: &Entry) -> Result<(Key, Vec<&'static str>), String> {
    if entry.obstacle != NONE {
        return Err(foreign.name(entry.obstacle).to_owned());
    }
    for (dimension, value) in [("M", entry.m), ("N", entry.n), ("K", entry.k)] {
        if value > DIMENSION_MAX {
            return Err(format!("{dimension} is above {DIMENSION_MAX}"));
        }
    }
    let Operation { a, b, out, scales, bias, .. } = foreign.operation_of(entry);
    let mut changes = Vec::new();
    let out = match out {
        Element::Format(Format::Bf16) => OutType::Bf16,
        Element::F32 => OutType::F32,
        Element::Unsaid => return Err("the output's type is not said".into()),
        other => return Err(format!("output in {}", other.name())),
    };
    let (activation, formats) = match (a, b) {
        (Element::Format(a), Element::Format(b)) => (*a, vec![*b]),
        (Element::Unsaid, Element::Unsaid) if foreign.source == Source::Aiter && foreign.family.is_none() => {
            changes.push("the file does not say formats: they are left to the tuner");
            (
                Format::Bf16,
                DEFAULT_FORMATS.iter().copied().filter(|format| format.allows_k(entry.k)).collect(),
            )
        }
        (Element::Unsaid, _) | (_, Element::Unsaid) => return Err("the operands' types are not said".into()),
        (Element::Format(_), other) | (other, _) => return Err(format!("operands in {}", other.name())),
    };
    if let Some(format) = formats.iter().chain([&activation]).find(|format| !format.allows_k(entry.k)) {
        return Err(format!("{format} needs a K of whole blocks of 32"));
    }
    match scales {
        Scales::Block128 => {
            changes.push(
                "scales per 128x128 block are declared as scales per channel: their times compare with care",
            );
        }
        Scales::Tensor => changes.push("a scale per tensor is declared as scales per channel"),
        Scales::Usual | Scales::Channel => {}
    }
    Ok((Key { n: entry.n, k: entry.k, activation, formats, out, bias: *bias }, changes))
}

fn gemm(key: &Key, name: String, points: &BTreeSet<u32>) -> Gemm {
    Gemm {
        name,
        line: 0,
        n: key.n,
        k: key.k,
        count: 1,
        m: points.iter().map(|m| MPoint { m: *m, weight: 1.0 }).collect(),
        formats: key.formats.clone(),
        activation: key.activation,
        out: key.out,
        bias: key.bias,
        max_error: None,
        deterministic: false,
        two_copies_mib: None,
        tensors: Vec::new(),
    }
}

fn write(files: &[Foreign], model: &str, gemms: Vec<Gemm>) -> Result<(Declaration, String), BadInput> {
    let names: BTreeSet<String> = files
        .iter()
        .map(|foreign| format!("{} ({})", file_name(&foreign.file), foreign.source.name()))
        .collect();
    let names = names.into_iter().collect::<Vec<_>>().join(", ");
    let declaration = Declaration {
        file: PathBuf::from(format!("{model}.toml")),
        model: model.to_owned(),
        tensor_parallel: 1,
        source: Some(names),
        gemms,
        hash: 0,
    };
    let notes = Notes {
        header: vec![
            "Imported by `tilewright import`. The source says neither how often a model runs each GEMM nor how its \
             rows are distributed: correct `count` and the weights of `m`, and give `max_error`."
                .to_owned(),
        ],
        gemms: Vec::new(),
    };
    let text = declaration.to_toml_with(&notes);
    Ok((Declaration::parse(&declaration.file, &text)?, text))
}

fn prior(foreign: &Foreign, entry: &Entry, key: &Key, weight: String) -> Prior {
    let operation = foreign.operation_of(entry);
    let (library, kernel) = (foreign.name(entry.library), foreign.name(entry.kernel));
    let time_ns = entry.time_us.filter(|us| !is_placeholder(*us)).map(|us| (us * 1e6).round() / 1e3);
    let mut remarks = Vec::new();
    if entry.time_us.is_some() && time_ns.is_none() {
        remarks.push("placeholder time");
    }
    if aiter_unknown(foreign, entry) {
        remarks.push("unknown kernel name");
    }
    if entry.error.is_some_and(|error| error.is_nan() || error > ERROR_TOLERANCE) {
        remarks.push("error over tolerance");
    }
    let tile = match foreign.source {
        Source::Aiter => aiter::kernel::tile(library, kernel),
        Source::Vllm | Source::Triton => vllm::tile(kernel),
        _ => None,
    };
    Prior {
        source: foreign.source.name().to_owned(),
        family: foreign.family.map_or("", |family| family.name()).to_owned(),
        file: file_name(&foreign.file),
        line: entry.line,
        device: operation.arch.clone(),
        units: operation.units,
        software: foreign.software.join(" "),
        weight,
        m: entry.m,
        n: entry.n,
        k: entry.k,
        activation: operation.a.name().to_owned(),
        format: operation.b.name().to_owned(),
        scaling: operation.scales.name().to_owned(),
        out: key.out.name().to_owned(),
        bias: operation.bias,
        preshuffled: operation.preshuffled,
        variant: operation.variant.clone(),
        library: library.to_owned(),
        kernel: kernel.to_owned(),
        tile: tile.unwrap_or_default(),
        split_k: foreign.split_count(entry),
        split_k_written: entry.split_k,
        time_ns,
        error_ratio: entry.error,
        index: entry.index,
        origin: foreign.name(entry.origin).to_owned(),
        remark: remarks.join("; "),
    }
}

/// The share of wrong elements up to which AITER's tuner takes a kernel.
pub(crate) const ERROR_TOLERANCE: f64 = 0.05;

/// Whether a time was never measured: AITER's tables hold 0, exactly 1 µs, -1 and infinity for that.
pub(crate) fn is_placeholder(us: f64) -> bool {
    !us.is_finite() || us <= 0.0 || us == 1.0
}

/// Whether a row names a kernel in no form of its library.
pub(crate) fn aiter_unknown(foreign: &Foreign, entry: &Entry) -> bool {
    foreign.source == Source::Aiter
        && entry.kernel != NONE
        && aiter::kernel::is_known(foreign.name(entry.library), foreign.name(entry.kernel)) == Some(false)
}

fn file_name(path: &Path) -> String {
    path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned())
}
