//! A kernel's identity: what it depends on, and what it must not depend on.

use std::collections::HashMap;

use tilewright_kernels::{Caps, Device, family};
use tilewright_kernels::{Config, ConfigError, ConfigId, Domain, Layout, Problem, families, space};

const TEXT: &str = "cpu.tiled_mxfp6@1(decode=fused,kc=512,layout=panel16x2,mc=0,nc=64,path=avx512_bf16,prefetch=4096,split_k=1,threads=2,tile_m=8,tile_n=32)";

#[test]
fn the_text_and_its_hash_are_fixed_for_ever() {
    let config = Config::parse(TEXT).unwrap();
    assert_eq!(config.to_string(), TEXT);
    // FNV-1a of the text, computed apart: a change here would orphan every table and journal.
    assert_eq!(config.id().to_string(), "6e6a23ca03928cd7");
    assert_eq!(ConfigId::of_text(TEXT), config.id());
    assert_eq!(ConfigId::parse("6e6a23ca03928cd7"), Some(config.id()));
    assert_eq!(config.layout(), Layout::Panel16x2);
}

#[test]
fn the_order_in_which_parameters_are_written_does_not_matter() {
    let (head, body) = TEXT.split_once('(').unwrap();
    let mut assignments: Vec<&str> = body.trim_end_matches(')').split(',').collect();
    for turn in 0..assignments.len() {
        assignments.rotate_left(1);
        assignments.swap(0, turn);
        let config = Config::parse(&format!("{head}({})", assignments.join(","))).unwrap();
        assert_eq!(config.to_string(), TEXT);
    }
}

#[test]
fn parameters_are_kept_in_name_order_so_that_declaring_them_in_another_changes_nothing() {
    let mut names = HashMap::new();
    for family in families() {
        assert!(family.params.is_sorted_by(|x, y| x.name < y.name), "{family:?}");
        assert!(family.params.iter().any(|param| param.name == "layout"), "{family:?}");
        assert!(names.insert(family.name, family).is_none(), "{family:?} stands there twice");
        for param in family.params {
            if let Domain::Numbers(values) = param.domain {
                assert!(values.is_sorted_by(|x, y| x < y), "{family:?}: {}", param.name);
            }
        }
    }
    assert!(families().is_sorted_by(|x, y| x.name < y.name));
}

#[test]
fn what_is_not_a_config_of_this_build_is_refused_with_the_reason() {
    let error = |text: &str| Config::parse(text).unwrap_err();
    assert_eq!(error("no text"), ConfigError::Syntax);
    assert_eq!(error(&TEXT.replace("tiled_mxfp6", "tiled_fp5")), ConfigError::UnknownFamily);
    assert_eq!(error(&TEXT.replace("@1", "@2")), ConfigError::OtherRevision);
    assert_eq!(error(&TEXT.replace("kc=512", "kd=512")), ConfigError::UnknownParam);
    assert_eq!(error(&TEXT.replace("kc=512", "kc=513")), ConfigError::UnknownValue("kc"));
    assert_eq!(error(&TEXT.replace("kc=512,", "")), ConfigError::MissingParam("kc"));
    assert_eq!(error(&TEXT.replace("kc=512", "kc=512,kc=512")), ConfigError::RepeatedParam("kc"));
}

#[test]
fn no_two_configs_of_a_space_share_an_id_and_every_text_reads_back() {
    let caps = Caps::NAMES.iter().fold(Caps::NONE, |caps, (_, cap)| caps.with(*cap));
    let backend = family("cpu.tiled_bf16").unwrap().backend;
    let device = Device { backend, caps, units: 8, l1_kib: 48, l2_kib: 1024, llc_kib: 32768 };
    let mut seen: HashMap<ConfigId, Config> = HashMap::new();
    for family in families().iter().filter(|family| family.backend == backend) {
        let problem = Problem::new(16, 256, 512, family.formats[0]);
        for config in space::enumerate(family, &problem, &device) {
            let text = config.to_string();
            assert_eq!(Config::parse(&text), Ok(config));
            if let Some(other) = seen.insert(config.id(), config) {
                panic!("{other} and {config} share an id");
            }
        }
    }
    assert!(seen.len() > 10_000, "only {} configs were compared", seen.len());
}
