//! The whole way on an AMD GPU, on the emulated one: tune, verify, compile, and an engine that runs what was left there.
//!
//! On the MI300X MX formats have one family, so that the search ends by itself and no clock decides how far it gets.
//!
//! The program under test is the ordinary one; a folder on its library path holds the stand-in under the names of
//! ROCm's libraries. Where `TILEWRIGHT_HIP_CLANG` names no compiler the tests say that they were skipped.
#![cfg(target_os = "linux")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tilewright::table::{Located, Lowered};
use tilewright_dispatch::Provenance;
use tilewright_dispatch::hip::Engine;
use tilewright_kernels::format::quantize::{QuantizeOptions, Quantized};
use tilewright_kernels::reference::{Reference, Sample};
use tilewright_kernels::{Format, OutType};

const SHAPES: &str = r#"
[model]
name = "tiny"

[defaults]
m = [1, 5]
formats = ["mxfp6_e2m3"]
out = "bf16"

[[gemm]]
name = "mlp.down"
n = 40
k = 256
"#;

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A folder that holds the stand-in, built with this test, under its two names.
fn stand_in() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let name = "libtilewright_hip_emulated.so";
    let built = test.ancestors().skip(1).take(2).map(|folder| folder.join(name)).find(|path| path.exists());
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("hip-emulated");
    fs::create_dir_all(&folder).unwrap();
    for library in ["libamdhip64.so", "libhiprtc.so"] {
        let (link, new) = (folder.join(library), folder.join(format!("{library}.{}", std::process::id())));
        std::os::unix::fs::symlink(built.as_ref().expect(name), &new).unwrap();
        fs::rename(new, link).unwrap();
    }
    folder
}

/// A command that sees an emulated MI300X, and keeps compiled kernels under the build folder.
fn emulated(program: &Path, args: &[&str]) -> Output {
    let cache = Path::new(env!("CARGO_TARGET_TMPDIR")).join("cache");
    let mut command = Command::new(program);
    command.args(args).env("LD_LIBRARY_PATH", stand_in()).env("TILEWRIGHT_EMULATED_GPU", "mi300x");
    command.env("XDG_CACHE_HOME", cache).output().unwrap()
}

fn tilewright(args: &[&str]) -> Output {
    emulated(Path::new(env!("CARGO_BIN_EXE_tilewright")), args)
}

#[test]
fn a_table_tuned_on_an_emulated_gpu_verifies_is_marked_and_runs_in_an_engine() {
    if std::env::var_os("TILEWRIGHT_HIP_CLANG").is_none() {
        eprintln!("skipped: TILEWRIGHT_HIP_CLANG names no compiler (ci/hip-clang.sh installs one)");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let shapes = folder.path().join("tiny.toml");
    fs::write(&shapes, SHAPES).unwrap();
    let out = folder.path().join("tables");
    let (shapes, out_text) = (shapes.to_str().unwrap(), out.to_str().unwrap());
    let tuned =
        tilewright(&["tune", shapes, "--device", "hip", "--out", out_text, "--budget", "120s", "--quiet"]);
    assert!(tuned.status.success(), "{}", text(&tuned.stderr));
    assert!(text(&tuned.stdout).contains("the device is simulated"), "{}", text(&tuned.stdout));

    let device = fs::read_dir(&out).unwrap().next().unwrap().unwrap().path();
    assert!(device.file_name().unwrap().to_str().unwrap().starts_with("hip-amd-instinct-mi300x-304u-"));
    let table = device.join("tiny.toml");
    assert!(fs::read_to_string(&table).unwrap().contains("\nsimulated = true\n"));
    assert!(!device.join("tiny.rs").exists(), "a simulated table got a module");
    let table_text = table.to_str().unwrap();

    let refused = tilewright(&["compile", table_text]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(text(&refused.stderr).contains("--allow-simulated"), "{}", text(&refused.stderr));
    let allowed = tilewright(&["compile", table_text, "--allow-simulated"]);
    assert!(allowed.status.success() && device.join("tiny.rs").exists(), "{}", text(&allowed.stderr));

    let verified = tilewright(&["verify", table_text]);
    assert!(verified.status.success(), "{}", text(&verified.stderr));
    assert!(text(&verified.stdout).contains("all right on hip-amd-instinct-mi300x"));

    // A library path is read when a process starts: the engine runs in a child.
    let args = ["--exact", "engine", "--include-ignored", "--nocapture"];
    let program = std::env::current_exe().unwrap();
    let mut command = Command::new(program);
    command.args(args).env("TABLE", &table).env("LD_LIBRARY_PATH", stand_in());
    command.env("TILEWRIGHT_EMULATED_GPU", "mi300x");
    // Nothing may be compiled: what runs are the code objects beside the table.
    let ran = command.env("TILEWRIGHT_HIP_CLANG", "/no/such/clang").output().unwrap();
    assert!(ran.status.success() && text(&ran.stdout).contains("1 passed"), "{ran:?}");
}

#[test]
#[ignore = "a child of the test above"]
fn engine() {
    let table = PathBuf::from(std::env::var_os("TABLE").unwrap());
    let objects = fs::read(table.with_extension("objects")).unwrap();
    let located = Located::read(&table).unwrap();
    let key = located.decisions.weights[0].key();
    let lowered = Lowered::of(&located).unwrap();
    lowered.with(|data| {
        let engine = Engine::new(data, 0, &objects).unwrap();
        assert!(engine.is_tuned_here() && engine.gpu().is_simulated());
        let (n, k) = (key.n as usize, key.k as usize);
        let values: Vec<f32> = (0..n * k).map(|i| ((i * 37 % 101) as f32 - 50.0) / 64.0).collect();
        let weight = engine.load("mlp.down", &values).unwrap();
        for (m, expected) in [(1, Some(Provenance::Exact)), (5, Some(Provenance::Exact)), (3, None)] {
            engine.ready(&weight, m, false).unwrap();
            let rows = m as usize;
            let bits: Vec<u16> =
                (0..rows * k).map(|i| Format::Bf16.encode(((i * 13 % 29) as f32 - 14.0) / 8.0)).collect();
            let bytes: Vec<u8> = bits.iter().flat_map(|b| b.to_le_bytes()).collect();
            let activation = engine.gpu().upload(&bytes).unwrap();
            let mut output = engine.gpu().allocate(rows * n * 2).unwrap();
            let choice = engine.run(&weight, &activation, m, None, &mut output).unwrap();
            assert!(expected.is_none_or(|expected| choice.provenance == expected), "{choice:?}");
            let mut bytes = vec![0; rows * n * 2];
            engine.gpu().read(&output, &mut bytes).unwrap();
            let pairs = bytes.chunks_exact(2);
            let d: Vec<f32> = pairs.map(|b| Format::Bf16.decode(u16::from_le_bytes([b[0], b[1]]))).collect();
            let options = QuantizeOptions::default();
            let quantized = Quantized::quantize(&values, n, k, key.b, key.scaling, &options).unwrap();
            let plain: Vec<f32> = bits.iter().map(|b| Format::Bf16.decode(*b)).collect();
            let problem = key.problem(m);
            let reference = Reference::compute(&problem, &plain, &quantized, None, Sample::All);
            reference.check(&d, OutType::Bf16).unwrap();
            let small = engine.gpu().upload(&[0; 2]).unwrap();
            assert!(engine.run(&weight, &small, m, None, &mut output).is_err(), "too small an activation");
        }
        assert!(engine.load("mlp.up", &values).is_err());
        assert!(engine.load("mlp.down", &values[1..]).is_err());
    });
}
