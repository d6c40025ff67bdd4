//! The CPU executor: weights loaded by plan, GEMMs run through the lookup ladder into the caller's memory.
//!
//! ```no_run
//! use tilewright_dispatch::exec::Engine;
//! use tilewright_dispatch::table::TableData;
//! use tilewright_kernels::cpu::{Activation, Output};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let (table, values, x) = (&TableData::EMPTY, vec![0.0f32; 576 * 1536], vec![0.0f32; 8 * 1536]);
//! let engine = Engine::new(table);
//! let down = engine.load("mlp.down", &values)?;
//! let mut workspace = vec![0; engine.workspace_bytes(&down, 8)?];
//! let mut y = vec![0.0; 8 * 576];
//! engine.run(&down, Activation::F32(&x), 8, None, Output::F32(&mut y), &mut workspace)?;
//! # Ok(())
//! # }
//! ```
//!
//! [`Engine::run`] allocates nothing: the workspace is the caller's, and any number of threads may run at once, each
//! with a workspace of its own. A launch that fails falls to the runner-up, once, and is counted.

#[cfg(feature = "cuda")]
pub mod cuda;
mod weight;

use core::fmt;

use tilewright_kernels::backend::{Backend as _, Fingerprint};
use tilewright_kernels::cpu::{Activation, Cpu, Gemm, Output};
use tilewright_kernels::{Config, Epilogue, Format, Layout, OutType, Problem, Reject, Scaling};

pub use self::weight::{LoadError, Weight};
use crate::bind::Table;
use crate::key::Key;
use crate::lookup::{Choice, NoKernel, Request};
use crate::table::TableData;

/// A table bound to the processor it runs on.
pub struct Engine {
    table: Table<'static>,
    fingerprint: Fingerprint,
}

impl Engine {
    /// Binds a table to the detected processor. [`TableData::EMPTY`] is a table too: every answer is then a default.
    ///
    /// A table made on another device is used all the same: its kernels are checked against this processor at every
    /// lookup. [`Engine::is_tuned_here`] tells whether its times mean anything here.
    pub fn new(table: &TableData<'static>) -> Self {
        Engine::on(&Cpu::detect(), table)
    }

    /// Binds a table to a processor described by the caller. Where [`crate::record::RECORD`] names a file in the environment,
    /// every request is recorded.
    pub fn on(cpu: &Cpu, table: &TableData<'static>) -> Self {
        Engine { table: Table::bind_recorded(table, cpu.device()), fingerprint: cpu.fingerprint().clone() }
    }

    /// Whether the table was made on this kind of device.
    pub fn is_tuned_here(&self) -> bool {
        self.table.data().device == self.fingerprint.key()
    }

    /// The processor's fingerprint.
    pub fn fingerprint(&self) -> &Fingerprint {
        &self.fingerprint
    }

    /// The bound table: its faults, counters and rows.
    pub fn table(&self) -> &Table<'static> {
        &self.table
    }

    /// Records requests that no measurement answers from here on; read them by [`Table::misses`].
    pub fn record_misses(&mut self, capacity: usize) {
        self.table.record_misses(capacity);
    }

    /// Quantises and lays out a weight by the table's plan: once, or twice where the plan has a second copy for large M.
    /// `values` are row-major N × K.
    ///
    /// # Errors
    /// If the table has no such weight, or `values` has not N × K elements.
    pub fn load(&self, name: &str, values: &[f32]) -> Result<Weight, LoadError> {
        let plan = self.table.weight(name).ok_or(LoadError::UnknownWeight)?;
        let key = |group: u16| self.table.data().groups[group as usize].key;
        let weight = Weight::new(key(plan.group), plan.deterministic, values)?;
        match plan.second {
            None => Ok(weight),
            Some(second) => weight.with_second(second.from, key(second.group), values),
        }
    }

    /// Quantises and lays out a weight that the table does not know, for bf16 activations and with the format's usual
    /// scales. `values` are row-major N × K.
    ///
    /// # Errors
    /// If `values` has not N × K elements, or the format does not allow this K.
    pub fn load_unplanned(
        &self,
        n: u32,
        k: u32,
        format: Format,
        layout: Layout,
        values: &[f32],
    ) -> Result<Weight, LoadError> {
        let key = Key {
            n,
            k,
            a: Format::Bf16,
            b: format,
            scaling: Scaling::usual(format),
            layout,
            out: OutType::F32,
            epilogue: Epilogue::None,
        };
        Weight::new(key, false, values)
    }

    /// Workspace that any run over this weight with 1 to `max_m` rows may need, runners-up included. It asks the
    /// ladder about every M, so it belongs into loading.
    ///
    /// # Errors
    /// If nothing runs this weight at some of these M.
    pub fn workspace_bytes(&self, weight: &Weight, max_m: u32) -> Result<usize, RunError> {
        let mut most = 0;
        for m in 1..=max_m {
            // The workspace depends on neither, but lookups do.
            let key = weight.key_at(m);
            for (out, epilogue) in
                [(key.out, key.epilogue), (OutType::F32, Epilogue::None), (OutType::Bf16, Epilogue::Bias)]
            {
                let request = self.request(weight, m, out, epilogue);
                let choice = self.table.lookup(&request).map_err(RunError::NoKernel)?;
                most = most.max(self.workspace_of(&choice.config, &request.problem)?);
                if let Some(next) = self.table.runner_up(&request, &choice) {
                    most = most.max(self.workspace_of(&next.config, &request.problem)?);
                }
            }
        }
        Ok(most)
    }

    fn workspace_of(&self, config: &Config, problem: &Problem) -> Result<usize, RunError> {
        let gemm = Gemm::new(config, problem, self.table.device()).map_err(RunError::Launch)?;
        Ok(gemm.workspace_bytes())
    }

    fn request(&self, weight: &Weight, m: u32, out: OutType, epilogue: Epilogue) -> Request {
        let key = weight.key_at(m);
        let problem = Problem { out, epilogue, ..key.problem(m) };
        Request { problem, layout: key.layout, deterministic: weight.deterministic() }
    }

    /// Computes `output = activation · weightᵀ (+ bias)`. `activation` is row-major `m` × K, `output` row-major
    /// `m` × N; the bias has N elements. The output's type and whether there is a bias may differ from the plan's.
    ///
    /// Gives the choice that ran. Allocates nothing.
    ///
    /// # Errors
    /// If a length is wrong, nothing runs this problem, or both the choice and its runner-up failed.
    pub fn run(
        &self,
        weight: &Weight,
        activation: Activation<'_>,
        m: u32,
        bias: Option<&[f32]>,
        mut output: Output<'_>,
        workspace: &mut [u8],
    ) -> Result<Choice<'_>, RunError> {
        let (n, k) = (weight.packed().n(), weight.packed().k());
        for (operand, found, expected) in [
            ("activation", activation.len(), m as usize * k),
            ("output", output.len(), m as usize * n),
            ("bias", bias.map_or(n, <[f32]>::len), n),
        ] {
            if found != expected {
                return Err(RunError::Length { operand, found, expected });
            }
        }
        let out = match output {
            Output::F32(_) => OutType::F32,
            Output::Bf16(_) => OutType::Bf16,
        };
        let epilogue = if bias.is_some() { Epilogue::Bias } else { Epilogue::None };
        let request = self.request(weight, m, out, epilogue);
        let choice = self.table.choose(&request).map_err(RunError::NoKernel)?;
        let mut launch = |config: &Config| {
            let gemm = Gemm::new(config, &request.problem, self.table.device())?;
            let output = match &mut output {
                Output::F32(values) => Output::F32(values),
                Output::Bf16(values) => Output::Bf16(values),
            };
            gemm.run(weight.packed_at(m), activation, bias, output, workspace)
        };
        let Err(failure) = launch(&choice.config) else { return Ok(choice) };
        self.table.counters().launch_failed();
        let Some(next) = self.table.runner_up(&request, &choice) else {
            return Err(RunError::Launch(failure));
        };
        match launch(&next.config) {
            Ok(()) => Ok(next),
            // What was wrong with the choice, not with its substitute, is what has to be mended.
            Err(_) => {
                self.table.counters().launch_failed();
                Err(RunError::Launch(failure))
            }
        }
    }
}

/// Why nothing ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunError {
    /// An operand has the wrong number of elements.
    Length {
        /// Which one.
        operand: &'static str,
        /// Its elements.
        found: usize,
        /// What `m` and the weight ask for.
        expected: usize,
    },
    /// No kernel runs this problem.
    NoKernel(NoKernel),
    /// The choice and its runner-up failed; this is why the choice did.
    Launch(Reject),
}

impl fmt::Display for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RunError::Length { operand, found, expected } => {
                write!(f, "the {operand} has {found} elements, but M and the weight ask for {expected}")
            }
            RunError::NoKernel(none) => write!(f, "{none}"),
            RunError::Launch(reject) => write!(f, "the launch failed: {reject}"),
        }
    }
}

impl core::error::Error for RunError {}
