//! BERT-style encoders, MiniLM among them: q, k and v fused, an MLP without gate, biases everywhere.

use super::build::{Builder, Linear};
use crate::diag::BadInput;

/// The GEMMs of such a model. Pooler and task heads, one row a sequence at most, are left out.
pub(super) fn gemms(b: &mut Builder<'_, '_>) -> Result<(), BadInput> {
    let hidden = b.config.size("hidden_size");
    let layers = b.config.size("num_hidden_layers");
    let heads = b.config.size("num_attention_heads");
    let size = b.config.size("intermediate_size");
    if !hidden.is_multiple_of(heads) {
        b.config.indivisible("hidden_size", hidden, &format!("num_attention_heads = {heads}"), "");
    }
    b.read()?;

    let prefix = if b.is_headless() { "" } else { "bert." };
    let layer = format!("{prefix}encoder.layer.{{layer}}.");
    let attention = b.share(heads, "num_attention_heads") * (hidden / heads);
    let size = b.share(size, "intermediate_size");
    let row_bias = b.row_bias(true);
    b.add(
        Linear::new("attn.qkv", 3 * attention, hidden, layers)
            .bias(true)
            .tensors(&format!("{layer}attention.self."), &["query", "key", "value"]),
    );
    b.add(
        Linear::new("attn.out", hidden, attention, layers)
            .bias(row_bias)
            .tensors(&layer, &["attention.output.dense"]),
    );
    b.add(Linear::new("mlp.up", size, hidden, layers).bias(true).tensors(&layer, &["intermediate.dense"]));
    b.add(Linear::new("mlp.down", hidden, size, layers).bias(row_bias).tensors(&layer, &["output.dense"]));
    b.remark("The pooler and any head of a task are left out: one row a sequence.");
    Ok(())
}
