//! Operand types of VALU instructions, and the macros that turn a row of a table into a function over a wave.

use super::{Lanes, Run, Wide};

/// The type of an operand as the instruction reads it: it decides which modifiers apply, how inline constants and
/// literals are encoded, how many registers it takes and which half `op_sel` picks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum T {
    None,
    B16,
    /// A 16-bit result that leaves the other half of the register as it is.
    Half,
    F16,
    /// F16 result that leaves the other half of the register as it is.
    HalfF16,
    B32,
    F32,
    B64,
    F64,
    /// Two 16-bit integers, two halves, two bfloat16 in a register, chosen by op_sel.
    PkB16,
    PkF16,
    PkBf16,
    /// Two 32-bit floats, each half of a register pair chosen by op_sel.
    PkF32,
    /// A scalar lane mask.
    Mask,
}

impl T {
    pub(crate) const fn is_wide(self) -> bool {
        matches!(self, Self::B64 | Self::F64 | Self::PkF32)
    }

    pub(crate) const fn is_half(self) -> bool {
        matches!(self, Self::B16 | Self::F16 | Self::Half | Self::HalfF16)
    }

    pub(crate) const fn is_packed(self) -> bool {
        matches!(self, Self::PkB16 | Self::PkF16 | Self::PkBf16 | Self::PkF32)
    }

    pub(crate) const fn is_float(self) -> bool {
        matches!(
            self,
            Self::F16 | Self::HalfF16 | Self::F32 | Self::F64 | Self::PkF16 | Self::PkBf16 | Self::PkF32
        )
    }
}

/// Types of the destination and the sources.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Signature {
    pub(crate) dst: T,
    pub(crate) src: [T; 3],
}

impl Signature {
    pub(crate) const fn new(dst: T, src: [T; 3]) -> Self {
        Self { dst, src }
    }

    pub(crate) const fn sources(&self) -> usize {
        let mut n = 0;
        while n < 3 && !matches!(self.src[n], T::None) {
            n += 1;
        }
        n
    }
}

/// A row of a VALU table.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Row {
    pub(crate) opcode: u16,
    pub(crate) name: &'static str,
    pub(crate) ty: Signature,
    pub(crate) run: Run,
}

/// Conversion between a lane's bits and the Rust value a row's expression works with.
pub(crate) trait Lane<Bits> {
    type V: Copy;
    const T: T;
    fn get(bits: Bits) -> Self::V;
    fn put(v: Self::V) -> Bits;
}

macro_rules! lane {
    ($name:ident, $v:ty, $t:ident, |$b:ident| $get:expr, |$x:ident| $put:expr) => {
        pub(crate) struct $name;
        impl Lane<u32> for $name {
            type V = $v;
            const T: T = T::$t;
            #[inline(always)]
            fn get($b: u32) -> $v {
                $get
            }
            #[inline(always)]
            fn put($x: $v) -> u32 {
                $put
            }
        }
        impl Lane<u64> for $name {
            type V = $v;
            const T: T = T::$t;
            #[inline(always)]
            fn get(bits: u64) -> $v {
                let $b = bits as u32;
                $get
            }
            #[inline(always)]
            fn put($x: $v) -> u64 {
                u64::from($put)
            }
        }
    };
}
macro_rules! wide_lane {
    ($name:ident, $v:ty, $t:ident, |$b:ident| $get:expr, |$x:ident| $put:expr) => {
        pub(crate) struct $name;
        impl Lane<u64> for $name {
            type V = $v;
            const T: T = T::$t;
            #[inline(always)]
            fn get($b: u64) -> $v {
                $get
            }
            #[inline(always)]
            fn put($x: $v) -> u64 {
                $put
            }
        }
    };
}

lane!(U32, u32, B32, |b| b, |x| x);
lane!(I32, i32, B32, |b| b as i32, |x| x as u32);
lane!(F32, f32, F32, |b| f32::from_bits(b), |x| x.to_bits());
lane!(U16, u16, B16, |b| b as u16, |x| u32::from(x));
lane!(I16, i16, B16, |b| b as i16, |x| u32::from(x as u16));
lane!(HU16, u16, Half, |b| b as u16, |x| u32::from(x));
lane!(HI16, i16, Half, |b| b as i16, |x| u32::from(x as u16));
// A half is computed with in f32 or f64; rounding the exact or correctly rounded result once more is innocuous there.
lane!(F16, f32, F16, |b| crate::small_float::from_f16(b), |x| crate::small_float::to_f16(x));
lane!(HF16, f32, HalfF16, |b| crate::small_float::from_f16(b), |x| crate::small_float::to_f16(x));
// A result of 16 bits that is given as bits.
lane!(Bits16, u32, B16, |b| b, |x| x);
wide_lane!(U64, u64, B64, |b| b, |x| x);
wide_lane!(I64, i64, B64, |b| b as i64, |x| x as u64);
wide_lane!(F64, f64, F64, |b| f64::from_bits(b), |x| x.to_bits());
wide_lane!(PF32, [f32; 2], PkF32, |b| [f32::from_bits(b as u32), f32::from_bits((b >> 32) as u32)], |x| {
    u64::from(x[0].to_bits()) | u64::from(x[1].to_bits()) << 32
});
lane!(PU16, [u16; 2], PkB16, |b| [b as u16, (b >> 16) as u16], |x| u32::from(x[0]) | u32::from(x[1]) << 16);
lane!(PI16, [i16; 2], PkB16, |b| [b as i16, (b >> 16) as i16], |x| {
    u32::from(x[0] as u16) | u32::from(x[1] as u16) << 16
});
lane!(PF16, [f32; 2], PkF16, |b| halves(b), |x| pack(crate::small_float::to_f16, x));
lane!(PBF16, [f32; 2], PkBf16, |b| [f32::from_bits(b << 16), f32::from_bits(b & 0xffff_0000)], |x| pack(
    crate::small_float::to_bf16,
    x
));

#[inline(always)]
fn halves(bits: u32) -> [f32; 2] {
    [crate::small_float::from_f16(bits & 0xffff), crate::small_float::from_f16(bits >> 16)]
}

#[inline(always)]
fn pack(encode: fn(f32) -> u32, x: [f32; 2]) -> u32 {
    encode(x[0]) | encode(x[1]) << 16
}

/// Lane-wise application, which the compiler turns into vector code.
#[inline(always)]
pub(crate) fn lanes1(a: &Lanes, d: &mut Lanes, f: impl Fn(u32) -> u32) {
    for (d, &a) in d.iter_mut().zip(a) {
        *d = f(a);
    }
}
#[inline(always)]
pub(crate) fn lanes2(a: &Lanes, b: &Lanes, d: &mut Lanes, f: impl Fn(u32, u32) -> u32) {
    for ((d, &a), &b) in d.iter_mut().zip(a).zip(b) {
        *d = f(a, b);
    }
}
#[inline(always)]
pub(crate) fn lanes3(a: &Lanes, b: &Lanes, c: &Lanes, d: &mut Lanes, f: impl Fn(u32, u32, u32) -> u32) {
    for (((d, &a), &b), &c) in d.iter_mut().zip(a).zip(b).zip(c) {
        *d = f(a, b, c);
    }
}
#[inline(always)]
pub(crate) fn wide1(a: &Wide, d: &mut Wide, f: impl Fn(u64) -> u64) {
    for (d, &a) in d.iter_mut().zip(a) {
        *d = f(a);
    }
}
#[inline(always)]
pub(crate) fn wide2(a: &Wide, b: &Wide, d: &mut Wide, f: impl Fn(u64, u64) -> u64) {
    for ((d, &a), &b) in d.iter_mut().zip(a).zip(b) {
        *d = f(a, b);
    }
}
#[inline(always)]
pub(crate) fn wide3(a: &Wide, b: &Wide, c: &Wide, d: &mut Wide, f: impl Fn(u64, u64, u64) -> u64) {
    for (((d, &a), &b), &c) in d.iter_mut().zip(a).zip(b).zip(c) {
        *d = f(a, b, c);
    }
}
#[inline(always)]
pub(crate) fn mask2<X: Copy>(a: &[X; 64], b: &[X; 64], f: impl Fn(X, X) -> bool) -> u64 {
    let mut mask = 0;
    for i in 0..64 {
        mask |= u64::from(f(a[i], b[i])) << i;
    }
    mask
}

/// `row!(opcode, "name", D <- (a: A, b: B) expression)`: a row over 32-bit operands.
macro_rules! row {
    ($op:expr, $name:expr, $d:ident <- ($a:ident: $ta:ident) $e:expr) => {
        Row {
            opcode: $op,
            name: $name,
            ty: Signature::new(<$d as Lane<u32>>::T, [<$ta as Lane<u32>>::T, T::None, T::None]),
            run: Run::A1(|a, d| {
                lanes1(a, d, |x| {
                    let $a = <$ta as Lane<u32>>::get(x);
                    <$d as Lane<u32>>::put($e)
                })
            }),
        }
    };
    ($op:expr, $name:expr, $d:ident <- ($a:ident: $ta:ident, $b:ident: $tb:ident) $e:expr) => {
        Row {
            opcode: $op,
            name: $name,
            ty: Signature::new(<$d as Lane<u32>>::T, [<$ta as Lane<u32>>::T, <$tb as Lane<u32>>::T, T::None]),
            run: Run::A2(|a, b, d| {
                lanes2(a, b, d, |x, y| {
                    let ($a, $b) = (<$ta as Lane<u32>>::get(x), <$tb as Lane<u32>>::get(y));
                    <$d as Lane<u32>>::put($e)
                })
            }),
        }
    };
    ($op:expr, $name:expr, $d:ident <- ($a:ident: $ta:ident, $b:ident: $tb:ident, $c:ident: $tc:ident) $e:expr) => {
        Row {
            opcode: $op,
            name: $name,
            ty: Signature::new(
                <$d as Lane<u32>>::T,
                [<$ta as Lane<u32>>::T, <$tb as Lane<u32>>::T, <$tc as Lane<u32>>::T],
            ),
            run: Run::A3(|a, b, c, d| {
                lanes3(a, b, c, d, |x, y, z| {
                    let ($a, $b, $c) =
                        (<$ta as Lane<u32>>::get(x), <$tb as Lane<u32>>::get(y), <$tc as Lane<u32>>::get(z));
                    <$d as Lane<u32>>::put($e)
                })
            }),
        }
    };
}

/// As `row!`, where an operand has 64 bits.
macro_rules! wide {
    ($op:expr, $name:expr, $d:ident <- ($a:ident: $ta:ident) $e:expr) => {
        Row {
            opcode: $op,
            name: $name,
            ty: Signature::new(<$d as Lane<u64>>::T, [<$ta as Lane<u64>>::T, T::None, T::None]),
            run: Run::W1(|a, d| {
                wide1(a, d, |x| {
                    let $a = <$ta as Lane<u64>>::get(x);
                    <$d as Lane<u64>>::put($e)
                })
            }),
        }
    };
    ($op:expr, $name:expr, $d:ident <- ($a:ident: $ta:ident, $b:ident: $tb:ident) $e:expr) => {
        Row {
            opcode: $op,
            name: $name,
            ty: Signature::new(<$d as Lane<u64>>::T, [<$ta as Lane<u64>>::T, <$tb as Lane<u64>>::T, T::None]),
            run: Run::W2(|a, b, d| {
                wide2(a, b, d, |x, y| {
                    let ($a, $b) = (<$ta as Lane<u64>>::get(x), <$tb as Lane<u64>>::get(y));
                    <$d as Lane<u64>>::put($e)
                })
            }),
        }
    };
    ($op:expr, $name:expr, $d:ident <- ($a:ident: $ta:ident, $b:ident: $tb:ident, $c:ident: $tc:ident) $e:expr) => {
        Row {
            opcode: $op,
            name: $name,
            ty: Signature::new(
                <$d as Lane<u64>>::T,
                [<$ta as Lane<u64>>::T, <$tb as Lane<u64>>::T, <$tc as Lane<u64>>::T],
            ),
            run: Run::W3(|a, b, c, d| {
                wide3(a, b, c, d, |x, y, z| {
                    let ($a, $b, $c) =
                        (<$ta as Lane<u64>>::get(x), <$tb as Lane<u64>>::get(y), <$tc as Lane<u64>>::get(z));
                    <$d as Lane<u64>>::put($e)
                })
            }),
        }
    };
}

/// A row that is carried out by [`super::Special`].
macro_rules! special {
    ($op:expr, $name:expr, $d:ident <- ($($t:ident),*) $e:expr) => {
        Row {
            opcode: $op,
            name: $name,
            ty: Signature::new(T::$d, special!(@src $($t),*)),
            run: Run::Special($e),
        }
    };
    (@src) => { [T::None, T::None, T::None] };
    (@src $a:ident) => { [T::$a, T::None, T::None] };
    (@src $a:ident, $b:ident) => { [T::$a, T::$b, T::None] };
    (@src $a:ident, $b:ident, $c:ident) => { [T::$a, T::$b, T::$c] };
}
pub(crate) use {row, special, wide};
