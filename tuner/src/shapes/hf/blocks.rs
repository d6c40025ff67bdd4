//! The blocks that decoders have in common: gated MLPs, experts and the output layer.

use super::build::{Builder, Kind, Linear};

/// What the names of the model's own tensors begin with.
pub(super) fn prefix(b: &Builder<'_, '_>) -> &'static str {
    match (b.config.is_nested(), b.is_headless()) {
        (true, _) => "language_model.model.",
        (false, false) => "model.",
        (false, true) => "",
    }
}

/// A gated MLP: gate and up fused along N, then down.
pub(super) struct Mlp<'a> {
    pub(super) hidden: u64,
    /// The intermediate size.
    pub(super) size: u64,
    /// The key of the config it is from.
    pub(super) key: &'a str,
    pub(super) count: u64,
    pub(super) bias: bool,
}

impl Mlp<'_> {
    /// Adds both GEMMs under their names; `parts` are the tensors gate, up and down.
    pub(super) fn add(
        &self,
        b: &mut Builder<'_, '_>,
        names: [&'static str; 2],
        module: &str,
        parts: [&str; 3],
    ) {
        if self.count == 0 {
            return;
        }
        let size = b.share(self.size, self.key);
        let row_bias = b.row_bias(self.bias);
        let gate_up = Linear::new(names[0], 2 * size, self.hidden, self.count).bias(self.bias);
        let down = Linear::new(names[1], self.hidden, size, self.count).bias(row_bias);
        b.add(gate_up.tensors(module, &parts[..2]));
        b.add(down.tensors(module, &parts[2..]));
    }
}

/// Routed experts: a router, and a gated MLP of which each expert has its own weights, sharded like any other.
pub(super) struct Experts<'a> {
    pub(super) hidden: u64,
    /// The intermediate size of one expert.
    pub(super) size: u64,
    /// The key of the config it is from.
    pub(super) key: &'a str,
    /// Experts in a layer.
    pub(super) number: u64,
    /// Layers that have experts.
    pub(super) layers: u64,
    pub(super) bias: bool,
}

/// The convention for experts, as files say it.
pub(super) const EXPERTS_NOTE: &str = "Experts: M is the number of rows of one expert, and count has every expert of \
     every such layer once. That is a batch of M * experts / experts per token tokens, evenly routed. A batch so small \
     that it misses experts calls fewer of them: its time is less than count times that of one.";

impl Experts<'_> {
    /// Adds router and experts. `parts` are the tensors gate, up and down of an expert, where they are tensors.
    pub(super) fn add(&self, b: &mut Builder<'_, '_>, module: &str, router: &str, parts: Option<[&str; 3]>) {
        let Experts { hidden, number, layers, bias, .. } = *self;
        if layers == 0 {
            return;
        }
        b.add(
            Linear::new("moe.router", number, hidden, layers)
                .bias(bias)
                .kind(Kind::Router)
                .note("Replicated on every device, and in bf16: it decides where tokens go.")
                .tensors(module, &[router]),
        );
        let size = b.share(self.size, self.key);
        let row_bias = b.row_bias(bias);
        let mut gate_up = Linear::new("moe.gate_up", 2 * size, hidden, layers * number).bias(bias);
        let mut down = Linear::new("moe.down", hidden, size, layers * number).bias(row_bias);
        if let Some(parts) = parts {
            let expert = format!("{module}experts.{{expert}}.");
            gate_up = gate_up.tensors(&expert, &parts[..2]);
            down = down.tensors(&expert, &parts[2..]);
        }
        b.remark(EXPERTS_NOTE);
        b.add(gate_up);
        b.add(down);
    }
}

/// The output layer, sharded along the vocabulary. Models without one (`LlamaModel`) get none.
pub(super) fn lm_head(b: &mut Builder<'_, '_>, hidden: u64, vocab: u64, tied: bool) {
    if b.is_headless() {
        b.remark("The config names a model without an output layer: there is no lm_head.");
        return;
    }
    let n = b.share(vocab, "vocab_size");
    let head = if b.config.is_nested() { "language_model.lm_head" } else { "lm_head" };
    let embedding = format!("{}embed_tokens", prefix(b));
    let (tensor, note) = match tied {
        true => (embedding.as_str(), "Its weight is the embedding's. M is the number of sequences."),
        false => (head, "M is the number of sequences: logits are those of a sequence's last token."),
    };
    b.add(Linear::new("lm_head", n, hidden, 1).kind(Kind::Logits).note(note).tensors("", &[tensor]));
}
