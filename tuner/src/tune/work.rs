//! The units of a tuning run: one weight shape with everything that decides about it.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use tilewright_kernels::{BackendKind, Epilogue, Format, OutType, Problem};

use super::candidates::FormatPair;
use crate::diag::BadInput;
use crate::journal::ContestKey;
use crate::operands::{self, Stack, WeightFile};
use crate::shapes::{Declaration, Gemm, MPoint};

/// One weight to tune. GEMMs of a declaration that ask the same question share one.
pub struct Work<'w> {
    /// Name of the first GEMM that asks.
    pub name: String,
    /// All GEMMs that ask, as positions in the declaration.
    pub gemms: Vec<usize>,
    /// Output channels.
    pub n: u32,
    /// Input channels.
    pub k: u32,
    /// Row counts with their weights, ascending.
    pub points: Vec<MPoint>,
    /// Format pairs the declaration allows, most wanted first.
    pub pairs: Vec<FormatPair>,
    /// Bound on a pair's error.
    pub max_error: Option<f64>,
    /// Output type.
    pub out: OutType,
    /// Whether a bias is added.
    pub bias: bool,
    /// Whether equal inputs must give equal bits.
    pub deterministic: bool,
    /// Most MiB that two copies of the weight may take together, if two are allowed.
    pub two_copies_mib: Option<u64>,
    source: Source<'w>,
}

/// A [`Work`] for another process: what it needs to make the same operands, not the operands.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Job {
    name: String,
    n: u32,
    k: u32,
    m: Vec<(u32, f64)>,
    out: String,
    bias: bool,
    deterministic: bool,
    /// Files, tensors and shards of real weights.
    weights: Option<(Vec<PathBuf>, Vec<String>, usize)>,
}

impl Job {
    /// Something small that every device has a kernel for.
    pub fn small() -> Self {
        Job {
            name: "self test".into(),
            n: 64,
            k: 64,
            m: vec![(1, 1.0)],
            out: OutType::F32.to_string(),
            bias: false,
            deterministic: false,
            weights: None,
        }
    }

    /// The files that its weight is in, if it is real.
    pub fn files(&self) -> Option<&[PathBuf]> {
        self.weights.as_ref().map(|(files, ..)| files.as_slice())
    }

    /// The problem at `m` rows, as [`Work::base`] gives it.
    ///
    /// # Errors
    /// If the job has no such problem.
    pub fn base(&self, m: u32) -> Result<Problem, String> {
        let out = OutType::from_name(&self.out).ok_or_else(|| format!("{:?} is no output type", self.out))?;
        // Between declared Ms, too: that is where changes of kernel are located.
        let known = self.m.iter().map(|(known, _)| *known);
        if !(known.clone().min() <= Some(m) && Some(m) <= known.max()) {
            return Err(format!("{}: not to be tuned at M={m}", self.name));
        }
        let epilogue = if self.bias { Epilogue::Bias } else { Epilogue::None };
        Ok(Problem { out, epilogue, ..Problem::new(m, self.n, self.k, Format::Bf16) })
    }

    /// The work. `weights` are the opened [files](Job::files). Formats are not part of a job: they come with each question.
    ///
    /// # Errors
    /// If it is not a job, or its files are not given.
    pub fn work<'w>(&self, weights: Option<&'w WeightFile>) -> Result<Work<'w>, String> {
        let source = match (&self.weights, weights) {
            (None, _) => Source::Random,
            (Some((_, tensors, shards)), Some(file)) => {
                Source::File { file, tensors: tensors.clone(), shards: *shards }
            }
            (Some(_), None) => return Err(format!("{}: its weight files are not open", self.name)),
        };
        if self.n == 0 || self.k == 0 || self.m.is_empty() || self.m.iter().any(|(m, _)| *m == 0) {
            return Err(format!("{}: a GEMM without elements", self.name));
        }
        Ok(Work {
            name: self.name.clone(),
            gemms: Vec::new(),
            n: self.n,
            k: self.k,
            points: self.m.iter().map(|(m, weight)| MPoint { m: *m, weight: *weight }).collect(),
            pairs: Vec::new(),
            max_error: None,
            out: OutType::from_name(&self.out).ok_or_else(|| format!("{:?} is no output type", self.out))?,
            bias: self.bias,
            deterministic: self.deterministic,
            two_copies_mib: None,
            source,
        })
    }
}

/// Where the weight's values come from.
enum Source<'w> {
    Random,
    File { file: &'w WeightFile, tensors: Vec<String>, shards: usize },
}

impl Work<'_> {
    /// The problem at `m` rows, in formats that a [`FormatPair`] replaces.
    pub fn base(&self, m: u32) -> Problem {
        let epilogue = if self.bias { Epilogue::Bias } else { Epilogue::None };
        Problem { out: self.out, epilogue, ..Problem::new(m, self.n, self.k, Format::Bf16) }
    }

    /// The weight, N × K: real, or random with the features of one.
    ///
    /// # Errors
    /// If the file no longer holds what it held when the work was planned.
    pub fn values(&self) -> Result<Vec<f32>, BadInput> {
        let (n, k) = (self.n as usize, self.k as usize);
        match &self.source {
            Source::Random => Ok(operands::weight(n, k, operands::SEED)),
            Source::File { file, tensors, shards } => {
                file.load(&Stack { gemm: &self.name, tensors, n, k, shards: *shards })
            }
        }
    }

    /// What another process needs to make the same operands.
    pub fn job(&self) -> Job {
        let weights = match &self.source {
            Source::Random => None,
            Source::File { file, tensors, shards } => Some((file.paths(), tensors.clone(), *shards)),
        };
        Job {
            name: self.name.clone(),
            n: self.n,
            k: self.k,
            m: self.points.iter().map(|point| (point.m, point.weight)).collect(),
            out: self.out.to_string(),
            bias: self.bias,
            deterministic: self.deterministic,
            weights,
        }
    }

    /// The contest at `m` rows among `pairs`.
    pub fn key(&self, m: u32, pairs: &[FormatPair]) -> ContestKey {
        let Work { n, k, out, bias, deterministic, .. } = self;
        let pairs: Vec<String> = pairs.iter().map(FormatPair::to_string).collect();
        ContestKey(format!(
            "m={m} n={n} k={k} out={out} bias={bias} deterministic={deterministic} {}",
            pairs.join(",")
        ))
    }
}

/// Groups the GEMMs of a declaration and readies their weights.
///
/// # Errors
/// Every GEMM whose tensors do not fit, when `weights` are given.
pub fn plan_work<'w>(
    declaration: &Declaration,
    backend: BackendKind,
    weights: Option<&'w WeightFile>,
) -> Result<Vec<Work<'w>>, BadInput> {
    let mut works: Vec<Work<'w>> = Vec::new();
    let mut faults = Vec::new();
    for (index, gemm) in declaration.gemms.iter().enumerate() {
        let pairs = FormatPair::of(gemm.activation, &gemm.formats, gemm.max_error.is_some(), backend);
        // Real weights of equal shape differ in how well a format fits them.
        let same = |work: &&mut Work<'_>| weights.is_none() && asks_the_same(work, gemm, &pairs);
        if let Some(work) = works.iter_mut().find(same) {
            work.gemms.push(index);
            continue;
        }
        let source = match weights {
            None => Source::Random,
            Some(file) => {
                let (n, k) = (gemm.n as usize, gemm.k as usize);
                let shards = declaration.tensor_parallel as usize;
                if let Err(bad) =
                    file.check(&Stack { gemm: &gemm.name, tensors: &gemm.tensors, n, k, shards })
                {
                    faults.extend(bad.0);
                    continue;
                }
                Source::File { file, tensors: gemm.tensors.clone(), shards }
            }
        };
        works.push(Work {
            name: gemm.name.clone(),
            gemms: vec![index],
            n: gemm.n,
            k: gemm.k,
            points: gemm.m.clone(),
            pairs,
            max_error: gemm.max_error,
            out: gemm.out,
            bias: gemm.bias,
            deterministic: gemm.deterministic,
            two_copies_mib: gemm.two_copies_mib,
            source,
        });
    }
    if faults.is_empty() { Ok(works) } else { Err(BadInput(faults)) }
}

fn asks_the_same(work: &Work<'_>, gemm: &Gemm, pairs: &[FormatPair]) -> bool {
    (work.n, work.k, work.out, work.bias, work.deterministic, work.two_copies_mib)
        == (gemm.n, gemm.k, gemm.out, gemm.bias, gemm.deterministic, gemm.two_copies_mib)
        && work.points == gemm.m
        && work.pairs == pairs
        && work.max_error == gemm.max_error
}
