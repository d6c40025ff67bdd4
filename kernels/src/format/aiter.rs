//! The arithmetic of ROCm AITER's MXFP6 quantiser, for weights that have to match what it packs.
//!
//! Source: `aiter/ops/gemm_op_a6w6.py` of github.com/ROCm/aiter at 08481f1b, the Triton kernel `_quant_pack_kernel`
//! (the file's numpy helper rounds ties differently and is not the contract). It differs from the OCP rule in that
//!
//! * elements round half *away* from zero, by adding one half in f32 and truncating, after clamping to 7.5;
//! * only values below zero carry a sign: −0 becomes code 0, while a negative value that rounds to zero becomes
//!   code 32 (negative zero);
//! * log2 amax is taken to be at least that of 1e-30, so that the smallest scale of a block that is not zero is 2^-102;
//! * its rotation multiplies bf16 values with a Hadamard matrix rounded to bf16 (see [`ROTATION`]).
//!
//! Two things are the GPU's own and are not reproduced: the order of the rotation's 32 additions, and an approximate
//! log2 that may round up just below a power of two. Blocks whose amax lies that close can differ by one scale step.

/// 1/√32 as AITER's rotation has it: rounded to bf16.
pub const ROTATION: f32 = f32::from_bits(0x3e35_0000);

/// ⌊log2 1e-30⌋ is the least exponent of amax.
pub(crate) const fn clamped_log2(exponent: i32) -> i32 {
    if exponent < -100 { -100 } else { exponent }
}

/// The E2M3 code of a value already divided by its block's scale.
pub const fn encode_e2m3(scaled: f32) -> u8 {
    let magnitude = if scaled.abs() < 7.5 { scaled.abs() } else { 7.5 };
    // Codes are evenly spaced in three ranges.
    let (steps, base) = if magnitude < 2.0 {
        (8.0, 0)
    } else if magnitude < 4.0 {
        (4.0, 8)
    } else {
        (2.0, 16)
    };
    let code = (magnitude * steps + 0.5) as u8 + base;
    if scaled < 0.0 { code | 32 } else { code }
}
