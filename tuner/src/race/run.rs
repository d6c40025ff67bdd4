//! The course of a race: warm-up, blocks, looks, drift, end.

use super::block::{End, Seat, Stopwatch};
use super::drift::Watch;
use super::judge::{self, CONFIDENCE};
use super::outcome::{DriftEvent, EntrantResult, RaceOutcome, Status, Verdict};
use super::{Entrant, RaceError, RaceObserver, RaceOptions};
use crate::bench::Bench;
use crate::stats::{Interval, TRIM, median, trimmed_mean};

/// Blocks before the first look after which a hopeless rival may leave.
const BLOCKS_BEFORE_HOPELESS: usize = 4;
/// Sentinel launches that find the level after a drift.
const PROBES: usize = 5;
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
struct Runner {
    entrant: Entrant,
    /// Log times in the blocks that count.
    track: Vec<f64>,
    out: Option<Out>,
}

enum Out {
    Eliminated { look: usize, blocks: usize, by: usize },
    Failed(String),
}

impl Runner {
    fn is_live(&self) -> bool {
        self.out.is_none()
    }

    fn has_failed(&self) -> bool {
        matches!(self.out, Some(Out::Failed(_)))
    }

    /// Whether it runs in the next block: it is live, or quoted to the end.
    fn runs(&self) -> bool {
        self.is_live() || (self.entrant.pinned || self.entrant.incumbent) && !self.has_failed()
    }
}

/// Why the race is over.
enum Finish {
    /// At a look that left no question.
    Settled,
    /// No block is left to measure.
    OutOfBlocks,
    /// Every entrant failed.
    NobodyLeft,
    /// The machine changed too often.
    Unsteady,
    Early(End),
}

struct Race<'a> {
    options: &'a RaceOptions,
    watch: Stopwatch<'a>,
    /// In order of preference.
    runners: Vec<Runner>,
    sentinel: usize,
    /// The sentinel's log times under its two ids.
    halves: [Vec<f64>; 2],
    level: Watch,
    /// Blocks that were complete, counted or not.
    complete: usize,
    discarded: usize,
    restarts: usize,
    drift: Vec<DriftEvent>,
    leader: Option<usize>,
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
            if let Some(look) = self.options.looks.due(self.blocks())
                && self.look(look)
            {
                return Ok(Finish::Settled);
            }
        }
        Ok(Finish::OutOfBlocks)
    }

    /// Blocks that count.
    fn blocks(&self) -> usize {
        self.halves[1].len()
    }

    /// Runs everybody in turn until the time is up and two rounds agree, so that clocks, caches and the power limit have
    /// settled before anything counts.
    fn warm_up(&mut self) -> Result<(), End> {
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

    fn fail(&mut self, index: usize, reason: String) {
        self.watch.observer().failed(self.runners[index].entrant.point, &reason);
        self.runners[index].out = Some(Out::Failed(reason));
        // Those that lost to it have no judge any more.
        let orphaned =
            self.runners.iter().any(|r| matches!(r.out, Some(Out::Eliminated { by, .. }) if by == index));
        if orphaned {
            self.clear();
        }
    }

    /// Makes the first runner that has not failed the sentinel.
    fn replace_sentinel(&mut self) {
        let failed = self.sentinel;
        if let Some(next) = self.runners.iter().find(|r| !r.has_failed() && r.entrant.point != failed) {
            self.sentinel = next.entrant.point;
        }
    }

    /// Starts from no blocks, with everybody that has not failed.
    fn clear(&mut self) {
        self.discarded = self.complete;
        for runner in &mut self.runners {
            runner.track.clear();
            if matches!(runner.out, Some(Out::Eliminated { .. })) {
                runner.out = None;
            }
        }
        self.halves = Default::default();
        self.level = Watch::new(self.options.drift());
        self.leader = None;
    }

    fn drifted(&mut self) -> Option<super::drift::Alarm> {
        let block = self.blocks().checked_sub(1)?;
        self.level.push(0.5 * (self.halves[0][block] + self.halves[1][block]))
    }

    /// Discards the blocks since a change and warms up again; if the machine then still is another one, starts over.
    /// False where that happened too often.
    fn recover(&mut self, alarm: super::drift::Alarm) -> Result<bool, End> {
        let gone = self.blocks() - alarm.since;
        for runner in &mut self.runners {
            runner.track.truncate(alarm.since);
        }
        for half in &mut self.halves {
            half.truncate(alarm.since);
        }
        self.discarded += gone;
        self.warm_up()?;
        let mut probes = Vec::new();
        for _ in 0..PROBES {
            if let Ok(ns) = self.watch.launch(None, self.sentinel)? {
                probes.push(ns.ln());
            }
        }
        let is_back = median(&probes).is_some_and(|level| self.level.is_back(level));
        let event = DriftEvent {
            found: self.complete - 1,
            since: self.complete - gone,
            shift: alarm.shift,
            restarted: !is_back,
        };
        self.watch.observer().drift(&event);
        self.drift.push(event);
        if is_back {
            self.level.resume(alarm.since);
            return Ok(true);
        }
        if self.restarts == self.options.max_restarts {
            return Ok(false);
        }
        self.restarts += 1;
        self.clear();
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
        let mut settled = true;
        for index in self.live().into_iter().filter(|index| *index != leader) {
            let Some(ratio) = self.ratio(index, leader) else { return false };
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
        settled && judge::sentinel_fault(self.sentinel_interval(), self.options.delta()).is_none()
    }

    fn live(&self) -> Vec<usize> {
        (0..self.runners.len()).filter(|index| self.runners[*index].is_live()).collect()
    }

    fn find_leader(&self) -> Option<usize> {
        let live = self.live();
        let tracks: Vec<&[f64]> = live.iter().map(|index| self.runners[*index].track.as_slice()).collect();
        judge::leader(&tracks).map(|place| live[place])
    }

    fn ratio(&self, rival: usize, leader: usize) -> Option<crate::stats::Yuen> {
        let (rival, leader) = (&self.runners[rival].track, &self.runners[leader].track);
        let ns = median(leader)?.exp();
        judge::compare(rival, leader, self.watch.reading_variance(ns))
    }

    fn sentinel_interval(&self) -> Option<Interval> {
        let [a, b] = &self.halves;
        let ns = median(a)?.exp();
        Some(judge::compare(a, b, self.watch.reading_variance(ns))?.interval(CONFIDENCE))
    }

    fn outcome(mut self, finish: Finish) -> RaceOutcome {
        let first_look = self.options.looks.at()[0];
        let enough = self.blocks() >= first_look;
        // The leader of the last look; where there was none, of what there is.
        let leader = self.leader.filter(|index| self.runners[*index].is_live()).or_else(|| {
            self.trim_to_common();
            self.find_leader()
        });
        let sentinel_interval = self.sentinel_interval();
        let tie_set = leader.map(|leader| self.tie_set(leader)).unwrap_or_default();
        let reason = match &finish {
            Finish::NobodyLeft => Some("every entrant failed".to_owned()),
            Finish::Unsteady => Some(format!(
                "the machine's speed moved {} times, last by {:+.1} %",
                self.drift.len(),
                100.0 * self.drift.last().map_or(0.0, |event| event.shift)
            )),
            Finish::Early(End::Stopped) => Some("stopped".to_owned()),
            Finish::Early(End::TraceExhausted) => Some("the recorded trace ended".to_owned()),
            Finish::Early(End::OutOfTime) if !enough => {
                Some(format!("time ran out after {} blocks, before the first look", self.blocks()))
            }
            _ if !enough => Some(format!("too few blocks: {} of {first_look}", self.blocks())),
            _ => judge::sentinel_fault(sentinel_interval, self.options.delta()),
        };
        let verdict = match reason {
            Some(reason) => Verdict::Ambiguous(reason),
            None if tie_set.len() == 1 => Verdict::Decided,
            None => Verdict::Tied(tie_set.len()),
        };
        let entrants = (0..self.runners.len()).map(|index| self.result(index, leader)).collect();
        let point = |index: usize| self.runners[index].entrant.point;
        RaceOutcome {
            winner: tie_set.first().map(|index| point(*index)),
            leader: leader.map(point),
            verdict,
            tie_set: tie_set.iter().map(|index| point(*index)).collect(),
            entrants,
            sentinel_interval,
            drift: self.drift,
            blocks: self.halves[1].len(),
            discarded_blocks: self.discarded,
            restarts: self.restarts,
            measurements: self.watch.measurements,
            warmup_measurements: self.watch.warmup_measurements,
        }
    }

    /// Leader and survivors, the winner first: the incumbent, or else the most preferred of those whose estimate lies
    /// within half of δ. A rival whose wide interval merely reaches 0 ties, but does not win by its name.
    fn tie_set(&self, leader: usize) -> Vec<usize> {
        let near = 0.5 * self.options.delta();
        let is_near = |index: usize| {
            index == leader || self.ratio(index, leader).is_some_and(|ratio| ratio.mean <= near)
        };
        let mut tied = self.live();
        // Runners are in order of preference, and the sort is stable.
        tied.sort_by_key(|index| (!self.runners[*index].entrant.incumbent, !is_near(*index)));
        tied
    }

    /// Cuts the live tracks to the blocks that all of them have, where measuring ended inside the first block.
    fn trim_to_common(&mut self) {
        let common = self.live().iter().map(|index| self.runners[*index].track.len()).min().unwrap_or(0);
        for runner in self.runners.iter_mut().filter(|runner| runner.is_live()) {
            runner.track.truncate(common);
        }
    }

    fn result(&self, index: usize, leader: Option<usize>) -> EntrantResult {
        let runner = &self.runners[index];
        let samples: Vec<f64> = runner.track.iter().map(|time| time.exp()).collect();
        let (log_ratio, interval) = match leader {
            Some(leader) if leader == index => (Some(0.0), Some(Interval { low: 0.0, high: 0.0 })),
            Some(leader) => {
                let ratio = self.ratio(index, leader);
                (ratio.map(|ratio| ratio.mean), ratio.map(|ratio| ratio.interval(CONFIDENCE)))
            }
            None => (None, None),
        };
        EntrantResult {
            point: runner.entrant.point,
            status: match &runner.out {
                None if leader == Some(index) => Status::Leader,
                None => Status::Tied,
                Some(Out::Eliminated { look, blocks, .. }) => {
                    Status::Eliminated { look: *look, blocks: *blocks }
                }
                Some(Out::Failed(reason)) => Status::Failed(reason.clone()),
            },
            trimmed_mean_ns: trimmed_mean(&samples, TRIM),
            samples,
            log_ratio,
            interval,
        }
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
