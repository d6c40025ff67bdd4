//! The vector unit: sources with their modifiers, the computation, the masked write.
//!
//! All sources are read before anything is written, so in-place instructions (DPP, swaps) see the old values.

use super::wave::{Mode, Wave};
use super::{crosslane, special};
use crate::error::{Trap, trap};
use crate::isa::operand::M0;
use crate::isa::types::T;
use crate::isa::{AGPR, Arch, LANES, Lanes, Run, Src, Vector, Wide};
use crate::small_float::{from_f16, to_f16};

/// Runs one VALU instruction.
pub(crate) fn run(v: &Vector, w: &mut Wave, arch: Arch) -> Result<(), Trap> {
    // Lanes that DPP disables keep their destination, so the mask may be narrower than EXEC.
    let mask = v.dpp.map_or(w.exec, |dpp| crosslane::dpp_mask(dpp, w.exec));
    match v.run {
        Run::A1(f) => {
            let mut d = [0; LANES];
            with(w, v, 0, |a| f(a, &mut d));
            finish32(v, w, &mut d, mask);
        }
        Run::A2(f) => {
            let mut d = [0; LANES];
            with(w, v, 0, |a| with(w, v, 1, |b| f(a, b, &mut d)));
            finish32(v, w, &mut d, mask);
        }
        Run::A3(f) => {
            let mut d = [0; LANES];
            with(w, v, 0, |a| with(w, v, 1, |b| with(w, v, 2, |c| f(a, b, c, &mut d))));
            finish32(v, w, &mut d, mask);
        }
        Run::W1(f) => {
            let mut d = [0; LANES];
            f(&fetch64(w, v, 0), &mut d);
            finish64(v, w, d, mask);
        }
        Run::W2(f) => {
            let mut d = [0; LANES];
            f(&fetch64(w, v, 0), &fetch64(w, v, 1), &mut d);
            finish64(v, w, d, mask);
        }
        Run::W3(f) => {
            let mut d = [0; LANES];
            f(&fetch64(w, v, 0), &fetch64(w, v, 1), &fetch64(w, v, 2), &mut d);
            finish64(v, w, d, mask);
        }
        Run::C2(f) | Run::X2(f) => {
            let hits = f(&fetch32(w, v, 0), &fetch32(w, v, 1)) & mask;
            compared(v, w, hits);
        }
        Run::CW2(f) | Run::XW2(f) => {
            let hits = f(&fetch64(w, v, 0), &fetch64(w, v, 1)) & mask;
            compared(v, w, hits);
        }
        Run::Special(kind) => special::run(kind, v, w, arch, mask)?,
    }
    Ok(())
}

/// The instruction with its vector registers moved by M0, where M0's mode says so.
pub(crate) fn indexed(v: &Vector, w: &Wave) -> Result<Vector, Trap> {
    let m0 = w.s32(M0);
    let (index, mode) = (m0 as u16 & 0xff, m0 >> 12 & 15);
    let moved = |n: u16, on: bool| match if on { n + index } else { n } {
        x if (x < AGPR) == (n < AGPR) && x < 2 * AGPR => Ok(x),
        x => trap!("relative register {n} + {index} is {x}, out of its file"),
    };
    let mut v = v.clone();
    for (i, src) in v.src.iter_mut().enumerate() {
        if let Src::Vgpr(n) = src {
            *n = moved(*n, mode >> i & 1 == 1)?;
        }
    }
    if !matches!(v.ty.dst, T::Mask | T::None) {
        v.dst = moved(v.dst, mode >> 3 & 1 == 1)?;
    }
    Ok(v)
}

/// A comparison's result: inactive lanes get 0.
fn compared(v: &Vector, w: &mut Wave, hits: u64) {
    w.set_s64(v.sdst, hits);
    if matches!(v.run, Run::X2(_) | Run::XW2(_)) {
        w.exec = hits;
    }
}

/// Whether source `i` is read as it stands in the register.
fn plain(w: &Wave, v: &Vector, i: usize) -> bool {
    let m = v.mods;
    !v.ty.src[i].is_packed()
        && v.sdwa.is_none()
        && (v.dpp.is_none() || i != 0)
        && (m.neg | m.abs | m.op_sel | m.neg_hi) >> i & 1 == 0
        && !flushes(v.ty.src[i], w.mode, 1)
}

/// Gives source `i` to `f`, without a copy where there is nothing to change.
#[inline(always)]
fn with<X>(w: &Wave, v: &Vector, i: usize, f: impl FnOnce(&Lanes) -> X) -> X {
    match v.src[i] {
        Src::Vgpr(n) if plain(w, v, i) => f(&w.vgpr[usize::from(n)]),
        _ => f(&fetch32(w, v, i)),
    }
}

/// Whether subnormals of the type are flushed: `bit` 1 for inputs, 2 for outputs.
fn flushes(ty: T, mode: Mode, bit: u32) -> bool {
    match ty {
        T::F32 | T::PkF32 => mode.denormals32() & bit == 0,
        T::F16 | T::HalfF16 | T::PkF16 | T::F64 => mode.denormals16_64() & bit == 0,
        _ => false,
    }
}

/// Source `i` as 32 bits a lane, with DPP, SDWA, op_sel and sign modifiers applied.
pub(crate) fn fetch32(w: &Wave, v: &Vector, i: usize) -> Lanes {
    let ty = v.ty.src[i];
    let mut x = w.lanes(v.src[i]);
    if let (Some(dpp), 0) = (v.dpp, i) {
        x = crosslane::dpp(&x, dpp, w.exec);
    }
    if let (Some(sdwa), 0 | 1) = (v.sdwa, i) {
        for x in &mut x {
            *x = select(*x, sdwa.src_sel[i], sdwa.sext[i]);
        }
    }
    let m = v.mods;
    let bit = |field: u8| field >> i & 1 == 1;
    match ty {
        T::PkF16 | T::PkB16 | T::PkBf16 => {
            let (low, high) = (16 * u32::from(bit(m.op_sel)), 16 * u32::from(bit(m.op_sel_hi)));
            // An inline constant has its value in the low half; the high half of a register pair's is not there.
            let signs = if bit(m.neg) { 0x8000 } else { 0 } | if bit(m.neg_hi) { 0x8000_0000 } else { 0 };
            for x in &mut x {
                *x = (*x >> low & 0xffff | (*x >> high & 0xffff) << 16) ^ signs;
            }
        }
        T::F16 | T::B16 | T::Half | T::HalfF16 => {
            if bit(m.op_sel) && v.sdwa.is_none() {
                x = x.map(|x| x >> 16);
            }
            signs(&mut x, bit(m.abs), bit(m.neg), 15);
        }
        _ => signs(&mut x, bit(m.abs), bit(m.neg), 31),
    }
    if flushes(ty, w.mode, 1) {
        flush32(&mut x, ty);
    }
    x
}

fn signs(x: &mut Lanes, abs: bool, neg: bool, bit: u32) {
    if abs || neg {
        let (keep, flip) = (if abs { !(1 << bit) } else { u32::MAX }, u32::from(neg) << bit);
        for x in x {
            *x = *x & keep ^ flip;
        }
    }
}

/// The byte or word of SDWA.
fn select(x: u32, sel: u8, sign: bool) -> u32 {
    let (shift, width) = match sel {
        0..=3 => (8 * u32::from(sel), 8),
        4 | 5 => (16 * u32::from(sel - 4), 16),
        _ => return x,
    };
    let low = x << (32 - shift - width);
    if sign { (low as i32 >> (32 - width)) as u32 } else { low >> (32 - width) }
}

/// Source `i` as 64 bits a lane; 32-bit sources are zero-extended.
pub(crate) fn fetch64(w: &Wave, v: &Vector, i: usize) -> Wide {
    let ty = v.ty.src[i];
    if !ty.is_wide() {
        return fetch32(w, v, i).map(u64::from);
    }
    let mut x = w.wide(v.src[i]);
    if let (Some(dpp), 0) = (v.dpp, i) {
        x = crosslane::dpp_wide(&x, dpp, w.exec);
    }
    let m = v.mods;
    let bit = |field: u8| field >> i & 1 == 1;
    match ty {
        T::PkF32 => {
            let (low, high) = (32 * u32::from(bit(m.op_sel)), 32 * u32::from(bit(m.op_sel_hi)));
            let signs = u64::from(bit(m.neg)) << 31 | u64::from(bit(m.neg_hi)) << 63;
            for x in &mut x {
                *x = (*x >> low & 0xffff_ffff | (*x >> high & 0xffff_ffff) << 32) ^ signs;
            }
        }
        _ => {
            for x in &mut x {
                if bit(m.abs) {
                    *x &= !(1 << 63);
                }
                *x ^= u64::from(bit(m.neg)) << 63;
            }
        }
    }
    if flushes(ty, w.mode, 1) {
        flush64(&mut x, ty);
    }
    x
}

fn flush32(x: &mut Lanes, ty: T) {
    let half = |h: u32| if h & 0x7c00 == 0 { h & 0x8000 } else { h };
    for x in x {
        *x = match ty {
            T::F32 if *x & 0x7f80_0000 == 0 => *x & 0x8000_0000,
            T::F16 | T::HalfF16 => half(*x & 0xffff),
            T::PkF16 => half(*x & 0xffff) | half(*x >> 16) << 16,
            _ => *x,
        };
    }
}

fn flush64(x: &mut Wide, ty: T) {
    let single = |s: u64| if s & 0x7f80_0000 == 0 { s & 0x8000_0000 } else { s };
    for x in x {
        *x = match ty {
            T::PkF32 => single(*x & 0xffff_ffff) | single(*x >> 32) << 32,
            T::F64 if *x & 0x7ff0_0000_0000_0000 == 0 => *x & 1 << 63,
            _ => *x,
        };
    }
}

/// Output modifiers, clamp, flush and the write of a 32-bit result.
pub(crate) fn finish32(v: &Vector, w: &mut Wave, d: &mut Lanes, mask: u64) {
    let ty = v.ty.dst;
    if v.mods.omod != 0 || v.mods.clamp {
        modify(v, w.mode, d);
    }
    if flushes(ty, w.mode, 2) {
        flush32(d, ty);
    }
    if let Some(sdwa) = v.sdwa
        && (sdwa.dst_sel != 6)
    {
        let old = w.vgpr[usize::from(v.dst)];
        for i in 0..LANES {
            d[i] = place(old[i], d[i], sdwa.dst_sel, sdwa.dst_unused);
        }
    } else if ty.is_half() && (matches!(ty, T::Half | T::HalfF16) || v.mods.op_sel & 8 != 0) {
        let (old, high) = (&w.vgpr[usize::from(v.dst)], v.mods.op_sel & 8 != 0);
        for i in 0..LANES {
            d[i] = if high { old[i] & 0xffff | d[i] << 16 } else { old[i] & 0xffff_0000 | d[i] & 0xffff };
        }
    }
    w.write_masked(v.dst, d, mask);
}

/// Where SDWA puts a result, and what becomes of the rest of the register.
fn place(old: u32, value: u32, sel: u8, unused: u8) -> u32 {
    let (shift, width) = if sel < 4 { (8 * u32::from(sel), 8) } else { (16 * u32::from(sel - 4), 16) };
    let mask = ((1u64 << width) - 1) as u32;
    let field = (value & mask) << shift;
    match unused {
        0 => field,
        // Sign extension goes upwards; what lies below is zero.
        1 => ((field << (32 - shift - width)) as i32 >> (32 - shift - width)) as u32,
        _ => old & !(mask << shift) | field,
    }
}

fn modify(v: &Vector, mode: Mode, d: &mut Lanes) {
    let scale = [1.0, 2.0, 4.0, 0.5][usize::from(v.mods.omod)];
    let apply = |x: f32| {
        let x = x * scale;
        if !v.mods.clamp {
            x
        } else if x.is_nan() {
            if mode.dx10_clamp() { 0.0 } else { x }
        } else {
            x.clamp(0.0, 1.0)
        }
    };
    for d in d {
        *d = match v.ty.dst {
            T::F16 | T::HalfF16 => to_f16(apply(from_f16(*d))),
            T::PkF16 => to_f16(apply(from_f16(*d))) | to_f16(apply(from_f16(*d >> 16))) << 16,
            _ => apply(f32::from_bits(*d)).to_bits(),
        };
    }
}

/// As [`finish32`] for an instruction with a 64-bit operand; its result may still have 32 bits.
pub(crate) fn finish64(v: &Vector, w: &mut Wave, mut d: Wide, mask: u64) {
    let ty = v.ty.dst;
    if !ty.is_wide() {
        return finish32(v, w, &mut d.map(|x| x as u32), mask);
    }
    if v.mods.omod != 0 || v.mods.clamp {
        let scale = [1.0, 2.0, 4.0, 0.5][usize::from(v.mods.omod)];
        let clamp = v.mods.clamp;
        let bound = |x: f64| if clamp && !x.is_nan() { x.clamp(0.0, 1.0) } else { x };
        for d in &mut d {
            *d = if ty == T::PkF32 {
                let part = |bits: u64| {
                    u64::from((bound(f64::from(f32::from_bits(bits as u32)) * scale) as f32).to_bits())
                };
                part(*d) | part(*d >> 32) << 32
            } else {
                bound(f64::from_bits(*d) * scale).to_bits()
            };
        }
    }
    if flushes(ty, w.mode, 2) {
        flush64(&mut d, ty);
    }
    w.write_wide(v.dst, &d, mask);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sdwa_selects_and_places_bytes_and_words() {
        assert_eq!(select(0x1234_56f8, 0, true), 0xffff_fff8);
        assert_eq!(select(0x1234_56f8, 2, false), 0x34);
        assert_eq!(select(0x9234_56f8, 5, true), 0xffff_9234);
        assert_eq!(place(0xaabb_ccdd, 0x11, 1, 2), 0xaabb_11dd);
        assert_eq!(place(0xaabb_ccdd, 0x11, 1, 0), 0x0000_1100);
        assert_eq!(place(0xaabb_ccdd, 0x80, 1, 1), 0xffff_8000);
        assert_eq!(place(0xaabb_ccdd, 0x1234, 5, 2), 0x1234_ccdd);
    }
}
