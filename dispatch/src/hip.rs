//! The HIP executor: weights loaded by plan onto an AMD GPU, GEMMs run through the lookup ladder on device memory.
//!
//! Kernels come from the code objects that `tilewright tune` left beside the table (`<model>.objects`): nothing is
//! compiled, and an engine needs no compiler and no hiprtc, only the HIP runtime.
//!
//! ```no_run
//! use tilewright_dispatch::hip::Engine;
//! # use tilewright_dispatch::table::TableData;
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let (table, values, x) = (&TableData::EMPTY, vec![0.0f32; 576 * 1536], vec![0u8; 8 * 1536 * 2]);
//! let objects = std::fs::read("tables/hip-amd-instinct-mi300x-304u-…/model.objects")?;
//! let engine = Engine::new(table, 0, &objects)?;
//! let down = engine.load("mlp.down", &values)?;
//! let x = engine.gpu().upload(&x)?; // bf16, 8 rows of K
//! let mut y = engine.gpu().allocate(8 * 576 * 4)?;
//! let choice = engine.run(&down, &x, 8, None, &mut y)?;
//! # Ok(())
//! # }
//! ```
//!
//! All launches go into one stream, in the order of the calls. What a launch needs (kernels, scratch) is loaded when a
//! problem comes up first, or ahead of time by [`Engine::ready`].

use core::fmt;
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use tilewright_kernels::backend::{Backend as _, RunFault};
use tilewright_kernels::format::quantize::{QuantizeError, QuantizeOptions, Quantized};
use tilewright_kernels::hip::objects::{Objects, ObjectsFault};
use tilewright_kernels::hip::{DeviceMemory, DeviceWeight, Hip, Launchable};
use tilewright_kernels::{Config, ConfigId, Epilogue, Problem};

use crate::bind::Table;
use crate::key::Key;
use crate::lookup::{Choice, NoKernel, Request};
use crate::table::TableData;

/// A table bound to an AMD GPU.
pub struct Engine<'a> {
    /// Before the GPU: its kernels must go while the device is there.
    ready: Mutex<HashMap<(ConfigId, Problem), Launchable>>,
    table: Table<'a>,
    objects: Objects<'a>,
    gpu: Hip,
}

/// A weight on a GPU, in the layouts of its plan.
pub struct Weight {
    first: (Key, DeviceWeight),
    /// Another copy, with the first M that it serves.
    second: Option<(u32, Key, DeviceWeight)>,
    deterministic: bool,
}

impl Weight {
    fn at(&self, m: u32) -> (&Key, &DeviceWeight) {
        match &self.second {
            Some((from, key, weight)) if m >= *from => (key, weight),
            _ => (&self.first.0, &self.first.1),
        }
    }

    /// What the kernels for `m` rows are found by: formats and output type among it.
    pub fn key_at(&self, m: u32) -> &Key {
        self.at(m).0
    }
}

impl<'a> Engine<'a> {
    /// Binds a table to the GPU of an ordinal. `objects` is the content of the table's `.objects` file.
    ///
    /// A table made on another device is used all the same: its kernels are checked against this GPU at every lookup.
    /// [`Engine::is_tuned_here`] tells whether its times mean anything here.
    ///
    /// # Errors
    /// Without a HIP runtime or such a GPU, or if the objects are damaged.
    pub fn new(table: &TableData<'a>, ordinal: u32, objects: &'a [u8]) -> Result<Self, Error> {
        let objects = Objects::parse(objects).map_err(Error::Objects)?;
        let gpu = Hip::open(ordinal, None).map_err(Error::Gpu)?;
        Ok(Engine { ready: Mutex::default(), table: Table::bind_recorded(table, gpu.device()), objects, gpu })
    }

    /// The GPU: memory for activations and outputs is made, written and read there.
    pub fn gpu(&self) -> &Hip {
        &self.gpu
    }

    /// Whether the table was made on this kind of device.
    pub fn is_tuned_here(&self) -> bool {
        self.table.data().device == self.gpu.fingerprint().key()
    }

    /// The bound table: its faults, counters and rows.
    pub fn table(&self) -> &Table<'a> {
        &self.table
    }

    /// Quantises, lays out and uploads a weight by the table's plan: once, or twice where the plan has a second copy for
    /// large M. `values` are row-major N × K.
    ///
    /// # Errors
    /// If the table has no such weight, `values` has not N × K elements, or there is not enough memory.
    pub fn load(&self, name: &str, values: &[f32]) -> Result<Weight, Error> {
        let plan = self.table.weight(name).ok_or(Error::UnknownWeight)?;
        let stored = |group: u16| -> Result<(Key, DeviceWeight), Error> {
            let key = self.table.data().groups[group as usize].key;
            if let Some(fault) = key.problem(1).fault() {
                return Err(Error::Illegal(fault));
            }
            let (n, k) = (key.n as usize, key.k as usize);
            let quantized =
                Quantized::quantize(values, n, k, key.b, key.scaling, &QuantizeOptions::default());
            let quantized = quantized.map_err(Error::Quantize)?;
            Ok((key, self.gpu.load(&quantized, key.layout).map_err(Error::Gpu)?))
        };
        let second = match plan.second {
            None => None,
            Some(copy) => {
                let (key, weight) = stored(copy.group)?;
                Some((copy.from, key, weight))
            }
        };
        Ok(Weight { first: stored(plan.group)?, second, deterministic: plan.deterministic })
    }

    fn request(&self, weight: &Weight, m: u32, has_bias: bool) -> Request {
        let key = weight.key_at(m);
        let epilogue = if has_bias { Epilogue::Bias } else { Epilogue::None };
        let problem = Problem { epilogue, ..key.problem(m) };
        Request { problem, layout: key.layout, deterministic: weight.deterministic }
    }

    /// Loads what launches with `m` rows need, so that the first one does not wait for it.
    ///
    /// # Errors
    /// As [`Engine::run`].
    pub fn ready(&self, weight: &Weight, m: u32, has_bias: bool) -> Result<(), Error> {
        let request = self.request(weight, m, has_bias);
        let choice = self.table.lookup(&request).map_err(Error::NoKernel)?;
        self.with(&choice.config, &request.problem, |_| Ok(())).map_err(Error::Gpu)
    }

    /// Puts `output = activation · weightᵀ (+ bias)` into the stream. `activation` is row-major `m` × K in bf16, the
    /// output row-major `m` × N in the plan's type; the bias has N values of f32.
    ///
    /// Gives the choice that runs. A choice whose launch is refused, or whose code object is missing, falls to its
    /// runner-up, once, and is counted. A fault while a kernel runs is reported by a later call.
    ///
    /// # Errors
    /// If an operand is too small, nothing runs this problem, or both the choice and its runner-up were refused.
    pub fn run(
        &self,
        weight: &Weight,
        activation: &DeviceMemory,
        m: u32,
        bias: Option<&DeviceMemory>,
        output: &mut DeviceMemory,
    ) -> Result<Choice<'_>, Error> {
        let request = self.request(weight, m, bias.is_some());
        let choice = self.table.choose(&request).map_err(Error::NoKernel)?;
        let stored = weight.at(m).1;
        let mut launch = |config: &Config| {
            self.with(config, &request.problem, |ready| {
                self.gpu.launch(ready, stored, activation, bias, output)
            })
        };
        let Err(failure) = launch(&choice.config) else { return Ok(choice) };
        self.table.counters().launch_failed();
        let Some(next) = self.table.runner_up(&request, &choice) else { return Err(Error::Gpu(failure)) };
        match launch(&next.config) {
            Ok(()) => Ok(next),
            // What was wrong with the choice, not with its substitute, is what has to be mended.
            Err(_) => {
                self.table.counters().launch_failed();
                Err(Error::Gpu(failure))
            }
        }
    }

    /// Runs `work` on what a config needs for a problem, loaded before or now. Others wait meanwhile: launches share
    /// the scratch, and the stream orders them.
    fn with(
        &self,
        config: &Config,
        problem: &Problem,
        work: impl FnOnce(&Launchable) -> Result<(), RunFault>,
    ) -> Result<(), RunFault> {
        let mut ready = self.ready.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (config.id(), *problem);
        if let Some(found) = ready.get(&key) {
            return work(found);
        }
        let made = self.gpu.prepare(config, problem, &self.objects)?;
        work(ready.entry(key).or_insert(made))
    }
}

impl Drop for Engine<'_> {
    fn drop(&mut self) {
        // Kernels and scratch go next: nothing may be running on them.
        let _ = self.gpu.synchronize();
    }
}

/// Why something was not loaded or did not run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// The code objects cannot be read.
    Objects(ObjectsFault),
    /// The table has no weight of that name.
    UnknownWeight,
    /// No GEMM over such a weight is legal.
    Illegal(&'static str),
    /// The values cannot be quantised.
    Quantize(QuantizeError),
    /// No kernel runs this problem.
    NoKernel(NoKernel),
    /// The GPU, its driver, or what it was given.
    Gpu(RunFault),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Objects(fault) => write!(f, "{fault}"),
            Error::UnknownWeight => f.write_str("the table has no weight of that name"),
            Error::Illegal(fault) => f.write_str(fault),
            Error::Quantize(error) => write!(f, "{error}"),
            Error::NoKernel(none) => write!(f, "{none}"),
            Error::Gpu(fault) => write!(f, "{fault}"),
        }
    }
}

impl core::error::Error for Error {}
