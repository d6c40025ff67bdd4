//! Reads the compiler's assembly: what a kernel's instructions are, and whether data on its way to LDS has arrived where it is
//! read.
//!
//! [`Pipeline::check`] walks a kernel along its branches with a queue of the wave's memory operations, as vmcnt counts
//! them. Copies to LDS are numbered as they are issued, `units` of them to a stage; after the i-th barrier (from 0) the
//! kernel reads stage i, so by then the wait before that barrier must have let all copies of stages 0 … i arrive, and
//! a copy of stage j must not be issued before barrier j - stages + 1, when everybody has read what it overwrites. This is what
//! the emulator finds by landing data late, but for every path and without data; and it sees a load into registers
//! that the compiler moved among the copies, which makes the count mean something else.

use std::collections::{BTreeMap, HashSet};

/// One instruction.
#[derive(Debug, Clone)]
pub(crate) struct Line {
    pub(crate) mnemonic: String,
    pub(crate) operands: String,
}

impl Line {
    fn is_copy(&self) -> bool {
        self.mnemonic.starts_with("buffer_load") && self.operands.split(' ').any(|word| word == "lds")
    }

    fn is_memory(&self) -> bool {
        ["buffer_", "global_", "flat_", "scratch_"].iter().any(|class| self.mnemonic.starts_with(class))
    }

    /// The N of `s_waitcnt vmcnt(N)`.
    fn vmcnt(&self) -> Option<usize> {
        let rest = self.operands.split("vmcnt(").nth(1).filter(|_| self.mnemonic == "s_waitcnt")?;
        rest.split(')').next()?.parse().ok()
    }
}

/// The instructions of a kernel, and where its labels are.
pub(crate) struct Listing {
    pub(crate) lines: Vec<Line>,
    labels: BTreeMap<String, usize>,
}

impl Listing {
    /// The kernel of that name in an assembly text.
    pub(crate) fn of(assembly: &str, kernel: &str) -> Listing {
        let mut listing = Listing { lines: Vec::new(), labels: BTreeMap::new() };
        let body = assembly.lines().skip_while(|line| !line.starts_with(&format!("{kernel}:"))).skip(1);
        for line in body.take_while(|line| !line.starts_with(".Lfunc_end")) {
            let line = line.split(';').next().unwrap_or("").trim();
            if let Some(label) = line.strip_suffix(':') {
                listing.labels.insert(label.into(), listing.lines.len());
            } else if !line.is_empty() && !line.starts_with('.') {
                let (mnemonic, operands) = line.split_once([' ', '\t']).unwrap_or((line, ""));
                listing.lines.push(Line { mnemonic: mnemonic.into(), operands: operands.into() });
            }
        }
        listing
    }

    /// How often an instruction stands there.
    pub(crate) fn count(&self, wanted: impl Fn(&Line) -> bool) -> usize {
        self.lines.iter().filter(|line| wanted(line)).count()
    }

    /// How many copies to LDS of that width stand there.
    pub(crate) fn copies(&self, mnemonic: &str) -> usize {
        self.count(|line| line.is_copy() && line.mnemonic == mnemonic)
    }

    fn target(&self, line: &Line) -> usize {
        self.labels[line.operands.trim()]
    }
}

/// What a kernel's loop is to do.
pub(crate) struct Pipeline {
    /// Stages in LDS.
    pub(crate) stages: usize,
    /// Copies of a wave a stage.
    pub(crate) units: usize,
}

/// Where a walk is.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct State {
    at: usize,
    /// Operations under way, oldest first: whether it is a copy to LDS.
    queue: Vec<bool>,
    issued: usize,
    /// Copies that had arrived when the wave came to the last barrier.
    arrived: usize,
    barriers: usize,
}

impl Pipeline {
    /// Walks a kernel.
    ///
    /// # Errors
    /// The first read, copy or load that may be too early, with the instruction's number.
    pub(crate) fn check(&self, listing: &Listing) -> Result<(), String> {
        let mut seen = HashSet::new();
        let start = State { at: 0, queue: Vec::new(), issued: 0, arrived: 0, barriers: 0 };
        let mut pending = vec![start];
        let mut reads = 0;
        while let Some(state) = pending.pop() {
            if !seen.insert(state.clone()) {
                continue;
            }
            let line = &listing.lines[state.at];
            reads += usize::from(line.mnemonic.starts_with("ds_read"));
            pending.extend(self.step(state, line, listing)?);
        }
        if reads == 0 { Err("no read of LDS was come by".into()) } else { Ok(()) }
    }

    fn step(&self, mut s: State, line: &Line, listing: &Listing) -> Result<Vec<State>, String> {
        let here = format!("instruction {}, {} {}", s.at, line.mnemonic, line.operands);
        let filling = s.issued < (self.stages - 1) * self.units;
        s.at += 1;
        if line.is_memory() {
            if line.is_copy() {
                let stage = s.issued / self.units;
                if s.barriers + self.stages < stage + 2 {
                    return Err(format!("{here}: overwrites a stage that may still be read"));
                }
                s.issued += 1;
            } else if s.barriers > 0 && !s.queue.is_empty() && !self.finished(&s) {
                return Err(format!("{here}: counts as a copy while copies are under way"));
            }
            s.queue.push(line.is_copy());
        } else if let Some(left) = line.vmcnt() {
            let done = s.queue.len().saturating_sub(left);
            s.queue.drain(..done);
        } else if line.mnemonic == "s_barrier" {
            s.arrived = s.issued - s.queue.iter().filter(|copy| **copy).count();
            s.barriers += 1;
        } else if line.mnemonic.starts_with("ds_read") && s.arrived < s.barriers * self.units {
            return Err(format!(
                "{here}: of {} copies it may need, {} have arrived",
                s.barriers * self.units,
                s.arrived
            ));
        } else if line.mnemonic == "s_endpgm" {
            return Ok(Vec::new());
        } else if line.mnemonic.starts_with("s_branch") || line.mnemonic.starts_with("s_cbranch") {
            return Ok(self.branch(s, line, listing, filling));
        }
        Ok(vec![s])
    }

    /// Loops back while LDS is filled, and then until each slot was read and overwritten; forward branches are walked
    /// both ways. K is at least 1, so a path past the loop, and one on to a next tile, ends where it goes back.
    fn branch(&self, s: State, line: &Line, listing: &Listing, filling: bool) -> Vec<State> {
        let to = State { at: listing.target(line), ..s.clone() };
        let back = to.at < s.at;
        let again = filling || (s.barriers > 0 && !self.finished(&s));
        match (line.mnemonic == "s_branch", back) {
            (true, true) if !again => Vec::new(),
            (true, _) => vec![to],
            (false, true) => vec![if again { to } else { s }],
            (false, false) => vec![s, to],
        }
    }

    fn finished(&self, s: &State) -> bool {
        s.barriers > self.stages + 1
    }
}
