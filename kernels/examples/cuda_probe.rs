//! Verifies and measures the CUDA kernels on the GPU of this machine.
//!
//! ```text
//! cuda_probe check [CONFIGS]          configs of each family and shape against the float64 reference
//! cuda_probe time N K M A CONFIG...   these configs alone
//! cuda_probe sweep CSV MS FORMATS [CONFIGS] [NAMES]   the fastest of CONFIGS configs for each LLM problem, to CSV
//! ```
//!
//! FORMATS is a comma-separated list of WEIGHT:ACTIVATION, MS one of rows of the activation.

use std::collections::HashMap;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tilewright_kernels::backend::{Backend, Operands, Regime, Session};
use tilewright_kernels::cuda::Cuda;
use tilewright_kernels::format::quantize::{QuantizeOptions, Quantized};
use tilewright_kernels::reference::{Reference, Sample};
use tilewright_kernels::space::enumerate;
use tilewright_kernels::{Config, Epilogue, Format, OutType, Problem, Scaling, is_launchable};

/// Name, N and K of the problems of reference tables: Llama 3.1 405B (tensor parallel 8) and 8B.
const LLM: [(&str, u32, u32); 8] = [
    ("llama405b_tp8.qkv", 2304, 16384),
    ("llama405b_tp8.o", 16384, 2048),
    ("llama405b_tp8.gate_up", 13312, 16384),
    ("llama405b_tp8.down", 16384, 6656),
    ("llama8b.qkv", 6144, 4096),
    ("llama8b.o", 4096, 4096),
    ("llama8b.gate_up", 28672, 4096),
    ("llama8b.down", 4096, 14336),
];

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let cuda = Cuda::open(0, Cuda::usual_cache()).unwrap_or_else(|fault| {
        eprintln!("{fault}");
        std::process::exit(1);
    });
    println!("{} | {:?} | driver CUDA {}", cuda.fingerprint(), cuda.device(), cuda.driver_version());
    let number = |at: usize, or: usize| arguments.get(at).and_then(|a| a.parse().ok()).unwrap_or(or);
    let ok = match arguments.first().map(String::as_str) {
        Some("check") => check(&cuda, number(1, 12)),
        Some("time") if arguments.len() > 5 => {
            time(&cuda, &arguments[1..]);
            true
        }
        Some("sweep") if arguments.len() >= 4 => {
            let ms: Vec<u32> = arguments[2].split(',').filter_map(|m| m.parse().ok()).collect();
            let names = arguments.get(5).map_or("", String::as_str);
            sweep(&cuda, &arguments[1], &ms, &arguments[3], number(4, 100), names);
            true
        }
        _ => {
            eprintln!("usage: cuda_probe check [CONFIGS] | sweep CSV MS FORMATS [CONFIGS] [NAMES]");
            false
        }
    };
    std::process::exit(i32::from(!ok));
}

/// Fills a row-major matrix with values whose rows differ in size, reproducibly, on every core.
fn random(rows: usize, k: usize, seed: u64) -> Vec<f32> {
    let mut values = vec![0.0f32; rows * k];
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let share = rows.div_ceil(threads).max(1);
    std::thread::scope(|scope| {
        for (part, chunk) in values.chunks_mut(share * k).enumerate() {
            scope.spawn(move || {
                for (r, row) in chunk.chunks_mut(k).enumerate() {
                    let mut state = (seed + 1) * 0x9e37_79b9_7f4a_7c15
                        + (part * share + r) as u64 * 0xd134_2543_de82_ef95;
                    let size = [1.0, 0.05, 8.0][r % 3];
                    for v in row {
                        state = state
                            .wrapping_mul(6_364_136_223_846_793_005)
                            .wrapping_add(1_442_695_040_888_963_407);
                        let unit = |bits: u64| (bits & 0xffff) as f32 / 65536.0 - 0.5;
                        // The sum of three uniforms is near enough to normal.
                        *v = size * (unit(state >> 16) + unit(state >> 32) + unit(state >> 48));
                    }
                }
            });
        }
    });
    values
}

fn round_bf16(values: Vec<f32>) -> Vec<f32> {
    values.into_iter().map(|v| Format::Bf16.decode(Format::Bf16.encode(v))).collect()
}

fn quantised(n: u32, k: u32, format: Format) -> Option<Arc<Quantized>> {
    let values = random(n as usize, k as usize, 1);
    let options = QuantizeOptions::default();
    Quantized::quantize(&values, n as usize, k as usize, format, Scaling::usual(format), &options)
        .ok()
        .map(Arc::new)
}

fn operands(m: u32, n: u32, k: u32, weights: Vec<Arc<Quantized>>) -> Operands {
    Operands {
        m: m as usize,
        n: n as usize,
        k: k as usize,
        activation: round_bf16(random(m as usize, k as usize, 2)).into(),
        weights,
        bias: Some(random(1, n as usize, 3).into()),
    }
}

fn configs(cuda: &Cuda, problem: &Problem) -> Vec<Config> {
    // Kernels that multiply in bf16 take quantised activations, but are enumerated without.
    let plain = Problem { a: Format::Bf16, ..*problem };
    let enumerated = cuda.families().into_iter().flat_map(|family| {
        [enumerate(family, problem, cuda.device()), enumerate(family, &plain, cuda.device())].concat()
    });
    let mut all: Vec<Config> = Vec::new();
    for config in enumerated.chain(cuda.suggest(problem)) {
        if is_launchable(&config, problem, cuda.device()).is_ok()
            && (problem.a == Format::Bf16 || !all.contains(&config))
        {
            all.push(config);
        }
    }
    all
}

/// A reproducible choice of `count` of them.
fn choose(mut from: Vec<Config>, count: usize, seed: u64) -> Vec<Config> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut chosen = Vec::new();
    while chosen.len() < count && !from.is_empty() {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        chosen.push(from.swap_remove((state >> 33) as usize % from.len()));
    }
    chosen
}

const PAIRS: [(Format, Format); 9] = [
    (Format::Bf16, Format::Bf16),
    (Format::Fp8E4m3, Format::Bf16),
    (Format::Fp8E4m3, Format::Fp8E4m3),
    (Format::MxFp6E2m3, Format::Bf16),
    (Format::MxFp6E2m3, Format::Fp8E4m3),
    (Format::MxFp6E2m3, Format::MxFp6E2m3),
    (Format::MxFp6E3m2, Format::Bf16),
    (Format::MxFp6E3m2, Format::MxFp6E3m2),
    (Format::Bf16, Format::Fp8E4m3),
];

fn check(cuda: &Cuda, count: usize) -> bool {
    let shapes = [
        (1, 16, 128),
        (3, 40, 96),
        (16, 1000, 1056),
        (17, 96, 4096),
        (33, 200, 1000),
        (64, 520, 2208),
        (8, 4096, 4096),
        (64, 2304, 16384),
        (200, 264, 1184),
    ];
    let (mut runs, mut wrong) = (0, 0);
    for (index, (m, n, k)) in shapes.into_iter().enumerate() {
        for (b, a) in PAIRS {
            let Some(weight) = quantised(n, k, b) else { continue };
            for (out, epilogue) in [(OutType::F32, Epilogue::None), (OutType::Bf16, Epilogue::Bias)] {
                let problem = Problem { a, out, epilogue, ..Problem::new(m, n, k, b) };
                let chosen = choose(configs(cuda, &problem), count, index as u64 + 1);
                if chosen.is_empty() {
                    continue;
                }
                cuda.ready(&chosen.iter().map(|config| (problem, *config)).collect::<Vec<_>>());
                let operands = operands(m, n, k, vec![weight.clone()]);
                let sample = Sample::spread(n as usize, 64);
                let reference = Reference::compute(
                    &problem,
                    &operands.activation,
                    &weight,
                    operands.bias.as_deref(),
                    sample,
                );
                let mut session = cuda.session(operands, Regime::Hot).expect("operands fit");
                let (mut first, mut worst) = (Vec::new(), 0.0f64);
                for config in &chosen {
                    runs += 1;
                    let mut output = Vec::new();
                    let mut again = Vec::new();
                    let result = session
                        .run(&problem, config, &mut output)
                        .and_then(|()| session.run(&problem, config, &mut again))
                        .map_err(|fault| fault.to_string())
                        .and_then(|()| reference.check(&output, out).map_err(|wrong| wrong.to_string()))
                        .and_then(|error| {
                            let same = output.iter().zip(&again).all(|(a, b)| a.to_bits() == b.to_bits());
                            if same { Ok(error) } else { Err("two runs differ".to_string()) }
                        });
                    match result {
                        Ok(error) => worst = worst.max(error),
                        Err(reason) => {
                            wrong += 1;
                            if first.len() < 3 {
                                first.push(format!("  {config}: {reason}"));
                            }
                        }
                    }
                }
                println!("{problem}: {} configs, worst error {worst:.3} of the tolerance", chosen.len());
                first.iter().for_each(|line| println!("{line}"));
            }
        }
    }
    println!("check: {runs} runs, {wrong} wrong");
    wrong == 0
}

/// Times configs given by their canonical text.
fn time(cuda: &Cuda, arguments: &[String]) {
    let number = |at: usize| arguments[at].parse::<u32>().expect("N, K and M are numbers");
    let (n, k, m) = (number(0), number(1), number(2));
    let a = Format::from_name(&arguments[3]).expect("an activation format");
    for text in &arguments[4..] {
        let config = Config::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        let b = config.family().formats[0];
        let weight = quantised(n, k, b).expect("K fits");
        let problem = Problem { a, out: OutType::Bf16, ..Problem::new(m, n, k, b) };
        let mut session = cuda.session(operands(m, n, k, vec![weight]), Regime::Cold).expect("operands fit");
        match median(15, || session.time_kernel(&problem, &config).ok()) {
            Some(us) => println!("{us:.2} us {text}"),
            None => println!("{:?} {text}", session.time_kernel(&problem, &config)),
        }
    }
}

/// The median of `count` timings.
fn median(count: usize, mut time: impl FnMut() -> Option<Duration>) -> Option<f64> {
    let mut times: Vec<f64> = (0..count).filter_map(|_| time()).map(|d| d.as_nanos() as f64 / 1e3).collect();
    times.sort_by(f64::total_cmp);
    times.get(times.len() / 2).copied()
}

fn sweep(cuda: &Cuda, csv: &str, ms: &[u32], formats: &str, count: usize, names: &str) {
    let mut file = OpenOptions::new().create(true).append(true).open(csv).expect("the CSV can be written");
    let pairs: Vec<(Format, Format)> = formats
        .split(',')
        .filter_map(|pair| pair.split_once(':'))
        .filter_map(|(b, a)| Some((Format::from_name(b)?, Format::from_name(a)?)))
        .collect();
    let mut weights: HashMap<(u32, u32, Format), Arc<Quantized>> = HashMap::new();
    for (name, n, k) in LLM.into_iter().filter(|(name, ..)| names.split(',').any(|part| name.contains(part)))
    {
        for &(b, a) in &pairs {
            let weight =
                weights.entry((n, k, b)).or_insert_with(|| quantised(n, k, b).expect("K fits")).clone();
            for &m in ms {
                let started = Instant::now();
                let problem = Problem { a, out: OutType::Bf16, ..Problem::new(m, n, k, b) };
                let mut all = configs(cuda, &problem);
                let total = all.len();
                all.sort_by(|x, y| {
                    let prior = |c: &Config| (c.family().prior)(c, &problem, cuda.device());
                    prior(x).total_cmp(&prior(y))
                });
                // As many without overlap as with it: two thirds by the prior, the rest at random.
                let (with, without): (Vec<_>, Vec<_>) =
                    all.into_iter().partition(|c| c.get("overlap") == Some(1));
                let mut all = Vec::new();
                for mut part in [without, with] {
                    let rest = part.split_off((count / 3).min(part.len()));
                    all.extend(part);
                    all.extend(choose(rest, count / 2 - count / 3, u64::from(m)));
                }
                cuda.ready(&all.iter().map(|config| (problem, *config)).collect::<Vec<_>>());
                let compiled = started.elapsed();
                let bytes = weight.storage_bytes() as f64;
                let operands = operands(m, n, k, vec![weight.clone()]);
                let reference = Reference::compute(
                    &problem,
                    &operands.activation,
                    &weight,
                    None,
                    Sample::spread(n as usize, 16),
                );
                let mut session = cuda.session(operands, Regime::Cold).expect("operands fit");
                let mut timed: Vec<(f64, Config)> = Vec::new();
                for config in &all {
                    match median(3, || session.time_kernel(&problem, config).ok()) {
                        Some(us) => timed.push((us, *config)),
                        None => println!("  {config}: {:?}", session.time_kernel(&problem, config)),
                    }
                }
                timed.sort_by(|x, y| x.0.total_cmp(&y.0));
                // The first eight of each kind are measured anew: the best of many short looks is a lucky one.
                let mut finals: Vec<(f64, Config)> = Vec::new();
                for overlap in [0, 1] {
                    let kind = timed.iter().filter(|(_, c)| c.get("overlap") == Some(overlap));
                    finals.extend(kind.take(8).filter_map(|(_, config)| {
                        Some((median(9, || session.time_kernel(&problem, config).ok())?, *config))
                    }));
                }
                finals.sort_by(|x, y| x.0.total_cmp(&y.0));
                for (us, config) in &finals {
                    writeln!(file, "{name},{m},{n},{k},{b},{a},{us:.3},{config:?}")
                        .expect("the CSV can be written");
                }
                let timed = finals;
                let Some(&(us, config)) = timed.first() else { continue };
                let with_snap = median(9, || session.time(&problem, &config, 0).ok()).unwrap_or(f64::MAX);
                let mut output = Vec::new();
                let verdict = match session.run(&problem, &config, &mut output) {
                    Ok(()) => reference
                        .check(&output, problem.out)
                        .map_or_else(|w| w.to_string(), |e| format!("{e:.3}")),
                    Err(fault) => fault.to_string(),
                };
                println!(
                    "{name} M={m} b={b} a={a}: {us:.2} us {:.2} TB/s, with snap {with_snap:.2} us, error {verdict}, \
                     {total} configs, {:.1}+{:.1} s: {config}",
                    bytes / us / 1e6,
                    compiled.as_secs_f64(),
                    started.elapsed().as_secs_f64() - compiled.as_secs_f64(),
                );
            }
        }
    }
}
