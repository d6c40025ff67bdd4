//! Times what dispatch chooses from a CUDA table, beside the library's own best, on this machine's GPU.
//!
//! ```text
//! cuda_bench TABLE.toml MS CSV
//! ```
//!
//! For each weight and M one line of CSV: name, count, M, N, K, then microseconds of the table's choice (with the snapping
//! of the activation where it has one), of cuBLASLt's fastest bf16 algorithm, and of its FP8 with a scale for each token
//! and channel (without and with the quantisation of the activation), then rung and config of the choice. All are
//! cache-cold, the median of nine samples, taken in turn. `ci/compare_cuda.py` puts torch beside them.

use std::io::Write as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tilewright::{operands, table};
use tilewright_dispatch::{Request, Table};
use tilewright_kernels::backend::{Backend, Operands, Regime, Session};
use tilewright_kernels::cuda::{Cuda, CudaSession};
use tilewright_kernels::format::quantize::{QuantizeOptions, Quantized};
use tilewright_kernels::{Config, Epilogue, Format, Layout, Problem, Scaling, family};

const SAMPLES: usize = 9;

/// What is timed: a problem, a config, and whether the quantisation of the activation counts.
type Entrant = (Problem, Config, bool);

fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [table, ms, csv] = arguments.as_slice() else { anyhow::bail!("usage: cuda_bench TABLE.toml MS CSV") };
    let ms: Vec<u32> = ms.split(',').map(str::parse).collect::<Result<_, _>>()?;
    let cuda = Cuda::open(0, Cuda::usual_cache())?;
    let data = table::load(&PathBuf::from(table))?;
    let bound = Table::bind(data, cuda.device());
    let mut csv = std::fs::OpenOptions::new().create(true).append(true).open(csv)?;
    for plan in data.weights {
        let key = data.groups[plan.group as usize].key;
        let (n, k) = (key.n as usize, key.k as usize);
        let most = *ms.iter().max().unwrap_or(&1) as usize;
        let mut session = cuda.session(operands_of(&key_formats(data, plan), most, n, k)?, Regime::Cold)?;
        for &m in &ms {
            let problem = data.groups[plan.group_at(m) as usize].key.problem(m);
            let layout = data.groups[plan.group_at(m) as usize].key.layout;
            let request = Request { problem, layout, deterministic: plan.deterministic };
            let choice = bound.choose(&request).map_err(|none| anyhow::anyhow!("{none}"))?;
            let plain = Problem { epilogue: Epilogue::None, ..problem };
            let bf16 = Problem { a: Format::Bf16, b: Format::Bf16, scaling: Scaling::None, ..plain };
            let fp8 = Problem { a: Format::Fp8E4m3, b: Format::Fp8E4m3, scaling: Scaling::Channel, ..plain };
            let library = |problem: &Problem| {
                let heuristic = family::fallback(problem, Layout::RowMajor, cuda.device());
                heuristic.into_iter().chain(cuda.suggest(problem)).collect::<Vec<_>>()
            };
            let mut entrants: Vec<Entrant> = vec![(problem, *choice.config, true)];
            entrants.extend(library(&bf16).into_iter().map(|config| (bf16, config, true)));
            let fp8s = library(&fp8);
            entrants.extend(fp8s.iter().map(|config| (fp8, *config, false)));
            entrants.extend(fp8s.iter().map(|config| (fp8, *config, true)));
            let times = times(&mut session, &entrants);
            let best = |is: &dyn Fn(&Entrant) -> bool| {
                let all = entrants.iter().zip(&times).skip(1).filter(|(entrant, _)| is(entrant));
                all.map(|(_, us)| *us).fold(f64::NAN, f64::min)
            };
            let line = format!(
                "{},{},{m},{n},{k},{:.2},{:.2},{:.2},{:.2},{:?},{}\n",
                plan.name,
                plan.count,
                times[0],
                best(&|e| e.0 == bf16),
                best(&|e| e.0 == fp8 && !e.2),
                best(&|e| e.0 == fp8 && e.2),
                choice.provenance,
                *choice.config
            );
            print!("{line}");
            csv.write_all(line.as_bytes())?;
        }
    }
    Ok(())
}

/// The formats of a weight's copies, and those of the library.
fn key_formats(
    data: &tilewright_dispatch::TableData<'_>,
    plan: &tilewright_dispatch::table::WeightPlan<'_>,
) -> Vec<Format> {
    let mut formats = vec![Format::Bf16, Format::Fp8E4m3];
    for group in [Some(plan.group), plan.second.map(|second| second.group)].into_iter().flatten() {
        let format = data.groups[group as usize].key.b;
        if !formats.contains(&format) {
            formats.push(format);
        }
    }
    formats
}

fn operands_of(formats: &[Format], m: usize, n: usize, k: usize) -> anyhow::Result<Operands> {
    let values = operands::weight(n, k, 7);
    let weights = formats.iter().map(|format| {
        let options = QuantizeOptions::default();
        Quantized::quantize(&values, n, k, *format, Scaling::usual(*format), &options).map(Arc::new)
    });
    Ok(Operands {
        m,
        n,
        k,
        activation: operands::activation(m, k, 9).into(),
        weights: weights.collect::<Result<_, _>>()?,
        bias: Some(operands::weight(1, n, 8).into()),
    })
}

/// Median microseconds of each entrant, measured in turn; NaN for one that fails.
fn times(session: &mut CudaSession<'_>, entrants: &[Entrant]) -> Vec<f64> {
    let mut samples: Vec<Vec<f64>> = vec![Vec::new(); entrants.len()];
    for _ in 0..SAMPLES {
        for ((problem, config, snap), samples) in entrants.iter().zip(&mut samples) {
            let time: Result<Duration, _> =
                if *snap { session.time(problem, config, 0) } else { session.time_kernel(problem, config) };
            samples.extend(time.ok().map(|time| time.as_nanos() as f64 / 1e3));
        }
    }
    samples
        .into_iter()
        .map(|mut samples| {
            samples.sort_by(f64::total_cmp);
            samples.get(samples.len() / 2).copied().unwrap_or(f64::NAN)
        })
        .collect()
}
