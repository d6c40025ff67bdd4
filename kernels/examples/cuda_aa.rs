//! How far two timings of one kernel lie apart on the GPU of this machine: what blocks and δ of a race are set from.
//!
//! ```text
//! cuda_aa [BLOCKS]
//! ```
//!
//! Each block times the same config twice, as a race's sentinel does. Printed are, for each problem and config, the
//! standard deviation of the log-ratio of a block's two timings, the 20 % trimmed mean over all blocks, and the largest
//! trimmed mean of any ten blocks in a row: a difference under that is not one.

use std::sync::Arc;
use std::time::Instant;

use tilewright_kernels::backend::{Backend, Operands, Regime, Session};
use tilewright_kernels::cuda::Cuda;
use tilewright_kernels::format::quantize::{QuantizeOptions, Quantized};
use tilewright_kernels::{Config, Format, Layout, OutType, Problem, Scaling, family};

/// Blocks of a race that is looked at early.
const WINDOW: usize = 10;

fn main() {
    let blocks = std::env::args().nth(1).and_then(|b| b.parse().ok()).unwrap_or(100);
    let cuda = Cuda::open(0, Cuda::usual_cache()).unwrap_or_else(|fault| {
        eprintln!("{fault}");
        std::process::exit(1);
    });
    println!(
        "{:>6} {:>6} {:>6}  {:>9} {:>8} {:>8} {:>8}  config",
        "m", "n", "k", "us", "sd %", "mean %", "worst %"
    );
    for (n, k) in [(4096, 4096), (28672, 4096)] {
        let weight = weight(n, k);
        for m in [1u32, 16, 256, 4096] {
            let problem = Problem { out: OutType::Bf16, ..Problem::new(m, n as u32, k as u32, Format::Bf16) };
            let operands = Operands {
                m: m as usize,
                n,
                k,
                activation: random(m as usize * k, 7).into(),
                weights: vec![weight.clone()],
                bias: None,
            };
            let mut session = cuda.session(operands, Regime::Cold).expect("the operands fit");
            for layout in [Layout::Mma64, Layout::RowMajor] {
                let Some(config) = family::fallback(&problem, layout, cuda.device()) else { continue };
                report(&mut session, &problem, &config, blocks);
            }
        }
    }
}

fn report(session: &mut impl Session, problem: &Problem, config: &Config, blocks: usize) {
    let warm = Instant::now();
    while warm.elapsed().as_millis() < 300 {
        if let Err(fault) = session.time(problem, config, 0) {
            println!("{problem} {config}: {fault}");
            return;
        }
    }
    let mut time = || session.time(problem, config, 0).map_or(f64::NAN, |t| t.as_nanos() as f64);
    let pairs: Vec<[f64; 2]> = (0..blocks).map(|_| [time(), time()]).collect();
    let logs: Vec<f64> = pairs.iter().map(|[a, b]| (b / a).ln()).collect();
    let mean = logs.iter().sum::<f64>() / logs.len() as f64;
    let sd = (logs.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / (logs.len() - 1) as f64).sqrt();
    let worst = logs.windows(WINDOW).map(|w| trimmed(w).abs()).fold(0.0, f64::max);
    let us = pairs.iter().map(|[a, _]| a).sum::<f64>() / pairs.len() as f64 / 1e3;
    println!(
        "{:>6} {:>6} {:>6}  {us:>9.2} {:>8.3} {:>8.3} {:>8.3}  {config}",
        problem.m,
        problem.n,
        problem.k,
        sd * 100.0,
        trimmed(&logs) * 100.0,
        worst * 100.0
    );
}

/// The mean without a fifth of the values at either end.
fn trimmed(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let cut = sorted.len() / 5;
    let kept = &sorted[cut..sorted.len() - cut];
    kept.iter().sum::<f64>() / kept.len() as f64
}

fn weight(n: usize, k: usize) -> Arc<Quantized> {
    let options = QuantizeOptions::default();
    let made = Quantized::quantize(&random(n * k, 3), n, k, Format::Bf16, Scaling::None, &options);
    Arc::new(made.expect("any matrix can be held in bf16"))
}

/// Bell-shaped values that are exact in bf16.
fn random(count: usize, seed: u64) -> Vec<f32> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let sum: i64 = (0..4).map(|i| ((state >> (16 * i)) & 0xffff) as i64 - 0x8000).sum();
        f32::from_bits((sum as f32 / 65536.0).to_bits() & 0xffff_0000)
    };
    (0..count).map(|_| next()).collect()
}
