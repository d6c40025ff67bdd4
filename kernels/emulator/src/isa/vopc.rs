//! VOPC: comparisons to a lane mask, in VCC or an SGPR pair; `v_cmpx` writes EXEC as well.

#![allow(
    clippy::neg_cmp_op_on_partial_ord,
    clippy::double_comparisons,
    reason = "with NaN, `nlt` is not `ge` and `lg` is not `!=`; that is what these instructions are for"
)]

use super::Run;
use super::types::*;
use crate::exec::float;

macro_rules! compare {
    ($base:expr, $cmp:tt, $ty:tt, $t:ident, u32) => {
        Row {
            opcode: $base,
            name: concat!("v_cmp_", $cmp, "_", $ty),
            ty: Signature::new(T::Mask, [<$t as Lane<u32>>::T, <$t as Lane<u32>>::T, T::None]),
            run: Run::C2(|a, b| {
                mask2(a, b, |x, y| {
                    let (x, y) = (<$t as Lane<u32>>::get(x), <$t as Lane<u32>>::get(y));
                    compare!(@ $cmp, x, y)
                })
            }),
        }
    };
    ($base:expr, $cmp:tt, $ty:tt, $t:ident, u64) => {
        Row {
            opcode: $base,
            name: concat!("v_cmp_", $cmp, "_", $ty),
            ty: Signature::new(T::Mask, [<$t as Lane<u64>>::T, <$t as Lane<u64>>::T, T::None]),
            run: Run::CW2(|a, b| {
                mask2(a, b, |x, y| {
                    let (x, y) = (<$t as Lane<u64>>::get(x), <$t as Lane<u64>>::get(y));
                    compare!(@ $cmp, x, y)
                })
            }),
        }
    };
    (@ "f", $x:ident, $y:ident) => {{ let _ = ($x, $y); false }};
    (@ "t", $x:ident, $y:ident) => {{ let _ = ($x, $y); true }};
    (@ "tru", $x:ident, $y:ident) => {{ let _ = ($x, $y); true }};
    (@ "lt", $x:ident, $y:ident) => { $x < $y };
    (@ "eq", $x:ident, $y:ident) => { $x == $y };
    (@ "le", $x:ident, $y:ident) => { $x <= $y };
    (@ "gt", $x:ident, $y:ident) => { $x > $y };
    (@ "ne", $x:ident, $y:ident) => { $x != $y };
    (@ "ge", $x:ident, $y:ident) => { $x >= $y };
    (@ "lg", $x:ident, $y:ident) => { $x < $y || $x > $y };
    (@ "o", $x:ident, $y:ident) => { !($x.is_nan() || $y.is_nan()) };
    (@ "u", $x:ident, $y:ident) => { $x.is_nan() || $y.is_nan() };
    (@ "nge", $x:ident, $y:ident) => { !compare!(@ "ge", $x, $y) };
    (@ "nlg", $x:ident, $y:ident) => { !($x < $y || $x > $y) };
    (@ "ngt", $x:ident, $y:ident) => { !compare!(@ "gt", $x, $y) };
    (@ "nle", $x:ident, $y:ident) => { !compare!(@ "le", $x, $y) };
    (@ "neq", $x:ident, $y:ident) => { !compare!(@ "eq", $x, $y) };
    (@ "nlt", $x:ident, $y:ident) => { !compare!(@ "lt", $x, $y) };
}

macro_rules! floats {
    ($base:expr, $ty:tt, $t:ident, $bits:ident) => {
        [
            compare!($base, "f", $ty, $t, $bits),
            compare!($base + 1, "lt", $ty, $t, $bits),
            compare!($base + 2, "eq", $ty, $t, $bits),
            compare!($base + 3, "le", $ty, $t, $bits),
            compare!($base + 4, "gt", $ty, $t, $bits),
            compare!($base + 5, "lg", $ty, $t, $bits),
            compare!($base + 6, "ge", $ty, $t, $bits),
            compare!($base + 7, "o", $ty, $t, $bits),
            compare!($base + 8, "u", $ty, $t, $bits),
            compare!($base + 9, "nge", $ty, $t, $bits),
            compare!($base + 10, "nlg", $ty, $t, $bits),
            compare!($base + 11, "ngt", $ty, $t, $bits),
            compare!($base + 12, "nle", $ty, $t, $bits),
            compare!($base + 13, "neq", $ty, $t, $bits),
            compare!($base + 14, "nlt", $ty, $t, $bits),
            compare!($base + 15, "tru", $ty, $t, $bits),
        ]
    };
}

macro_rules! integers {
    ($base:expr, $ty:tt, $t:ident, $bits:ident) => {
        [
            compare!($base, "f", $ty, $t, $bits),
            compare!($base + 1, "lt", $ty, $t, $bits),
            compare!($base + 2, "eq", $ty, $t, $bits),
            compare!($base + 3, "le", $ty, $t, $bits),
            compare!($base + 4, "gt", $ty, $t, $bits),
            compare!($base + 5, "ne", $ty, $t, $bits),
            compare!($base + 6, "ge", $ty, $t, $bits),
            compare!($base + 7, "t", $ty, $t, $bits),
        ]
    };
}

const FLOATS: [[Row; 16]; 3] =
    [floats!(0x20, "f16", F16, u32), floats!(0x40, "f32", F32, u32), floats!(0x60, "f64", F64, u64)];
const INTEGERS: [[Row; 8]; 6] = [
    integers!(0xa0, "i16", I16, u32),
    integers!(0xa8, "u16", U16, u32),
    integers!(0xc0, "i32", I32, u32),
    integers!(0xc8, "u32", U32, u32),
    integers!(0xe0, "i64", I64, u64),
    integers!(0xe8, "u64", U64, u64),
];
const CLASSES: [Row; 3] = [
    Row {
        opcode: 0x10,
        name: "v_cmp_class_f32",
        ty: Signature::new(T::Mask, [T::F32, T::B32, T::None]),
        run: Run::C2(|a, b| mask2(a, b, float::class32)),
    },
    Row {
        opcode: 0x12,
        name: "v_cmp_class_f64",
        ty: Signature::new(T::Mask, [T::F64, T::B32, T::None]),
        run: Run::CW2(|a, b| {
            mask2(a, b, |x, mask| {
                let v = f64::from_bits(x);
                float::class(v, v.is_subnormal(), v.is_nan() && x & 1 << 51 == 0, mask as u32)
            })
        }),
    },
    Row {
        opcode: 0x14,
        name: "v_cmp_class_f16",
        ty: Signature::new(T::Mask, [T::F16, T::B32, T::None]),
        run: Run::C2(|a, b| {
            mask2(a, b, |x, mask| {
                let v = f64::from(crate::small_float::from_f16(x));
                let subnormal = x & 0x7c00 == 0 && x & 0x3ff != 0;
                float::class(v, subnormal, v.is_nan() && x & 1 << 9 == 0, mask)
            })
        }),
    },
];

/// The comparison of an opcode, and whether it is the form that writes EXEC.
pub(crate) fn find(opcode: u16) -> Option<(Row, bool)> {
    let find = |x: u16| {
        FLOATS
            .as_flattened()
            .iter()
            .chain(INTEGERS.as_flattened())
            .chain(&CLASSES)
            .find(|row| row.opcode == x)
            .copied()
    };
    if let Some(row) = find(opcode) {
        return Some((row, false));
    }
    let plain = if opcode < 0x20 { opcode - 1 } else { opcode.checked_sub(0x10)? };
    let row = find(plain)?;
    let run = match row.run {
        Run::C2(f) => Run::X2(f),
        Run::CW2(f) => Run::XW2(f),
        other => other,
    };
    Some((Row { opcode, run, ..row }, true))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn opcodes_map_to_the_documented_comparisons() {
        let name = |op| find(op).map(|(row, x)| (row.name, x));
        assert_eq!(name(0x41), Some(("v_cmp_lt_f32", false)));
        assert_eq!(name(0x5d), Some(("v_cmp_neq_f32", true)));
        assert_eq!(name(0xc5), Some(("v_cmp_ne_i32", false)));
        assert_eq!(name(0xdc), Some(("v_cmp_gt_u32", true)));
        assert_eq!(name(0xe9), Some(("v_cmp_lt_u64", false)));
        assert_eq!(name(0x11), Some(("v_cmp_class_f32", true)));
        assert_eq!(name(0x80), None);
    }

    #[test]
    fn comparisons_with_nan_are_unordered() {
        let (nan, one) = ([f32::NAN.to_bits(); 64], [1f32.to_bits(); 64]);
        let run = |op| match find(op).expect("a comparison").0.run {
            Run::C2(f) => f(&nan, &one),
            _ => unreachable!("f32 comparisons are 32 bits wide"),
        };
        let truth: Vec<bool> = (0x40..0x50).map(|op| run(op) == u64::MAX).collect();
        let want = [8, 9, 10, 11, 12, 13, 14, 15].map(|i| i as usize);
        assert!(truth.iter().enumerate().all(|(i, &t)| t == want.contains(&i)));
    }
}
