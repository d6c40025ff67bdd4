//! The lookup ladder: exact, interval, nearest, analytic, default.
//!
//! The first two rungs are one perfect-hash probe and a comparison with a handful of segments' ends. The others
//! are for problems the table was not tuned for, and walk its groups or kernels. No rung allocates, and each returns
//! a config only if [`is_launchable`] says yes to the real problem: it is asked then, or, for segments where binding found
//! that nothing but M is left to ask about and that no M changes the answer, before (module `proven`). With debug
//! assertions it is asked again even there.

use core::fmt;
use core::ops::Deref;

use tilewright_kernels::{Config, Layout, Problem, family, is_launchable};

use crate::bind::{Bound, Table};
use crate::counters::{Tally, event};
use crate::key::Key;
use crate::nearest::{OCTAVE, OTHER_TAIL, RADIUS, log2};
use crate::proven::Hit;
use crate::table::{Kernel, Segment};

/// What a caller wants to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// The GEMM.
    pub problem: Problem,
    /// How its weight is stored.
    pub layout: Layout,
    /// Whether only kernels that give the same bits on every run will do.
    pub deterministic: bool,
}

impl Request {
    /// A request without the demand for determinism.
    pub const fn new(problem: Problem, layout: Layout) -> Self {
        Request { problem, layout, deterministic: false }
    }
}

/// An answer: a launchable config, and how it is known.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Choice<'t> {
    /// What to run.
    pub config: Chosen<'t>,
    /// Which rung answered.
    pub provenance: Provenance,
    /// The row behind it, on the first three rungs.
    pub row: Option<RowRef>,
    /// 0 for the row's kernel, 1 or 2 for its runner-up (the kernel was unknown or not launchable); 0 without a row.
    pub rank: u8,
}

/// A config, by reference where the table has it: it is larger than a cache line. Equal if the configs are.
#[derive(Clone, Copy)]
pub enum Chosen<'t> {
    /// A kernel of the table.
    Bound(&'t Config),
    /// A family's fallback, made for the request.
    Made(Config),
}

impl Deref for Chosen<'_> {
    type Target = Config;

    #[inline]
    fn deref(&self) -> &Config {
        match self {
            Chosen::Bound(config) => config,
            Chosen::Made(config) => config,
        }
    }
}

impl PartialEq for Chosen<'_> {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl PartialEq<Config> for Chosen<'_> {
    fn eq(&self, other: &Config) -> bool {
        **self == *other
    }
}

impl fmt::Display for Chosen<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&**self, f)
    }
}

impl fmt::Debug for Chosen<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

/// How an answer is known.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Provenance {
    /// This key was measured at this M.
    Exact,
    /// This key was measured at another M whose interval holds this one.
    Interval {
        /// M lies below the smallest or above the largest measured one.
        extrapolated: bool,
    },
    /// A similar weight of the same formats and layout was measured.
    Nearest {
        /// Octaves of N, K and M between them, summed.
        distance: f32,
    },
    /// The table's kernel with the least analytic estimate.
    Analytic,
    /// A family's fallback.
    Default,
}

impl Provenance {
    /// Whether this key was measured, at this M or on both sides of it.
    pub const fn is_measured(self) -> bool {
        matches!(self, Provenance::Exact | Provenance::Interval { extrapolated: false })
    }
}

impl fmt::Display for Provenance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Provenance::Exact => f.write_str("exact"),
            Provenance::Interval { extrapolated: false } => f.write_str("interval"),
            Provenance::Interval { extrapolated: true } => f.write_str("interval (extrapolated)"),
            Provenance::Nearest { distance } => write!(f, "nearest ({distance:.2} octaves away)"),
            Provenance::Analytic => f.write_str("analytic"),
            Provenance::Default => f.write_str("default"),
        }
    }
}

/// A row of the table: the position of its segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowRef(u32);

/// What a [`RowRef`] stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row<'a> {
    /// The weight it was measured for.
    pub weight: &'a str,
    /// The measured M.
    pub m: u32,
    /// The row's kernel, if it has one.
    pub kernel: Option<Kernel<'a>>,
}

/// Why there is no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoKernel {
    /// The problem itself is not legal.
    Illegal(&'static str),
    /// No kernel of this build reads this format in this layout on this device (deterministically, if asked).
    NotCovered,
}

impl fmt::Display for NoKernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NoKernel::Illegal(fault) => f.write_str(fault),
            NoKernel::NotCovered => f.write_str("no kernel of this device reads this format in this layout"),
        }
    }
}

impl core::error::Error for NoKernel {}

impl<'a> Table<'a> {
    /// [`Table::lookup`], counted. What an engine calls before it launches.
    ///
    /// # Errors
    /// As [`Table::lookup`].
    pub fn choose(&self, request: &Request) -> Result<Choice<'_>, NoKernel> {
        let answer = self.lookup(request);
        self.counters.count(event(&answer));
        self.note_miss(request, &answer);
        answer
    }

    /// [`Table::choose`] for a thread that counts for itself; the tally reaches the table's counters by
    /// [`crate::Counters::add`].
    ///
    /// # Errors
    /// As [`Table::lookup`].
    #[inline(always)]
    pub fn choose_tallied(&self, request: &Request, tally: &mut Tally) -> Result<Choice<'_>, NoKernel> {
        if let Some(hit) = self.proven(request)
            && let Some(choice) = self.proven_choice(request, &hit)
        {
            tally.count(hit.distance);
            let answer = Ok(choice);
            self.note_miss(request, &answer);
            return answer;
        }
        let answer = self.unproven(request);
        tally.count(event(&answer));
        self.note_miss(request, &answer);
        answer
    }

    #[inline(always)]
    fn note_miss(&self, request: &Request, answer: &Result<Choice<'_>, NoKernel>) {
        #[cfg(feature = "std")]
        if let Some(record) = &self.record {
            let answer = answer.as_ref().map(|choice| choice.provenance);
            record.note(request, answer.map_err(|none| *none));
        }
        #[cfg(feature = "std")]
        if let Some(misses) = &self.misses
            && let Ok(choice) = answer
            && !choice.provenance.is_measured()
        {
            misses.note(request);
        }
        #[cfg(not(feature = "std"))]
        let _ = (request, answer);
    }

    /// The kernel for a request. Total: there is an answer whenever a kernel of the table, or a family's fallback,
    /// can run the problem.
    ///
    /// # Errors
    /// If the problem is not legal, or nothing reads its format in its layout on this device.
    #[inline(always)]
    pub fn lookup(&self, request: &Request) -> Result<Choice<'_>, NoKernel> {
        if let Some(hit) = self.proven(request)
            && let Some(choice) = self.proven_choice(request, &hit)
        {
            return Ok(choice);
        }
        self.unproven(request)
    }

    #[inline(always)]
    fn proven_choice(&self, request: &Request, hit: &Hit) -> Option<Choice<'_>> {
        // By number, because a branch on what is random costs more than the whole lookup.
        const PROVENANCES: [Provenance; 3] = [
            Provenance::Exact,
            Provenance::Interval { extrapolated: false },
            Provenance::Interval { extrapolated: true },
        ];
        let config = self.configs.get(hit.config as usize)?;
        debug_assert!(self.admits(config, request), "{} at {}", config, request.problem);
        Some(Choice {
            config: Chosen::Bound(config),
            provenance: PROVENANCES[hit.distance.min(2)],
            row: Some(RowRef(hit.segment)),
            rank: hit.rank,
        })
    }

    /// What to run after `failed` did not launch: the row's next runner-up, else the analytic rule's or the default's
    /// choice, if it is another config.
    pub fn runner_up<'t>(&'t self, request: &Request, failed: &Choice<'_>) -> Option<Choice<'t>> {
        let of_row = failed.row.and_then(|row| {
            let segment = self.segments.get(row.0 as usize)?;
            let (config, rank) = self.take(segment, request, failed.rank + 1)?;
            Some(Choice {
                config: Chosen::Bound(config),
                provenance: failed.provenance,
                row: failed.row,
                rank,
            })
        });
        of_row
            .or_else(|| self.analytic(request, Some(&failed.config)))
            .or_else(|| self.default_choice(request).filter(|choice| *choice.config != *failed.config))
    }

    /// The row behind a choice.
    pub fn row(&self, row: RowRef) -> Option<Row<'a>> {
        let segment = self.segments.get(row.0 as usize)?;
        let weight = self.data.weights.get(segment.weight as usize)?.name;
        Some(Row { weight, m: segment.m, kernel: self.data.kernels.get(segment.kernel as usize).copied() })
    }

    /// Rungs 1 and 2, where nothing is left to ask. Inlined by force, and an answer is made where it is returned from: one
    /// that is copied once more is read in wider pieces than it was written in, and the processor waits for that.
    #[inline(always)]
    fn proven(&self, request: &Request) -> Option<Hit> {
        let code = Key::of(&request.problem, request.layout).encode();
        let slot = self.data.index.slot_of(code)?;
        self.proven.find(slot, code, request.problem.m, request.deterministic)
    }

    /// Rungs 1 and 2, asking.
    fn measured(&self, request: &Request) -> Option<Choice<'_>> {
        let code = Key::of(&request.problem, request.layout).encode();
        let position = self.data.index.find(code)? as usize;
        let group = self.groups.get(position).filter(|group| group.code == code)?;
        let m = request.problem.m;
        let at = self.segment(group.first, group.len, m);
        let segment = self.segments.get(at as usize)?;
        let (config, rank) = self.take(segment, request, 0)?;
        let provenance = if segment.m == m {
            Provenance::Exact
        } else {
            let [least, most] = self.data.groups[position].measured;
            Provenance::Interval { extrapolated: m < least || m > most }
        };
        Some(Choice { config: Chosen::Bound(config), provenance, row: Some(RowRef(at)), rank })
    }

    /// All rungs, asking on each.
    #[cold]
    fn unproven(&self, request: &Request) -> Result<Choice<'_>, NoKernel> {
        if let Some(choice) = self.measured(request) {
            return Ok(choice);
        }
        if let Some(fault) = request.problem.fault() {
            return Err(NoKernel::Illegal(fault));
        }
        self.nearest(request)
            .or_else(|| self.analytic(request, None))
            .or_else(|| self.default_choice(request))
            .ok_or(NoKernel::NotCovered)
    }

    /// The segment of a group that holds `m`: the last that starts at or before it.
    fn segment(&self, first: u32, len: u32, m: u32) -> u32 {
        let starts = &self.starts[first as usize..(first + len) as usize];
        // Halving without branches on the comparison: which half is a coin flip to a branch predictor.
        let (mut base, mut size) = (0, starts.len());
        while size > 1 {
            let half = size / 2;
            base = if starts[base + half] <= m { base + half } else { base };
            size -= half;
        }
        first + base as u32
    }

    /// The first usable kernel of a segment, from `rank` on. By reference: a config is larger than a cache line, and is
    /// copied once, into the answer.
    fn take(&self, segment: &Segment, request: &Request, rank: u8) -> Option<(&Config, u8)> {
        let kernels = [segment.kernel, segment.runner_ups[0], segment.runner_ups[1]];
        for rank in rank..3 {
            if let Some(Bound { config: Some(config), layout }) =
                self.kernels.get(kernels[rank as usize] as usize)
                && let Some(config) = self.configs.get(*config as usize)
                && *layout == request.layout
                && self.admits(config, request)
            {
                return Some((config, rank));
            }
        }
        None
    }

    /// Whether a config that reads the request's layout may run it.
    fn admits(&self, config: &Config, request: &Request) -> bool {
        is_launchable(config, &request.problem, &self.device).is_ok()
            && (!request.deterministic || (config.family().deterministic)(config))
    }

    /// Rung 3: the measured point with the least log distance, among groups of the same formats and layout.
    fn nearest(&self, request: &Request) -> Option<Choice<'_>> {
        let Request { problem, layout, .. } = request;
        let (log_n, log_k, log_m) = (log2(problem.n), log2(problem.k), log2(problem.m));
        let mut best: Option<(u32, Choice<'_>)> = None;
        for (group, bound) in self.data.groups.iter().zip(&self.groups) {
            let key = &group.key;
            if (key.a, key.b, key.scaling, key.layout) != (problem.a, problem.b, problem.scaling, *layout) {
                continue;
            }
            let limit = best.as_ref().map_or(RADIUS + 1, |(distance, _)| *distance);
            let mut distance = bound.log_n.abs_diff(log_n) + bound.log_k.abs_diff(log_k);
            distance += OTHER_TAIL * u32::from((key.out, key.epilogue) != (problem.out, problem.epilogue));
            if distance >= limit {
                continue;
            }
            let at = self.segment(bound.first, bound.len, problem.m);
            let segment = &self.segments[at as usize];
            distance += log2(segment.m).abs_diff(log_m);
            if distance >= limit {
                continue;
            }
            if let Some((config, rank)) = self.take(segment, request, 0) {
                let provenance = Provenance::Nearest { distance: distance as f32 / OCTAVE as f32 };
                best = Some((
                    distance,
                    Choice { config: Chosen::Bound(config), provenance, row: Some(RowRef(at)), rank },
                ));
            }
        }
        best.map(|(_, choice)| choice)
    }

    /// Rung 4: the table's kernel with the least estimate, the first in canonical order where several have it.
    fn analytic(&self, request: &Request, not: Option<&Config>) -> Option<Choice<'_>> {
        let candidates = self.kernels.iter().filter(|bound| bound.layout == request.layout);
        let usable = candidates
            .filter_map(|bound| self.configs.get(bound.config? as usize))
            .filter(|config| Some(*config) != not && self.admits(config, request));
        let estimated =
            usable.map(|config| ((config.family().prior)(config, &request.problem, &self.device), config));
        let (_, config) = estimated.min_by(|(a, _), (b, _)| a.total_cmp(b))?;
        Some(Choice { config: Chosen::Bound(config), provenance: Provenance::Analytic, row: None, rank: 0 })
    }

    /// Rung 5.
    fn default_choice(&self, request: &Request) -> Option<Choice<'_>> {
        let config = family::fallback(&request.problem, request.layout, &self.device)?;
        self.admits(&config, request).then_some(Choice {
            config: Chosen::Made(config),
            provenance: Provenance::Default,
            row: None,
            rank: 0,
        })
    }
}
