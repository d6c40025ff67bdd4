//! The host side: a Hopper GPU as a [`Backend`].
//!
//! All `unsafe` is in this module: [`driver`] wraps the CUDA driver, [`compiler`] NVRTC; both load their library when
//! first used, so that one binary runs on machines without CUDA.

mod compiler;
mod driver;
mod session;

use std::path::PathBuf;
use std::time::Duration;

use cudarc::driver::sys::CUdevice_attribute as Attribute;

use crate::backend::{Backend, Fingerprint, Operands, Regime, RunFault, Session};
use crate::config::Config;
use crate::device::{Caps, Device};
use crate::family::{BackendKind, Family};
use crate::problem::Problem;
use compiler::Compiler;
use driver::Context;
pub use session::CudaSession;

/// One NVIDIA GPU.
pub struct Cuda {
    device: Device,
    fingerprint: Fingerprint,
    driver_version: u32,
    compiler: Compiler,
    context: Context,
}

impl Cuda {
    /// Opens a GPU by its ordinal. Compiled kernels are kept in `cache`, or only in memory.
    ///
    /// # Errors
    /// Without a driver or a device of that ordinal. A GPU that no kernel here runs on is no error: the predicate
    /// refuses every config on it.
    pub fn open(ordinal: u32, cache: Option<PathBuf>) -> Result<Cuda, RunFault> {
        Cuda::try_open(ordinal, cache).map_err(RunFault::Failed)
    }

    fn try_open(ordinal: u32, cache: Option<PathBuf>) -> Result<Cuda, driver::Fault> {
        let context = Context::open(ordinal)?;
        let major = context.attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?;
        let minor = context.attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?;
        let units = context.attribute(Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?;
        let l2_kib = context.attribute(Attribute::CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE)? / 1024;
        let shared =
            context.attribute(Attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR)?;
        let caps = if (major, minor) == (9, 0) { Caps::SM_90A } else { Caps::NONE };
        let features = vec![
            format!("sm_{major}{minor}"),
            format!("l2_{}mib", l2_kib.div_ceil(1024)),
            format!("memory_{}gib", context.memory()? >> 30),
        ];
        Ok(Cuda {
            device: Device {
                backend: BackendKind::Cuda,
                caps,
                units,
                l1_kib: shared / 1024,
                l2_kib,
                llc_kib: l2_kib,
            },
            fingerprint: Fingerprint { backend: BackendKind::Cuda, model: context.name()?, features, units },
            driver_version: context.driver_version()?,
            compiler: Compiler::new(cache),
            context,
        })
    }

    /// How many GPUs there are; 0 without a driver.
    pub fn count() -> u32 {
        Context::count()
    }

    /// The folder that compiled kernels are usually kept in, if the user has a home.
    pub fn usual_cache() -> Option<PathBuf> {
        let set = |name| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
        set("XDG_CACHE_HOME")
            .or_else(|| Some(set("HOME")?.join(".cache")))
            .map(|base| base.join("tilewright/cuda"))
    }

    /// The CUDA version the driver supports, as 1000 · major + 10 · minor. Not part of the fingerprint: tables outlive
    /// driver updates.
    pub fn driver_version(&self) -> u32 {
        self.driver_version
    }

    /// Compiles the kernels of these configs on every core, so that sessions find them ready.
    pub fn compile(&self, problem: &Problem, configs: &[Config]) {
        let mut seen = std::collections::HashSet::new();
        let sources: Vec<_> = configs
            .iter()
            .filter_map(|c| session::source(c, problem))
            .filter(|s| seen.insert(s.clone()))
            .collect();
        self.compiler.warm(&sources);
    }

    /// As [`Backend::open`], with what only a CUDA session has.
    ///
    /// # Errors
    /// As there.
    pub fn session(&self, operands: Operands, regime: Regime) -> Result<CudaSession<'_>, RunFault> {
        CudaSession::open(self, operands, regime)
    }
}

impl Backend for Cuda {
    fn device(&self) -> &Device {
        &self.device
    }

    fn fingerprint(&self) -> &Fingerprint {
        &self.fingerprint
    }

    fn families(&self) -> Vec<&'static Family> {
        super::FAMILIES.to_vec()
    }

    fn timer_resolution(&self) -> Duration {
        // Events tick every half microsecond (CUDA driver API, cuEventElapsedTime), and a timing spans several launches.
        Duration::from_nanos(500 / session::MIN_LAUNCHES as u64)
    }

    fn open(&self, operands: Operands, regime: Regime) -> Result<Box<dyn Session + '_>, RunFault> {
        Ok(Box::new(self.session(operands, regime)?))
    }
}
