//! From validated decisions to the data of a table: fewest kernels, intervals, groups and their index.
//!
//! What is emitted as Rust and what is bound at run time come from the same [`Lowered`], so that they cannot differ.

use std::collections::{BTreeMap, BTreeSet};

use tilewright_dispatch::TableData;
use tilewright_dispatch::table::{
    Code, Group, Kernel, Key, NO_KERNEL, PackedSegment, SecondCopy, Segment, WeightPlan,
};
use tilewright_kernels::{Config, ConfigId, config::fnv1a, is_launchable};

use super::cover::{Candidates, cover};
use super::decisions::{Row, Weight};
use super::intervals::{Piece, Point, tile};
use super::parse::Located;
use super::perfect_hash::Index;
use super::validate::validate;
use crate::diag::BadInput;

/// A table's data, owned.
pub struct Lowered<'a> {
    located: &'a Located,
    texts: Vec<String>,
    weights: Vec<WeightPlan<'a>>,
    groups: Vec<Group>,
    segments: Vec<PackedSegment>,
    index: Index,
    /// What is worth knowing about the decisions.
    pub warnings: Vec<String>,
    /// Distinct kernels the rows run, after and before the set cover.
    pub kernels: [usize; 2],
    /// Time of a forward pass with the kernels taken, relative to one with every row's own winner: what the set cover
    /// costs, by the measured ratios.
    pub cost: f64,
}

impl<'a> Lowered<'a> {
    /// Validates and lowers.
    ///
    /// # Errors
    /// All faults of the decisions.
    pub fn of(located: &'a Located) -> Result<Self, BadInput> {
        let mut warnings = validate(located)?;
        let entries = entries(located);
        let taken = cover(&candidates(&entries));
        let (mut spent, mut least) = (0.0, 0.0);
        for (entry, kernel) in entries.iter().zip(&taken) {
            let tie = entry.row.tie_set.iter().find(|tie| tie.config == **kernel);
            let time = entry.weight.count as f64 * entry.row.weight * entry.row.time_ns;
            least += time;
            spent += time * tie.map_or(1.0, |tie| tie.ratio);
        }
        let winners: BTreeSet<&str> = entries.iter().map(|entry| entry.row.config.as_str()).collect();
        let distinct: BTreeSet<&str> = taken.iter().copied().collect();

        let mut builder =
            Builder { located, pieces: Vec::new(), texts: BTreeSet::new(), warnings: &mut warnings };
        for run in entries.chunk_by(|a, b| a.code == b.code) {
            let first = entries.partition_point(|entry| entry.code < run[0].code);
            builder.group(run, &taken[first..first + run.len()]);
        }
        let Builder { pieces, texts, .. } = builder;
        let texts: Vec<String> = texts.into_iter().collect();
        if texts.len() >= NO_KERNEL as usize || pieces.len() >= NO_KERNEL as usize {
            return Err(BadInput(vec![located.fault(
                "weight",
                "more than 65,534 kernels or keys",
                "split the model into several tables",
            )]));
        }
        let (groups, segments) = flatten(&pieces, &texts);
        let codes: Vec<Code> = groups.iter().map(|group: &Group| group.key.encode()).collect();
        let group_of = |key: Key| codes.binary_search(&key.encode()).expect("every copy has rows") as u16;
        let weights = located.decisions.weights.iter().map(|weight| WeightPlan {
            name: &weight.name,
            count: weight.count,
            deterministic: weight.deterministic,
            group: group_of(weight.key()),
            second: weight
                .second
                .as_ref()
                .zip(weight.second_key())
                .map(|(second, key)| SecondCopy { from: second.from, group: group_of(key) }),
        });
        Ok(Lowered {
            located,
            weights: weights.collect(),
            index: Index::search(&codes),
            texts,
            groups,
            segments,
            warnings,
            kernels: [distinct.len(), winners.len()],
            cost: if least > 0.0 { spent / least } else { 1.0 },
        })
    }

    /// Calls `use_it` with the table's data.
    pub fn with<R>(&self, use_it: impl FnOnce(&TableData<'_>) -> R) -> R {
        use_it(&self.data(&self.kernels_data()))
    }

    fn kernels_data(&self) -> Vec<Kernel<'_>> {
        self.texts.iter().map(|text| Kernel { id: ConfigId::of_text(text).0, text }).collect()
    }

    fn data<'d>(&'d self, kernels: &'d [Kernel<'d>]) -> TableData<'d> {
        let mut lines = self.texts.join("\n");
        lines.push('\n');
        let decisions = &self.located.decisions;
        TableData {
            schema: tilewright_dispatch::table::SCHEMA,
            model: &decisions.model,
            tensor_parallel: decisions.tensor_parallel,
            device: &decisions.device.key,
            fingerprint: &decisions.device.fingerprint,
            declaration: decisions.declaration,
            kernel_set: fnv1a(lines.as_bytes()),
            kernels,
            weights: &self.weights,
            groups: &self.groups,
            segments: &self.segments,
            index: self.index.as_data(),
        }
    }
}

impl Lowered<'static> {
    /// The table's data, for as long as the process lives.
    pub(super) fn leaked(&'static self) -> &'static TableData<'static> {
        let kernels: &'static [Kernel<'static>] = self.kernels_data().leak();
        Box::leak(Box::new(self.data(kernels)))
    }
}

/// A row that the table keeps.
struct Entry<'a> {
    code: Code,
    weight_index: u16,
    weight: &'a Weight,
    row: &'a Row,
}

/// The rows in order of code and M; of weights with one key, the first in the file speaks for an M.
fn entries(located: &Located) -> Vec<Entry<'_>> {
    let mut kept = BTreeMap::new();
    for (index, weight) in located.decisions.weights.iter().enumerate() {
        for row in &weight.rows {
            let code = weight.key_at(row.m).encode();
            kept.entry((code, row.m)).or_insert(Entry { code, weight_index: index as u16, weight, row });
        }
    }
    kept.into_values().collect()
}

fn candidates<'a>(entries: &[Entry<'a>]) -> Vec<Candidates<'a>> {
    let mut run = 0;
    let mut rows = Vec::with_capacity(entries.len());
    for (index, entry) in entries.iter().enumerate() {
        run += usize::from(index > 0 && entries[index - 1].code != entry.code);
        let rivals = entry.row.tie_set.iter().map(|tie| (tie.config.as_str(), tie.ratio));
        rows.push(Candidates {
            run,
            kernels: std::iter::once((entry.row.config.as_str(), 1.0)).chain(rivals).collect(),
        });
    }
    rows
}

/// A group with its pieces: each piece, the weight and M it rests on, and its runners-up.
struct GroupPieces {
    group: Group,
    pieces: Vec<(Piece, u16, u32, Vec<Config>)>,
}

struct Builder<'a, 'w> {
    located: &'a Located,
    pieces: Vec<GroupPieces>,
    texts: BTreeSet<String>,
    warnings: &'w mut Vec<String>,
}

impl Builder<'_, '_> {
    fn group(&mut self, run: &[Entry<'_>], taken: &[&str]) {
        let device = &self.located.decisions.device.device;
        let key = run[0].weight.key_at(run[0].row.m);
        let points: Vec<Point> =
            run.iter().zip(taken).map(|(entry, kernel)| point(entry.row, kernel)).collect();
        let mut pieces = Vec::new();
        for piece in tile(&points, &key, device) {
            let Point { m, kernel, runner_ups } = &points[piece.point];
            if piece.kernel.is_none() {
                let name = &run[piece.point].weight.name;
                self.warnings.push(format!("{name}: no kernel is known to run m = {} and above", piece.from));
            }
            let problem = key.problem(piece.from);
            let others =
                std::iter::once(kernel).chain(runner_ups).filter(|other| Some(**other) != piece.kernel);
            let others = others.filter(|other| is_launchable(other, &problem, device).is_ok());
            let others: Vec<Config> = others.copied().take(2).collect();
            self.texts.extend(piece.kernel.iter().chain(&others).map(Config::to_string));
            pieces.push((piece, run[entry_of(run, *m)].weight_index, *m, others));
        }
        // Between the last row of one copy and the first of the other the weight is measured on both sides.
        let mut measured = [run[0].row.m, run[run.len() - 1].row.m];
        for weight in &self.located.decisions.weights {
            let Some(second) = &weight.second else { continue };
            if weight.key() == key {
                measured[1] = measured[1].max(second.from - 1);
            }
            if weight.second_key() == Some(key) {
                measured[0] = measured[0].min(second.from);
            }
        }
        self.pieces
            .push(GroupPieces { group: Group { key, first: 0, len: pieces.len() as u32, measured }, pieces });
    }
}

fn entry_of(run: &[Entry<'_>], m: u32) -> usize {
    run.partition_point(|entry| entry.row.m < m)
}

/// A point that runs `kernel`; the winner it replaces, if it does, is its first runner-up, and rivals fill the rest.
fn point(row: &Row, kernel: &str) -> Point {
    let parse = |text: &str| Config::parse(text).expect("validated");
    let rivals = row.tie_set.iter().map(|tie| &tie.config);
    let mut runner_ups: Vec<&str> = Vec::new();
    for text in std::iter::once(&row.config).chain(&row.runner_ups).chain(rivals) {
        if text != kernel && !runner_ups.contains(&text.as_str()) {
            runner_ups.push(text);
        }
    }
    Point { m: row.m, kernel: parse(kernel), runner_ups: runner_ups.into_iter().map(parse).collect() }
}

fn flatten(groups: &[GroupPieces], texts: &[String]) -> (Vec<Group>, Vec<PackedSegment>) {
    let position = |config: &Config| texts.binary_search(&config.to_string()).expect("collected") as u16;
    let mut segments = Vec::new();
    let groups = groups.iter().map(|group| {
        let first = segments.len() as u32;
        segments.extend(group.pieces.iter().map(|(piece, weight, m, others)| {
            let segment = Segment {
                from: piece.from,
                m: *m,
                weight: *weight,
                kernel: piece.kernel.as_ref().map_or(NO_KERNEL, position),
                runner_ups: [0, 1].map(|rank| others.get(rank).map_or(NO_KERNEL, position)),
            };
            segment.pack()
        }));
        Group { first, ..group.group }
    });
    let groups = groups.collect();
    (groups, segments)
}
