//! The executor for NVIDIA GPUs: weights loaded by plan, GEMMs chosen by the lookup ladder and launched on device memory
//! of the caller's.
//!
//! Kernels come from the archive beside the table, so that the driver alone is needed; rows won by cuBLASLt need that
//! library too. A launch that is refused (an algorithm that the installed library does not have, say) falls to the
//! runner-up, once, and is counted.
//!
//! What is ready for one number of rows is kept for the next launch with as many; [`CudaEngine::ready`] does it ahead of
//! time, and belongs before anything that must not wait for memory or a kernel to be loaded.

use core::fmt;
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use tilewright_kernels::backend::{Backend as _, RunFault};
use tilewright_kernels::config::ConfigId;
use tilewright_kernels::cuda::archive::{Archive, ArchiveError};
use tilewright_kernels::cuda::{Cuda, DeviceGemm, DeviceOperands, DeviceWeight};
use tilewright_kernels::format::quantize::{QuantizeOptions, Quantized};
use tilewright_kernels::{Config, Problem};

use super::LoadError;
use crate::bind::Table;
use crate::key::Key;
use crate::lookup::{Choice, NoKernel, Request};
use crate::table::TableData;

/// Ready launches that are kept; beyond, all are made anew.
const MOST_READY: usize = 1024;

/// A table bound to a GPU.
pub struct CudaEngine {
    table: Table<'static>,
    ready: Mutex<HashMap<(Problem, ConfigId), DeviceGemm>>,
    cuda: Cuda,
}

/// A weight on the GPU, in one copy or in two.
pub struct CudaWeight {
    first: (Key, DeviceWeight),
    /// Another copy, with the first M that it serves.
    second: Option<(u32, (Key, DeviceWeight))>,
    deterministic: bool,
}

impl CudaWeight {
    fn at(&self, m: u32) -> &(Key, DeviceWeight) {
        match &self.second {
            Some((from, stored)) if m >= *from => stored,
            _ => &self.first,
        }
    }

    /// What the kernels for `m` rows are found by.
    pub fn key_at(&self, m: u32) -> &Key {
        &self.at(m).0
    }

    fn request(&self, m: u32) -> Request {
        let key = self.key_at(m);
        Request { problem: key.problem(m), layout: key.layout, deterministic: self.deterministic }
    }
}

impl CudaEngine {
    /// Opens a GPU and binds a table to it. `archive` holds the table's kernels ([`Archive::to_bytes`]); an empty slice
    /// is an archive of none, and kernels are then compiled where NVRTC is installed.
    ///
    /// # Errors
    /// If there is no such GPU, or the archive is damaged.
    pub fn open(ordinal: u32, table: &TableData<'static>, archive: &[u8]) -> Result<Self, CudaError> {
        let archive = if archive.is_empty() { Ok(Archive::default()) } else { Archive::from_bytes(archive) };
        let cuda = Cuda::open_with(ordinal, archive.map_err(CudaError::Archive)?)?;
        let table = Table::bind(table, cuda.device());
        Ok(CudaEngine { table, ready: Mutex::default(), cuda })
    }

    /// The GPU: its memory, its stream and [`Cuda::synchronize`].
    pub fn cuda(&self) -> &Cuda {
        &self.cuda
    }

    /// Whether the table was made on this kind of device.
    pub fn is_tuned_here(&self) -> bool {
        self.table.data().device == self.cuda.fingerprint().key()
    }

    /// The bound table: its faults, counters and rows.
    pub fn table(&self) -> &Table<'static> {
        &self.table
    }

    /// Quantises a weight, lays it out by the table's plan and copies it to the GPU. `values` are row-major N × K.
    ///
    /// # Errors
    /// If the table has no such weight, `values` has not N × K elements, or memory is short.
    pub fn load(&self, name: &str, values: &[f32]) -> Result<CudaWeight, CudaError> {
        let plan = self.table.weight(name).ok_or(CudaError::Load(LoadError::UnknownWeight))?;
        let key = |group: u16| self.table.data().groups[group as usize].key;
        let second = plan.second.map(|second| (second.from, key(second.group)));
        Ok(CudaWeight {
            first: self.store(key(plan.group), values)?,
            second: second
                .map(|(from, key)| Ok::<_, CudaError>((from, self.store(key, values)?)))
                .transpose()?,
            deterministic: plan.deterministic,
        })
    }

    fn store(&self, key: Key, values: &[f32]) -> Result<(Key, DeviceWeight), CudaError> {
        let (n, k) = (key.n as usize, key.k as usize);
        if n.checked_mul(k) != Some(values.len()) {
            return Err(CudaError::Load(LoadError::Length { found: values.len(), n, k }));
        }
        let quantized = Quantized::quantize(values, n, k, key.b, key.scaling, &QuantizeOptions::default());
        let quantized = quantized.map_err(|error| CudaError::Load(LoadError::Quantize(error)))?;
        Ok((key, self.cuda.upload(&quantized, key.layout)?))
    }

    /// Readies what a launch with `m` rows needs: kernel, workspace, room for a quantised activation.
    ///
    /// # Errors
    /// If nothing runs this problem, or what does is not to be had.
    pub fn ready(&self, weight: &CudaWeight, m: u32) -> Result<(), CudaError> {
        let request = weight.request(m);
        let choice = self.table.lookup(&request).map_err(CudaError::NoKernel)?;
        self.with(&request.problem, &choice.config, |_| Ok(())).map_err(CudaError::Fault)
    }

    /// Launches `output = activation · weightᵀ (+ bias)` with `m` rows, in the output type and with the epilogue of the
    /// weight's plan, on the stream of [`CudaEngine::cuda`]. Returns before it has ended.
    ///
    /// Gives the choice that was launched.
    ///
    /// # Errors
    /// If nothing runs this problem, or both the choice and its runner-up were refused.
    ///
    /// # Safety
    /// As [`Cuda::launch`].
    pub unsafe fn launch(
        &self,
        weight: &CudaWeight,
        m: u32,
        operands: &DeviceOperands,
    ) -> Result<Choice<'_>, CudaError> {
        let request = weight.request(m);
        let choice = self.table.choose(&request).map_err(CudaError::NoKernel)?;
        let launch = |config: &Config| {
            self.with(&request.problem, config, |gemm| {
                // SAFETY: the caller's promise about the addresses.
                unsafe { self.cuda.launch(gemm, &weight.at(m).1, operands) }
            })
        };
        let Err(failure) = launch(&choice.config) else { return Ok(choice) };
        self.table.counters().launch_failed();
        let Some(next) = self.table.runner_up(&request, &choice) else {
            return Err(CudaError::Fault(failure));
        };
        match launch(&next.config) {
            Ok(()) => Ok(next),
            // What was wrong with the choice, not with its substitute, is what has to be mended.
            Err(_) => {
                self.table.counters().launch_failed();
                Err(CudaError::Fault(failure))
            }
        }
    }

    /// Hands over what runs a config, readied if it was not. Launches of one are in the order of the stream, so that
    /// they share its workspace.
    fn with(
        &self,
        problem: &Problem,
        config: &Config,
        then: impl FnOnce(&DeviceGemm) -> Result<(), RunFault>,
    ) -> Result<(), RunFault> {
        let mut ready = self.ready.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (*problem, config.id());
        if !ready.contains_key(&key) {
            if ready.len() >= MOST_READY {
                // Nothing may be freed under a running kernel.
                self.cuda.synchronize()?;
                ready.clear();
            }
            ready.insert(key, self.cuda.gemm(problem, config)?);
        }
        then(&ready[&key])
    }
}

impl Drop for CudaEngine {
    fn drop(&mut self) {
        // Workspaces are freed next; a fault of what still ran has nobody left to be told.
        let _ = self.cuda.synchronize();
    }
}

/// Why nothing ran.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CudaError {
    /// The archive of kernels cannot be read.
    Archive(ArchiveError),
    /// The weight was not loaded.
    Load(LoadError),
    /// No kernel runs this problem.
    NoKernel(NoKernel),
    /// The device, the driver or the library; of the choice, if its runner-up failed too.
    Fault(RunFault),
}

impl From<RunFault> for CudaError {
    fn from(fault: RunFault) -> Self {
        CudaError::Fault(fault)
    }
}

impl fmt::Display for CudaError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CudaError::Archive(error) => write!(f, "{error}"),
            CudaError::Load(error) => write!(f, "{error}"),
            CudaError::NoKernel(none) => write!(f, "{none}"),
            CudaError::Fault(fault) => write!(f, "{fault}"),
        }
    }
}

impl core::error::Error for CudaError {}
