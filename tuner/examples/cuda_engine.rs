//! Runs every weight of a CUDA table through the dispatch engine on this machine's GPU, and compares with the reference.
//!
//! ```text
//! cuda_engine TABLE.toml [TABLE.cubins] [MS]
//! ```
//!
//! Weights are random. With the archive no compiler is needed: NVRTC may be missing. Exit code 1 if anything is wrong.

use std::path::PathBuf;

use tilewright::{operands, table};
use tilewright_dispatch::exec::cuda::{CudaEngine, CudaError};
use tilewright_kernels::cuda::DeviceOperands;
use tilewright_kernels::format::quantize::{QuantizeOptions, Quantized};
use tilewright_kernels::reference::{Reference, Sample};
use tilewright_kernels::{Epilogue, OutType};

/// Columns of D that are compared.
const COLUMNS: usize = 64;

fn main() -> anyhow::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let path = PathBuf::from(arguments.next().unwrap_or_default());
    let archive = match arguments.next() {
        Some(path) => std::fs::read(path)?,
        None => Vec::new(),
    };
    let ms: Vec<u32> = arguments
        .next()
        .map_or(vec![1, 3, 17, 64, 200], |list| list.split(',').filter_map(|m| m.parse().ok()).collect());
    let data = table::load(&path)?;
    let engine = CudaEngine::open(0, data, &archive).map_err(|error| anyhow::anyhow!("{error}"))?;
    println!("table of {}; tuned here: {}", data.fingerprint, engine.is_tuned_here());
    let mut wrong = 0;
    for plan in data.weights {
        wrong += check(&engine, plan.name, &ms).map_err(|error| anyhow::anyhow!("{}: {error}", plan.name))?;
    }
    let counts = engine.table().counters().read();
    println!("{wrong} wrong; {counts:?}");
    std::process::exit(i32::from(wrong > 0));
}

/// Runs one weight at each M, and gives the number of wrong results.
fn check(engine: &CudaEngine, name: &str, ms: &[u32]) -> Result<usize, CudaError> {
    let plan = engine.table().weight(name).expect("the name is the table's");
    let key = engine.table().data().groups[plan.group as usize].key;
    let (n, k) = (key.n as usize, key.k as usize);
    let values = operands::weight(n, k, 7);
    let bias = operands::weight(1, n, 8);
    let weight = engine.load(name, &values)?;
    let mut wrong = 0;
    for &m in ms {
        let key = *weight.key_at(m);
        let problem = key.problem(m);
        let quantized = Quantized::quantize(&values, n, k, key.b, key.scaling, &QuantizeOptions::default())
            .expect("the engine did so too");
        let activation = operands::activation(m as usize, k, 9);
        let bits: Vec<u8> =
            activation.iter().flat_map(|v| ((v.to_bits() >> 16) as u16).to_le_bytes()).collect();
        let element = if problem.out == OutType::Bf16 { 2 } else { 4 };
        let cuda = engine.cuda();
        let a = cuda.buffer(&bits)?;
        let b = cuda.buffer(&bias.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<_>>())?;
        let d = cuda.buffer(&vec![0xff; m as usize * n * element])?;
        let has_bias = problem.epilogue == Epilogue::Bias;
        let operands = DeviceOperands {
            activation: a.address(),
            bias: if has_bias { b.address() } else { 0 },
            output: d.address(),
        };
        engine.ready(&weight, m)?;
        // SAFETY: the buffers have the documented sizes and are read, and so synchronised with, before they are freed.
        let choice = unsafe { engine.launch(&weight, m, &operands) }?;
        let bytes = cuda.read(&d)?;
        let output: Vec<f32> = match problem.out {
            OutType::F32 => bytes.as_chunks::<4>().0.iter().map(|b| f32::from_le_bytes(*b)).collect(),
            OutType::Bf16 => bytes
                .as_chunks::<2>()
                .0
                .iter()
                .map(|b| f32::from_bits(u32::from(u16::from_le_bytes(*b)) << 16))
                .collect(),
        };
        let sample = Sample::spread(n, COLUMNS);
        let reference =
            Reference::compute(&problem, &activation, &quantized, has_bias.then_some(&bias[..]), sample);
        let verdict = match reference.check(&output, problem.out) {
            Ok(worst) => format!("right, {worst:.2} of the tolerance"),
            Err(mismatch) => {
                wrong += 1;
                format!("WRONG: {mismatch}")
            }
        };
        println!("{name:<20} M={m:<5} {:?} {}\n    {verdict}", choice.provenance, *choice.config);
    }
    Ok(wrong)
}
