//! `tilewright import`: what each source's rows become.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use tilewright::import::{self, Converted, Foreign, Source, declare};
use tilewright::shapes::Declaration;
use tilewright_kernels::{Format, OutType};

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/import").join(name)
}

fn read(source: Source, name: &str) -> Foreign {
    let path = fixture(name);
    let text = import::read_text(&path).unwrap();
    assert_eq!(Source::detect(&text), Some(source), "{name}");
    import::parse(source, &path, &text).unwrap()
}

fn parse(name: &str, text: &str) -> Foreign {
    import::parse(Source::Aiter, Path::new(name), text).unwrap()
}

fn converted(foreign: &Foreign) -> Converted {
    let converted = declare(std::slice::from_ref(foreign), "model").unwrap();
    if let Some(declaration) = &converted.declaration {
        let again = Declaration::parse(Path::new("model.toml"), &converted.text).unwrap();
        assert_eq!((again.hash, &again), (declaration.hash, declaration));
    }
    converted
}

fn left_out(converted: &Converted) -> Vec<(&str, &[u32])> {
    let left = converted.unexpressed.iter().filter(|item| !item.declared);
    left.map(|item| (item.reason.as_str(), item.lines.as_slice())).collect()
}

#[test]
fn an_untuned_list_becomes_a_declaration_without_priors() {
    let foreign = read(Source::Aiter, "aiter/llama405B_untuned_gemm.csv");
    assert_eq!(foreign.faults, []);
    let converted = converted(&foreign);
    let declaration = converted.declaration.unwrap();
    // Blank lines in the list are no rows.
    assert_eq!(converted.rows, foreign.entries.len());
    assert!(converted.rows < fs::read_to_string(&foreign.file).unwrap().lines().count() - 1);
    assert_eq!((declaration.gemms[0].n, declaration.gemms[0].k), (2304, 16384));
    assert_eq!(declaration.gemms[0].m[1].m, 16);
    assert!(converted.priors.is_empty());
    assert!(converted.unexpressed[0].reason.contains("left to the tuner"));
}

#[test]
fn int8_rows_are_listed_and_the_others_become_priors_that_say_where_they_are_from() {
    let foreign = read(Source::Aiter, "aiter/a8w8_bpreshuffle_tuned_gemm.csv");
    let converted = converted(&foreign);
    let [(reason, lines)] = left_out(&converted)[..] else { panic!("{:?}", converted.unexpressed) };
    assert_eq!((reason, lines), ("operands in int8", &[2, 3, 4, 5, 6, 13, 14][..]));
    let fnuz = converted.priors.iter().find(|prior| prior.device == "gfx942").unwrap();
    assert_eq!(
        (fnuz.units, fnuz.format.as_str(), fnuz.scaling.as_str()),
        (Some(80), "fp8_e4m3fnuz", "channel")
    );
    assert!(fnuz.preshuffled && fnuz.time_ns.is_some());
}

#[test]
fn blanks_and_tabs_around_fields_are_no_part_of_them() {
    let foreign = read(Source::Aiter, "aiter/a8w8_bpreshuffle_untuned_gemm.csv");
    assert!(fs::read_to_string(&foreign.file).unwrap().contains('\t'), "the fixture lost its tab");
    assert_eq!((foreign.faults.len(), foreign.operations.len()), (0, 1));
    let spaced =
        parse("a8w8_untuned_gemm.csv", "M, N, K, q_dtype_w\n 1 , 1280, 8192, torch.float8_e4m3fnuz \t\n");
    assert_eq!(converted(&spaced).declaration.unwrap().gemms[0].formats, [Format::Fp8E4m3Fnuz]);
}

#[test]
fn placeholder_times_and_unknown_names_are_remarks_of_a_prior_not_times() {
    let placeholders = converted(&read(Source::Aiter, "aiter/gptoss_bf16_tuned_gemm.csv"));
    let times: Vec<_> =
        placeholders.priors.iter().map(|prior| (prior.time_ns, prior.remark.as_str())).collect();
    assert_eq!(times.iter().filter(|time| **time == (None, "placeholder time")).count(), 3);
    let renamed = converted(&read(Source::Aiter, "aiter/a8w8_bpreshuffle_tuned_gemm_glm5.2.csv"));
    assert!(renamed.priors.iter().any(|prior| prior.remark == "unknown kernel name"));
}

#[test]
fn every_header_variant_of_aiter_is_read() {
    let name = "_ZN5aiter41f4gemm_bf16_per1x32Fp4_BpreShuffle_32x128E";
    // Old: no gfx, error under another name, columns in another order.
    let old = parse(
        "a4w4_blockscale_tuned_gemm.csv",
        &format!(
            "cu_num,N,M,K,kernelId,splitK,us,kernelName,tflops,bw,err_ratio\n256,512,1,4096,21,2,5.4,{name},0.78,194.5,0.01\n"
        ),
    );
    assert!(!old.names_arch && old.faults.is_empty());
    let prior = converted(&old).priors.remove(0);
    assert_eq!((prior.m, prior.n, prior.split_k, prior.split_k_written), (1, 512, Some(4), Some(2)));
    assert_eq!((prior.error_ratio, prior.tile.as_str()), (Some(0.01), "32x128"));

    // Lower case, batched, without a CU count.
    let batched = parse(
        "opus_bmm_mxscale_tuned.csv",
        "gfx,b,m,n,k,libtype,kernelId,splitK,us,kernelName,tflops,bw,errRatio\n\
         gfx950,8,16,512,512,opus,3,0,5.0,opus_gemm_x,1.0,1.0,0.0\n",
    );
    assert_eq!(left_out(&converted(&batched)), [("a batch of several GEMMs in one launch", &[2][..])]);

    // bf16 without bpreshuffle, spelled as spreadsheets do.
    let plain = parse(
        "model.csv",
        "M,N,K,bias,dtype,outdtype,scaleAB\n16,512,512,TRUE,torch.bfloat16,torch.float32,FALSE\n",
    );
    let gemm = converted(&plain).declaration.unwrap().gemms.remove(0);
    assert_eq!((gemm.bias, gemm.out, gemm.formats), (true, OutType::F32, vec![Format::Bf16]));

    // MXFP6, and both mixtures.
    for (file, a, b) in [
        ("a6w6_blockscale_untuned_gemm.csv", Format::MxFp6E2m3, Format::MxFp6E2m3),
        ("a6w4_asm_untuned_gemm.csv", Format::MxFp6E2m3, Format::MxFp4),
        ("a4w6_asm_untuned_gemm.csv", Format::MxFp4, Format::MxFp6E2m3),
    ] {
        let gemm = converted(&parse(file, "M,N,K\n16,512,512\n")).declaration.unwrap().gemms.remove(0);
        assert_eq!((gemm.activation, gemm.formats), (a, vec![b]), "{file}");
    }
    let ragged = converted(&parse("a6w6_untuned_gemm.csv", "M,N,K\n16,512,520\n"));
    assert_eq!(left_out(&ragged), [("mxfp6_e2m3 needs a K of whole blocks of 32", &[2][..])]);
}

#[test]
fn faulty_rows_are_reported_together_and_the_rest_is_kept() {
    let foreign = parse(
        "a8w8_untuned_gemm.csv",
        "M,N,K,q_dtype_w\n1,2,x,torch.int8\n0,2,3,torch.int8\n1,2,3\n16,64,64,torch.float8_e4m3fn\n",
    );
    assert_eq!(
        foreign.faults.iter().map(|fault| fault.line).collect::<Vec<_>>(),
        [Some(2), Some(3), Some(4)]
    );
    assert_eq!(foreign.entries.len(), 1);
    assert!(import::parse(Source::Aiter, Path::new("a.csv"), "a,b\n1,2\n").is_err());
}

#[test]
fn tunableop_calls_are_turned_round_and_what_is_strided_is_listed() {
    let foreign = read(Source::TunableOp, "other/tunableop_results0.csv");
    assert_eq!(foreign.faults, []);
    let converted = converted(&foreign);
    let left = left_out(&converted);
    assert_eq!(left.len(), 4, "{left:?}");
    for (reason, line) in [("strided", 6), ("transposed", 7), ("batch", 8), ("half", 9)] {
        assert!(
            left.iter().any(|(text, lines)| text.contains(reason) && *lines == [line]),
            "{reason}: {left:?}"
        );
    }
    // The weight is the call's A: its m is our N, its n our M. How it is stored is no matter.
    let first = converted.priors.iter().find(|prior| prior.line == 4).unwrap();
    assert_eq!((first.m, first.n, first.k, first.time_ns), (16, 4096, 14336, Some(65366.2)));
    assert_eq!((first.library.as_str(), first.device.as_str()), ("hipblaslt", "gfx942"));
    assert!(first.software.contains("ROCM_VERSION=6.1.0.0-82-5fabb4c"));
    assert!(converted.priors.iter().any(|prior| prior.line == 5 && prior.m == 16));
    let fp8 = converted.priors.iter().find(|prior| prior.format == "fp8_e4m3fnuz").unwrap();
    assert_eq!((fp8.scaling.as_str(), fp8.out.as_str()), ("channel", "bf16"));
    // Two problems that differ in their bias alone stay two.
    assert!(converted.declaration.unwrap().gemms.iter().any(|gemm| gemm.bias && gemm.m[0].m == 1));
}

#[test]
fn hipblaslt_rows_and_bench_lines_are_both_read() {
    let foreign = read(Source::HipBlasLt, "other/tuning.txt");
    assert_eq!(foreign.faults.iter().map(|fault| fault.line).collect::<Vec<_>>(), [Some(3)]);
    let converted = converted(&foreign);
    let [prior] = &converted.priors[..] else { panic!("a bench line is no result") };
    assert_eq!((prior.m, prior.n, prior.k, prior.units), (16, 4096, 8192, Some(304)));
    assert_eq!((prior.kernel.as_str(), prior.time_ns), ("solution 6174", Some(32100.0)));
    assert!(prior.software.contains("0.10.0-abc123"));
    let gemms = converted.declaration.unwrap().gemms;
    assert!(gemms.iter().any(|gemm| (gemm.n, gemm.k, gemm.m[0].m) == (1280, 8192, 1)));
}

#[test]
fn vllm_and_triton_configs_are_priors_without_times() {
    let name = "other/N=512,K=7168,device_name=AMD_Instinct_MI300X,dtype=fp8_w8a8,block_shape=[128,128].json";
    let vllm = converted(&read(Source::Vllm, name));
    assert_eq!(vllm.priors.iter().map(|prior| prior.m).collect::<Vec<_>>(), [1, 64]);
    assert_eq!(
        (vllm.priors[1].tile.as_str(), vllm.priors[1].scaling.as_str()),
        ("64x32x128", "block128x128")
    );
    assert_eq!(vllm.priors[0].format, "fp8_e4m3fnuz");
    assert!(vllm.priors.iter().all(|prior| prior.time_ns.is_none()));

    let experts = converted(&read(
        Source::Vllm,
        "other/E=8,N=14336,device_name=AMD_Instinct_MI300X,dtype=fp8_w8a8.json",
    ));
    assert!(experts.declaration.is_none() && left_out(&experts)[0].0.contains("mixture of experts"));

    let triton = converted(&read(Source::Triton, "other/gfx950-GEMM-A8W8_BLOCKSCALE-N=512-K=7168.json"));
    assert_eq!(
        triton.priors.iter().map(|prior| (prior.m, prior.split_k)).collect::<Vec<_>>(),
        [(16, Some(4)), (256, Some(1))]
    );
    assert_eq!(left_out(&triton), [("a range without a bound: no M to declare", &[4][..])]);
}

#[test]
fn the_command_writes_declaration_and_priors_and_touches_no_input() {
    let folder = tempfile::tempdir().unwrap();
    let input = folder.path().join("gptoss_bf16_tuned_gemm.csv");
    let before = fs::read(fixture("aiter/gptoss_bf16_tuned_gemm.csv")).unwrap();
    fs::write(&input, &before).unwrap();
    let run = |arguments: &[&str]| {
        Command::new(env!("CARGO_BIN_EXE_tilewright"))
            .current_dir(folder.path())
            .args(arguments)
            .output()
            .unwrap()
    };
    let output = run(&["import", "aiter", "gptoss_bf16_tuned_gemm.csv", "--out", "made"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let check = run(&["shapes", "check", "made/gptoss_bf16_tuned_gemm.toml"]);
    assert!(check.status.success(), "{}", String::from_utf8_lossy(&check.stderr));
    let priors = fs::read_to_string(folder.path().join("made/gptoss_bf16_tuned_gemm.prior.csv")).unwrap();
    assert_eq!(priors.lines().count(), 1 + 6);
    assert_eq!(fs::read(&input).unwrap(), before);

    let missing = run(&["import", "aiter", "none.csv", "gone.csv"]);
    let message = String::from_utf8_lossy(&missing.stderr).into_owned();
    assert_eq!(missing.status.code(), Some(2));
    assert!(
        message.contains("none.csv: cannot be read") && message.contains("gone.csv: cannot be read"),
        "{message}"
    );
}

#[test]
fn what_a_hostile_file_can_take_is_bounded_and_said() {
    let rows = "x,2,3,torch.int8\n".repeat(import::FAULTS_MAX + 7);
    let foreign = parse("a8w8_untuned_gemm.csv", &format!("M,N,K,q_dtype_w\n{rows}"));
    assert_eq!((foreign.entries.len(), foreign.faults.len()), (0, import::FAULTS_MAX + 1));
    assert!(foreign.faults.last().unwrap().message.contains("7 faults more"));

    let json = format!("{{\"1\": \"{}\"}}", "x".repeat(5 << 20));
    let path = Path::new("N=512,K=512,device_name=x.json");
    assert!(import::parse(Source::Vllm, path, &json).unwrap_err().to_string().contains("larger than 4 MiB"));
}
