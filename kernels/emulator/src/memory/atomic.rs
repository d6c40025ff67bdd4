//! What read-modify-write operations compute.

use crate::exec::float;
use crate::isa::memory_table::Atomic;
use crate::small_float::{from_f16, to_bf16, to_f16};

/// The new 32-bit value; `compare` matters to compare-and-swap alone.
pub(crate) fn apply32(op: Atomic, old: u32, data: u32, compare: u32) -> u32 {
    let float = f32::from_bits;
    match op {
        Atomic::Swap => data,
        Atomic::CompareSwap => {
            if old == compare {
                data
            } else {
                old
            }
        }
        Atomic::Add => old.wrapping_add(data),
        Atomic::Sub => old.wrapping_sub(data),
        Atomic::ReverseSub => data.wrapping_sub(old),
        Atomic::MinSigned => (old as i32).min(data as i32) as u32,
        Atomic::MinUnsigned => old.min(data),
        Atomic::MaxSigned => (old as i32).max(data as i32) as u32,
        Atomic::MaxUnsigned => old.max(data),
        Atomic::And => old & data,
        Atomic::Or => old | data,
        Atomic::Xor => old ^ data,
        Atomic::Inc => {
            if old >= data {
                0
            } else {
                old + 1
            }
        }
        Atomic::Dec => {
            if old == 0 || old > data {
                data
            } else {
                old - 1
            }
        }
        Atomic::AddF32 => (float(old) + float(data)).to_bits(),
        Atomic::MinF32 => float::min32(float(old), float(data)).to_bits(),
        Atomic::MaxF32 => float::max32(float(old), float(data)).to_bits(),
        Atomic::AddPkF16 => {
            let add = |shift: u32| to_f16(from_f16(old >> shift & 0xffff) + from_f16(data >> shift & 0xffff));
            add(0) | add(16) << 16
        }
        Atomic::AddPkBf16 => {
            let low = to_bf16(float(old << 16) + float(data << 16));
            low | to_bf16(float(old & 0xffff_0000) + float(data & 0xffff_0000)) << 16
        }
        Atomic::AddF64 | Atomic::MinF64 | Atomic::MaxF64 => {
            unreachable!("the tables give f64 atomics 64 bits")
        }
    }
}

/// The new 64-bit value.
pub(crate) fn apply64(op: Atomic, old: u64, data: u64, compare: u64) -> u64 {
    let float = f64::from_bits;
    match op {
        Atomic::Swap => data,
        Atomic::CompareSwap => {
            if old == compare {
                data
            } else {
                old
            }
        }
        Atomic::Add => old.wrapping_add(data),
        Atomic::Sub => old.wrapping_sub(data),
        Atomic::ReverseSub => data.wrapping_sub(old),
        Atomic::MinSigned => (old as i64).min(data as i64) as u64,
        Atomic::MinUnsigned => old.min(data),
        Atomic::MaxSigned => (old as i64).max(data as i64) as u64,
        Atomic::MaxUnsigned => old.max(data),
        Atomic::And => old & data,
        Atomic::Or => old | data,
        Atomic::Xor => old ^ data,
        Atomic::Inc => {
            if old >= data {
                0
            } else {
                old + 1
            }
        }
        Atomic::Dec => {
            if old == 0 || old > data {
                data
            } else {
                old - 1
            }
        }
        Atomic::AddF64 => (float(old) + float(data)).to_bits(),
        Atomic::MinF64 => float::min64(float(old), float(data)).to_bits(),
        Atomic::MaxF64 => float::max64(float(old), float(data)).to_bits(),
        Atomic::AddF32 | Atomic::MinF32 | Atomic::MaxF32 | Atomic::AddPkF16 | Atomic::AddPkBf16 => {
            unreachable!("the tables give these atomics 32 bits")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_wrap_at_their_limit() {
        assert_eq!(apply32(Atomic::Inc, 4, 4, 0), 0);
        assert_eq!(apply32(Atomic::Inc, 3, 4, 0), 4);
        assert_eq!(apply32(Atomic::Dec, 0, 7, 0), 7);
        assert_eq!(apply32(Atomic::Dec, 9, 7, 0), 7);
        assert_eq!(apply32(Atomic::Dec, 3, 7, 0), 2);
        assert_eq!(apply32(Atomic::CompareSwap, 3, 7, 3), 7);
        assert_eq!(apply32(Atomic::CompareSwap, 4, 7, 3), 4);
        assert_eq!(apply32(Atomic::MinSigned, u32::MAX, 1, 0), u32::MAX);
    }

    #[test]
    fn packed_sums_round_each_half_by_itself() {
        let f16 = |a: f32, b: f32| to_f16(a) | to_f16(b) << 16;
        assert_eq!(apply32(Atomic::AddPkF16, f16(1.5, -2.0), f16(0.25, 3.0), 0), f16(1.75, 1.0));
        let bf16 = |a: f32, b: f32| to_bf16(a) | to_bf16(b) << 16;
        assert_eq!(apply32(Atomic::AddPkBf16, bf16(256.0, 1.0), bf16(1.0, 2.0), 0), bf16(256.0, 3.0));
    }
}
