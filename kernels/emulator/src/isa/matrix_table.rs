//! The matrix instructions: shapes and formats.

use super::Src;
use crate::small_float::{self, SmallFloat};

/// Element format of a matrix operand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Element {
    F32,
    F16,
    Bf16,
    /// FNUZ on gfx942, OCP on gfx950.
    Fp8,
    Bf8,
    I8,
    Fp6,
    Bf6,
    Fp4,
}

impl Element {
    pub(crate) const fn bits(self) -> usize {
        match self {
            Self::F32 => 32,
            Self::F16 | Self::Bf16 => 16,
            Self::Fp8 | Self::Bf8 | Self::I8 => 8,
            Self::Fp6 | Self::Bf6 => 6,
            Self::Fp4 => 4,
        }
    }

    /// The small float on an architecture, `None` for f32 and i8.
    pub(crate) const fn small(self, arch: super::Arch) -> Option<SmallFloat> {
        let ocp = matches!(arch, super::Arch::Gfx950);
        Some(match self {
            Self::F32 | Self::I8 => return None,
            Self::F16 => small_float::F16,
            Self::Bf16 => small_float::BF16,
            Self::Fp8 if ocp => small_float::E4M3,
            Self::Fp8 => small_float::E4M3_FNUZ,
            Self::Bf8 if ocp => small_float::E5M2,
            Self::Bf8 => small_float::E5M2_FNUZ,
            Self::Fp6 => small_float::E2M3,
            Self::Bf6 => small_float::E3M2,
            Self::Fp4 => small_float::E2M1,
        })
    }

    /// The code of `cbsz` and `blgp` in the f8f6f4 instructions.
    pub(crate) const fn from_code(code: u8) -> Option<Self> {
        Some(match code {
            0 => Self::Fp8,
            1 => Self::Bf8,
            2 => Self::Fp6,
            3 => Self::Bf6,
            4 => Self::Fp4,
            _ => return None,
        })
    }
}

/// A row of the table.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MatrixRow {
    pub(crate) opcode: u16,
    pub(crate) name: &'static str,
    /// Rows and columns of a block: 4, 16 or 32.
    pub(crate) dim: usize,
    /// Depth of the dense product.
    pub(crate) k: usize,
    /// Independent products in one instruction.
    pub(crate) blocks: usize,
    pub(crate) a: Element,
    pub(crate) b: Element,
    /// Two of every four elements of A are stored; src2 says which.
    pub(crate) sparse: bool,
    pub(crate) only: Option<super::Arch>,
}

/// A matrix instruction with its operands.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Matrix {
    pub(crate) row: MatrixRow,
    pub(crate) dst: u16,
    pub(crate) a: u16,
    pub(crate) b: u16,
    /// C, or the index register of the sparse instructions.
    pub(crate) c: Src,
    pub(crate) cbsz: u8,
    pub(crate) abid: u8,
    /// The scale registers and byte selects of the scaled instructions.
    pub(crate) scale: Option<[(Src, u8); 2]>,
}

const G950: Option<super::Arch> = Some(super::Arch::Gfx950);

const fn dense(
    opcode: u16,
    name: &'static str,
    dim: usize,
    k: usize,
    blocks: usize,
    ab: Element,
) -> MatrixRow {
    MatrixRow { opcode, name, dim, k, blocks, a: ab, b: ab, sparse: false, only: None }
}

const fn mixed(opcode: u16, name: &'static str, dim: usize, k: usize, a: Element, b: Element) -> MatrixRow {
    MatrixRow { opcode, name, dim, k, blocks: 1, a, b, sparse: false, only: None }
}

const fn sparse(opcode: u16, name: &'static str, dim: usize, k: usize, a: Element, b: Element) -> MatrixRow {
    MatrixRow { opcode, name, dim, k, blocks: 1, a, b, sparse: true, only: None }
}

const fn on950(row: MatrixRow) -> MatrixRow {
    MatrixRow { only: G950, ..row }
}

use Element::{Bf8, Bf16, F16, F32, Fp8, I8};

/// By opcode of VOP3P-MAI. Opcodes 0x2d and 0x2e take their formats from `cbsz` and `blgp`.
pub(crate) const MATRIX: &[MatrixRow] = &[
    on950(mixed(0x2d, "v_mfma_f32_16x16x128_f8f6f4", 16, 128, Fp8, Fp8)),
    on950(mixed(0x2e, "v_mfma_f32_32x32x64_f8f6f4", 32, 64, Fp8, Fp8)),
    on950(dense(0x35, "v_mfma_f32_16x16x32_bf16", 16, 32, 1, Bf16)),
    on950(dense(0x36, "v_mfma_i32_16x16x64_i8", 16, 64, 1, I8)),
    on950(dense(0x37, "v_mfma_f32_32x32x16_bf16", 32, 16, 1, Bf16)),
    on950(dense(0x38, "v_mfma_i32_32x32x32_i8", 32, 32, 1, I8)),
    on950(sparse(0x39, "v_smfmac_f32_16x16x64_bf16", 16, 64, Bf16, Bf16)),
    on950(sparse(0x3b, "v_smfmac_f32_16x16x128_bf8_bf8", 16, 128, Bf8, Bf8)),
    on950(sparse(0x3c, "v_smfmac_f32_16x16x128_bf8_fp8", 16, 128, Bf8, Fp8)),
    on950(sparse(0x3d, "v_smfmac_f32_16x16x128_fp8_bf8", 16, 128, Fp8, Bf8)),
    dense(0x40, "v_mfma_f32_32x32x1_2b_f32", 32, 1, 2, F32),
    dense(0x41, "v_mfma_f32_16x16x1_4b_f32", 16, 1, 4, F32),
    dense(0x42, "v_mfma_f32_4x4x1_16b_f32", 4, 1, 16, F32),
    on950(sparse(0x43, "v_smfmac_f32_16x16x128_fp8_fp8", 16, 128, Fp8, Fp8)),
    dense(0x44, "v_mfma_f32_32x32x2_f32", 32, 2, 1, F32),
    dense(0x45, "v_mfma_f32_16x16x4_f32", 16, 4, 1, F32),
    on950(sparse(0x46, "v_smfmac_f32_32x32x32_bf16", 32, 32, Bf16, Bf16)),
    dense(0x48, "v_mfma_f32_32x32x4_2b_f16", 32, 4, 2, F16),
    dense(0x49, "v_mfma_f32_16x16x4_4b_f16", 16, 4, 4, F16),
    dense(0x4a, "v_mfma_f32_4x4x4_16b_f16", 4, 4, 16, F16),
    on950(sparse(0x4b, "v_smfmac_f32_32x32x64_bf8_bf8", 32, 64, Bf8, Bf8)),
    dense(0x4c, "v_mfma_f32_32x32x8_f16", 32, 8, 1, F16),
    dense(0x4d, "v_mfma_f32_16x16x16_f16", 16, 16, 1, F16),
    on950(sparse(0x4e, "v_smfmac_f32_32x32x64_bf8_fp8", 32, 64, Bf8, Fp8)),
    on950(sparse(0x4f, "v_smfmac_f32_32x32x64_fp8_bf8", 32, 64, Fp8, Bf8)),
    on950(sparse(0x53, "v_smfmac_f32_32x32x64_fp8_fp8", 32, 64, Fp8, Fp8)),
    on950(dense(0x54, "v_mfma_f32_16x16x32_f16", 16, 32, 1, F16)),
    on950(dense(0x55, "v_mfma_f32_32x32x16_f16", 32, 16, 1, F16)),
    dense(0x56, "v_mfma_i32_32x32x16_i8", 32, 16, 1, I8),
    dense(0x57, "v_mfma_i32_16x16x32_i8", 16, 32, 1, I8),
    on950(sparse(0x5a, "v_smfmac_f32_16x16x64_f16", 16, 64, F16, F16)),
    on950(sparse(0x5b, "v_smfmac_f32_32x32x32_f16", 32, 32, F16, F16)),
    dense(0x5d, "v_mfma_f32_32x32x4_2b_bf16", 32, 4, 2, Bf16),
    dense(0x5e, "v_mfma_f32_16x16x4_4b_bf16", 16, 4, 4, Bf16),
    dense(0x5f, "v_mfma_f32_4x4x4_16b_bf16", 4, 4, 16, Bf16),
    dense(0x60, "v_mfma_f32_32x32x8_bf16", 32, 8, 1, Bf16),
    dense(0x61, "v_mfma_f32_16x16x16_bf16", 16, 16, 1, Bf16),
    sparse(0x62, "v_smfmac_f32_16x16x32_f16", 16, 32, F16, F16),
    sparse(0x64, "v_smfmac_f32_32x32x16_f16", 32, 16, F16, F16),
    sparse(0x66, "v_smfmac_f32_16x16x32_bf16", 16, 32, Bf16, Bf16),
    sparse(0x68, "v_smfmac_f32_32x32x16_bf16", 32, 16, Bf16, Bf16),
    mixed(0x70, "v_mfma_f32_16x16x32_bf8_bf8", 16, 32, Bf8, Bf8),
    mixed(0x71, "v_mfma_f32_16x16x32_bf8_fp8", 16, 32, Bf8, Fp8),
    mixed(0x72, "v_mfma_f32_16x16x32_fp8_bf8", 16, 32, Fp8, Bf8),
    mixed(0x73, "v_mfma_f32_16x16x32_fp8_fp8", 16, 32, Fp8, Fp8),
    mixed(0x74, "v_mfma_f32_32x32x16_bf8_bf8", 32, 16, Bf8, Bf8),
    mixed(0x75, "v_mfma_f32_32x32x16_bf8_fp8", 32, 16, Bf8, Fp8),
    mixed(0x76, "v_mfma_f32_32x32x16_fp8_bf8", 32, 16, Fp8, Bf8),
    mixed(0x77, "v_mfma_f32_32x32x16_fp8_fp8", 32, 16, Fp8, Fp8),
    sparse(0x78, "v_smfmac_f32_16x16x64_bf8_bf8", 16, 64, Bf8, Bf8),
    sparse(0x79, "v_smfmac_f32_16x16x64_bf8_fp8", 16, 64, Bf8, Fp8),
    sparse(0x7a, "v_smfmac_f32_16x16x64_fp8_bf8", 16, 64, Fp8, Bf8),
    sparse(0x7b, "v_smfmac_f32_16x16x64_fp8_fp8", 16, 64, Fp8, Fp8),
    sparse(0x7c, "v_smfmac_f32_32x32x32_bf8_bf8", 32, 32, Bf8, Bf8),
    sparse(0x7d, "v_smfmac_f32_32x32x32_bf8_fp8", 32, 32, Bf8, Fp8),
    sparse(0x7e, "v_smfmac_f32_32x32x32_fp8_bf8", 32, 32, Fp8, Bf8),
    sparse(0x7f, "v_smfmac_f32_32x32x32_fp8_fp8", 32, 32, Fp8, Fp8),
];
