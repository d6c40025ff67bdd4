//! The operands of one GEMM size on a GPU.
//!
//! In the cold regime weights, activations and outputs exist in as many copies as it takes to exceed three times the
//! Infinity Cache, and timed launches go through them in turn. A short kernel is timed as a graph that goes through all
//! copies (at least [`MIN_LAUNCHES`]), divided by their number: launch gaps are a graph's, and every sample is the same
//! mixture of copies, so that the caller's `slot` has nothing left to choose. A long one is launched as often as fits
//! [`LONG`], beginning at `slot`. Before the timed launches others run untimed, so that the host is ahead of the device.
//!
//! A simulated device has no caches and no launch gaps: one copy, one launch.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::time::Duration;

use super::Hip;
use super::loaded::{self, Loaded};
use super::runtime::{Buffer, Events, Fault, Graph};
use crate::backend::{Operands, Regime, RunFault, Session};
use crate::config::{Config, ConfigId};
use crate::family::is_launchable;
use crate::format::Format;
use crate::layout::Layout;
use crate::problem::{Epilogue, OutType, Problem, Scaling};

/// The fewest launches of a timed graph: events tick about every microsecond.
pub(super) const MIN_LAUNCHES: usize = 16;
/// What the copies have to exceed together, in bytes.
const ROTATED: usize = 768 << 20;
const MOST_COPIES: usize = 1024;
/// A kernel longer than this is launched without a graph.
const SHORT: Duration = Duration::from_micros(100);
/// How long a sample may take on the device.
const LONG: Duration = Duration::from_millis(50);
/// Bytes before and after an output that a kernel must leave alone.
const GUARD: usize = 4096;
const GUARD_BYTE: u8 = 0xa5;
/// A NaN in bf16 and in f32.
const POISON: u8 = 0xff;

/// How a config is timed.
enum Batch {
    /// A graph of that many launches.
    Graph(Graph, usize),
    /// That many launches.
    Plain(usize),
}

/// A config ready to run.
struct Prepared {
    loaded: Loaded,
    batch: Option<Batch>,
}

/// A packed weight: copies, each of the parts that its layout has.
type Weight = Vec<Vec<Buffer>>;

/// A session on a GPU.
pub struct HipSession<'b> {
    hip: &'b Hip,
    operands: Operands,
    regime: Regime,
    activations: Vec<Buffer>,
    outputs: Vec<Buffer>,
    bias: Option<Buffer>,
    weights: HashMap<(Format, Scaling, Layout), Weight>,
    prepared: HashMap<(ConfigId, Problem), Prepared>,
    events: Events,
}

impl<'b> HipSession<'b> {
    pub(super) fn open(hip: &'b Hip, operands: Operands, regime: Regime) -> Result<Self, RunFault> {
        let (m, n, k) = (operands.m, operands.n, operands.k);
        let fits = operands.activation.len() == m * k
            && operands.weights.iter().all(|w| (w.rows, w.k) == (n, k))
            && operands.bias.as_ref().is_none_or(|b| b.len() == n);
        if !fits {
            return Err(RunFault::Failed(format!("the operands are not those of m={m} n={n} k={k}")));
        }
        let open = || {
            hip.gpu.enter()?;
            let bias = operands.bias.as_ref().map(|bias| {
                let bytes: Vec<u8> = bias.iter().flat_map(|v| v.to_le_bytes()).collect();
                Buffer::from_bytes(&bytes)
            });
            Ok((Events::new()?, bias.transpose()?))
        };
        let (events, bias) = open().map_err(RunFault::Failed)?;
        Ok(HipSession {
            hip,
            operands,
            regime,
            activations: Vec::new(),
            outputs: Vec::new(),
            bias,
            weights: HashMap::new(),
            prepared: HashMap::new(),
            events,
        })
    }

    /// How many copies of operands the regime wants beside a weight of that many bytes.
    fn copies(&self, weight_bytes: usize) -> usize {
        if self.regime == Regime::Hot || self.hip.is_simulated() {
            return 1;
        }
        let (m, n, k) = (self.operands.m, self.operands.n, self.operands.k);
        ROTATED.div_ceil(weight_bytes + 2 * m * k + 4 * m * n).clamp(2, MOST_COPIES)
    }

    /// Makes activations and outputs for that many copies.
    fn replicate(&mut self, copies: usize) -> Result<(), Fault> {
        while self.activations.len() < copies {
            let copy = match self.activations.first() {
                Some(first) => first.duplicate()?,
                None => {
                    let values = self.operands.activation.iter();
                    let bytes: Vec<u8> =
                        values.flat_map(|v| ((v.to_bits() >> 16) as u16).to_le_bytes()).collect();
                    Buffer::from_bytes(&bytes)?
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
        let (m, n, k) = (self.operands.m, self.operands.n, self.operands.k);
        if problem.m as usize > m || (problem.n as usize, problem.k as usize) != (n, k) {
            return Err(format!("the session's operands are m={m} n={n} k={k}"));
        }
        if problem.epilogue == Epilogue::Bias && self.bias.is_none() {
            return Err("the session has no bias".into());
        }
        self.replicate(1)?;
        let key = (problem.b, problem.scaling, config.layout());
        if !self.weights.contains_key(&key) {
            let mut weights = self.operands.weights.iter();
            let weight = weights
                .find(|w| (w.format, w.scaling) == (problem.b, problem.scaling))
                .ok_or_else(|| format!("the session has no {} weight", problem.b))?;
            let parts = crate::hip::pack(weight, config.layout()).map_err(|reject| reject.to_string())?;
            let first: Vec<Buffer> =
                parts.iter().map(|part| Buffer::from_bytes(part)).collect::<Result<_, _>>()?;
            let mut copies = vec![first];
            for _ in 1..self.copies(parts.iter().map(Vec::len).sum()) {
                let copy = copies[0].iter().map(Buffer::duplicate).collect::<Result<_, _>>()?;
                copies.push(copy);
            }
            self.weights.insert(key, copies);
        }
        if let Entry::Vacant(entry) = self.prepared.entry((config.id(), *problem)) {
            let plan = crate::hip::plan(config, problem, &self.hip.device)
                .ok_or_else(|| format!("no plan for {config}"))?;
            let loaded = Loaded::new(plan, |source| self.hip.object(source))?;
            entry.insert(Prepared { loaded, batch: None });
        }
        Ok(())
    }

    /// Launches a prepared config on a copy of the operands.
    fn launch(&self, problem: &Problem, config: &Config, slot: usize, output: u64) -> Result<(), Fault> {
        let copies = &self.weights[&(problem.b, problem.scaling, config.layout())];
        let bias = self.bias.as_ref().filter(|_| problem.epilogue == Epilogue::Bias);
        let operands = loaded::Operands {
            weight: &copies[slot % copies.len()],
            activation: self.activations[slot % self.activations.len()].address(),
            bias: bias.map_or(0, Buffer::address),
            output,
        };
        self.prepared[&(config.id(), *problem)].loaded.launch(&self.hip.gpu, &operands)
    }

    fn launch_many(
        &self,
        problem: &Problem,
        config: &Config,
        first: usize,
        count: usize,
    ) -> Result<(), Fault> {
        for slot in first..first + count {
            self.launch(problem, config, slot, self.outputs[slot % self.outputs.len()].address())?;
        }
        Ok(())
    }

    fn try_time(&mut self, problem: &Problem, config: &Config, slot: usize) -> Result<Duration, Fault> {
        let gpu = &self.hip.gpu;
        gpu.enter()?;
        self.prepare(problem, config)?;
        let key = (config.id(), *problem);
        let copies = self.weights[&(problem.b, problem.scaling, config.layout())].len();
        self.replicate(copies)?;
        if self.prepared[&key].batch.is_none() {
            let batch = self.batch(problem, config, copies)?;
            self.prepared.get_mut(&key).ok_or("the config was not prepared")?.batch = Some(batch);
        }
        let time = |launches: usize, work: &dyn Fn(usize) -> Result<(), Fault>| {
            let first = (slot * launches) % copies;
            if !self.hip.is_simulated() {
                work(first)?;
            }
            Ok(gpu.time(&self.events, || work((first + launches) % copies))? / launches as u32)
        };
        match &self.prepared[&key].batch {
            Some(Batch::Graph(graph, launches)) => time(*launches, &|_| gpu.replay(graph)),
            Some(Batch::Plain(launches)) => {
                time(*launches, &|first| self.launch_many(problem, config, first, *launches))
            }
            None => Err("the launches were not kept".into()),
        }
    }

    /// Decides how a config is timed, by one launch.
    fn batch(&self, problem: &Problem, config: &Config, copies: usize) -> Result<Batch, Fault> {
        let gpu = &self.hip.gpu;
        if !self.hip.is_simulated() {
            // Pages and instructions of the first launch are not of the kernel's time.
            self.launch_many(problem, config, 0, 1)?;
        }
        let once = gpu.time(&self.events, || self.launch_many(problem, config, 0, 1))?;
        let all = if self.hip.is_simulated() { 1 } else { copies.max(MIN_LAUNCHES.next_multiple_of(copies)) };
        let fit = (LONG.as_nanos() / once.as_nanos().max(1)).clamp(1, all as u128) as usize;
        if fit < all || once > SHORT {
            return Ok(Batch::Plain(fit));
        }
        let graph = gpu.capture(|| self.launch_many(problem, config, 0, all))?;
        gpu.replay(&graph)?; // uploads it
        gpu.synchronize()?;
        Ok(Batch::Graph(graph, all))
    }

    fn try_run(&mut self, problem: &Problem, config: &Config, output: &mut Vec<f32>) -> Result<(), RunFault> {
        let fail = RunFault::Failed;
        self.hip.gpu.enter().map_err(fail)?;
        self.prepare(problem, config).map_err(fail)?;
        let element = match problem.out {
            OutType::F32 => 4,
            OutType::Bf16 => 2,
        };
        let bytes = problem.m as usize * problem.n as usize * element;
        let loaded = &self.prepared[&(config.id(), *problem)].loaded;
        let launch = || {
            let guarded = [vec![GUARD_BYTE; GUARD], vec![POISON; bytes], vec![GUARD_BYTE; GUARD]].concat();
            let buffer = Buffer::from_bytes(&guarded)?;
            loaded.poison(POISON)?;
            self.launch(problem, config, 0, buffer.address() + GUARD as u64)?;
            self.hip.gpu.synchronize()?;
            Ok((buffer.bytes()?, loaded.is_clean()?))
        };
        let (found, is_clean) = launch().map_err(fail)?;
        let (before, rest) = found.split_at(GUARD);
        let (values, after) = rest.split_at(bytes);
        if before.iter().chain(after).any(|b| *b != GUARD_BYTE) {
            return Err(RunFault::OutOfBounds("the kernel wrote outside its output".into()));
        }
        if !is_clean {
            return Err(RunFault::Failed("the kernel left scratch that must be zeros changed".into()));
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

impl Session for HipSession<'_> {
    fn run(&mut self, problem: &Problem, config: &Config, output: &mut Vec<f32>) -> Result<(), RunFault> {
        is_launchable(config, problem, &self.hip.device)?;
        self.try_run(problem, config, output)
    }

    fn time(&mut self, problem: &Problem, config: &Config, slot: usize) -> Result<Duration, RunFault> {
        is_launchable(config, problem, &self.hip.device)?;
        self.try_time(problem, config, slot).map_err(RunFault::Failed)
    }

    fn retain(&mut self, keep: &[Config]) {
        let kept: Vec<ConfigId> = keep.iter().map(Config::id).collect();
        // Nothing may be freed under a running kernel; a fault shows again at the next call.
        let _ = self.hip.gpu.enter().and_then(|()| self.hip.gpu.synchronize());
        self.prepared.retain(|(id, _), _| kept.contains(id));
    }
}

impl Drop for HipSession<'_> {
    fn drop(&mut self) {
        // Buffers are freed next; nothing may still be running on them.
        let _ = self.hip.gpu.enter().and_then(|()| self.hip.gpu.synchronize());
    }
}
