//! The memory instructions: SMEM, DS, FLAT, GLOBAL, SCRATCH and MUBUF.

use super::Src;

/// A scalar memory instruction.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Smem {
    pub(crate) kind: SmemKind,
    /// First SGPR of the base address or of the buffer descriptor.
    pub(crate) base: u8,
    pub(crate) data: u8,
    pub(crate) offset: i32,
    /// SGPR or M0 added to the offset.
    pub(crate) soffset: Option<u8>,
}

/// What a scalar memory instruction does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SmemKind {
    Load {
        dwords: u8,
    },
    BufferLoad {
        dwords: u8,
    },
    Store {
        dwords: u8,
    },
    Atomic {
        op: Atomic,
        wide: bool,
        returns: bool,
    },
    /// Cache maintenance: nothing to do where there is no cache.
    Cache,
    Time,
}

/// Bytes that a load takes and where they go in the register.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Access {
    /// 1, 2, 4, 8, 12 or 16.
    pub(crate) bytes: u8,
    pub(crate) signed: bool,
    /// The half of the register that a 16-bit access means; the other half stays. `None`: the whole register.
    pub(crate) half: Option<u8>,
}

const fn plain(bytes: u8) -> Access {
    Access { bytes, signed: false, half: None }
}

const fn narrow(bytes: u8, signed: bool, half: Option<u8>) -> Access {
    Access { bytes, signed, half }
}

/// Read-modify-write operations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Atomic {
    Swap,
    CompareSwap,
    Add,
    Sub,
    ReverseSub,
    MinSigned,
    MinUnsigned,
    MaxSigned,
    MaxUnsigned,
    And,
    Or,
    Xor,
    Inc,
    Dec,
    AddF32,
    MinF32,
    MaxF32,
    AddPkF16,
    AddPkBf16,
    AddF64,
    MinF64,
    MaxF64,
}

/// An LDS instruction.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ds {
    pub(crate) kind: DsKind,
    pub(crate) addr: u16,
    pub(crate) data: [u16; 2],
    pub(crate) dst: u16,
    /// The two 8-bit offsets; together one 16-bit offset for the instructions with one address.
    pub(crate) offsets: [u8; 2],
}

/// What an LDS instruction does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DsKind {
    Read(Access),
    Write(Access),
    /// Two accesses of `bytes` at offsets in units of `unit` bytes.
    Read2 {
        bytes: u8,
        unit: u16,
    },
    Write2 {
        bytes: u8,
        unit: u16,
    },
    Atomic {
        op: Atomic,
        wide: bool,
        returns: bool,
    },
    Swizzle,
    Permute,
    Bpermute,
    /// A transposing read of elements of `bits` bits; 96 bits a lane for 6, else 64.
    Transpose {
        bits: u8,
    },
    Nop,
}

/// Which address space a vector memory instruction names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Space {
    Flat,
    Global,
    Scratch,
    Buffer,
}

/// A vector memory instruction.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Mem {
    pub(crate) space: Space,
    pub(crate) kind: MemKind,
    pub(crate) addr: u16,
    /// Stored data, or the destination of a load.
    pub(crate) data: u16,
    pub(crate) dst: u16,
    /// Base SGPR pair (global), offset SGPR (scratch), descriptor (buffer).
    pub(crate) scalar: Option<u8>,
    /// Scratch: whether the VGPR address counts. Buffer: offset enable.
    pub(crate) vector_offset: bool,
    /// Buffer: index enable.
    pub(crate) index: bool,
    pub(crate) soffset: Src,
    pub(crate) offset: i32,
}

/// What a vector memory instruction does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MemKind {
    Load(Access),
    Store(Access),
    /// Memory to LDS without a register between.
    LoadLds(Access),
    Atomic {
        op: Atomic,
        wide: bool,
        returns: bool,
    },
    Cache,
}

/// The stem of the mnemonic and the operation of a DS opcode.
pub(crate) fn ds(opcode: u16) -> Option<(&'static str, DsKind)> {
    use DsKind::*;
    let atomic = |op, wide, returns| Atomic { op, wide, returns };
    Some(match opcode {
        0x0d => ("write_b32", Write(plain(4))),
        0x0e => ("write2_b32", Write2 { bytes: 4, unit: 4 }),
        0x0f => ("write2st64_b32", Write2 { bytes: 4, unit: 256 }),
        0x14 => ("nop", Nop),
        0x1e => ("write_b8", Write(plain(1))),
        0x1f => ("write_b16", Write(plain(2))),
        0x36 => ("read_b32", Read(plain(4))),
        0x37 => ("read2_b32", Read2 { bytes: 4, unit: 4 }),
        0x38 => ("read2st64_b32", Read2 { bytes: 4, unit: 256 }),
        0x39 => ("read_i8", Read(narrow(1, true, None))),
        0x3a => ("read_u8", Read(plain(1))),
        0x3b => ("read_i16", Read(narrow(2, true, None))),
        0x3c => ("read_u16", Read(plain(2))),
        0x3d => ("swizzle_b32", Swizzle),
        0x3e => ("permute_b32", Permute),
        0x3f => ("bpermute_b32", Bpermute),
        0x4d => ("write_b64", Write(plain(8))),
        0x4e => ("write2_b64", Write2 { bytes: 8, unit: 8 }),
        0x4f => ("write2st64_b64", Write2 { bytes: 8, unit: 512 }),
        0x54 => ("write_b8_d16_hi", Write(narrow(1, false, Some(1)))),
        0x55 => ("write_b16_d16_hi", Write(narrow(2, false, Some(1)))),
        0x56 => ("read_u8_d16", Read(narrow(1, false, Some(0)))),
        0x57 => ("read_u8_d16_hi", Read(narrow(1, false, Some(1)))),
        0x58 => ("read_i8_d16", Read(narrow(1, true, Some(0)))),
        0x59 => ("read_i8_d16_hi", Read(narrow(1, true, Some(1)))),
        0x5a => ("read_u16_d16", Read(narrow(2, false, Some(0)))),
        0x5b => ("read_u16_d16_hi", Read(narrow(2, false, Some(1)))),
        0x76 => ("read_b64", Read(plain(8))),
        0x77 => ("read2_b64", Read2 { bytes: 8, unit: 8 }),
        0x78 => ("read2st64_b64", Read2 { bytes: 8, unit: 512 }),
        0xde => ("write_b96", Write(plain(12))),
        0xdf => ("write_b128", Write(plain(16))),
        0xe0 => ("read_b64_tr_b4", Transpose { bits: 4 }),
        0xe1 => ("read_b96_tr_b6", Transpose { bits: 6 }),
        0xe2 => ("read_b64_tr_b8", Transpose { bits: 8 }),
        0xe3 => ("read_b64_tr_b16", Transpose { bits: 16 }),
        0xfe => ("read_b96", Read(plain(12))),
        0xff => ("read_b128", Read(plain(16))),
        _ => {
            let (stem, op, wide, returns) = ds_atomic(opcode)?;
            (stem, atomic(op, wide, returns))
        }
    })
}

fn ds_atomic(opcode: u16) -> Option<(&'static str, Atomic, bool, bool)> {
    use Atomic::*;
    let integer = |index: usize, rtn: bool, wide: bool| {
        let op =
            [Add, Sub, ReverseSub, Inc, Dec, MinSigned, MaxSigned, MinUnsigned, MaxUnsigned, And, Or, Xor];
        (DS_INTEGER_NAMES[usize::from(wide) * 2 + usize::from(rtn)][index], op[index], wide, rtn)
    };
    Some(match opcode {
        0x00..=0x0b => integer(opcode as usize, false, false),
        0x20..=0x2b => integer(opcode as usize - 0x20, true, false),
        0x40..=0x4b => integer(opcode as usize - 0x40, false, true),
        0x60..=0x6b => integer(opcode as usize - 0x60, true, true),
        0x10 => ("cmpst_b32", CompareSwap, false, false),
        0x30 => ("cmpst_rtn_b32", CompareSwap, false, true),
        0x50 => ("cmpst_b64", CompareSwap, true, false),
        0x70 => ("cmpst_rtn_b64", CompareSwap, true, true),
        0x2d => ("wrxchg_rtn_b32", Swap, false, true),
        0x6d => ("wrxchg_rtn_b64", Swap, true, true),
        0x12 => ("min_f32", MinF32, false, false),
        0x13 => ("max_f32", MaxF32, false, false),
        0x15 => ("add_f32", AddF32, false, false),
        0x17 => ("pk_add_f16", AddPkF16, false, false),
        0x18 => ("pk_add_bf16", AddPkBf16, false, false),
        0x32 => ("min_rtn_f32", MinF32, false, true),
        0x33 => ("max_rtn_f32", MaxF32, false, true),
        0x35 => ("add_rtn_f32", AddF32, false, true),
        0xb7 => ("pk_add_rtn_f16", AddPkF16, false, true),
        0xb8 => ("pk_add_rtn_bf16", AddPkBf16, false, true),
        0x5c => ("add_f64", AddF64, true, false),
        0x7c => ("add_rtn_f64", AddF64, true, true),
        _ => return None,
    })
}

const DS_INTEGER_NAMES: [[&str; 12]; 4] = [
    [
        "add_u32", "sub_u32", "rsub_u32", "inc_u32", "dec_u32", "min_i32", "max_i32", "min_u32", "max_u32",
        "and_b32", "or_b32", "xor_b32",
    ],
    [
        "add_rtn_u32",
        "sub_rtn_u32",
        "rsub_rtn_u32",
        "inc_rtn_u32",
        "dec_rtn_u32",
        "min_rtn_i32",
        "max_rtn_i32",
        "min_rtn_u32",
        "max_rtn_u32",
        "and_rtn_b32",
        "or_rtn_b32",
        "xor_rtn_b32",
    ],
    [
        "add_u64", "sub_u64", "rsub_u64", "inc_u64", "dec_u64", "min_i64", "max_i64", "min_u64", "max_u64",
        "and_b64", "or_b64", "xor_b64",
    ],
    [
        "add_rtn_u64",
        "sub_rtn_u64",
        "rsub_rtn_u64",
        "inc_rtn_u64",
        "dec_rtn_u64",
        "min_rtn_i64",
        "max_rtn_i64",
        "min_rtn_u64",
        "max_rtn_u64",
        "and_rtn_b64",
        "or_rtn_b64",
        "xor_rtn_b64",
    ],
];

/// The stem of the mnemonic and the operation of a FLAT, GLOBAL, SCRATCH or MUBUF opcode. `returns` is the bit that
/// makes an atomic return the old value.
pub(crate) fn mem(space: Space, opcode: u16, returns: bool) -> Option<(&'static str, MemKind)> {
    use MemKind::{Load, LoadLds, Store};
    Some(match opcode {
        0x10 => ("load_ubyte", Load(plain(1))),
        0x11 => ("load_sbyte", Load(narrow(1, true, None))),
        0x12 => ("load_ushort", Load(plain(2))),
        0x13 => ("load_sshort", Load(narrow(2, true, None))),
        0x14 => ("load_dword", Load(plain(4))),
        0x15 => ("load_dwordx2", Load(plain(8))),
        0x16 => ("load_dwordx3", Load(plain(12))),
        0x17 => ("load_dwordx4", Load(plain(16))),
        0x18 => ("store_byte", Store(plain(1))),
        0x19 => ("store_byte_d16_hi", Store(narrow(1, false, Some(1)))),
        0x1a => ("store_short", Store(plain(2))),
        0x1b => ("store_short_d16_hi", Store(narrow(2, false, Some(1)))),
        0x1c => ("store_dword", Store(plain(4))),
        0x1d => ("store_dwordx2", Store(plain(8))),
        0x1e => ("store_dwordx3", Store(plain(12))),
        0x1f => ("store_dwordx4", Store(plain(16))),
        0x20 => ("load_ubyte_d16", Load(narrow(1, false, Some(0)))),
        0x21 => ("load_ubyte_d16_hi", Load(narrow(1, false, Some(1)))),
        0x22 => ("load_sbyte_d16", Load(narrow(1, true, Some(0)))),
        0x23 => ("load_sbyte_d16_hi", Load(narrow(1, true, Some(1)))),
        0x24 => ("load_short_d16", Load(narrow(2, false, Some(0)))),
        0x25 => ("load_short_d16_hi", Load(narrow(2, false, Some(1)))),
        0x26 if space == Space::Global => ("load_lds_ubyte", LoadLds(plain(1))),
        0x27 if space == Space::Global => ("load_lds_sbyte", LoadLds(narrow(1, true, None))),
        0x28 if space == Space::Global => ("load_lds_ushort", LoadLds(plain(2))),
        0x29 if space == Space::Global => ("load_lds_sshort", LoadLds(narrow(2, true, None))),
        0x2a if space == Space::Global => ("load_lds_dword", LoadLds(plain(4))),
        0x7d if space == Space::Global => ("load_lds_dwordx4", LoadLds(plain(16))),
        0x7e if space == Space::Global => ("load_lds_dwordx3", LoadLds(plain(12))),
        0x28 if space == Space::Buffer => ("wbl2", MemKind::Cache),
        0x29 if space == Space::Buffer => ("inv", MemKind::Cache),
        0x40..=0x6c if space != Space::Scratch => {
            let (stem, op, wide) = mem_atomic(opcode)?;
            (stem, MemKind::Atomic { op, wide, returns })
        }
        _ => return None,
    })
}

/// Atomics of vector memory; SMEM has the integer ones at other opcodes.
pub(crate) fn mem_atomic(opcode: u16) -> Option<(&'static str, Atomic, bool)> {
    use Atomic::*;
    Some(match opcode {
        0x40 => ("atomic_swap", Swap, false),
        0x41 => ("atomic_cmpswap", CompareSwap, false),
        0x42 => ("atomic_add", Add, false),
        0x43 => ("atomic_sub", Sub, false),
        0x44 => ("atomic_smin", MinSigned, false),
        0x45 => ("atomic_umin", MinUnsigned, false),
        0x46 => ("atomic_smax", MaxSigned, false),
        0x47 => ("atomic_umax", MaxUnsigned, false),
        0x48 => ("atomic_and", And, false),
        0x49 => ("atomic_or", Or, false),
        0x4a => ("atomic_xor", Xor, false),
        0x4b => ("atomic_inc", Inc, false),
        0x4c => ("atomic_dec", Dec, false),
        0x4d => ("atomic_add_f32", AddF32, false),
        0x4e => ("atomic_pk_add_f16", AddPkF16, false),
        0x4f => ("atomic_add_f64", AddF64, true),
        0x50 => ("atomic_min_f64", MinF64, true),
        0x51 => ("atomic_max_f64", MaxF64, true),
        0x52 => ("atomic_pk_add_bf16", AddPkBf16, false),
        0x60 => ("atomic_swap_x2", Swap, true),
        0x61 => ("atomic_cmpswap_x2", CompareSwap, true),
        0x62 => ("atomic_add_x2", Add, true),
        0x63 => ("atomic_sub_x2", Sub, true),
        0x64 => ("atomic_smin_x2", MinSigned, true),
        0x65 => ("atomic_umin_x2", MinUnsigned, true),
        0x66 => ("atomic_smax_x2", MaxSigned, true),
        0x67 => ("atomic_umax_x2", MaxUnsigned, true),
        0x68 => ("atomic_and_x2", And, true),
        0x69 => ("atomic_or_x2", Or, true),
        0x6a => ("atomic_xor_x2", Xor, true),
        0x6b => ("atomic_inc_x2", Inc, true),
        0x6c => ("atomic_dec_x2", Dec, true),
        _ => return None,
    })
}

/// The mnemonic and the operation of an SMEM opcode.
pub(crate) fn smem(opcode: u16, returns: bool) -> Option<(&'static str, SmemKind)> {
    use SmemKind::{BufferLoad, Cache, Load, Store, Time};
    Some(match opcode {
        0x00 => ("load_dword", Load { dwords: 1 }),
        0x01 => ("load_dwordx2", Load { dwords: 2 }),
        0x02 => ("load_dwordx4", Load { dwords: 4 }),
        0x03 => ("load_dwordx8", Load { dwords: 8 }),
        0x04 => ("load_dwordx16", Load { dwords: 16 }),
        0x08 => ("buffer_load_dword", BufferLoad { dwords: 1 }),
        0x09 => ("buffer_load_dwordx2", BufferLoad { dwords: 2 }),
        0x0a => ("buffer_load_dwordx4", BufferLoad { dwords: 4 }),
        0x0b => ("buffer_load_dwordx8", BufferLoad { dwords: 8 }),
        0x0c => ("buffer_load_dwordx16", BufferLoad { dwords: 16 }),
        0x10 => ("store_dword", Store { dwords: 1 }),
        0x11 => ("store_dwordx2", Store { dwords: 2 }),
        0x12 => ("store_dwordx4", Store { dwords: 4 }),
        0x20 => ("dcache_inv", Cache),
        0x21 => ("dcache_wb", Cache),
        0x22 => ("dcache_inv_vol", Cache),
        0x23 => ("dcache_wb_vol", Cache),
        0x24 => ("memtime", Time),
        0x25 => ("memrealtime", Time),
        0x80..=0x8c | 0xa0..=0xac => {
            let (stem, op, wide) = mem_atomic(opcode - 0x40)?;
            (stem, SmemKind::Atomic { op, wide, returns })
        }
        _ => return None,
    })
}
