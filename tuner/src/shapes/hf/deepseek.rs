//! DeepSeek-V2 and V3: multi-head latent attention (MLA) and fine-grained experts with shared ones.
//!
//! MLA (DeepSeek-V2, arXiv:2405.04434, section 2.1) projects the hidden state to a small latent, replicated on every
//! device, and from there to heads. The down-projections of q and kv read the same input and are fused.

use super::blocks::{Experts, Mlp, lm_head, prefix};
use super::build::{Builder, Linear};
use crate::diag::BadInput;

/// The GEMMs of such a model.
pub(super) fn gemms(b: &mut Builder<'_, '_>) -> Result<(), BadInput> {
    let hidden = b.config.size("hidden_size");
    let layers = b.config.size("num_hidden_layers");
    let heads = b.config.size("num_attention_heads");
    let q_rank = b.config.optional_size("q_lora_rank");
    let kv_rank = b.config.size("kv_lora_rank");
    let nope = b.config.size("qk_nope_head_dim");
    let rope = b.config.size("qk_rope_head_dim");
    let value = b.config.size("v_head_dim");
    let vocab = b.config.size("vocab_size");
    let bias = b.config.flag("attention_bias", false);
    let tied = b.config.flag("tie_word_embeddings", false);
    let number = b.config.number("n_routed_experts");
    let dense_layers = if number == 0 { layers } else { dense_layers(b, layers) };
    let moe_layers = layers - dense_layers;
    let shared = b.config.number("n_shared_experts");
    let expert_size = if moe_layers > 0 { b.config.size("moe_intermediate_size") } else { 0 };
    let dense_size = if dense_layers > 0 { b.config.size("intermediate_size") } else { 0 };
    b.read()?;

    let layer = format!("{}layers.{{layer}}.", prefix(b));
    let attention = format!("{layer}self_attn.");
    let own_heads = b.share(heads, "num_attention_heads");
    let (q, latent) = (own_heads * (nope + rope), kv_rank + rope);
    match q_rank {
        Some(rank) => {
            b.add(
                Linear::new("attn.qkv_a", rank + latent, hidden, layers)
                    .bias(bias)
                    .note("Down-projections of q and kv, fused; replicated on every device.")
                    .tensors(&attention, &["q_a_proj", "kv_a_proj_with_mqa"]),
            );
            b.add(Linear::new("attn.q_b", q, rank, layers).tensors(&attention, &["q_b_proj"]));
        }
        None => {
            b.add(Linear::new("attn.q", q, hidden, layers).tensors(&attention, &["q_proj"]));
            b.add(
                Linear::new("attn.kv_a", latent, hidden, layers)
                    .bias(bias)
                    .note("Down-projection of kv; replicated on every device.")
                    .tensors(&attention, &["kv_a_proj_with_mqa"]),
            );
        }
    }
    b.add(
        Linear::new("attn.kv_b", own_heads * (nope + value), kv_rank, layers)
            .note("Prefill. Decoding absorbs it into q and the output, as products per head that are no plain GEMM.")
            .tensors(&attention, &["kv_b_proj"]),
    );
    b.add(
        Linear::new("attn.out", hidden, own_heads * value, layers)
            .bias(b.row_bias(bias))
            .tensors(&attention, &["o_proj"]),
    );
    let parts = ["gate_proj", "up_proj", "down_proj"];
    let module = format!("{layer}mlp.");
    let dense = Mlp { hidden, size: dense_size, key: "intermediate_size", count: dense_layers, bias: false };
    dense.add(b, ["mlp.gate_up", "mlp.down"], &module, parts);
    let key = "moe_intermediate_size";
    let moe = Experts { hidden, size: expert_size, key, number, layers: moe_layers, bias: false };
    moe.add(b, &module, "gate", Some(parts));
    if shared > 0 {
        let mlp = Mlp { hidden, size: shared * expert_size, key, count: moe_layers, bias: false };
        mlp.add(b, ["moe.shared_gate_up", "moe.shared_down"], &format!("{module}shared_experts."), parts);
    }
    lm_head(b, hidden, vocab, tied);
    if b.config.number("num_nextn_predict_layers") > 0 {
        b.remark("Layers for multi-token prediction are left out.");
    }
    Ok(())
}

/// The first layers are dense, and of the others all but every `moe_layer_freq`-th.
fn dense_layers(b: &mut Builder<'_, '_>, layers: u64) -> u64 {
    let first = b.config.number("first_k_dense_replace");
    let frequency = b.config.size_or("moe_layer_freq", 1);
    (0..layers).filter(|layer| *layer < first || !layer.is_multiple_of(frequency)).count() as u64
}
