//! From another tuner's list to a running kernel: a cut of AITER's llama405B_untuned_gemm.csv (MIT, see LICENSE beside it) is
//! imported, tuned on this CPU, compiled, checked, and dispatched.

use std::fs;
use std::path::Path;
use std::process::Command;

use tilewright::journal::{self, Record};
use tilewright::shapes::Declaration;
use tilewright::table;
use tilewright_dispatch::Provenance;
use tilewright_dispatch::exec::Engine;
use tilewright_dispatch::kernels::cpu::{Activation, Output};

#[test]
fn aiters_untuned_list_is_imported_tuned_compiled_and_dispatched() {
    let folder = tempfile::tempdir().unwrap();
    let run = |arguments: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_tilewright"))
            .current_dir(folder.path())
            .args(arguments)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{arguments:?}: {said}");
        said
    };
    // The first two rows of the file, as they stand there; their weight is cut to the 64th part, or a debug build takes minutes.
    let list =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/import/aiter/llama405B_untuned_gemm.csv");
    let rows: Vec<String> = fs::read_to_string(list).unwrap().lines().take(3).map(str::to_owned).collect();
    assert_eq!(rows, ["M,N,K", "1,2304,16384", "16,2304,16384"]);
    let cut: Vec<String> = rows.iter().map(|row| row.replace("2304,16384", "288,2048")).collect();
    fs::write(folder.path().join("llama405B_untuned_gemm.csv"), cut.join("\n")).unwrap();

    run(&["import", "aiter", "llama405B_untuned_gemm.csv", "--out", "shapes"]);
    let declared = folder.path().join("shapes/llama405b_untuned_gemm.toml");
    let declaration = Declaration::read(&declared).unwrap();
    run(&["tune", declared.to_str().unwrap(), "--budget", "8s", "--out", "tables", "--quiet"]);
    let [table] = &table::tables_in(&folder.path().join("tables")).unwrap()[..] else { panic!("one table") };
    run(&["compile", "--check", table.to_str().unwrap()]);
    run(&["verify", table.to_str().unwrap()]);

    // What was declared was tuned, and nothing else.
    let decisions = table::read(table).unwrap();
    let [weight] = &decisions.weights[..] else { panic!("{} weights", decisions.weights.len()) };
    assert_eq!((weight.n, weight.k), (288, 2048));
    // Rows between declared Ms, where the kernel changes, have no share.
    let declared = weight.rows.iter().filter(|row| row.weight > 0.0);
    let tuned: Vec<u32> = declared.map(|row| row.m).collect();
    let asked: Vec<u32> = declaration.gemms[0].m.iter().map(|point| point.m).collect();
    // A machine under load may not reach them all.
    assert!(!tuned.is_empty() && tuned.iter().all(|m| asked.contains(m)), "{tuned:?} of {asked:?}");
    let contests = journal::read(&table.with_extension("journal")).unwrap().records;
    for record in contests {
        if let Record::Contest { key, .. } = record {
            assert!(key.0.contains(" n=288 k=2048 "), "{}", key.0);
        }
    }

    // An engine takes each row's own kernel and computes with it.
    let engine = Engine::new(table::load(table).unwrap());
    let values: Vec<f32> =
        (0..288 * 2048u32).map(|i| ((u64::from(i) * 7919 % 256) as f32 - 127.5) / 256.0).collect();
    let loaded = engine.load(&weight.name, &values).unwrap();
    let mut workspace = vec![0; engine.workspace_bytes(&loaded, 16).unwrap()];
    for row in &weight.rows {
        let m = row.m as usize;
        let x = vec![1.0; m * 2048];
        let mut y = vec![0x7fc0u16; m * 288];
        let choice = engine
            .run(&loaded, Activation::F32(&x), row.m, None, Output::Bf16(&mut y), &mut workspace)
            .unwrap();
        assert_eq!(choice.provenance, Provenance::Exact);
        let y = y.iter().map(|bits| f32::from_bits(u32::from(*bits) << 16));
        for (column, sum) in y.take(288).enumerate() {
            let expected: f32 = values[column * 2048..(column + 1) * 2048].iter().sum();
            // All products have one factor 1: what differs is the weight's format.
            assert!((sum - expected).abs() < 0.1 * 2048f32.sqrt(), "{column}: {sum}, not {expected}");
        }
    }
}
