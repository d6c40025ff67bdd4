//! `tilewright inspect`, which exists with the feature `emulator`. What needs a compiler is skipped, with a word on standard
//! error, where `TILEWRIGHT_HIP_CLANG` names none.
#![cfg(feature = "emulator")]

use std::process::{Command, Output};

use tilewright::inspect::machine::Machine;
use tilewright::inspect::{Inspection, choose, inspect};
use tilewright_kernels::hip::skinny;
use tilewright_kernels::{Family, Format, OutType, Problem};

fn command(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_tilewright")).arg("inspect").args(args).output().unwrap()
}

fn has_compiler() -> bool {
    let there = std::env::var_os("TILEWRIGHT_HIP_CLANG").is_some();
    if !there {
        eprintln!("skipped: TILEWRIGHT_HIP_CLANG names no compiler (ci/hip-clang.sh installs one)");
    }
    there
}

fn look(family: &'static Family, arch: &str, format: Format, shape: [u32; 3], config: &str) -> Inspection {
    let machine = Machine::of(arch).unwrap();
    let [m, n, k] = shape;
    let problem = Problem { a: format, out: OutType::Bf16, ..Problem::new(m, n, k, format) };
    let config = choose(family, &[config.to_string()], &problem, machine).unwrap();
    inspect(&config, &problem, machine).unwrap()
}

#[test]
fn a_skinny_kernel_reads_its_weight_once() {
    if !has_compiler() {
        return;
    }
    let seen = look(
        &skinny::FP8,
        "gfx942",
        Format::Fp8E4m3Fnuz,
        [8, 2304, 16384],
        "form=sparse8,panels=4,depth=2,waves=4,producers=0,split_k=4,reduce=last",
    );
    let multiply = &seen.steps[1];
    // At the emulated size: the weight, and beside it only what 8 rows of activation and D take.
    let emulated = u64::from(seen.emulated.n) * u64::from(seen.emulated.k);
    let read = multiply.run.reuse.mall_misses * 128;
    assert!((emulated..emulated + emulated / 20).contains(&read), "{read} bytes from memory of {emulated}");
    assert_eq!(multiply.code.spills, [0, 0]);
    let (bound, seconds) = multiply.terms.bound();
    // 2304 * 16384 bytes at 5.3 TB/s are 7.1 us; the published kernel takes 12.3.
    assert_eq!(bound, "HBM");
    assert!((7e-6..9e-6).contains(&seconds), "{seconds} s");
    let text = seen.to_string();
    for part in [
        "prediction, not a measurement",
        "published    12.3 µs",
        "16 matrix, 20 memory",
        "vmcnt: 11 10 11 10",
        "quantise: 16 x 1",
    ] {
        assert!(text.contains(part), "{part}:\n{text}");
    }
}

#[test]
fn what_cannot_be_inspected_is_said_with_what_can() {
    let refusal = |args: &[&str]| {
        let output = command(args);
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    assert!(refusal(&["hip.skinny_fp8", "--arch", "gfx90a"]).contains("gfx942 and gfx950"));
    assert!(refusal(&["cpu.skinny", "--arch", "gfx942"]).contains("hip.skinny_mxfp6"));
    assert!(refusal(&["hip.skinny_fp8", "speed=9", "--arch", "gfx942"]).contains("it has cache, depth"));
    assert!(refusal(&["hip.skinny_fp8", "depth=5", "--arch", "gfx942"]).contains("[2, 3, 4, 6, 8]"));
    assert!(refusal(&["hip.skinny_mxfp6", "--arch", "gfx942"]).contains("nothing of hip.skinny_mxfp6"));
}
