//! Between the deciders (search, race) and the recorder.

use std::cell::RefCell;

use super::candidates::{Candidate, Field};
use super::progress::Progress;
use super::rig::Recorder;
use crate::bench::{Bench, BenchFault, Sample};
use crate::journal::{ContestKey, Evaluated, Record};
use crate::search::{Evaluation, SearchObserver};

/// What search and race need at once: the bench asks the recorder, and so does the gate.
pub(super) struct Shared<'a, 'r> {
    pub(super) recorder: RefCell<&'a mut Recorder<'r>>,
    pub(super) resolution_ns: f64,
}

/// The bench of one field: points are its candidates.
pub(super) struct FieldBench<'a, 'r, 's> {
    pub(super) shared: &'s Shared<'a, 'r>,
    pub(super) field: &'s Field,
}

impl Bench for FieldBench<'_, '_, '_> {
    fn resolution_ns(&self) -> f64 {
        self.shared.resolution_ns
    }

    fn measure(&mut self, point: usize, slot: usize) -> Result<Sample, BenchFault> {
        self.shared.recorder.borrow_mut().time(&self.field.candidates[point], slot)
    }
}

/// Passes candidates through the gate, writes evaluations down and counts.
pub(super) struct SearchLog<'a, 'r, 's> {
    pub(super) shared: &'s Shared<'a, 'r>,
    pub(super) field: &'s Field,
    pub(super) key: &'s ContestKey,
    pub(super) progress: &'s mut dyn Progress,
    /// Times of the sentinel, nanoseconds.
    pub(super) sentinel_ns: Vec<f64>,
}

impl SearchLog<'_, '_, '_> {
    fn log(&mut self, point: usize, ratio: Option<f64>, launches: usize, reason: Option<&str>) {
        self.shared.recorder.borrow_mut().record(&Record::Evaluated(Evaluated {
            key: self.key.clone(),
            candidate: self.candidate(point).to_string(),
            ratio,
            launches: launches as u32,
            reason: reason.map(str::to_owned),
        }));
    }

    fn candidate(&self, point: usize) -> &Candidate {
        &self.field.candidates[point]
    }
}

impl SearchObserver for SearchLog<'_, '_, '_> {
    fn group(&mut self, points: &[usize]) {
        let candidates: Vec<Candidate> = points.iter().map(|point| *self.candidate(*point)).collect();
        self.shared.recorder.borrow_mut().warm(&candidates);
    }

    fn admit(&mut self, point: usize) -> Result<(), String> {
        self.shared.recorder.borrow_mut().admit(&self.field.candidates[point])
    }

    fn sample(&mut self, point: usize, sample: &Sample) {
        if point == self.field.sentinel {
            self.sentinel_ns.push(sample.ns);
        }
        self.progress.launched(sample.at_ns);
    }

    fn evaluated(&mut self, point: usize, evaluation: &Evaluation) {
        self.log(point, Some(evaluation.ratio), evaluation.launches, None);
    }

    fn rejected(&mut self, point: usize, reason: &str) {
        self.log(point, None, 0, Some(reason));
    }
}

/// Counts a race's launches, and keeps the sentinel's times: it need not be an entrant.
pub(super) struct RaceLog<'s> {
    pub(super) progress: &'s mut dyn Progress,
    pub(super) sentinel: usize,
    /// Its times in complete blocks or the last one, nanoseconds.
    pub(super) sentinel_ns: Vec<f64>,
}
impl crate::race::RaceObserver for RaceLog<'_> {
    fn sample(&mut self, block: Option<usize>, point: usize, sample: &Sample) {
        if block.is_some() && point == self.sentinel {
            self.sentinel_ns.push(sample.ns);
        }
        self.progress.launched(sample.at_ns);
    }
}
