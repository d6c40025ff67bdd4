//! What identifies a group of rows: everything about a problem but M, and the weight's layout.
//!
//! [`Key::encode`] is the one encoder: the table compiler hashes what it gives, and so does the lookup. Its numbers
//! are written down in generated modules, so a value keeps its code for ever and a new value takes a new code; the
//! order of the enums does not matter.

use tilewright_kernels::{Epilogue, Format, Layout, OutType, Problem, Scaling};

/// A problem without its M, and the layout its weight is stored in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key {
    /// Output features.
    pub n: u32,
    /// Input features.
    pub k: u32,
    /// The format the activation is multiplied in.
    pub a: Format,
    /// The weight's format.
    pub b: Format,
    /// Granularity of the weight's scales.
    pub scaling: Scaling,
    /// The weight's layout.
    pub layout: Layout,
    /// Element type of the output.
    pub out: OutType,
    /// What happens before the output is stored.
    pub epilogue: Epilogue,
}

impl Key {
    /// The key of a problem over a weight in `layout`.
    pub const fn of(problem: &Problem, layout: Layout) -> Self {
        let Problem { m: _, n, k, a, b, scaling, out, epilogue } = *problem;
        Key { n, k, a, b, scaling, layout, out, epilogue }
    }

    /// The problem this key and an M make.
    pub const fn problem(&self, m: u32) -> Problem {
        let Key { n, k, a, b, scaling, layout: _, out, epilogue } = *self;
        Problem { m, n, k, a, b, scaling, out, epilogue }
    }

    /// The key as two words: different keys have different codes.
    pub const fn encode(&self) -> Code {
        Code {
            // In the order in which a problem has them in memory: what stands together is read at once.
            shape: self.n as u64 | (self.k as u64) << 32,
            traits: format_code(self.a)
                | format_code(self.b) << 8
                | scaling_code(self.scaling) << 16
                | out_code(self.out) << 24
                | epilogue_code(self.epilogue) << 32
                | layout_code(self.layout) << 40,
        }
    }
}

/// An encoded [`Key`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Code {
    /// K in the upper half, N in the lower.
    pub shape: u64,
    /// One byte each, lowest first: activation format, weight format, scaling, output type, epilogue, layout.
    pub traits: u64,
}

impl Code {
    /// The key, if every byte is a known code.
    pub fn decode(self) -> Option<Key> {
        let byte = |index: u32| (self.traits >> (8 * index)) & 0xff;
        if self.traits >> 48 != 0 {
            return None;
        }
        Some(Key {
            n: self.shape as u32,
            k: (self.shape >> 32) as u32,
            a: format_of(byte(0))?,
            b: format_of(byte(1))?,
            scaling: scaling_of(byte(2))?,
            layout: layout_of(byte(5))?,
            out: out_of(byte(3))?,
            epilogue: epilogue_of(byte(4))?,
        })
    }
}

/// The stable codes of an enum, in both directions.
macro_rules! codes {
    ($encode:ident, $decode:ident, $ty:ident { $($variant:ident = $code:literal),+ $(,)? }) => {
        const fn $encode(value: $ty) -> u64 {
            match value { $($ty::$variant => $code),+ }
        }
        fn $decode(code: u64) -> Option<$ty> {
            match code { $($code => Some($ty::$variant),)+ _ => None }
        }
    };
}

codes!(format_code, format_of, Format {
    Bf16 = 0,
    Fp8E4m3 = 1,
    Fp8E4m3Fnuz = 2,
    Fp8E5m2 = 3,
    MxFp8 = 4,
    MxFp6E2m3 = 5,
    MxFp6E3m2 = 6,
    MxFp4 = 7,
    MxInt8 = 8,
});
codes!(scaling_code, scaling_of, Scaling { None = 0, Tensor = 1, Channel = 2, Block32 = 3 });
codes!(layout_code, layout_of, Layout {
    RowMajor = 0,
    Panel16 = 1,
    Panel16x2 = 2,
    Panel16x4 = 3,
    Mma64 = 4,
    Mfma16 = 5,
    C0c1 = 6,
});
codes!(out_code, out_of, OutType { F32 = 0, Bf16 = 1 });
codes!(epilogue_code, epilogue_of, Epilogue { None = 0, Bias = 1 });

#[cfg(test)]
mod tests {
    use alloc::collections::BTreeSet;

    use super::*;

    fn every_trait_combination(mut visit: impl FnMut(Key)) {
        for &a in Format::ALL {
            for &b in Format::ALL {
                for &scaling in Scaling::ALL {
                    for &layout in Layout::ALL {
                        for &out in OutType::ALL {
                            for &epilogue in Epilogue::ALL {
                                visit(Key { n: 960, k: 576, a, b, scaling, layout, out, epilogue });
                            }
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn every_key_decodes_to_itself_and_has_its_own_code() {
        let mut codes = BTreeSet::new();
        let mut keys = 0;
        every_trait_combination(|key| {
            assert_eq!(key.encode().decode(), Some(key));
            codes.insert(key.encode());
            keys += 1;
        });
        assert_eq!(codes.len(), keys);
    }

    #[test]
    fn unknown_codes_decode_to_nothing() {
        assert_eq!(Code { shape: 1, traits: 0xff }.decode(), None);
        assert_eq!(Code { shape: 1, traits: 1 << 48 }.decode(), None);
    }

    #[test]
    fn n_and_k_do_not_commute() {
        let problem = Problem::new(1, 576, 960, Format::Bf16);
        let turned = Problem::new(1, 960, 576, Format::Bf16);
        assert_ne!(Key::of(&problem, Layout::Panel16).encode(), Key::of(&turned, Layout::Panel16).encode());
    }

    #[test]
    fn codes_in_generated_modules_keep_their_meaning() {
        // A changed number here means that every committed table has to be compiled again under a new schema.
        let key = Key {
            n: 3,
            k: 64,
            a: Format::Bf16,
            b: Format::MxFp6E2m3,
            scaling: Scaling::Block32,
            layout: Layout::Panel16x4,
            out: OutType::Bf16,
            epilogue: Epilogue::Bias,
        };
        assert_eq!(key.encode(), Code { shape: 0x40_0000_0003, traits: 0x0301_0103_0500 });
    }
}
