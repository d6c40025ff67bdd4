//! A small table for tests: five weights of a small model on a device that exists only here.
#![allow(dead_code, reason = "every test binary uses its own part")]

use tilewright::table::{Alternative, Decisions, DeviceRecord, Row, Tie, Verdict, Weight};
use tilewright_kernels::backend::{Fingerprint, Regime};
use tilewright_kernels::{
    BackendKind, Caps, Config, Device, Domain, Epilogue, Format, Layout, OutType, Problem, Scaling, families,
    family, is_launchable,
};

/// The M points of every weight.
pub(crate) const POINTS: [u32; 6] = [1, 4, 16, 32, 64, 256];

pub(crate) fn device() -> Device {
    // Named one by one: a feature that is added later must not change this device.
    let caps =
        Caps::AVX2.with(Caps::AVX512).with(Caps::AVX512_VBMI).with(Caps::AVX512_BF16).with(Caps::AVX512_VNNI);
    Device { backend: BackendKind::Cpu, caps, units: 4, l1_kib: 48, l2_kib: 2048, llc_kib: 32768 }
}

pub(crate) fn fingerprint() -> Fingerprint {
    Fingerprint {
        backend: BackendKind::Cpu,
        model: "Fixture CPU @ 2.00GHz".into(),
        features: device().caps.names().map(str::to_owned).collect(),
        units: 4,
    }
}

pub(crate) fn record() -> DeviceRecord {
    let print = fingerprint();
    DeviceRecord { key: print.key(), fingerprint: print.to_string(), device: device() }
}

/// The default kernel of a problem over a weight in `layout`.
pub(crate) fn default(problem: &Problem, layout: Layout) -> Config {
    family::fallback(problem, layout, &device()).expect("the CPU has a default")
}

/// A kernel for at most 32 rows, the `variant`-th of those that differ from the first launchable one in their tile.
pub(crate) fn skinny(problem: &Problem, layout: Layout, variant: usize) -> Config {
    let problem = problem.with_m(1);
    let family = families()
        .iter()
        .find(|f| f.name.starts_with("cpu.skinny") && f.formats.contains(&problem.b))
        .expect("a skinny family for every format");
    let mut config = Config::at(family, &vec![0; family.params.len()]);
    config = config.with("layout", layout as u32);
    let Domain::Numbers(tiles) = family.params[family.param_index("tile_n").unwrap()].domain else {
        panic!()
    };
    if let Some(panels) = layout.interleave() {
        config = config.with("tile_n", tiles.iter().copied().find(|t| *t == 16 * panels).unwrap());
    }
    let config = config.with("tile_m", [1, 2, 4][variant]);
    is_launchable(&config, &problem, &device()).expect("the portable path runs everywhere");
    config
}

/// The default kernel with another number of threads.
pub(crate) fn threads(problem: &Problem, layout: Layout, threads: u32) -> Config {
    default(problem, layout).with("threads", threads)
}

/// A row whose times are made up from the problem's size.
pub(crate) fn row(
    weight: &Weight,
    m: u32,
    kernel: &Config,
    others: &[Config],
    ties: &[(f64, Config)],
) -> Row {
    let problem = weight.key_at(m).problem(m);
    let time_ns = 1000.5 + problem.flops() as f64 / 64.0;
    Row {
        m,
        weight: 1.0,
        verdict: if ties.is_empty() { Verdict::Decided } else { Verdict::Tied(1 + ties.len() as u32) },
        config: kernel.to_string(),
        id: kernel.id(),
        time_ns,
        interval_ns: [time_ns * 0.99, time_ns * 1.01],
        default: default(&problem, weight.key_at(m).layout).to_string(),
        default_ns: time_ns * 1.5,
        runner_ups: others.iter().map(Config::to_string).collect(),
        tie_set: ties
            .iter()
            .map(|(ratio, kernel)| Tie { ratio: *ratio, config: kernel.to_string() })
            .collect(),
    }
}

/// A weight with a row at each of `points`: skinny kernels up to 32 rows, tiled ones above.
pub(crate) fn weight(name: &str, n: u32, k: u32, format: Format, layout: Layout, points: &[u32]) -> Weight {
    let mut weight = Weight {
        name: name.into(),
        n,
        k,
        count: 30,
        activation: Format::Bf16,
        format,
        scaling: Scaling::usual(format),
        layout,
        out: OutType::F32,
        epilogue: Epilogue::None,
        deterministic: false,
        second: None,
        error: Some(0.0125),
        max_error: Some(0.05),
        alternatives: vec![],
        rows: vec![],
    };
    for &m in points {
        let problem = weight.key().problem(m);
        // Four threads and two are both legal for every M, so they are runners-up everywhere.
        let tiled = [threads(&problem, layout, 4), threads(&problem, layout, 2)];
        let made = match m {
            1..=2 => row(&weight, m, &skinny(&problem, layout, 0), &tiled, &[]),
            3..=32 => row(
                &weight,
                m,
                &skinny(&problem, layout, 2),
                &[skinny(&problem, layout, 1), tiled[0]],
                &[(1.01, skinny(&problem, layout, 1))],
            ),
            _ => row(&weight, m, &tiled[0], &tiled[1..], &[]),
        };
        weight.rows.push(made);
    }
    weight
}

/// The table.
pub(crate) fn decisions() -> Decisions {
    let mut weights = vec![
        weight("attn.qkv", 960, 576, Format::MxFp6E2m3, Layout::Panel16, &POINTS),
        weight("attn.o", 576, 576, Format::MxFp6E2m3, Layout::Panel16, &POINTS),
        weight("mlp.gate_up", 3072, 576, Format::Fp8E4m3, Layout::Panel16, &POINTS),
        weight("mlp.down", 576, 1536, Format::MxFp6E2m3, Layout::Panel16, &POINTS),
        // Measured with few rows only, as a decoder's last layer is: what follows is extrapolated.
        weight("lm_head", 49152, 576, Format::Bf16, Layout::Panel16, &[1, 4]),
    ];
    weights[0].alternatives = vec![
        Alternative {
            activation: Format::Bf16,
            format: Format::Fp8E4m3,
            layout: Some(Layout::Panel16),
            ratio: Some(1.25),
            error: Some(0.02),
            reason: "slower".into(),
        },
        Alternative {
            activation: Format::Bf16,
            format: Format::MxFp6E3m2,
            layout: Some(Layout::Panel16),
            ratio: None,
            error: Some(0.07),
            reason: "over max_error".into(),
        },
    ];
    weights[3].deterministic = true;
    weights[4].count = 1;
    Decisions {
        model: "fixture".into(),
        tensor_parallel: 1,
        generator: "tilewright tests".into(),
        declaration: 0x0123_4567_89ab_cdef,
        seed: 7,
        regime: Regime::Cold,
        device: record(),
        weights,
    }
}
