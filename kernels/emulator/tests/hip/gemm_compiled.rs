//! Tiled GEMM kernels as the compiler makes them: registers and LDS as the predicate says, no spills, the matrix
//! instructions and wide copies that the kernel is written for, and no read of data that may not have arrived.
//!
//! A few configs of each family's space are drawn; `TILEWRIGHT_HIP_SAMPLE` says how many on each architecture.

use crate::assembly::{Listing, Pipeline};
use crate::harness::{Random, Rig};
use tilewright_kernels::hip::gemm::{Tile, plan};
use tilewright_kernels::{Config, Epilogue, Format, OutType, Problem, hip, is_launchable};

/// Random launchable configs of all families, with a problem each.
fn sample(rig: &Rig, count: usize) -> Vec<(Config, Problem)> {
    use Format::*;
    let mut random = Random(7);
    let mut below = |n: usize| (random.next() % n as u64) as usize;
    let pairs: &[(Format, Format)] = match rig.arch {
        "gfx942" => &[(Fp8E4m3Fnuz, Fp8E4m3Fnuz), (Bf16, Bf16)],
        _ => &[
            (MxFp6E2m3, MxFp6E2m3),
            (Fp8E4m3, Fp8E4m3),
            (Bf16, Bf16),
            (MxFp4, MxFp6E3m2),
            (MxFp8, MxFp8),
            (MxFp6E2m3, MxFp4),
        ],
    };
    let mut found = Vec::new();
    while found.len() < count {
        let (a, b) = pairs[found.len() % pairs.len()];
        let family = hip::FAMILIES.iter().find(|f| hip::gemm::is_gemm(f) && f.formats.contains(&b));
        let family = family.expect("it is built in");
        let positions: Vec<u8> = family.params.iter().map(|p| below(p.domain.len()) as u8).collect();
        let config = Config::at(family, &positions);
        let problem = Problem {
            a,
            out: [OutType::F32, OutType::Bf16][below(2)],
            epilogue: [Epilogue::None, Epilogue::Bias][below(2)],
            ..Problem::new(8192, [8192, 8190][below(4) / 3], 4096, b)
        };
        let redundant = || (family.redundant)(&config, &problem, &rig.device);
        if is_launchable(&config, &problem, &rig.device).is_ok() && !redundant() {
            found.push((config, problem));
        }
    }
    found
}

/// What is not as it should be.
fn faults(rig: &Rig, config: &Config, problem: &Problem) -> Vec<String> {
    let t = Tile::of(config, problem);
    let compiled = rig.compile(&plan::source(&t, problem));
    let kernel = compiled.code.kernel("gemm").unwrap();
    let metadata = kernel.metadata.as_ref().unwrap();
    let listing = Listing::of(&compiled.assembly, "gemm");
    let mut faults = Vec::new();
    let mut expect = |what: &str, got: usize, wanted: usize| {
        if got != wanted {
            faults.push(format!("{what}: {got}, not {wanted}"));
        }
    };
    expect("spilled vector registers", metadata.spills[0] as usize, 0);
    expect("spilled scalar registers", metadata.spills[1] as usize, 0);
    expect("scratch", listing.count(|l| l.mnemonic.starts_with("scratch_")), 0);
    expect("LDS", kernel.descriptor.group_segment as usize, t.lds_bytes() as usize);
    let excess = metadata.registers[0].saturating_sub(t.available_registers());
    expect("registers beyond those of its waves", excess as usize, 0);

    let (mnemonic, depth, each) = instruction(rig.arch, problem.b, t.mfma);
    let products = t.tile_m * t.tile_n / t.waves() / (t.mfma * t.mfma) * (t.tile_k / depth) * each;
    let matrix = listing.count(|l| l.mnemonic.starts_with("v_mfma"));
    expect("matrix instructions", matrix, products as usize);
    expect(&mnemonic, listing.count(|l| l.mnemonic.starts_with(&mnemonic)), products as usize);

    let codes = (t.code_bytes() / 1024 / t.waves()) as usize;
    if rig.arch == "gfx950" {
        // Once to fill LDS and once in the loop.
        expect("16-byte copies to LDS", listing.copies("buffer_load_dwordx4"), 2 * codes);
        expect("4-byte copies to LDS", listing.copies("buffer_load_dword"), 2 * (t.units() as usize - codes));
        let pipeline = Pipeline { stages: t.stages as usize, units: t.units() as usize };
        faults.extend(pipeline.check(&listing).err());
    } else {
        let wide = listing.count(|l| l.mnemonic == "ds_write_b128");
        expect("16-byte writes to LDS", wide, 2 * codes);
    }
    faults
}

/// The matrix instruction of a format: its name's beginning, its K, and how many make up one step of that K.
fn instruction(arch: &str, format: Format, rows: u32) -> (String, u32, u32) {
    let small = rows == 16;
    let (name, k, each) = match (arch, format) {
        ("gfx942", Format::Bf16) => {
            (if small { "16x16x16_bf16" } else { "32x32x8_bf16" }, if small { 32 } else { 16 }, 2)
        }
        ("gfx942", _) => {
            (if small { "16x16x32_fp8" } else { "32x32x16_fp8" }, if small { 64 } else { 32 }, 2)
        }
        (_, Format::Bf16) => {
            (if small { "16x16x32_bf16" } else { "32x32x16_bf16" }, if small { 32 } else { 16 }, 1)
        }
        _ => (if small { "16x16x128_f8f6f4" } else { "32x32x64_f8f6f4" }, if small { 128 } else { 64 }, 1),
    };
    let scale = if format.is_mx() { "scale_" } else { "" };
    (format!("v_mfma_{scale}f32_{name}"), k, each)
}

#[test]
fn the_compiler_makes_of_every_config_what_the_predicate_says() {
    let count = std::env::var("TILEWRIGHT_HIP_SAMPLE").map_or(6, |n| n.parse().expect("a number"));
    for rig in ["gfx942", "gfx950"].into_iter().filter_map(Rig::new) {
        let wrong: Vec<String> = sample(&rig, count)
            .iter()
            .flat_map(|(config, problem)| {
                let faults = faults(&rig, config, problem);
                faults.into_iter().map(move |fault| format!("{fault}: {config}, {problem}"))
            })
            .collect();
        assert!(wrong.is_empty(), "{}:\n{}", rig.arch, wrong.join("\n"));
    }
}

#[test]
fn a_read_before_its_data_and_a_copy_over_what_is_read_are_found_in_the_assembly() {
    let Some(rig) = Rig::new("gfx950") else { return };
    let family = &hip::gemm::MXFP6;
    let values = [0, 1, 1, 0, 16, 0, 0, 0, 3, 0, 128, 128, 128, 2, 2];
    let problem = Problem { a: Format::MxFp6E2m3, ..Problem::new(256, 256, 512, Format::MxFp6E2m3) };
    let config = Config::from_values(family, &values);
    is_launchable(&config, &problem, &rig.device).unwrap();
    let t = Tile::of(&config, &problem);
    let assembly = &rig.compile(&plan::source(&t, &problem)).assembly;
    let pipeline = Pipeline { stages: 3, units: t.units() as usize };
    assert_eq!(pipeline.check(&Listing::of(assembly, "gemm")), Ok(()));
    let wait = format!("s_waitcnt vmcnt({})", t.units());
    let barrier = "\ts_barrier\n";
    // The wait of the loop is the last of that count.
    let (before, after) = assembly.rsplit_once(&wait).expect("the loop waits");
    let copy = after.find("buffer_load_dwordx4").expect("the loop copies") + before.len() + wait.len();
    let moved = "global_load_dword v200, v[200:201], off\n\t";
    let mutants = [
        ("one too many under way", format!("{before}s_waitcnt vmcnt({}){after}", t.units() + 1)),
        ("no wait", format!("{before}s_nop 0{after}")),
        ("no barrier", format!("{before}{wait}{}", after.replacen(barrier, "", 1))),
        ("a load among the copies", format!("{}{moved}{}", &assembly[..copy], &assembly[copy..])),
    ];
    for (what, mutant) in mutants {
        assert!(pipeline.check(&Listing::of(&mutant, "gemm")).is_err(), "{what} was not found");
    }
}
