//! Collecting a model's GEMMs while sharding them over devices.
//!
//! Sharding follows Megatron-LM (Shoeybi et al., 2019): a column-parallel weight keeps N / tp of its rows, a
//! row-parallel one K / tp of its columns with the partial sums reduced over the devices, so an attention or MLP block
//! needs one reduction. KV heads that are fewer than the devices are replicated.

use super::Options;
use super::config::Config;
use crate::diag::BadInput;
use crate::shapes::{DIMENSION_MAX, Gemm, MPoint, Notes};
use tilewright_kernels::{Format, OutType};

/// Most rows of logits that are computed at once: those of the last token of each sequence.
const MOST_LOGIT_ROWS: u32 = 256;

/// One weight of a model before it becomes a [`Gemm`].
pub(super) struct Linear {
    pub(super) name: &'static str,
    pub(super) n: u64,
    pub(super) k: u64,
    pub(super) count: u64,
    pub(super) bias: bool,
    pub(super) tensors: Vec<String>,
    pub(super) note: &'static str,
    pub(super) kind: Kind,
}

/// What sets a weight's M values and formats apart.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// A projection inside a layer.
    Projection,
    /// An MoE router: it decides where tokens go, so it stays in bf16.
    Router,
    /// The output layer: one row a sequence.
    Logits,
}

impl Linear {
    /// A projection of every layer, without bias.
    pub(super) fn new(name: &'static str, n: u64, k: u64, count: u64) -> Self {
        let (tensors, note, kind) = (Vec::new(), "", Kind::Projection);
        Linear { name, n, k, count, bias: false, tensors, note, kind }
    }

    pub(super) fn bias(self, bias: bool) -> Self {
        Linear { bias, ..self }
    }

    pub(super) fn note(self, note: &'static str) -> Self {
        Linear { note, ..self }
    }

    pub(super) fn kind(self, kind: Kind) -> Self {
        Linear { kind, ..self }
    }

    /// Names the tensors: a common beginning and the rest of each.
    pub(super) fn tensors(self, prefix: &str, names: &[&str]) -> Self {
        Linear { tensors: names.iter().map(|name| format!("{prefix}{name}.weight")).collect(), ..self }
    }
}

/// Collects GEMMs and divides their sizes.
pub(super) struct Builder<'c, 't> {
    pub(super) config: &'c mut Config<'t>,
    pub(super) options: &'c Options,
    pub(super) out: OutType,
    pub(super) gemms: Vec<Gemm>,
    pub(super) notes: Notes,
}

impl Builder<'_, '_> {
    /// The number of devices.
    pub(super) fn tp(&self) -> u64 {
        self.options.tensor_parallel.into()
    }

    /// One device's share of a size. What does not divide is noted, named by its key in the config.
    pub(super) fn share(&mut self, size: u64, key: &str) -> u64 {
        let tp = self.tp();
        if !size.is_multiple_of(tp) {
            self.config.indivisible(key, size, &format!("--tp {tp}"), "choose a --tp that divides it");
        }
        size / tp
    }

    /// One device's KV heads: a share, or one replicated head where there are fewer than devices.
    pub(super) fn kv_share(&mut self, heads: u64, key: &str) -> u64 {
        if heads < self.tp() && self.tp().is_multiple_of(heads) { 1 } else { self.share(heads, key) }
    }

    /// A bias of a row-parallel weight is added once, after the reduction over devices.
    pub(super) fn row_bias(&self, bias: bool) -> bool {
        bias && self.tp() == 1
    }

    /// Adds a GEMM, or nothing where its count is 0.
    pub(super) fn add(&mut self, linear: Linear) {
        let Linear { name, n, k, count, bias, tensors, note, kind } = linear;
        if count == 0 {
            return;
        }
        let bound = |size: u64| u32::try_from(size).unwrap_or(u32::MAX).min(DIMENSION_MAX.saturating_add(1));
        let (n, k) = (bound(n), bound(k));
        let wanted = if kind == Kind::Router { vec![Format::Bf16] } else { self.options.formats.clone() };
        let formats: Vec<Format> = wanted.into_iter().filter(|format| format.allows_k(k)).collect();
        if formats.is_empty() {
            let message =
                format!("{name}: K = {k} is no multiple of 32, and --formats holds MX formats alone");
            self.config.fault("", message, "add fp8_e4m3 or bf16 to --formats, or choose another --tp");
        }
        let within = |m: &&u32| kind != Kind::Logits || **m <= MOST_LOGIT_ROWS;
        let mut m: Vec<MPoint> =
            self.options.m.iter().filter(within).map(|m| MPoint { m: *m, weight: 1.0 }).collect();
        m.sort_by_key(|point| point.m);
        if m.is_empty() {
            m.push(MPoint { m: MOST_LOGIT_ROWS, weight: 1.0 });
        }
        self.gemms.push(Gemm {
            name: name.into(),
            line: 1,
            n,
            k,
            count,
            m,
            formats,
            activation: Format::Bf16,
            out: self.out,
            bias,
            max_error: self.options.max_error,
            deterministic: false,
            two_copies_mib: None,
            tensors: if self.is_quantised() { Vec::new() } else { tensors },
        });
        self.notes.gemms.push(note.into());
    }

    /// Adds a comment at the head of the file.
    pub(super) fn remark(&mut self, words: &str) {
        self.notes.header.push(words.into());
    }

    /// The comments that depend on the model as a whole.
    pub(super) fn general_remarks(&mut self) {
        if self.tp() > 1 {
            self.remark(
                "Shapes are those of one device: q, k, v, gate, up and lm_head keep their share of the rows, out and \
                 down theirs of the columns (Megatron's rules; KV heads are replicated where they are fewer than the \
                 devices). A bias after a reduction over devices is not part of the GEMM. Tensors are named whole.",
            );
        }
        if self.is_quantised() {
            self.remark("The checkpoint is stored quantised, so no tensors are named.");
        }
    }

    /// Whether the config names the bare model, without an output layer.
    pub(super) fn is_headless(&self) -> bool {
        let class =
            self.config.get("architectures").and_then(|list| list.get(0)).and_then(|class| class.as_str());
        class.is_some_and(|class| class.ends_with("Model"))
    }

    fn is_quantised(&self) -> bool {
        self.config.get("quantization_config").is_some()
    }

    /// Ends the reading of keys: what follows is computed from them.
    pub(super) fn read(&mut self) -> Result<(), BadInput> {
        self.config.finish()
    }
}
