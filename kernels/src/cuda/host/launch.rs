//! A config ready to run: a kernel of our own with its workspace, or an algorithm of the library.

use std::ffi::c_void;

use super::Cuda;
use super::blaslt::{Matmul, Places};
use super::driver::{Buffer, Fault, Kernel, Launch, TensorMap};
use crate::config::Config;
use crate::cuda::families::{Tiling, is_gemm};
use crate::cuda::library::is_library;
use crate::cuda::source::{self, Source};
use crate::format::Format;
use crate::problem::Problem;

/// What is compiled for a config.
pub(super) fn source(config: &Config, problem: &Problem) -> Option<Source> {
    is_gemm(config.family()).then(|| source::gemm(config, problem))
}

/// `Args` of `gemm.cu`.
#[repr(C, align(64))]
struct GemmArgs {
    activation: TensorMap,
    weight: u64,
    weight_factor: u64,
    activation_factor: u64,
    bias: u64,
    output: u64,
    partial: u64,
    arrivals: u64,
    m: u32,
    n: u32,
    k: u32,
}

/// A matrix on the device with the scales beside it, 0 where there are none.
#[derive(Clone, Copy)]
pub(super) struct Operand {
    pub(super) address: u64,
    pub(super) scales: u64,
}

/// Where one launch reads and writes.
pub(super) struct Target {
    pub(super) weight: Operand,
    pub(super) activation: Operand,
    pub(super) bias: u64,
    pub(super) output: u64,
}

/// Room for a snapped activation.
pub(super) struct Activation {
    values: Buffer,
    scales: Buffer,
    codes: bool,
}

impl Activation {
    /// Room for `m` rows of `k`: as bf16, or with `codes` as the format's own of a byte each.
    pub(super) fn new(m: usize, k: usize, codes: bool) -> Result<Activation, Fault> {
        Ok(Activation { values: Buffer::new(m * k * 2)?, scales: Buffer::new(m * 4)?, codes })
    }

    pub(super) fn operand(&self, format: Format) -> Operand {
        let scales = if format == Format::Fp8E4m3 { self.scales.address() } else { 0 };
        Operand { address: self.values.address(), scales }
    }
}

/// A config ready to run.
pub(super) enum Prepared {
    /// A kernel of `gemm.cu`.
    Own {
        kernel: Kernel,
        launch: Launch,
        /// Rows of the boxes that the activation is copied in.
        box_rows: u32,
        partial: Buffer,
        arrivals: Buffer,
    },
    /// An algorithm of cuBLASLt.
    Library(Matmul),
}

impl Prepared {
    /// Loads what a config runs, for one problem.
    pub(super) fn new(cuda: &Cuda, problem: &Problem, config: &Config) -> Result<Prepared, Fault> {
        if is_library(config.family()) {
            return Ok(Prepared::Library(cuda.library()?.matmul(problem, config)?));
        }
        let source = source(config, problem).ok_or("the CUDA backend does not have this family")?;
        let tiling = Tiling::of(config, problem.b);
        let kernel = Kernel::load(&cuda.compiler.cubin(&source)?, source.entry, tiling.shared_bytes())?;
        let arrivals = Buffer::new(tiling.tiles(problem) as usize * 4)?;
        arrivals.fill(0)?;
        Ok(Prepared::Own {
            kernel,
            launch: Launch {
                grid: tiling.grid(problem, &cuda.device),
                threads: tiling.threads(),
                shared_bytes: tiling.shared_bytes(),
                overlaps_previous: tiling.overlap,
            },
            box_rows: tiling.tile_m,
            partial: Buffer::new(tiling.partial_floats(problem, &cuda.device) * 4)?,
            arrivals,
        })
    }

    /// Launches it.
    pub(super) fn launch(
        &self,
        cuda: &Cuda,
        problem: &Problem,
        target: &Target,
        overlap: bool,
    ) -> Result<(), Fault> {
        let Target { weight, activation, bias, output } = *target;
        match self {
            Prepared::Own { kernel, launch, box_rows, partial, arrivals } => {
                let args = GemmArgs {
                    activation: TensorMap::bf16(activation.address, [problem.k, problem.m], [64, *box_rows])?,
                    weight: weight.address,
                    weight_factor: weight.scales,
                    activation_factor: activation.scales,
                    bias,
                    output,
                    partial: partial.address(),
                    arrivals: arrivals.address(),
                    m: problem.m,
                    n: problem.n,
                    k: problem.k,
                };
                let launch = Launch { overlaps_previous: overlap || launch.overlaps_previous, ..*launch };
                cuda.context.launch(kernel, &launch, &mut [pointer(&args)])
            }
            Prepared::Library(matmul) => {
                let places = Places {
                    weight: weight.address,
                    activation: activation.address,
                    scales: [weight.scales, activation.scales],
                    output,
                };
                matmul.launch(cuda.library()?, &cuda.context, &places)
            }
        }
    }

    /// Overwrites the workspace.
    pub(super) fn poison(&self, byte: u8) -> Result<(), Fault> {
        match self {
            Prepared::Own { partial, .. } => partial.fill(byte),
            Prepared::Library(_) => Ok(()),
        }
    }

    /// Whether the kernel left its counters as it found them.
    pub(super) fn is_clean(&self) -> Result<bool, Fault> {
        match self {
            Prepared::Own { arrivals, .. } => Ok(arrivals.read()?.iter().all(|b| *b == 0)),
            Prepared::Library(_) => Ok(true),
        }
    }
}

impl Cuda {
    /// Launches the kernel that snaps a bf16 activation of the problem's size.
    pub(super) fn snap(&self, problem: &Problem, from: u64, to: &Activation) -> Result<(), Fault> {
        let kernel = self.quantiser(problem.a, to.codes)?;
        let (m, k) = (problem.m, problem.k);
        let (grid, threads) = match problem.a {
            Format::Fp8E4m3 => (m, 512),
            _ => ((u64::from(m) * u64::from(k)).div_ceil(256) as u32, 256),
        };
        let (values, scales) = (to.values.address(), to.scales.address());
        let mut arguments = [pointer(&from), pointer(&values), pointer(&scales), pointer(&m), pointer(&k)];
        let launch = Launch { grid, threads, shared_bytes: 0, overlaps_previous: false };
        self.context.launch(&kernel, &launch, &mut arguments)
    }
}

/// The address of a kernel argument.
fn pointer<T>(value: &T) -> *mut c_void {
    std::ptr::from_ref(value).cast_mut().cast()
}
