//! Declarations, good and bad: `fixtures/declarations/{pass,fail}/*.toml` with what is expected beside each.
//!
//! `pass/X.txt` is the declaration as read, `fail/X.stderr` the faults as a person sees them. `TILEWRIGHT_BLESS=1`
//! rewrites both.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use proptest::prelude::*;
use tilewright::shapes::{Declaration, FILE_MAX, Gemm, MPoint};
use tilewright_kernels::{Epilogue, Format, OutType, Problem, Scaling};

fn fixtures(kind: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/declarations").join(kind);
    let mut files: Vec<PathBuf> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "toml"))
        .collect();
    files.sort();
    assert!(files.len() >= 5);
    files
}

fn parse(path: &Path) -> Result<Declaration, tilewright::diag::BadInput> {
    let name = path.file_name().unwrap();
    Declaration::parse(Path::new(name), &fs::read_to_string(path).unwrap())
}

/// Compares with the file, or rewrites it. Returns whether they agree.
fn expect(path: &Path, got: &str) -> bool {
    if std::env::var_os("TILEWRIGHT_BLESS").is_some() {
        fs::write(path, got).unwrap();
    }
    let wanted = fs::read_to_string(path).unwrap_or_default();
    if wanted != got {
        eprintln!(
            "{} differs; TILEWRIGHT_BLESS=1 rewrites it\n--- wanted\n{wanted}\n--- got\n{got}",
            path.display()
        );
    }
    wanted == got
}

#[test]
fn every_bad_declaration_is_refused_with_the_expected_faults() {
    let mut agree = true;
    for path in fixtures("fail") {
        let faults = parse(&path).expect_err(&format!("{} should be refused", path.display()));
        agree &= expect(&path.with_extension("stderr"), &format!("{faults}\n"));
    }
    assert!(agree);
}

#[test]
fn every_good_declaration_is_read_as_expected() {
    let mut agree = true;
    for path in fixtures("pass") {
        let declaration = parse(&path).unwrap_or_else(|faults| panic!("{faults}"));
        agree &= expect(&path.with_extension("txt"), &described(&declaration));
    }
    assert!(agree);
}

/// Every field, with long M lists cut.
fn described(declaration: &Declaration) -> String {
    let Declaration { model, tensor_parallel, source, gemms, hash, .. } = declaration;
    let mut text = format!("{model:?} tp={tensor_parallel} source={source:?} hash={hash:016x}\n");
    for gemm in gemms {
        let Gemm {
            name,
            line,
            n,
            k,
            count,
            m,
            formats,
            activation,
            out,
            bias,
            max_error,
            deterministic,
            two_copies_mib,
            tensors,
        } = gemm;
        let shown: Vec<String> =
            m.iter().take(12).map(|point| format!("{}:{}", point.m, point.weight)).collect();
        let formats: Vec<&str> = formats.iter().map(|format| format.name()).collect();
        text += &format!(
            "{name:?} line={line} n={n} k={k} count={count}\n  m ({}) = {}\n  formats={} activation={activation} \
             out={out} bias={bias} max_error={max_error:?} deterministic={deterministic}\n  tensors={tensors:?}\n",
            m.len(),
            shown.join(" "),
            formats.join(","),
        );
        if let Some(mib) = two_copies_mib {
            text += &format!("  two copies in {mib} MiB\n");
        }
    }
    text
}

#[test]
fn what_is_written_reads_back_equal() {
    for path in fixtures("pass") {
        let declaration = parse(&path).unwrap();
        let text = declaration.to_toml();
        let again =
            Declaration::parse(Path::new("again.toml"), &text).unwrap_or_else(|e| panic!("{e}\n{text}"));
        assert_eq!(declaration, again, "{}", path.display());
        assert_eq!(declaration.hash, again.hash, "{}", path.display());
        assert_eq!(text, again.to_toml(), "{}", path.display());
    }
}

#[test]
fn every_problem_of_a_good_declaration_is_legal() {
    for path in fixtures("pass") {
        for gemm in parse(&path).unwrap().gemms {
            assert!(!gemm.formats.is_empty() && !gemm.m.is_empty());
            for b in gemm.formats {
                let (m, n, k) = (gemm.m[0].m, gemm.n, gemm.k);
                let (a, scaling, out) = (gemm.activation, Scaling::usual(b), OutType::F32);
                let problem = Problem { m, n, k, a, b, scaling, out, epilogue: Epilogue::None };
                assert_eq!(problem.fault(), None, "{problem}");
            }
        }
    }
}

const PLAIN: &str = r#"
[model]
name = "toy"
source = "here"
[defaults]
m = [1, 2, 3, 4]
[[gemm]]
name = "mlp"
n = 64
k = 32
"#;

/// The same content: comments, other order of keys, defaults written out, a range.
const REWRITTEN: &str = r#"
# A comment.
[[gemm]]
k = 0x20   # another
deterministic = false
name = 'mlp'
m = [4, { to = 3, from = 1 }]
formats = ["mxfp6_e2m3", "fp8_e4m3", "bf16"]
n = 6_4
[model]
source = "there"
name = "toy"
"#;

fn toy(text: &str) -> Declaration {
    Declaration::parse(Path::new("toy.toml"), text).unwrap_or_else(|faults| panic!("{faults}"))
}

#[test]
fn the_hash_depends_on_content_alone() {
    assert_eq!(toy(PLAIN).hash, toy(REWRITTEN).hash);
    let mut hashes = BTreeSet::from([toy(PLAIN).hash]);
    for (from, to) in [
        ("\"toy\"", "\"toys\""),
        ("\"mlp\"", "\"mlq\""),
        ("n = 64", "n = 65"),
        ("k = 32", "k = 64"),
        ("k = 32", "k = 32\ncount = 2"),
        ("k = 32", "k = 32\nbias = true"),
        ("k = 32", "k = 32\nout = \"bf16\""),
        ("k = 32", "k = 32\ndeterministic = true"),
        ("k = 32", "k = 32\nmax_error = 0.5"),
        ("k = 32", "k = 32\nactivation = \"mxfp8\""),
        ("k = 32", "k = 32\nformats = [\"bf16\", \"fp8_e4m3\", \"mxfp6_e2m3\"]"),
        ("k = 32", "k = 32\ntensors = [\"a\"]"),
        ("3, 4]", "3]"),
        ("3, 4]", "3, { m = 4, weight = 2 }]"),
        ("source", "tensor_parallel = 2\nsource"),
    ] {
        assert!(PLAIN.contains(from));
        assert!(hashes.insert(toy(&PLAIN.replacen(from, to, 1)).hash), "{from} -> {to} keeps the hash");
    }
}

#[test]
fn several_files_are_checked_together() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        path
    };
    let files = [
        write("one.toml", PLAIN),
        write("two.toml", &PLAIN.replace("n = 64", "n = 0")),
        write("three.toml", REWRITTEN),
        write("four.toml", &PLAIN.replace("k = 32", "k = 33\nformats = [\"mxfp4\"]")),
        folder.path().join("absent.toml"),
    ];
    let faults = Declaration::read_all(&files).unwrap_err().0;
    let seen: Vec<(String, String)> = faults
        .iter()
        .map(|fault| (fault.file.file_name().unwrap().to_str().unwrap().to_owned(), fault.field.clone()))
        .collect();
    let expected = [
        ("two.toml", "gemm[0] \"mlp\".n"),
        ("three.toml", "model.name"),
        ("four.toml", "gemm[0] \"mlp\".k"),
        ("absent.toml", ""),
    ];
    assert_eq!(seen, expected.map(|(file, field)| (file.to_owned(), field.to_owned())));
    assert!(faults[1].message.contains("one.toml"));

    let fine = write("fine.toml", &PLAIN.replace("\"toy\"", "\"other\""));
    let read = Declaration::read_all(&[&files[0], &fine]).unwrap();
    assert_eq!(
        read.iter().map(|declaration| declaration.model.as_str()).collect::<Vec<_>>(),
        ["toy", "other"]
    );
}

#[test]
fn files_that_are_no_declarations_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let refused = |name: &str, content: &[u8], words: &str, line: Option<usize>| {
        let path = folder.path().join(name);
        fs::write(&path, content).unwrap();
        let faults = Declaration::read(&path).unwrap_err().0;
        assert_eq!(faults.len(), 1);
        assert!(faults[0].message.contains(words), "{}", faults[0]);
        assert_eq!(faults[0].line, line);
    };
    refused("large.toml", &vec![b'\n'; FILE_MAX as usize + 1], "larger than 4 MiB", None);
    refused("bytes.toml", b"[model]\nname = \"\xff\"\n", "UTF-8", Some(2));
    assert!(Declaration::read(folder.path()).is_err(), "a folder is no declaration");
}

#[test]
fn as_large_a_file_as_is_read_is_checked() {
    let mut text = String::from("[model]\nname = \"toy\"\n[defaults]\nm = [{ from = 1, to = 4096 }]\n");
    let mut index = 0;
    while text.len() < FILE_MAX as usize - 64 {
        text += &format!("[[gemm]]\nname = \"g{index}\"\nn = 1\nk = 1\n");
        index += 1;
    }
    let faults = Declaration::parse(Path::new("large.toml"), &text).unwrap_err().0;
    assert_eq!(faults.len(), 1, "the number of gemms is the only fault");
    assert_eq!(faults[0].line, Some(5 + 4 * 1024));
}

#[test]
fn very_many_faults_are_listed_to_a_bound_and_counted() {
    let text: String = (0..3000).map(|index| format!("k{index} = 1\n")).collect();
    let faults = Declaration::parse(Path::new("keys.toml"), &text).unwrap_err().0;
    // Besides the 3000 unknown keys: no model and no gemm.
    assert_eq!(faults.iter().filter(|fault| fault.line.is_some()).count(), 1000);
    assert_eq!(faults.len(), 1000 + 2 + 1);
    assert!(faults.last().unwrap().message.contains("2000 faults more"));
}

#[test]
fn deep_nesting_is_refused_without_exhausting_the_stack() {
    let text = format!("[model]\nname = \"toy\"\nx = {}{}", "[".repeat(100_000), "]".repeat(100_000));
    assert!(Declaration::parse(Path::new("deep.toml"), &text).is_err());
    let text = format!("{} = 1", vec!["a"; 100_000].join("."));
    assert!(Declaration::parse(Path::new("deep.toml"), &text).is_err());
}

/// Lines that mean something, so that random files get past the parser.
fn line() -> impl Strategy<Value = String> {
    let key = prop::sample::select(vec![
        "name",
        "n",
        "k",
        "count",
        "m",
        "formats",
        "activation",
        "out",
        "bias",
        "max_error",
        "deterministic",
        "tensors",
        "tensor_parallel",
        "source",
        "model",
        "gemm",
        "defaults",
        "x",
    ]);
    let value = prop_oneof![
        any::<i64>().prop_map(|int| int.to_string()),
        any::<f64>().prop_map(|float| format!("{float:?}")),
        prop::sample::select(vec![
            "[1]",
            "[]",
            "{}",
            "[{}]",
            "0",
            "32",
            "\"bf16\"",
            "[\"bf16\"]",
            "[\"mxfp4\"]",
            "true",
            "nan",
            "-inf",
            "[{ from = 1, to = 9 }]",
            "[{ from = 9, to = 4, step = 3 }]",
            "[{ m = 4, weight = 1 }]",
            "1979-05-27",
            "[{ from = 2147483648, to = 2147483648, factor = 2147483648 }]",
        ])
        .prop_map(str::to_owned),
        "[a-z.]{0,9}".prop_map(|text| format!("\"{text}\"")),
    ];
    prop_oneof![
        1 => prop::sample::select(vec!["[model]", "[[gemm]]", "[defaults]", "[gemm]", "[[model]]"])
            .prop_map(str::to_owned),
        5 => (key, value).prop_map(|(key, value)| format!("{key} = {value}")),
    ]
}

fn gemm() -> impl Strategy<Value = Gemm> {
    let weight = prop_oneof![Just(1.0), Just(0.0), 0.0..1e300];
    let m = prop::collection::btree_map(1..=1u32 << 31, weight, 1..9)
        .prop_filter("some weight", |points| points.values().any(|weight| *weight > 0.0))
        .prop_map(|points| points.into_iter().map(|(m, weight)| MPoint { m, weight }).collect::<Vec<_>>());
    let formats = prop::sample::subsequence(Format::WEIGHTS, 1..=Format::WEIGHTS.len()).prop_shuffle();
    let max_error = prop::option::of((0.0..1.0).prop_map(|error: f64| 1.0 - error));
    let tensors = prop::collection::vec("(\\{layer\\}|\\{expert\\}|[^\\p{Cc}{}]{1,40}){1,2}", 0..4);
    let numbers = (1..=1u32 << 31, 1..=1u32 << 26, 1..=1u64 << 31);
    let choices = (prop::sample::select(Format::ALL), prop::sample::select(OutType::ALL), any::<[bool; 2]>());
    let two_copies = prop::option::of(1..=1u64 << 31);
    (numbers, m, formats, choices, max_error, tensors, two_copies).prop_map(|parts| {
        let ((n, k, count), m, formats, choices, max_error, tensors, two_copies_mib) = parts;
        let (activation, out, [bias, deterministic]) = choices;
        let (name, line, k) = (String::new(), 1, k * 32);
        Gemm {
            name,
            line,
            n,
            k,
            count,
            m,
            formats,
            activation,
            out,
            bias,
            max_error,
            deterministic,
            two_copies_mib,
            tensors,
        }
    })
}

fn declaration() -> impl Strategy<Value = Declaration> {
    let head = ("[a-z0-9][a-z0-9._-]{0,63}", 1..=4096u32, any::<Option<String>>());
    (head, prop::collection::vec(gemm(), 1..6)).prop_map(|((model, tensor_parallel, source), mut gemms)| {
        for (index, gemm) in gemms.iter_mut().enumerate() {
            gemm.name = format!("g{index}");
        }
        Declaration { file: PathBuf::new(), model, tensor_parallel, source, gemms, hash: 0 }
    })
}

proptest! {
    #[test]
    fn any_declaration_is_written_so_that_it_reads_back_equal(declaration in declaration()) {
        prop_assert_eq!(toy(&declaration.to_toml()), declaration);
    }

    #[test]
    fn arbitrary_text_never_panics(text in any::<String>()) {
        let _ = Declaration::parse(Path::new("any.toml"), &text);
    }

    #[test]
    fn arbitrary_lines_never_panic_and_what_is_read_can_be_written(lines in prop::collection::vec(line(), 0..24)) {
        match Declaration::parse(Path::new("any.toml"), &lines.join("\n")) {
            Ok(declaration) => prop_assert_eq!(toy(&declaration.to_toml()), declaration),
            Err(faults) => {
                prop_assert!(!faults.0.is_empty());
                for fault in faults.0 {
                    prop_assert!(fault.line.is_none_or(|line| (1..=lines.len().max(1)).contains(&line)), "{}", fault);
                }
            }
        }
    }
}
