//! LDS instructions, and the lane exchanges that share their encoding.

use super::crosslane;
use super::vmem::Env;
use super::wave::Wave;
use crate::error::{Trap, trap};
use crate::isa::memory_table::{Access, Atomic, Ds, DsKind};
use crate::isa::{LANES, Lanes};
use crate::memory::atomic;

/// Runs one DS instruction.
pub(crate) fn run(op: &Ds, w: &mut Wave, env: &mut Env<'_>) -> Result<(), Trap> {
    let offset = u32::from(op.offsets[0]) | u32::from(op.offsets[1]) << 8;
    match op.kind {
        DsKind::Read(access) => {
            let addresses = addresses(w, op.addr, offset);
            env.lds_access(&addresses, access.bytes);
            read(op.dst, access, &addresses, w, env)
        }
        DsKind::Write(access) => {
            let addresses = addresses(w, op.addr, offset);
            env.lds_access(&addresses, access.bytes);
            write(op.data[0], access, &addresses, w, env)
        }
        DsKind::Read2 { bytes, unit } => {
            let access = Access { bytes, signed: false, half: None };
            let pair = op.offsets.map(|o| addresses(w, op.addr, u32::from(o) * u32::from(unit)));
            let registers = u16::from(bytes / 4);
            for (i, addresses) in pair.iter().enumerate() {
                env.lds_access(addresses, bytes);
                read(op.dst + registers * i as u16, access, addresses, w, env)?;
            }
            Ok(())
        }
        DsKind::Write2 { bytes, unit } => {
            let access = Access { bytes, signed: false, half: None };
            for (i, &o) in op.offsets.iter().enumerate() {
                let addresses = addresses(w, op.addr, u32::from(o) * u32::from(unit));
                env.lds_access(&addresses, bytes);
                write(op.data[i], access, &addresses, w, env)?;
            }
            Ok(())
        }
        DsKind::Atomic { op: atomic, wide, returns } => {
            update(op, atomic, wide, returns, &addresses(w, op.addr, offset), w, env)
        }
        DsKind::Swizzle => {
            let x = w.vgpr[usize::from(op.addr)];
            let mut d = [0; LANES];
            for (lane, d) in d.iter_mut().enumerate() {
                match crosslane::swizzle_source(offset as u16, lane) {
                    Some(source) if w.exec >> source & 1 == 1 => *d = x[source],
                    Some(_) => {}
                    None => return trap!("swizzle pattern {offset:#x} is not modelled"),
                }
            }
            w.write(op.dst, &d);
            Ok(())
        }
        DsKind::Permute => {
            let (to, x) = (w.vgpr[usize::from(op.addr)], w.vgpr[usize::from(op.data[0])]);
            let mut d = [0; LANES];
            for lane in (0..LANES).filter(|lane| w.exec >> lane & 1 == 1) {
                d[(to[lane].wrapping_add(offset) / 4) as usize % LANES] = x[lane];
            }
            w.write(op.dst, &d);
            Ok(())
        }
        DsKind::Bpermute => {
            let (from, x, exec) = (w.vgpr[usize::from(op.addr)], w.vgpr[usize::from(op.data[0])], w.exec);
            let d: Lanes = std::array::from_fn(|lane| {
                let source = (from[lane].wrapping_add(offset) / 4) as usize % LANES;
                if exec >> source & 1 == 1 { x[source] } else { 0 }
            });
            w.write(op.dst, &d);
            Ok(())
        }
        DsKind::Transpose { bits } => transpose(op, bits, &addresses(w, op.addr, offset), w, env),
        DsKind::Nop => Ok(()),
    }
}

/// Byte address of every active lane.
fn addresses(w: &Wave, register: u16, offset: u32) -> [Option<u32>; LANES] {
    let base = &w.vgpr[usize::from(register)];
    std::array::from_fn(|i| (w.exec >> i & 1 == 1).then(|| base[i].wrapping_add(offset)))
}

/// What a load leaves in a register that held `old`.
#[inline(always)]
pub(crate) fn loaded(access: Access, old: u32, value: u32) -> u32 {
    let value = match (access.signed, access.bytes) {
        (true, 1) => i32::from(value as i8) as u32,
        (true, 2) => i32::from(value as i16) as u32,
        _ => value,
    };
    match access.half {
        None => value,
        Some(0) => old & 0xffff_0000 | value & 0xffff,
        Some(_) => old & 0xffff | value << 16,
    }
}

fn read(
    dst: u16,
    access: Access,
    addresses: &[Option<u32>; LANES],
    w: &mut Wave,
    env: &mut Env<'_>,
) -> Result<(), Trap> {
    match access {
        Access { bytes: 4, half: None, .. } => read_dwords::<1>(dst, addresses, w, env),
        Access { bytes: 8, .. } => read_dwords::<2>(dst, addresses, w, env),
        Access { bytes: 12, .. } => read_dwords::<3>(dst, addresses, w, env),
        Access { bytes: 16, .. } => read_dwords::<4>(dst, addresses, w, env),
        _ => {
            let mut out = [0; 4];
            for (lane, address) in addresses.iter().enumerate() {
                let Some(address) = *address else { continue };
                env.lds.load(w.id, address, access.bytes, &mut out)?;
                let cell = &mut w.vgpr[usize::from(dst)][lane];
                *cell = loaded(access, *cell, out[0]);
            }
            Ok(())
        }
    }
}

/// Whole dwords; their number is a constant so that no lane costs a call of memmove.
fn read_dwords<const N: usize>(
    dst: u16,
    addresses: &[Option<u32>; LANES],
    w: &mut Wave,
    env: &mut Env<'_>,
) -> Result<(), Trap> {
    let registers: &mut [Lanes; N] = w.vgpr[usize::from(dst)..].first_chunk_mut().expect("registers exist");
    for (lane, address) in addresses.iter().enumerate() {
        let Some(address) = *address else { continue };
        if let Some(words) = env.lds.dwords::<N>(address) {
            for r in 0..N {
                registers[r][lane] = words[r];
            }
        } else {
            let mut out = [0; 4];
            env.lds.load(w.id, address, 4 * N as u8, &mut out)?;
            for r in 0..N {
                registers[r][lane] = out[r];
            }
        }
    }
    Ok(())
}

/// What a store takes from the registers.
#[inline(always)]
pub(crate) fn stored(w: &Wave, data: u16, access: Access, lane: usize) -> [u32; 4] {
    let mut out = [0; 4];
    for (r, out) in out.iter_mut().enumerate().take(usize::from(access.bytes).div_ceil(4)) {
        *out = w.vgpr[usize::from(data) + r][lane];
    }
    if access.half == Some(1) {
        out[0] >>= 16;
    }
    out
}

fn write(
    data: u16,
    access: Access,
    addresses: &[Option<u32>; LANES],
    w: &Wave,
    env: &mut Env<'_>,
) -> Result<(), Trap> {
    for (lane, address) in addresses.iter().enumerate() {
        if let Some(address) = *address {
            env.lds.store(w.id, address, access.bytes, &stored(w, data, access, lane))?;
        }
    }
    Ok(())
}

fn update(
    op: &Ds,
    kind: Atomic,
    wide: bool,
    returns: bool,
    addresses: &[Option<u32>; LANES],
    w: &mut Wave,
    env: &mut Env<'_>,
) -> Result<(), Trap> {
    let value = |w: &Wave, register: u16, lane: usize| {
        let low = u64::from(w.vgpr[usize::from(register)][lane]);
        if wide { low | u64::from(w.vgpr[usize::from(register) + 1][lane]) << 32 } else { low }
    };
    for (lane, address) in addresses.iter().enumerate() {
        let Some(address) = *address else { continue };
        // Compare-and-store of LDS has the comparison first, unlike that of memory.
        let (mut data, mut compare) = (value(w, op.data[0], lane), 0);
        if kind == Atomic::CompareSwap {
            (compare, data) = (data, value(w, op.data[1], lane));
        }
        let old = env.lds.update(address, wide, |old| {
            if wide {
                atomic::apply64(kind, old, data, compare)
            } else {
                u64::from(atomic::apply32(kind, old as u32, data as u32, compare as u32))
            }
        })?;
        if returns {
            w.vgpr[usize::from(op.dst)][lane] = old as u32;
            if wide {
                w.vgpr[usize::from(op.dst) + 1][lane] = (old >> 32) as u32;
            }
        }
    }
    Ok(())
}

/// Transposing reads: 16 lanes read rows of 16 elements, and lane c of them gets column c.
///
/// A row lies in as many lanes as it takes to hold 16 elements in 64 bits each: one for 4 bits (and for 6, with 96 bits
/// a lane), two for 8, four for 16.
fn transpose(
    op: &Ds,
    bits: u8,
    addresses: &[Option<u32>; LANES],
    w: &mut Wave,
    env: &mut Env<'_>,
) -> Result<(), Trap> {
    if w.exec != u64::MAX {
        return trap!("a transposing read with inactive lanes (EXEC {:#x})", w.exec);
    }
    let bits = usize::from(bits);
    let bytes = if bits == 6 { 12u8 } else { 8 };
    env.lds_access(addresses, bytes);
    let mut rows = [[0u32; 4]; LANES];
    for (row, address) in rows.iter_mut().zip(addresses) {
        env.lds.load(w.id, address.expect("every lane is active"), bytes, row)?;
    }
    let in_lane = usize::from(bytes) * 8 / bits;
    let lanes_of_row = 16 / in_lane;
    let element = |lane: usize, e: usize| -> u64 {
        let at = e * bits;
        let (low, high) = (rows[lane][at / 32], rows[lane].get(at / 32 + 1).copied().unwrap_or(0));
        (u64::from(high) << 32 | u64::from(low)) >> (at % 32) & ((1 << bits) - 1)
    };
    for lane in 0..LANES {
        let (group, column) = (lane & !15, lane & 15);
        let mut out = 0u128;
        for row in 0..in_lane {
            let source = group + row * lanes_of_row + column / in_lane;
            out |= u128::from(element(source, column % in_lane)) << (row * bits);
        }
        for r in 0..usize::from(bytes) / 4 {
            w.vgpr[usize::from(op.dst) + r][lane] = (out >> (32 * r)) as u32;
        }
    }
    Ok(())
}
