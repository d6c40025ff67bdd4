//! Decoder-only transformers of the Llama line: Llama, Mistral, Mixtral, Qwen2, Qwen3, Qwen3-MoE, Gemma 1 to 3 and
//! GPT-OSS. They differ in biases, in how the head size is given, in tied embeddings and in where experts sit.

use super::blocks::{Experts, Mlp, lm_head, prefix};
use super::build::{Builder, Linear};
use crate::diag::BadInput;

/// What a model type fixes that its configs need not say.
pub(super) struct Traits {
    /// Whether q, k and v have a bias: `None` follows the key `attention_bias`.
    qkv_bias: Option<bool>,
    /// Whether the attention's output projection has one, likewise.
    out_bias: Option<bool>,
    /// Whether the embedding is the output layer's weight where the config does not say.
    tied: bool,
    /// Sizes that the model type's configuration class assumes where the config does not say.
    assumed: &'static [(&'static str, u64)],
    experts: Option<ExpertTraits>,
}

/// How a model type declares its experts.
struct ExpertTraits {
    number_key: &'static str,
    size_key: &'static str,
    module: &'static str,
    router: &'static str,
    /// Whether router and experts have biases.
    bias: bool,
    /// Gate, up and down, where each expert's are tensors of their own.
    parts: Option<[&'static str; 3]>,
}

const PLAIN: Traits =
    Traits { qkv_bias: Some(false), out_bias: Some(false), tied: false, assumed: &[], experts: None };
const BIAS_BY_KEY: Traits = Traits { qkv_bias: None, out_bias: None, ..PLAIN };
const GEMMA: Traits = Traits { tied: true, assumed: &[("head_dim", 256)], ..BIAS_BY_KEY };

/// The traits of a model type.
pub(super) fn traits(model_type: &str) -> Option<Traits> {
    Some(match model_type {
        "llama" => BIAS_BY_KEY,
        "mistral" => PLAIN,
        "qwen2" => Traits { qkv_bias: Some(true), ..PLAIN },
        "qwen3" => Traits { assumed: &[("head_dim", 128)], ..BIAS_BY_KEY },
        "gemma" | "gemma2" => GEMMA,
        "gemma3" | "gemma3_text" => Traits {
            assumed: &[
                ("num_attention_heads", 8),
                ("num_key_value_heads", 4),
                ("head_dim", 256),
                ("vocab_size", 262_208),
            ],
            ..GEMMA
        },
        "mixtral" => Traits {
            experts: Some(ExpertTraits {
                number_key: "num_local_experts",
                size_key: "intermediate_size",
                module: "block_sparse_moe",
                router: "gate",
                bias: false,
                parts: Some(["w1", "w3", "w2"]),
            }),
            ..PLAIN
        },
        "qwen3_moe" => Traits {
            experts: Some(ExpertTraits {
                number_key: "num_experts",
                size_key: "moe_intermediate_size",
                module: "mlp",
                router: "gate",
                bias: false,
                parts: Some(["gate_proj", "up_proj", "down_proj"]),
            }),
            ..BIAS_BY_KEY
        },
        "gpt_oss" => Traits {
            assumed: &[("head_dim", 64)],
            experts: Some(ExpertTraits {
                number_key: "num_local_experts",
                size_key: "intermediate_size",
                module: "mlp",
                router: "router",
                bias: true,
                parts: None,
            }),
            ..BIAS_BY_KEY
        },
        _ => return None,
    })
}

/// The GEMMs of such a model.
pub(super) fn gemms(b: &mut Builder<'_, '_>, traits: &Traits) -> Result<(), BadInput> {
    let assumed = |key: &str| traits.assumed.iter().find(|(known, _)| *known == key).map(|(_, size)| *size);
    let size = |b: &mut Builder<'_, '_>, key: &str| match assumed(key) {
        Some(default) => b.config.size_or(key, default),
        None => b.config.size(key),
    };
    let hidden = b.config.size("hidden_size");
    let layers = b.config.size("num_hidden_layers");
    let heads = size(b, "num_attention_heads");
    let kv_heads = b.config.size_or("num_key_value_heads", assumed("num_key_value_heads").unwrap_or(heads));
    let head_dim = match b.config.optional_size("head_dim").or(assumed("head_dim")) {
        Some(given) => given,
        None => {
            if !hidden.is_multiple_of(heads) {
                let by = format!("num_attention_heads = {heads}");
                b.config.indivisible("hidden_size", hidden, &by, "a config with such heads gives head_dim");
            }
            hidden / heads
        }
    };
    let vocab = size(b, "vocab_size");
    let attention_bias = b.config.flag("attention_bias", false);
    let mlp_bias = b.config.flag("mlp_bias", false);
    let tied = b.config.flag("tie_word_embeddings", traits.tied);
    let (experts, moe_layers) = match &traits.experts {
        Some(experts) => (b.config.size(experts.number_key), sparse_layers(b, layers)),
        None => (0, 0),
    };
    let expert_size = traits.experts.as_ref().map_or(0, |experts| b.config.size(experts.size_key));
    let dense_size = if moe_layers < layers { b.config.size("intermediate_size") } else { 0 };
    b.read()?;

    let layer = format!("{}layers.{{layer}}.", prefix(b));
    let attention = format!("{layer}self_attn.");
    let own_heads = b.share(heads, "num_attention_heads");
    let own_kv_heads = b.kv_share(kv_heads, "num_key_value_heads");
    b.add(
        Linear::new("attn.qkv", (own_heads + 2 * own_kv_heads) * head_dim, hidden, layers)
            .bias(traits.qkv_bias.unwrap_or(attention_bias))
            .tensors(&attention, &["q_proj", "k_proj", "v_proj"]),
    );
    b.add(
        Linear::new("attn.out", hidden, own_heads * head_dim, layers)
            .bias(b.row_bias(traits.out_bias.unwrap_or(attention_bias)))
            .tensors(&attention, &["o_proj"]),
    );
    let mlp = Mlp {
        hidden,
        size: dense_size,
        key: "intermediate_size",
        count: layers - moe_layers,
        bias: mlp_bias,
    };
    mlp.add(b, ["mlp.gate_up", "mlp.down"], &format!("{layer}mlp."), ["gate_proj", "up_proj", "down_proj"]);
    if let Some(ExpertTraits { size_key, module, router, bias, parts, .. }) = &traits.experts {
        let module = format!("{layer}{module}.");
        let size = expert_size;
        let moe = Experts { hidden, size, key: size_key, number: experts, layers: moe_layers, bias: *bias };
        moe.add(b, &module, router, *parts);
    }
    lm_head(b, hidden, vocab, tied);
    Ok(())
}

/// How many layers have experts. Qwen lists exceptions; elsewhere all have.
fn sparse_layers(b: &mut Builder<'_, '_>, layers: u64) -> u64 {
    let step = b.config.size_or("decoder_sparse_step", 1);
    let dense = b.config.layer_list("mlp_only_layers", layers);
    (0..layers)
        .filter(|layer| (layer + 1).is_multiple_of(step) && dense.binary_search(layer).is_err())
        .count() as u64
}
