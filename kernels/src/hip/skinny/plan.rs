//! Buffers and launches of a skinny GEMM: pack the activation if need be, multiply, add the parts if a second kernel
//! does.

use super::shape::{Reduce, Shape};
use crate::config::Config;
use crate::format::Format;
use crate::hip::launch::{Arg, Plan, Scratch, Source, Step};
use crate::hip::quantise;
use crate::problem::{Epilogue, OutType, Problem};

const MULTIPLY: &str = concat!(
    include_str!("../../../hip/prelude.hip"),
    "#line 1 \"skinny_finish.hip\"\n",
    include_str!("../../../hip/skinny_finish.hip"),
    "#line 1 \"skinny_operands.hip\"\n",
    include_str!("../../../hip/skinny_operands.hip"),
    "#line 1 \"skinny.hip\"\n",
    include_str!("../../../hip/skinny.hip")
);
const REDUCE: &str = concat!(
    include_str!("../../../hip/prelude.hip"),
    "#line 1 \"skinny_finish.hip\"\n",
    include_str!("../../../hip/skinny_finish.hip"),
    "#line 1 \"skinny_reduce.hip\"\n",
    include_str!("../../../hip/skinny_reduce.hip")
);
/// Work-items of a workgroup of the second kernel.
const REDUCE_THREADS: u32 = 256;

/// Number of the architecture's cache bits of a load: sc0 1, nt 2, sc1 16.
const CACHE_BITS: [u32; 3] = [0, 2, 1 | 2 | 16];

/// The kernels' macros `WEIGHT` and `ACTIVATION`.
fn number(format: Format) -> u32 {
    quantise::number(format).expect("the predicate let it through")
}

fn defines(values: &[(&str, u32)]) -> Vec<String> {
    values.iter().map(|(name, value)| format!("{name}={value}")).collect()
}

/// What a launch of a skinny config needs. The config is launchable on the problem.
pub fn plan(config: &Config, problem: &Problem) -> Plan {
    let s = Shape::of(config, problem);
    let mut made = Plan { scratch: Vec::new(), steps: Vec::new() };
    let mut activation = Arg::Activation;
    if !s.direct {
        made.scratch = quantise::scratch(problem.a, problem.m, problem.k);
        made.steps.push(quantise::step(problem.a, problem.m, problem.k, 0));
        activation = Arg::Scratch(0);
    }
    let scaled = problem.b != Format::Bf16;
    let mut args = vec![Arg::Weight(0), activation];
    if scaled {
        args.extend([Arg::Weight(1), Arg::Scratch(1)]);
    }
    args.extend([Arg::Bias, Arg::Output]);
    let split = s.split_k > 1;
    let partial = made.scratch.len();
    if split {
        let copies = if s.reduce == Reduce::Atomic { 1 } else { s.split_k as usize };
        let bytes = copies * problem.m as usize * problem.n as usize * 4;
        made.scratch.push(Scratch { bytes, zeroed: s.reduce == Reduce::Atomic });
        args.push(Arg::Scratch(partial));
        if s.reduce != Reduce::SecondPass {
            made.scratch.push(Scratch { bytes: s.tiles(problem.n) as usize * 4, zeroed: true });
            args.push(Arg::Scratch(partial + 1));
        }
    }
    let sizes = [problem.m, problem.n, problem.k, s.split_k].map(Arg::U32);
    args.extend(sizes);
    made.steps.push(Step {
        source: Source {
            file: "skinny.hip",
            text: MULTIPLY,
            entry: "skinny",
            defines: multiply_defines(&s, problem),
        },
        grid: [s.tiles(problem.n), s.split_k],
        threads: 64 * s.total_waves(),
        lds_bytes: 0,
        args,
        packs_activation: false,
    });
    if split && s.reduce == Reduce::SecondPass {
        made.steps.push(second_pass(&s, problem, partial));
    }
    made
}

fn multiply_defines(s: &Shape, problem: &Problem) -> Vec<String> {
    let reduce = if s.split_k == 1 { 0 } else { 1 + s.reduce as u32 };
    let mut values = vec![
        ("ACTIVATION", number(problem.a)),
        ("FORM", s.form as u32),
        ("PANELS", s.panels),
        ("WAVES", s.waves),
        ("PRODUCERS", s.producers),
        ("DEPTH", s.depth),
        ("STEPS", s.steps),
        ("REDUCE", reduce),
        ("CACHE", CACHE_BITS[s.cache as usize]),
        ("DIRECT", u32::from(s.direct)),
    ];
    values.extend(finish_values(problem));
    defines(&values)
}

fn finish_values(problem: &Problem) -> [(&'static str, u32); 3] {
    [
        ("WEIGHT", number(problem.b)),
        ("OUT_BF16", u32::from(problem.out == OutType::Bf16)),
        ("BIAS", u32::from(problem.epilogue == Epilogue::Bias)),
    ]
}

fn second_pass(s: &Shape, problem: &Problem, partial: usize) -> Step {
    let mut args = vec![Arg::Scratch(partial)];
    if number(problem.b) == 1 {
        args.extend([Arg::Weight(1), Arg::Scratch(1)]);
    }
    args.extend([Arg::Bias, Arg::Output]);
    args.extend([problem.m, problem.n, s.split_k].map(Arg::U32));
    Step {
        source: Source {
            file: "skinny_reduce.hip",
            text: REDUCE,
            entry: "reduce",
            defines: defines(&finish_values(problem)),
        },
        grid: [(problem.m * problem.n).div_ceil(REDUCE_THREADS), 1],
        threads: REDUCE_THREADS,
        lds_bytes: 0,
        args,
        packs_activation: false,
    }
}
