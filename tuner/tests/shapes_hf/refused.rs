//! Configs and options that no declaration can be made of, hostile ones among them.

use std::path::Path;

use proptest::prelude::*;
use tilewright::shapes::Declaration;
use tilewright::shapes::hf::{MODEL_TYPES, Options};

use crate::{config, parse, tp};

fn refused(text: &str, options: &Options) -> Vec<String> {
    let faults = parse(text, options).expect_err("should be refused").0;
    faults.iter().map(|fault| fault.to_string()).collect()
}

#[test]
fn everything_that_tensor_parallelism_does_not_divide_is_named_at_once() {
    let faults = refused(&config("smollm2-135m"), &tp(7));
    let expected = [
        "config.json:8: intermediate_size = 1536",
        "config.json:10: num_attention_heads = 9",
        "config.json:11: num_key_value_heads = 3",
        "config.json:12: vocab_size = 49152",
    ]
    .map(|fault| format!("{fault} is not divisible by --tp 7\n  help: choose a --tp that divides it"));
    assert_eq!(faults, expected);
    assert_eq!(refused(&config("deepseek-v3"), &tp(3)).len(), 3, "heads, expert size, vocabulary");
}

#[test]
fn every_unusable_key_is_named_at_once() {
    let text = r#"{
  "model_type": "llama",
  "hidden_size": 0,
  "intermediate_size": "big",
  "num_hidden_layers": -2,
  "num_attention_heads": 1.5,
  "num_key_value_heads": 99999999999,
  "tie_word_embeddings": "yes",
  "vocab_size": null
}"#;
    let faults = parse(text, &tp(1)).unwrap_err().0;
    let seen: Vec<(&str, Option<usize>)> =
        faults.iter().map(|fault| (fault.field.as_str(), fault.line)).collect();
    let expected = [
        ("hidden_size", Some(3)),
        ("intermediate_size", Some(4)),
        ("num_hidden_layers", Some(5)),
        ("num_attention_heads", Some(6)),
        ("num_key_value_heads", Some(7)),
        ("tie_word_embeddings", Some(8)),
        ("vocab_size", Some(9)),
    ];
    assert_eq!(seen, expected);
}

#[test]
fn configs_that_cannot_be_understood_are_refused() {
    assert!(refused("{", &tp(1))[0].contains("config.json:1: not JSON"));
    assert!(refused("[1]", &tp(1))[0].contains("not a JSON object"));
    assert!(refused("{}", &tp(1))[0].contains("model_type: missing"));
    let unknown = refused("{\"model_type\": \"mamba\\u001b[31m\"}", &tp(1));
    assert!(unknown[0].contains("mamba\\u{1b}[31m") && unknown[0].contains("llama"), "{unknown:?}");
    let uneven = config("smollm2-135m").replace("576", "577");
    assert!(
        refused(&uneven, &tp(1))[0].contains("hidden_size = 577 is not divisible by num_attention_heads = 9")
    );
    assert!(refused(&config("smollm2-135m"), &tp(0))[0].contains("--tp 0"));
    assert!(refused(&"[".repeat(100_000), &tp(1))[0].contains("not JSON"));
}

#[test]
fn options_that_a_declaration_does_not_allow_are_refused() {
    let text = config("smollm2-135m");
    let named = |name: &str| refused(&text, &Options { name: Some(name.into()), ..tp(1) });
    assert!(named("../up")[0].contains("--name \"../up\""));
    assert!(named("")[0].contains("is empty"));
    for m in [vec![0], vec![16, 16], vec![1 << 31, u32::MAX]] {
        assert!(refused(&text, &Options { m, ..tp(1) })[0].contains("would be refused"));
    }
    assert!(refused(&text, &Options { max_error: Some(f64::NAN), ..tp(1) })[0].contains("would be refused"));
}

#[test]
fn hostile_origins_reach_neither_names_nor_comments() {
    for origin in ["a\\n[model]\\nname = \\\"x\\\"", "..", "/etc/passwd", "Org/\\u001b[31mModel Name"] {
        let text = config("smollm2-135m").replace("HuggingFaceTB/SmolLM2-135M", origin);
        let made = parse(&text, &tp(1)).unwrap_or_else(|faults| panic!("{faults}"));
        let read = Declaration::parse(Path::new("made.toml"), &made.to_toml()).unwrap();
        assert_eq!(read, made.declaration);
        let comments: Vec<String> =
            made.to_toml().lines().filter(|line| line.starts_with('#')).map(Into::into).collect();
        assert!(
            comments.iter().all(|line| !line.contains("/etc") && !line.contains('\u{1b}')),
            "{comments:?}"
        );
    }
}

/// A config with every key of every model type at a random value, sensible or not.
fn any_config() -> impl Strategy<Value = String> {
    let keys = [
        "hidden_size",
        "intermediate_size",
        "moe_intermediate_size",
        "num_hidden_layers",
        "num_attention_heads",
        "num_key_value_heads",
        "head_dim",
        "vocab_size",
        "num_local_experts",
        "num_experts",
        "n_routed_experts",
        "n_shared_experts",
        "decoder_sparse_step",
        "first_k_dense_replace",
        "moe_layer_freq",
        "q_lora_rank",
        "kv_lora_rank",
        "qk_nope_head_dim",
        "qk_rope_head_dim",
        "v_head_dim",
    ];
    let value = prop_oneof![
        8 => prop::sample::select(vec!["1", "2", "8", "64", "96"]).prop_map(str::to_owned),
        2 => (0u64..1 << 25).prop_map(|size| size.to_string()),
        1 => prop::sample::select(vec!["null", "0", "-1", "1e300", "\"x\"", "[]", "18446744073709551615"])
            .prop_map(str::to_owned),
    ];
    (prop::sample::select(MODEL_TYPES), prop::collection::vec(value, keys.len())).prop_map(
        move |(kind, values)| {
            let pairs: Vec<String> =
                keys.iter().zip(values).map(|(key, value)| format!("\"{key}\": {value}")).collect();
            format!("{{\"model_type\": \"{kind}\", {}}}", pairs.join(", "))
        },
    )
}

proptest! {
    #[test]
    fn arbitrary_configs_never_panic(text in any_config(), devices in 1u32..20) {
        if let Ok(made) = parse(&text, &tp(devices)) {
            let read = Declaration::parse(Path::new("made.toml"), &made.to_toml());
            prop_assert_eq!(read.as_ref(), Ok(&made.declaration));
        }
    }

    #[test]
    fn arbitrary_text_is_no_config_and_never_panics(text in any::<String>()) {
        prop_assert!(parse(&text, &tp(1)).is_err());
    }
}
