//! One workgroup: its waves, their turns, barriers, and the landing of LDS data.

use std::collections::VecDeque;

use crate::code_object::{CodeObject, Kernel, NOWHERE};
use crate::error::{Error, Fault, Trap, trap};
use crate::exec::scalar::{self, Flow};
use crate::exec::vmem::{self, Env};
use crate::exec::wave::{Mode, Pending, State, Wave};
use crate::exec::{lds, matrix, smem, vector};
use crate::isa::types::T;
use crate::isa::{AGPR, LANES, Op};
use crate::launch::{Dma, Grid, Options, Order};
use crate::memory::Bus;
use crate::memory::lds::{Lds, Race};
use crate::report::Traffic;

/// What all workgroups of a launch share.
pub(crate) struct Setup<'a> {
    pub(crate) code: &'a CodeObject,
    pub(crate) kernel: &'a Kernel,
    pub(crate) bus: Bus<'a>,
    pub(crate) grid: Grid,
    /// Index of the first instruction.
    pub(crate) start: usize,
    pub(crate) lds_bytes: u32,
    pub(crate) kernarg: u64,
    pub(crate) packet: u64,
    pub(crate) options: &'a Options,
}

/// What a workgroup did.
pub(crate) struct Outcome {
    /// Executions of each instruction of the code object.
    pub(crate) counts: Vec<u32>,
    pub(crate) traffic: Traffic,
    pub(crate) races: Vec<Race>,
}

/// Instructions that a wave runs before the next has a turn, so that waves that poll LDS make progress.
const TURN: u64 = 4096;

/// SplitMix64.
struct Rng(u64);

impl Rng {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let x = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ x >> 31
    }

    fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }
}

struct Group<'a> {
    setup: &'a Setup<'a>,
    id: [u32; 3],
    linear: u64,
    lds: Lds,
    counts: Vec<u32>,
    traffic: Option<Traffic>,
    rng: Rng,
    tiles: matrix::Tiles,
}

/// Runs workgroup `linear` to its end.
pub(crate) fn workgroup(setup: &Setup<'_>, linear: u64) -> Result<Outcome, Error> {
    let options = setup.options;
    let [nx, ny, _] = setup.grid.grid.map(u64::from);
    let id = [linear % nx, linear / nx % ny, linear / (nx * ny)].map(|x| x as u32);
    let stream = options.streams.then(Vec::new);
    let mut group = Group {
        setup,
        id,
        linear,
        lds: Lds::new(setup.lds_bytes, options.poison, options.races),
        counts: vec![0; setup.code.insts.len()],
        traffic: (options.traffic || options.streams).then(|| Traffic { stream, ..Traffic::default() }),
        tiles: matrix::Tiles::new(),
        rng: Rng(options.seed ^ linear.wrapping_mul(0x9e37_79b9)),
    };
    let threads: u32 = setup.grid.block.iter().product();
    let mut waves: Vec<Wave> =
        (0..threads.div_ceil(LANES as u32)).map(|i| wave(setup, id, i, threads)).collect();
    group.run(&mut waves)?;
    let races = group.lds.races();
    Ok(Outcome { counts: group.counts, traffic: group.traffic.unwrap_or_default(), races })
}

/// A wave in its initial state.
fn wave(setup: &Setup<'_>, group: [u32; 3], id: u32, threads: u32) -> Wave {
    let (kernel, options) = (setup.kernel, setup.options);
    let d = &kernel.descriptor;
    let first = id * LANES as u32;
    let active = (threads - first).min(LANES as u32);
    let mut w = Wave {
        id,
        sgpr: [options.poison; 256],
        vgpr: vec![[options.poison; LANES]; 2 * usize::from(AGPR) + 32],
        exec: if active == 64 { u64::MAX } else { (1 << active) - 1 },
        scc: false,
        mode: Mode(d.mode),
        pc: 0,
        state: State::Ready,
        pending: VecDeque::new(),
        scratch: vec![options.poison; LANES * d.private_segment.div_ceil(4) as usize],
        scratch_bytes: d.private_segment,
        executed: 0,
        indexed: false,
    };
    // User SGPRs in the order of the properties' bits; then preloaded arguments, workgroup ids, workgroup info.
    let mut next = 0;
    let has = |bit: u32| d.properties >> bit & 1 == 1;
    if has(1) {
        w.set_s64(next, setup.packet);
        next += 2;
    }
    if has(3) {
        w.set_s64(next, setup.kernarg);
        next += 2;
    }
    if has(5) {
        // Flat scratch is addressed by the hardware itself on this architecture.
        next += 2;
    }
    if has(6) {
        w.set_s32(next, d.private_segment);
        next += 1;
    }
    for i in 0..d.preload.0 {
        let address = setup.kernarg + 4 * u64::from(d.preload.1 + i);
        if let Ok((region, at)) = setup.bus.find(address, 4) {
            w.set_s32(next, region.load32(at));
        }
        next += 1;
    }
    next = next.max(d.user_sgprs as u8);
    for axis in 0..3 {
        if d.workgroup_ids[axis] {
            w.set_s32(next, group[axis]);
            next += 1;
        }
    }
    if d.workgroup_info {
        w.set_s32(next, threads.div_ceil(LANES as u32));
    }
    let [bx, by, _] = setup.grid.block;
    for lane in 0..LANES as u32 {
        let i = first + lane;
        let (x, y, z) = (i % bx, i / bx % by, i / (bx * by));
        let packed = match d.workitem_id_dims {
            0 => x,
            1 => y << 10 | x,
            _ => z << 20 | y << 10 | x,
        };
        w.vgpr[0][lane as usize] = packed;
    }
    w.pc = setup.start;
    w
}

impl Group<'_> {
    fn run(&mut self, waves: &mut [Wave]) -> Result<(), Error> {
        let mut turn = 0;
        loop {
            let ready: Vec<usize> = (0..waves.len()).filter(|&i| waves[i].state == State::Ready).collect();
            if ready.is_empty() {
                if waves.iter().all(|w| w.state == State::Ended) {
                    return Ok(());
                }
                // Every wave that has not ended waits: the barrier opens.
                for w in waves.iter_mut().filter(|w| w.state == State::AtBarrier) {
                    w.state = State::Ready;
                }
                self.lds.barrier();
                continue;
            }
            let (pick, length) = match self.setup.options.order {
                Order::Forward => (ready[turn % ready.len()], TURN),
                Order::Reverse => (ready[ready.len() - 1 - turn % ready.len()], TURN),
                Order::Random => (ready[self.rng.below(ready.len())], 1 + self.rng.next() % 64),
            };
            let before = ready.len();
            self.turn(&mut waves[pick], length)?;
            // A wave that stopped leaves its place to the next one; one that only used up its turn is passed over.
            if waves[pick].state == State::Ready || before == 1 {
                turn += 1;
            }
        }
    }

    /// Lets one wave run for up to `length` instructions.
    fn turn(&mut self, w: &mut Wave, length: u64) -> Result<(), Error> {
        for _ in 0..length {
            let at = w.pc;
            let went_on = self.step(w);
            if self.setup.options.trace == Some((self.linear, w.id)) {
                self.trace(w, at);
            }
            match went_on {
                Ok(true) => {}
                Ok(false) => break,
                Err(what) => return Err(self.fault(w, at, &what)),
            }
        }
        Ok(())
    }

    /// Prints an instruction that has run, with its result in the first active lane.
    fn trace(&self, w: &Wave, at: usize) {
        let Some(inst) = self.setup.code.insts.get(at) else { return };
        let lane = w.first_lane();
        let vector = |n: u16| match n {
            0..AGPR => format!("v{n}={:08x}", w.vgpr[usize::from(n)][lane]),
            _ => format!("a{}={:08x}", n - AGPR, w.vgpr[usize::from(n)][lane]),
        };
        let result = match &inst.op {
            Op::Vector(v) if matches!(v.ty.dst, T::Mask) => format!("mask={:016x}", w.s64(v.sdst)),
            Op::Vector(v) => vector(v.dst),
            Op::Matrix(m) => vector(m.dst),
            Op::Lds(op) => vector(op.dst),
            Op::Memory(op) => vector(op.dst),
            Op::ScalarMemory(op) => format!("s{}={:08x}", op.data, w.s32(op.data)),
            Op::Scalar(op) => op.destination().map_or(String::new(), |s| format!("s{s}={:08x}", w.s32(s))),
            Op::Undecodable(_) => String::new(),
        };
        let pc = self
            .setup
            .code
            .text
            .wrapping_sub(self.setup.code.image.base)
            .wrapping_add(u64::from(inst.offset));
        eprintln!("{pc:6x} {:32} {result:20} exec={:016x} scc={}", inst.mnemonic(), w.exec, u8::from(w.scc));
    }

    fn fault(&self, w: &Wave, at: usize, what: &str) -> Error {
        let code = self.setup.code;
        let (pc, instruction) = match code.insts.get(at) {
            Some(inst) => {
                let pc = code.text.wrapping_sub(code.image.base).wrapping_add(u64::from(inst.offset));
                (pc, format!("{} ({:?})", inst.mnemonic(), inst.encoding))
            }
            None => (0, "outside the text".into()),
        };
        let kernel = self.setup.kernel.name.clone();
        Error::Fault(Box::new(Fault {
            kernel,
            pc,
            instruction,
            workgroup: self.id,
            wave: w.id,
            what: what.into(),
        }))
    }

    /// Runs one instruction; false ends the turn.
    #[inline]
    fn step(&mut self, w: &mut Wave) -> Result<bool, Trap> {
        let setup = self.setup;
        let Some(inst) = setup.code.insts.get(w.pc) else {
            return trap!("the wave ran off the end of the text");
        };
        self.counts[w.pc] += 1;
        w.executed += 1;
        if w.executed > setup.options.limit {
            return trap!("the wave has run {} instructions and is taken to hang", setup.options.limit);
        }
        if setup.options.dma == Dma::Random && !w.pending.is_empty() {
            self.land_some(w)?;
        }
        w.pc += 1;
        let arch = setup.code.arch();
        match &inst.op {
            Op::Scalar(op) => {
                let next = i64::from(inst.offset) + 4 * i64::from(inst.words);
                return self.flow(scalar::run(op, w, next, setup.code.text)?, w);
            }
            Op::Vector(op) if w.indexed => vector::run(&vector::indexed(op, w)?, w, arch)?,
            Op::Vector(op) => vector::run(op, w, arch)?,
            Op::Matrix(_) | Op::Lds(_) | Op::Memory(_) if w.indexed => {
                return trap!("relative register numbers are modelled for VALU instructions alone");
            }
            Op::Matrix(op) => matrix::run(op, w, arch, &mut self.tiles)?,
            Op::Lds(op) => lds::run(op, w, &mut self.env())?,
            Op::Memory(op) => vmem::run(op, w, &mut self.env())?,
            Op::ScalarMemory(op) => smem::run(op, w, &self.env())?,
            Op::Undecodable(what) => return trap!("{what}"),
        }
        Ok(true)
    }

    fn env(&mut self) -> Env<'_> {
        Env {
            bus: &self.setup.bus,
            lds: &mut self.lds,
            traffic: self.traffic.as_mut(),
            land_at_once: self.setup.options.dma == Dma::Early,
        }
    }

    fn flow(&mut self, flow: Flow, w: &mut Wave) -> Result<bool, Trap> {
        match flow {
            Flow::Next => Ok(true),
            Flow::Jump(target) => {
                let index = &self.setup.code.index;
                let at = usize::try_from(target).ok().filter(|t| t % 4 == 0).and_then(|t| index.get(t / 4));
                match at {
                    Some(&i) if i != NOWHERE => w.pc = i as usize,
                    _ => return trap!("a jump to text offset {target:#x}, where no instruction begins"),
                }
                Ok(true)
            }
            Flow::Wait { vm } => {
                while w.pending.len() > usize::from(vm) {
                    if let Some(Pending::Dma(parts)) = w.pending.pop_front() {
                        vmem::land(w.id, &parts, &mut self.lds)?;
                    }
                }
                Ok(true)
            }
            Flow::Yield => Ok(false),
            Flow::Barrier => {
                w.state = State::AtBarrier;
                Ok(false)
            }
            Flow::End => {
                while let Some(pending) = w.pending.pop_front() {
                    if let Pending::Dma(parts) = pending {
                        vmem::land(w.id, &parts, &mut self.lds)?;
                    }
                }
                w.state = State::Ended;
                Ok(false)
            }
        }
    }

    /// With one chance in eight, one of the transfers under way lands.
    fn land_some(&mut self, w: &mut Wave) -> Result<(), Trap> {
        if !self.rng.next().is_multiple_of(8) {
            return Ok(());
        }
        let pick = self.rng.below(w.pending.len());
        if let Pending::Dma(parts) = std::mem::replace(&mut w.pending[pick], Pending::Done) {
            vmem::land(w.id, &parts, &mut self.lds)?;
        }
        Ok(())
    }
}
