//! Times that others published for kernels of the same kind, to put beside a prediction.
//!
//! * Skinny FP8 on MI300X: huggingface/blog, mi300kernels.md at 45501142; 500 warm-ups, 2000 iterations, graphs, rotating
//!   weights. FP8 with one scale, f16 output.
//! * MXFP6 on MI355X: ROCm/aiter, configs/a6w6_blockscale_tuned_gemm.csv at d99d3293, from its TFLOPS.

use tilewright_kernels::Problem;

struct Published {
    arch: &'static str,
    /// What the family's name has to begin with.
    families: &'static str,
    by: &'static str,
    shape: [u32; 3],
    microseconds: f64,
}

const fn skinny(shape: [u32; 3], microseconds: f64) -> Published {
    Published {
        arch: "gfx942",
        families: "hip.skinny_fp8",
        by: "hf-rocm-kernels, skinny FP8",
        shape,
        microseconds,
    }
}

const fn mxfp6(shape: [u32; 3], microseconds: f64) -> Published {
    Published { arch: "gfx950", families: "hip.gemm_mxfp6", by: "AITER, A6W6", shape, microseconds }
}

static TIMES: &[Published] = &[
    skinny([1, 2304, 16384], 11.685),
    skinny([8, 2304, 16384], 12.342),
    skinny([16, 2304, 16384], 13.909),
    skinny([32, 2304, 16384], 17.021),
    skinny([1, 13312, 16384], 54.717),
    skinny([8, 13312, 16384], 58.355),
    skinny([16, 13312, 16384], 59.973),
    skinny([32, 13312, 16384], 69.483),
    skinny([1, 16384, 6656], 27.613),
    skinny([8, 16384, 6656], 28.134),
    skinny([16, 16384, 6656], 30.233),
    skinny([32, 16384, 6656], 35.052),
    mxfp6([8192, 8192, 16384], 528.0),
];

/// Seconds that somebody published for a problem on an architecture, and who.
pub fn time(arch: &str, family: &str, problem: &Problem) -> Option<(f64, &'static str)> {
    let shape = [problem.m, problem.n, problem.k];
    let found =
        TIMES.iter().find(|p| p.arch == arch && family.starts_with(p.families) && p.shape == shape)?;
    Some((found.microseconds * 1e-6, found.by))
}
