//! The lookup ladder over the fixture table: as generated Rust, as bound at run time, and against a naive reference.

mod table_fixture;

/// What `tilewright compile` makes of the fixture. `TILEWRIGHT_BLESS=1` rewrites it.
#[path = "fixtures/tables/generated/fixture.rs"]
#[allow(unreachable_pub, reason = "a generated module does not know where it is mounted")]
mod generated;

use std::path::Path;

use proptest::prelude::*;
use table_fixture::{decisions, device};
use tilewright::table::{Decisions, Located, Lowered, Weight, compile};
use tilewright_dispatch::table::{
    Group, Kernel, NO_KERNEL, PackedSegment, PerfectHash, SecondCopy, Segment, WeightPlan,
};
use tilewright_dispatch::{
    BindFault, Choice, KernelFault, NoKernel, Provenance, Request, Table, TableData, Tally,
};
use tilewright_kernels::{
    Caps, Config, Device, Epilogue, Format, Layout, OutType, Problem, Scaling, is_launchable,
};

fn with_table<R>(decisions: &Decisions, test: impl FnOnce(&Table<'_>) -> R) -> R {
    let located = Located::parse(Path::new("fixture.toml"), &decisions.to_toml()).unwrap();
    Lowered::of(&located).unwrap().with(|data| test(&Table::bind(data, &device())))
}

fn request(weight: &Weight, m: u32) -> Request {
    Request { problem: weight.key().problem(m), layout: weight.layout, deterministic: weight.deterministic }
}

#[test]
fn the_committed_module_is_what_the_compiler_makes() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/tables/generated");
    let decisions = decisions();
    let files = [("fixture.rs", compile(&decisions).unwrap().rs), ("fixture.toml", decisions.to_toml())];
    for (name, text) in files {
        let path = folder.join(name);
        if std::env::var_os("TILEWRIGHT_BLESS").is_some() {
            std::fs::write(&path, &text).unwrap();
        }
        let committed = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(
            committed == text,
            "{name} is stale: run this test with TILEWRIGHT_BLESS=1 and review the diff"
        );
    }
}

/// What the table should say, straight from its decisions: the row whose interval holds `m` by geometric means in
/// floating point, its winner, and whether that row was measured at `m`.
fn naive(weight: &Weight, m: u32) -> (&str, bool) {
    let rows = &weight.rows;
    let above =
        |pair: &[tilewright::table::Row]| (f64::from(pair[0].m) * f64::from(pair[1].m)).sqrt() < f64::from(m);
    let row = &rows[rows.windows(2).filter(|pair| above(pair)).count()];
    (&row.config, row.m == m)
}

#[test]
fn generated_bound_and_naive_lookup_agree_for_every_m() {
    let decisions = decisions();
    let generated = Table::bind(&generated::TABLE, &device());
    assert_eq!(generated.faults(), []);
    with_table(&decisions, |bound| {
        for weight in &decisions.weights {
            for m in 1..=70_000 {
                let request = request(weight, m);
                let choice = bound.lookup(&request).unwrap();
                assert_eq!(generated.lookup(&request), Ok(choice), "{} m={m}", weight.name);
                assert_eq!(is_launchable(&choice.config, &request.problem, &device()), Ok(()));
                let (winner, exact) = naive(weight, m);
                let winner = Config::parse(winner).unwrap();
                if is_launchable(&winner, &request.problem, &device()).is_ok() {
                    assert_eq!(choice.config, winner, "{} m={m}", weight.name);
                }
                let last = weight.rows.last().unwrap().m;
                let expected =
                    if exact { Provenance::Exact } else { Provenance::Interval { extrapolated: m > last } };
                assert_eq!(choice.provenance, expected, "{} m={m}", weight.name);
                assert_eq!(choice.rank, 0, "intervals are cut where their kernel cannot run: m={m}");
            }
        }
    });
}

#[test]
fn intervals_of_skinny_kernels_end_where_they_do() {
    let decisions = decisions();
    with_table(&decisions, |table| {
        // Between the points 32 and 64 the boundary is 46, but the kernel of m = 32 ends at 32.
        let at = |m| table.lookup(&request(&decisions.weights[0], m)).unwrap();
        assert_eq!(at(32).config.to_string(), decisions.weights[0].rows[3].config);
        assert_eq!(at(33).config.to_string(), decisions.weights[0].rows[4].config);
        assert_eq!(table.row(at(33).row.unwrap()).unwrap().m, 64);
        // Nothing above 4 was measured of this one: a runner-up takes what its kernel leaves.
        let last = table.lookup(&request(&decisions.weights[4], 33)).unwrap();
        assert_eq!(last.provenance, Provenance::Interval { extrapolated: true });
        assert_eq!(table.row(last.row.unwrap()).unwrap().weight, "lm_head");
    });
}

#[test]
fn a_similar_shape_takes_the_nearest_row_and_says_how_far() {
    let decisions = decisions();
    with_table(&decisions, |table| {
        let mut problem = decisions.weights[0].key().problem(64);
        problem.n = 1920;
        let choice = table.lookup(&Request::new(problem, Layout::Panel16)).unwrap();
        let Provenance::Nearest { distance } = choice.provenance else { panic!("{choice:?}") };
        assert!((distance - 1.0).abs() < 0.05, "twice the N is one octave: {distance}");
        assert_eq!(table.row(choice.row.unwrap()).unwrap().weight, "attn.qkv");
        // Another output type of a measured shape is nearer than any other shape.
        problem.n = 960;
        problem.out = OutType::Bf16;
        let choice = table.lookup(&Request::new(problem, Layout::Panel16)).unwrap();
        assert!(
            matches!(choice.provenance, Provenance::Nearest { distance } if distance < 0.25),
            "{choice:?}"
        );
        // Other formats and layouts never lend their rows.
        problem.b = Format::MxFp6E3m2;
        let choice = table.lookup(&Request::new(problem, Layout::Panel16)).unwrap();
        assert_eq!(choice.provenance, Provenance::Analytic);
    });
}

#[test]
fn a_shape_out_of_reach_goes_by_rule_and_an_unknown_layout_by_default() {
    let decisions = decisions();
    with_table(&decisions, |table| {
        let far = Problem::new(64, 100_000, 64, Format::MxFp6E2m3);
        let choice = table.lookup(&Request::new(far, Layout::Panel16)).unwrap();
        assert_eq!((choice.provenance, choice.row), (Provenance::Analytic, None));
        let rivals = table.data().kernels.iter().filter_map(|kernel| Config::parse(kernel.text).ok());
        for rival in rivals.filter(|rival| rival.layout() == Layout::Panel16) {
            let prior = |config: &Config| (config.family().prior)(config, &far, &device());
            if is_launchable(&rival, &far, &device()).is_ok() {
                assert!(prior(&choice.config) <= prior(&rival));
            }
        }
        let choice = table.lookup(&Request::new(far, Layout::RowMajor)).unwrap();
        assert_eq!(choice.provenance, Provenance::Default);
        assert_eq!(choice.config.layout(), Layout::RowMajor);
    });
}

#[test]
fn illegal_problems_are_typed_errors() {
    let table = Table::bind(&TableData::EMPTY, &device());
    let mut problem = Problem::new(0, 64, 64, Format::MxFp6E2m3);
    assert!(matches!(table.lookup(&Request::new(problem, Layout::Panel16)), Err(NoKernel::Illegal(_))));
    problem.m = 1;
    problem.k = 33;
    assert!(matches!(table.choose(&Request::new(problem, Layout::Panel16)), Err(NoKernel::Illegal(_))));
    assert_eq!(table.counters().read().none, 1);
    let other = Device { backend: tilewright_kernels::BackendKind::Hip, ..device() };
    problem.k = 64;
    let nowhere = Table::bind(&TableData::EMPTY, &other);
    assert_eq!(nowhere.lookup(&Request::new(problem, Layout::Panel16)), Err(NoKernel::NotCovered));
}

/// The generated table with other kernels.
fn with_kernels<R>(change: impl Fn(usize, &mut Kernel<'static>), test: impl FnOnce(&Table<'_>) -> R) -> R {
    let mut kernels = generated::TABLE.kernels.to_vec();
    for (position, kernel) in kernels.iter_mut().enumerate() {
        change(position, kernel);
    }
    let data = TableData { kernels: &kernels, ..generated::TABLE };
    test(&Table::bind(&data, &device()))
}

#[test]
fn kernels_this_build_lacks_are_faults_and_fall_down_the_ladder() {
    let decisions = decisions();
    let weight = &decisions.weights[0];
    let winner = |kernel: &Kernel<'_>| kernel.text == weight.rows[4].config;
    let renamed =
        Kernel { id: tilewright_kernels::ConfigId::of_text("cpu.gone@1()").0, text: "cpu.gone@1()" };
    let gone = |_: usize, kernel: &mut Kernel<'static>| {
        if winner(kernel) {
            *kernel = renamed;
        }
    };
    with_kernels(gone, |table| {
        assert_eq!(table.faults().len(), 1);
        assert!(matches!(table.faults()[0], BindFault::Kernel { why: KernelFault::Unknown(_), .. }));
        let choice = table.lookup(&request(weight, 64)).unwrap();
        assert_eq!((choice.provenance, choice.rank), (Provenance::Exact, 1), "the row's runner-up");
        assert_eq!(choice.config.to_string(), weight.rows[4].runner_ups[0]);
    });
    with_kernels(
        |_, kernel| kernel.id ^= 1,
        |table| {
            assert_eq!(table.faults().len(), generated::TABLE.kernels.len());
            assert!(matches!(table.faults()[0], BindFault::Kernel { why: KernelFault::OtherId, .. }));
            let choice = table.lookup(&request(weight, 64)).unwrap();
            assert_eq!(choice.provenance, Provenance::Default);
        },
    );
}

#[test]
fn a_device_without_the_measured_one_s_cores_still_gets_launchable_kernels() {
    let small = Device { units: 1, caps: Caps::NONE, ..device() };
    let table = Table::bind(&generated::TABLE, &small);
    for weight in &decisions().weights {
        for m in [1, 2, 31, 32, 33, 64, 1000] {
            let request = request(weight, m);
            let choice = table.lookup(&request).unwrap();
            assert_eq!(
                is_launchable(&choice.config, &request.problem, &small),
                Ok(()),
                "{} m={m}",
                weight.name
            );
        }
    }
}

#[test]
fn tables_of_another_schema_or_damaged_answer_without_rows() {
    let whole = &generated::TABLE;
    let segments = |change: fn(&mut Segment)| -> Vec<PackedSegment> {
        let changed = |packed: &PackedSegment| {
            let mut segment = Segment::unpack(*packed);
            change(&mut segment);
            segment.pack()
        };
        whole.segments.iter().map(changed).collect()
    };
    assert_eq!(segments(|_| {}), whole.segments);
    let bad_kernel = segments(|segment| segment.kernel = 999);
    let gap = segments(|segment| segment.from += 1);
    let unmeasured: Vec<Group> = whole.groups.iter().map(|g| Group { measured: [0, 1], ..*g }).collect();
    let plan = WeightPlan { name: "w", count: 1, deterministic: false, group: 0, second: None };
    let far = [WeightPlan { group: 99, ..plan }];
    let far_second = [WeightPlan { second: Some(SecondCopy { from: 2, group: 99 }), ..plan }];
    let damaged = [
        TableData { schema: 999, ..*whole },
        TableData { segments: &bad_kernel, ..*whole },
        TableData { segments: &gap, ..*whole },
        TableData { segments: &[], ..*whole },
        TableData { weights: &far, ..*whole },
        TableData { weights: &far_second, ..*whole },
        TableData { groups: &unmeasured, ..*whole },
    ];
    let problem = decisions().weights[0].key().problem(64);
    for (position, data) in damaged.iter().enumerate() {
        let table = Table::bind(data, &device());
        assert_eq!(table.faults().len(), 1, "{position}");
        let choice = table.lookup(&Request::new(problem, Layout::Panel16)).unwrap();
        assert_eq!(choice.provenance, Provenance::Default, "{position}");
    }
    // An index that points nowhere, or at the wrong group, is a miss and not a wrong answer.
    let nowhere = [NO_KERNEL; 2];
    let slots: Vec<u16> = whole.index.slots.iter().map(|slot| if *slot == 0 { 1 } else { 0 }).collect();
    for index in [
        PerfectHash { slots: &nowhere, ..whole.index },
        PerfectHash { slots: &slots, ..whole.index },
        PerfectHash { displace: &[], ..whole.index },
    ] {
        let table = Table::bind(&TableData { index, ..*whole }, &device());
        let choice = table.lookup(&Request::new(problem, Layout::Panel16)).unwrap();
        assert!(
            matches!(choice.provenance, Provenance::Nearest { distance } if distance == 0.0),
            "{choice:?}"
        );
    }
}

#[test]
fn a_failed_launch_has_a_runner_up_until_nothing_is_left() {
    let decisions = decisions();
    with_table(&decisions, |table| {
        let request = request(&decisions.weights[0], 16);
        let first = table.lookup(&request).unwrap();
        let second = table.runner_up(&request, &first).unwrap();
        let third = table.runner_up(&request, &second).unwrap();
        let row = &decisions.weights[0].rows[2];
        assert_eq!([second, third].map(|c| c.config.to_string()).to_vec(), row.runner_ups);
        let fourth = table.runner_up(&request, &third).unwrap();
        assert_eq!((fourth.provenance, fourth.row), (Provenance::Analytic, None));
        assert_ne!(fourth.config, third.config);
    });
    let empty = Table::bind(&TableData::EMPTY, &device());
    let request = Request::new(Problem::new(64, 64, 64, Format::MxFp6E2m3), Layout::Panel16);
    let only = empty.lookup(&request).unwrap();
    assert_eq!(empty.runner_up(&request, &only), None::<Choice<'_>>);
}

#[test]
fn counters_count_each_rung() {
    let decisions = decisions();
    let table = Table::bind(&generated::TABLE, &device());
    let base = request(&decisions.weights[0], 64);
    let with = |change: &dyn Fn(&mut Problem)| {
        let mut request = base;
        change(&mut request.problem);
        request
    };
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..1000 {
                    table.choose(&base).unwrap();
                    table.choose(&with(&|p| p.m = 65)).unwrap();
                    table.choose(&with(&|p| p.m = 300)).unwrap();
                    table.choose(&with(&|p| p.n = 961)).unwrap();
                    table.choose(&with(&|p| p.n = 1_000_000)).unwrap();
                    table.choose(&Request { layout: Layout::RowMajor, ..base }).unwrap();
                    table.choose(&with(&|p| p.k = 33)).unwrap_err();
                    table.lookup(&base).unwrap();
                }
            });
        }
    });
    table.counters().launch_failed();
    let counts = table.counters().read();
    let rungs =
        [counts.exact, counts.interval, counts.extrapolated, counts.nearest, counts.analytic, counts.default];
    assert_eq!(rungs, [4000; 6]);
    assert_eq!((counts.none, counts.launch_failures), (4000, 1));
}

#[test]
fn tallies_of_threads_add_up_and_record_the_same_misses() {
    let decisions = decisions();
    let mut table = Table::bind(&generated::TABLE, &device());
    table.record_misses(16);
    let base = request(&decisions.weights[0], 64);
    // Exact, interval, extrapolated, nearest, illegal.
    let mut requests = [base; 5];
    requests[1].problem.m = 65;
    requests[2].problem.m = 300;
    requests[3].problem.n = 961;
    requests[4].problem.k = 33;
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let mut tally = Tally::default();
                for _ in 0..1000 {
                    for request in &requests {
                        assert_eq!(table.choose_tallied(request, &mut tally), table.lookup(request));
                    }
                }
                assert_eq!((tally.read().exact, tally.read().none), (1000, 1000));
                table.counters().add(&mut tally);
                assert_eq!(tally, Tally::default(), "what was added is not added again");
            });
        }
    });
    let counts = table.counters().read();
    let found = [counts.exact, counts.interval, counts.extrapolated, counts.nearest, counts.none];
    assert_eq!(found, [4000; 5]);
    let misses = table.misses().unwrap().read();
    assert_eq!(misses.iter().map(|miss| miss.count).collect::<Vec<_>>(), [4000; 2]);
}

fn problems() -> impl Strategy<Value = (Problem, Layout)> {
    let size = || prop_oneof![1u32..70, 1u32..5000, 1u32..200_000];
    let any_of = |count: usize| 0..count;
    (
        (size(), size(), size()),
        any_of(Format::ALL.len()),
        any_of(Format::WEIGHTS.len()),
        0..4usize, // the CPU's layouts: those of other backends come after them
        any_of(Scaling::ALL.len()),
        (any_of(OutType::ALL.len()), any_of(Epilogue::ALL.len())),
    )
        .prop_map(|((m, n, k), a, b, layout, scaling, (out, epilogue))| {
            let (a, b) = (Format::ALL[a], Format::WEIGHTS[b]);
            let k = if a.is_mx() || b.is_mx() { k.next_multiple_of(32) } else { k };
            let scaling = Some(Scaling::ALL[scaling]).filter(|s| s.fits(b)).unwrap_or(Scaling::usual(b));
            let (out, epilogue) = (OutType::ALL[out], Epilogue::ALL[epilogue]);
            (Problem { m, n, k, a, b, scaling, out, epilogue }, Layout::ALL[layout])
        })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_legal_problem_some_kernel_runs_gets_a_launchable_answer((problem, layout) in problems()) {
        prop_assume!(problem.fault().is_none());
        let table = Table::bind(&generated::TABLE, &device());
        match table.lookup(&Request::new(problem, layout)) {
            Ok(choice) => {
                prop_assert_eq!(is_launchable(&choice.config, &problem, &device()), Ok(()));
                prop_assert_eq!(choice.config.layout(), layout);
            }
            // The only reason to refuse a legal problem: no family of this build multiplies the pair of formats.
            Err(refusal) => {
                prop_assert_eq!(refusal, NoKernel::NotCovered);
                prop_assert!(problem.a.is_mx() && !problem.b.is_mx(), "{}", problem);
            }
        }
    }
}
