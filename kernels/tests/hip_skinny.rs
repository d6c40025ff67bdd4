//! The skinny HIP families' spaces and rules, on both GPUs.

use tilewright_kernels::hip::skinny::{self, Shape};
use tilewright_kernels::hip::{self, launch::Arg};
use tilewright_kernels::space::enumerate;
use tilewright_kernels::{BackendKind, Caps, Config, Device, Family, Format, Problem, is_launchable};

const MI300X: Device = Device {
    backend: BackendKind::Hip,
    caps: Caps::GFX942,
    units: 304,
    l1_kib: 64,
    l2_kib: 4096,
    llc_kib: 262_144,
};
const MI355X: Device = Device { caps: Caps::GFX950, units: 256, l1_kib: 160, ..MI300X };

fn cases() -> Vec<(&'static Family, Problem, Device)> {
    let formats: [(&'static Family, Format, Device); 5] = [
        (&skinny::BF16, Format::Bf16, MI300X),
        (&skinny::FP8, Format::Fp8E4m3Fnuz, MI300X),
        (&skinny::BF16, Format::Bf16, MI355X),
        (&skinny::FP8, Format::Fp8E4m3, MI355X),
        (&skinny::MXFP6, Format::MxFp6E2m3, MI355X),
    ];
    let shapes = [[1, 16, 128], [3, 40, 96], [8, 2304, 16384], [16, 13312, 16384], [32, 16384, 6656]];
    let problem = |[m, n, k]: [u32; 3], b| Problem { a: b, ..Problem::new(m, n, k, b) };
    formats.iter().flat_map(|&(f, b, device)| shapes.map(|s| (f, problem(s, b), device))).collect()
}

#[test]
fn every_point_of_a_space_fits_the_device() {
    for (family, problem, device) in cases() {
        let points = enumerate(family, &problem, &device);
        let range = if problem.n < 1000 { 1..300 } else { 1000..100_000 };
        assert!(range.contains(&points.len()), "{}: {} points for {problem}", family.name, points.len());
        for config in &points {
            let s = Shape::of(config, &problem);
            assert!(s.lds_bytes() <= device.l1_kib * 1024 && s.total_waves() <= 16, "{config}");
            assert!(s.registers(&device) <= s.available_registers(), "{config}");
            let prior = (family.prior)(config, &problem, &device);
            assert!(prior.is_finite() && prior > 0.0, "{config}");
        }
        for config in points.iter().step_by(97) {
            assert_eq!(Config::parse(&config.to_string()).as_ref(), Ok(config));
        }
    }
}

#[test]
fn narrowing_stops_only_what_is_hopeless() {
    for (family, problem, device) in cases() {
        let mut state = 3u64;
        for _ in 0..4000 {
            let positions: Vec<u8> = family
                .params
                .iter()
                .map(|p| {
                    state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
                    ((state >> 33) as usize % p.domain.len()) as u8
                })
                .collect();
            let config = Config::at(family, &positions);
            let runs = is_launchable(&config, &problem, &device).is_ok();
            if runs && !(family.redundant)(&config, &problem, &device) {
                let stopped = (0..family.params.len())
                    .find(|&p| !(family.narrow)(p, config.value(p), &problem, &device));
                assert_eq!(stopped, None, "{config} with {problem}");
            }
        }
    }
}

#[test]
fn what_the_kernels_cannot_run_is_refused() {
    let problem = Problem { a: Format::Fp8E4m3, ..Problem::new(8, 2304, 16384, Format::Fp8E4m3) };
    let config = enumerate(&skinny::FP8, &problem, &MI355X)[0];
    let reason = |problem: Problem, device: &Device| {
        is_launchable(&config, &problem, device).map_err(|reject| reject.to_string()).unwrap_err()
    };
    assert!(reason(problem, &MI300X).contains("no matrix instruction"), "OCP on gfx942");
    assert!(reason(Problem { a: Format::Bf16, ..problem }, &MI355X).contains("no matrix instruction"));
    assert!(reason(problem.with_m(33), &MI355X).contains("at most 32 rows"));
    assert!(reason(problem.with_m(9), &MI355X).contains("fewer rows than M"), "a sparse form");
    assert!(reason(Problem { k: 1 << 26, ..problem }, &MI355X).contains("too large"));
    let int8 = Problem { a: Format::MxInt8, ..Problem::new(8, 2304, 16384, Format::MxFp6E2m3) };
    assert!(enumerate(&skinny::MXFP6, &int8, &MI355X).is_empty(), "integers");
}

#[test]
fn sources_depend_on_sizes_no_more_than_on_how_the_activation_lies() {
    let problem = Problem::new(8, 2304, 16384, Format::Bf16);
    for config in enumerate(&skinny::BF16, &problem, &MI300X).iter().step_by(211) {
        let plan = |problem: &Problem| hip::plan(config, problem, &MI300X).expect("a HIP family");
        let multiply = |problem: &Problem| {
            let steps = plan(problem).steps;
            steps.into_iter().find(|step| step.source.entry == "skinny").expect("it multiplies")
        };
        let here = multiply(&problem);
        assert_eq!(here.source, multiply(&Problem { m: 3, n: 17, k: 8192, ..problem }).source);
        for define in &here.source.defines {
            let name = define.split('=').next().expect("a name");
            assert!(here.source.text.contains(name), "{name} is not used");
        }
        // Rows that begin at multiples of 16 bytes are read where they lie.
        assert!(here.args.contains(&Arg::Activation) && !plan(&problem).steps[0].packs_activation);
        assert!(plan(&Problem { k: 16383, ..problem }).steps[0].packs_activation);
    }
}
