//! Journals joined: every run of every input once.
//!
//! Runs of one input keep their order; inputs are ordered by their content. A run that several inputs hold, as when one is
//! a copy of another, is kept where it comes first; a run that one input holds from its beginning only (the copy
//! was made while it ran) is left out.

use crate::journal::{History, Record, line};

/// The text of the joined journal.
pub fn merge_journals(inputs: Vec<Vec<Record>>) -> String {
    let mut inputs: Vec<Vec<String>> = inputs.into_iter().map(runs).collect();
    inputs.sort();
    let mut joined: Vec<String> = Vec::new();
    for run in inputs.into_iter().flatten() {
        if joined.iter().any(|known| known.starts_with(&run)) {
            continue;
        }
        // The longer one takes the place of its beginning.
        match joined.iter_mut().find(|known| run.starts_with(known.as_str())) {
            Some(known) => *known = run,
            None => joined.push(run),
        }
    }
    joined.concat()
}

/// The lines of each run.
fn runs(records: Vec<Record>) -> Vec<String> {
    let segments = History::new(records).segments.into_iter();
    let text = |segment: crate::journal::Segment| {
        let run = Record::Run(segment.header);
        [&run].into_iter().chain(&segment.records).map(line).collect()
    };
    segments.map(text).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::{DeviceRecord, RunHeader};

    fn run(seed: u64, samples: usize) -> Vec<Record> {
        let header = RunHeader {
            version: "1".into(),
            fingerprint: "cpu".into(),
            device: DeviceRecord::default(),
            declaration: "d".into(),
            tables: "t".into(),
            seed,
            budget_s: None,
            per_gemm_s: None,
            regime: "cold".into(),
            resolution_ns: 20.0,
            tools: Default::default(),
            part: None,
        };
        let sample = |n: usize| Record::Sample { id: format!("{n}"), ns: n as f64, at: 1.0 };
        [Record::Run(header)].into_iter().chain((0..samples).map(sample)).collect()
    }

    #[test]
    fn the_order_of_inputs_does_not_matter_and_copies_count_once() {
        let (a, b, c) = (run(1, 3), run(2, 2), [run(1, 3), run(3, 1)].concat());
        let merged = merge_journals(vec![a.clone(), b.clone(), c.clone()]);
        assert_eq!(merged, merge_journals(vec![c, b.clone(), a.clone(), b]));
        assert_eq!(merged.matches("\"t\":\"run\"").count(), 3);
        assert_eq!(merged.lines().count(), 3 + 3 + 2 + 1);
        // The beginning of a run is part of the whole run.
        assert_eq!(merge_journals(vec![run(1, 2), a.clone()]), merge_journals(vec![a]));
    }
}
