//! Whole GEMM kernels, in every order of waves and of landing data.

mod support;

use support::code;
use support::gemm::{Kind, problem};
use tilewright_emulator::{Dma, Options, Order};

const CASES: [(&str, Kind, &str); 5] = [
    ("gfx942", Kind::Fp8, "gemm_fp8"),
    ("gfx942", Kind::Bf16, "gemm_bf16"),
    ("gfx950", Kind::Fp8, "gemm_fp8"),
    ("gfx950", Kind::Bf16, "gemm_bf16"),
    ("gfx950", Kind::Mxfp6, "gemm_mxfp6"),
];

#[test]
fn gemms_agree_with_the_reference_however_waves_and_data_are_ordered() {
    for (arch, kind, kernel) in CASES {
        let code = code("gemm", arch);
        for (i, dma) in [Dma::Early, Dma::Late, Dma::Random].into_iter().enumerate() {
            for order in [Order::Forward, Order::Reverse, Order::Random] {
                let p = problem(kind, arch, [2, 1], 5);
                let options = Options { dma, order, seed: i as u64, races: true, ..Options::default() };
                let report = code.launch(kernel, &p.memory, p.grid, &p.args, &options).unwrap();
                assert_eq!(p.wrong(), 0, "{kernel} on {arch} with {dma:?} and {order:?}");
                assert_eq!(report.races, [], "{kernel} on {arch}");
                // Two workgroups of four waves, five steps of four products each.
                let products = 2 * 4 * 5 * 4;
                assert_eq!(report.matrix_instructions, products);
                assert_eq!(report.matrix_share(), products as f64 / report.instructions as f64);
            }
        }
    }
}

#[test]
fn a_wait_that_is_too_short_shows_when_data_lands_late() {
    let code = code("gemm", "gfx950");
    let run = |dma, seed| {
        let p = problem(Kind::Fp8, "gfx950", [1, 1], 5);
        code.launch(
            "gemm_fp8_short_wait",
            &p.memory,
            p.grid,
            &p.args,
            &Options { dma, seed, ..Options::default() },
        )
        .unwrap();
        p.wrong()
    };
    assert_eq!(run(Dma::Early, 0), 0);
    assert!(run(Dma::Late, 0) > 0);
}

#[test]
fn statistics_tell_what_a_kernel_moved() {
    let code = code("gemm", "gfx950");
    let p = problem(Kind::Fp8, "gfx950", [1, 2], 4);
    let options = Options { streams: true, ..Options::default() };
    let report = code.launch("gemm_fp8", &p.memory, p.grid, &p.args, &options).unwrap();
    // Each workgroup loads 8 fragments of 2 KiB a step, and two steps ahead at the end over again.
    assert_eq!(report.traffic.load_bytes, 2 * (4 + 2) * 8 * 2048);
    assert_eq!(report.traffic.store_bytes, 64 * 128 * 2);
    assert_eq!(report.streams.len(), 2);
    let loads = report.streams[0].iter().filter(|t| !t.store).count() as u64;
    assert_eq!(loads, 6 * 8 * 2048 / 128);
    assert!(
        report.traffic.lds_cycles >= report.traffic.lds_cycles_ideal && report.traffic.lds_cycles_ideal > 0
    );
    assert_eq!(report.mix["v_mfma_f32_16x16x128_f8f6f4"], 2 * 4 * 4 * 4);
}
