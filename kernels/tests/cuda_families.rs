//! The CUDA families' spaces and rules, on the device they were written for.

use tilewright_kernels::cuda::families::{Tiling, is_gemm};
use tilewright_kernels::cuda::{FAMILIES, source};
use tilewright_kernels::family::fallback;
use tilewright_kernels::space::enumerate;
use tilewright_kernels::{
    BackendKind, Caps, Config, Device, Format, Layout, Problem, Scaling, family, is_launchable,
};

/// What `Cuda` reports of an H200.
const H200: Device = Device {
    backend: BackendKind::Cuda,
    caps: Caps::SM_90A,
    units: 132,
    l1_kib: 228,
    l2_kib: 61440,
    llc_kib: 61440,
};
/// The most shared memory a CTA can have (CUDA C++ Programming Guide, compute capability 9.0).
const MOST_SHARED: u32 = 227 * 1024;

fn problems() -> Vec<Problem> {
    let formats = [Format::Bf16, Format::Fp8E4m3, Format::MxFp6E2m3, Format::MxFp6E3m2];
    let shapes = [
        (1, 16, 128),
        (3, 40, 96),
        (17, 1000, 4096),
        (64, 2304, 16384),
        (200, 264, 1184),
        (4096, 28672, 4096),
    ];
    shapes.iter().flat_map(|&(m, n, k)| formats.map(|b| Problem::new(m, n, k, b))).collect()
}

#[test]
fn every_point_of_a_space_has_a_geometry_that_fits_the_device() {
    for problem in problems() {
        let own = FAMILIES.iter().filter(|family| is_gemm(family));
        for config in own.flat_map(|f| enumerate(f, &problem, &H200)) {
            let t = Tiling::of(&config, problem.b);
            assert!(t.shared_bytes() <= MOST_SHARED, "{config}");
            assert!(t.threads() <= 1024 && t.threads() * t.ctas_per_sm <= 2048, "{config}");
            assert!(t.registers() <= 255 && t.stage_bytes().is_multiple_of(1024), "{config}");
            let units = t.tiles(&problem) * t.chunks(problem.k);
            let grid = t.grid(&problem, &H200);
            assert!((1..=units).contains(&grid), "{config} on {problem}: {grid} CTAs for {units} tiles");
            let prior = (config.family().prior)(&config, &problem, &H200);
            assert!(prior.is_finite() && prior > 0.0, "{config}");
            if t.warpgroup {
                assert!(t.tile_n.is_multiple_of(64) && t.warps.is_multiple_of(4), "{config}");
            }
        }
    }
}

#[test]
fn spaces_have_some_hundred_to_some_thousand_points() {
    for problem in problems().into_iter().filter(|p| p.n >= 1000) {
        let points: usize = FAMILIES.iter().map(|f| enumerate(f, &problem, &H200).len()).sum();
        assert!((200..8000).contains(&points), "{problem}: {points}");
    }
}

#[test]
fn configs_survive_their_canonical_text() {
    let problem = Problem::new(16, 4096, 4096, Format::MxFp6E2m3);
    for config in FAMILIES.iter().flat_map(|f| enumerate(f, &problem, &H200)).step_by(37) {
        assert_eq!(Config::parse(&config.to_string()), Ok(config));
    }
}

#[test]
fn the_fallback_runs_every_m_of_every_format() {
    for problem in problems() {
        for m in [1, 2, 31, 33, 64, 65, 1000, 70_000] {
            let problem = problem.with_m(m);
            let config =
                fallback(&problem, Layout::Mma64, &H200).unwrap_or_else(|| panic!("none for {problem}"));
            assert!(is_gemm(config.family()) && config.layout() == Layout::Mma64);
            let row_major = fallback(&problem, Layout::RowMajor, &H200);
            let is_library = row_major.is_some_and(|config| config.family().name == "cuda.cublaslt");
            assert_eq!(is_library, problem.b == Format::Bf16, "row-major bf16 is the library's: {problem}");
        }
    }
}

#[test]
fn only_the_librarys_own_choice_is_enumerated_and_its_descriptions_survive_their_text() {
    let library = family("cuda.cublaslt").expect("built in");
    let plain = Problem::new(16, 4096, 4096, Format::Bf16);
    let [heuristic] = enumerate(library, &plain, &H200)[..] else { panic!("one point is enumerated") };
    assert!(
        is_launchable(&heuristic, &Problem { n: 83, k: 557, ..plain }, &H200).is_ok(),
        "bf16 of any size"
    );
    let text = "cuda.cublaslt@1(algo=66,choice=fixed,cluster=4,custom=1,inner=0,layout=row_major,reduction=2,\
                split_k=2,stages=35,swizzle=0,tile=393)";
    let described = Config::parse(text).expect("its numbers are in the domains");
    assert_eq!(described.to_string(), text);
    assert!(is_launchable(&described, &plain, &H200).is_ok());
    let refused = |config: &Config, problem: Problem| is_launchable(config, &problem, &H200).is_err();
    assert!(refused(&described, Problem { k: 557, ..plain }), "rows not at multiples of 16 bytes");
    assert!(refused(&described.with("choice", 0), plain), "described and left to the library at once");
    let mixed = Problem::new(16, 4096, 4096, Format::Fp8E4m3);
    assert!(refused(&described, mixed), "a bf16 activation on FP8");
    assert!(!refused(&described, Problem { a: Format::Fp8E4m3, ..mixed }));
}

#[test]
fn what_the_kernel_cannot_run_is_refused() {
    let skinny = family("cuda.skinny_fp8").expect("built in");
    let problem = Problem::new(16, 4096, 4096, Format::Fp8E4m3);
    let config = enumerate(skinny, &problem, &H200)[0];
    let refused = |problem: Problem, device: &Device| is_launchable(&config, &problem, device).is_err();
    assert!(!refused(problem, &H200));
    assert!(refused(Problem { m: 65, ..problem }, &H200), "more rows than the family takes");
    assert!(refused(Problem { k: 4097, ..problem }, &H200), "rows of A not at multiples of 16 bytes");
    assert!(refused(Problem { a: Format::Fp8E5m2, ..problem }, &H200), "an activation it does not snap");
    assert!(refused(problem, &Device { caps: Caps::NONE, ..H200 }), "another GPU");
    assert!(refused(problem, &Device { backend: BackendKind::Cpu, ..H200 }), "another backend");
    let per_tensor = Problem { scaling: Scaling::Tensor, ..problem };
    assert!(!refused(per_tensor, &H200), "a scale per tensor is a factor per channel");
}

#[test]
fn sources_name_every_macro_and_differ_where_kernels_differ() {
    let problem = Problem::new(16, 4096, 4096, Format::MxFp6E2m3);
    let configs = enumerate(family("cuda.skinny_mxfp6").expect("built in"), &problem, &H200);
    for config in configs.iter().step_by(101) {
        let source = source::gemm(config, &problem);
        for define in &source.defines {
            let name = define.trim_start_matches("-D").split('=').next().expect("a name");
            assert!(source.text.contains(name), "{name} is not used by {}", source.file);
        }
        assert_eq!(
            source,
            source::gemm(config, &Problem { n: 64, k: 128, ..problem }),
            "N and K are arguments"
        );
        let other = Problem { b: Format::MxFp6E3m2, ..problem };
        assert_ne!(source, source::gemm(config, &other));
    }
}
