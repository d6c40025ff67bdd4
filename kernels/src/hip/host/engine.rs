//! What an engine does on a GPU beside measuring: memory of its own, weights, launches.
//!
//! Everything goes into the one stream of its [`Hip`], in the order of the calls; reading memory waits for what was
//! launched before.

use super::Hip;
use super::loaded::{self, Loaded};
use super::runtime::{Buffer, Fault};
use crate::backend::RunFault;
use crate::config::Config;
use crate::family::is_launchable;
use crate::format::quantize::Quantized;
use crate::hip::objects::Objects;
use crate::layout::Layout;
use crate::problem::{Epilogue, OutType, Problem};

/// Memory of a GPU.
pub struct DeviceMemory(Buffer);

impl DeviceMemory {
    /// Its size in bytes.
    pub fn bytes(&self) -> usize {
        self.0.len()
    }
}

/// A weight in a layout, on a GPU.
pub struct DeviceWeight {
    parts: Vec<Buffer>,
    /// N and K.
    shape: (usize, usize),
}

/// A config on a problem, its kernels loaded: what a launch needs beside operands.
pub struct Launchable {
    loaded: Loaded,
    problem: Problem,
}

impl Launchable {
    /// The problem it was made for.
    pub fn problem(&self) -> &Problem {
        &self.problem
    }
}

impl Hip {
    /// Uninitialised memory.
    ///
    /// # Errors
    /// If there is not enough.
    pub fn allocate(&self, bytes: usize) -> Result<DeviceMemory, RunFault> {
        self.on_gpu(|| Buffer::new(bytes).map(DeviceMemory))
    }

    /// Memory with a copy of `bytes`.
    ///
    /// # Errors
    /// If there is not enough.
    pub fn upload(&self, bytes: &[u8]) -> Result<DeviceMemory, RunFault> {
        self.on_gpu(|| Buffer::from_bytes(bytes).map(DeviceMemory))
    }

    /// Copies `bytes` to the start of `memory`, after all launches so far.
    ///
    /// # Errors
    /// If there are more bytes than memory, or a launch failed.
    pub fn write(&self, memory: &DeviceMemory, bytes: &[u8]) -> Result<(), RunFault> {
        self.on_gpu(|| {
            fits(bytes.len(), memory)?;
            self.gpu.synchronize()?;
            memory.0.write(bytes)
        })
    }

    /// Copies from the start of `memory`, after all launches so far.
    ///
    /// # Errors
    /// If more bytes are asked for than there are, or a launch failed.
    pub fn read(&self, memory: &DeviceMemory, into: &mut [u8]) -> Result<(), RunFault> {
        self.on_gpu(|| {
            fits(into.len(), memory)?;
            self.gpu.synchronize()?;
            memory.0.read(into)
        })
    }

    /// Lays a weight out and uploads it.
    ///
    /// # Errors
    /// If no kernel reads this format in this layout, or there is not enough memory.
    pub fn load(&self, weight: &Quantized, layout: Layout) -> Result<DeviceWeight, RunFault> {
        let parts = crate::hip::pack(weight, layout)?;
        self.on_gpu(|| {
            let parts = parts.iter().map(|part| Buffer::from_bytes(part)).collect::<Result<_, _>>()?;
            Ok(DeviceWeight { parts, shape: (weight.rows, weight.k) })
        })
    }

    /// Loads the kernels of a config for a problem from code objects. Nothing is compiled.
    ///
    /// # Errors
    /// If the config is not launchable, or the objects lack a kernel of it.
    pub fn prepare(
        &self,
        config: &Config,
        problem: &Problem,
        objects: &Objects<'_>,
    ) -> Result<Launchable, RunFault> {
        is_launchable(config, problem, &self.device)?;
        self.on_gpu(|| {
            let plan = crate::hip::plan(config, problem, &self.device)
                .ok_or_else(|| format!("no plan for {config}"))?;
            let loaded = Loaded::new(plan, |source| {
                let object = objects.get(source, &self.arch);
                // A copy of its own: the runtime reads the image as structures, which wants an alignment.
                object.map(<[u8]>::to_vec).ok_or_else(|| {
                    format!("the table's code objects lack {} for {} with {config}", source.file, self.arch)
                })
            })?;
            Ok(Launchable { loaded, problem: *problem })
        })
    }

    /// Puts the launches into the stream. `activation` is row-major M × K in bf16, `bias` N values of f32, `output`
    /// row-major M × N in the problem's type; each may be larger.
    ///
    /// # Errors
    /// If an operand is too small or missing, or a launch is refused. A fault while it runs is reported by a later call.
    pub fn launch(
        &self,
        launchable: &Launchable,
        weight: &DeviceWeight,
        activation: &DeviceMemory,
        bias: Option<&DeviceMemory>,
        output: &mut DeviceMemory,
    ) -> Result<(), RunFault> {
        let problem = &launchable.problem;
        let (m, n, k) = (problem.m as usize, problem.n as usize, problem.k as usize);
        self.on_gpu(|| {
            if weight.shape != (n, k) {
                return Err(format!(
                    "the weight is {:?}, the problem's N and K are {n} and {k}",
                    weight.shape
                ));
            }
            fits(m * k * 2, activation).map_err(|why| format!("activation: {why}"))?;
            let element = if problem.out == OutType::F32 { 4 } else { 2 };
            fits(m * n * element, output).map_err(|why| format!("output: {why}"))?;
            let bias = match (problem.epilogue, bias) {
                (Epilogue::None, _) => 0,
                (Epilogue::Bias, None) => return Err("the problem has a bias, and none is given".into()),
                (Epilogue::Bias, Some(bias)) => {
                    fits(n * 4, bias).map_err(|why| format!("bias: {why}"))?;
                    bias.0.address()
                }
            };
            let operands = loaded::Operands {
                weight: &weight.parts,
                activation: activation.0.address(),
                bias,
                output: output.0.address(),
            };
            launchable.loaded.launch(&self.gpu, &operands)
        })
    }

    /// Waits for all launches so far.
    ///
    /// # Errors
    /// What failed in them.
    pub fn synchronize(&self) -> Result<(), RunFault> {
        self.on_gpu(|| self.gpu.synchronize())
    }

    fn on_gpu<T>(&self, work: impl FnOnce() -> Result<T, Fault>) -> Result<T, RunFault> {
        self.gpu.enter().and_then(|()| work()).map_err(RunFault::Failed)
    }
}

fn fits(bytes: usize, memory: &DeviceMemory) -> Result<(), Fault> {
    if bytes <= memory.bytes() {
        return Ok(());
    }
    Err(format!("{bytes} bytes are needed, the memory has {}", memory.bytes()))
}
