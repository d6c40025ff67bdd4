//! SMEM, DS, FLAT, GLOBAL, SCRATCH, MUBUF.

use super::super::memory_table::{self as table, Ds, DsKind, Mem, MemKind, Smem, SmemKind, Space};
use super::super::operand::{Src, source};
use super::super::types::T;
use super::super::{AGPR, Arch, Encoding, Op};
use super::{Cursor, Decoded, bits};

fn unknown<X>() -> Result<X, String> {
    Err("this opcode is not in the emulator's table".into())
}

pub(super) fn smem(c: &Cursor<'_>) -> Decoded {
    let w = c.both()?;
    let opcode = bits(w, 18, 8) as u16;
    let Some((stem, kind)) = table::smem(opcode, bits(w, 16, 1) == 1) else { return unknown() };
    let (imm, soffset_en) = (bits(w, 17, 1) == 1, bits(w, 14, 1) == 1);
    let (offset, soffset) = match (imm, soffset_en) {
        (true, false) => (signed(bits(w, 32, 21), 21), None),
        (true, true) => (signed(bits(w, 32, 21), 21), Some(bits(w, 57, 7) as u8)),
        (false, true) => (0, Some(bits(w, 57, 7) as u8)),
        (false, false) => (0, Some(bits(w, 32, 7) as u8)),
    };
    let soffset = if matches!(kind, SmemKind::Cache | SmemKind::Time) { None } else { soffset };
    let base = 2 * bits(w, 0, 6) as u8;
    let op = Op::ScalarMemory(Smem { kind, base, data: bits(w, 6, 7) as u8, offset, soffset });
    Ok((2, ["s_", stem], op))
}

/// Sign extension of a field.
fn signed(x: u32, width: u32) -> i32 {
    (x << (32 - width)) as i32 >> (32 - width)
}

pub(super) fn ds(c: &Cursor<'_>) -> Decoded {
    let w = c.both()?;
    let opcode = bits(w, 17, 8) as u16;
    let Some((stem, kind)) = table::ds(opcode) else { return unknown() };
    if bits(w, 16, 1) == 1 {
        return Err("global data share".into());
    }
    if matches!(kind, DsKind::Transpose { .. }) && c.arch == Arch::Gfx942 {
        return Err("gfx942 does not have this instruction".into());
    }
    let acc = bits(w, 25, 1) as u16 * AGPR;
    let register = |low: u32| bits(w, low, 8) as u16;
    let op = Ds {
        kind,
        addr: register(32),
        data: [register(40) + acc, register(48) + acc],
        dst: register(56) + acc,
        offsets: [bits(w, 0, 8) as u8, bits(w, 8, 8) as u8],
    };
    Ok((2, ["ds_", stem], Op::Lds(Box::new(op))))
}

pub(super) fn flat(c: &Cursor<'_>, encoding: Encoding) -> Decoded {
    let w = c.both()?;
    let (space, prefix) = match encoding {
        Encoding::Flat => (Space::Flat, "flat_"),
        Encoding::Global => (Space::Global, "global_"),
        _ => (Space::Scratch, "scratch_"),
    };
    let Some((stem, kind)) = table::mem(space, bits(w, 18, 7) as u16, bits(w, 16, 1) == 1) else {
        return unknown();
    };
    wide_lds(c, kind)?;
    let acc = bits(w, 55, 1) as u16 * AGPR;
    let scalar = bits(w, 48, 7);
    let scalar = match space {
        Space::Flat => None,
        _ if scalar == 0x7f => None,
        _ if scalar < 108 => Some(scalar as u8),
        _ => return Err(format!("scalar address register {scalar}")),
    };
    let sve = bits(w, 13, 1) == 1;
    if sve && space != Space::Scratch {
        return Err("bit 13 set outside scratch".into());
    }
    let offset = if space == Space::Flat { bits(w, 0, 12) as i32 } else { signed(bits(w, 0, 13), 13) };
    let op = Mem {
        space,
        kind,
        addr: bits(w, 32, 8) as u16,
        data: bits(w, 40, 8) as u16 + acc,
        dst: bits(w, 56, 8) as u16 + acc,
        scalar,
        vector_offset: sve,
        index: false,
        soffset: Src::Const(0),
        offset,
    };
    Ok((2, [prefix, stem], Op::Memory(Box::new(op))))
}

/// gfx942 moves at most a dword a lane from memory to LDS.
fn wide_lds(c: &Cursor<'_>, kind: MemKind) -> Result<(), String> {
    match kind {
        MemKind::LoadLds(access) if access.bytes > 4 && c.arch == Arch::Gfx942 => {
            Err("gfx942 moves at most 4 bytes a lane from memory to LDS".into())
        }
        _ => Ok(()),
    }
}

pub(super) fn mubuf(c: &Cursor<'_>) -> Decoded {
    let w = c.both()?;
    let Some((stem, kind)) = table::mem(Space::Buffer, bits(w, 18, 7) as u16, bits(w, 14, 1) == 1) else {
        return unknown();
    };
    let kind = match (kind, bits(w, 16, 1) == 1) {
        (MemKind::Load(access), true) if access.half.is_none() => MemKind::LoadLds(access),
        (_, true) => return Err("the lds bit on an instruction that cannot have it".into()),
        (kind, false) => kind,
    };
    wide_lds(c, kind)?;
    let acc = bits(w, 55, 1) as u16 * AGPR;
    let data = bits(w, 40, 8) as u16 + acc;
    let op = Mem {
        space: Space::Buffer,
        kind,
        addr: bits(w, 32, 8) as u16,
        data,
        dst: data,
        scalar: Some(4 * bits(w, 48, 5) as u8),
        vector_offset: bits(w, 12, 1) == 1,
        index: bits(w, 13, 1) == 1,
        soffset: if kind == MemKind::Cache { Src::Const(0) } else { source(bits(w, 56, 8), T::B32, None)? },
        offset: bits(w, 0, 12) as i32,
    };
    Ok((2, ["buffer_", stem], Op::Memory(Box::new(op))))
}
