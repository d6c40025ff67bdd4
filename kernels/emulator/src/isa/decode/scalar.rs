//! SOP1, SOP2, SOPC, SOPK, SOPP.

use super::super::Op;
use super::super::operand::{LITERAL, Src, source};
use super::super::scalar_table::*;
use super::super::types::T;
use super::{Cursor, Decoded, bits};

/// Decodes scalar sources and counts the literal.
struct Sources<'a, 'b> {
    cursor: &'a Cursor<'b>,
    words: u8,
}

impl<'a, 'b> Sources<'a, 'b> {
    fn new(cursor: &'a Cursor<'b>) -> Self {
        Self { cursor, words: 1 }
    }

    fn take(&mut self, code: u32, wide: bool) -> Result<Src, String> {
        let literal = if code == LITERAL {
            self.words = 2;
            Some(self.cursor.word(1)?)
        } else {
            None
        };
        source(code, if wide { T::B64 } else { T::B32 }, literal)
    }
}

fn unknown<X>() -> Result<X, String> {
    Err("this opcode is not in the emulator's table".into())
}

/// A scalar destination: SGPRs, VCC, M0, EXEC, trap temporaries.
fn destination(code: u32) -> Result<u8, String> {
    match code {
        0..=101 | 106..=124 | 126 | 127 => Ok(code as u8),
        _ => Err(format!("scalar destination {code} is not modelled")),
    }
}

pub(super) fn sop2(c: &Cursor<'_>) -> Decoded {
    let w = u64::from(c.word(0)?);
    let opcode = bits(w, 23, 7) as u16;
    let Some(row) = SOP2.iter().find(|r| r.opcode == opcode) else { return unknown() };
    let mut sources = Sources::new(c);
    let a = sources.take(bits(w, 0, 8), row.wide)?;
    let b = sources.take(bits(w, 8, 8), row.wide_b)?;
    let dst = destination(bits(w, 16, 7))?;
    let op = ScalarOp::Two { run: row.run, wide: [row.wide, row.wide, row.wide_b], dst, a, b };
    Ok((sources.words, [row.name, ""], Op::Scalar(op)))
}

pub(super) fn sop1(c: &Cursor<'_>) -> Decoded {
    let w = u64::from(c.word(0)?);
    let opcode = bits(w, 8, 8) as u16;
    let code = bits(w, 0, 8);
    let mut sources = Sources::new(c);
    let dst = || destination(bits(w, 16, 7));
    let (name, op) = if let Some(row) = SOP1.iter().find(|r| r.opcode == opcode) {
        let a = sources.take(code, row.wide.0)?;
        (row.name, ScalarOp::One { run: row.run, wide: [row.wide.1, row.wide.0], dst: dst()?, a })
    } else if let Some(&(_, name, run, write_result)) = EXEC_OPS.iter().find(|r| r.0 == opcode) {
        (name, ScalarOp::Exec { run, dst: dst()?, a: sources.take(code, true)?, write_result })
    } else {
        match opcode {
            0x02 => {
                ("s_cmov_b32", ScalarOp::Cmov { wide: false, dst: dst()?, a: sources.take(code, false)? })
            }
            0x03 => ("s_cmov_b64", ScalarOp::Cmov { wide: true, dst: dst()?, a: sources.take(code, true)? }),
            0x18..=0x1b => {
                let (wide, value) = (opcode & 1 == 1, opcode >= 0x1a);
                let name = ["s_bitset0_b32", "s_bitset0_b64", "s_bitset1_b32", "s_bitset1_b64"]
                    [usize::from(opcode - 0x18)];
                (name, ScalarOp::BitSet { wide, value, dst: dst()?, a: sources.take(code, false)? })
            }
            0x1c => ("s_getpc_b64", ScalarOp::GetPc { dst: dst()? }),
            0x1d => ("s_setpc_b64", ScalarOp::SetPc { a: sources.take(code, true)? }),
            0x1e => ("s_swappc_b64", ScalarOp::SwapPc { dst: dst()?, a: sources.take(code, true)? }),
            _ => return unknown(),
        }
    };
    Ok((sources.words, [name, ""], Op::Scalar(op)))
}

pub(super) fn sopc(c: &Cursor<'_>) -> Decoded {
    let w = u64::from(c.word(0)?);
    let opcode = bits(w, 16, 7) as u16;
    let mut sources = Sources::new(c);
    if opcode == 0x11 {
        let a = sources.take(bits(w, 0, 8), false)?;
        let op = ScalarOp::IndexOn { a, mode: bits(w, 8, 4) as u8 };
        return Ok((sources.words, ["s_set_gpr_idx_on", ""], Op::Scalar(op)));
    }
    let Some(&(_, name, wide, run)) = SOPC.iter().find(|r| r.0 == opcode) else { return unknown() };
    let a = sources.take(bits(w, 0, 8), wide[0])?;
    let b = sources.take(bits(w, 8, 8), wide[1])?;
    Ok((sources.words, [name, ""], Op::Scalar(ScalarOp::Compare { run, wide, a, b })))
}

pub(super) fn sopk(c: &Cursor<'_>) -> Decoded {
    let w = u64::from(c.word(0)?);
    let opcode = bits(w, 23, 5);
    let raw = bits(w, 0, 16);
    let signed = Src::Const(i64::from(raw as i16) as u64);
    let sgpr = || destination(bits(w, 16, 7));
    let (id, offset, size) = (bits(w, 0, 6) as u8, bits(w, 6, 5) as u8, bits(w, 11, 5) as u8 + 1);
    let mut words = 1;
    let (name, op) = match opcode {
        0x00 => {
            ("s_movk_i32", ScalarOp::One { run: |a| (a, None), wide: [false; 2], dst: sgpr()?, a: signed })
        }
        0x01 => ("s_cmovk_i32", ScalarOp::Cmov { wide: false, dst: sgpr()?, a: signed }),
        0x02..=0x0d => {
            let index = opcode as usize - 2;
            let b = if index < 6 { signed } else { Src::Const(u64::from(raw)) };
            (
                SOPK_COMPARE[index],
                ScalarOp::Compare { run: SOPC[index].3, wide: [false; 2], a: Src::Sgpr(sgpr()?), b },
            )
        }
        0x0e => {
            let run = SOP2[2].run;
            (
                "s_addk_i32",
                ScalarOp::Two { run, wide: [false; 3], dst: sgpr()?, a: Src::Sgpr(sgpr()?), b: signed },
            )
        }
        0x0f => {
            let run: Two = |a, b, _| (u64::from((a as u32).wrapping_mul(b as u32)), None);
            (
                "s_mulk_i32",
                ScalarOp::Two { run, wide: [false; 3], dst: sgpr()?, a: Src::Sgpr(sgpr()?), b: signed },
            )
        }
        0x11 => ("s_getreg_b32", ScalarOp::GetReg { id, offset, size, dst: sgpr()? }),
        0x12 => ("s_setreg_b32", ScalarOp::SetReg { id, offset, size, value: Src::Sgpr(sgpr()?) }),
        0x14 => {
            words = 2;
            let value = Src::Const(u64::from(c.word(1)?));
            ("s_setreg_imm32_b32", ScalarOp::SetReg { id, offset, size, value })
        }
        0x15 => ("s_call_b64", ScalarOp::Call { dst: sgpr()?, target: target(c, raw) }),
        _ => return unknown(),
    };
    Ok((words, [name, ""], Op::Scalar(op)))
}

/// Byte offset in the text section of a relative branch's target.
fn target(c: &Cursor<'_>, simm: u32) -> i64 {
    i64::from(c.offset) + 4 + 4 * i64::from(simm as i16)
}

pub(super) fn sopp(c: &Cursor<'_>) -> Decoded {
    let w = u64::from(c.word(0)?);
    let simm = bits(w, 0, 16);
    let branch = |when| ScalarOp::Branch { when, target: target(c, simm) };
    let (name, op) = match bits(w, 16, 7) {
        0x00 => ("s_nop", ScalarOp::Nop),
        0x01 => ("s_endpgm", ScalarOp::EndProgram),
        0x02 => ("s_branch", branch(Condition::Always)),
        0x03 => ("s_wakeup", ScalarOp::Nop),
        0x04 => ("s_cbranch_scc0", branch(Condition::Scc(false))),
        0x05 => ("s_cbranch_scc1", branch(Condition::Scc(true))),
        0x06 => ("s_cbranch_vccz", branch(Condition::VccZero(true))),
        0x07 => ("s_cbranch_vccnz", branch(Condition::VccZero(false))),
        0x08 => ("s_cbranch_execz", branch(Condition::ExecZero(true))),
        0x09 => ("s_cbranch_execnz", branch(Condition::ExecZero(false))),
        0x0a => ("s_barrier", ScalarOp::Barrier),
        0x0c => {
            let vm = (bits(w, 0, 4) | bits(w, 14, 2) << 4) as u8;
            ("s_waitcnt", ScalarOp::WaitCount { vm })
        }
        0x0e => ("s_sleep", ScalarOp::Sleep),
        0x0f => ("s_setprio", ScalarOp::Nop),
        0x12 => ("s_trap", ScalarOp::Trap { id: simm as u8 }),
        0x13 => ("s_icache_inv", ScalarOp::Nop),
        0x14 => ("s_incperflevel", ScalarOp::Nop),
        0x15 => ("s_decperflevel", ScalarOp::Nop),
        0x1c => ("s_set_gpr_idx_off", ScalarOp::IndexOff),
        _ => return unknown(),
    };
    Ok((1, [name, ""], Op::Scalar(op)))
}
