//! Running a chosen config on device memory of the caller's: what dispatch needs of a GPU.

use super::Cuda;
use super::driver::{Buffer, Fault};
use super::launch::{Activation, Operand, Prepared, Target};
use crate::backend::RunFault;
use crate::config::Config;
use crate::cuda::library::is_library;
use crate::cuda::pack::Mma64;
use crate::family::is_launchable;
use crate::format::Format;
use crate::format::quantize::Quantized;
use crate::layout::Layout;
use crate::problem::Problem;

/// A weight in device memory.
pub struct DeviceWeight {
    codes: Buffer,
    scales: Buffer,
    layout: Layout,
    shape: [u32; 2],
    format: Format,
}

/// Device memory of one's own, for callers that have no allocator.
pub struct DeviceBuffer(Buffer);

/// A config ready for one problem, with the workspace of one launch at a time.
pub struct DeviceGemm {
    problem: Problem,
    layout: Layout,
    prepared: Prepared,
    /// Room for the activation in the format it is multiplied in.
    snapped: Option<Activation>,
}

/// Device addresses of a launch's operands.
#[derive(Clone, Copy, Debug)]
pub struct DeviceOperands {
    /// A, row-major M × K of bf16, 16-byte aligned.
    pub activation: u64,
    /// One f32 for each output channel, for a problem with a bias; else 0.
    pub bias: u64,
    /// D, row-major M × N in the problem's output type.
    pub output: u64,
}

impl Cuda {
    /// Lays a weight out and copies it to the device.
    ///
    /// # Errors
    /// If no kernel reads this format in this layout, or memory is short.
    pub fn upload(&self, weight: &Quantized, layout: Layout) -> Result<DeviceWeight, RunFault> {
        let upload = || -> Result<DeviceWeight, Fault> {
            self.context.enter()?;
            let (codes, scales) = match layout {
                Layout::RowMajor => (Buffer::from_slice(&weight.codes)?, Buffer::from_slice(&weight.scales)?),
                Layout::Mma64 => {
                    let packed = Mma64::pack(weight).map_err(|reject| reject.to_string())?;
                    (Buffer::from_slice(&packed.bytes)?, Buffer::from_slice(&packed.factors)?)
                }
                other => return Err(format!("no CUDA kernel reads layout {other}")),
            };
            let shape = [weight.rows as u32, weight.k as u32];
            Ok(DeviceWeight { codes, scales, layout, shape, format: weight.format })
        };
        upload().map_err(RunFault::Failed)
    }

    /// Readies a config for a problem: loads its kernel from the archive, the cache or the compiler.
    ///
    /// # Errors
    /// If the config is not launchable or its kernel not to be had.
    pub fn gemm(&self, problem: &Problem, config: &Config) -> Result<DeviceGemm, RunFault> {
        is_launchable(config, problem, &self.device)?;
        let ready = || {
            self.context.enter()?;
            let prepared = Prepared::new(self, problem, config)?;
            let snapped = (problem.a != Format::Bf16).then(|| {
                self.quantiser(problem.a, is_library(config.family()))?;
                Activation::new(problem.m as usize, problem.k as usize, is_library(config.family()))
            });
            Ok(DeviceGemm {
                problem: *problem,
                layout: config.layout(),
                prepared,
                snapped: snapped.transpose()?,
            })
        };
        ready().map_err(RunFault::Failed)
    }

    /// Launches on this device's stream and returns at once. Launches of one [`DeviceGemm`] run one after another.
    ///
    /// # Errors
    /// If the weight is not the problem's, or the launch is refused. What goes wrong while it runs is an error of
    /// [`Cuda::synchronize`].
    ///
    /// # Safety
    /// The addresses must be those of device memory of the documented size, which lives until the launch has ended.
    pub unsafe fn launch(
        &self,
        gemm: &DeviceGemm,
        weight: &DeviceWeight,
        operands: &DeviceOperands,
    ) -> Result<(), RunFault> {
        let DeviceGemm { problem, layout, prepared, snapped } = gemm;
        if (weight.shape, weight.format, weight.layout) != ([problem.n, problem.k], problem.b, *layout) {
            return Err(RunFault::Failed("the weight is not the one that the kernel was readied for".into()));
        }
        let launch = || {
            self.context.enter()?;
            let activation = match snapped {
                None => Operand { address: operands.activation, scales: 0 },
                Some(room) => {
                    self.snap(problem, operands.activation, room)?;
                    room.operand(problem.a)
                }
            };
            let target = Target {
                weight: Operand { address: weight.codes.address(), scales: weight.scales.address() },
                activation,
                bias: operands.bias,
                output: operands.output,
            };
            prepared.launch(self, problem, &target, snapped.is_some())
        };
        launch().map_err(RunFault::Failed)
    }

    /// Waits for everything launched.
    ///
    /// # Errors
    /// What went wrong in it.
    pub fn synchronize(&self) -> Result<(), RunFault> {
        self.context.enter().and_then(|()| self.context.synchronize()).map_err(RunFault::Failed)
    }

    /// The stream that is launched on, as the driver's `CUstream`, for events and for ordering with the caller's.
    pub fn stream(&self) -> *mut std::ffi::c_void {
        self.context.stream().cast()
    }

    /// Device memory with a copy of `bytes`.
    ///
    /// # Errors
    /// If memory is short.
    pub fn buffer(&self, bytes: &[u8]) -> Result<DeviceBuffer, RunFault> {
        let copy = self.context.enter().and_then(|()| Buffer::from_slice(bytes));
        copy.map(DeviceBuffer).map_err(RunFault::Failed)
    }

    /// Waits for everything launched, and reads memory back.
    ///
    /// # Errors
    /// What went wrong in it.
    pub fn read(&self, buffer: &DeviceBuffer) -> Result<Vec<u8>, RunFault> {
        self.synchronize()?;
        buffer.0.read().map_err(RunFault::Failed)
    }
}

impl DeviceBuffer {
    /// Where it is.
    pub fn address(&self) -> u64 {
        self.0.address()
    }
}
