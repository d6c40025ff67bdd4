//! The scalar unit.

use super::wave::Wave;
use crate::error::{Trap, trap};
use crate::isa::operand::M0;
use crate::isa::scalar_table::{Condition, ScalarOp};

/// What the scheduler does after an instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flow {
    Next,
    /// Byte offset in the text section.
    Jump(i64),
    Barrier,
    Wait {
        vm: u8,
    },
    Yield,
    End,
}

/// Number of MODE and of XCC_ID among the hardware registers of `s_getreg` and `s_setreg`.
const MODE: u8 = 1;
const XCC_ID: u8 = 20;

/// Runs one scalar instruction; `next` is the byte offset of the one that follows, `text` the section's address.
pub(crate) fn run(op: &ScalarOp, w: &mut Wave, next: i64, text: u64) -> Result<Flow, Trap> {
    match *op {
        ScalarOp::Two { run, wide, dst, a, b } => {
            let (value, scc) = run(w.scalar(a, wide[1]), w.scalar(b, wide[2]), w.scc);
            finish(w, wide[0], dst, value, scc);
        }
        ScalarOp::One { run, wide, dst, a } => {
            let (value, scc) = run(w.scalar(a, wide[1]));
            finish(w, wide[0], dst, value, scc);
        }
        ScalarOp::Compare { run, wide, a, b } => w.scc = run(w.scalar(a, wide[0]), w.scalar(b, wide[1])),
        ScalarOp::Cmov { wide, dst, a } => {
            if w.scc {
                let value = w.scalar(a, wide);
                finish(w, wide, dst, value, None);
            }
        }
        ScalarOp::Exec { run, dst, a, write_result } => {
            let (source, old) = (w.scalar(a, true), w.exec);
            let new = run(source, old);
            w.set_s64(dst, if write_result { new } else { old });
            w.exec = new;
            w.scc = new != 0;
        }
        ScalarOp::BitSet { wide, value, dst, a } => {
            let bit = 1u64 << (w.scalar(a, false) & if wide { 63 } else { 31 });
            let old = if wide { w.s64(dst) } else { u64::from(w.s32(dst)) };
            finish(w, wide, dst, if value { old | bit } else { old & !bit }, None);
        }
        ScalarOp::GetPc { dst } => w.set_s64(dst, text.wrapping_add_signed(next)),
        ScalarOp::SetPc { a } => return Ok(Flow::Jump(w.scalar(a, true).wrapping_sub(text) as i64)),
        ScalarOp::SwapPc { dst, a } => {
            let target = w.scalar(a, true).wrapping_sub(text) as i64;
            w.set_s64(dst, text.wrapping_add_signed(next));
            return Ok(Flow::Jump(target));
        }
        ScalarOp::Call { dst, target } => {
            w.set_s64(dst, text.wrapping_add_signed(next));
            return Ok(Flow::Jump(target));
        }
        ScalarOp::Branch { when, target } => {
            let taken = match when {
                Condition::Always => true,
                Condition::Scc(value) => w.scc == value,
                Condition::VccZero(value) => (w.vcc() == 0) == value,
                Condition::ExecZero(value) => (w.exec == 0) == value,
            };
            return Ok(if taken { Flow::Jump(target) } else { Flow::Next });
        }
        ScalarOp::EndProgram => return Ok(Flow::End),
        ScalarOp::Barrier => return Ok(Flow::Barrier),
        ScalarOp::WaitCount { vm } => return Ok(Flow::Wait { vm }),
        ScalarOp::Sleep => return Ok(Flow::Yield),
        ScalarOp::Nop => {}
        ScalarOp::GetReg { id, offset, size, dst } => {
            let value = match id {
                MODE => w.mode.0,
                // One die: the emulator places no workgroup on another.
                XCC_ID => 0,
                _ => return trap!("hardware register {id} is not modelled"),
            };
            w.set_s32(dst, value >> offset & (u32::MAX >> (32 - u32::from(size))));
        }
        ScalarOp::SetReg { id, offset, size, value } => {
            if id != MODE {
                return trap!("writing hardware register {id} is not modelled");
            }
            let mask = (u32::MAX >> (32 - u32::from(size))) << offset;
            w.mode.0 = w.mode.0 & !mask | (w.scalar(value, false) as u32) << offset & mask;
            if !w.mode.rounds_to_nearest() {
                return trap!("MODE {:#x} asks for a rounding other than to nearest even", w.mode.0);
            }
        }
        ScalarOp::IndexOn { a, mode } => {
            let index = w.scalar(a, false) as u32 & 0xff;
            w.set_s32(M0, w.s32(M0) & !0xf0ff | index | u32::from(mode) << 12);
            w.indexed = true;
        }
        ScalarOp::IndexOff => w.indexed = false,
        ScalarOp::Trap { id } => return trap!("the kernel trapped (s_trap {id})"),
    }
    Ok(Flow::Next)
}

#[inline]
fn finish(w: &mut Wave, wide: bool, dst: u8, value: u64, scc: Option<bool>) {
    if wide {
        w.set_s64(dst, value);
    } else {
        w.set_s32(dst, value as u32);
    }
    if let Some(scc) = scc {
        w.scc = scc;
    }
}
