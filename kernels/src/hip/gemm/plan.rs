//! Buffers and launches of a tiled GEMM: pack the activation, multiply.

use super::tile::{Tile, XCDS, code};
use crate::config::Config;
use crate::device::Device;
use crate::hip::launch::{Arg, Plan, Source, Step};
use crate::hip::quantise;
use crate::problem::{Epilogue, OutType, Problem};

/// The kernel's text.
const TEXT: &str = concat!(
    include_str!("../../../hip/prelude.hip"),
    "#line 1 \"gemm_tile.hip\"\n",
    include_str!("../../../hip/gemm_tile.hip"),
    "#line 1 \"gemm_copy.hip\"\n",
    include_str!("../../../hip/gemm_copy.hip"),
    "#line 1 \"gemm_multiply.hip\"\n",
    include_str!("../../../hip/gemm_multiply.hip"),
    "#line 1 \"gemm.hip\"\n",
    include_str!("../../../hip/gemm.hip")
);

/// What a launch of a config needs. The config is launchable on the problem.
pub fn plan(config: &Config, problem: &Problem, device: &Device) -> Plan {
    let t = Tile::of(config, problem);
    let (m, k) = (problem.m, problem.k);
    let (scratch, pack) = if t.c0c1 {
        (quantise::c0c1_scratch(m, k), quantise::c0c1_step(m, k, 0))
    } else {
        (quantise::scratch(problem.a, m, k), quantise::step(problem.a, m, k, 0))
    };
    // bf16 has no scales; the kernel does not touch its pointers to them.
    let scaled = scratch.len() > 1;
    let groups = t.groups(problem, device);
    let pointers = [
        Arg::Scratch(0),
        Arg::Weight(0),
        Arg::Scratch(usize::from(scaled)),
        Arg::Weight(usize::from(scaled)),
        Arg::Bias,
        Arg::Output,
    ];
    let numbers = [problem.m, problem.n, problem.k, groups].map(Arg::U32);
    let multiply = Step {
        source: source(&t, problem),
        grid: [groups, 1],
        threads: 64 * t.waves(),
        lds_bytes: 0,
        args: [&pointers[..], &numbers[..]].concat(),
        packs_activation: false,
    };
    Plan { scratch, steps: vec![pack, multiply] }
}

/// The kernel of a tile, for any M and K that it takes, and any N that is a multiple of 4 or any that is not.
pub fn source(t: &Tile, problem: &Problem) -> Source {
    let flag = |on: bool| u32::from(on);
    let scales = match (problem.b.is_mx(), problem.b.bits()) {
        (true, _) => 1,
        (_, 8) => 2,
        _ => 0,
    };
    let values = [
        ("A_FORMAT", code(problem.a)),
        ("B_FORMAT", code(problem.b)),
        ("SCALES", scales),
        ("C0C1", flag(t.c0c1)),
        ("TILE_M", t.tile_m),
        ("TILE_N", t.tile_n),
        ("TILE_K", t.tile_k),
        ("WAVES_M", t.waves_m),
        ("WAVES_N", t.waves_n),
        ("STAGES", t.stages),
        ("MFMA", t.mfma),
        ("STREAMED", flag(t.streamed)),
        ("GROUP_M", t.group_m),
        ("XCDS", if t.xcd { XCDS } else { 1 }),
        ("PERSISTENT", flag(t.persistent)),
        ("PRIORITY", flag(t.priority)),
        ("NT_STORES", flag(t.nt_stores)),
        ("GROUPS_PER_CU", t.groups_per_cu),
        ("OUT_BF16", flag(problem.out == OutType::Bf16)),
        ("BIAS", flag(problem.epilogue == Epilogue::Bias)),
        ("N_ALIGNED", flag(problem.n.is_multiple_of(4))),
    ];
    Source {
        file: "gemm.hip",
        text: TEXT,
        entry: "gemm",
        defines: values.iter().map(|(name, value)| format!("{name}={value}")).collect(),
    }
}
