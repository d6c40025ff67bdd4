//! Binding a table to a device: canonical texts become configs once, so that lookups handle no text.

use alloc::vec::Vec;
use core::fmt;

use tilewright_kernels::{BackendKind, Config, ConfigError, ConfigId, Device, Layout};

use crate::counters::Counters;
use crate::key::Code;
use crate::nearest::log2;
use crate::table::{NO_KERNEL, SCHEMA, TableData, WeightPlan};

/// A table bound to a device, ready for lookups from any number of threads.
#[derive(Debug)]
pub struct Table<'a> {
    pub(crate) data: TableData<'a>,
    pub(crate) device: Device,
    pub(crate) kernels: Vec<Bound>,
    pub(crate) groups: Vec<BoundGroup>,
    /// `from` of every segment, dense, because a lookup searches them.
    pub(crate) starts: Vec<u32>,
    pub(crate) counters: Counters,
    faults: Vec<BindFault>,
}

/// A kernel of the table as this build knows it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bound {
    /// `None` if the text does not name a kernel of this build and backend.
    pub(crate) config: Option<Config>,
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
        let kernels = data.kernels.iter().enumerate().map(|(position, kernel)| {
            let config = resolve(kernel.text, kernel.id, device.backend).map_err(|why| {
                faults.push(BindFault::Kernel { position, why });
            });
            let layout = config.as_ref().map_or(Layout::RowMajor, Config::layout);
            Bound { config: config.ok(), layout }
        });
        let kernels = kernels.collect();
        let groups = data.groups.iter().map(|group| BoundGroup {
            code: group.key.encode(),
            log_n: log2(group.key.n),
            log_k: log2(group.key.k),
            first: group.first,
            len: group.len,
        });
        Table {
            groups: groups.collect(),
            starts: data.segments.iter().map(|segment| segment.from).collect(),
            data,
            device: *device,
            kernels,
            counters: Counters::default(),
            faults,
        }
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

    /// The plan of a weight.
    pub fn weight(&self, name: &str) -> Option<&WeightPlan<'a>> {
        self.data.weights.iter().find(|weight| weight.name == name)
    }
}

/// Whether every position in the data points at something and every group's segments tile [1, ∞).
fn is_whole(data: &TableData<'_>) -> bool {
    let kernel = |position: u16| position == NO_KERNEL || (position as usize) < data.kernels.len();
    let bits = 1..32;
    data.segments.iter().all(|segment| {
        kernel(segment.kernel)
            && segment.runner_ups.into_iter().all(kernel)
            && (segment.weight as usize) < data.weights.len()
    }) && data.weights.iter().all(|weight| (weight.group as usize) < data.groups.len())
        && bits.contains(&data.index.bucket_bits)
        && bits.contains(&data.index.slot_bits)
        && data.groups.iter().all(|group| {
            let last = group.first.checked_add(group.len);
            last.and_then(|last| data.segments.get(group.first as usize..last as usize)).is_some_and(
                |segments| {
                    segments.first().is_some_and(|segment| segment.from == 1)
                        && segments.windows(2).all(|pair| pair[0].from < pair[1].from)
                },
            )
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
