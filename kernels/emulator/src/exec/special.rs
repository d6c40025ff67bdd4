//! VALU instructions that need more of the wave than their sources: carries, division steps, lane access, swaps.

use super::vector::{fetch32, fetch64, finish32, finish64};
use super::wave::Wave;
use super::{convert, float};
use crate::error::{Trap, trap};
use crate::isa::{Arch, Arith, LANES, Lanes, Special, Src, Vector};
use crate::small_float::{from_f16, to_f16};

/// Runs a special instruction; `mask` is the lanes that may be written.
pub(super) fn run(kind: Special, v: &Vector, w: &mut Wave, arch: Arch, mask: u64) -> Result<(), Trap> {
    match kind {
        Special::Nop => {}
        Special::Cndmask => {
            let (a, b, take_b) = (fetch32(w, v, 0), fetch32(w, v, 1), w.scalar(v.src[2], true));
            let mut d: Lanes = std::array::from_fn(|i| if take_b >> i & 1 == 1 { b[i] } else { a[i] });
            finish32(v, w, &mut d, mask);
        }
        Special::Carry { kind, carry_in } => carry(kind, carry_in, v, w, mask),
        Special::MadWide { signed } => mad_wide(signed, v, w, mask),
        Special::DivScale32 => {
            let (s0, den, num) = (fetch32(w, v, 0), fetch32(w, v, 1), fetch32(w, v, 2));
            let f = |x: u32| f64::from(f32::from_bits(x));
            let mut post = 0;
            let mut d: Lanes = std::array::from_fn(|i| {
                let (is_den, is_num) = (s0[i] == den[i], s0[i] == num[i]);
                let s = float::div_scale(is_den, is_num, f(den[i]), f(num[i]), float::DIV32);
                post |= u64::from(s.post) << i;
                if s.nan {
                    f32::NAN.to_bits()
                } else {
                    float::ldexp32(f32::from_bits(s0[i]), s.exponent).to_bits()
                }
            });
            w.set_s64(v.sdst, post & mask);
            finish32(v, w, &mut d, mask);
        }
        Special::DivScale64 => {
            let (s0, den, num) = (fetch64(w, v, 0), fetch64(w, v, 1), fetch64(w, v, 2));
            let mut post = 0;
            let d = std::array::from_fn(|i| {
                let (is_den, is_num) = (s0[i] == den[i], s0[i] == num[i]);
                let (den, num) = (f64::from_bits(den[i]), f64::from_bits(num[i]));
                let s = float::div_scale(is_den, is_num, den, num, float::DIV64);
                post |= u64::from(s.post) << i;
                if s.nan {
                    f64::NAN.to_bits()
                } else {
                    float::ldexp64(f64::from_bits(s0[i]), s.exponent).to_bits()
                }
            });
            w.set_s64(v.sdst, post & mask);
            finish64(v, w, d, mask);
        }
        Special::DivFmas32 => {
            let (a, b, c, vcc) = (fetch32(w, v, 0), fetch32(w, v, 1), fetch32(w, v, 2), w.vcc());
            let mut d: Lanes = std::array::from_fn(|i| {
                let x = f32::from_bits(a[i]).mul_add(f32::from_bits(b[i]), f32::from_bits(c[i]));
                let up = f32::from_bits(c[i]).abs() >= 2.0;
                if vcc >> i & 1 == 1 {
                    float::ldexp32(x, if up { 64 } else { -64 }).to_bits()
                } else {
                    x.to_bits()
                }
            });
            finish32(v, w, &mut d, mask);
        }
        Special::DivFmas64 => {
            let (a, b, c, vcc) = (fetch64(w, v, 0), fetch64(w, v, 1), fetch64(w, v, 2), w.vcc());
            let d = std::array::from_fn(|i| {
                let x = f64::from_bits(a[i]).mul_add(f64::from_bits(b[i]), f64::from_bits(c[i]));
                let up = f64::from_bits(c[i]).abs() >= 2.0;
                if vcc >> i & 1 == 1 {
                    float::ldexp64(x, if up { 128 } else { -128 }).to_bits()
                } else {
                    x.to_bits()
                }
            });
            finish64(v, w, d, mask);
        }
        Special::ReadFirstLane => {
            let value = w.scalar(v.src[0], false) as u32;
            w.set_s32(v.dst as u8, value);
        }
        Special::ReadLane => {
            let lane = w.scalar(v.src[1], false) as usize & 63;
            let value = w.lanes(v.src[0])[lane];
            w.set_s32(v.dst as u8, value);
        }
        Special::WriteLane => {
            let lane = w.scalar(v.src[1], false) as usize & 63;
            w.vgpr[usize::from(v.dst)][lane] = w.scalar(v.src[0], false) as u32;
        }
        Special::Swap => {
            let Src::Vgpr(n) = v.src[0] else { return trap!("a swap needs two vector registers") };
            let (a, b) = (w.vgpr[usize::from(n)], w.vgpr[usize::from(v.dst)]);
            w.write_masked(n, &b, mask);
            w.write_masked(v.dst, &a, mask);
        }
        Special::PermlaneSwap { row } => {
            let Src::Vgpr(n) = v.src[0] else { return trap!("a swap needs two vector registers") };
            if w.exec != u64::MAX {
                return trap!("a lane swap with inactive lanes is not modelled (EXEC {:#x})", w.exec);
            }
            let (mut source, mut dst) = (w.vgpr[usize::from(n)], w.vgpr[usize::from(v.dst)]);
            for lane in (0..LANES).filter(|lane| lane / row % 2 == 0) {
                std::mem::swap(&mut source[lane], &mut dst[lane + row]);
            }
            w.vgpr[usize::from(n)] = source;
            w.vgpr[usize::from(v.dst)] = dst;
        }
        Special::BitOp3 { half } => {
            let table = v.mods.neg | v.mods.abs << 3 | v.mods.omod << 6;
            let m = Vector { mods: crate::isa::Mods { neg: 0, abs: 0, ..v.mods }, ..v.clone() };
            let (a, b, c) = (fetch32(w, &m, 0), fetch32(w, &m, 1), fetch32(w, &m, 2));
            let mut d: Lanes = std::array::from_fn(|i| bit_op3(a[i], b[i], c[i], table));
            if half {
                d = d.map(|x| x & 0xffff);
            }
            let plain = Vector { mods: crate::isa::Mods { omod: 0, ..m.mods }, ..m };
            finish32(&plain, w, &mut d, mask);
        }
        Special::PackedMove => {
            let (a, b) = (fetch64(w, v, 0), fetch64(w, v, 1));
            let (low, high) = (32 * (v.mods.op_sel & 1), 32 * (v.mods.op_sel >> 1 & 1));
            let d = std::array::from_fn(|i| a[i] >> low & 0xffff_ffff | (b[i] >> high) << 32);
            w.write_wide(v.dst, &d, mask);
        }
        Special::MadMix { half } => mad_mix(half, v, w, mask),
        Special::Convert(conversion) => convert::run(conversion, v, w, arch, mask)?,
    }
    Ok(())
}

fn carry(kind: Arith, carry_in: bool, v: &Vector, w: &mut Wave, mask: u64) {
    let (a, b) = (fetch32(w, v, 0), fetch32(w, v, 1));
    let incoming = if carry_in { w.scalar(v.src[2], true) } else { 0 };
    let mut out = 0;
    let mut d: Lanes = std::array::from_fn(|i| {
        let c = incoming >> i & 1;
        let (a, b) = (u64::from(a[i]), u64::from(b[i]));
        let (value, carry) = match kind {
            Arith::Add => (a + b + c, (a + b + c) >> 32 != 0),
            Arith::Sub => (a.wrapping_sub(b + c), b + c > a),
            Arith::SubRev => (b.wrapping_sub(a + c), a + c > b),
        };
        out |= u64::from(carry) << i;
        value as u32
    });
    w.set_s64(v.sdst, out & mask);
    finish32(v, w, &mut d, mask);
}

fn mad_wide(signed: bool, v: &Vector, w: &mut Wave, mask: u64) {
    let (a, b, c) = (fetch64(w, v, 0), fetch64(w, v, 1), fetch64(w, v, 2));
    let mut out = 0;
    let d = std::array::from_fn(|i| {
        if signed {
            let product = i64::from(a[i] as i32) * i64::from(b[i] as i32);
            let (sum, overflow) = product.overflowing_add(c[i] as i64);
            out |= u64::from(overflow) << i;
            sum as u64
        } else {
            let (sum, overflow) = (a[i] * b[i]).overflowing_add(c[i]);
            out |= u64::from(overflow) << i;
            sum
        }
    });
    w.set_s64(v.sdst, out & mask);
    finish64(v, w, d, mask);
}

/// One bit a truth-table entry; the index is the bits of a, b and c, a the highest.
fn bit_op3(a: u32, b: u32, c: u32, table: u8) -> u32 {
    (0..8u32).filter(|i| table >> i & 1 == 1).fold(0, |d, i| {
        let pick = |x: u32, bit: u32| if i >> bit & 1 == 1 { x } else { !x };
        d | pick(a, 2) & pick(b, 1) & pick(c, 0)
    })
}

/// fma where op_sel_hi says which sources are halves and op_sel which half; abs sits in neg_hi's place.
fn mad_mix(half: Option<u32>, v: &Vector, w: &mut Wave, mask: u64) {
    let m = v.mods;
    let source = |i: usize| -> [f32; LANES] {
        let x = w.lanes(v.src[i]);
        let bit = |field: u8| field >> i & 1 == 1;
        x.map(|x| {
            let value = if bit(m.op_sel_hi) {
                from_f16(if bit(m.op_sel) { x >> 16 } else { x } & 0xffff)
            } else {
                f32::from_bits(x)
            };
            let value = if bit(m.neg_hi) { value.abs() } else { value };
            if bit(m.neg) { -value } else { value }
        })
    };
    let (a, b, c) = (source(0), source(1), source(2));
    let clamp = |x: f32| if m.clamp { float::max32(float::min32(x, 1.0), 0.0) } else { x };
    let old = w.vgpr[usize::from(v.dst)];
    let d: Lanes = std::array::from_fn(|i| {
        let x = clamp(a[i].mul_add(b[i], c[i]));
        match half {
            None => x.to_bits(),
            Some(0) => old[i] & 0xffff_0000 | to_f16(x),
            Some(_) => old[i] & 0xffff | to_f16(x) << 16,
        }
    });
    w.write_masked(v.dst, &d, mask);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_truth_table_of_bitop3_is_indexed_by_a_b_c() {
        let (a, b, c) = (0xf0, 0xcc, 0xaa);
        for table in [0x80, 0xfe, 0x96, 0xca, 0x01] {
            assert_eq!(bit_op3(a, b, c, table) & 0xff, u32::from(table));
        }
    }
}
