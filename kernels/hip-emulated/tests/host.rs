//! The HIP host on the stand-in, through the real dynamic loader and the real calls.
//!
//! A library path is read when a process starts, so each test runs this same program once more as its child, with the
//! stand-in in front.
#![cfg(target_os = "linux")]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, OnceLock};

use tilewright_kernels::backend::{Backend, Operands, Regime, RunFault};
use tilewright_kernels::family::fallback;
use tilewright_kernels::format::quantize::{QuantizeOptions, Quantized};
use tilewright_kernels::hip::{self, Hip};
use tilewright_kernels::reference::{Reference, Sample};
use tilewright_kernels::{BackendKind, Caps, Epilogue, Format, Layout, OutType, Problem, family, space};

/// A folder that holds the stand-in under its two names.
fn folder() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        let test = std::env::current_exe().unwrap();
        let name = "libtilewright_hip_emulated.so";
        let built = test.ancestors().skip(1).take(2).map(|at| at.join(name)).find(|path| path.exists());
        let built = built.expect(name);
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("hip-emulated");
        std::fs::create_dir_all(&folder).unwrap();
        for library in ["libamdhip64.so", "libhiprtc.so"] {
            // Under a name of this process first, so that tests of another always find a link.
            let new = folder.join(format!("{library}.{}", std::process::id()));
            std::os::unix::fs::symlink(&built, &new).unwrap();
            std::fs::rename(new, folder.join(library)).unwrap();
        }
        folder
    })
}

/// Runs the ignored test `name` of this program on an emulated GPU.
fn child(name: &str, gpu: &str) {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", name, "--include-ignored", "--nocapture"]);
    command.env("LD_LIBRARY_PATH", folder()).env("TILEWRIGHT_EMULATED_GPU", gpu);
    // The compiler is hiprtc, as with ROCm; the clang behind it is the one at hand.
    if let Some(clang) = std::env::var_os("TILEWRIGHT_HIP_CLANG") {
        command.env("TILEWRIGHT_EMULATED_CLANG", clang).env_remove("TILEWRIGHT_HIP_CLANG");
    }
    let output = command.output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let said = text(&output.stdout) + &text(&output.stderr);
    assert!(output.status.success() && said.contains("1 passed"), "{gpu}: {said}");
}

fn has_compiler() -> bool {
    let there = std::env::var_os("TILEWRIGHT_HIP_CLANG").is_some();
    if !there {
        eprintln!("skipped: TILEWRIGHT_HIP_CLANG names no compiler (ci/hip-clang.sh installs one)");
    }
    there
}

#[test]
fn a_device_describes_itself_and_says_that_it_is_simulated() {
    child("describes", "mi355x");
    child("describes", "mi300x");
}

#[test]
fn an_unknown_gpu_is_no_device() {
    child("is_no_device", "mi1000x");
}

#[test]
fn sessions_compute_what_the_reference_does() {
    if has_compiler() {
        child("computes", "mi355x");
        child("computes", "mi300x");
    }
}

#[test]
fn a_wrong_request_is_refused_and_the_next_launch_runs() {
    if has_compiler() {
        child("refuses", "mi355x");
    }
}

#[test]
#[ignore = "a child of the tests above"]
fn describes() {
    assert_eq!(Hip::count(), 1);
    let hip = Hip::open(0, None).unwrap();
    let is_950 = std::env::var("TILEWRIGHT_EMULATED_GPU").unwrap() == "mi355x";
    let (arch, caps, units, lds) =
        if is_950 { ("gfx950", Caps::GFX950, 256, 160) } else { ("gfx942", Caps::GFX942, 304, 64) };
    let device = hip.device();
    assert_eq!(
        (device.backend, device.caps, device.units, device.l1_kib),
        (BackendKind::Hip, caps, units, lds)
    );
    assert_eq!((device.l2_kib, device.llc_kib), (4096, 262_144));
    assert_eq!(hip.arch(), arch);
    assert!(hip.is_simulated() && hip.runtime_version() == 70_000_000);
    let fingerprint = hip.fingerprint();
    assert!(fingerprint.model.starts_with("AMD Instinct MI3"));
    let expected: &[&str] = if is_950 {
        &["gfx950", "sramecc", "xcd_8", "lds_160kib", "clock_2400mhz", "memory_288gib", "simulated"]
    } else {
        &["gfx942", "sramecc", "xcd_8", "lds_64kib", "clock_2100mhz", "memory_192gib", "simulated"]
    };
    assert_eq!(fingerprint.features, expected);
    assert!(Hip::open(1, None).is_err(), "there is one device");
}

#[test]
#[ignore = "a child of the tests above"]
fn is_no_device() {
    assert_eq!(Hip::count(), 0);
    assert!(Hip::open(0, None).is_err());
}

/// Operands of a problem; the session may be asked about fewer rows.
fn operands(problem: &Problem) -> Operands {
    let [m, n, k] = [problem.m, problem.n, problem.k].map(|d| d as usize);
    let mut state = 7u64;
    let mut values = |count: usize| -> Vec<f32> {
        let mut next = || {
            state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
            Format::Bf16.decode(Format::Bf16.encode((state >> 40) as f32 / (1u64 << 23) as f32 - 1.0))
        };
        (0..count).map(|_| next()).collect()
    };
    let activation = values(m * k).into();
    let weight = values(n * k);
    let options = QuantizeOptions::default();
    let weight = Quantized::quantize(&weight, n, k, problem.b, problem.scaling, &options).unwrap();
    Operands { m, n, k, activation, weights: vec![Arc::new(weight)], bias: Some(values(n).into()) }
}

#[test]
#[ignore = "a child of the tests above"]
fn computes() {
    let cache = Path::new(env!("CARGO_TARGET_TMPDIR")).join("hip-cache");
    let hip = Hip::open(0, Some(cache)).unwrap();
    assert!(hip.compiler().unwrap().version().starts_with("hiprtc"), "{}", hip.compiler().unwrap().version());
    for (a, b) in [(Format::Bf16, Format::Bf16), (Format::MxFp6E2m3, Format::MxFp6E2m3)] {
        let largest = Problem { a, ..Problem::new(3, 20, 160, b) };
        let operands = operands(&largest);
        let mut session = hip.open(operands.clone(), Regime::Cold).unwrap();
        for (m, out, epilogue, layout) in [
            (1, OutType::F32, Epilogue::None, Layout::RowMajor),
            (3, OutType::Bf16, Epilogue::Bias, Layout::RowMajor),
            (3, OutType::Bf16, Epilogue::None, Layout::Mfma16),
        ] {
            let problem = Problem { m, out, epilogue, ..largest };
            // gfx942 multiplies MX by the naive family alone.
            let Some(config) = fallback(&problem, layout, hip.device()) else {
                assert!(hip.arch() == "gfx942" && b.is_mx());
                continue;
            };
            let mut d = Vec::new();
            session.run(&problem, &config, &mut d).unwrap();
            let activation = &operands.activation[..m as usize * 160];
            let bias = operands.bias.as_deref();
            let reference = Reference::compute(&problem, activation, &operands.weights[0], bias, Sample::All);
            reference.check(&d, out).unwrap();
        }
        let configs = space::enumerate(family("hip.naive").unwrap(), &largest, hip.device());
        hip.ready(&[(largest, configs[0]), (largest, configs[1])]);
        let times: Vec<_> =
            (0..6).map(|slot| session.time(&largest, &configs[slot % 2], slot).unwrap()).collect();
        // 3 µs for the launch, and as long again for that of the kernel that quantises.
        let least = if a == Format::Bf16 { 3_000 } else { 6_000 };
        assert!(times.iter().all(|time| (least..1_000_000).contains(&time.as_nanos())), "{times:?}");
        session.retain(&[]);
        assert!(session.time(&largest, &configs[0], 0).is_ok(), "what was forgotten is made again");
    }
}

#[test]
#[ignore = "a child of the tests above"]
fn refuses() {
    let hip = Hip::open(0, None).unwrap();
    let problem = Problem::new(2, 20, 160, Format::Bf16);
    let operands = operands(&problem);
    let config = fallback(&problem, Layout::RowMajor, hip.device()).unwrap();
    let mut session = hip.open(operands, Regime::Hot).unwrap();
    let mut d = Vec::new();
    // More rows than the session has operands for.
    let wrong = session.run(&problem.with_m(3), &config, &mut d).unwrap_err();
    assert!(matches!(&wrong, RunFault::Failed(why) if why.contains("m=2 n=20 k=160")), "{wrong}");
    let foreign = tilewright_kernels::families()
        .iter()
        .find_map(|family| {
            let cpu = tilewright_kernels::cpu::Cpu::detect();
            (family.backend == BackendKind::Cpu && family.formats.contains(&problem.b))
                .then(|| space::enumerate(family, &problem, cpu.device()).first().copied())?
        })
        .unwrap();
    assert!(matches!(session.run(&problem, &foreign, &mut d), Err(RunFault::NotLaunchable(_))));
    session.run(&problem, &config, &mut d).unwrap();
    assert_eq!(d.len(), 40);
    assert!(hip::plan(&foreign, &problem, hip.device()).is_none());
}
