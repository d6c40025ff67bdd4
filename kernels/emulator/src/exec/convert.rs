//! Conversions between f32, f16, bf16 and the floats of 8, 6 and 4 bits.
//!
//! What is too large for an 8-bit float becomes NaN (or infinity, where the format has one) unless MODE says to
//! saturate; the 6- and 4-bit floats always saturate. A scale operand counts by its exponent alone.

use super::vector::fetch32;
use super::wave::Wave;
use crate::error::{Trap, trap};
use crate::isa::vop1::prng;
use crate::isa::{Arch, LANES, Lanes, Src, Vector};
use crate::small_float::{self as sf, SmallFloat};

/// A conversion instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Convert {
    /// 8 bits to f32; SDWA selects the byte, or the word of a pair.
    FromF8 {
        bf8: bool,
        pair: bool,
    },
    /// Two f32 to 8 bits, into one half of the destination.
    PackF8 {
        bf8: bool,
    },
    /// One f32 to 8 bits with stochastic rounding, into one byte.
    StochasticF8 {
        bf8: bool,
    },
    /// One f32 to 16 bits with stochastic rounding, into one half.
    StochasticHalf {
        bf16: bool,
    },
    Scaled(Scaled),
}

/// The narrow format of a scaled conversion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Small {
    Fp8,
    Bf8,
    Fp6,
    Bf6,
    Fp4,
}

/// The wide format of a scaled conversion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wider {
    F32,
    F16,
    Bf16,
}

/// `v_cvt_scalef32_*`: gfx950 only.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Scaled {
    pub(crate) small: Small,
    pub(crate) wide: Wider,
    /// Values converted: 1, 2 or 32.
    pub(crate) count: u8,
    /// Towards the narrow format.
    pub(crate) down: bool,
    pub(crate) stochastic: bool,
    /// 2 × 16 values from two sources, alternating.
    pub(crate) interleaved: bool,
}

impl Small {
    const fn format(self) -> SmallFloat {
        match self {
            Self::Fp8 => sf::E4M3,
            Self::Bf8 => sf::E5M2,
            Self::Fp6 => sf::E2M3,
            Self::Bf6 => sf::E3M2,
            Self::Fp4 => sf::E2M1,
        }
    }
}

impl Wider {
    const fn bits(self) -> usize {
        if matches!(self, Self::F32) { 32 } else { 16 }
    }

    fn decode(self, bits: u32) -> f32 {
        match self {
            Self::F32 => f32::from_bits(bits),
            Self::F16 => sf::from_f16(bits & 0xffff),
            Self::Bf16 => f32::from_bits(bits << 16),
        }
    }

    fn encode(self, x: f64) -> u32 {
        match self {
            Self::F32 => (x as f32).to_bits(),
            Self::F16 => sf::F16.encode(x, false),
            Self::Bf16 => sf::BF16.encode(x, false),
        }
    }
}

fn f8(arch: Arch, bf8: bool) -> SmallFloat {
    match (arch, bf8) {
        (Arch::Gfx942, false) => sf::E4M3_FNUZ,
        (Arch::Gfx942, true) => sf::E5M2_FNUZ,
        (Arch::Gfx950, false) => sf::E4M3,
        (Arch::Gfx950, true) => sf::E5M2,
    }
}

/// Runs a conversion.
pub(super) fn run(kind: Convert, v: &Vector, w: &mut Wave, arch: Arch, mask: u64) -> Result<(), Trap> {
    let saturate = w.mode.saturate();
    match kind {
        Convert::FromF8 { bf8, pair } => {
            let format = f8(arch, bf8);
            if v.mods.op_sel != 0 {
                return trap!("op_sel {:#x} on a conversion whose byte SDWA selects", v.mods.op_sel);
            }
            let x = fetch32(w, v, 0);
            let value = |shift: u32| -> Lanes { x.map(|x| format.decode(x >> shift & 0xff).to_bits()) };
            w.write_masked(v.dst, &value(0), mask);
            if pair {
                w.write_masked(v.dst + 1, &value(8), mask);
            }
        }
        Convert::PackF8 { bf8 } => {
            let format = f8(arch, bf8);
            let (a, b) = (fetch32_ignoring_select(w, v, 0), fetch32_ignoring_select(w, v, 1));
            let encode = |x: u32| format.encode(f64::from(f32::from_bits(x)), saturate);
            let pair = std::array::from_fn(|i| encode(a[i]) | encode(b[i]) << 8);
            insert(w, v.dst, &pair, 16, u32::from(v.mods.op_sel >> 3), mask);
        }
        Convert::StochasticF8 { bf8 } => {
            let format = f8(arch, bf8);
            let (a, random) = (fetch32_ignoring_select(w, v, 0), fetch32_ignoring_select(w, v, 1));
            let byte =
                std::array::from_fn(|i| format.encode_stochastic(f32::from_bits(a[i]), random[i], saturate));
            insert(w, v.dst, &byte, 8, u32::from(v.mods.op_sel >> 2), mask);
        }
        Convert::StochasticHalf { bf16 } => {
            let format = if bf16 { sf::BF16 } else { sf::F16 };
            let (a, random) = (fetch32_ignoring_select(w, v, 0), fetch32_ignoring_select(w, v, 1));
            let half =
                std::array::from_fn(|i| format.encode_stochastic(f32::from_bits(a[i]), random[i], saturate));
            insert(w, v.dst, &half, 16, u32::from(v.mods.op_sel >> 3), mask);
        }
        Convert::Scaled(scaled) if scaled.down => narrow(scaled, v, w, mask)?,
        Convert::Scaled(scaled) => widen(scaled, v, w, mask)?,
    }
    Ok(())
}

/// Source `i` where op_sel selects a part of something else.
fn fetch32_ignoring_select(w: &Wave, v: &Vector, i: usize) -> Lanes {
    let mut plain = v.clone();
    plain.mods.op_sel = 0;
    fetch32(w, &plain, i)
}

/// Writes a field of `width` bits at index `at` of the destination; the other bits stay.
fn insert(w: &mut Wave, dst: u16, value: &Lanes, width: u32, at: u32, mask: u64) {
    let (field, shift) = ((1u32 << width) - 1, width * at);
    let old = w.vgpr[usize::from(dst)];
    let d = std::array::from_fn(|i| old[i] & !(field << shift) | (value[i] & field) << shift);
    w.write_masked(dst, &d, mask);
}

/// The power of two that a scale operand stands for.
fn scale(w: &Wave, v: &Vector, source: usize) -> [f64; LANES] {
    fetch32_ignoring_select(w, v, source).map(|s| 2f64.powi((s >> 23 & 0xff) as i32 - 127))
}

fn register(src: Src) -> Result<u16, Trap> {
    match src {
        Src::Vgpr(n) => Ok(n),
        _ => trap!("a source of several registers must be vector registers"),
    }
}

/// Value `e` of a lane in consecutive registers of `bits`-wide fields, little-endian.
fn field(w: &Wave, first: u16, lane: usize, e: usize, bits: usize) -> u32 {
    let at = e * bits;
    let low = w.vgpr[usize::from(first) + at / 32][lane];
    let high = if at % 32 + bits > 32 { w.vgpr[usize::from(first) + at / 32 + 1][lane] } else { 0 };
    ((u64::from(high) << 32 | u64::from(low)) >> (at % 32) & ((1u64 << bits) - 1)) as u32
}

fn narrow(c: Scaled, v: &Vector, w: &mut Wave, mask: u64) -> Result<(), Trap> {
    let format = c.small.format();
    let bits = format.bits() as usize;
    let saturate = w.mode.saturate();
    // Sources: values (one register, a pair of sources, or many registers), random bits where asked, the scale.
    let two_sources = c.interleaved || (c.count == 2 && c.wide == Wider::F32 && !c.stochastic);
    let scales = scale(w, v, if two_sources || c.stochastic { 2 } else { 1 });
    let random = if c.stochastic { fetch32_ignoring_select(w, v, 1) } else { [0; LANES] };
    let sources = if two_sources && !c.interleaved {
        Some([fetch32_ignoring_select(w, v, 0), fetch32_ignoring_select(w, v, 1)])
    } else if c.count == 1 {
        Some([fetch32_ignoring_select(w, v, 0); 2])
    } else {
        None
    };
    let first = if sources.is_none() {
        [register(v.src[0])?, if c.interleaved { register(v.src[1])? } else { 0 }]
    } else {
        [0; 2]
    };
    let count = usize::from(c.count);
    let words = (count * bits).div_ceil(32);
    let mut out = vec![[0u32; LANES]; words + 1];
    for lane in 0..LANES {
        let mut random = random[lane];
        for e in 0..count {
            let raw = match &sources {
                Some(s) => s[e][lane],
                None if c.interleaved => field(w, first[e % 2], lane, e / 2, 32),
                None => field(w, first[0], lane, e, c.wide.bits()),
            };
            let value = f64::from(c.wide.decode(raw)) / scales[lane];
            let pattern = if c.stochastic {
                let pattern = format.encode_stochastic(value as f32, random, saturate);
                random = prng(random);
                pattern
            } else {
                format.encode(value, saturate)
            };
            let at = e * bits;
            let placed = u64::from(pattern) << (at % 32);
            out[at / 32][lane] |= placed as u32;
            out[at / 32 + 1][lane] |= (placed >> 32) as u32;
        }
    }
    if count == 32 {
        for (i, word) in out[..words].iter().enumerate() {
            w.write_masked(v.dst + i as u16, word, mask);
        }
    } else {
        // A word for pairs of 8 bits, a byte for pairs of 4 bits and for single values.
        let (width, at) = if count * bits == 16 { (16, v.mods.op_sel >> 3) } else { (8, v.mods.op_sel >> 2) };
        insert(w, v.dst, &out[0], width, u32::from(at), mask);
    }
    Ok(())
}

fn widen(c: Scaled, v: &Vector, w: &mut Wave, mask: u64) -> Result<(), Trap> {
    let format = c.small.format();
    let bits = format.bits() as usize;
    let scales = scale(w, v, 1);
    let count = usize::from(c.count);
    let shift = match (count, bits) {
        (32, _) => 0,
        (2, 8) => 16 * u32::from(v.mods.op_sel & 1),
        _ => 8 * u32::from(v.mods.op_sel & 3),
    };
    let small = if count == 32 { None } else { Some(fetch32_ignoring_select(w, v, 0).map(|x| x >> shift)) };
    let first = if count == 32 { register(v.src[0])? } else { 0 };
    let value = |lane: usize, e: usize| {
        let pattern = match &small {
            Some(x) => x[lane] >> (e * bits) & ((1 << bits) - 1),
            None => field(w, first, lane, e, bits),
        };
        c.wide.encode(f64::from(format.decode(pattern)) * scales[lane])
    };
    let per_word = 32 / c.wide.bits();
    let words: Vec<Lanes> = (0..count.div_ceil(per_word))
        .map(|word| {
            std::array::from_fn(|lane| {
                (0..per_word.min(count - word * per_word))
                    .fold(0, |x, part| x | value(lane, word * per_word + part) << (16 * part))
            })
        })
        .collect();
    if count == 1 && per_word == 2 {
        insert(w, v.dst, &words[0], 16, u32::from(v.mods.op_sel >> 3), mask);
    } else {
        for (i, word) in words.iter().enumerate() {
            w.write_masked(v.dst + i as u16, word, mask);
        }
    }
    Ok(())
}
