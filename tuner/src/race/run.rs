//! The course of a race: warm-up, blocks, looks, drift, end.

use super::block::{End, Seat, Stopwatch};
use super::drift::Watch;
use super::judge::{self, CONFIDENCE};
use super::outcome::{DriftEvent, RaceOutcome};
use super::{Entrant, RaceError, RaceObserver, RaceOptions};
use crate::bench::Bench;
use crate::stats::{Interval, Shrinkage, Yuen, median};

/// Blocks before the first look after which a hopeless rival may leave.
const BLOCKS_BEFORE_HOPELESS: usize = 4;
/// Warm-up goes on past its time until two rounds agree this closely, up to this many times its time.
const SETTLED: f64 = 0.01;
const LONGEST_WARMUP: f64 = 3.0;

/// Races the entrants.
///
/// # Errors
/// If the entrants do not make a race: none, one twice, two of one rank, two incumbents. Whatever goes wrong while
/// measuring is part of the outcome.
pub fn race(
    bench: &mut dyn Bench,
    entrants: &[Entrant],
    options: &RaceOptions,
    observer: &mut dyn RaceObserver,
) -> Result<RaceOutcome, RaceError> {
    let mut race = Race::new(bench, entrants, options, observer)?;
    let end = race.run();
    Ok(race.outcome(end))
}

/// An entrant in the race.
pub(super) struct Runner {
    pub(super) entrant: Entrant,
    /// Log times in the blocks that count.
    pub(super) track: Vec<f64>,
    pub(super) out: Option<Out>,
}

pub(super) enum Out {
    Eliminated { look: usize, blocks: usize, by: usize },
    Failed(String),
}

impl Runner {
    pub(super) fn is_live(&self) -> bool {
        self.out.is_none()
    }

    pub(super) fn has_failed(&self) -> bool {
        matches!(self.out, Some(Out::Failed(_)))
    }

    /// Whether it runs in the next block: it is live, or quoted to the end.
    fn runs(&self) -> bool {
        self.is_live() || (self.entrant.pinned || self.entrant.incumbent) && !self.has_failed()
    }
}

/// Why the race is over.
pub(super) enum Finish {
    /// At a look that left no question.
    Settled,
    /// At a look that did not speak against the incumbent.
    Confirmed,
    /// No block is left to measure.
    OutOfBlocks,
    /// Every entrant failed.
    NobodyLeft,
    /// The machine changed too often.
    Unsteady,
    Early(End),
}

pub(super) struct Race<'a> {
    pub(super) options: &'a RaceOptions,
    pub(super) watch: Stopwatch<'a>,
    /// In order of preference.
    pub(super) runners: Vec<Runner>,
    pub(super) sentinel: usize,
    /// The sentinel's log times under its two ids.
    pub(super) halves: [Vec<f64>; 2],
    pub(super) level: Watch,
    /// Blocks that were complete, counted or not.
    pub(super) complete: usize,
    pub(super) discarded: usize,
    pub(super) restarts: usize,
    pub(super) drift: Vec<DriftEvent>,
    pub(super) leader: Option<usize>,
}

impl<'a> Race<'a> {
    fn new(
        bench: &'a mut dyn Bench,
        entrants: &[Entrant],
        options: &'a RaceOptions,
        observer: &'a mut dyn RaceObserver,
    ) -> Result<Self, RaceError> {
        let mut sorted = entrants.to_vec();
        // Whoever arrives first gains nothing by it.
        sorted.sort_by_key(|entrant| (entrant.preference, entrant.point));
        check(&sorted)?;
        let first = sorted.first().ok_or(RaceError::NoEntrants)?;
        let pinned = sorted.iter().find(|entrant| entrant.pinned).unwrap_or(first);
        let sentinel = options.sentinel.unwrap_or(pinned.point);
        let runners =
            sorted.into_iter().map(|entrant| Runner { entrant, track: Vec::new(), out: None }).collect();
        Ok(Race {
            options,
            watch: Stopwatch::new(bench, observer, options),
            runners,
            sentinel,
            halves: Default::default(),
            level: Watch::new(options.drift()),
            complete: 0,
            discarded: 0,
            restarts: 0,
            drift: Vec::new(),
            leader: None,
        })
    }

    fn run(&mut self) -> Finish {
        match self.run_to_end() {
            Ok(finish) => finish,
            Err(end) => Finish::Early(end),
        }
    }

    fn run_to_end(&mut self) -> Result<Finish, End> {
        self.warm_up()?;
        while self.complete < self.options.max_blocks() && self.blocks() < self.options.looks.last() {
            if !self.block()? {
                return Ok(Finish::NobodyLeft);
            }
            if let Some(alarm) = self.drifted() {
                if !self.recover(alarm)? {
                    return Ok(Finish::Unsteady);
                }
                continue;
            }
            self.drop_hopeless();
            let Some(look) = self.options.looks.due(self.blocks()) else { continue };
            if self.look(look) {
                return Ok(Finish::Settled);
            }
            if self.options.confirms && self.is_unopposed() {
                return Ok(Finish::Confirmed);
            }
        }
        Ok(Finish::OutOfBlocks)
    }

    /// Blocks that count.
    pub(super) fn blocks(&self) -> usize {
        self.halves[1].len()
    }

    /// Runs everybody in turn until the time is up and two rounds agree, so that clocks, caches and the power limit have
    /// settled before anything counts.
    pub(super) fn warm_up(&mut self) -> Result<(), End> {
        let goal = self.options.warmup_ns();
        let mut spent = 0.0;
        let mut last: Option<f64> = None;
        while goal > 0.0 && spent < LONGEST_WARMUP * goal {
            let seats: Vec<_> = self.seats();
            let results = self.watch.block(None, &seats)?;
            let mut times = Vec::new();
            for ((seat, _), result) in seats.iter().zip(results) {
                match (result, seat) {
                    (Ok(ns), _) => times.push(ns.ln()),
                    (Err(reason), Seat::Runner(index)) => self.fail(*index, reason),
                    (Err(_), _) => self.replace_sentinel(),
                }
            }
            let Some(level) = median(&times) else { return Ok(()) };
            spent += times.iter().map(|time| time.exp()).sum::<f64>();
            let settled = last.is_some_and(|last| (level - last).abs() < SETTLED);
            if spent >= goal && settled {
                return Ok(());
            }
            last = Some(level);
        }
        Ok(())
    }

    /// Who runs in a block: the seat and its point.
    fn seats(&self) -> Vec<(Seat, usize)> {
        let mut seats: Vec<(Seat, usize)> = Vec::new();
        for (index, runner) in self.runners.iter().enumerate() {
            if runner.runs() {
                seats.push((Seat::Runner(index), runner.entrant.point));
            }
        }
        if seats.is_empty() {
            return seats;
        }
        // A runner that is the sentinel is its own first half.
        if !seats.iter().any(|(_, point)| *point == self.sentinel) {
            seats.push((Seat::SentinelA, self.sentinel));
        }
        seats.push((Seat::SentinelB, self.sentinel));
        seats
    }

    /// Measures one block and books it. False where nobody is left.
    fn block(&mut self) -> Result<bool, End> {
        let seats = self.seats();
        if seats.is_empty() {
            return Ok(false);
        }
        let results = self.watch.block(Some(self.complete), &seats)?;
        self.complete += 1;
        let mut halves = [None, None];
        let mut failures = Vec::new();
        for ((seat, point), result) in seats.iter().zip(results) {
            match (result, *seat) {
                (Ok(ns), seat) => {
                    if let Seat::Runner(index) = seat {
                        self.runners[index].track.push(ns.ln());
                    }
                    if seat == Seat::SentinelB {
                        halves[1] = Some(ns.ln());
                    } else if *point == self.sentinel {
                        halves[0] = Some(ns.ln());
                    }
                }
                (Err(reason), Seat::Runner(index)) => failures.push((index, reason)),
                (Err(_), _) => {}
            }
        }
        match halves {
            [Some(a), Some(b)] => {
                self.halves[0].push(a);
                self.halves[1].push(b);
            }
            // Without the A/A test the blocks say nothing of the machine: another sentinel, from the start.
            _ => {
                self.replace_sentinel();
                self.clear();
            }
        }
        for (index, reason) in failures {
            self.fail(index, reason);
        }
        Ok(true)
    }

    fn drop_hopeless(&mut self) {
        let blocks = self.blocks();
        if blocks < BLOCKS_BEFORE_HOPELESS || blocks >= self.options.looks.at()[0] {
            return;
        }
        let Some(leader) = self.find_leader() else { return };
        for index in self.live() {
            let runner = &self.runners[index];
            if index != leader
                && !runner.entrant.pinned
                && !runner.entrant.incumbent
                && judge::is_hopeless(&runner.track, &self.runners[leader].track, self.options.hopeless())
            {
                self.runners[index].out = Some(Out::Eliminated { look: 0, blocks, by: leader });
            }
        }
    }

    /// Takes a look. True where it leaves no question.
    fn look(&mut self, look: usize) -> bool {
        let Some(leader) = self.find_leader() else { return false };
        self.leader = Some(leader);
        let rivals = self.runners.iter().filter(|runner| !runner.has_failed()).count() - 1;
        // The leader is whoever the data put first, so any two of them may be what is compared: splitting over the pairs
        // keeps the promise that splitting over the rivals misses in the tails.
        let level = self.options.looks.level(rivals * (rivals + 1) / 2);
        let rivals: Vec<usize> = self.live().into_iter().filter(|index| *index != leader).collect();
        let Some(ratios) = rivals.iter().map(|index| self.ratio(*index, leader)).collect::<Option<Vec<_>>>()
        else {
            return false;
        };
        let shared = Shrinkage::estimate(&ratios);
        let mut settled = true;
        for (index, own) in rivals.into_iter().zip(ratios) {
            let ratio = shared.map_or(own, |shared| shared.apply(own));
            // An incumbent that is slower by less than a change is worth stays.
            let bar =
                if self.runners[index].entrant.incumbent { self.options.min_improvement() } else { 0.0 };
            if ratio.lower_bound(level) > bar {
                self.runners[index].out = Some(Out::Eliminated { look, blocks: self.blocks(), by: leader });
            } else {
                settled &= ratio.interval(CONFIDENCE).is_within(self.options.delta());
            }
        }
        let live: Vec<usize> =
            self.live().into_iter().map(|index| self.runners[index].entrant.point).collect();
        let point = self.runners[leader].entrant.point;
        let blocks = self.blocks();
        self.watch.observer().look(blocks, point, &live);
        settled && self.sentinel_fault(leader).is_none()
    }

    pub(super) fn live(&self) -> Vec<usize> {
        (0..self.runners.len()).filter(|index| self.runners[*index].is_live()).collect()
    }

    pub(super) fn find_leader(&self) -> Option<usize> {
        let live = self.live();
        let tracks: Vec<&[f64]> = live.iter().map(|index| self.runners[*index].track.as_slice()).collect();
        judge::leader(&tracks).map(|place| live[place])
    }

    pub(super) fn ratio(&self, rival: usize, leader: usize) -> Option<Yuen> {
        let (rival, leader) = (&self.runners[rival].track, &self.runners[leader].track);
        let ns = median(leader)?.exp();
        judge::compare(rival, leader, self.watch.reading_variance(ns))
    }

    pub(super) fn sentinel_interval(&self) -> Option<Interval> {
        let [a, b] = &self.halves;
        let ns = median(a)?.exp();
        Some(judge::compare(a, b, self.watch.reading_variance(ns))?.interval(CONFIDENCE))
    }
}

fn check(sorted: &[Entrant]) -> Result<(), RaceError> {
    for (index, entrant) in sorted.iter().enumerate() {
        for other in &sorted[index + 1..] {
            if entrant.point == other.point {
                return Err(RaceError::Duplicate(entrant.point));
            }
            if entrant.preference.rank == other.preference.rank {
                return Err(RaceError::SameRank(entrant.point, other.point));
            }
            if entrant.incumbent && other.incumbent {
                return Err(RaceError::TwoIncumbents(entrant.point, other.point));
            }
        }
    }
    Ok(())
}
