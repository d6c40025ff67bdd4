//! What a new run takes over from the runs before it.

use std::collections::{BTreeMap, HashMap};

use super::record::{ContestKey, Evaluated, PlanRecord, Record, RunHeader, Verdict};

/// The runs of a journal, oldest first.
#[derive(Debug, Default)]
pub struct History {
    /// Each run with its records.
    pub segments: Vec<Segment>,
}

/// One run.
#[derive(Clone, Debug)]
pub struct Segment {
    /// What the run was.
    pub header: RunHeader,
    /// What it recorded, without the header.
    pub records: Vec<Record>,
}

impl Segment {
    /// Whether the run ended by itself.
    pub fn ended(&self) -> bool {
        matches!(self.records.last(), Some(Record::End { .. }))
    }
}

/// What an interrupted run had finished.
#[derive(Debug, Default)]
pub struct Resume {
    /// Plans by weight.
    pub plans: HashMap<String, PlanRecord>,
    /// Verdicts by contest.
    pub verdicts: HashMap<ContestKey, Verdict>,
    /// Evaluations by contest and candidate text.
    pub evaluations: HashMap<ContestKey, HashMap<String, Evaluated>>,
    /// Errors by GEMM name and formats.
    pub quality: HashMap<(String, String), f64>,
}

impl History {
    /// Splits a journal's records into runs. Records before the first header (damaged away) are left out.
    pub fn new(records: Vec<Record>) -> Self {
        let mut segments: Vec<Segment> = Vec::new();
        for record in records {
            match record {
                Record::Run(header) => segments.push(Segment { header, records: Vec::new() }),
                other => {
                    if let Some(segment) = segments.last_mut() {
                        segment.records.push(other);
                    }
                }
            }
        }
        History { segments }
    }

    /// Takes the last run out if it was killed, and if `header` would be the same run: then it can go on exactly where it
    /// was. A run that the budget or the user ended is over, and a new one only [takes over](History::resume) from it.
    pub fn take_interrupted(&mut self, header: &RunHeader) -> Option<Segment> {
        let last = self.segments.last()?;
        // The clock's resolution is measured anew each time.
        let same = RunHeader { resolution_ns: last.header.resolution_ns, ..header.clone() } == last.header;
        let stopped = last.records.iter().any(|record| matches!(record, Record::Stopped { .. }));
        if last.ended() || stopped || !same { None } else { self.segments.pop() }
    }

    /// Whether the last run was killed after it had written a table with that hash, and before it could say so.
    pub fn has_written(&self, table: &str) -> bool {
        let last = self.segments.last().and_then(|segment| segment.records.last());
        matches!(last, Some(Record::Decided { table: written }) if written == table)
    }

    /// What can be taken over as it is: the finished work of the latest runs that did not end and asked the same
    /// question (declaration, device, tuner version, seed, regime).
    pub fn resume(&self, header: &RunHeader) -> Resume {
        let mut resume = Resume::default();
        let open = self.segments.iter().rev().take_while(|s| !s.ended() && same_question(&s.header, header));
        for segment in open.collect::<Vec<_>>().into_iter().rev() {
            for record in &segment.records {
                match record {
                    Record::Plan(plan) => {
                        resume.plans.insert(plan.work.clone(), plan.clone());
                    }
                    Record::Verdict(verdict) => {
                        resume.verdicts.insert(verdict.key.clone(), verdict.clone());
                    }
                    Record::Evaluated(evaluated) => {
                        resume
                            .evaluations
                            .entry(evaluated.key.clone())
                            .or_default()
                            .insert(evaluated.candidate.clone(), evaluated.clone());
                    }
                    Record::Quality { gemm, formats, error } => {
                        resume.quality.insert((gemm.clone(), formats.clone()), *error);
                    }
                    _ => {}
                }
            }
        }
        resume
    }

    /// Launches and evaluations of the last run that ended by itself, for the same declaration on the same device.
    pub fn last_finished(&self, header: &RunHeader) -> Option<[u64; 2]> {
        let same =
            |run: &RunHeader| run.fingerprint == header.fingerprint && run.declaration == header.declaration;
        self.segments.iter().rev().filter(|s| same(&s.header)).find_map(|segment| {
            match segment.records.last() {
                Some(Record::End { measurements, evaluations }) => Some([*measurements, *evaluations]),
                _ => None,
            }
        })
    }

    /// The latest verdict of every contest on a device with that fingerprint: seeds for a warm start, in order of key.
    pub fn verdicts(&self, fingerprint: &str) -> BTreeMap<ContestKey, &Verdict> {
        let runs = self.segments.iter().filter(|s| s.header.fingerprint == fingerprint);
        let records = runs.flat_map(|s| &s.records);
        records
            .filter_map(|r| if let Record::Verdict(v) = r { Some((v.key.clone(), v)) } else { None })
            .collect()
    }
}

/// Whether two runs would make the same decisions from the same answers. The budget may differ: it bounds how much is
/// measured, not what a measurement means.
fn same_question(a: &RunHeader, b: &RunHeader) -> bool {
    (&a.version, &a.fingerprint, &a.declaration, a.seed, &a.regime)
        == (&b.version, &b.fingerprint, &b.declaration, b.seed, &b.regime)
}
