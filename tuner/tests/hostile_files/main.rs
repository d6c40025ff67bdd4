//! Every reader of files that come from elsewhere, on mutated files: an error or a value, never a panic, a hang, or more
//! memory than the file's size justifies.
//!
//! The corpus is what the repository holds: declarations, tables, Hugging Face configs, other tools' tables; and a journal, a
//! weight file and worker messages made here. Each test mutates a few hundred inputs, from the same seed each time;
//! `TILEWRIGHT_FUZZ_SECONDS` makes each go on for that long, from a seed of its own (printed where it fails).

mod alloc;
mod mutate;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use mutate::Mutator;
use tilewright::operands::{Stack, WeightFile};
use tilewright::shapes::{Declaration, hf};
use tilewright::table::{self, evidence};
use tilewright::worker::{Answer, Question, frame};
use tilewright::{import, journal};

/// Inputs of each test without a time.
const USUAL: usize = 150;
/// A reader may take this many bytes at once, and so many more for each byte of input.
const BASE: usize = 4 << 20;
const FACTOR: usize = 256;

/// Mutates the corpus and reads.
fn fuzz(corpus: &[Vec<u8>], read: impl Fn(&[u8])) {
    assert!(!corpus.is_empty());
    let seconds = std::env::var("TILEWRIGHT_FUZZ_SECONDS").ok().and_then(|text| text.parse::<u64>().ok());
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_nanos() as u64;
    let seed = seconds.map_or(1, |_| now);
    let mut mutator = Mutator::new(seed, corpus);
    let end = seconds.map(|seconds| Instant::now() + Duration::from_secs(seconds));
    let mut inputs = 0;
    while end.map_or(inputs < USUAL, |end| Instant::now() < end) {
        let input = mutator.next();
        let allowed = BASE + FACTOR * input.len();
        let began = Instant::now();
        let largest = alloc::largest_during(|| read(&input));
        // A bound that only a loop without end exceeds: nothing here is timed.
        let hung = began.elapsed() > Duration::from_secs(60);
        if largest > allowed || hung {
            let path = std::env::temp_dir().join(format!("hostile-{seed}-{inputs}"));
            fs::write(&path, &input).unwrap();
            panic!("seed {seed}: {largest} bytes at once for {} of input, {}", input.len(), path.display());
        }
        inputs += 1;
    }
    eprintln!("{inputs} inputs from seed {seed}");
}

/// The files below a folder of the repository with one of these extensions.
fn files(folder: &str, extensions: &[&str]) -> Vec<Vec<u8>> {
    fn walk(folder: &Path, found: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() { walk(&path, found) } else { found.push(path) }
        }
    }
    let mut found = Vec::new();
    walk(&Path::new(env!("CARGO_MANIFEST_DIR")).join(folder), &mut found);
    found.sort();
    let wanted =
        found.iter().filter(|path| extensions.iter().any(|ext| path.extension().is_some_and(|e| e == *ext)));
    wanted.map(|path| fs::read(path).unwrap()).filter(|bytes| bytes.len() < 200_000).collect()
}

/// Reads bytes as a file of that name.
fn as_file(name: &str) -> impl Fn(&[u8]) -> PathBuf {
    let folder = tempfile::tempdir().unwrap();
    let name = name.to_string();
    move |bytes| {
        let path = folder.path().join(&name);
        fs::write(&path, bytes).unwrap();
        path
    }
}

#[test]
fn declarations() {
    let corpus = [files("../shapes", &["toml"]), files("tests/fixtures/declarations", &["toml"])].concat();
    let file = as_file("model.toml");
    fuzz(&corpus, |bytes| {
        if let Ok(declaration) = Declaration::read(&file(bytes)) {
            // What was accepted is written and read back the same.
            let text = declaration.to_toml();
            let again = Declaration::parse(Path::new("again.toml"), &text).expect("it was accepted");
            assert_eq!(again.hash, declaration.hash);
        }
    });
}

#[test]
fn tables() {
    let corpus = [files("tests/fixtures/tables", &["toml"]), files("../tables", &["toml"])].concat();
    let file = as_file("model.toml");
    fuzz(&corpus, |bytes| {
        if let Ok(decisions) = table::read(&file(bytes)) {
            let _ = table::compile(&decisions);
        }
    });
}

#[test]
fn evidence_files() {
    let corpus = files("../tables", &["csv"]);
    fuzz(&corpus, |bytes| {
        let _ = evidence::parse(Path::new("model.csv"), &String::from_utf8_lossy(bytes));
    });
}

#[test]
fn journals() {
    let records = [
        r#"{"t":"quality","gemm":"g","formats":"bf16/bf16","error":0.1}"#,
        r#"{"t":"trying","candidate":"bf16/bf16 cpu.x@1()"}"#,
        r#"{"t":"gate","candidate":"bf16/bf16 cpu.x@1()"}"#,
        r#"{"t":"sample","id":"0123456789abcdef","ns":1.5,"at":10.0}"#,
        r#"{"t":"end","measurements":1,"evaluations":1}"#,
    ];
    let line = |json: &&str| format!("{:08x} {json}\n", crc32fast::hash(json.as_bytes()));
    let text: String = records.iter().map(line).collect();
    // With right checksums too: damage that a checksum does not find.
    let plain: String = records.iter().map(|json| format!("{json}\n")).collect();
    let file = as_file("model.journal");
    fuzz(&[text.into_bytes(), plain.into_bytes()], |bytes| {
        let summed: Vec<u8> = bytes
            .split(|byte| *byte == b'\n')
            .flat_map(|line| [format!("{:08x} ", crc32fast::hash(line)).as_bytes(), line, b"\n"].concat())
            .collect();
        for bytes in [bytes, &summed] {
            let reading = journal::read(&file(bytes)).unwrap();
            let history = journal::History::new(reading.records);
            let _ = history.verdicts("cpu");
        }
    });
}

#[test]
fn weight_files() {
    let tensor =
        |bytes| safetensors::tensor::TensorView::new(safetensors::Dtype::BF16, vec![4, 8], bytes).unwrap();
    let bytes = [0x3f; 64];
    let whole = safetensors::serialize([("l.0.q", tensor(&bytes)), ("l.0.k", tensor(&bytes))], None).unwrap();
    let file = as_file("model.safetensors");
    fuzz(&[whole], |bytes| {
        if let Ok(weights) = WeightFile::open(&[file(bytes)]) {
            let tensors = ["l.{layer}.q".to_string()];
            let _ = weights.load(&Stack { gemm: "g", tensors: &tensors, n: 4, k: 8, shards: 1 });
        }
    });
}

#[test]
fn hugging_face_configs() {
    let corpus = files("tests/fixtures/hf", &["json"]);
    fuzz(&corpus, |bytes| {
        let text = String::from_utf8_lossy(bytes);
        for tensor_parallel in [1, 8] {
            let options = hf::Options { tensor_parallel, ..hf::Options::default() };
            if let Ok(imported) = hf::parse(Path::new("config.json"), &text, &options) {
                let text = imported.to_toml();
                assert!(Declaration::parse(Path::new("again.toml"), &text).is_ok(), "{text}");
            }
        }
    });
}

#[test]
fn other_tools_tables() {
    use import::Source::{Aiter, HipBlasLt, Triton, TunableOp, Vllm};
    let corpus = files("tests/fixtures/import", &["csv", "json", "txt", "log", "yaml"]);
    fuzz(&corpus, |bytes| {
        let text = String::from_utf8_lossy(bytes);
        for source in
            [Aiter, TunableOp, HipBlasLt, Vllm, Triton].into_iter().chain(import::Source::detect(&text))
        {
            let _ = import::parse(source, Path::new("table"), &text);
        }
    });
}

#[test]
fn worker_messages() {
    let mut stream = Vec::new();
    for message in [
        br#"{"number":1,"message":{"Admit":{"m":5,"candidate":"bf16/bf16 cpu.x@1()"}}}"#.as_slice(),
        br#"{"number":1,"message":{"Timed":12.5}}"#,
        br#"{"number":0,"message":"Alive"}"#,
    ] {
        frame::write(&mut stream, message).unwrap();
    }
    fuzz(&[stream], |mut bytes| {
        while let Ok(message) = frame::read(&mut bytes) {
            let _ = serde_json::from_slice::<Question>(&message);
            let _ = serde_json::from_slice::<Answer>(&message);
        }
    });
}

/// Names that want to be a path, code, or something else than a name.
const HOSTILE: [&str; 8] = [
    "../../escape",
    "/etc/passwd",
    "a\"; panic!(\"",
    "a\nfn main() {}",
    "#[cfg(any())]",
    "\u{202e}evil",
    "",
    "C:\\x",
];

#[test]
fn a_hostile_model_name_is_refused_and_writes_nothing_anywhere() {
    let folder = tempfile::tempdir().unwrap();
    for name in HOSTILE {
        let text = format!("[model]\nname = {name:?}\n[[gemm]]\nname = \"g\"\nn = 32\nk = 32\nm = [1]\n");
        let refused = Declaration::parse(Path::new("model.toml"), &text);
        assert!(refused.is_err(), "{name:?}");
        // A table that says so, by hand or by a merge, is refused where it is written.
        let corpus = fs::read_to_string(
            Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/tables/generated/fixture.toml"),
        );
        let Ok(text) = corpus else { continue };
        let mut decisions = table::Located::parse(Path::new("fixture.toml"), &text).unwrap().decisions;
        decisions.model = name.into();
        let out = folder.path().join("tables/device");
        assert!(table::write_all(&out, &decisions, &[]).is_err(), "{name:?}");
    }
    let outside: Vec<_> = fs::read_dir(folder.path()).unwrap().collect();
    assert!(outside.len() <= 1, "{outside:?}");
}
