//! The instruction set: what the words of a code object mean.
//!
//! Decoding happens once, linearly over the text section, into [`Inst`]s that the units of [`crate::exec`] run many
//! times. A word that is not understood becomes [`Op::Undecodable`], which faults when a wave reaches it (padding and
//! constants between functions never do) and which a scan reports.
//!
//! The tables are one row an instruction: opcode, mnemonic, operand types and meaning. Sources: AMD's CDNA3 and CDNA4
//! instruction set documents and LLVM's AMDGPU assembler, against whose output the decoder is tested.

pub(crate) mod decode;
pub(crate) mod matrix_table;
pub(crate) mod memory_table;
pub(crate) mod operand;
pub(crate) mod scalar_table;
pub(crate) mod types;
pub(crate) mod vop1;
pub(crate) mod vop2;
pub(crate) mod vop3;
pub(crate) mod vop3p;
pub(crate) mod vopc;

pub(crate) use operand::{Dpp, Mods, Sdwa, Src};

use crate::error::Undecodable;

/// Lanes of a wave.
pub const LANES: usize = 64;
/// One 32-bit register of a wave.
pub(crate) type Lanes = [u32; LANES];
/// One 64-bit register pair of a wave.
pub(crate) type Wide = [u64; LANES];
/// AGPR n is register 256 + n.
pub(crate) const AGPR: u16 = 256;

/// The instruction formats of the GFX9 family.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(missing_docs, reason = "the variants are the formats' own names")]
pub enum Encoding {
    Sop1,
    Sop2,
    Sopc,
    Sopk,
    Sopp,
    Smem,
    Vop1,
    Vop2,
    Vopc,
    Vop3,
    Vop3p,
    Mai,
    Ds,
    Flat,
    Global,
    Scratch,
    Mubuf,
    Unknown,
}

/// The two architectures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Arch {
    /// CDNA3: MI300X, MI300A, MI325X.
    Gfx942,
    /// CDNA4: MI350X, MI355X.
    Gfx950,
}

impl Arch {
    /// LDS of one compute unit in bytes, which is also the most that one workgroup can have.
    pub const fn lds_bytes(self) -> u32 {
        match self {
            Self::Gfx942 => 64 << 10,
            Self::Gfx950 => 160 << 10,
        }
    }

    /// LLVM's name of the processor.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Gfx942 => "gfx942",
            Self::Gfx950 => "gfx950",
        }
    }
}

/// One decoded instruction.
#[derive(Debug, Clone)]
pub(crate) struct Inst {
    /// Byte offset in the text section.
    pub(crate) offset: u32,
    /// Words it takes: 1 to 4.
    pub(crate) words: u8,
    pub(crate) encoding: Encoding,
    /// Mnemonic, in up to two parts (`global_` + `load_dword`).
    pub(crate) name: [&'static str; 2],
    pub(crate) op: Op,
}

impl Inst {
    pub(crate) fn mnemonic(&self) -> String {
        self.name.concat()
    }
}

/// What an instruction does, with its operands resolved.
#[derive(Debug, Clone)]
pub(crate) enum Op {
    Scalar(scalar_table::ScalarOp),
    ScalarMemory(memory_table::Smem),
    Vector(Box<Vector>),
    Matrix(Box<matrix_table::Matrix>),
    Lds(Box<memory_table::Ds>),
    Memory(Box<memory_table::Mem>),
    Undecodable(Box<Undecodable>),
}

/// A VALU instruction.
#[derive(Debug, Clone)]
pub(crate) struct Vector {
    pub(crate) run: Run,
    pub(crate) ty: types::Signature,
    /// First destination register (0..512), or the scalar destination of the special ones.
    pub(crate) dst: u16,
    /// Scalar destination of comparisons and carries.
    pub(crate) sdst: u8,
    pub(crate) src: [Src; 3],
    pub(crate) mods: Mods,
    pub(crate) sdwa: Option<Sdwa>,
    pub(crate) dpp: Option<Dpp>,
}

/// How a VALU instruction computes.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Run {
    /// One, two or three 32-bit sources.
    A1(fn(&Lanes, &mut Lanes)),
    A2(fn(&Lanes, &Lanes, &mut Lanes)),
    A3(fn(&Lanes, &Lanes, &Lanes, &mut Lanes)),
    /// The same where a source or the result has 64 bits.
    W1(fn(&Wide, &mut Wide)),
    W2(fn(&Wide, &Wide, &mut Wide)),
    W3(fn(&Wide, &Wide, &Wide, &mut Wide)),
    /// Comparison to a lane mask.
    C2(fn(&Lanes, &Lanes) -> u64),
    CW2(fn(&Wide, &Wide) -> u64),
    /// Comparison that also writes EXEC.
    X2(fn(&Lanes, &Lanes) -> u64),
    XW2(fn(&Wide, &Wide) -> u64),
    /// What needs more of the wave than its sources.
    Special(Special),
}

/// VALU instructions that read or write something besides plain sources and one destination.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Special {
    Nop,
    Cndmask,
    /// a + b, a - b, b - a, with carry in and carry out.
    Carry {
        kind: Arith,
        carry_in: bool,
    },
    /// 32 × 32 + 64 bits with carry out.
    MadWide {
        signed: bool,
    },
    DivScale32,
    DivScale64,
    DivFmas32,
    DivFmas64,
    ReadFirstLane,
    ReadLane,
    WriteLane,
    Swap,
    PermlaneSwap {
        row: usize,
    },
    BitOp3 {
        half: bool,
    },
    /// D.lo = S0[op_sel[0]], D.hi = S1[op_sel[1]].
    PackedMove,
    /// fma over a mix of f32 and f16; `half` is the half of the destination, none for all 32 bits.
    MadMix {
        half: Option<u32>,
    },
    Convert(crate::exec::convert::Convert),
}

/// The carry instructions' arithmetic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Arith {
    Add,
    Sub,
    SubRev,
}
