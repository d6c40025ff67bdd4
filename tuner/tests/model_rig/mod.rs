//! Tuning runs whose times come from a formula: everything that decides is real, and so is the journal.

#![allow(dead_code, reason = "each test crate uses a part of it")]

use std::path::Path;

use tilewright::bench::{BenchFault, Sample};
use tilewright::journal::{DeviceRecord as Recorded, History, Journal, RunHeader, read};
use tilewright::shapes::Declaration;
use tilewright::table::{self, Decisions, Finalist};
use tilewright::tune::{
    Candidate, FormatPair, InOrder, Outcome, Recorder, ReplayRig, Rig, Settings, Silent, Work, assemble,
    plan_work, tune,
};
use tilewright_kernels::backend::Regime;
use tilewright_kernels::{BackendKind, Format};

use crate::table_fixture::{device, record};

/// A device whose launches take what a formula says, give or take half a percent.
pub(crate) struct ModelRig<F> {
    time_ns: F,
    state: u64,
    now_ns: f64,
}

impl<F: FnMut(&Candidate) -> f64> ModelRig<F> {
    pub(crate) fn new(time_ns: F) -> Self {
        ModelRig { time_ns, state: 1, now_ns: 0.0 }
    }
}

impl<F: FnMut(&Candidate) -> f64> Rig for ModelRig<F> {
    fn quality(&mut self, _: &Work<'_>, pair: FormatPair) -> anyhow::Result<f64> {
        Ok(if pair.weight == Format::Bf16 { 0.001 } else { 0.02 })
    }

    fn announce(&mut self, _: &Work<'_>, _: &[Format]) {}

    fn open(&mut self, _: &Work<'_>, _: &[Format]) -> anyhow::Result<()> {
        Ok(())
    }

    fn admit(&mut self, _: &Candidate) -> Result<(), BenchFault> {
        Ok(())
    }

    fn time(&mut self, candidate: &Candidate, _: usize) -> Result<Sample, BenchFault> {
        self.state = self.state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        let noise = 1.0 + ((self.state >> 33) as f64 / f64::from(1u32 << 31) - 0.5) / 100.0;
        let ns = (self.time_ns)(candidate) * noise;
        self.now_ns += ns;
        Ok(Sample { ns, at_ns: self.now_ns })
    }
}

/// What a run decided, and the files it would leave.
pub(crate) struct Tuned {
    pub(crate) decisions: Decisions,
    pub(crate) evidence: Vec<Finalist>,
    pub(crate) outcome: Outcome,
    /// Decisions, evidence and module.
    pub(crate) files: [String; 3],
}

fn header(declaration: &Declaration) -> RunHeader {
    let record = record();
    let print = crate::table_fixture::fingerprint();
    let device = device();
    RunHeader {
        version: "test".into(),
        fingerprint: record.fingerprint,
        device: Recorded {
            backend: device.backend.name().into(),
            model: print.model,
            features: print.features,
            caps: device.caps.names().map(str::to_owned).collect(),
            units: device.units,
            caches_kib: [device.l1_kib, device.l2_kib, device.llc_kib],
        },
        declaration: format!("{:016x}", declaration.hash),
        tables: String::new(),
        seed: 1,
        budget_s: None,
        per_gemm_s: None,
        part: None,
        tools: Default::default(),
        regime: "hot".into(),
        resolution_ns: 20.0,
    }
}

/// Tunes a declaration on a rig, from nothing or beside a table, and writes a journal if there is a place for one.
pub(crate) fn run(
    shapes: &str,
    rig: Box<dyn Rig + '_>,
    journal: Option<&Path>,
    previous: Option<&Decisions>,
) -> Tuned {
    let declaration = Declaration::parse(Path::new("model.toml"), shapes).unwrap();
    let works = plan_work(&declaration, BackendKind::Cpu, None).unwrap();
    let journal = journal.map(|path| Journal::open(path).unwrap().0);
    let settings = Settings { max_evaluations: 24, patience: 12, warmup_ns: 1e6, ..Settings::default() };
    let outcome = tune(
        &works,
        &device(),
        &header(&declaration),
        &History::new(Vec::new()),
        &[],
        previous,
        &settings,
        &mut InOrder::new(&works, &settings),
        &mut Recorder::new(rig, journal),
        &mut Silent,
    );
    let (decisions, evidence) =
        assemble(&declaration, &works, &outcome.results, record(), 1, Regime::Hot, None);
    let module = table::compile(&decisions).unwrap().rs;
    let files = [decisions.to_toml(), table::evidence::to_csv(&evidence), module];
    Tuned { decisions, evidence, outcome, files }
}

/// Repeats a run from its journal.
pub(crate) fn replay(shapes: &str, journal: &Path, previous: Option<&Decisions>) -> Tuned {
    let mut history = History::new(read(journal).unwrap().records);
    let last = history.segments.pop().expect("a run");
    run(shapes, Box::new(ReplayRig::new(&last.records)), None, previous)
}

/// A factor of at most 20 % that depends on the config alone, so that there is something to search for.
pub(crate) fn config_factor(candidate: &Candidate) -> f64 {
    1.0 + (candidate.config.id().0 >> 40) as f64 / f64::from(1 << 24) / 5.0
}
