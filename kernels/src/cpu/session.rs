//! The CPU behind [`Backend`]: operands, layouts made when first used, runs between guard zones, timings.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::backend::{Backend, Elements, Fingerprint, Operands, Regime, RunFault, Session};
use crate::config::Config;
use crate::cpu::activation::Activation;
use crate::cpu::buffer::Buffer;
use crate::cpu::detect::Cpu;
use crate::cpu::families::{FAMILIES, Tiling};
use crate::cpu::gemm::Gemm;
use crate::cpu::output::Output;
use crate::cpu::pack::PackedWeight;
use crate::cpu::tables::from_bf16;
use crate::cpu::{evict, team};
use crate::device::Device;
use crate::family::Family;
use crate::format::Format;
use crate::format::quantize::Quantized;
use crate::layout::Layout;
use crate::problem::{Epilogue, OutType, Problem, Scaling};

impl Backend for Cpu {
    fn device(&self) -> &Device {
        &self.device
    }

    fn fingerprint(&self) -> &Fingerprint {
        &self.fingerprint
    }

    fn families(&self) -> Vec<&'static Family> {
        FAMILIES.to_vec()
    }

    fn timer_resolution(&self) -> Duration {
        let step = |_| {
            let start = Instant::now();
            loop {
                let elapsed = start.elapsed();
                if !elapsed.is_zero() {
                    return elapsed;
                }
            }
        };
        (0..64).map(step).min().expect("64 readings")
    }

    fn open(&self, operands: Operands, regime: Regime) -> Result<Box<dyn Session + '_>, RunFault> {
        Ok(Box::new(CpuSession::new(&self.device, operands, regime)?))
    }
}

/// f32 (or bf16) elements on either side of an output that no kernel may touch.
const GUARD: usize = 256;
/// The poison: a NaN that arithmetic does not make, in both widths.
const POISON: u32 = 0xffc5_a5a5;
const POISON16: u16 = 0xffc5;

struct CpuSession<'a> {
    device: &'a Device,
    operands: Operands,
    regime: Regime,
    packed: Vec<Packed>,
    copies: Vec<Copy>,
    workspace: Buffer,
    /// The copy, type and elements of the output that the last timed launch wrote.
    timed: Option<(usize, OutType, usize)>,
}

/// One weight in one layout, in as many copies as timed launches rotate through; the first is made first.
struct Packed {
    format: Format,
    scaling: Scaling,
    layout: Layout,
    copies: Vec<PackedWeight>,
}

/// One copy of activation and output, the outputs with guard zones.
struct Copy {
    activation: Vec<f32>,
    f32_output: Vec<f32>,
    bf16_output: Vec<u16>,
}

impl<'a> CpuSession<'a> {
    fn new(device: &'a Device, operands: Operands, regime: Regime) -> Result<Self, RunFault> {
        let Operands { m, n, k, ref activation, ref weights, ref bias } = operands;
        let failed = |what: String| Err(RunFault::Failed(what));
        if m == 0 || n == 0 || k == 0 || [m, n, k].iter().any(|d| u32::try_from(*d).is_err()) {
            return failed(format!("M, N and K must be from 1 to 2^32 - 1: got {m}, {n}, {k}"));
        }
        if activation.len() != m * k {
            return failed(format!("the activation has {} elements, not {m} x {k}", activation.len()));
        }
        if let Some(weight) = weights.iter().find(|w| (w.rows, w.k) != (n, k)) {
            let Quantized { format, rows, k: depth, .. } = **weight;
            return failed(format!("the {format} weight is {rows} x {depth}, not {n} x {k}"));
        }
        if bias.as_ref().is_some_and(|bias| bias.len() != n) {
            return failed(format!("the bias does not have {n} elements"));
        }
        Ok(CpuSession {
            device,
            operands,
            regime,
            packed: Vec::new(),
            copies: Vec::new(),
            workspace: Buffer::zeroed(0),
            timed: None,
        })
    }

    /// Binds a config, and makes what it needs: workspace and the weight's layout. Gives the layout's position.
    fn prepare(&mut self, problem: &Problem, config: &Config) -> Result<(Gemm, usize), RunFault> {
        let gemm = Gemm::new(config, problem, self.device)?;
        let Operands { m, n, k, ref weights, .. } = self.operands;
        let fits = problem.m as usize <= m && (problem.n as usize, problem.k as usize) == (n, k);
        if !fits {
            return Err(RunFault::Failed(format!(
                "the session's operands are for m up to {m}, n={n}, k={k}"
            )));
        }
        if self.workspace.bytes().len() < gemm.workspace_bytes() {
            self.workspace = Buffer::zeroed(gemm.workspace_bytes());
            // So that no timed launch meets its pages for the first time.
            self.workspace.bytes_mut().fill(0xff);
        }
        let layout = config.layout();
        let known = |p: &Packed| (p.format, p.scaling, p.layout) == (problem.b, problem.scaling, layout);
        if let Some(found) = self.packed.iter().position(known) {
            return Ok((gemm, found));
        }
        let is_asked = |w: &&Arc<Quantized>| (w.format, w.scaling) == (problem.b, problem.scaling);
        let weight = weights.iter().find(is_asked).ok_or_else(|| {
            RunFault::Failed(format!("no {} weight with {} scales was given", problem.b, problem.scaling))
        })?;
        let copies = vec![PackedWeight::pack(weight, layout)?];
        self.packed.push(Packed { format: problem.b, scaling: problem.scaling, layout, copies });
        Ok((gemm, self.packed.len() - 1))
    }

    fn bias(&self, problem: &Problem) -> Option<&[f32]> {
        self.operands.bias.as_deref().filter(|_| problem.epilogue == Epilogue::Bias)
    }
}

impl Session for CpuSession<'_> {
    fn run(&mut self, problem: &Problem, config: &Config, output: &mut Vec<f32>) -> Result<(), RunFault> {
        let (gemm, packed) = self.prepare(problem, config)?;
        let (m, n, k) = (problem.m as usize, self.operands.n, self.operands.k);
        let elements = m * n;
        let mut workspace = std::mem::replace(&mut self.workspace, Buffer::zeroed(0));
        // What an earlier run left must not be taken for a result.
        workspace.bytes_mut().fill(0xff);
        let weight = &self.packed[packed].copies[0];
        let activation = Activation::F32(&self.operands.activation[..m * k]);
        let bias = self.bias(problem);
        let ran = match problem.out {
            OutType::F32 => {
                let mut guarded = vec![f32::from_bits(POISON); elements + 2 * GUARD];
                let inner = &mut guarded[GUARD..GUARD + elements];
                let ran = gemm.run(weight, activation, bias, Output::F32(inner), workspace.bytes_mut());
                #[cfg(debug_assertions)]
                super::sabotage::overrun(&mut guarded, GUARD + elements);
                ran.map_err(RunFault::from)
                    .and_then(|()| check_guard(&guarded, |value| value.to_bits() == POISON))
                    .map(|()| *output = guarded[GUARD..GUARD + elements].to_vec())
            }
            OutType::Bf16 => {
                let mut guarded = vec![POISON16; elements + 2 * GUARD];
                let inner = &mut guarded[GUARD..GUARD + elements];
                let ran = gemm.run(weight, activation, bias, Output::Bf16(inner), workspace.bytes_mut());
                #[cfg(debug_assertions)]
                super::sabotage::overrun(&mut guarded, GUARD + elements);
                ran.map_err(RunFault::from)
                    .and_then(|()| check_guard(&guarded, |value| *value == POISON16))
                    .map(|()| {
                        *output = guarded[GUARD..GUARD + elements].iter().map(|v| from_bf16(*v)).collect()
                    })
            }
        };
        self.workspace = workspace;
        ran
    }

    fn time(&mut self, problem: &Problem, config: &Config, slot: usize) -> Result<Duration, RunFault> {
        let (gemm, packed) = self.prepare(problem, config)?;
        let (m, n, k) = (problem.m as usize, self.operands.n, self.operands.k);
        let first = &self.packed[packed].copies[0];
        let copies = evict::copies(first.bytes().len(), self.device.llc_kib);
        let slot = slot % copies;
        while self.copies.len() <= slot {
            self.copies.push(Copy {
                activation: self.operands.activation.to_vec(),
                f32_output: Vec::new(),
                bf16_output: Vec::new(),
            });
        }
        while self.packed[packed].copies.len() <= slot {
            let copy = self.packed[packed].copies[0].clone();
            self.packed[packed].copies.push(copy);
        }
        let weight = &self.packed[packed].copies[slot];
        let Copy { activation, f32_output, bf16_output } = &mut self.copies[slot];
        let activation = &activation[..m * k];
        let inner = GUARD..GUARD + m * n;
        // Poisoned each time: what an earlier launch left must not be taken for a result.
        let output = match problem.out {
            OutType::F32 => {
                poison(f32_output, m * n, f32::from_bits(POISON));
                evict_if(self.regime, &f32_output[..]);
                Output::F32(&mut f32_output[inner])
            }
            OutType::Bf16 => {
                poison(bf16_output, m * n, POISON16);
                evict_if(self.regime, &bf16_output[..]);
                Output::Bf16(&mut bf16_output[inner])
            }
        };
        evict_if(self.regime, weight.bytes());
        evict_if(self.regime, activation);
        let bias = self.operands.bias.as_deref().filter(|_| problem.epilogue == Epilogue::Bias);
        let workspace = self.workspace.bytes_mut();
        // The layer before would have left the workers awake; evicting has put them to sleep.
        let threads = Tiling::of(config).threads as usize;
        team::run(threads, threads, &|_, _| {});
        let start = Instant::now();
        gemm.run(weight, Activation::F32(activation), bias, output, workspace)?;
        let elapsed = start.elapsed();
        self.timed = Some((slot, problem.out, m * n));
        #[cfg(debug_assertions)]
        match problem.out {
            OutType::F32 => super::sabotage::overrun(f32_output, GUARD + m * n),
            OutType::Bf16 => super::sabotage::overrun(bf16_output, GUARD + m * n),
        }
        // That every element was written shows where the values are looked at.
        match problem.out {
            OutType::F32 => check_zones(f32_output, |value| value.to_bits() == POISON)?,
            OutType::Bf16 => check_zones(bf16_output, |value| *value == POISON16)?,
        }
        Ok(elapsed)
    }

    fn timed_output(&mut self, elements: Elements<'_>, output: &mut Vec<f32>) -> Result<bool, RunFault> {
        let Some((slot, out, count)) = self.timed else { return Ok(false) };
        let Copy { f32_output, bf16_output, .. } = &self.copies[slot];
        let value = |at: usize| match out {
            OutType::F32 => f32_output[GUARD + at],
            OutType::Bf16 => from_bf16(bf16_output[GUARD + at]),
        };
        output.clear();
        match elements {
            Elements::All => output.extend((0..count).map(value)),
            Elements::At(positions) if positions.iter().all(|at| *at < count) => {
                output.extend(positions.iter().map(|at| value(*at)));
            }
            Elements::At(_) => {
                return Err(RunFault::Failed(format!("the timed output has {count} elements only")));
            }
        }
        Ok(true)
    }

    fn retain(&mut self, keep: &[Config]) {
        let is_kept = |p: &Packed| {
            keep.iter().any(|c| c.layout() == p.layout && c.family().formats.contains(&p.format))
        };
        self.packed.retain(is_kept);
    }
}

fn evict_if<T>(regime: Regime, range: &[T]) {
    if regime == Regime::Cold {
        evict::evict(range);
    }
}

/// Poison throughout, in the output and in its zones.
fn poison<T: std::marker::Copy>(guarded: &mut Vec<T>, elements: usize, value: T) {
    guarded.clear();
    guarded.resize(elements + 2 * GUARD, value);
}

/// Looks for writes around the output.
fn check_zones<T>(guarded: &[T], is_poison: impl Fn(&T) -> bool) -> Result<(), RunFault> {
    let end = guarded.len() - GUARD;
    match (0..GUARD).chain(end..guarded.len()).find(|at| !is_poison(&guarded[*at])) {
        Some(at) => {
            let offset = at as isize - GUARD as isize;
            Err(RunFault::OutOfBounds(format!("element {offset} of the output was written")))
        }
        None => Ok(()),
    }
}

/// Looks for writes around the output, and for elements that were not written.
fn check_guard<T>(guarded: &[T], is_poison: impl Fn(&T) -> bool) -> Result<(), RunFault> {
    check_zones(guarded, &is_poison)?;
    let end = guarded.len() - GUARD;
    match guarded[GUARD..end].iter().position(is_poison) {
        Some(at) => Err(RunFault::OutOfBounds(format!("element {at} of the output was not written"))),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_outside_or_a_gap_inside_the_output_is_found() {
        let is_poison = |value: &f32| value.to_bits() == POISON;
        let mut guarded = vec![f32::from_bits(POISON); 2 * GUARD + 4];
        guarded[GUARD..GUARD + 4].fill(1.0);
        assert_eq!(check_guard(&guarded, is_poison), Ok(()));
        for at in [0, GUARD - 1, GUARD + 4, 2 * GUARD + 3] {
            let mut written = guarded.clone();
            written[at] = 0.0;
            assert!(matches!(check_guard(&written, is_poison), Err(RunFault::OutOfBounds(_))), "{at}");
        }
        guarded[GUARD + 2] = f32::from_bits(POISON);
        let gap = RunFault::OutOfBounds("element 2 of the output was not written".into());
        assert_eq!(check_guard(&guarded, is_poison), Err(gap));
    }

    #[test]
    fn the_clock_has_a_resolution() {
        let resolution = Cpu::detect().timer_resolution();
        assert!(!resolution.is_zero() && resolution < Duration::from_millis(1));
    }
}
