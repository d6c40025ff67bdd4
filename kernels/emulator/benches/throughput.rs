//! Wave-instructions per second of whole GEMM kernels on one core.
//!
//! `cargo bench -p tilewright-emulator` prints items (wave-instructions) per second for each kernel.

use divan::Bencher;
use divan::counter::ItemsCount;
use support::gemm::{Kind, problem};
use tilewright_emulator::Options;

#[path = "../tests/support/mod.rs"]
mod support;

fn main() {
    divan::main();
}

fn run(bencher: Bencher<'_, '_>, arch: &str, kind: Kind, kernel: &str) {
    let code = support::code("gemm", arch);
    let p = problem(kind, arch, [2, 2], 32);
    let options = Options { parallel: false, ..Options::default() };
    let launch = || code.launch(kernel, &p.memory, p.grid, &p.args, &options).expect("the kernel runs");
    let report = launch();
    assert_eq!(p.wrong(), 0);
    println!("{kernel} on {arch}: {:.1} % matrix instructions", 100.0 * report.matrix_share());
    bencher.counter(ItemsCount::new(report.instructions)).bench_local(launch);
}

#[divan::bench]
fn fp8_gfx942(bencher: Bencher<'_, '_>) {
    run(bencher, "gfx942", Kind::Fp8, "gemm_fp8");
}

#[divan::bench]
fn bf16_gfx942(bencher: Bencher<'_, '_>) {
    run(bencher, "gfx942", Kind::Bf16, "gemm_bf16");
}

#[divan::bench]
fn fp8_gfx950(bencher: Bencher<'_, '_>) {
    run(bencher, "gfx950", Kind::Fp8, "gemm_fp8");
}

#[divan::bench]
fn bf16_gfx950(bencher: Bencher<'_, '_>) {
    run(bencher, "gfx950", Kind::Bf16, "gemm_bf16");
}

#[divan::bench]
fn mxfp6_gfx950(bencher: Bencher<'_, '_>) {
    run(bencher, "gfx950", Kind::Mxfp6, "gemm_mxfp6");
}
