//! Rows of any source in one form.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use tilewright_kernels::Format;

use super::Source;
use super::aiter::Family;
use crate::diag::Fault;

/// No name.
pub const NONE: u32 = u32::MAX;

/// A file that was read: what its rows say, and what is wrong with those that could not be read.
#[derive(Clone, Debug)]
pub struct Foreign {
    /// The file.
    pub file: PathBuf,
    /// Whose it is.
    pub source: Source,
    /// AITER's family, where it is known.
    pub family: Option<Family>,
    /// Versions the file records, `NAME=value`.
    pub software: Vec<String>,
    /// What the rows' problems have beyond their dimensions.
    pub operations: Vec<Operation>,
    /// The rows, in the file's order.
    pub entries: Vec<Entry>,
    /// Rows that could not be read, and remarks on the file.
    pub faults: Vec<Fault>,
    /// Whether the file has a column for the architecture, or says it elsewhere.
    pub names_arch: bool,
    names: Vec<Box<str>>,
    index: HashMap<Box<str>, u32>,
    /// Rows and faults beyond what is kept.
    beyond: [usize; 2],
}

/// Most rows of a file that are kept. AITER's largest family has some 40,000.
pub const ROWS_MAX: usize = 2_000_000;

/// Most faults of a file that are kept; the others are counted.
pub const FAULTS_MAX: usize = 10_000;

/// One row.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// Its line, from 1.
    pub line: u32,
    /// Position in [`Foreign::operations`].
    pub operation: u32,
    /// Problems of one launch.
    pub batch: u32,
    /// Rows of the activation.
    pub m: u32,
    /// Output features.
    pub n: u32,
    /// Input features.
    pub k: u32,
    /// The library's name, or [`NONE`].
    pub library: u32,
    /// The kernel's name, or [`NONE`] in an untuned list.
    pub kernel: u32,
    /// The split-K column as it is written.
    pub split_k: Option<i32>,
    /// Time in µs as it is written; placeholders are kept.
    pub time_us: Option<f64>,
    /// Share of wrong elements as it is written.
    pub error: Option<f64>,
    /// Throughput in TFLOP/s as it is written.
    pub tflops: Option<f64>,
    /// The kernel's number in the source's own list, which holds for one build.
    pub index: Option<i32>,
    /// The row or key as the source writes it, or [`NONE`] where it follows from the other fields.
    pub origin: u32,
    /// Why a declaration cannot express the row, or [`NONE`].
    pub obstacle: u32,
}

/// What a problem is beyond its dimensions: the rest of the key.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Operation {
    /// `gfx942`, or a product's name where a source keys by that; empty where nothing is said.
    pub arch: String,
    /// Compute units.
    pub units: Option<u32>,
    /// Activation.
    pub a: Element,
    /// Weight.
    pub b: Element,
    /// Output.
    pub out: Element,
    /// Scales.
    pub scales: Scales,
    /// Whether a bias is added.
    pub bias: bool,
    /// Whether the weight is stored shuffled.
    pub preshuffled: bool,
    /// What else the source's own key holds: transpositions, and leading dimensions that are not the dense ones.
    pub variant: String,
}

/// An element type as another system names it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Element {
    /// One we have.
    Format(Format),
    /// binary32.
    F32,
    /// One we do not have.
    Other(String),
    /// The file does not say.
    Unsaid,
}

impl Element {
    /// Reads the spellings of torch, vLLM and hipBLASLt.
    pub fn parse(text: &str) -> Self {
        let name = text.trim().trim_start_matches("torch.").to_ascii_lowercase();
        match name.as_str() {
            "" => Element::Unsaid,
            "bfloat16" | "bf16" | "bf16_r" => Element::Format(Format::Bf16),
            "float32" | "float" | "fp32" | "f32" | "f32_r" => Element::F32,
            "float8_e4m3fn" | "f8_r" | "fp8_e4m3" => Element::Format(Format::Fp8E4m3),
            "float8_e4m3fnuz" | "f8_fnuz_r" => Element::Format(Format::Fp8E4m3Fnuz),
            "float8_e5m2" | "bf8_r" => Element::Format(Format::Fp8E5m2),
            "float4_e2m1fn_x2" | "fp4x2" | "f4_r" => Element::Format(Format::MxFp4),
            "f6_r" => Element::Format(Format::MxFp6E2m3),
            "bf6_r" => Element::Format(Format::MxFp6E3m2),
            _ => Element::Other(name),
        }
    }

    /// The FP8 E4M3 that an architecture multiplies; the OCP one where nothing is known.
    pub fn fp8_of(arch: &str) -> Self {
        let fnuz = arch.starts_with("gfx94") || arch.contains("MI300") || arch.contains("MI325");
        Element::Format(if fnuz { Format::Fp8E4m3Fnuz } else { Format::Fp8E4m3 })
    }

    /// Bits of one element, with the share of an MX block's scale; 0 where it is not known.
    pub fn bits(&self) -> f64 {
        match self {
            Element::Format(format) => format.bits() as f64 + if format.is_mx() { 0.25 } else { 0.0 },
            Element::F32 => 32.0,
            Element::Other(name)
                if name.contains("int8") || name.contains("i8") || name.contains("float8") =>
            {
                8.0
            }
            Element::Other(name) if name.contains("16") || name == "half" => 16.0,
            Element::Other(_) | Element::Unsaid => 0.0,
        }
    }

    /// The name in evidence.
    pub fn name(&self) -> &str {
        match self {
            Element::Format(format) => format.name(),
            Element::F32 => "f32",
            Element::Other(name) => name,
            Element::Unsaid => "",
        }
    }
}

/// Granularity of the scales.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scales {
    /// The format's usual one, or none.
    Usual,
    /// One for the whole operand.
    Tensor,
    /// One per token and per output channel.
    Channel,
    /// One per 128x128 elements of the weight and per 1x128 of the activation.
    Block128,
}

impl Scales {
    /// The name in evidence.
    pub const fn name(self) -> &'static str {
        match self {
            Scales::Usual => "usual",
            Scales::Tensor => "tensor",
            Scales::Channel => "channel",
            Scales::Block128 => "block128x128",
        }
    }
}

impl Foreign {
    /// A file without rows.
    pub(super) fn new(file: &Path, source: Source) -> Self {
        Foreign {
            file: file.into(),
            source,
            family: None,
            software: Vec::new(),
            operations: Vec::new(),
            entries: Vec::new(),
            faults: Vec::new(),
            names_arch: true,
            names: Vec::new(),
            index: HashMap::new(),
            beyond: [0; 2],
        }
    }

    /// Adds a row, if there is room.
    pub(super) fn push(&mut self, entry: Entry) {
        if self.entries.len() < ROWS_MAX {
            self.entries.push(entry);
        } else {
            self.beyond[0] += 1;
        }
    }

    /// Says what was not kept, when the file has been read.
    pub(super) fn seal(&mut self) {
        let [rows, faults] = std::mem::take(&mut self.beyond);
        for (count, what) in [(rows, "rows"), (faults, "faults")] {
            if count > 0 {
                let message = format!("{count} {what} more than are kept of one file");
                let fault = Fault::of_file(&self.file, message, "split the file");
                self.faults.push(fault);
            }
        }
    }

    /// The number of a name, which is kept once.
    pub(super) fn intern(&mut self, name: &str) -> u32 {
        if name.is_empty() {
            return NONE;
        }
        if let Some(index) = self.index.get(name) {
            return *index;
        }
        let index = self.names.len() as u32;
        self.names.push(name.into());
        self.index.insert(name.into(), index);
        index
    }

    /// The position of an operation, which is kept once.
    pub(super) fn operation(&mut self, operation: Operation) -> u32 {
        let found = self.operations.iter().position(|known| *known == operation);
        found.unwrap_or_else(|| {
            self.operations.push(operation);
            self.operations.len() - 1
        }) as u32
    }

    /// A name by its number; empty for [`NONE`].
    pub fn name(&self, index: u32) -> &str {
        self.names.get(index as usize).map_or("", |name| name)
    }

    /// How many names there are.
    pub fn name_count(&self) -> usize {
        self.names.len()
    }

    /// The operation of a row.
    pub fn operation_of(&self, entry: &Entry) -> &Operation {
        &self.operations[entry.operation as usize]
    }

    /// The split-K of a row as a count of parts, where its meaning is known.
    pub fn split_count(&self, entry: &Entry) -> Option<u32> {
        let written = entry.split_k?;
        match self.source {
            Source::Aiter => super::aiter::split_count(self.family, self.name(entry.library), written),
            _ => u32::try_from(written).ok().map(|count| count.max(1)),
        }
    }

    /// Notes a fault of a line.
    pub(super) fn fault(&mut self, line: u32, field: &str, message: impl Into<String>, help: &str) {
        if self.faults.len() >= FAULTS_MAX {
            self.beyond[1] += 1;
            return;
        }
        self.faults.push(Fault {
            file: self.file.clone(),
            line: (line > 0).then_some(line as usize),
            field: field.into(),
            message: message.into(),
            help: help.into(),
        });
    }
}
