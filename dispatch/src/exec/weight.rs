//! A loaded weight: quantised, laid out, and the key its kernels are found by.

use core::fmt;

use tilewright_kernels::Reject;
use tilewright_kernels::cpu::PackedWeight;
use tilewright_kernels::format::quantize::{QuantizeError, QuantizeOptions, Quantized};

use crate::key::Key;

/// A weight ready to be multiplied with.
pub struct Weight {
    packed: PackedWeight,
    key: Key,
    deterministic: bool,
}

impl Weight {
    /// Quantises and packs row-major N × K values by a key's format, scaling and layout.
    ///
    /// # Errors
    /// If the values do not fit the key.
    pub(super) fn new(key: Key, deterministic: bool, values: &[f32]) -> Result<Self, LoadError> {
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
        Ok(Weight { packed, key, deterministic })
    }

    /// What its kernels are found by.
    pub fn key(&self) -> &Key {
        &self.key
    }

    /// Whether only kernels that give the same bits on every run may run it.
    pub fn deterministic(&self) -> bool {
        self.deterministic
    }

    /// The weight as kernels read it.
    pub fn packed(&self) -> &PackedWeight {
        &self.packed
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
