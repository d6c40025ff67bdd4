//! VOP1, VOP2, VOPC (with literal, SDWA and DPP), VOP3, VOP3P, and the matrix instructions.

use super::super::matrix_table::{Element, MATRIX, Matrix};
use super::super::operand::{Dpp, LITERAL, Mods, Sdwa, Src, VCC, source};
use super::super::types::{Row, T};
use super::super::{AGPR, Arch, Op, Run, Special, Vector, vop1, vop2, vop3, vop3p, vopc};
use super::{Cursor, Decoded, bits};

/// The code of src0 that says an SDWA word follows, and the one for DPP.
const SDWA: u32 = 249;
const DPP: u32 = 250;

fn find(table: &[Row], opcode: u16) -> Result<Row, String> {
    table
        .binary_search_by_key(&opcode, |row| row.opcode)
        .map(|i| table[i])
        .map_err(|_| "this opcode is not in the emulator's table".into())
}

fn only_gfx950(c: &Cursor<'_>, condition: bool) -> Result<(), String> {
    if condition && c.arch == Arch::Gfx942 {
        Err("gfx942 does not have this instruction".into())
    } else {
        Ok(())
    }
}

fn vector(row: Row, dst: u16, src: [Src; 3]) -> Vector {
    Vector { run: row.run, ty: row.ty, dst, sdst: VCC, src, mods: Mods::default(), sdwa: None, dpp: None }
}

const UNUSED: Src = Src::Const(0);

/// src0 of VOP1, VOP2 and VOPC, with the word that may follow.
enum Short {
    Plain(Src, u8),
    Sdwa(u32),
    Dpp(u32),
}

fn short(c: &Cursor<'_>, ty: T) -> Result<Short, String> {
    Ok(match c.word(0)? & 0x1ff {
        SDWA => Short::Sdwa(c.word(1)?),
        DPP => Short::Dpp(c.word(1)?),
        LITERAL => Short::Plain(source(LITERAL, ty, Some(c.word(1)?))?, 2),
        code => Short::Plain(source(code, ty, None)?, 1),
    })
}

/// Fills in src0, and src1 where SDWA moves it to SGPRs; returns the words taken.
fn finish_short(c: &Cursor<'_>, v: &mut Vector, comparison: bool) -> Result<u8, String> {
    match short(c, v.ty.src[0])? {
        Short::Plain(src, words) => {
            v.src[0] = src;
            Ok(words)
        }
        Short::Sdwa(w) => {
            let w = u64::from(w);
            let register =
                |scalar: bool, n: u32| if scalar { source(n, T::B32, None) } else { Ok(Src::Vgpr(n as u16)) };
            v.src[0] = register(bits(w, 23, 1) == 1, bits(w, 0, 8))?;
            if bits(w, 31, 1) == 1
                && let Src::Vgpr(n) = v.src[1]
            {
                v.src[1] = source(u32::from(n), T::B32, None)?;
            }
            v.mods.neg = (bits(w, 20, 1) | bits(w, 28, 1) << 1) as u8;
            v.mods.abs = (bits(w, 21, 1) | bits(w, 29, 1) << 1) as u8;
            let mut sdwa = Sdwa {
                dst_sel: 6,
                dst_unused: 0,
                src_sel: [bits(w, 16, 3) as u8, bits(w, 24, 3) as u8],
                sext: [bits(w, 19, 1) == 1, bits(w, 27, 1) == 1],
            };
            if comparison {
                if bits(w, 15, 1) == 1 {
                    v.sdst = bits(w, 8, 7) as u8;
                }
            } else {
                sdwa.dst_sel = bits(w, 8, 3) as u8;
                sdwa.dst_unused = bits(w, 11, 2) as u8;
                v.mods.clamp = bits(w, 13, 1) == 1;
                v.mods.omod = bits(w, 14, 2) as u8;
            }
            if sdwa.dst_unused == 3 || sdwa.dst_sel == 7 || sdwa.src_sel.contains(&7) {
                return Err("a reserved SDWA selection".into());
            }
            v.sdwa = Some(sdwa);
            Ok(2)
        }
        Short::Dpp(w) => {
            let w = u64::from(w);
            v.src[0] = Src::Vgpr(bits(w, 0, 8) as u16);
            v.mods.neg = (bits(w, 20, 1) | bits(w, 22, 1) << 1) as u8;
            v.mods.abs = (bits(w, 21, 1) | bits(w, 23, 1) << 1) as u8;
            let dpp = Dpp {
                control: bits(w, 8, 9) as u16,
                bound_control: bits(w, 19, 1) == 1,
                bank_mask: bits(w, 24, 4) as u8,
                row_mask: bits(w, 28, 4) as u8,
            };
            crate::exec::crosslane::check_dpp(dpp.control)?;
            v.dpp = Some(dpp);
            Ok(2)
        }
    }
}

/// Modifiers only where they mean something.
fn check(v: &Vector) -> Result<(), String> {
    if matches!(v.run, Run::Special(Special::BitOp3 { .. } | Special::MadMix { .. })) {
        return Ok(());
    }
    for i in 0..3 {
        let modified = (v.mods.neg | v.mods.abs | v.mods.neg_hi) >> i & 1 == 1;
        let float = v.ty.src[i].is_float() || matches!(v.run, Run::Special(Special::Cndmask));
        if modified && !float {
            return Err(format!("a sign modifier on source {i}, which is not a float"));
        }
    }
    if (v.mods.clamp || v.mods.omod != 0) && !v.ty.dst.is_float() {
        return Err("clamp or output modifier on a result that is not a float".into());
    }
    Ok(())
}

fn done(words: u8, name: &'static str, v: Vector) -> Decoded {
    check(&v)?;
    Ok((words, [name, ""], Op::Vector(Box::new(v))))
}

pub(super) fn vop1(c: &Cursor<'_>) -> Decoded {
    let w = u64::from(c.word(0)?);
    let opcode = bits(w, 9, 8) as u16;
    let row = find(vop1::VOP1, opcode)?;
    only_gfx950(c, vop1::VOP1_GFX950.contains(&opcode))?;
    let mut v = vector(row, bits(w, 17, 8) as u16, [UNUSED; 3]);
    let words = if row.ty.sources() == 0 { 1 } else { finish_short(c, &mut v, false)? };
    accvgpr_mov(opcode, &mut v)?;
    done(words, row.name, v)
}

fn accvgpr_mov(opcode: u16, v: &mut Vector) -> Result<(), String> {
    if opcode == 0x52 {
        let Src::Vgpr(n) = v.src[0] else {
            return Err("v_accvgpr_mov_b32 of something that is no AGPR".into());
        };
        v.src[0] = Src::Vgpr(n + AGPR);
        v.dst += AGPR;
    }
    Ok(())
}

pub(super) fn vop2(c: &Cursor<'_>) -> Decoded {
    let w = u64::from(c.word(0)?);
    let opcode = bits(w, 25, 6) as u16;
    let row = find(vop2::VOP2, opcode)?;
    only_gfx950(c, vop2::VOP2_GFX950.contains(&opcode))?;
    let dst = bits(w, 17, 8) as u16;
    let mut v = vector(row, dst, [UNUSED, Src::Vgpr(bits(w, 9, 8) as u16), UNUSED]);
    let mut words = finish_short(c, &mut v, false)?;
    if vop2::FMAMK.contains(&opcode) {
        v.src[2] = v.src[1];
        v.src[1] = Src::Const(u64::from(c.word(1)?));
        words = 2;
    } else if vop2::FMAAK.contains(&opcode) {
        v.src[2] = Src::Const(u64::from(c.word(1)?));
        words = 2;
    } else if vop2::ACCUMULATING.contains(&opcode) {
        v.src[2] = Src::Vgpr(dst);
    } else if row.ty.src[2] == T::Mask {
        v.src[2] = Src::Sgpr(VCC);
    }
    packed_defaults(&mut v);
    done(words, row.name, v)
}

/// A VOP1 or VOP2 instruction on packed operands reads both halves in order.
fn packed_defaults(v: &mut Vector) {
    if v.ty.src.iter().any(|t| t.is_packed()) {
        v.mods.op_sel_hi = 7;
    }
}

pub(super) fn vopc(c: &Cursor<'_>) -> Decoded {
    let w = u64::from(c.word(0)?);
    let Some((row, exec)) = vopc::find(bits(w, 17, 8) as u16) else {
        return Err("this opcode is not in the emulator's table".into());
    };
    let mut v = vector(row, 0, [UNUSED, Src::Vgpr(bits(w, 9, 8) as u16), UNUSED]);
    let words = finish_short(c, &mut v, true)?;
    check(&v)?;
    Ok((words, comparison_name(row.name, exec), Op::Vector(Box::new(v))))
}

fn comparison_name(name: &'static str, exec: bool) -> [&'static str; 2] {
    if exec { ["v_cmpx", &name["v_cmp".len()..]] } else { [name, ""] }
}

/// Opcodes of VOP3 with a scalar destination beside the vector one.
fn has_sdst(opcode: u16) -> bool {
    matches!(opcode, 0x119..=0x11e | 0x1e0 | 0x1e1 | 0x1e8 | 0x1e9)
}

pub(super) fn vop3(c: &Cursor<'_>) -> Decoded {
    let w = c.both()?;
    let opcode = bits(w, 16, 10) as u16;
    let (row, name) = match opcode {
        0..=0xff => {
            let Some((row, exec)) = vopc::find(opcode) else {
                return Err("this opcode is not in the emulator's table".into());
            };
            (row, comparison_name(row.name, exec))
        }
        0x100..=0x13f => {
            let row = find(vop2::VOP2, opcode - 0x100)?;
            only_gfx950(c, vop2::VOP2_GFX950.contains(&row.opcode))?;
            (row, [row.name, ""])
        }
        0x140..=0x1bf => {
            let row = find(vop1::VOP1, opcode - 0x140)?;
            only_gfx950(c, vop1::VOP1_GFX950.contains(&row.opcode))?;
            (row, [row.name, ""])
        }
        _ => {
            let row = find(vop3::VOP3, opcode)?;
            only_gfx950(c, vop3::only_gfx950(opcode))?;
            (row, [row.name, ""])
        }
    };
    let dst = bits(w, 0, 8) as u16;
    let mut src = [UNUSED; 3];
    for (i, src) in src.iter_mut().enumerate().take(row.ty.sources()) {
        *src = source(bits(w, 32 + 9 * i as u32, 9), row.ty.src[i], None)?;
    }
    let mut v = vector(row, dst, src);
    if (0x100..0x140).contains(&opcode) && vop3::accumulates(opcode - 0x100) {
        v.src[2] = Src::Vgpr(dst);
    }
    if opcode < 0x100 {
        v.sdst = dst as u8;
    }
    v.mods = Mods {
        neg: bits(w, 61, 3) as u8,
        abs: bits(w, 8, 3) as u8,
        op_sel: bits(w, 11, 4) as u8,
        op_sel_hi: 0,
        neg_hi: 0,
        clamp: bits(w, 15, 1) == 1,
        omod: bits(w, 59, 2) as u8,
    };
    if has_sdst(opcode) {
        v.sdst = bits(w, 8, 7) as u8;
        v.mods.abs = 0;
        v.mods.op_sel = 0;
    }
    let selects = row.ty.dst.is_half()
        || row.ty.src.iter().any(|t| t.is_half())
        || matches!(row.run, Run::Special(Special::Convert(_)));
    if v.mods.op_sel != 0 && !selects {
        return Err(format!("op_sel {:#x} on an instruction without halves", v.mods.op_sel));
    }
    if v.mods.clamp
        && let Some(saturating) = vop2::SATURATING.iter().find(|r| r.name == row.name)
    {
        v.run = saturating.run;
        v.mods.clamp = false;
    }
    packed_defaults(&mut v);
    accvgpr_mov(if opcode == 0x192 { 0x52 } else { 0 }, &mut v)?;
    check(&v)?;
    Ok((2, name, Op::Vector(Box::new(v))))
}

pub(super) fn vop3p(c: &Cursor<'_>) -> Decoded {
    let w = c.both()?;
    let opcode = bits(w, 16, 7) as u16;
    let row = find(vop3p::VOP3P, opcode)?;
    let mut src = [UNUSED; 3];
    for (i, src) in src.iter_mut().enumerate().take(row.ty.sources()) {
        *src = source(bits(w, 32 + 9 * i as u32, 9), row.ty.src[i], None)?;
    }
    let mut v = vector(row, bits(w, 0, 8) as u16, src);
    match opcode {
        0x58 => {
            let Src::Vgpr(n) = v.src[0] else {
                return Err("v_accvgpr_read_b32 of something that is no AGPR".into());
            };
            v.src[0] = Src::Vgpr(n + AGPR);
        }
        0x59 => v.dst += AGPR,
        _ => {
            v.mods = Mods {
                neg: bits(w, 61, 3) as u8,
                abs: 0,
                op_sel: bits(w, 11, 3) as u8,
                op_sel_hi: (bits(w, 59, 2) | bits(w, 14, 1) << 2) as u8,
                neg_hi: bits(w, 8, 3) as u8,
                clamp: bits(w, 15, 1) == 1,
                omod: 0,
            };
            // Dword sources of the dot products have no halves; there neg and neg_hi stand for one and the same sign.
            if !matches!(row.run, Run::Special(Special::MadMix { .. } | Special::PackedMove)) {
                for i in 0..row.ty.sources() {
                    if !row.ty.src[i].is_packed() && v.mods.op_sel >> i & 1 == 1 {
                        return Err(format!("op_sel on source {i}, which has no halves"));
                    }
                }
            }
        }
    }
    done(2, row.name, v)
}

pub(super) fn mai(c: &Cursor<'_>) -> Decoded {
    let first = c.word(0)?;
    let (w, scale, words) = if first >> 16 == 0xd3ac {
        only_gfx950(c, true)?;
        let s = c.both()?;
        let select = |i: u32| (bits(s, 11 + i, 1) | bits(s, 59 + i, 1) << 1) as u8;
        let register = |i: u32| source(bits(s, 32 + 9 * i, 9), T::B32, None);
        if bits(s, 61, 3) != 0 || bits(s, 8, 3) != 0 {
            return Err("a sign modifier on a matrix scale".into());
        }
        let scale = [(register(0)?, select(0)), (register(1)?, select(1))];
        (u64::from(c.word(2)?) | u64::from(c.word(3)?) << 32, Some(scale), 4)
    } else {
        (c.both()?, None, 2)
    };
    let opcode = bits(w, 16, 7) as u16;
    let scaled = matches!(opcode, 0x2d | 0x2e);
    if w >> 23 & 0x1ff != 0b1_1010_0111 || (scale.is_some() && !scaled) {
        return Err("a scale prefix that no f8f6f4 instruction follows".into());
    }
    let Some(&row) = MATRIX.iter().find(|row| row.opcode == opcode) else {
        return Err("this opcode is not in the emulator's table".into());
    };
    only_gfx950(c, row.only == Some(Arch::Gfx950))?;
    let mut row = row;
    let (cbsz, abid, blgp) = (bits(w, 8, 3) as u8, bits(w, 11, 4) as u8, bits(w, 61, 3) as u8);
    if scaled {
        let element = |code| Element::from_code(code).ok_or(format!("element format {code} is reserved"));
        (row.a, row.b) = (element(cbsz)?, element(blgp)?);
        if abid & !1 != 0 || (abid != 0 && scale.is_none()) {
            return Err(format!("abid {abid} on an f8f6f4 instruction"));
        }
    } else if blgp != 0 || (!row.sparse && (cbsz != 0 || abid != 0)) {
        return Err(format!("broadcast of blocks (cbsz {cbsz}, abid {abid}, blgp {blgp})"));
    }
    let acc = bits(w, 59, 2) as u16;
    let register = |code: u32, acc: u16| match source(code, T::B32, None)? {
        Src::Vgpr(n) => Ok(n + acc * AGPR),
        other => Err(format!("matrix operand {other:?} is no vector register")),
    };
    let acc_cd = bits(w, 15, 1) as u16;
    let index = if row.sparse { 0 } else { acc_cd };
    let c_operand = match source(bits(w, 50, 9), if row.a == Element::I8 { T::B32 } else { T::F32 }, None)? {
        Src::Vgpr(n) => Src::Vgpr(n + index * AGPR),
        constant => constant,
    };
    let matrix = Matrix {
        row,
        dst: bits(w, 0, 8) as u16 + acc_cd * AGPR,
        a: register(bits(w, 32, 9), acc & 1)?,
        b: register(bits(w, 41, 9), acc >> 1)?,
        c: c_operand,
        cbsz,
        abid,
        scale,
    };
    let name = if scale.is_some() { ["v_mfma_scale", &row.name["v_mfma".len()..]] } else { [row.name, ""] };
    Ok((words, name, Op::Matrix(Box::new(matrix))))
}
