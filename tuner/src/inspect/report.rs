//! An inspection as text.

use std::fmt::{self, Display, Formatter};

use tilewright_kernels::hip::launch::Step;

use super::caches::LINE;
use super::code::access;
use super::{Inspected, Inspection, published};
use crate::units::time;

impl Display for Inspection {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let (machine, problem) = (self.machine, &self.problem);
        writeln!(f, "{}", self.config)?;
        writeln!(f, "{problem}")?;
        writeln!(f, "{} ({}), compiled by {}", machine.arch, machine.name, self.compiler)?;
        for (step, inspected) in self.plan.steps.iter().zip(&self.steps) {
            self.step(f, step, inspected)?;
        }
        writeln!(
            f,
            "\nprediction, not a measurement: the longest of what each resource needs at the vendor's rate"
        )?;
        let mut total = 0.0;
        for (step, inspected) in self.plan.steps.iter().zip(&self.steps) {
            let (bound, seconds) = inspected.terms.bound();
            let terms: Vec<String> =
                inspected.terms.named().iter().map(|(name, s)| format!("{name} {}", time(s * 1e9))).collect();
            writeln!(
                f,
                "  {:<10} {:>9} by {bound:<5} ({})",
                step.source.entry,
                time(seconds * 1e9),
                terms.join(", ")
            )?;
            total += seconds;
        }
        writeln!(f, "  all steps  {:>9}, launches and latencies not counted", time(total * 1e9))?;
        writeln!(f, "  search     {:>9}, the estimate that orders candidates", time(self.prior * 1e9))?;
        if let Some((seconds, by)) = published::time(machine.arch, self.config.family().name, problem) {
            writeln!(
                f,
                "  published  {:>9}, measured by others on an {}: {by}",
                time(seconds * 1e9),
                machine.name
            )?;
        }
        Ok(())
    }
}

impl Inspection {
    fn step(&self, f: &mut Formatter<'_>, step: &Step, seen: &Inspected) -> fmt::Result {
        let code = &seen.code;
        let [x, y] = step.grid;
        writeln!(f, "\n{}: {x} x {y} workgroups of {}", step.source.entry, step.threads)?;
        writeln!(
            f,
            "  registers   {} ({} accumulation), {} vector and {} scalar spills, {} B scratch, {} B LDS",
            code.registers,
            code.accumulation,
            code.spills[0],
            code.spills[1],
            code.scratch_bytes,
            code.lds_bytes + step.lds_bytes
        )?;
        let [registers, lds, slots] = seen.occupancy;
        let least = registers.min(lds).min(slots);
        let by = match least {
            n if n == registers => "registers",
            n if n == lds => "LDS",
            _ => "wave slots",
        };
        writeln!(f, "  occupancy   {least} workgroups a compute unit, limited by {by}")?;
        let accesses: Vec<String> = code
            .accesses()
            .into_iter()
            .rev()
            .map(|((kind, bytes), count)| format!("{count} {kind} of {bytes} B"))
            .collect();
        let all: u32 = code.mix.values().sum();
        writeln!(f, "  code        {all} instructions; a lane's accesses: {}", accesses.join(", "))?;
        if !code.main_loop.is_empty() {
            self.main_loop(f, seen)?;
        }
        self.traffic(f, step, seen)
    }

    fn main_loop(&self, f: &mut Formatter<'_>, seen: &Inspected) -> fmt::Result {
        let code = &seen.code;
        let count = |test: &dyn Fn(&str) -> bool| code.main_loop.iter().filter(|m| test(m)).count();
        let waits: Vec<String> = code.waits.iter().flatten().map(|vmcnt| vmcnt.to_string()).collect();
        let waits = if waits.is_empty() { "none".into() } else { waits.join(" ") };
        writeln!(
            f,
            "  main loop   {} instructions: {} matrix, {} memory, {} LDS, {} barriers; waits for vmcnt: {waits}",
            code.main_loop.len(),
            count(&|m| m.starts_with("v_mfma") || m.starts_with("v_smfmac")),
            count(&|m| access(m).is_some()),
            count(&|m| m.starts_with("ds_")),
            count(&|m| m == "s_barrier"),
        )
    }

    fn traffic(&self, f: &mut Formatter<'_>, step: &Step, seen: &Inspected) -> fmt::Result {
        let (report, reuse) = (&seen.run.report, &seen.run.reuse);
        let t = &report.traffic;
        let p = &self.emulated;
        writeln!(f, "  emulated    at m={} n={} k={}: {} workgroups", p.m, p.n, p.k, seen.run.groups)?;
        writeln!(
            f,
            "  executed    {} wave-instructions, {:.1} % matrix",
            report.instructions,
            100.0 * report.matrix_share()
        )?;
        writeln!(
            f,
            "  memory      {} read, {} written; {:.2} lines an ideal line",
            bytes(t.load_bytes),
            bytes(t.store_bytes),
            ratio(t.lines, t.lines_ideal)
        )?;
        let line = |n: u64| bytes(n * LINE);
        writeln!(
            f,
            "  caches      {} asked of L2, {} of the MALL, {} of memory (a model); {} are different",
            line(reuse.requests),
            line(reuse.l2_misses),
            line(reuse.mall_misses),
            line(reuse.distinct)
        )?;
        if step.source.entry != "quantise"
            && step.args.contains(&tilewright_kernels::hip::launch::Arg::Weight(0))
        {
            let [m, n, k] = [p.m, p.n, p.k].map(|d| d as usize);
            let operand = |format: tilewright_kernels::Format, rows: usize| {
                (rows * format.row_bytes(k)) as u64 + if format.is_mx() { (rows * k / 32) as u64 } else { 0 }
            };
            let least = operand(p.b, n)
                + operand(p.a, m)
                + (m * n * if p.out.name() == "f32" { 4 } else { 2 }) as u64;
            let moved = reuse.mall_misses * LINE;
            writeln!(
                f,
                "  minimum     {} for A, B and D once: {:.2} times that came from memory",
                bytes(least),
                moved as f64 / least as f64
            )?;
        }
        if t.lds_cycles > 0 {
            writeln!(
                f,
                "  LDS         {} cycles of 32 banks, {:.2} times as many as without conflicts",
                t.lds_cycles,
                ratio(t.lds_cycles, t.lds_cycles_ideal)
            )?;
        }
        Ok(())
    }
}

fn ratio(of: u64, to: u64) -> f64 {
    of as f64 / to.max(1) as f64
}

/// Bytes with a unit.
fn bytes(n: u64) -> String {
    match n {
        0..10_000 => format!("{n} B"),
        10_000..10_000_000 => format!("{:.1} kB", n as f64 / 1e3),
        10_000_000..10_000_000_000 => format!("{:.1} MB", n as f64 / 1e6),
        _ => format!("{:.1} GB", n as f64 / 1e9),
    }
}
