//! Checking a table against a device: are its kernels right ([`verify`]), are they as fast as it says ([`measure`]), and what
//! does it lose at other Ms ([`hold_out`])?

mod holdout;
mod measure;
mod verify;

use std::path::PathBuf;
use std::sync::Arc;

use tilewright_kernels::backend::Operands;
use tilewright_kernels::format::quantize::{QuantizeOptions, Quantized};
use tilewright_kernels::{Epilogue, Format, Scaling};

pub use holdout::{HeldOut, Regret, hold_out, hold_out_on, regrets};
pub use measure::{Measured, measure};
pub use verify::{Verified, verify};

use crate::diag::BadInput;
use crate::operands::{self, Stack, WeightFile};
use crate::shapes::Declaration;
use crate::table::Weight;

/// Where a weight's values come from: the tensors that a declaration names, or random ones.
pub struct Values {
    real: Option<(Declaration, WeightFile)>,
    seed: u64,
}

impl Values {
    /// Random values.
    pub fn random(seed: u64) -> Self {
        Values { real: None, seed }
    }

    /// Real values.
    ///
    /// # Errors
    /// If a file cannot be read or has faults.
    pub fn real(shapes: &std::path::Path, weights: &[PathBuf], seed: u64) -> Result<Self, BadInput> {
        Ok(Values { real: Some((Declaration::read(shapes)?, WeightFile::open(weights)?)), seed })
    }

    /// The operands of a table's weight in some formats, for up to `m` rows.
    ///
    /// # Errors
    /// If the declaration does not have the weight, or its tensors do not fit.
    pub(super) fn operands(&self, weight: &Weight, formats: &[Format], m: u32) -> anyhow::Result<Operands> {
        let (m, n, k) = (m as usize, weight.n as usize, weight.k as usize);
        let values = match &self.real {
            None => operands::weight(n, k, self.seed),
            Some((declaration, file)) => {
                let gemm =
                    declaration.gemms.iter().find(|gemm| gemm.name == weight.name).ok_or_else(|| {
                        anyhow::anyhow!("{}: declares no gemm {:?}", declaration.file.display(), weight.name)
                    })?;
                let shards = declaration.tensor_parallel as usize;
                file.load(&Stack { gemm: &gemm.name, tensors: &gemm.tensors, n, k, shards })?
            }
        };
        let mut quantized = Vec::new();
        for &format in formats {
            let options = QuantizeOptions::default();
            let weight = Quantized::quantize(&values, n, k, format, Scaling::usual(format), &options)?;
            quantized.push(Arc::new(weight));
        }
        let bias = weight.epilogue == Epilogue::Bias;
        Ok(Operands {
            m,
            n,
            k,
            activation: operands::activation(m, k, self.seed).into(),
            weights: quantized,
            bias: bias.then(|| operands::weight(1, n, self.seed ^ 2).into()),
        })
    }
}
