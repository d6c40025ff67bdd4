//! `tilewright lint`: each rule finds its fault and nothing else.

mod table_fixture;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tilewright::lint::{Finding, Options, Report, Rule, lint, output};

const BF16: &str = "gfx,cu_num,M,N,K,bias,dtype,outdtype,scaleAB,bpreshuffle,libtype,solidx,splitK,us,kernelName,err_ratio,tflops,bw\n";
const A8W8: &str = "gfx,cu_num,M,N,K,q_dtype_w,libtype,kernelId,splitK,us,kernelName,tflops,bw,errRatio\n";
const FLYDSL: &str = "flydsl_bpreshuflle_16x64x512_F8_F8_B16_2x1x0x4_default";

struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Self {
        Folder(tempfile::tempdir().unwrap())
    }

    fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.path().join(name);
        fs::write(&path, text).unwrap();
        path
    }

    fn lint(&self, name: &str, text: &str) -> Vec<(Rule, Option<usize>)> {
        found(&lint(&[self.file(name, text)], &Options::default()).unwrap().0)
    }
}

fn found(report: &Report) -> Vec<(Rule, Option<usize>)> {
    report.findings.iter().map(|Finding { rule, fault }| (*rule, fault.line)).collect()
}

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/import").join(name)
}

/// A bf16 row of 2 x 512 x 4096.
fn bf16(m: u32, us: &str, error: &str) -> String {
    let tflops = us.parse::<f64>().map_or(0.0, |us| f64::from(2 * m * 512) * 4096.0 / us / 1e6);
    format!(
        "gfx950,256,{m},512,4096,False,torch.bfloat16,torch.bfloat16,False,False,torch,0,0,{us},native,{error},{tflops:.3},1\n"
    )
}

/// An FP8 row of 16 x 6144 x 4096.
fn fp8(arch: &str, units: u32, dtype: &str, kernel: &str) -> String {
    let tflops = 2.0 * 16.0 * 6144.0 * 4096.0 / 8.5 / 1e6;
    format!("{arch},{units},16,6144,4096,torch.{dtype},flydsl,1,0,8.5,{kernel},{tflops:.2},1,0.0\n")
}

#[test]
fn sound_tables_have_no_findings() {
    let folder = Folder::new();
    let rows = [1, 16, 256].map(|m| bf16(m, &format!("{}.5", 4 + m), "0.01")).concat();
    assert_eq!(folder.lint("bf16_tuned_gemm.csv", &(BF16.to_owned() + &rows)), []);
    let row = fp8("gfx950", 256, "float8_e4m3fn", FLYDSL);
    assert_eq!(folder.lint("a8w8_bpreshuffle_tuned_gemm.csv", &(A8W8.to_owned() + &row)), []);
}

#[test]
fn placeholder_times_are_found_and_never_dominate() {
    let rows = ["0.0", "1.0", "inf", "nan", "-1"].iter().enumerate();
    let rows: String = rows.map(|(index, us)| bf16(16 << index, us, "0.0")).collect();
    let text = format!("{BF16}{}{rows}", bf16(1, "5.0", "0.0"));
    let expected: Vec<_> = (3..8).map(|line| (Rule::PlaceholderTime, Some(line))).collect();
    assert_eq!(Folder::new().lint("bf16_tuned_gemm.csv", &text), expected);
}

#[test]
fn times_above_the_device_are_found() {
    let folder = Folder::new();
    // 4 MiB of weight take 0.5 µs at 8 TB/s; 2.1 TFLOP take 0.85 ms at 2.5 PFLOP/s.
    let memory = BF16.to_owned() + &bf16(1, "0.4", "0.0");
    assert_eq!(folder.lint("bf16_tuned_gemm.csv", &memory), [(Rule::ImpossibleTime, Some(2))]);
    let line = |us: f64| {
        let tflops = 2.0 * 16384.0 * 8192.0 * 8192.0 / us / 1e6;
        format!(
            "gfx950,256,16384,8192,8192,False,torch.bfloat16,torch.bfloat16,False,False,torch,0,0,{us},native,0.0,{tflops},1\n"
        )
    };
    assert_eq!(
        folder.lint("bf16_tuned_gemm.csv", &(BF16.to_owned() + &line(800.0))),
        [(Rule::ImpossibleTime, Some(2))]
    );
    assert_eq!(folder.lint("bf16_tuned_gemm.csv", &(BF16.to_owned() + &line(1000.0))), []);
}

#[test]
fn an_edited_time_disagrees_with_its_throughput() {
    let folder = Folder::new();
    let text = (BF16.to_owned() + &bf16(256, "9.5", "0.0")).replace(",9.5,", ",8.5,");
    // A throughput of 0 is one that was not computed.
    let uncomputed = format!("{BF16}{}", bf16(256, "9.5", "0.0").replace(",113.025,", ",0,"));
    assert!(uncomputed.contains(",0.0,0,1"), "{uncomputed}");
    assert_eq!(folder.lint("bf16_tuned_gemm.csv", &uncomputed), []);
    assert_eq!(folder.lint("bf16_tuned_gemm.csv", &text), [(Rule::InconsistentThroughput, Some(2))]);
}

#[test]
fn errors_over_tolerance_are_found() {
    let text =
        format!("{BF16}{}{}{}", bf16(1, "5.0", "0.05"), bf16(2, "5.1", "0.051"), bf16(4, "5.2", "nan"));
    let expected = [(Rule::ErrorOverTolerance, Some(3)), (Rule::ErrorOverTolerance, Some(4))];
    assert_eq!(Folder::new().lint("bf16_tuned_gemm.csv", &text), expected);
}

#[test]
fn a_key_in_two_files_of_a_family_is_found_whatever_the_kernel() {
    let folder = Folder::new();
    let first = folder.file("bf16_tuned_gemm.csv", &(BF16.to_owned() + &bf16(1, "5.0", "0.0")));
    let same = bf16(1, "5.2", "0.0").replace("torch,0", "triton,0").replace("native", "auto");
    let second =
        folder.file("model_bf16_tuned_gemm.csv", &(BF16.to_owned() + &bf16(8, "5.4", "0.0") + &same));
    let report = lint(&[first, second.clone()], &Options::default()).unwrap().0;
    assert_eq!(found(&report), [(Rule::DuplicateKey, Some(3))]);
    assert_eq!(report.findings[0].fault.file, second);
    assert!(report.findings[0].fault.message.contains("bf16_tuned_gemm.csv:2"));
}

#[test]
fn problems_that_differ_in_bias_output_or_cu_count_alone_are_no_duplicates() {
    let row = bf16(1, "5.0", "0.0");
    let text = BF16.to_owned()
        + &row
        + &row.replacen("False", "True", 1)
        + &row.replacen("torch.bfloat16,torch.bfloat16", "torch.bfloat16,torch.float32", 1)
        + &row.replacen("256", "128", 1);
    assert_eq!(Folder::new().lint("bf16_tuned_gemm.csv", &text), []);
    // Dimensions that are permuted are another problem.
    let turned = BF16.to_owned() + &row + &row.replace("512,4096", "4096,512");
    assert_eq!(Folder::new().lint("bf16_tuned_gemm.csv", &turned), []);
}

#[test]
fn renamed_kernels_are_found() {
    let renamed = FLYDSL.replace("2x1x0x4", "2x1x0x4x4");
    let text = A8W8.to_owned() + &fp8("gfx950", 256, "float8_e4m3fn", &renamed);
    assert_eq!(
        Folder::new().lint("a8w8_bpreshuffle_tuned_gemm.csv", &text),
        [(Rule::UnknownKernel, Some(2))]
    );
}

#[test]
fn a_row_slower_than_a_larger_m_is_found_beyond_noise() {
    let rows = [(16, "10.4"), (32, "10.0"), (64, "12.0"), (128, "11.0"), (256, "15.0")];
    let text = BF16.to_owned() + &rows.map(|(m, us)| bf16(m, us, "0.0")).concat();
    assert_eq!(Folder::new().lint("bf16_tuned_gemm.csv", &text), [(Rule::DominatedRow, Some(4))]);
}

#[test]
fn fp8_in_the_wrong_encoding_is_found_both_ways() {
    let text = A8W8.to_owned()
        + &fp8("gfx942", 304, "float8_e4m3fn", FLYDSL)
        + &fp8("gfx942", 304, "float8_e4m3fnuz", FLYDSL)
        + &fp8("gfx950", 256, "float8_e4m3fnuz", FLYDSL);
    let expected = [(Rule::Fp8Encoding, Some(2)), (Rule::Fp8Encoding, Some(4))];
    assert_eq!(Folder::new().lint("a8w8_bpreshuffle_tuned_gemm.csv", &text), expected);
}

#[test]
fn cu_counts_that_no_device_has_or_not_this_one_are_found() {
    let folder = Folder::new();
    let text = A8W8.to_owned()
        + &fp8("gfx950", 256, "float8_e4m3fn", FLYDSL)
        + &fp8("gfx950", 255, "float8_e4m3fn", FLYDSL);
    assert_eq!(folder.lint("a8w8_bpreshuffle_tuned_gemm.csv", &text), [(Rule::CuCount, Some(3))]);

    let other = A8W8.to_owned()
        + &fp8("gfx942", 80, "float8_e4m3fnuz", FLYDSL)
        + &fp8("gfx942", 304, "float8_e4m3fnuz", FLYDSL);
    let path = folder.file("a8w8_bpreshuffle_tuned_gemm.csv", &other);
    let options = Options { device: Some("gfx942:304".parse().unwrap()), ..Options::default() };
    let report = lint(&[path], &options).unwrap().0;
    assert_eq!(found(&report), [(Rule::CuCount, Some(2))]);
    assert!(report.findings[0].fault.message.contains("1 rows are of gfx942 with 80 CUs"));
}

#[test]
fn a_table_without_architectures_is_found() {
    let text = "cu_num,M,N,K,kernelId,splitK,us,kernelName,tflops,bw,errRatio\n\
                256,16,512,4096,21,0,5.0,_ZN5aiter41f4gemm_bf16_per1x32Fp4_BpreShuffle_32x128E,13.42,1,0.0\n";
    assert_eq!(Folder::new().lint("a4w4_blockscale_tuned_gemm.csv", text), [(Rule::MissingArch, Some(1))]);
}

#[test]
fn cuts_of_shipped_tables_have_the_faults_they_are_known_for() {
    let paths: Vec<PathBuf> = [
        "aiter/a8w8_bpreshuffle_tuned_gemm.csv",
        "aiter/a8w8_bpreshuffle_tuned_gemm_glm5.2.csv",
        "aiter/gptoss_bf16_tuned_gemm.csv",
        "other/tunableop_results0.csv",
        "other/gfx950-GEMM-A8W8_BLOCKSCALE-N=512-K=7168.json",
    ]
    .map(fixture)
    .to_vec();
    let report = lint(&paths, &Options::default()).unwrap().0;
    let counts = output::counts(&report);
    let of = |rule| counts.get(&rule).copied().unwrap_or(0);
    let faults =
        [Rule::PlaceholderTime, Rule::ErrorOverTolerance, Rule::UnknownKernel, Rule::DuplicateKey].map(of);
    assert_eq!(faults, [3, 4, 5, 0], "{counts:?}");
    assert_eq!([Rule::Unreadable, Rule::ImpossibleTime, Rule::Fp8Encoding].map(of), [0; 3], "{counts:?}");
}

fn command(folder: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_tilewright")).current_dir(folder).args(arguments).output().unwrap()
}

#[test]
fn text_json_and_sarif_say_the_same_and_the_exit_code_tells() {
    let folder = Folder::new();
    let rows: String = (0..7).map(|index| bf16(1 << index, "0.0", "0.0")).collect();
    folder.file("model bf16.csv", &(BF16.to_owned() + &rows));
    folder.file("sound.csv", &(BF16.to_owned() + &bf16(1, "5.0", "0.0")));
    let run = |arguments: &[&str]| command(folder.0.path(), arguments);
    let text = |output: &Output| String::from_utf8(output.stdout.clone()).unwrap();

    let sound = run(&["lint", "sound.csv"]);
    assert_eq!((sound.status.code(), text(&sound).as_str()), (Some(0), "0 findings in 1 row of 1 file\n"));

    let plain = run(&["lint", "model bf16.csv"]);
    assert_eq!(plain.status.code(), Some(1));
    let shown = text(&plain);
    assert!(
        shown.contains("model bf16.csv:2: error[placeholder-time]: us: 0 µs is a placeholder"),
        "{shown}"
    );
    assert!(shown.contains("model bf16.csv: 2 more [placeholder-time]"), "{shown}");

    let json: serde_json::Value =
        serde_json::from_str(&text(&run(&["lint", "model bf16.csv", "--json"]))).unwrap();
    assert_eq!(
        (&json["counts"]["placeholder-time"], json["findings"].as_array().unwrap().len()),
        (&7.into(), 7)
    );

    let sarif: serde_json::Value =
        serde_json::from_str(&text(&run(&["lint", "model bf16.csv", "--sarif"]))).unwrap();
    assert_eq!(sarif["version"], "2.1.0");
    let run_ = &sarif["runs"][0];
    let rules: BTreeMap<usize, &str> = run_["tool"]["driver"]["rules"]
        .as_array()
        .unwrap()
        .iter()
        .enumerate()
        .map(|(index, rule)| (index, rule["id"].as_str().unwrap()))
        .collect();
    let results = run_["results"].as_array().unwrap();
    assert_eq!(results.len(), 7);
    for (index, result) in results.iter().enumerate() {
        assert_eq!(rules[&(result["ruleIndex"].as_u64().unwrap() as usize)], result["ruleId"]);
        let place = &result["locations"][0]["physicalLocation"];
        assert_eq!(place["artifactLocation"]["uri"], "model%20bf16.csv");
        assert_eq!(place["region"]["startLine"], index + 2);
    }

    // Neither a stranger's file nor prior evidence, which is no table, is taken for one.
    for (name, text) in [("notes.csv", "a,b\n"), ("m.prior.csv", "source,file,line,device,weight,m,n,k\n")] {
        folder.file(name, text);
        assert_eq!(run(&["lint", name]).status.code(), Some(2), "{name}");
    }
}

#[test]
fn coverage_follows_the_ladder_and_weighs_by_time() {
    let folder = Folder::new();
    folder.file("bf16.csv", &(BF16.to_owned() + &bf16(16, "5.0", "0.0") + &bf16(64, "5.5", "0.0")));
    // 16 is exact, 9 is padded to 16, 40 runs 64, 100 is missed.
    let shapes = "[model]\nname = \"m\"\n[[gemm]]\nname = \"g\"\nn = 512\nk = 4096\nm = [9, 16, 40, 100]\n\
                  formats = [\"bf16\"]\n";
    folder.file("m.toml", shapes);
    let run = |device: &str| {
        command(
            folder.0.path(),
            &["lint", "bf16.csv", "--declaration", "m.toml", "--device", device, "--json"],
        )
    };
    let output = run("gfx950:256");
    assert_eq!(output.status.code(), Some(1));
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let coverage = &json["coverage"][0];
    let share = |name: &str| coverage[name].as_f64().unwrap();
    let shares = ["exact", "padded", "power_of_two", "missing"].map(share);
    assert!(
        (shares.iter().sum::<f64>() - 1.0).abs() < 1e-9 && shares.iter().all(|share| *share > 0.0),
        "{shares:?}"
    );
    // Weights of M are shares of rows, so a launch at M = 9 is the most frequent.
    assert!(shares[1] > shares[0] && shares[0] > shares[2] && shares[2] > shares[3], "{shares:?}");
    let finding = json["findings"].as_array().unwrap().last().unwrap();
    assert_eq!((&finding["rule"], &finding["line"]), (&"uncovered-shape".into(), &3.into()));
    assert!(finding["message"].as_str().unwrap().contains("M = 100"));
    let unknown = run("gfx1:1");
    assert_eq!(unknown.status.code(), Some(2), "{}", String::from_utf8_lossy(&unknown.stderr));
}

#[test]
fn our_tables_are_linted_with_their_module_and_evidence() {
    let folder = Folder::new();
    let decisions = table_fixture::decisions();
    let path = folder.file("fixture.toml", &decisions.to_toml());
    let report = lint(std::slice::from_ref(&path), &Options::default()).unwrap().0;
    assert!(report.rows > 0);
    assert!(report.findings.iter().all(|finding| finding.rule == Rule::TableDoubt), "{:?}", report.findings);
    assert!(report.findings.iter().any(|finding| finding.fault.message.contains("no evidence beside it")));

    folder.file("fixture.rs", "edited by hand");
    let stale = lint(std::slice::from_ref(&path), &Options::default()).unwrap().0;
    assert!(found(&stale).contains(&(Rule::StaleModule, None)));

    let mut bad = decisions;
    bad.weights[0].rows[0].time_ns = 0.0;
    let path = folder.file("fixture.toml", &bad.to_toml());
    let faults = lint(&[path], &Options::default()).unwrap().0;
    let fault = faults.findings.iter().find(|finding| finding.rule == Rule::TableFault).unwrap();
    assert!(fault.fault.line.is_some() && fault.fault.message.contains("placeholder"), "{fault:?}");
}
