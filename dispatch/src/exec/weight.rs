//! A loaded weight: quantised, laid out, and the key its kernels are found by.

use core::fmt;

use tilewright_kernels::Reject;
use tilewright_kernels::cpu::PackedWeight;
use tilewright_kernels::format::quantize::{QuantizeError, QuantizeOptions, Quantized};

use crate::key::Key;

/// A weight ready to be multiplied with.
pub struct Weight {
    first: Stored,
    /// Another copy, with the first M that it serves.
    second: Option<(u32, Stored)>,
    deterministic: bool,
}

/// One copy of a weight.
struct Stored {
    packed: PackedWeight,
    key: Key,
}

impl Weight {
    /// Quantises and packs row-major N × K values by a key's format, scaling and layout.
    ///
    /// # Errors
    /// If the values do not fit the key.
    pub(super) fn new(key: Key, deterministic: bool, values: &[f32]) -> Result<Self, LoadError> {
        Ok(Weight { first: Stored::new(key, values)?, second: None, deterministic })
    }

    /// The weight with another copy of the same values, which serves `from` rows and more.
    ///
    /// # Errors
    /// If the values do not fit the key.
    pub(super) fn with_second(self, from: u32, key: Key, values: &[f32]) -> Result<Self, LoadError> {
        Ok(Weight { second: Some((from, Stored::new(key, values)?)), ..self })
    }

    fn at(&self, m: u32) -> &Stored {
        match &self.second {
            Some((from, stored)) if m >= *from => stored,
            _ => &self.first,
        }
    }

    /// What its kernels are found by; of the first copy, if there are two.
    pub fn key(&self) -> &Key {
        &self.first.key
    }

    /// What the kernels for `m` rows are found by.
    pub fn key_at(&self, m: u32) -> &Key {
        &self.at(m).key
    }

    /// The first M of the second copy, if there is one.
    pub fn second_from(&self) -> Option<u32> {
        self.second.as_ref().map(|(from, _)| *from)
    }

    /// Whether only kernels that give the same bits on every run may run it.
    pub fn deterministic(&self) -> bool {
        self.deterministic
    }

    /// The weight as kernels read it; the first copy, if there are two. N and K are those of both.
    pub fn packed(&self) -> &PackedWeight {
        &self.first.packed
    }

    /// The copy that kernels for `m` rows read.
    pub fn packed_at(&self, m: u32) -> &PackedWeight {
        &self.at(m).packed
    }

    /// Bytes of the packed images, all copies together.
    pub fn bytes(&self) -> usize {
        let second = self.second.as_ref().map_or(0, |(_, stored)| stored.packed.bytes().len());
        self.first.packed.bytes().len() + second
    }
}

impl Stored {
    fn new(key: Key, values: &[f32]) -> Result<Self, LoadError> {
        if let Some(fault) = key.problem(1).fault() {
            return Err(LoadError::Illegal(fault));
        }
        let (n, k) = (key.n as usize, key.k as usize);
        if n.checked_mul(k) != Some(values.len()) {
            return Err(LoadError::Length { found: values.len(), n, k });
        }
        let quantized = Quantized::quantize(values, n, k, key.b, key.scaling, &QuantizeOptions::default())
            .map_err(LoadError::Quantize)?;
        let packed = PackedWeight::pack(&quantized, key.layout).map_err(LoadError::Pack)?;
        Ok(Stored { packed, key })
    }
}

/// Why a weight was not loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LoadError {
    /// The table has no weight of that name.
    UnknownWeight,
    /// No GEMM over such a weight is legal.
    Illegal(&'static str),
    /// The values are not N × K.
    Length {
        /// How many there are.
        found: usize,
        /// Rows.
        n: usize,
        /// Elements of a row.
        k: usize,
    },
    /// The values cannot be quantised.
    Quantize(QuantizeError),
    /// The weight cannot be laid out.
    Pack(Reject),
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LoadError::UnknownWeight => f.write_str("the table has no weight of that name"),
            LoadError::Illegal(fault) => f.write_str(fault),
            LoadError::Length { found, n, k } => write!(f, "{found} values are not {n} x {k}"),
            LoadError::Quantize(error) => write!(f, "{error}"),
            LoadError::Pack(reject) => write!(f, "the weight cannot be laid out: {reject}"),
        }
    }
}

impl core::error::Error for LoadError {}
