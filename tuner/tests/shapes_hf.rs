//! Declarations made from Hugging Face configs, and the declarations that are shipped.

use std::fs;
use std::path::{Path, PathBuf};

use proptest::prelude::*;
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

/// Every shipped file that a config fixture stands behind, with what it was made for.
fn shipped_from_configs() -> Vec<(&'static str, &'static str, Options)> {
    vec![
        ("smollm2-135m", "smollm2-135m", Options { m: vec![1, 4, 16, 64, 256], ..Options::default() }),
        ("llama-3.1-8b", "llama-3.1-8b", tp(1)),
        ("llama-3.1-70b-tp8", "llama-3.1-70b", tp(8)),
        ("llama-3.1-405b-tp8", "llama-3.1-405b", tp(8)),
        ("qwen3-8b", "qwen3-8b", tp(1)),
        ("deepseek-v3-tp8", "deepseek-v3", tp(8)),
    ]
}

fn shipped_files() -> Vec<PathBuf> {
    let folder = crate_root().parent().unwrap().join("shapes");
    let mut files: Vec<PathBuf> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|file| file.extension().is_some_and(|extension| extension == "toml"));
    files.sort();
    files
}

#[test]
fn shipped_declarations_are_what_their_configs_give() {
    for (file, fixture, options) in shipped_from_configs() {
        let path = crate_root().parent().unwrap().join(format!("shapes/{file}.toml"));
        let made = parse(&config(fixture), &options).unwrap().to_toml();
        if std::env::var_os("TILEWRIGHT_BLESS").is_some() {
            fs::write(&path, &made).unwrap();
        }
        assert_eq!(fs::read_to_string(&path).unwrap(), made, "{file}: TILEWRIGHT_BLESS=1 rewrites it");
    }
}

#[test]
fn every_shipped_declaration_is_faultless_and_named_like_its_file() {
    let declarations = Declaration::read_all(&shipped_files()).unwrap_or_else(|faults| panic!("{faults}"));
    assert_eq!(declarations.len(), shipped_from_configs().len() + 1);
    for declaration in declarations {
        assert_eq!(declaration.file.file_stem().unwrap().to_str().unwrap(), declaration.model);
        assert_eq!(declaration.model.ends_with("-tp8"), declaration.tensor_parallel == 8);
    }
}

#[test]
fn what_is_made_reads_back_equal() {
    for (_, fixture, options) in shipped_from_configs() {
        let made = parse(&config(fixture), &options).unwrap();
        let read = Declaration::parse(Path::new("made.toml"), &made.to_toml()).unwrap();
        assert_eq!(made.declaration, read);
        assert_eq!(made.declaration.hash, read.hash);
    }
}

/// Weights of all GEMMs, and what else a checkpoint holds, add up to the published number of parameters: shapes,
/// counts and layer patterns are right together.
#[test]
fn parameters_add_up_to_the_published_totals() {
    let check = |name: &str, rest: u64, published: u64| {
        let gemms: u64 =
            import(name, &tp(1)).gemms.iter().map(|g| u64::from(g.n) * u64::from(g.k) * g.count).sum();
        assert_eq!(gemms + rest, published, "{name}");
    };
    // rest: the embedding where it is not the output layer's weight too, norms, biases.
    check("smollm2-135m", 61 * 576, 134_515_008);
    check("llama-3.1-8b", 128_256 * 4096 + 65 * 4096, 8_030_261_248);
    check("llama-3.1-70b", 128_256 * 8192 + 161 * 8192, 70_553_706_496);
    check("llama-3.1-405b", 128_256 * 16384 + 253 * 16384, 405_853_388_800);
    check("qwen3-8b", 151_936 * 4096 + 36 * (2 * 4096 + 256) + 4096, 8_190_735_360);
    check("qwen2.5-0.5b", 49 * 896 + 24 * (896 + 2 * 128), 494_032_768);
    check("qwen3-30b-a3b", 151_936 * 2048 + 48 * (2 * 2048 + 256) + 2048, 30_532_122_624);
    check("mistral-7b-v0.1", 32_000 * 4096 + 65 * 4096, 7_241_732_096);
    check("mixtral-8x7b-v0.1", 32_000 * 4096 + 65 * 4096, 46_702_792_704);
    check("gemma-2b", 37 * 2048, 2_506_172_416);
    check("gemma-2-9b", 42 * 4 * 3584 + 3584, 9_241_705_984);
    // Published without the 64 unused words by which this config's vocabulary is longer.
    check("gemma-3-4b-it", 34 * (4 * 2560 + 2 * 256) + 2560, 3_880_099_328 + 64 * 2560);
    check("deepseek-v2-lite", 102_400 * 2048 + 27 * (2 * 2048 + 512) + 2048, 15_706_484_224);
    check("deepseek-v3", 129_280 * 7168 + 61 * (2 * 7168 + 1536 + 512) + 7168 + 58 * 256, 671_026_419_200);
    let gpt_oss_layer = 2 * 2880 + 5120 + 2880 + 64 + 32 + 32 * (2 * 2880 + 2880);
    check("gpt-oss-20b", 201_088 * 2880 + 24 * gpt_oss_layer + 2880, 20_914_757_184);
    let minilm_layer = 4 * 384 + 1536 + 384 + 4 * 384;
    let minilm_rest = (30_522 + 512 + 2) * 384 + 2 * 384 + 6 * minilm_layer + 384 * 384 + 384;
    check("all-minilm-l6-v2", minilm_rest, 22_713_216);
}

#[test]
fn the_parameters_of_flux_add_up_to_the_published_total() {
    let flux = Declaration::read(&crate_root().parent().unwrap().join("shapes/flux.1-dev.toml")).unwrap();
    assert!(flux.gemms.iter().all(|gemm| gemm.bias));
    let linear: u64 =
        flux.gemms.iter().map(|g| (u64::from(g.n) * u64::from(g.k) + u64::from(g.n)) * g.count).sum();
    let embedder = |input: u64| input * 3072 + 3072 + 3072 * 3072 + 3072;
    let norms = 19 * 4 * 128 + 38 * 2 * 128;
    assert_eq!(linear + 2 * embedder(256) + embedder(768) + norms, 11_901_408_320);
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
