//! Scalar memory instructions.

use super::vmem::{Descriptor, Env, update_region};
use super::wave::Wave;
use crate::error::Trap;
use crate::isa::memory_table::{Atomic, Smem, SmemKind};

/// Runs one scalar memory instruction.
pub(crate) fn run(op: &Smem, w: &mut Wave, env: &Env<'_>) -> Result<(), Trap> {
    let offset = i64::from(op.offset) + op.soffset.map_or(0, |s| i64::from(w.s32(s)));
    match op.kind {
        SmemKind::Cache => {}
        SmemKind::Time => w.set_s64(op.data, w.executed),
        SmemKind::Load { dwords } => {
            let address = w.s64(op.base).wrapping_add_signed(offset) & !3;
            let (region, at) = env.bus.find(address, 4 * u64::from(dwords))?;
            for i in 0..dwords {
                w.set_s32(op.data + i, region.load32(at + 4 * u64::from(i)));
            }
        }
        SmemKind::BufferLoad { dwords } => {
            let v = Descriptor::read(w, op.base)?;
            let bytes = u64::from(v.records) * u64::from(v.stride.max(1));
            for i in 0..dwords {
                let at = offset as u64 + 4 * u64::from(i);
                let value = if at + 4 <= bytes {
                    let (region, at) = env.bus.find(v.base + at, 4)?;
                    region.load32(at)
                } else {
                    0
                };
                w.set_s32(op.data + i, value);
            }
        }
        SmemKind::Store { dwords } => {
            let address = w.s64(op.base).wrapping_add_signed(offset) & !3;
            let (region, at) = env.bus.find(address, 4 * u64::from(dwords))?;
            region.check_writable()?;
            for i in 0..dwords {
                region.store32(at + 4 * u64::from(i), w.s32(op.data + i));
            }
        }
        SmemKind::Atomic { op: kind, wide, returns } => {
            let address = w.s64(op.base).wrapping_add_signed(offset);
            let (region, at) = env.bus.find(address, if wide { 8 } else { 4 })?;
            let operand = |n: u8| if wide { w.s64(n) } else { u64::from(w.s32(n)) };
            let data = operand(op.data);
            let compare =
                if kind == Atomic::CompareSwap { operand(op.data + if wide { 2 } else { 1 }) } else { 0 };
            let old = update_region(region, at, kind, wide, data, compare)?;
            if returns && wide {
                w.set_s64(op.data, old);
            } else if returns {
                w.set_s32(op.data, old as u32);
            }
        }
    }
    Ok(())
}
