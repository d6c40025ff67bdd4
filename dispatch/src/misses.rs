//! Remembers what a table was asked for and had not measured, and writes it down as a declaration ready to tune.
//!
//! [`Misses`] is a fixed array of slots, filled by open addressing. A slot's identity is two words, each set once from
//! zero by compare-and-swap and never changed again: a thread that finds them set otherwise goes on to the next slot, and
//! no thread ever waits for another. A request therefore has one slot, whoever comes first, and its count is exact. What
//! finds no slot is counted as dropped. Nothing is allocated after [`Misses::new`], until the declaration is written.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::Write as _;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use tilewright_kernels::{Epilogue, Format, OutType};

use crate::key::{Code, Key};
use crate::lookup::Request;
use crate::table::TableData;

/// Most requests that are told apart: the most M points a declaration's GEMM may have.
pub const MOST: usize = 4096;

/// Slots that are tried for one request.
const PROBES: usize = 32;

/// Largest N, K and M of a declaration.
const DIMENSION_MAX: u32 = 1 << 31;

/// How much N or K may differ for a weight to be called similar: one part in this many.
const SIMILAR: u32 = 20;

/// Requests that were answered by something else than a measurement of theirs.
#[derive(Debug)]
pub struct Misses {
    slots: Box<[Slot]>,
    dropped: AtomicU64,
}

/// Both words are 0 until a request claims them.
#[derive(Debug, Default)]
struct Slot {
    /// [`Code::shape`], which is 0 for no legal problem.
    shape: AtomicU64,
    /// [`packed`], which is never 0.
    rest: AtomicU64,
    count: AtomicU64,
}

/// A recorded request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Miss {
    /// What it was for.
    pub key: Key,
    /// Whether it asked for the same bits on every run.
    pub deterministic: bool,
    /// Its rows.
    pub m: u32,
    /// How often it came.
    pub count: u64,
}

impl Misses {
    /// Room for about `capacity` different requests, 1 to [`MOST`].
    pub fn new(capacity: usize) -> Self {
        Misses::with_slots(capacity.clamp(1, MOST).next_power_of_two())
    }

    /// That many slots, a power of two.
    pub(crate) fn with_slots(slots: usize) -> Self {
        let slots = (0..slots).map(|_| Slot::default());
        Misses { slots: slots.collect(), dropped: AtomicU64::new(0) }
    }

    /// Records a request. Never waits and allocates nothing.
    pub fn note(&self, request: &Request) {
        self.note_answered(request, 0);
    }

    /// Records a request with a number from 0 to 15 for what answered it. The same request with another number is another.
    pub(crate) fn note_answered(&self, request: &Request, by: u8) {
        let code = Key::of(&request.problem, request.layout).encode();
        let rest = packed(code.traits, request.problem.m, request.deterministic)
            .map(|rest| rest | u64::from(by & 0xf) << ANSWERED);
        let (Some(rest), true) = (rest, code.shape != 0) else {
            self.dropped.fetch_add(1, Relaxed);
            return;
        };
        let mask = self.slots.len() - 1;
        let hash = (code.shape ^ rest.rotate_left(32)).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        let claims = |word: &AtomicU64, value: u64| {
            word.compare_exchange(0, value, Relaxed, Relaxed).err().is_none_or(|found| found == value)
        };
        for probe in 0..PROBES.min(self.slots.len()) {
            let slot = &self.slots[(hash as usize + probe) & mask];
            if claims(&slot.shape, code.shape) && claims(&slot.rest, rest) {
                slot.count.fetch_add(1, Relaxed);
                return;
            }
        }
        self.dropped.fetch_add(1, Relaxed);
    }

    /// Requests for which there was no room.
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Relaxed)
    }

    /// What was recorded so far, in canonical order.
    pub fn read(&self) -> Vec<Miss> {
        self.read_answered().into_iter().map(|(miss, _)| miss).collect()
    }

    /// The same with the numbers of [`Misses::note_answered`].
    pub(crate) fn read_answered(&self) -> Vec<(Miss, u8)> {
        let read = |slot: &Slot| {
            let (shape, rest) = (slot.shape.load(Relaxed), slot.rest.load(Relaxed));
            let (traits, m, deterministic) = unpacked(rest)?;
            let key = Code { shape, traits }.decode()?;
            let count = slot.count.load(Relaxed);
            let by = (rest >> ANSWERED & 0xf) as u8;
            (count > 0).then_some((Miss { key, deterministic, m, count }, by))
        };
        let mut misses: Vec<(Miss, u8)> = self.slots.iter().filter_map(read).collect();
        misses.sort();
        misses
    }

    /// What was recorded so far as a model declaration, or `None` if that is nothing.
    ///
    /// A GEMM's `count` is how often it was called, an M's weight the rows it brought, and the formats are those that
    /// were asked for. Comments name weights of the table that are nearly the same.
    pub fn declaration(&self, table: &TableData<'_>) -> Option<String> {
        let declarable = |miss: &Miss| {
            let Key { n, k, .. } = miss.key;
            [n, k, miss.m].into_iter().max() <= Some(DIMENSION_MAX)
                && miss.key.problem(miss.m).fault().is_none()
        };
        let misses: Vec<Miss> = self.read().into_iter().filter(declarable).collect();
        if misses.is_empty() {
            return None;
        }
        let mut gemms: BTreeMap<Gemm, Vec<Miss>> = BTreeMap::new();
        for miss in misses {
            gemms.entry(Gemm::of(&miss)).or_default().push(miss);
        }
        let mut text =
            String::from("# Requests that no measurement answered, recorded by an engine at run time.\n");
        if self.dropped() > 0 {
            let _ = writeln!(text, "# {} more found no room in the recorder.", self.dropped());
        }
        let _ = writeln!(
            text,
            "\n[model]\nname = \"{}\"\ntensor_parallel = {}",
            model_name(table.model),
            table.tensor_parallel
        );
        for (gemm, misses) in &gemms {
            gemm.write(misses, table, &mut text);
        }
        Some(text)
    }

    /// Writes [`Misses::declaration`] to a file, whole: to a temporary file beside it, which reaches the disk before it
    /// takes the name. Gives whether there was anything to write.
    ///
    /// # Errors
    /// What the file system says.
    pub fn write(&self, table: &TableData<'_>, path: &std::path::Path) -> std::io::Result<bool> {
        let Some(text) = self.declaration(table) else { return Ok(false) };
        replace(path, &text).map(|()| true)
    }
}

/// Writes a file whole: to a temporary file beside it, which reaches the disk before it takes the name.
pub(crate) fn replace(path: &std::path::Path, text: &str) -> std::io::Result<()> {
    /// Two threads that write one file must not write one temporary file.
    static WRITES: AtomicU64 = AtomicU64::new(0);
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.{}.tmp", std::process::id(), WRITES.fetch_add(1, Relaxed)));
    let temporary = path.with_file_name(name);
    let written = write_to_disk(&temporary, text.as_bytes()).and_then(|()| std::fs::rename(&temporary, path));
    if written.is_err() {
        // The first error is the one to report.
        let _ = std::fs::remove_file(&temporary);
    }
    written
}

fn write_to_disk(path: &std::path::Path, content: &[u8]) -> std::io::Result<()> {
    let mut file = std::fs::File::create(path)?;
    std::io::Write::write_all(&mut file, content)?;
    file.sync_all()
}

/// Where [`packed`] leaves four bits for what answered.
const ANSWERED: u32 = 56;

/// M below, then four bits for each of the six traits, four that are 0, whether it is deterministic, and a bit that is always
/// set. `None` if a trait has a larger code.
fn packed(traits: u64, m: u32, deterministic: bool) -> Option<u64> {
    let mut packed = u64::from(m) | u64::from(deterministic) << 62 | 1 << 63;
    for index in 0..6 {
        let code = traits >> (8 * index) & 0xff;
        if code > 0xf {
            return None;
        }
        packed |= code << (32 + 4 * index);
    }
    Some(packed)
}

fn unpacked(packed: u64) -> Option<(u64, u32, bool)> {
    let traits = (0..6).map(|index| (packed >> (32 + 4 * index) & 0xf) << (8 * index)).sum();
    (packed >> 63 == 1).then_some((traits, packed as u32, packed >> 62 & 1 == 1))
}

/// A table's model, with what is not allowed in a name left out.
fn model_name(model: &str) -> String {
    let allowed = |c: &char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '.' | '_' | '-');
    let name: String =
        model.chars().filter(allowed).skip_while(|c| !c.is_ascii_alphanumeric()).take(57).collect();
    if name.is_empty() { "misses".into() } else { name + "-misses" }
}

/// What makes one `[[gemm]]`: formats, scales and layouts are the tuner's to choose among.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Gemm {
    n: u32,
    k: u32,
    a: Format,
    out: OutType,
    epilogue: Epilogue,
    deterministic: bool,
}

impl Gemm {
    fn of(miss: &Miss) -> Self {
        let Key { n, k, a, out, epilogue, .. } = miss.key;
        Gemm { n, k, a, out, epilogue, deterministic: miss.deterministic }
    }

    fn name(&self) -> String {
        let Gemm { n, k, a, out, epilogue, deterministic } = self;
        let mut name = format!("n{n}.k{k}.{a}.{out}");
        if *epilogue != Epilogue::None {
            let _ = write!(name, ".{epilogue}");
        }
        name + if *deterministic { ".deterministic" } else { "" }
    }

    fn write(&self, misses: &[Miss], table: &TableData<'_>, text: &mut String) {
        let mut rows: BTreeMap<u32, f64> = BTreeMap::new();
        let mut calls: BTreeMap<Format, u64> = BTreeMap::new();
        for miss in misses {
            *rows.entry(miss.m).or_default() += miss.count as f64 * f64::from(miss.m);
            *calls.entry(miss.key.b).or_default() += miss.count;
        }
        let all: f64 = rows.values().sum();
        let count = calls.values().sum::<u64>().min(DIMENSION_MAX.into());
        let mut formats: Vec<(Format, u64)> = calls.into_iter().collect();
        formats.sort_by_key(|(format, calls)| (u64::MAX - calls, *format));
        let formats: Vec<String> = formats.iter().map(|(format, _)| format!("\"{format}\"")).collect();
        let Gemm { n, k, a, out, epilogue, deterministic } = self;
        text.push('\n');
        for note in self.near_misses(table) {
            let _ = writeln!(text, "# {note}");
        }
        let _ = write!(text, "[[gemm]]\nname = \"{}\"\nn = {n}\nk = {k}\ncount = {count}\n", self.name());
        text.push_str("m = [\n");
        for (m, rows) in rows {
            let _ = writeln!(text, "    {{ m = {m}, weight = {:?} }},", rows / all);
        }
        let _ =
            write!(text, "]\nformats = [{}]\nactivation = \"{a}\"\nout = \"{out}\"\n", formats.join(", "));
        let _ = writeln!(text, "bias = {}\ndeterministic = {deterministic}", *epilogue == Epilogue::Bias);
    }

    /// What the table has that is almost this.
    fn near_misses(&self, table: &TableData<'_>) -> Vec<String> {
        let Gemm { n, k, .. } = *self;
        let weights = || {
            table.weights.iter().filter_map(|weight| {
                let group = table.groups.get(weight.group as usize)?;
                // A name comes from the table and must not end the comment.
                Some((weight.name.escape_default(), group))
            })
        };
        let mut notes = Vec::new();
        for (name, group) in weights() {
            let (other_n, other_k) = (group.key.n, group.key.k);
            let close = |a: u32, b: u32| a != b && a.abs_diff(b) <= b / SIMILAR;
            let percent = |a: u32, b: u32| 100.0 * f64::from(a.abs_diff(b)) / f64::from(b);
            if (other_n, other_k) == (n, k) {
                notes.push(self.same_shape(&name, group));
            } else if other_k == k && close(n, other_n) {
                let by = percent(n, other_n);
                notes
                    .push(format!("same K as {name}, N differs by {by:.1} %: a fused or padded projection?"));
            } else if other_n == n && close(k, other_k) {
                notes.push(format!("same N as {name}, K differs by {:.1} %: padded?", percent(k, other_k)));
            } else if (other_n, other_k) == (k, n) && n != k {
                notes.push(format!("{name} has N and K the other way round: transposed?"));
            }
        }
        let same_k: Vec<_> = weights().filter(|(_, group)| group.key.k == k).collect();
        let pairs = same_k.iter().enumerate().flat_map(|(i, a)| same_k[i + 1..].iter().map(move |b| (a, b)));
        let fused = pairs.filter(|(a, b)| u64::from(a.1.key.n) + u64::from(b.1.key.n) == u64::from(n));
        notes.extend(
            fused.map(|(a, b)| format!("N is that of {} and {} together: a fused projection?", a.0, b.0)),
        );
        for (name, group) in same_k {
            let parts = n.checked_div(group.key.n).filter(|parts| *parts > 1 && n % group.key.n == 0);
            if let Some(parts) = parts.filter(|parts| *parts <= 8) {
                notes.push(format!("N is {parts} times that of {name}: a fused projection?"));
            }
        }
        notes
    }

    fn same_shape(&self, name: &dyn core::fmt::Display, group: &crate::table::Group) -> String {
        let Key { a, b, layout, out, epilogue, .. } = group.key;
        if (a, out, epilogue) != (self.a, self.out, self.epilogue) {
            return format!(
                "the table has {name} of this shape with activation {a}, out {out} and epilogue {epilogue}"
            );
        }
        let [least, most] = group.measured;
        format!("the table has {name} of this shape in {b}, {layout}, measured from M = {least} to {most}")
    }
}
