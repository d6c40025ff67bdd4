//! The declarations in `shapes/`, and the published sizes of the models they are of.

use std::fs;
use std::path::{Path, PathBuf};

use tilewright::shapes::Declaration;
use tilewright::shapes::hf::Options;

use crate::{config, crate_root, import, parse, tp};

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
    assert_eq!(declarations.len(), shipped_from_configs().len() + 2);
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
