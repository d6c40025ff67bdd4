//! What is compiled for a config: source text, entry point and options. Text and options together identify a
//! compiled kernel, and need no GPU to be made.

use crate::config::Config;
use crate::cuda::families::Tiling;
use crate::format::Format;
use crate::problem::{Epilogue, OutType, Problem};

/// A kernel to compile.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Source {
    /// File name, for the compiler's messages.
    pub file: &'static str,
    /// CUDA C++.
    pub text: &'static str,
    /// The kernel's name.
    pub entry: &'static str,
    /// Definitions of the kernel's macros.
    pub defines: Vec<String>,
}

/// The GEMM kernel of a config, for any M, N and K it takes.
pub fn gemm(config: &Config, problem: &Problem) -> Source {
    let s = Tiling::of(config, problem.b);
    let flag = |on: bool| u32::from(on);
    let values = [
        ("WEIGHT", s.weight),
        ("WARPGROUP", flag(s.warpgroup)),
        ("TILE_M", s.tile_m),
        ("TILE_N", s.tile_n),
        ("TILE_K", s.tile_k),
        ("WARPS", s.warps),
        ("ROW_PANELS", s.row_panels),
        ("STAGES", s.stages),
        ("CTAS", s.ctas_per_sm),
        ("OUT_BF16", flag(problem.out == OutType::Bf16)),
        ("BIAS", flag(problem.epilogue == Epilogue::Bias)),
    ];
    Source {
        file: "gemm.cu",
        text: include_str!("../../cuda/gemm.cu"),
        entry: "gemm",
        defines: values.iter().map(|(name, value)| format!("-D{name}={value}")).collect(),
    }
}

/// The kernel that snaps a bf16 activation to `format`, or `None` where nothing is to be done. The result is in bf16, or,
/// with `codes`, the format's own codes.
///
/// # Panics
/// For a format that no CUDA family takes as an activation.
pub fn quantise(format: Format, codes: bool) -> Option<Source> {
    let number = match format {
        Format::Bf16 => return None,
        Format::Fp8E4m3 => 1,
        Format::MxFp6E2m3 => 2,
        Format::MxFp6E3m2 => 3,
        other => panic!("no CUDA kernel multiplies activations in {other}"),
    };
    Some(Source {
        file: "quantise.cu",
        text: include_str!("../../cuda/quantise.cu"),
        entry: "quantise",
        defines: vec![format!("-DFORMAT={number}"), format!("-DCODES={}", u32::from(codes))],
    })
}
