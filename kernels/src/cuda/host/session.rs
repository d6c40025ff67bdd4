//! The operands of one GEMM size on a GPU.
//!
//! In the cold regime weights, activations and outputs exist in as many copies as it takes for the weights to exceed
//! three times the L2, and one timing replays a graph of launches that goes through all of them, divided by their number:
//! launch gaps are a graph's, every weight comes from memory, and a sample is the same mixture of copies each time, so the
//! caller's `slot` has nothing left to choose. A graph has at least [`MIN_LAUNCHES`] launches, or as many as last
//! [`LONG_ENOUGH`]. The copies of a small activation may well stay in the L2, as the layer before leaves them there too.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::time::Duration;

use super::Cuda;
use super::driver::{Buffer, Events, Fault, Graph};
use super::launch::{Activation, Operand, Prepared, Target};
use crate::backend::{Operands, Regime, RunFault, Session};
use crate::config::{Config, ConfigId};
use crate::cuda::library::is_library;
use crate::cuda::pack::Mma64;
use crate::family::is_launchable;
use crate::format::Format;
use crate::layout::Layout;
use crate::problem::{Epilogue, OutType, Problem, Scaling};

/// The fewest launches of a timed graph of short ones: events tick every half microsecond.
pub(super) const MIN_LAUNCHES: usize = 16;
/// A graph of fewer launches is as good where they last this long.
const LONG_ENOUGH: Duration = Duration::from_micros(250);
/// A launch this long keeps the device busy while the host submits what is timed.
const LONG_LAUNCH: Duration = Duration::from_micros(40);
/// Bytes before and after an output that a kernel must leave alone.
const GUARD: usize = 4096;
const GUARD_BYTE: u8 = 0xa5;
/// Both a NaN in bf16 and in f32.
const POISON: u8 = 0xff;

/// A packed weight, as often as the regime wants it.
struct Weight {
    copies: Vec<Buffer>,
    factors: Buffer,
}

/// A timed graph: its launches, and how long one took when it was made.
struct Timed {
    graph: Graph,
    launches: usize,
    each: Duration,
}

/// A config ready to run, with its timed launches: with the activation's snapping, and without.
struct Entrant {
    prepared: Prepared,
    graphs: [Option<Timed>; 2],
}

type Key = (ConfigId, Problem);

/// A session on a GPU. Besides [`Session`] it times kernels without the snapping of their activation.
pub struct CudaSession<'b> {
    cuda: &'b Cuda,
    operands: Operands,
    regime: Regime,
    activations: Vec<Buffer>,
    outputs: Vec<Buffer>,
    bias: Option<Buffer>,
    weights: HashMap<(Format, Scaling, Layout), Weight>,
    snapped: HashMap<(Format, bool), Vec<Activation>>,
    entrants: HashMap<Key, Entrant>,
    events: Events,
    /// The bytes of the last output: reading large ones into fresh memory takes longer than running a kernel.
    downloaded: Vec<u8>,
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
            entrants: HashMap::new(),
            events,
            downloaded: Vec::new(),
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
        if self.entrants[&key].graphs[usize::from(snap)].is_none() {
            let copies = self.weight(problem, config)?.copies.len();
            let mut timed = self.graph(problem, config, snap, copies)?;
            // One round through the copies says how many make a sample.
            let wanted = (LONG_ENOUGH.as_secs_f64() / timed.each.as_secs_f64().max(1e-7)).ceil() as usize;
            let launches = wanted.min(MIN_LAUNCHES).next_multiple_of(copies);
            if launches > copies {
                timed = self.graph(problem, config, snap, launches)?;
            }
            let entrant = self.entrants.get_mut(&key).ok_or("the config was not prepared")?;
            entrant.graphs[usize::from(snap)] = Some(timed);
        }
        match &self.entrants[&key].graphs[usize::from(snap)] {
            Some(timed) => self.sample(problem, config, snap, timed),
            None => Err("the graph was not kept".into()),
        }
    }

    /// Captures launches that go through the copies in turn, and times them once.
    fn graph(
        &mut self,
        problem: &Problem,
        config: &Config,
        snap: bool,
        launches: usize,
    ) -> Result<Timed, Fault> {
        let copies = self.weight(problem, config)?.copies.len();
        self.replicate(copies)?;
        self.make_room(problem, config, copies)?;
        if problem.a != Format::Bf16 {
            for slot in 0..copies {
                self.snap(problem, config, slot)?;
            }
            self.cuda.context.synchronize()?;
        }
        let graph = self.cuda.context.capture(|| {
            for slot in (0..launches).map(|i| i % copies) {
                if snap {
                    self.snap(problem, config, slot)?;
                }
                self.launch(problem, config, slot, self.outputs[slot].address(), snap)?;
            }
            Ok(())
        })?;
        let mut timed = Timed { graph, launches, each: Duration::ZERO };
        self.cuda.context.replay(&timed.graph)?; // uploads it
        timed.each = self.sample(problem, config, snap, &timed)?;
        Ok(timed)
    }

    fn sample(
        &self,
        problem: &Problem,
        config: &Config,
        snap: bool,
        timed: &Timed,
    ) -> Result<Duration, Fault> {
        let before = || {
            if timed.each < LONG_LAUNCH {
                return self.cuda.context.replay(&timed.graph);
            }
            self.launch(problem, config, 0, self.outputs[0].address(), snap)
        };
        Ok(self.cuda.context.time(&timed.graph, &self.events, before)? / timed.launches as u32)
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

    fn weight(&self, problem: &Problem, config: &Config) -> Result<&Weight, Fault> {
        let key = (problem.b, problem.scaling, config.layout());
        self.weights.get(&key).ok_or_else(|| format!("the session has no {} weight in {}", key.0, key.2))
    }

    /// Uploads what a config reads, and loads its kernels.
    fn prepare(&mut self, problem: &Problem, config: &Config) -> Result<(), Fault> {
        let Operands { m, n, k, .. } = self.operands;
        if (problem.n as usize, problem.k as usize) != (n, k) || problem.m as usize > m {
            return Err(format!("the session's operands are m={m} n={n} k={k}"));
        }
        self.replicate(1)?;
        let layout = config.layout();
        if let Entry::Vacant(entry) = self.weights.entry((problem.b, problem.scaling, layout)) {
            let weight = self
                .operands
                .weights
                .iter()
                .find(|w| (w.format, w.scaling) == (problem.b, problem.scaling))
                .ok_or_else(|| format!("the session has no {} weight", problem.b))?;
            let (first, factors) = if layout == Layout::RowMajor {
                (Buffer::from_slice(&weight.codes)?, Buffer::from_slice(&weight.scales)?)
            } else {
                let packed = Mma64::pack(weight).map_err(|reject| reject.to_string())?;
                (Buffer::from_slice(&packed.bytes)?, Buffer::from_slice(&packed.factors)?)
            };
            let wanted = match self.regime {
                Regime::Cold => {
                    let llc = self.cuda.device.llc_kib as usize * 1024;
                    (3 * llc).div_ceil(first.bytes()).clamp(2, 1024)
                }
                Regime::Hot => 1,
            };
            let mut copies = vec![first];
            while copies.len() < wanted {
                copies.push(copies[0].duplicate()?);
            }
            entry.insert(Weight { copies, factors });
        }
        self.make_room(problem, config, 1)?;
        if let Entry::Vacant(entry) = self.entrants.entry((config.id(), *problem)) {
            let prepared = Prepared::new(self.cuda, problem, config)?;
            entry.insert(Entrant { prepared, graphs: [None, None] });
        }
        Ok(())
    }

    /// Makes places for the snapped copies of the activation.
    fn make_room(&mut self, problem: &Problem, config: &Config, copies: usize) -> Result<(), Fault> {
        if problem.a == Format::Bf16 {
            return Ok(());
        }
        let places = self.snapped.entry((problem.a, is_library(config.family()))).or_default();
        while places.len() < copies {
            let codes = is_library(config.family());
            places.push(Activation::new(self.operands.m, self.operands.k, codes)?);
        }
        Ok(())
    }

    fn snapped(&self, problem: &Problem, config: &Config, slot: usize) -> Option<&Activation> {
        self.snapped.get(&(problem.a, is_library(config.family())))?.get(slot)
    }

    /// Launches the kernel that snaps a copy of the activation.
    fn snap(&self, problem: &Problem, config: &Config, slot: usize) -> Result<(), Fault> {
        let to = self.snapped(problem, config, slot).ok_or("there is no place for the snapped activation")?;
        self.cuda.snap(problem, self.activations[slot].address(), to)
    }

    /// Launches a prepared config on a copy of the operands. With `overlap`, or if its config says so, it may start
    /// while the kernel before it runs: it waits for that one's end before it reads an activation or writes.
    fn launch(
        &self,
        problem: &Problem,
        config: &Config,
        slot: usize,
        output: u64,
        overlap: bool,
    ) -> Result<(), Fault> {
        let weight = self.weight(problem, config)?;
        let snapped = self.snapped(problem, config, slot);
        let target = Target {
            weight: Operand { address: weight.copies[slot].address(), scales: weight.factors.address() },
            activation: snapped.map_or_else(
                || Operand { address: self.activations[slot].address(), scales: 0 },
                |snapped| snapped.operand(problem.a),
            ),
            bias: self.bias.as_ref().map_or(0, Buffer::address),
            output,
        };
        self.entrants[&(config.id(), *problem)].prepared.launch(self.cuda, problem, &target, overlap)
    }

    fn try_run(&mut self, problem: &Problem, config: &Config, output: &mut Vec<f32>) -> Result<(), RunFault> {
        let fail = RunFault::Failed;
        self.cuda.context.enter().map_err(fail)?;
        if problem.epilogue == Epilogue::Bias && self.bias.is_none() {
            return Err(RunFault::Failed("the session has no bias".into()));
        }
        let element = match problem.out {
            OutType::F32 => 4,
            OutType::Bf16 => 2,
        };
        let bytes = problem.m as usize * problem.n as usize * element;
        let mut guards = vec![0; 2 * GUARD];
        let mut values = std::mem::take(&mut self.downloaded);
        values.resize(bytes, 0);
        let mut launch = || {
            self.prepare(problem, config)?;
            let quantised = problem.a != Format::Bf16;
            if quantised {
                self.snap(problem, config, 0)?;
                self.cuda.context.synchronize()?;
            }
            let buffer = Buffer::new(bytes + 2 * GUARD)?;
            buffer.fill_part(0, GUARD, GUARD_BYTE)?;
            buffer.fill_part(GUARD, bytes, POISON)?;
            buffer.fill_part(GUARD + bytes, GUARD, GUARD_BYTE)?;
            // Parts that no CTA writes must not pass for results of an earlier run.
            let key = (config.id(), *problem);
            self.entrants[&key].prepared.poison(POISON)?;
            self.launch(problem, config, 0, buffer.address() + GUARD as u64, quantised)?;
            self.cuda.context.synchronize()?;
            let (before, after) = guards.split_at_mut(GUARD);
            buffer.read_part(0, before)?;
            buffer.read_part(GUARD + bytes, after)?;
            buffer.read_part(GUARD, &mut values)?;
            self.entrants[&key].prepared.is_clean()
        };
        let clean = launch().map_err(fail)?;
        if guards.iter().any(|b| *b != GUARD_BYTE) {
            return Err(RunFault::OutOfBounds("the kernel wrote outside its output".into()));
        }
        if !clean {
            return Err(RunFault::Failed("the kernel left its arrival counters changed".into()));
        }
        widen(&values, problem.out, output);
        self.downloaded = values;
        Ok(())
    }
}

/// Elements of D as f32, on every core.
fn widen(bytes: &[u8], out: OutType, to: &mut Vec<f32>) {
    let element = if out == OutType::F32 { 4 } else { 2 };
    to.resize(bytes.len() / element, 0.0);
    let threads = crate::format::encode::worth_threads(to.len());
    let share = to.len().div_ceil(threads).max(1);
    std::thread::scope(|scope| {
        for (to, bytes) in to.chunks_mut(share).zip(bytes.chunks(share * element)) {
            scope.spawn(move || match out {
                OutType::F32 => to
                    .iter_mut()
                    .zip(bytes.chunks_exact(4))
                    .for_each(|(to, b)| *to = f32::from_le_bytes([b[0], b[1], b[2], b[3]])),
                OutType::Bf16 => to.iter_mut().zip(bytes.chunks_exact(2)).for_each(|(to, b)| {
                    *to = f32::from_bits(u32::from(u16::from_le_bytes([b[0], b[1]])) << 16)
                }),
            });
        }
    });
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
        self.entrants.retain(|(id, _), _| kept.contains(id));
    }
}

impl Drop for CudaSession<'_> {
    fn drop(&mut self) {
        // Buffers are freed next; nothing may still be running on them.
        let _ = self.cuda.context.enter().and_then(|()| self.cuda.context.synchronize());
    }
}
