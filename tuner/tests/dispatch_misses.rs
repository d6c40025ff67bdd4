//! The recorder of misses: exact under threads, and what it writes is a declaration that the tuner reads.

mod table_fixture;

#[path = "fixtures/tables/generated/fixture.rs"]
#[allow(unreachable_pub, reason = "a generated module does not know where it is mounted")]
mod generated;

use std::path::Path;

use table_fixture::{decisions, device};
use tilewright::shapes::Declaration;
use tilewright_dispatch::{Misses, Request, Table, TableData};
use tilewright_kernels::{Epilogue, Format, Layout, OutType, Problem};

fn request(n: u32, k: u32, m: u32) -> Request {
    Request::new(Problem::new(m, n, k, Format::MxFp6E2m3), Layout::Panel16)
}

#[test]
fn what_was_missed_is_a_declaration_that_the_tuner_reads() {
    let mut table = Table::bind(&generated::TABLE, &device());
    assert!(table.misses().is_none());
    table.record_misses(64);
    let weight = &decisions().weights[0];
    // Measured: not recorded.
    for m in [1, 50, 64, 256] {
        table.choose(&Request::new(weight.key().problem(m), weight.layout)).unwrap();
    }
    let misses = table.misses().unwrap();
    assert_eq!(misses.declaration(table.data()), None);
    // attn.qkv is 960 x 576, attn.o 576 x 576, mlp.down 576 x 1536.
    for _ in 0..3 {
        table.choose(&request(979, 576, 8)).unwrap();
    }
    table.choose(&request(979, 576, 24)).unwrap();
    table.choose(&request(1536, 576, 1)).unwrap();
    table.choose(&request(960, 576, 300)).unwrap();
    let mut other = request(960, 576, 16);
    other.problem.out = OutType::Bf16;
    other.problem.epilogue = Epilogue::Bias;
    other.deterministic = true;
    table.choose(&other).unwrap();
    table.choose(&request(960, 33, 16)).unwrap_err();

    let text = misses.declaration(table.data()).unwrap();
    let declaration =
        Declaration::parse(Path::new("misses.toml"), &text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    assert_eq!((declaration.model.as_str(), declaration.tensor_parallel), ("fixture-misses", 1));
    let named = |name: &str| declaration.gemms.iter().find(|gemm| gemm.name == name).expect(name);
    assert_eq!(declaration.gemms.len(), 4, "{text}");
    let near = named("n979.k576.bf16.f32");
    let points: Vec<(u32, f64)> = near.m.iter().map(|point| (point.m, point.weight)).collect();
    assert_eq!(points, [(8, 0.5), (24, 0.5)], "three calls of 8 rows bring as many as one of 24");
    assert_eq!((near.count, &near.formats[..]), (4, &[Format::MxFp6E2m3][..]));
    let with_bias = named("n960.k576.bf16.bf16.bias.deterministic");
    assert!(with_bias.bias && with_bias.deterministic && with_bias.out == OutType::Bf16);
    for note in [
        "# same K as attn.qkv, N differs by 2.0 %: a fused or padded projection?\n[[gemm]]\nname = \"n979.",
        "# N is that of attn.qkv and attn.o together: a fused projection?\n[[gemm]]\nname = \"n1536.",
        "measured from M = 1 to 256\n",
        "with activation bf16, out f32 and epilogue none\n",
    ] {
        assert!(text.contains(note), "{note}\n{text}");
    }
}

#[test]
fn threads_lose_no_miss_and_a_full_recorder_says_what_it_dropped() {
    let misses = Misses::new(256);
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let misses = &misses;
            scope.spawn(move || {
                for i in 0..8000u32 {
                    // Each thread in another order, all of them the same requests.
                    misses.note(&request(960, 576 + 32 * ((i + thread * 31) % 8), 1 + (i * 7 + thread) % 16));
                }
            });
        }
    });
    let read = misses.read();
    let total: u64 = read.iter().map(|miss| miss.count).sum();
    assert_eq!((total, misses.dropped()), (32_000, 0));
    assert!(read.windows(2).all(|pair| (pair[0].key, pair[0].m) < (pair[1].key, pair[1].m)), "one slot each");

    let small = Misses::new(4);
    (1..=10).for_each(|m| small.note(&request(64, 64, m)));
    assert_eq!((small.read().len(), small.dropped()), (4, 6));
    let text = small.declaration(&TableData::EMPTY).unwrap();
    assert!(text.contains("# 6 more found no room"), "{text}");
    assert_eq!(Declaration::parse(Path::new("small.toml"), &text).unwrap().model, "misses");
}

#[test]
fn the_file_is_written_whole_and_only_if_there_is_something() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("misses.toml");
    let misses = Misses::new(4);
    assert!(!misses.write(&TableData::EMPTY, &path).unwrap());
    misses.note(&request(64, 64, 1));
    assert!(misses.write(&TableData::EMPTY, &path).unwrap());
    Declaration::read(&path).unwrap();
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "no temporary file is left");
    assert!(misses.write(&TableData::EMPTY, &folder.path().join("gone/misses.toml")).is_err());
}
