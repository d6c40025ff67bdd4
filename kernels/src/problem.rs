//! One GEMM and everything about it that decides which kernels may run it.

use core::fmt;

use crate::format::Format;

/// `D[M,N] = epilogue(A[M,K] · B[N,K]ᵀ)`. B is the weight; K is contiguous in both operands.
///
/// `Display` prints the canonical text, for instance
/// `m=8 n=960 k=576 a=bf16 b=mxfp6_e2m3 scaling=block32 out=f32 epilogue=none`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Problem {
    /// Rows of A and D: tokens in the batch.
    pub m: u32,
    /// Rows of B, columns of D: output features.
    pub n: u32,
    /// The contracted dimension: input features.
    pub k: u32,
    /// The format A is multiplied in. `bf16` takes the activation as it is; any other format means that the
    /// activation is quantised first, and that this time belongs to the kernel's.
    pub a: Format,
    /// The weight's format.
    pub b: Format,
    /// Granularity of the weight's scales.
    pub scaling: Scaling,
    /// Element type of D.
    pub out: OutType,
    /// What happens to the accumulator before it is stored.
    pub epilogue: Epilogue,
}

impl Problem {
    /// A problem with bf16 activations, the format's usual scale granularity, f32 output and no epilogue.
    pub const fn new(m: u32, n: u32, k: u32, b: Format) -> Self {
        Problem {
            m,
            n,
            k,
            a: Format::Bf16,
            b,
            scaling: Scaling::usual(b),
            out: OutType::F32,
            epilogue: Epilogue::None,
        }
    }

    /// The same problem with another number of rows.
    pub const fn with_m(self, m: u32) -> Self {
        Problem { m, ..self }
    }

    /// Why no kernel at all can run this problem, whatever the device: a zero dimension, a K that a format's blocks do
    /// not divide, or scales that do not fit the format.
    pub fn fault(&self) -> Option<&'static str> {
        if self.m == 0 || self.n == 0 || self.k == 0 {
            return Some("M, N and K must be at least 1");
        }
        if !self.a.allows_k(self.k) || !self.b.allows_k(self.k) {
            return Some("K must be a multiple of 32 for an MX format");
        }
        if !self.scaling.fits(self.b) {
            return Some("the scale granularity does not fit the weight's format");
        }
        None
    }

    /// Multiply-adds counted as two operations.
    pub const fn flops(&self) -> u64 {
        2 * self.m as u64 * self.n as u64 * self.k as u64
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Problem { m, n, k, a, b, scaling, out, epilogue } = self;
        write!(f, "m={m} n={n} k={k} a={a} b={b} scaling={scaling} out={out} epilogue={epilogue}")
    }
}

/// An enum whose variants are written as fixed lower-case names in files and in canonical text.
macro_rules! named_enum {
    ($(#[$meta:meta])* $ty:ident { $($(#[$vmeta:meta])* $variant:ident = $name:literal),+ $(,)? }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum $ty { $($(#[$vmeta])* $variant),+ }

        impl $ty {
            /// Every value, in canonical order.
            pub const ALL: &'static [$ty] = &[$($ty::$variant),+];

            /// The name used in files and canonical text.
            pub const fn name(self) -> &'static str {
                match self { $($ty::$variant => $name),+ }
            }

            /// The value of that name.
            pub fn from_name(name: &str) -> Option<Self> {
                match name { $($name => Some($ty::$variant),)+ _ => None }
            }
        }

        impl core::fmt::Display for $ty {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                f.pad(self.name())
            }
        }
    };
}
pub(crate) use named_enum;

named_enum! {
    /// Granularity of a weight's scales.
    Scaling {
        /// No scales: bf16.
        None = "none",
        /// One f32 scale for the whole weight.
        Tensor = "tensor",
        /// One f32 scale per output channel (row of B). A quantised activation then has one per token.
        Channel = "channel",
        /// One E8M0 scale per 32 elements along K: the MX formats.
        Block32 = "block32",
    }
}

impl Scaling {
    /// The granularity a format is used with unless a declaration says otherwise.
    pub const fn usual(format: Format) -> Self {
        match format {
            Format::Bf16 => Scaling::None,
            Format::Fp8E4m3 | Format::Fp8E4m3Fnuz | Format::Fp8E5m2 => Scaling::Channel,
            _ => Scaling::Block32,
        }
    }

    /// Whether weights of that format can carry scales of this granularity.
    pub fn fits(self, format: Format) -> bool {
        match self {
            Scaling::None => format == Format::Bf16,
            Scaling::Tensor | Scaling::Channel => !format.is_mx() && format != Format::Bf16,
            Scaling::Block32 => format.is_mx(),
        }
    }
}

named_enum! {
    /// Element type of D.
    OutType {
        /// IEEE binary32, as accumulated.
        F32 = "f32",
        /// bfloat16, rounded to nearest even from the f32 accumulator.
        Bf16 = "bf16",
    }
}

named_enum! {
    /// What happens to the accumulator before it is stored.
    Epilogue {
        /// Nothing.
        None = "none",
        /// Adds one f32 per output channel.
        Bias = "bias",
    }
}
