//! Writes kernels of every CUDA family to a folder, for a compiler on a machine without a GPU (`ci/check_cuda.sh`).
//!
//! ```text
//! cuda_sources FOLDER [COUNT]
//! ```
//!
//! The folder gets the sources, and `kernels.txt` with a line for each of about COUNT kernels a family: source, registers
//! a thread may use at most, shared memory in bytes, definitions.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use tilewright_kernels::cuda::families::Tiling;
use tilewright_kernels::cuda::{FAMILIES, source};
use tilewright_kernels::space::enumerate;
use tilewright_kernels::{BackendKind, Caps, Device, Epilogue, Format, OutType, Problem};

const H200: Device = Device {
    backend: BackendKind::Cuda,
    caps: Caps::SM_90A,
    units: 132,
    l1_kib: 228,
    l2_kib: 61440,
    llc_kib: 61440,
};

fn main() -> std::io::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let Some(folder) = arguments.first().map(Path::new) else {
        eprintln!("usage: cuda_sources FOLDER [COUNT]");
        std::process::exit(2);
    };
    let count = arguments.get(1).and_then(|c| c.parse().ok()).unwrap_or(12);
    fs::create_dir_all(folder)?;
    let mut lines = BTreeSet::new();
    for family in FAMILIES {
        for &b in family.formats {
            let rows: &[u32] = if family.name.contains("skinny") { &[1, 17, 64] } else { &[256] };
            for &m in rows {
                let mut problem = Problem::new(m, 4096, 4096, b);
                (problem.out, problem.epilogue) = (OutType::Bf16, Epilogue::Bias);
                let configs = enumerate(family, &problem, &H200);
                let share = (count / (rows.len() * family.formats.len())).max(1);
                // Those that are nearest to the register limit, and an even spread of the rest.
                let mut chosen: Vec<_> =
                    configs.iter().step_by(configs.len().div_ceil(share).max(1)).collect();
                chosen.extend(configs.iter().max_by_key(|c| Tiling::of(c, b).registers()));
                for config in chosen {
                    let kernel = source::gemm(config, &problem);
                    let tiling = Tiling::of(config, b);
                    fs::write(folder.join(kernel.file), kernel.text)?;
                    lines.insert(format!(
                        "{} {} {} {}",
                        kernel.file,
                        tiling.compiled_registers(),
                        tiling.shared_bytes(),
                        kernel.defines.join(" ")
                    ));
                }
            }
        }
    }
    for format in [Format::Fp8E4m3, Format::MxFp6E2m3, Format::MxFp6E3m2] {
        let Some(kernel) = source::quantise(format, false) else { continue };
        fs::write(folder.join(kernel.file), kernel.text)?;
        lines.insert(format!("{} 64 0 {}", kernel.file, kernel.defines.join(" ")));
    }
    println!("{} kernels", lines.len());
    fs::write(folder.join("kernels.txt"), lines.into_iter().map(|line| line + "\n").collect::<String>())
}
