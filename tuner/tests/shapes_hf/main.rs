//! Declarations made from Hugging Face configs, and the declarations that are shipped.

mod refused;
mod shipped;

use std::fs;
use std::path::Path;

use tilewright::diag::BadInput;
use tilewright::shapes::hf::{self, Imported, MODEL_TYPES, Options};
use tilewright::shapes::{DEFAULT_FORMATS, Declaration, weight_bytes};
use tilewright_kernels::{Format, OutType};

fn crate_root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn config(name: &str) -> String {
    fs::read_to_string(crate_root().join(format!("tests/fixtures/hf/{name}.json"))).unwrap()
}

fn tp(tensor_parallel: u32) -> Options {
    Options { tensor_parallel, ..Options::default() }
}

fn parse(text: &str, options: &Options) -> Result<Imported, BadInput> {
    hf::parse(Path::new("config.json"), text, options)
}

fn import(name: &str, options: &Options) -> Declaration {
    parse(&config(name), options).unwrap_or_else(|faults| panic!("{faults}")).declaration
}

/// `name NxK*count` of each GEMM.
fn shapes(declaration: &Declaration) -> Vec<String> {
    declaration
        .gemms
        .iter()
        .map(|gemm| {
            let bias = if gemm.bias { "+bias" } else { "" };
            format!("{} {}x{}*{}{bias}", gemm.name, gemm.n, gemm.k, gemm.count)
        })
        .collect()
}

#[test]
fn tensor_parallel_shapes_are_one_devices_share() {
    assert_eq!(
        shapes(&import("llama-3.1-405b", &tp(8))),
        [
            "attn.qkv 2304x16384*126",
            "attn.out 16384x2048*126",
            "mlp.gate_up 13312x16384*126",
            "mlp.down 16384x6656*126",
            "lm_head 16032x16384*1",
        ]
    );
    assert_eq!(
        shapes(&import("deepseek-v3", &tp(8))),
        [
            "attn.qkv_a 2112x7168*61",
            "attn.q_b 3072x1536*61",
            "attn.kv_b 4096x512*61",
            "attn.out 7168x2048*61",
            "mlp.gate_up 4608x7168*3",
            "mlp.down 7168x2304*3",
            "moe.router 256x7168*58",
            "moe.gate_up 512x7168*14848",
            "moe.down 7168x256*14848",
            "moe.shared_gate_up 512x7168*58",
            "moe.shared_down 7168x256*58",
            "lm_head 16160x7168*1",
        ]
    );
}

#[test]
fn kv_heads_are_replicated_only_where_they_are_fewer_than_the_devices() {
    // 32 heads and 8 KV heads of 128.
    let qkv = |devices: u32| shapes(&import("llama-3.1-8b", &tp(devices)))[0].clone();
    assert_eq!(qkv(8), "attn.qkv 768x4096*32");
    assert_eq!(qkv(16), "attn.qkv 512x4096*32");
    assert_eq!(qkv(32), "attn.qkv 384x4096*32");
}

#[test]
fn latent_attention_without_a_rank_for_q_projects_it_directly() {
    let lite = shapes(&import("deepseek-v2-lite", &tp(1)));
    assert_eq!(lite[0], "attn.q 3072x2048*27");
    assert_eq!(lite[1], "attn.kv_a 576x2048*27");
    assert!(lite.contains(&"moe.gate_up 2816x2048*1664".to_owned()));
    assert!(lite.contains(&"moe.shared_gate_up 5632x2048*26".to_owned()));
}

#[test]
fn biases_follow_the_model_type_and_leave_row_parallel_weights_when_sharded() {
    let biased = |name: &str, devices: u32| -> Vec<String> {
        let declaration = import(name, &tp(devices));
        declaration.gemms.into_iter().filter(|gemm| gemm.bias).map(|gemm| gemm.name).collect()
    };
    assert_eq!(biased("qwen2.5-0.5b", 1), ["attn.qkv"]);
    assert!(biased("qwen3-8b", 1).is_empty());
    assert_eq!(biased("gpt-oss-20b", 1), ["attn.qkv", "attn.out", "moe.router", "moe.gate_up", "moe.down"]);
    assert_eq!(biased("gpt-oss-20b", 4), ["attn.qkv", "moe.router", "moe.gate_up"]);
    assert_eq!(biased("all-minilm-l6-v2", 1), ["attn.qkv", "attn.out", "mlp.up", "mlp.down"]);
    let with_bias = config("llama-3.1-8b").replace("_bias\": false", "_bias\": true");
    let llama = parse(&with_bias, &tp(1)).unwrap().declaration;
    assert_eq!(llama.gemms.iter().filter(|gemm| gemm.bias).count(), 4);
}

#[test]
fn encoders_have_no_output_layer_and_name_their_tensors() {
    let minilm = import("all-minilm-l6-v2", &tp(1));
    let expected = [
        "attn.qkv 1152x384*6+bias",
        "attn.out 384x384*6+bias",
        "mlp.up 1536x384*6+bias",
        "mlp.down 384x1536*6+bias",
    ];
    assert_eq!(shapes(&minilm), expected);
    assert_eq!(
        minilm.gemms[0].tensors,
        ["query", "key", "value"].map(|part| format!("encoder.layer.{{layer}}.attention.self.{part}.weight"))
    );
    assert!(minilm.gemms.iter().all(|gemm| gemm.out == OutType::F32), "no torch_dtype is float32");
}

#[test]
fn tensors_carry_the_names_of_the_checkpoint() {
    let tensor = |name: &str, gemm: &str| -> Vec<String> {
        let declaration = import(name, &tp(1));
        declaration.gemms.into_iter().find(|known| known.name == gemm).unwrap().tensors
    };
    assert_eq!(tensor("smollm2-135m", "lm_head"), ["model.embed_tokens.weight"]);
    assert_eq!(tensor("llama-3.1-8b", "lm_head"), ["lm_head.weight"]);
    assert_eq!(tensor("gemma-3-4b-it", "lm_head"), ["language_model.model.embed_tokens.weight"]);
    assert_eq!(
        tensor("mixtral-8x7b-v0.1", "moe.gate_up"),
        ["w1", "w3"]
            .map(|part| format!("model.layers.{{layer}}.block_sparse_moe.experts.{{expert}}.{part}.weight"))
    );
    let lite = import("deepseek-v2-lite", &tp(1));
    let down = lite.gemms.iter().find(|gemm| gemm.name == "moe.down").unwrap();
    assert_eq!(down.tensors_of(3, 17), ["model.layers.3.mlp.experts.17.down_proj.weight"]);
    assert!(tensor("deepseek-v3", "attn.out").is_empty(), "its checkpoint is quantised");
}

#[test]
fn layers_that_qwen_keeps_dense_are_counted_apart() {
    let mixed = config("qwen3-30b-a3b").replace("\"decoder_sparse_step\": 1", "\"decoder_sparse_step\": 2");
    let mixed = mixed.replace("\"mlp_only_layers\": []", "\"mlp_only_layers\": [1, 3, 0, 3]");
    let shapes = shapes(&parse(&mixed, &tp(1)).unwrap().declaration);
    // 24 odd layers have experts but for 1 and 3.
    assert!(shapes.contains(&"mlp.gate_up 12288x2048*26".to_owned()), "{shapes:?}");
    assert!(shapes.contains(&"moe.router 128x2048*22".to_owned()));
    assert!(shapes.contains(&"moe.gate_up 1536x2048*2816".to_owned()));
}

#[test]
fn formats_that_do_not_allow_k_are_left_out() {
    // 2880 / 8 = 360 is no multiple of 32.
    let sharded = import("gpt-oss-20b", &tp(8));
    for gemm in &sharded.gemms {
        let expected: &[Format] = match gemm.name.as_str() {
            "moe.router" => &[Format::Bf16],
            "moe.down" => &[Format::Fp8E4m3, Format::Bf16],
            _ => DEFAULT_FORMATS,
        };
        assert_eq!(gemm.formats, expected, "{}", gemm.name);
    }
    let options = Options { formats: vec![Format::MxFp4], ..tp(8) };
    let faults = parse(&config("gpt-oss-20b"), &options).unwrap_err().0;
    assert_eq!(faults.len(), 1);
    assert!(faults[0].message.contains("moe.down: K = 360"), "{}", faults[0]);
}

#[test]
fn every_known_model_type_has_a_fixture() {
    let folder = crate_root().join("tests/fixtures/hf");
    let texts: Vec<String> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| fs::read_to_string(entry.unwrap().path()).unwrap())
        .collect();
    for model_type in MODEL_TYPES {
        let line = format!("\"model_type\": \"{model_type}\"");
        assert!(texts.iter().any(|text| text.contains(&line)), "{model_type}");
    }
}

#[test]
fn weight_bytes_count_codes_and_scales() {
    assert_eq!(weight_bytes(10, 33, Format::Bf16), 660);
    assert_eq!(weight_bytes(10, 33, Format::Fp8E4m3), 330 + 40);
    assert_eq!(weight_bytes(10, 64, Format::MxFp8), 640 + 20);
    assert_eq!(weight_bytes(10, 64, Format::MxFp6E2m3), 480 + 20);
    assert_eq!(weight_bytes(10, 64, Format::MxFp4), 320 + 20);
    assert_eq!(weight_bytes(1 << 31, 1 << 31, Format::Bf16), 1 << 63);
}
