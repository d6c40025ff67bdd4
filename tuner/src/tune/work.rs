//! The units of a tuning run: one weight shape with everything that decides about it.

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
    source: Source<'w>,
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
            source,
        });
    }
    if faults.is_empty() { Ok(works) } else { Err(BadInput(faults)) }
}

fn asks_the_same(work: &Work<'_>, gemm: &Gemm, pairs: &[FormatPair]) -> bool {
    (work.n, work.k, work.out, work.bias, work.deterministic)
        == (gemm.n, gemm.k, gemm.out, gemm.bias, gemm.deterministic)
        && work.points == gemm.m
        && work.pairs == pairs
        && work.max_error == gemm.max_error
}
