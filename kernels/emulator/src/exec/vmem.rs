//! Vector memory instructions.
//!
//! A load has its result in the registers at once, so a missing wait for registers cannot be seen here; data on its way
//! to LDS may land as late as its wait, see [`crate::Dma`].

use super::lds::{loaded, stored};
use super::wave::{Pending, Wave};
use crate::error::{Trap, trap};
use crate::isa::LANES;
use crate::isa::memory_table::{Access, Atomic, Mem, MemKind, Space};
use crate::isa::operand::{M0, PRIVATE_APERTURE, SHARED_APERTURE};
use crate::memory::lds::{Lds, bank_cycles};
use crate::memory::{Bus, Region, atomic};
use crate::report::{Traffic, lines_of};

/// What memory instructions see besides their wave.
pub(crate) struct Env<'a> {
    pub(crate) bus: &'a Bus<'a>,
    pub(crate) lds: &'a mut Lds,
    pub(crate) traffic: Option<&'a mut Traffic>,
    /// Data for LDS lands when it is issued.
    pub(crate) land_at_once: bool,
}

impl Env<'_> {
    /// Counts the bank conflicts of an LDS access.
    pub(crate) fn lds_access(&mut self, addresses: &[Option<u32>; LANES], bytes: u8) {
        if let Some(traffic) = &mut self.traffic {
            let (cycles, ideal) = bank_cycles(addresses, bytes, 32);
            traffic.lds_cycles += u64::from(cycles);
            traffic.lds_cycles_ideal += u64::from(ideal);
        }
    }

    fn global_access(&mut self, places: &Places, bytes: u8, store: bool) {
        if let Some(traffic) = &mut self.traffic {
            let addresses = places.iter().filter_map(|place| match place {
                Place::Global(address) => Some(*address),
                _ => None,
            });
            lines_of(addresses, bytes, store, traffic);
        }
    }
}

/// Where one lane's access goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Inactive,
    Global(u64),
    Shared(u32),
    Private(u32),
    /// Buffer: this many bytes lie within the range, from the address.
    Partial(u64, u8),
}

type Places = [Place; LANES];

/// Runs one vector memory instruction.
pub(crate) fn run(op: &Mem, w: &mut Wave, env: &mut Env<'_>) -> Result<(), Trap> {
    let pending = match op.kind {
        MemKind::Cache => Pending::Done,
        MemKind::Load(access) => {
            let places = places(op, w, access.bytes)?;
            env.global_access(&places, access.bytes, false);
            load(op.dst, access, &places, w, env)?;
            Pending::Done
        }
        MemKind::Store(access) => {
            let places = places(op, w, access.bytes)?;
            env.global_access(&places, access.bytes, true);
            store(op.data, access, &places, w, env)?;
            Pending::Done
        }
        MemKind::LoadLds(access) => {
            let places = places(op, w, access.bytes)?;
            env.global_access(&places, access.bytes, false);
            load_lds(op, access, &places, w, env)?
        }
        MemKind::Atomic { op: kind, wide, returns } => {
            let places = places(op, w, if wide { 8 } else { 4 })?;
            env.global_access(&places, if wide { 8 } else { 4 }, true);
            update(op, kind, wide, returns, &places, w, env)?;
            Pending::Done
        }
    };
    w.pending.push_back(pending);
    Ok(())
}

fn places(op: &Mem, w: &Wave, bytes: u8) -> Result<Places, Trap> {
    let mut out = [Place::Inactive; LANES];
    let low = &w.vgpr[usize::from(op.addr)];
    let active = (0..LANES).filter(|&i| w.exec >> i & 1 == 1);
    match op.space {
        Space::Global if op.scalar.is_some() => {
            let base = w.s64(op.scalar.unwrap_or_default()).wrapping_add_signed(i64::from(op.offset));
            for i in active {
                out[i] = Place::Global(base.wrapping_add(u64::from(low[i])));
            }
        }
        Space::Global | Space::Flat => {
            let high = &w.vgpr[usize::from(op.addr) + 1];
            for i in active {
                let address =
                    (u64::from(low[i]) | u64::from(high[i]) << 32).wrapping_add_signed(i64::from(op.offset));
                out[i] = match (address >> 32) as u32 {
                    SHARED_APERTURE if op.space == Space::Flat => Place::Shared(address as u32),
                    PRIVATE_APERTURE if op.space == Space::Flat => Place::Private(address as u32),
                    _ => Place::Global(address),
                };
            }
        }
        Space::Scratch => {
            let scalar = op.scalar.map_or(0, |s| w.s32(s));
            for i in active {
                let vector = if op.vector_offset { low[i] } else { 0 };
                out[i] = Place::Private(scalar.wrapping_add(vector).wrapping_add_signed(op.offset));
            }
        }
        Space::Buffer => buffer(op, w, bytes, &mut out)?,
    }
    Ok(out)
}

/// A buffer descriptor (V#) as far as linear buffers use it.
pub(super) struct Descriptor {
    pub(super) base: u64,
    pub(super) stride: u32,
    pub(super) records: u32,
}

impl Descriptor {
    pub(super) fn read(w: &Wave, first: u8) -> Result<Self, Trap> {
        let words: [u32; 4] = std::array::from_fn(|i| w.s32(first + i as u8));
        if words[1] >> 31 == 1 {
            return trap!("a swizzled buffer descriptor ({words:08x?}) is not modelled");
        }
        if words[3] >> 23 & 1 == 1 {
            return trap!("a buffer descriptor that adds the thread id ({words:08x?}) is not modelled");
        }
        Ok(Self {
            base: u64::from(words[0]) | u64::from(words[1] & 0xffff) << 32,
            stride: words[1] >> 16 & 0x3fff,
            records: words[2],
        })
    }
}

/// Buffer addressing: base + soffset + index · stride + offsets. The range check includes soffset; it is by dword for
/// raw accesses and by record for indexed ones.
fn buffer(op: &Mem, w: &Wave, bytes: u8, out: &mut Places) -> Result<(), Trap> {
    let v = Descriptor::read(w, op.scalar.unwrap_or_default())?;
    let soffset = w.scalar(op.soffset, false);
    let first = &w.vgpr[usize::from(op.addr)];
    let second = &w.vgpr[usize::from(op.addr) + usize::from(op.index)];
    for i in (0..LANES).filter(|&i| w.exec >> i & 1 == 1) {
        let index = if op.index { u64::from(first[i]) } else { 0 };
        let offset = if op.vector_offset { u64::from(second[i]) } else { 0 } + op.offset as u64;
        let at = index * u64::from(v.stride) + offset + soffset;
        let address = v.base + at;
        let inside = if op.index && v.stride != 0 {
            if index < u64::from(v.records) { u64::from(bytes) } else { 0 }
        } else {
            u64::from(v.records).saturating_sub(at)
        };
        out[i] = if inside >= u64::from(bytes) {
            Place::Global(address)
        } else {
            Place::Partial(address, if bytes < 4 { 0 } else { inside as u8 & !3 })
        };
    }
    Ok(())
}

/// Reads a lane's bytes; what lies outside a buffer's range reads as 0.
#[inline(always)]
fn fetch<'a>(
    place: Place,
    bytes: u8,
    lane: usize,
    w: &Wave,
    env: &mut Env<'a>,
    near: &mut Near<'a>,
) -> Result<[u32; 4], Trap> {
    let mut out = [0; 4];
    match place {
        Place::Inactive => {}
        Place::Global(address) => read_global(near, address, bytes, &mut out, lane)?,
        Place::Partial(address, inside) => read_global(near, address, inside, &mut out, lane)?,
        Place::Shared(address) => env.lds.load(w.id, address, bytes, &mut out)?,
        Place::Private(address) => {
            for i in 0..u32::from(bytes).div_ceil(4) {
                out[i as usize] = scratch_word(w, lane, address + 4 * i, bytes.min(4))?;
            }
        }
    }
    Ok(out)
}

fn lane_trap(lane: usize) -> impl Fn(Trap) -> Trap {
    move |what| format!("lane {lane}: {what}").into_boxed_str()
}

/// The buffer that the last lane hit: the next one mostly hits it too.
struct Near<'a> {
    bus: &'a Bus<'a>,
    region: Option<&'a Region>,
}

impl<'a> Near<'a> {
    fn new(env: &Env<'a>) -> Self {
        Self { bus: env.bus, region: None }
    }

    #[inline(always)]
    fn find(&mut self, address: u64, bytes: u8, lane: usize) -> Result<(&'a Region, u64), Trap> {
        if let Some(region) = self.region
            && let Some(at) = region.contains(address, u64::from(bytes))
        {
            return Ok((region, at));
        }
        let (region, at) = self.bus.find(address, u64::from(bytes)).map_err(lane_trap(lane))?;
        self.region = Some(region);
        Ok((region, at))
    }
}

#[inline(always)]
fn read_global(
    near: &mut Near<'_>,
    address: u64,
    bytes: u8,
    out: &mut [u32; 4],
    lane: usize,
) -> Result<(), Trap> {
    if bytes == 0 {
        return Ok(());
    }
    let (region, at) = near.find(address, bytes, lane)?;
    if bytes < 4 {
        out[0] = region.load_part(at, bytes);
    } else {
        for i in 0..bytes / 4 {
            out[usize::from(i)] = region.load32(at + 4 * u64::from(i));
        }
    }
    Ok(())
}

/// Index of a lane's scratch word, and the bit it begins at.
fn scratch_at(w: &Wave, lane: usize, address: u32, bytes: u8) -> Result<(usize, u32), Trap> {
    if u64::from(address) + u64::from(bytes) > u64::from(w.scratch_bytes) {
        return trap!(
            "lane {lane}: {bytes} bytes at scratch address {address:#x} of {} bytes",
            w.scratch_bytes
        );
    }
    if address % 4 + u32::from(bytes) > 4 {
        return trap!("lane {lane}: a scratch access at {address:#x} that straddles dwords is not modelled");
    }
    Ok((lane * (w.scratch_bytes as usize).div_ceil(4) + (address / 4) as usize, 8 * (address % 4)))
}

fn scratch_word(w: &Wave, lane: usize, address: u32, bytes: u8) -> Result<u32, Trap> {
    let (i, shift) = scratch_at(w, lane, address, bytes)?;
    Ok(w.scratch[i] >> shift & (u32::MAX >> (32 - 8 * u32::from(bytes))))
}

fn load(dst: u16, access: Access, places: &Places, w: &mut Wave, env: &mut Env<'_>) -> Result<(), Trap> {
    let registers = usize::from(access.bytes).div_ceil(4);
    let mut near = Near::new(env);
    for (lane, &place) in places.iter().enumerate() {
        if place == Place::Inactive {
            continue;
        }
        let value = fetch(place, access.bytes, lane, w, env, &mut near)?;
        for (r, &value) in value.iter().enumerate().take(registers) {
            let cell = &mut w.vgpr[usize::from(dst) + r][lane];
            *cell = loaded(access, *cell, value);
        }
    }
    Ok(())
}

fn store(data: u16, access: Access, places: &Places, w: &mut Wave, env: &mut Env<'_>) -> Result<(), Trap> {
    let mut near = Near::new(env);
    for (lane, &place) in places.iter().enumerate() {
        let value = stored(w, data, access, lane);
        match place {
            Place::Inactive => {}
            Place::Global(address) => write_global(&mut near, address, access.bytes, &value, lane)?,
            Place::Partial(address, inside) => write_global(&mut near, address, inside, &value, lane)?,
            Place::Shared(address) => env.lds.store(w.id, address, access.bytes, &value)?,
            Place::Private(address) => {
                let part = access.bytes.min(4);
                let mask = u32::MAX >> (32 - 8 * u32::from(part));
                for i in 0..u32::from(access.bytes).div_ceil(4) {
                    let (at, shift) = scratch_at(w, lane, address + 4 * i, part)?;
                    let word = &mut w.scratch[at];
                    *word = *word & !(mask << shift) | (value[i as usize] & mask) << shift;
                }
            }
        }
    }
    Ok(())
}

fn write_global(
    near: &mut Near<'_>,
    address: u64,
    bytes: u8,
    value: &[u32; 4],
    lane: usize,
) -> Result<(), Trap> {
    if bytes == 0 {
        return Ok(());
    }
    let (region, at) = near.find(address, bytes, lane)?;
    region.check_writable()?;
    if bytes < 4 {
        region.store_part(at, value[0], bytes);
    } else {
        for i in 0..bytes / 4 {
            region.store32(at + 4 * u64::from(i), value[usize::from(i)]);
        }
    }
    Ok(())
}

/// Memory to LDS: LDS address = M0 + instruction offset + lane · size. Lanes out of a buffer's range write 0.
fn load_lds(
    op: &Mem,
    access: Access,
    places: &Places,
    w: &mut Wave,
    env: &mut Env<'_>,
) -> Result<Pending, Trap> {
    // A byte or a word fills the lane's dword.
    let size = access.bytes.max(4);
    let base = w.s32(M0).wrapping_add_signed(op.offset);
    let mut parts = Vec::with_capacity(LANES);
    let mut near = Near::new(env);
    for (lane, &place) in places.iter().enumerate() {
        if place == Place::Inactive {
            continue;
        }
        let mut value = fetch(place, access.bytes, lane, w, env, &mut near)?;
        value[0] = loaded(access, 0, value[0]);
        parts.push((base + lane as u32 * u32::from(size), (value, size)));
    }
    for &(address, (_, size)) in &parts {
        env.lds.touch(w.id, address, size, true);
    }
    if env.land_at_once {
        land(w.id, &parts, env.lds)?;
        return Ok(Pending::Done);
    }
    Ok(Pending::Dma(parts))
}

/// Data arrives in LDS.
pub(crate) fn land(wave: u32, parts: &[(u32, ([u32; 4], u8))], lds: &mut Lds) -> Result<(), Trap> {
    for &(address, (value, size)) in parts {
        let whole = size == 16 && lds.dwords_mut::<4>(address).map(|to| *to = value).is_some();
        if !whole {
            lds.store(wave, address, size, &value)?;
        }
    }
    Ok(())
}

fn update(
    op: &Mem,
    kind: Atomic,
    wide: bool,
    returns: bool,
    places: &Places,
    w: &mut Wave,
    env: &mut Env<'_>,
) -> Result<(), Trap> {
    for (lane, &place) in places.iter().enumerate() {
        let word = |i: usize| w.vgpr[usize::from(op.data) + i][lane];
        let (data, compare) = if wide {
            let pair = |i: usize| u64::from(word(i)) | u64::from(word(i + 1)) << 32;
            (pair(0), if kind == Atomic::CompareSwap { pair(2) } else { 0 })
        } else {
            (u64::from(word(0)), if kind == Atomic::CompareSwap { u64::from(word(1)) } else { 0 })
        };
        let old = match place {
            Place::Inactive => continue,
            // Out of range: nothing happens, and 0 comes back.
            Place::Partial(..) => 0,
            Place::Private(_) => return trap!("lane {lane}: an atomic on scratch is not modelled"),
            Place::Shared(address) => {
                env.lds.update(address, wide, |old| both(kind, wide, old, data, compare))?
            }
            Place::Global(address) => {
                let bytes = if wide { 8 } else { 4 };
                let (region, at) = env.bus.find(address, bytes).map_err(lane_trap(lane))?;
                update_region(region, at, kind, wide, data, compare).map_err(lane_trap(lane))?
            }
        };
        if returns {
            w.vgpr[usize::from(op.dst)][lane] = old as u32;
            if wide {
                w.vgpr[usize::from(op.dst) + 1][lane] = (old >> 32) as u32;
            }
        }
    }
    Ok(())
}

fn both(kind: Atomic, wide: bool, old: u64, data: u64, compare: u64) -> u64 {
    if wide {
        atomic::apply64(kind, old, data, compare)
    } else {
        u64::from(atomic::apply32(kind, old as u32, data as u32, compare as u32))
    }
}

/// An atomic on a place that is known to lie in the region.
pub(super) fn update_region(
    region: &Region,
    at: u64,
    kind: Atomic,
    wide: bool,
    data: u64,
    compare: u64,
) -> Result<u64, Trap> {
    region.check_writable()?;
    if wide {
        region.update64(at, |old| atomic::apply64(kind, old, data, compare))
    } else {
        region.update32(at, |old| atomic::apply32(kind, old, data as u32, compare as u32)).map(u64::from)
    }
}
