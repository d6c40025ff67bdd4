//! Binding a table to a device: canonical texts become configs once, so that lookups handle no text.

use alloc::vec::Vec;
use core::fmt;

use tilewright_kernels::{BackendKind, Config, ConfigError, ConfigId, Device, Layout, is_launchable};

use crate::counters::Counters;
use crate::key::Code;
use crate::nearest::log2;
use crate::proven::{Answer, Proven, runs_throughout};
use crate::table::{Group, NO_KERNEL, SCHEMA, Segment, TableData, WeightPlan};

/// A table bound to a device, ready for lookups from any number of threads.
#[derive(Debug)]
pub struct Table<'a> {
    pub(crate) data: TableData<'a>,
    pub(crate) device: Device,
    pub(crate) kernels: Vec<Bound>,
    /// The kernels that resolved.
    pub(crate) configs: Vec<Config>,
    pub(crate) groups: Vec<BoundGroup>,
    pub(crate) segments: Vec<Segment>,
    /// `from` of every segment, dense, because a lookup searches them.
    pub(crate) starts: Vec<u32>,
    pub(crate) proven: Proven,
    pub(crate) counters: Counters,
    #[cfg(feature = "std")]
    pub(crate) misses: Option<crate::misses::Misses>,
    #[cfg(feature = "std")]
    pub(crate) record: Option<crate::record::Record>,
    faults: Vec<BindFault>,
}

/// A kernel of the table as this build knows it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bound {
    /// Position in [`Table::configs`]; `None` if the text does not name a kernel of this build and backend.
    pub(crate) config: Option<u16>,
    /// What the config reads; meaningless without one.
    pub(crate) layout: Layout,
}

/// A group as lookups need it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BoundGroup {
    pub(crate) code: Code,
    pub(crate) log_n: u32,
    pub(crate) log_k: u32,
    pub(crate) first: u32,
    pub(crate) len: u32,
}

impl<'a> Table<'a> {
    /// Resolves the table's kernels for a device. Never fails: what does not resolve is recorded in
    /// [`Table::faults`] and passed over by lookups. Allocates; do it once.
    pub fn bind(data: &TableData<'a>, device: &Device) -> Self {
        let mut faults = Vec::new();
        let mut data = *data;
        if data.schema != SCHEMA || !is_whole(&data) {
            faults.push(if data.schema == SCHEMA {
                BindFault::Damaged
            } else {
                BindFault::OtherSchema(data.schema)
            });
            // Nothing in it can be trusted to mean what this build thinks: answer without it.
            data = TableData {
                kernels: &[],
                weights: &[],
                groups: &[],
                segments: &[],
                index: TableData::EMPTY.index,
                ..data
            };
        }
        let mut configs: Vec<Config> = Vec::new();
        let kernels = data.kernels.iter().enumerate().map(|(position, kernel)| {
            match resolve(kernel.text, kernel.id, device.backend) {
                Ok(config) => {
                    configs.push(config);
                    Bound { config: u16::try_from(configs.len() - 1).ok(), layout: config.layout() }
                }
                Err(why) => {
                    faults.push(BindFault::Kernel { position, why });
                    Bound { config: None, layout: Layout::RowMajor }
                }
            }
        });
        let kernels: Vec<Bound> = kernels.collect();
        let prover = Prover { data: &data, device, kernels: &kernels, configs: &configs };
        let mut proven = Proven::new(data.index.slots.len());
        for (position, group) in data.groups.iter().enumerate() {
            let code = group.key.encode();
            // A group that its code does not lead to is found by no lookup.
            if let Some(slot) = data.index.slot_of(code)
                && data.index.slots[slot] as usize == position
            {
                proven.put(slot, code, group.measured, &prover.segments(group));
            }
        }
        let segments: Vec<Segment> = data.segments.iter().map(|packed| Segment::unpack(*packed)).collect();
        let groups = data.groups.iter().map(|group| BoundGroup {
            code: group.key.encode(),
            log_n: log2(group.key.n),
            log_k: log2(group.key.k),
            first: group.first,
            len: group.len,
        });
        Table {
            groups: groups.collect(),
            starts: segments.iter().map(|segment| segment.from).collect(),
            segments,
            data,
            device: *device,
            kernels,
            configs,
            proven,
            counters: Counters::default(),
            #[cfg(feature = "std")]
            misses: None,
            #[cfg(feature = "std")]
            record: None,
            faults,
        }
    }

    /// [`Table::bind`], which then records every request where the environment asks for it: see [`crate::record`].
    #[cfg(feature = "std")]
    pub fn bind_recorded(data: &TableData<'a>, device: &Device) -> Self {
        Table { record: crate::record::Record::from_environment(data), ..Table::bind(data, device) }
    }

    /// What did not resolve.
    pub fn faults(&self) -> &[BindFault] {
        &self.faults
    }

    /// The data it was bound from, without rows if they could not be used.
    pub fn data(&self) -> &TableData<'a> {
        &self.data
    }

    /// The device it was bound to.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// How often each rung answered [`Table::choose`].
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Lets [`Table::choose`] record requests that no measurement answers, up to about `capacity` different ones.
    #[cfg(feature = "std")]
    pub fn record_misses(&mut self, capacity: usize) {
        self.misses = Some(crate::misses::Misses::new(capacity));
    }

    /// Records every request from here on, hits too.
    #[cfg(feature = "std")]
    pub fn record(&mut self, record: crate::record::Record) {
        self.record = Some(record);
    }

    /// The record, if [`Table::record`] was called.
    #[cfg(feature = "std")]
    pub fn recorded(&self) -> Option<&crate::record::Record> {
        self.record.as_ref()
    }

    /// What was recorded, if [`Table::record_misses`] was called.
    #[cfg(feature = "std")]
    pub fn misses(&self) -> Option<&crate::misses::Misses> {
        self.misses.as_ref()
    }

    /// The plan of a weight.
    pub fn weight(&self, name: &str) -> Option<&WeightPlan<'a>> {
        self.data.weights.iter().find(|weight| weight.name == name)
    }
}

/// What may be said of a table's segments on a device.
struct Prover<'d> {
    data: &'d TableData<'d>,
    device: &'d Device,
    kernels: &'d [Bound],
    configs: &'d [Config],
}

impl Prover<'_> {
    /// The last M and the answer of each segment of a group.
    fn segments(&self, group: &Group) -> Vec<(u32, Answer)> {
        let segments: Vec<Segment> = self.data.segments_of(group).collect();
        let lasts = segments[1..].iter().map(|next| next.from - 1).chain([u32::MAX]);
        let answers = segments.iter().zip(lasts).zip(group.first..);
        answers
            .map(|((segment, last), position)| (last, self.answer(group, segment, position, last)))
            .collect()
    }

    /// The first kernel of the row that reads the layout, if it runs the whole segment.
    fn answer(&self, group: &Group, segment: &Segment, position: u32, last: u32) -> Answer {
        let row = [segment.kernel, segment.runner_ups[0], segment.runner_ups[1]];
        let known = row.into_iter().zip(0..).find_map(|(kernel, rank)| {
            let bound = self.kernels.get(kernel as usize)?;
            (bound.layout == group.key.layout).then_some((bound.config?, rank))
        });
        let Some((config_at, rank)) = known else { return Answer::UNPROVEN };
        let config = &self.configs[config_at as usize];
        let runs = |m| is_launchable(config, &group.key.problem(m), self.device).is_ok();
        if !runs_throughout(segment.from, last, runs) {
            return Answer::UNPROVEN;
        }
        Answer::proven(segment.m, position, config_at, rank, (config.family().deterministic)(config))
    }
}

/// Whether every position in the data points at something and every group's segments tile [1, ∞).
fn is_whole(data: &TableData<'_>) -> bool {
    let kernel = |position: u16| position == NO_KERNEL || (position as usize) < data.kernels.len();
    data.segments.iter().map(|packed| Segment::unpack(*packed)).all(|segment| {
        kernel(segment.kernel)
            && segment.runner_ups.into_iter().all(kernel)
            && (segment.weight as usize) < data.weights.len()
    }) && data.weights.iter().all(|weight| {
        let group = |group: u16| (group as usize) < data.groups.len();
        group(weight.group) && weight.second.is_none_or(|second| group(second.group))
    }) && data.groups.iter().all(|group| {
        let segments: Vec<_> = data.segments_of(group).collect();
        segments.len() == group.len as usize
            && (1..=group.measured[1]).contains(&group.measured[0])
            && segments.first().is_some_and(|segment| segment.from == 1)
            && segments.windows(2).all(|pair| pair[0].from < pair[1].from)
    })
}

fn resolve(text: &str, id: u64, backend: BackendKind) -> Result<Config, KernelFault> {
    if ConfigId::of_text(text) != ConfigId(id) {
        return Err(KernelFault::OtherId);
    }
    let config = Config::parse(text).map_err(KernelFault::Unknown)?;
    if config.family().backend != backend {
        return Err(KernelFault::OtherBackend);
    }
    Ok(config)
}

/// Part of a table that this build or device cannot use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BindFault {
    /// The table was compiled for another schema; none of it is used.
    OtherSchema(u32),
    /// Positions in the table point nowhere, or a group's segments do not tile [1, ∞); none of it is used.
    Damaged,
    /// A kernel is passed over.
    Kernel {
        /// Position in [`TableData::kernels`].
        position: usize,
        /// Why.
        why: KernelFault,
    },
}

/// Why a kernel of a table is not used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KernelFault {
    /// This build has no such kernel.
    Unknown(ConfigError),
    /// The id is not the hash of the text.
    OtherId,
    /// It belongs to another backend.
    OtherBackend,
}

impl fmt::Display for BindFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BindFault::OtherSchema(schema) => write!(
                f,
                "the table has schema {schema}, this build reads {SCHEMA}: regenerate it with `tilewright compile`"
            ),
            BindFault::Damaged => f.write_str("the table's positions do not fit together: regenerate it"),
            BindFault::Kernel { position, why } => {
                write!(f, "kernel {position} of the table is passed over: ")?;
                match why {
                    KernelFault::Unknown(error) => write!(f, "{error}"),
                    KernelFault::OtherId => f.write_str("its id is not the hash of its text"),
                    KernelFault::OtherBackend => f.write_str("it belongs to another backend"),
                }
            }
        }
    }
}

impl core::error::Error for BindFault {}
