//! Times a few CPU configs on one shape, interleaved, and prints speed and bandwidth.
//!
//! `cargo run --release -p tilewright-kernels --example cpu_probe -- [N K [rounds [filter]]]`

use std::sync::Arc;

use tilewright_kernels::backend::{Backend, Operands, Regime, RunFault};
use tilewright_kernels::cpu::Cpu;
use tilewright_kernels::format::quantize::{QuantizeOptions, Quantized};
use tilewright_kernels::{Config, Format, Problem, Scaling, is_launchable};

/// (weight format, activation format, M, config).
const PROBES: &[(Format, Format, u32, &str)] = &[
    (
        Format::Bf16,
        Format::Bf16,
        1,
        "skinny_bf16@1(layout=panel16x2,path=avx512,prefetch=4096,split_k=1,threads=1,tile_m=1,tile_n=32)",
    ),
    (
        Format::Bf16,
        Format::Bf16,
        8,
        "skinny_bf16@1(layout=panel16x2,path=avx512,prefetch=4096,split_k=1,threads=1,tile_m=8,tile_n=32)",
    ),
    (
        Format::Bf16,
        Format::Bf16,
        128,
        "tiled_bf16@1(decode=fused,kc=2048,layout=panel16x2,mc=0,nc=64,path=avx512,prefetch=0,split_k=1,threads=1,tile_m=8,tile_n=32)",
    ),
    (
        Format::Bf16,
        Format::Bf16,
        1,
        "skinny_bf16@1(layout=panel16x2,path=avx512_bf16,prefetch=4096,split_k=1,threads=1,tile_m=1,tile_n=32)",
    ),
    (
        Format::Bf16,
        Format::Bf16,
        8,
        "skinny_bf16@1(layout=panel16x2,path=avx512_bf16,prefetch=4096,split_k=1,threads=1,tile_m=8,tile_n=32)",
    ),
    (
        Format::Bf16,
        Format::Bf16,
        128,
        "tiled_bf16@1(decode=fused,kc=2048,layout=panel16x2,mc=0,nc=64,path=avx512_bf16,prefetch=0,split_k=1,threads=1,tile_m=8,tile_n=32)",
    ),
    (
        Format::Fp8E4m3,
        Format::Bf16,
        1,
        "skinny_fp8@1(layout=panel16x2,path=avx512,prefetch=4096,split_k=1,threads=1,tile_m=1,tile_n=32)",
    ),
    (
        Format::Fp8E4m3,
        Format::Bf16,
        8,
        "skinny_fp8@1(layout=panel16x2,path=avx512,prefetch=4096,split_k=1,threads=1,tile_m=8,tile_n=32)",
    ),
    (
        Format::Fp8E4m3,
        Format::Bf16,
        128,
        "tiled_fp8@1(decode=fused,kc=2048,layout=panel16x2,mc=0,nc=64,path=avx512,prefetch=0,split_k=1,threads=1,tile_m=8,tile_n=32)",
    ),
    (
        Format::Fp8E4m3,
        Format::Bf16,
        128,
        "tiled_fp8@1(decode=scratch,kc=512,layout=panel16x2,mc=0,nc=64,path=avx512,prefetch=0,split_k=1,threads=1,tile_m=12,tile_n=32)",
    ),
    (
        Format::Fp8E4m3,
        Format::Bf16,
        1,
        "skinny_fp8@1(layout=panel16x2,path=avx512_bf16,prefetch=4096,split_k=1,threads=1,tile_m=1,tile_n=32)",
    ),
    (
        Format::Fp8E4m3,
        Format::Bf16,
        8,
        "skinny_fp8@1(layout=panel16x2,path=avx512_bf16,prefetch=4096,split_k=1,threads=1,tile_m=8,tile_n=32)",
    ),
    (
        Format::Fp8E4m3,
        Format::Bf16,
        128,
        "tiled_fp8@1(decode=fused,kc=2048,layout=panel16x2,mc=0,nc=64,path=avx512_bf16,prefetch=0,split_k=1,threads=1,tile_m=8,tile_n=32)",
    ),
    (
        Format::Fp8E4m3,
        Format::Bf16,
        128,
        "tiled_fp8@1(decode=scratch,kc=512,layout=panel16x2,mc=0,nc=64,path=avx512_bf16,prefetch=0,split_k=1,threads=1,tile_m=12,tile_n=32)",
    ),
    (
        Format::MxFp6E2m3,
        Format::Bf16,
        1,
        "skinny_mxfp6@1(layout=panel16x2,path=avx512,prefetch=4096,split_k=1,threads=1,tile_m=1,tile_n=32)",
    ),
    (
        Format::MxFp6E2m3,
        Format::Bf16,
        8,
        "skinny_mxfp6@1(layout=panel16x2,path=avx512,prefetch=4096,split_k=1,threads=1,tile_m=8,tile_n=32)",
    ),
    (
        Format::MxFp6E2m3,
        Format::Bf16,
        128,
        "tiled_mxfp6@1(decode=fused,kc=2048,layout=panel16x2,mc=0,nc=64,path=avx512,prefetch=0,split_k=1,threads=1,tile_m=8,tile_n=32)",
    ),
    (
        Format::MxFp6E2m3,
        Format::Bf16,
        128,
        "tiled_mxfp6@1(decode=scratch,kc=512,layout=panel16x2,mc=0,nc=64,path=avx512,prefetch=0,split_k=1,threads=1,tile_m=12,tile_n=32)",
    ),
    (
        Format::MxFp6E2m3,
        Format::Bf16,
        1,
        "skinny_mxfp6@1(layout=panel16x2,path=avx512_bf16,prefetch=4096,split_k=1,threads=1,tile_m=1,tile_n=32)",
    ),
    (
        Format::MxFp6E2m3,
        Format::Bf16,
        8,
        "skinny_mxfp6@1(layout=panel16x2,path=avx512_bf16,prefetch=4096,split_k=1,threads=1,tile_m=8,tile_n=32)",
    ),
    (
        Format::MxFp6E2m3,
        Format::Bf16,
        128,
        "tiled_mxfp6@1(decode=fused,kc=2048,layout=panel16x2,mc=0,nc=64,path=avx512_bf16,prefetch=0,split_k=1,threads=1,tile_m=8,tile_n=32)",
    ),
    (
        Format::MxFp6E2m3,
        Format::Bf16,
        128,
        "tiled_mxfp6@1(decode=scratch,kc=512,layout=panel16x2,mc=0,nc=64,path=avx512_bf16,prefetch=0,split_k=1,threads=1,tile_m=12,tile_n=32)",
    ),
    (
        Format::MxFp6E2m3,
        Format::MxFp6E2m3,
        1,
        "skinny_mxfp6@1(layout=panel16x2,path=avx512_vnni,prefetch=4096,split_k=1,threads=1,tile_m=1,tile_n=32)",
    ),
    (
        Format::MxFp6E2m3,
        Format::MxFp6E2m3,
        8,
        "skinny_mxfp6@1(layout=panel16x2,path=avx512_vnni,prefetch=4096,split_k=1,threads=1,tile_m=8,tile_n=32)",
    ),
    (
        Format::MxFp6E2m3,
        Format::MxFp6E2m3,
        128,
        "tiled_mxfp6@1(decode=fused,kc=2048,layout=panel16x2,mc=0,nc=64,path=avx512_vnni,prefetch=0,split_k=1,threads=1,tile_m=8,tile_n=32)",
    ),
    (
        Format::MxFp6E2m3,
        Format::MxFp6E2m3,
        128,
        "tiled_mxfp6@1(decode=scratch,kc=512,layout=panel16x2,mc=0,nc=64,path=avx512_vnni,prefetch=0,split_k=1,threads=1,tile_m=12,tile_n=32)",
    ),
    (
        Format::MxFp8,
        Format::Bf16,
        8,
        "skinny_mxfp8@1(layout=panel16x2,path=avx512,prefetch=4096,split_k=1,threads=1,tile_m=8,tile_n=32)",
    ),
    (
        Format::MxFp4,
        Format::Bf16,
        8,
        "skinny_mxfp4@1(layout=panel16x2,path=avx512,prefetch=4096,split_k=1,threads=1,tile_m=8,tile_n=32)",
    ),
    (
        Format::Bf16,
        Format::Bf16,
        1,
        "skinny_bf16@1(layout=row_major,path=avx512,prefetch=0,split_k=1,threads=1,tile_m=1,tile_n=32)",
    ),
    (
        Format::Bf16,
        Format::Bf16,
        8,
        "skinny_bf16@1(layout=panel16,path=avx2,prefetch=4096,split_k=1,threads=1,tile_m=4,tile_n=16)",
    ),
    (
        Format::Bf16,
        Format::Bf16,
        8,
        "skinny_bf16@1(layout=panel16,path=portable,prefetch=0,split_k=1,threads=1,tile_m=4,tile_n=16)",
    ),
    (
        Format::Fp8E4m3,
        Format::Bf16,
        1,
        "skinny_fp8@1(layout=row_major,path=avx512,prefetch=0,split_k=1,threads=1,tile_m=1,tile_n=32)",
    ),
    (
        Format::Fp8E4m3,
        Format::Bf16,
        8,
        "skinny_fp8@1(layout=panel16,path=avx2,prefetch=4096,split_k=1,threads=1,tile_m=4,tile_n=16)",
    ),
    (
        Format::Fp8E4m3,
        Format::Bf16,
        8,
        "skinny_fp8@1(layout=panel16,path=portable,prefetch=0,split_k=1,threads=1,tile_m=4,tile_n=16)",
    ),
    (
        Format::MxFp6E2m3,
        Format::Bf16,
        1,
        "skinny_mxfp6@1(layout=row_major,path=avx512,prefetch=0,split_k=1,threads=1,tile_m=1,tile_n=32)",
    ),
    (
        Format::MxFp6E2m3,
        Format::Bf16,
        8,
        "skinny_mxfp6@1(layout=panel16,path=avx2,prefetch=4096,split_k=1,threads=1,tile_m=4,tile_n=16)",
    ),
    (
        Format::MxFp6E2m3,
        Format::Bf16,
        8,
        "skinny_mxfp6@1(layout=panel16,path=portable,prefetch=0,split_k=1,threads=1,tile_m=4,tile_n=16)",
    ),
    (
        Format::Fp8E4m3,
        Format::Bf16,
        8,
        "skinny_fp8@1(layout=panel16x2,path=avx512,prefetch=4096,split_k=1,threads=2,tile_m=8,tile_n=32)",
    ),
];

fn main() -> Result<(), RunFault> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |index: usize, otherwise: u32| {
        arguments.get(index).map_or(otherwise, |text| text.parse().expect("N, K and rounds are numbers"))
    };
    let (n, k, rounds) = (number(0, 4096), number(1, 4096), number(2, 15));
    let filter = arguments.get(3).map_or("", String::as_str);
    let cpu = Cpu::detect();
    println!("{}\nN={n} K={k}, median of {rounds} interleaved cold launches", cpu.fingerprint());

    let probes: Vec<_> = PROBES
        .iter()
        .map(|(b, a, m, text)| {
            let config = Config::parse(&format!("cpu.{text}")).expect("probes are canonical texts");
            (Problem { a: *a, ..Problem::new(*m, n, k, *b) }, config)
        })
        .filter(|(problem, config)| {
            config.to_string().contains(filter) && is_launchable(config, problem, cpu.device()).is_ok()
        })
        .collect();
    let mut sessions = Vec::new();
    let mut weights: Vec<(Format, Arc<Quantized>)> = Vec::new();
    for (problem, _) in &probes {
        let weight = match weights.iter().find(|(format, _)| *format == problem.b) {
            Some((_, weight)) => weight.clone(),
            None => {
                let values: Vec<f32> = (0..n as usize * k as usize).map(noise).collect();
                let options = QuantizeOptions::default();
                let made = Quantized::quantize(
                    &values,
                    n as usize,
                    k as usize,
                    problem.b,
                    Scaling::usual(problem.b),
                    &options,
                );
                weights.push((problem.b, Arc::new(made.map_err(|e| RunFault::Failed(e.to_string()))?)));
                weights[weights.len() - 1].1.clone()
            }
        };
        let (m, n, k) = (problem.m as usize, n as usize, k as usize);
        let activation: Arc<[f32]> = (0..m * k).map(|i| noise(i * 7 + 3)).collect();
        let operands = Operands { m, n, k, activation, weights: vec![weight], bias: None };
        sessions.push(cpu.open(operands, Regime::Cold)?);
    }
    let mut times = vec![Vec::new(); probes.len()];
    for round in 0..rounds as usize + 1 {
        for (index, (problem, config)) in probes.iter().enumerate() {
            let time = sessions[index].time(problem, config, round)?;
            if round > 0 {
                times[index].push(time.as_secs_f64());
            }
        }
    }
    for ((problem, config), times) in probes.iter().zip(&mut times) {
        times.sort_by(f64::total_cmp);
        let time = times[times.len() / 2];
        let bits = problem.b.bits() as f64 + if problem.b.is_mx() { 0.25 } else { 0.0 };
        println!(
            "{:>8.1} GFLOP/s {:>6.1} GB/s of weight {:>8.3} ms  m={} a={} {config}",
            problem.flops() as f64 / time / 1e9,
            f64::from(n) * f64::from(k) * bits / 8.0 / time / 1e9,
            time * 1e3,
            problem.m,
            problem.a,
        );
    }
    Ok(())
}

/// A cheap deterministic value of bf16 precision in [-2, 2).
fn noise(index: usize) -> f32 {
    let hash = (index as u32).wrapping_mul(0x9e37_79b1) >> 24;
    hash as f32 / 64.0 - 2.0
}
