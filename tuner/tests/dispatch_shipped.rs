//! Every weight of every shipped declaration at every M from 1 to 70,000: generated lookup, lookup of the same table loaded
//! at run time, and a naive reference agree, and every answer is launchable.
//!
//! Most declarations have no table for any device here, so decisions are made up: at each declared M, and at a few more,
//! a kernel drawn from all that are launchable, by a seed that depends on the problem alone.
//!
//! With debug assertions M goes in strides between the boundaries, all of which are visited with their neighbours;
//! without them (`cargo test --release`) no M is left out.

mod table_fixture;

/// What `tilewright compile` makes of the decisions. `TILEWRIGHT_BLESS=1` rewrites it.
#[path = "fixtures/tables/generated/shipped.rs"]
#[allow(unreachable_pub, reason = "a generated module does not know where it is mounted")]
mod generated;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use table_fixture::{decisions, default, device, row};
use tilewright::shapes::{Declaration, Gemm};
use tilewright::table::{self, Decisions, Row, Weight};
use tilewright_dispatch::{Provenance, Request, Table};
use tilewright_kernels::config::fnv1a;
use tilewright_kernels::{
    BackendKind, Config, Epilogue, Family, Layout, Problem, Scaling, families, is_launchable,
};

const LAST: u32 = 70_000;

/// The layouts that the CPU's kernels read.
const LAYOUTS: [Layout; 4] = [Layout::RowMajor, Layout::Panel16, Layout::Panel16x2, Layout::Panel16x4];

fn crate_root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn declarations() -> Vec<Declaration> {
    let folder = crate_root().parent().unwrap().join("shapes");
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<PathBuf> =
        entries.filter(|path| path.extension().is_some_and(|e| e == "toml")).collect();
    files.sort();
    Declaration::read_all(&files).unwrap()
}

/// SplitMix64 of a text.
fn draw(text: &str) -> u64 {
    let mut z = fnv1a(text.as_bytes()).wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

fn pick<'a, T>(from: &'a [T], text: &str) -> &'a T {
    &from[(draw(text) % from.len() as u64) as usize]
}

/// A kernel that runs a problem over a weight in `layout`: the first launchable one of a sequence drawn from `text`.
fn drawn(problem: &Problem, layout: Layout, deterministic: bool, text: &str) -> Config {
    let fit: Vec<&'static Family> = families()
        .iter()
        .copied()
        .filter(|f| f.backend == BackendKind::Cpu && f.formats.contains(&problem.b))
        .collect();
    let mut state = draw(text);
    let mut next = move |below: usize| {
        state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        (state >> 33) as usize % below
    };
    for _ in 0..3000 {
        let family = fit[next(fit.len())];
        let positions: Vec<u8> = family.params.iter().map(|param| next(param.domain.len()) as u8).collect();
        let config = Config::at(family, &positions);
        if config.layout() == layout
            && (!deterministic || (family.deterministic)(&config))
            && is_launchable(&config, problem, &device()).is_ok()
        {
            return config;
        }
    }
    default(problem, layout)
}

fn made_up(model: &str, gemm: &Gemm) -> Weight {
    let shape = format!("{} {} {} {} {}", gemm.n, gemm.k, gemm.out, gemm.bias, gemm.deterministic);
    let format = *pick(&gemm.formats, &format!("{shape} format"));
    let mut weight = Weight {
        name: format!("{model}.{}", gemm.name),
        n: gemm.n,
        k: gemm.k,
        count: gemm.count,
        activation: gemm.activation,
        format,
        scaling: Scaling::usual(format),
        layout: *pick(&LAYOUTS, &format!("{shape} layout")),
        out: gemm.out,
        epilogue: if gemm.bias { Epilogue::Bias } else { Epilogue::None },
        deterministic: gemm.deterministic,
        second: None,
        error: None,
        max_error: gemm.max_error,
        alternatives: vec![],
        rows: vec![],
    };
    let more = (0..3).map(|i| {
        let octaves = (draw(&format!("{shape} more {i}")) % 1600) as f64 / 100.0;
        octaves.exp2() as u32
    });
    let points: BTreeSet<u32> = gemm.m.iter().map(|point| point.m).chain(more).collect();
    for m in points {
        let problem = weight.key().problem(m);
        let kernel =
            |rank| drawn(&problem, weight.layout, weight.deterministic, &format!("{shape} {m} {rank}"));
        let winner = kernel(0);
        let mut others: Vec<Config> =
            [1, 2].map(kernel).into_iter().filter(|other| *other != winner).collect();
        others.dedup();
        weight.rows.push(row(&weight, m, &winner, &others, &[]));
    }
    weight
}

/// All weights of all declarations, as one table.
fn shipped() -> Decisions {
    let mut all = decisions();
    all.model = "shipped".into();
    let gemms = |declaration: &Declaration| -> Vec<Weight> {
        declaration.gemms.iter().map(|gemm| made_up(&declaration.model, gemm)).collect()
    };
    all.weights = declarations().iter().flat_map(gemms).collect();
    all
}

/// The row whose interval holds `m`, by geometric means in floating point.
fn naive<'a>(rows: &[&'a Row], m: u32) -> &'a Row {
    let above = |pair: &[&Row]| (f64::from(pair[0].m) * f64::from(pair[1].m)).sqrt() < f64::from(m);
    rows[rows.windows(2).filter(|pair| above(pair)).count()]
}

#[test]
fn generated_loaded_and_naive_lookup_agree_on_every_shipped_weight() {
    let decisions = shipped();
    let folder = crate_root().join("tests/fixtures/tables/generated");
    let text = table::compile(&decisions).unwrap().rs;
    if std::env::var_os("TILEWRIGHT_BLESS").is_some() {
        std::fs::write(folder.join("shipped.rs"), &text).unwrap();
    }
    assert!(
        std::fs::read_to_string(folder.join("shipped.rs")).unwrap_or_default() == text,
        "shipped.rs is stale: run this test with TILEWRIGHT_BLESS=1 and review the diff"
    );
    let file = tempfile::tempdir().unwrap().keep().join("shipped.toml");
    std::fs::write(&file, decisions.to_toml()).unwrap();
    let loaded = Table::bind(table::load(&file).unwrap(), &device());
    std::fs::remove_dir_all(file.parent().unwrap()).unwrap();
    let generated = Table::bind(&generated::TABLE, &device());
    assert_eq!((generated.faults(), loaded.faults()), (&[][..], &[][..]));
    assert!(decisions.weights.len() >= 54, "all declarations are there");

    let halves = decisions.weights.len() / 2;
    std::thread::scope(|scope| {
        for weights in [&decisions.weights[..halves], &decisions.weights[halves..]] {
            scope.spawn(|| weights.iter().for_each(|weight| agree(weight, &decisions, &generated, &loaded)));
        }
    });
}

fn agree(weight: &Weight, decisions: &Decisions, generated: &Table<'_>, loaded: &Table<'_>) {
    // Weights of one key share their rows.
    let key = weight.key();
    let mut rows: Vec<&Row> =
        decisions.weights.iter().filter(|other| other.key() == key).flat_map(|other| &other.rows).collect();
    rows.sort_by_key(|row| row.m);
    rows.dedup_by_key(|row| row.m);
    let winners: Vec<Config> = rows.iter().map(|row| Config::parse(&row.config).unwrap()).collect();
    let (first, last) = (rows[0].m, rows[rows.len() - 1].m);
    for m in points(generated, weight) {
        let problem = key.problem(m);
        let request = Request { problem, layout: weight.layout, deterministic: weight.deterministic };
        let choice = loaded.lookup(&request).unwrap();
        assert_eq!(generated.lookup(&request), Ok(choice), "{problem}");
        assert_eq!(is_launchable(&choice.config, &problem, &device()), Ok(()), "{problem}");
        let row = naive(&rows, m);
        let winner = &winners[rows.iter().position(|other| other.m == row.m).unwrap()];
        if is_launchable(winner, &problem, &device()).is_ok() {
            assert_eq!(choice.config, *winner, "{problem}");
        }
        let expected = if row.m == m {
            Provenance::Exact
        } else {
            Provenance::Interval { extrapolated: m < first || m > last }
        };
        assert_eq!((choice.provenance, choice.rank), (expected, 0), "{problem}");
    }
}

/// The M to ask about.
fn points(table: &Table<'_>, weight: &Weight) -> Vec<u32> {
    if !cfg!(debug_assertions) {
        return (1..=LAST).collect();
    }
    let plan = table.weight(&weight.name).unwrap();
    let group = &table.data().groups[plan.group as usize];
    let near = table.data().segments_of(group).flat_map(|segment| [segment.from, segment.m]);
    let near = near.flat_map(|m| m.saturating_sub(2).max(1)..=m.saturating_add(2).min(LAST));
    let points: BTreeSet<u32> = near.chain(1..=300).chain((300..=LAST).step_by(61)).chain([LAST]).collect();
    points.into_iter().collect()
}
