//! Model declarations: which matrix multiplications a model runs, how often, at which M and in which formats.
//!
//! A declaration is a TOML file. Everything in it that is wrong is reported at once, with file, line, field and what to
//! do ([`crate::diag`]); a key that is not known is wrong. Of more than 1000 faults the rest is counted.
//!
//! ```toml
//! [model]
//! name = "llama-3.1-8b"             # names files and generated code: a-z, 0-9, '.', '_' and '-'
//! tensor_parallel = 1               # the shapes below are those of one of this many devices (default 1)
//! source = "where the shapes are from"
//!
//! [defaults]                        # for every gemm that does not say otherwise
//! m = [1, 16, { from = 64, to = 4096, factor = 4 }]
//! formats = ["mxfp6_e2m3", "fp8_e4m3", "bf16"]
//! activation = "bf16"
//! out = "bf16"
//! max_error = 0.05
//! deterministic = true
//! copies = 1                        # 2: the weight may be stored twice, for small and for large M
//! # memory_budget_mib = 256          # with copies = 2: what both copies of one weight may take together
//!
//! [[gemm]]
//! name = "mlp.down"
//! n = 4096
//! k = 14336
//! count = 32                        # times per forward pass (default 1)
//! bias = false                      # adds one f32 per output channel (default false)
//! tensors = ["model.layers.{layer}.mlp.down_proj.weight"]
//! # and any key of [defaults]
//! ```
//!
//! `m` is described in the module `points`. `formats` are those that quality allows, most wanted first; without the key
//! the choice is left to the tuner, in the order of [`DEFAULT_FORMATS`]. `activation` (default bf16) is the format that
//! A is multiplied in, `out` (default f32) the element type of D. `max_error`, above 0 and at most 1, bounds a format's
//! error against un-quantised operands. `deterministic` (default false) excludes order-dependent reductions. With `copies = 2`
//! (default 1) the tuner may keep a second copy of each weight in another format or layout, for large M, where that is faster
//! and both copies of one weight fit into `memory_budget_mib`.
//!
//! `tensors` names safetensors tensors whose rows, stacked along N in this order, are the weight of one layer (fused
//! QKV has three). `{layer}` stands for the layer's index and `{expert}` for the expert's; a weight exists for the
//! indices at which all its tensors do. With `tensor_parallel` above 1 the tensors are still the whole ones: a device
//! holds a slice of the rows of each, or of the columns.
//!
//! Invariants: names are safe as file names; every problem made from a declaration is legal for each of its formats;
//! [`Declaration::hash`] depends on nothing but content.

mod decode;
mod document;
pub mod hf;
mod listing;
mod names;
mod points;
mod write;

use std::fmt::Write as _;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use tilewright_kernels::config::fnv1a;
use tilewright_kernels::{Format, OutType};

use crate::diag::{BadInput, Fault};
pub use listing::{listing, weight_bytes};
pub use names::sanitised as name_of;
pub use points::MOST_POINTS as POINTS_MAX;
pub use write::Notes;

/// Largest N, K, M and count: 2^31.
pub const DIMENSION_MAX: u32 = 1 << 31;

/// Largest file that is read: 4 MiB.
pub const FILE_MAX: u64 = 4 << 20;

/// The formats of a GEMM whose declaration leaves them to the tuner, most wanted first: smallest weights first, and
/// bf16 as what always meets the quality gate. Formats that do not allow the GEMM's K are left out.
pub const DEFAULT_FORMATS: &[Format] = &[Format::MxFp6E2m3, Format::Fp8E4m3, Format::Bf16];

/// The GEMMs of one model on one device. Equal when the content is: file and lines do not count.
#[derive(Clone, Debug)]
pub struct Declaration {
    /// The file it was read from.
    pub file: PathBuf,
    /// The model's name: safe as a file name.
    pub model: String,
    /// Devices that each weight is sharded over; the shapes are those of one of them.
    pub tensor_parallel: u32,
    /// Where the shapes are from.
    pub source: Option<String>,
    /// The GEMMs, in the file's order; names are unique.
    pub gemms: Vec<Gemm>,
    /// FNV-1a of the content but `source`: independent of comments, whitespace, order of keys and of how defaults and
    /// ranges are written.
    pub hash: u64,
}

/// One GEMM of a model: a weight (N x K) and the numbers of rows it is multiplied with.
#[derive(Clone, Debug)]
pub struct Gemm {
    /// Its name, unique in the model and safe as a file name.
    pub name: String,
    /// The line of the file where it begins.
    pub line: usize,
    /// Output features.
    pub n: u32,
    /// Input features.
    pub k: u32,
    /// Times per forward pass.
    pub count: u64,
    /// Values of M, ascending and unique.
    pub m: Vec<MPoint>,
    /// Formats of the weight, most wanted first; never empty, and each allows K.
    pub formats: Vec<Format>,
    /// The format A is multiplied in.
    pub activation: Format,
    /// Element type of D.
    pub out: OutType,
    /// Whether a bias is added.
    pub bias: bool,
    /// The largest error of a format that is still allowed.
    pub max_error: Option<f64>,
    /// Whether order-dependent reductions are excluded.
    pub deterministic: bool,
    /// Most MiB that two copies of one weight may take together; `None` allows one copy.
    pub two_copies_mib: Option<u64>,
    /// Tensors whose stacked rows are one layer's weight.
    pub tensors: Vec<String>,
}

/// A number of rows to tune for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MPoint {
    /// Rows of A.
    pub m: u32,
    /// What share of the rows (tokens) passes at this M, relative to the other points; finite, 0 or above. With equal
    /// weights a launch at M=1 is as frequent as M=256's is large.
    pub weight: f64,
}

impl Declaration {
    /// Reads a file.
    ///
    /// # Errors
    /// Every fault of the file.
    pub fn read(path: &Path) -> Result<Self, BadInput> {
        Self::parse(path, &read_text(path)?)
    }

    /// Reads several files; no two may declare a model of the same name.
    ///
    /// # Errors
    /// Every fault of every file.
    pub fn read_all<P: AsRef<Path>>(paths: &[P]) -> Result<Vec<Self>, BadInput> {
        let mut declarations: Vec<Self> = Vec::new();
        let mut faults = Vec::new();
        for path in paths {
            match Self::read(path.as_ref()) {
                Ok(declaration) => {
                    if let Some(other) = declarations.iter().find(|d| d.model == declaration.model) {
                        let mut fault = Fault::of_file(
                            path.as_ref(),
                            format!(
                                "the model {:?} is declared in {} too",
                                declaration.model,
                                other.file.display()
                            ),
                            "tables are named after models: give each its own name",
                        );
                        fault.field = "model.name".into();
                        faults.push(fault);
                    }
                    declarations.push(declaration);
                }
                Err(BadInput(more)) => faults.extend(more),
            }
        }
        if faults.is_empty() { Ok(declarations) } else { Err(BadInput(faults)) }
    }

    /// Reads a file's text; `path` is what messages name it by.
    ///
    /// # Errors
    /// Every fault of the text.
    pub fn parse(path: &Path, text: &str) -> Result<Self, BadInput> {
        decode::declaration(path, text)
    }

    /// The declaration as a file: what [`Declaration::parse`] reads back as an equal one.
    pub fn to_toml(&self) -> String {
        write::declaration(self, &Notes::default())
    }

    /// The same, with comments.
    pub fn to_toml_with(&self, notes: &Notes) -> String {
        write::declaration(self, notes)
    }

    fn content(&self) -> String {
        let mut text = format!("model {} tensor_parallel {}\n", self.model, self.tensor_parallel);
        for gemm in &self.gemms {
            gemm.content(&mut text);
        }
        text
    }

    fn with_hash(mut self) -> Self {
        self.hash = fnv1a(self.content().as_bytes());
        self
    }
}

impl PartialEq for Declaration {
    fn eq(&self, other: &Self) -> bool {
        self.source == other.source && self.content() == other.content()
    }
}

impl Gemm {
    /// The names of [`Gemm::tensors`] for one layer and, where experts have their own, one expert.
    pub fn tensors_of(&self, layer: usize, expert: usize) -> Vec<String> {
        let (layer, expert) = (layer.to_string(), expert.to_string());
        self.tensors.iter().map(|name| name.replace("{layer}", &layer).replace("{expert}", &expert)).collect()
    }

    /// Canonical text. It is what a declaration's hash is taken of, so it may not change its form.
    fn content(&self, text: &mut String) {
        let Gemm {
            name,
            line: _,
            n,
            k,
            count,
            m,
            formats,
            activation,
            out,
            bias,
            max_error,
            deterministic,
            two_copies_mib,
            tensors,
        } = self;
        let _ = write!(text, "gemm {name} n {n} k {k} count {count} m");
        for MPoint { m, weight } in m {
            let _ = write!(text, " {m}:{weight:?}");
        }
        text.push_str(" formats");
        for format in formats {
            let _ = write!(text, " {format}");
        }
        let _ = write!(
            text,
            " activation {activation} out {out} bias {bias} max_error {max_error:?} deterministic {deterministic} \
             tensors {tensors:?}"
        );
        if let Some(mib) = two_copies_mib {
            let _ = write!(text, " copies 2 memory_budget_mib {mib}");
        }
        text.push('\n');
    }
}

impl PartialEq for Gemm {
    fn eq(&self, other: &Self) -> bool {
        let (mut a, mut b) = (String::new(), String::new());
        self.content(&mut a);
        other.content(&mut b);
        a == b
    }
}

/// The text of an input file of bounded size.
fn read_text(path: &Path) -> Result<String, BadInput> {
    let unreadable = |error: std::io::Error| {
        BadInput::one(path, format!("cannot be read: {error}"), "check the path and its permissions")
    };
    let file = std::fs::File::open(path).map_err(unreadable)?;
    let mut bytes = Vec::new();
    file.take(FILE_MAX + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    if bytes.len() as u64 > FILE_MAX {
        let help = "declarations and model configs are a few KiB; is this the right file?";
        return Err(BadInput::one(path, "larger than 4 MiB", help));
    }
    String::from_utf8(bytes).map_err(|error| {
        let valid = error.utf8_error().valid_up_to();
        let line = 1 + error.as_bytes()[..valid].iter().filter(|byte| **byte == b'\n').count();
        let mut fault = Fault::of_file(path, "not UTF-8 text", "save the file as UTF-8");
        fault.line = Some(line);
        BadInput(vec![fault])
    })
}
