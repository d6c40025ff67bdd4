//! `tilewright export`: what was imported comes back as its own library writes it, and nothing that would harm it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use tilewright::export::{Target, export, unexpressed};
use tilewright::import::{self, Prior, Source, declare, priors_from_csv, priors_to_csv};

mod table_fixture;

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/import").join(name)
}

fn priors(source: Source, name: &str, text: &str) -> Vec<Prior> {
    let foreign = import::parse(source, Path::new(name), text).unwrap();
    assert_eq!(foreign.faults, [], "{name}");
    declare(&[foreign], "model").unwrap().priors
}

/// Without what says where in which file a row stood, and beside which other GEMMs, in one order.
fn bare(priors: &[Prior]) -> Vec<Prior> {
    let bare = |prior: &Prior| Prior { file: String::new(), line: 0, weight: String::new(), ..prior.clone() };
    let mut bare: Vec<Prior> = priors.iter().map(bare).collect();
    bare.sort_by_key(|prior| (prior.n, prior.k, prior.m, prior.device.clone(), prior.kernel.clone()));
    bare
}

#[test]
fn aiters_tables_come_back_row_by_row() {
    for name in [
        "a4w4_blockscale_tuned_gemm.csv",
        "a8w8_bpreshuffle_tuned_gemm.csv",
        "gptoss_bf16_tuned_gemm.csv",
        "a8w8_bpreshuffle_tuned_gemm_glm5.2.csv",
    ] {
        let text = import::read_text(&fixture(&format!("aiter/{name}"))).unwrap();
        let before = priors(Source::Aiter, name, &text);
        let sound: Vec<Prior> = before.iter().filter(|prior| prior.remark.is_empty()).cloned().collect();
        let exported = export(Target::Aiter, &before);
        assert_eq!(exported.rows, sound.len(), "{name}: {:?}", exported.left);
        let after: Vec<Prior> =
            exported.files.iter().flat_map(|(name, text)| priors(Source::Aiter, name, text)).collect();
        assert_eq!(bare(&after), bare(&sound), "{name}");
        // The canonical header, and the row's own key fields, as AITER writes them.
        for (file, written) in &exported.files {
            assert!(file.ends_with("_tuned_gemm.csv"));
            let header = |text: &str| text.lines().next().unwrap().to_owned();
            assert_eq!(header(written), header(&text), "{name}");
        }
    }
}

#[test]
fn tunableops_and_hipblaslts_own_keys_come_back_as_they_were() {
    for (source, target, name, rows) in [
        (Source::TunableOp, Target::TunableOp, "other/tunableop_results0.csv", 1),
        (Source::HipBlasLt, Target::HipBlasLt, "other/tuning.txt", 1),
    ] {
        let text = import::read_text(&fixture(name)).unwrap();
        let foreign = import::parse(source, Path::new(name), &text).unwrap();
        let before = declare(&[foreign], "model").unwrap().priors;
        let exported = export(target, &before);
        assert!(exported.rows >= rows && exported.left.is_empty(), "{name}: {:?}", exported.left);
        let [(file, written)] = &exported.files[..] else { panic!("{:?}", exported.files) };
        let after = priors(source, file, written);
        assert_eq!(bare(&after), bare(&before), "{name}");
        // Key and solution, character by character.
        for line in written.lines() {
            let key = line.rsplit_once(',').map_or(line, |(key, _)| key);
            assert!(text.contains(key), "{line}");
        }
    }
}

#[test]
fn evidence_reads_back_as_written() {
    let text = import::read_text(&fixture("aiter/gptoss_bf16_tuned_gemm.csv")).unwrap();
    let before = priors(Source::Aiter, "gptoss_bf16_tuned_gemm.csv", &text);
    let after = priors_from_csv(Path::new("p.csv"), &priors_to_csv(&before)).unwrap();
    assert_eq!(bare(&after), bare(&before));
    let faults = priors_from_csv(Path::new("p.csv"), "source,file\na,b\n").unwrap_err();
    assert_eq!(faults.0[0].line, Some(2));
}

#[test]
fn placeholders_doubtful_rows_and_rows_without_a_device_are_left_out_and_listed() {
    let header = "cu_num,M,N,K,kernelId,splitK,us,kernelName,tflops,bw,errRatio\n";
    let name = "_ZN5aiter41f4gemm_bf16_per1x32Fp4_BpreShuffle_32x128E";
    let rows = format!("256,1,512,4096,21,0,5.4,{name},0.78,194.5,0.0\n");
    let without = priors(Source::Aiter, "a4w4_blockscale_tuned_gemm.csv", &format!("{header}{rows}"));
    let exported = export(Target::Aiter, &without);
    assert_eq!((exported.rows, exported.files.len()), (0, 0));
    assert!(exported.left.keys().next().unwrap().contains("gfx and cu_num"), "{:?}", exported.left);

    for (us, error, reason) in
        [("0.0", "0.0", "no time"), ("1.0", "0.0", "no time"), ("5.0", "0.2", "doubtful")]
    {
        let text = format!("gfx,{header}gfx950,256,1,512,4096,21,0,{us},{name},0.78,194.5,{error}\n");
        let exported = export(Target::Aiter, &priors(Source::Aiter, "a4w4_blockscale_tuned_gemm.csv", &text));
        assert_eq!(exported.rows, 0);
        assert!(exported.left.keys().next().unwrap().starts_with(reason), "{us}: {:?}", exported.left);
    }
}

#[test]
fn of_two_rows_of_one_key_the_faster_is_written_whatever_their_order() {
    let text = |first: &str, second: &str| {
        let name = "_ZN5aiter41f4gemm_bf16_per1x32Fp4_BpreShuffle_32x128E";
        let row = |us: &str| format!("gfx950,256,1,512,4096,21,0,{us},{name},0.78,194.5,0.0\n");
        format!(
            "gfx,cu_num,M,N,K,kernelId,splitK,us,kernelName,tflops,bw,errRatio\n{}{}",
            row(first),
            row(second)
        )
    };
    let run =
        |text: String| export(Target::Aiter, &priors(Source::Aiter, "a4w4_blockscale_tuned_gemm.csv", &text));
    let (a, b) = (run(text("5.5", "4.5")), run(text("4.5", "5.5")));
    assert_eq!(a, b);
    assert!(a.files[0].1.contains(",4.5,") && !a.files[0].1.contains(",5.5,"));
    assert_eq!(a.left.values().sum::<usize>(), 1);
}

#[test]
fn other_libraries_rows_and_our_own_kernels_are_named_as_what_they_are() {
    let text = import::read_text(&fixture("aiter/a4w4_blockscale_tuned_gemm.csv")).unwrap();
    let aiter = priors(Source::Aiter, "a4w4_blockscale_tuned_gemm.csv", &text);
    let exported = export(Target::HipBlasLt, &aiter);
    assert_eq!((exported.rows, exported.left.values().sum::<usize>()), (0, aiter.len()));
    let decisions = table_fixture::decisions();
    let rows: usize = decisions.weights.iter().map(|weight| weight.rows.len()).sum();
    let left = unexpressed(Target::Aiter, &decisions);
    assert_eq!(left.values().sum::<usize>(), rows);
    assert!(left.keys().all(|reason| reason.contains("kernel of tilewright")));
}

#[test]
fn the_command_goes_from_import_to_export_and_back() {
    let folder = tempfile::tempdir().unwrap();
    let input = fixture("aiter/a8w8_bpreshuffle_tuned_gemm.csv");
    fs::copy(&input, folder.path().join("a8w8_bpreshuffle_tuned_gemm.csv")).unwrap();
    let run = |arguments: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_tilewright"))
            .current_dir(folder.path())
            .args(arguments)
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    run(&["import", "aiter", "a8w8_bpreshuffle_tuned_gemm.csv", "--out", "in"]);
    let said = run(&["export", "aiter", "in/a8w8_bpreshuffle_tuned_gemm.prior.csv", "--out", "out"]);
    assert!(said.contains("wrote out/a8w8_bpreshuffle_tuned_gemm.csv"), "{said}");
    run(&["import", "aiter", "out/a8w8_bpreshuffle_tuned_gemm.csv", "--out", "again"]);
    let read = |name: &str| {
        let path = folder.path().join(name).join("a8w8_bpreshuffle_tuned_gemm.prior.csv");
        priors_from_csv(&path, &fs::read_to_string(&path).unwrap()).unwrap()
    };
    let sound: Vec<Prior> = read("in").into_iter().filter(|prior| prior.remark.is_empty()).collect();
    assert_eq!(bare(&read("again")), bare(&sound));
}
