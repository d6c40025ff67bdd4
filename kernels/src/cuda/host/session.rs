//! The operands of one GEMM size on a GPU.
//!
//! In the cold regime weights, activations and outputs exist in as many copies as it takes for the weights to exceed
//! three times the L2, and one timing replays a graph of launches that goes through all of them (at least
//! [`MIN_LAUNCHES`]), divided by their number: launch gaps are a graph's, every weight comes from memory, and a sample
//! is the same mixture of copies each time, so the caller's `slot` has nothing left to choose. The copies of a small
//! activation may well stay in the L2, as the layer before leaves them there too.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::ffi::c_void;
use std::time::Duration;

use super::Cuda;
use super::driver::{Buffer, Events, Fault, Graph, Kernel, Launch, TensorMap};
use crate::backend::{Operands, Regime, RunFault, Session};
use crate::config::{Config, ConfigId};
use crate::cuda::families::{Tiling, is_gemm};
use crate::cuda::pack::Mma64;
use crate::cuda::source::{self, Source};
use crate::family::is_launchable;
use crate::format::Format;
use crate::problem::{Epilogue, OutType, Problem, Scaling};

/// The fewest launches of a timed graph: events tick every half microsecond.
pub(super) const MIN_LAUNCHES: usize = 16;
/// Bytes before and after an output that a kernel must leave alone.
const GUARD: usize = 4096;
const GUARD_BYTE: u8 = 0xa5;
/// Both a NaN in bf16 and in f32.
const POISON: u8 = 0xff;

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

/// A packed weight, as often as the regime wants it.
struct Weight {
    copies: Vec<Buffer>,
    factors: Buffer,
}

/// A snapped activation for each copy of the activation, and what snaps it.
struct Snapped {
    kernel: Kernel,
    values: Vec<Buffer>,
    scales: Vec<Buffer>,
}

/// A config ready to run.
struct Prepared {
    kernel: Kernel,
    launch: Launch,
    /// Rows of the boxes that the activation is copied in.
    box_rows: u32,
    partial: Buffer,
    arrivals: Buffer,
    /// Timed launches with the activation's snapping, and without.
    graphs: [Option<(Graph, usize)>; 2],
}

/// A session on a GPU. Besides [`Session`] it times kernels without the snapping of their activation.
pub struct CudaSession<'b> {
    cuda: &'b Cuda,
    operands: Operands,
    regime: Regime,
    activations: Vec<Buffer>,
    outputs: Vec<Buffer>,
    bias: Option<Buffer>,
    weights: HashMap<(Format, Scaling), Weight>,
    snapped: HashMap<Format, Snapped>,
    prepared: HashMap<(ConfigId, Problem), Prepared>,
    events: Events,
}

impl<'b> CudaSession<'b> {
    pub(super) fn open(cuda: &'b Cuda, operands: Operands, regime: Regime) -> Result<Self, RunFault> {
        let (m, n, k) = (operands.m, operands.n, operands.k);
        let fits = operands.activation.len() == m * k
            && operands.weights.iter().all(|w| (w.rows, w.k) == (n, k))
            && operands.bias.as_ref().is_none_or(|b| b.len() == n);
        if !fits {
            return Err(RunFault::Failed(format!("the operands are not those of m={m} n={n} k={k}")));
        }
        let open = || {
            cuda.context.enter()?;
            let events = Events::new()?;
            let bias = operands.bias.as_ref().map(|b| Buffer::from_slice(b)).transpose()?;
            Ok((events, bias))
        };
        let (events, bias) = open().map_err(RunFault::Failed)?;
        Ok(CudaSession {
            cuda,
            operands,
            regime,
            activations: Vec::new(),
            outputs: Vec::new(),
            bias,
            weights: HashMap::new(),
            snapped: HashMap::new(),
            prepared: HashMap::new(),
            events,
        })
    }

    /// As [`Session::time`], but the activation has been snapped before: what a GEMM that takes quantised activations
    /// is compared with.
    ///
    /// # Errors
    /// As there.
    pub fn time_kernel(&mut self, problem: &Problem, config: &Config) -> Result<Duration, RunFault> {
        self.timed(problem, config, false)
    }

    fn timed(&mut self, problem: &Problem, config: &Config, snap: bool) -> Result<Duration, RunFault> {
        is_launchable(config, problem, &self.cuda.device)?;
        self.try_timed(problem, config, snap).map_err(RunFault::Failed)
    }

    fn try_timed(&mut self, problem: &Problem, config: &Config, snap: bool) -> Result<Duration, Fault> {
        self.cuda.context.enter()?;
        self.prepare(problem, config)?;
        let snap = snap && problem.a != Format::Bf16;
        let key = (config.id(), *problem);
        if self.prepared[&key].graphs[usize::from(snap)].is_none() {
            let copies = self.weights[&(problem.b, problem.scaling)].copies.len();
            let launches = copies.max(MIN_LAUNCHES.next_multiple_of(copies));
            self.replicate(copies)?;
            if problem.a != Format::Bf16 {
                for slot in 0..copies {
                    self.snap(problem, slot)?;
                }
            }
            let graph = self.cuda.context.capture(|| {
                for slot in (0..launches).map(|i| i % copies) {
                    if snap {
                        self.snap(problem, slot)?;
                    }
                    self.launch(problem, &key, slot, self.outputs[slot].address(), snap)?;
                }
                Ok(())
            })?;
            self.cuda.context.time(&graph, &self.events)?; // uploads the graph
            let prepared = self.prepared.get_mut(&key).ok_or("the config was not prepared")?;
            prepared.graphs[usize::from(snap)] = Some((graph, launches));
        }
        let Some((graph, launches)) = &self.prepared[&key].graphs[usize::from(snap)] else {
            return Err("the graph was not kept".into());
        };
        Ok(self.cuda.context.time(graph, &self.events)? / *launches as u32)
    }

    /// Makes activations and outputs for that many copies of the weight.
    fn replicate(&mut self, copies: usize) -> Result<(), Fault> {
        while self.activations.len() < copies {
            let copy = match self.activations.first() {
                Some(first) => first.duplicate()?,
                None => {
                    let bits: Vec<u16> =
                        self.operands.activation.iter().map(|v| (v.to_bits() >> 16) as u16).collect();
                    Buffer::from_slice(&bits)?
                }
            };
            self.activations.push(copy);
        }
        while self.outputs.len() < copies {
            self.outputs.push(Buffer::new(self.operands.m * self.operands.n * 4)?);
        }
        Ok(())
    }

    /// Uploads what a config reads, and loads its kernels.
    fn prepare(&mut self, problem: &Problem, config: &Config) -> Result<(), Fault> {
        let (m, n, k) = (self.operands.m as u32, self.operands.n as u32, self.operands.k as u32);
        if (problem.m, problem.n, problem.k) != (m, n, k) {
            return Err(format!("the session's operands are m={m} n={n} k={k}"));
        }
        self.replicate(1)?;
        let device = &self.cuda.device;
        if let Entry::Vacant(entry) = self.weights.entry((problem.b, problem.scaling)) {
            let weight = self
                .operands
                .weights
                .iter()
                .find(|w| (w.format, w.scaling) == (problem.b, problem.scaling))
                .ok_or_else(|| format!("the session has no {} weight", problem.b))?;
            let packed = Mma64::pack(weight).map_err(|reject| reject.to_string())?;
            let mut copies = vec![Buffer::from_slice(&packed.bytes)?];
            let wanted = match self.regime {
                Regime::Cold => {
                    (3 * device.llc_kib as usize * 1024).div_ceil(packed.bytes.len()).clamp(2, 1024)
                }
                Regime::Hot => 1,
            };
            while copies.len() < wanted {
                copies.push(copies[0].duplicate()?);
            }
            entry.insert(Weight { copies, factors: Buffer::from_slice(&packed.factors)? });
        }
        if let Some(source) = source::quantise(problem.a)
            && let Entry::Vacant(entry) = self.snapped.entry(problem.a)
        {
            let kernel = Kernel::load(&self.cuda.compiler.cubin(&source)?, source.entry, 0)?;
            entry.insert(Snapped { kernel, values: Vec::new(), scales: Vec::new() });
        }
        if let Entry::Vacant(entry) = self.prepared.entry((config.id(), *problem)) {
            let source = source(config, problem).ok_or("the CUDA backend does not have this family")?;
            let tiling = Tiling::of(config, problem.b);
            let kernel =
                Kernel::load(&self.cuda.compiler.cubin(&source)?, source.entry, tiling.shared_bytes())?;
            let arrivals = Buffer::new(tiling.tiles(problem) as usize * 4)?;
            arrivals.fill(0)?;
            entry.insert(Prepared {
                kernel,
                launch: Launch {
                    grid: tiling.grid(problem, device),
                    threads: tiling.threads(),
                    shared_bytes: tiling.shared_bytes(),
                    overlaps_previous: tiling.overlap,
                },
                box_rows: tiling.tile_m,
                partial: Buffer::new(tiling.partial_floats(problem, device) * 4)?,
                arrivals,
                graphs: [None, None],
            });
        }
        Ok(())
    }

    /// Launches the kernel that snaps a copy of the activation.
    fn snap(&mut self, problem: &Problem, slot: usize) -> Result<(), Fault> {
        let (m, k) = (problem.m, problem.k);
        let snapped = self.snapped.get_mut(&problem.a).ok_or("the activation's kernel was not loaded")?;
        while snapped.values.len() <= slot {
            snapped.values.push(Buffer::new(m as usize * k as usize * 2)?);
            snapped.scales.push(Buffer::new(m as usize * 4)?);
        }
        let (grid, threads) = match problem.a {
            Format::Fp8E4m3 => (m, 512),
            _ => ((u64::from(m) * u64::from(k)).div_ceil(256) as u32, 256),
        };
        let (from, to) = (self.activations[slot].address(), snapped.values[slot].address());
        let scales = snapped.scales[slot].address();
        let mut arguments = [pointer(&from), pointer(&to), pointer(&scales), pointer(&m), pointer(&k)];
        let launch = Launch { grid, threads, shared_bytes: 0, overlaps_previous: false };
        self.cuda.context.launch(&snapped.kernel, &launch, &mut arguments)
    }

    /// Launches a prepared config on a copy of the operands. With `overlap`, or if its config says so, it may start
    /// while the kernel before it runs: it waits for that one's end before it reads an activation or writes.
    fn launch(
        &self,
        problem: &Problem,
        key: &(ConfigId, Problem),
        slot: usize,
        output: u64,
        overlap: bool,
    ) -> Result<(), Fault> {
        let prepared = &self.prepared[key];
        let weight = &self.weights[&(problem.b, problem.scaling)];
        let snapped = self.snapped.get(&problem.a);
        let activation = snapped.map_or(&self.activations[slot], |s| &s.values[slot]);
        let per_token = problem.a == Format::Fp8E4m3;
        let args = GemmArgs {
            activation: TensorMap::bf16(activation, [problem.k, problem.m], [64, prepared.box_rows])?,
            weight: weight.copies[slot].address(),
            weight_factor: weight.factors.address(),
            activation_factor: snapped.filter(|_| per_token).map_or(0, |s| s.scales[slot].address()),
            bias: self.bias.as_ref().map_or(0, Buffer::address),
            output,
            partial: prepared.partial.address(),
            arrivals: prepared.arrivals.address(),
            m: problem.m,
            n: problem.n,
            k: problem.k,
        };
        let launch =
            Launch { overlaps_previous: overlap || prepared.launch.overlaps_previous, ..prepared.launch };
        self.cuda.context.launch(&prepared.kernel, &launch, &mut [pointer(&args)])
    }

    fn try_run(&mut self, problem: &Problem, config: &Config, output: &mut Vec<f32>) -> Result<(), RunFault> {
        let fail = RunFault::Failed;
        self.cuda.context.enter().map_err(fail)?;
        if problem.epilogue == Epilogue::Bias && self.bias.is_none() {
            return Err(RunFault::Failed("the session has no bias".into()));
        }
        let key = (config.id(), *problem);
        let element = match problem.out {
            OutType::F32 => 4,
            OutType::Bf16 => 2,
        };
        let bytes = self.operands.m * self.operands.n * element;
        let mut launch = || {
            self.prepare(problem, config)?;
            if problem.a != Format::Bf16 {
                self.snap(problem, 0)?;
                self.cuda.context.synchronize()?;
            }
            let guarded = [vec![GUARD_BYTE; GUARD], vec![POISON; bytes], vec![GUARD_BYTE; GUARD]].concat();
            let buffer = Buffer::from_slice(&guarded)?;
            // Parts that no CTA writes must not pass for results of an earlier run.
            self.prepared[&key].partial.fill(POISON)?;
            self.launch(problem, &key, 0, buffer.address() + GUARD as u64, problem.a != Format::Bf16)?;
            self.cuda.context.synchronize()?;
            Ok((buffer.read()?, self.prepared[&key].arrivals.read()?))
        };
        let (found, arrivals) = launch().map_err(fail)?;
        let (before, rest) = found.split_at(GUARD);
        let (values, after) = rest.split_at(bytes);
        if before.iter().chain(after).any(|b| *b != GUARD_BYTE) {
            return Err(RunFault::OutOfBounds("the kernel wrote outside its output".into()));
        }
        if arrivals.iter().any(|b| *b != 0) {
            return Err(RunFault::Failed("the kernel left its arrival counters changed".into()));
        }
        output.clear();
        match problem.out {
            OutType::F32 => {
                output.extend(values.chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])))
            }
            OutType::Bf16 => output.extend(
                values
                    .chunks_exact(2)
                    .map(|b| f32::from_bits(u32::from(u16::from_le_bytes([b[0], b[1]])) << 16)),
            ),
        }
        Ok(())
    }
}

/// The address of a kernel argument.
fn pointer<T>(value: &T) -> *mut c_void {
    std::ptr::from_ref(value).cast_mut().cast()
}

impl Session for CudaSession<'_> {
    fn run(&mut self, problem: &Problem, config: &Config, output: &mut Vec<f32>) -> Result<(), RunFault> {
        is_launchable(config, problem, &self.cuda.device)?;
        self.try_run(problem, config, output)
    }

    fn time(&mut self, problem: &Problem, config: &Config, _slot: usize) -> Result<Duration, RunFault> {
        self.timed(problem, config, true)
    }

    fn retain(&mut self, keep: &[Config]) {
        let kept: Vec<ConfigId> = keep.iter().map(Config::id).collect();
        // Nothing may be freed under a running kernel; a fault shows again at the next call.
        let _ = self.cuda.context.enter().and_then(|()| self.cuda.context.synchronize());
        self.prepared.retain(|(id, _), _| kept.contains(id));
    }
}

impl Drop for CudaSession<'_> {
    fn drop(&mut self) {
        // Buffers are freed next; nothing may still be running on them.
        let _ = self.cuda.context.enter().and_then(|()| self.cuda.context.synchronize());
    }
}
