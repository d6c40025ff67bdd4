//! Code objects for the tests, and data.
//!
//! The kernels' sources are in `tests/kernels`. Where `TILEWRIGHT_HIP_CLANG` names a Python that has the package
//! ziglang (`ci/hip-clang.sh` installs one and prints its path), they are compiled when a test asks for them; elsewhere the
//! compiled forms in `tests/fixtures` are used. With `TILEWRIGHT_BLESS=1` what was compiled replaces the fixtures.
#![allow(dead_code, reason = "each test file uses a part")]

pub(crate) mod gemm;

use std::path::{Path, PathBuf};
use std::process::Command;

use tilewright_emulator::CodeObject;

fn tests() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests")
}

/// The code object of `tests/kernels/NAME.hip` for an architecture.
pub(crate) fn code(name: &str, arch: &str) -> CodeObject {
    object(
        name,
        arch,
        "hip",
        &std::fs::read_to_string(tests().join("kernels").join(format!("{name}.hip"))).unwrap(),
    )
}

/// The code object of a source text; `language` is `hip` or `assembler`.
pub(crate) fn object(name: &str, arch: &str, language: &str, source: &str) -> CodeObject {
    let fixture = tests().join("fixtures").join(format!("{name}-{arch}.hsaco"));
    let bytes = match std::env::var("TILEWRIGHT_HIP_CLANG") {
        Ok(python) => {
            let bytes = compile(&python, name, arch, language, source);
            if std::env::var_os("TILEWRIGHT_BLESS").is_some() {
                std::fs::write(&fixture, &bytes).unwrap();
            }
            bytes
        }
        Err(_) => std::fs::read(&fixture).unwrap_or_else(|e| panic!("{}: {e}", fixture.display())),
    };
    CodeObject::load(&bytes).unwrap()
}

fn compile(python: &str, name: &str, arch: &str, language: &str, source: &str) -> Vec<u8> {
    let dir = tempfile::tempdir().unwrap();
    let path = |suffix: &str| dir.path().join(format!("{name}{suffix}"));
    let run = |args: &[&std::ffi::OsStr]| {
        let output = Command::new(python).args(["-m", "ziglang"]).args(args).output().unwrap();
        assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
    };
    macro_rules! run {
        ($($arg:expr),* $(,)?) => { run(&[$(std::ffi::OsStr::new($arg)),*]) };
    }
    let assembly = path(".s");
    if language == "hip" {
        std::fs::write(path(".hip"), source).unwrap();
        let offload = format!("--offload-arch={arch}");
        run!(
            "clang",
            "-x",
            "hip",
            &offload,
            "--cuda-device-only",
            "-nogpuinc",
            "-nogpulib",
            "-std=c++20",
            "-O3",
            "-ffp-contract=off",
            "-I",
            &tests().join("kernels"),
            "-S",
            "-o",
            &assembly,
            &path(".hip"),
        );
    } else {
        std::fs::write(&assembly, source).unwrap();
    }
    let cpu = format!("-mcpu={arch}");
    run!("clang", "-x", "assembler", "--target=amdgcn-amd-amdhsa", &cpu, "-c", "-o", &path(".o"), &assembly,);
    run!("ld.lld", "-shared", "-s", "-z", "max-page-size=256", "-o", &path(".hsaco"), &path(".o"));
    std::fs::read(path(".hsaco")).unwrap()
}

/// SplitMix64: the same data on every machine.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let x = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ x >> 31
    }

    pub(crate) fn u32(&mut self) -> u32 {
        self.next() as u32
    }

    pub(crate) fn below(&mut self, n: u32) -> u32 {
        (self.next() % u64::from(n)) as u32
    }

    /// Any float but NaN.
    pub(crate) fn f32(&mut self) -> f32 {
        loop {
            let x = f32::from_bits(self.u32());
            if !x.is_nan() {
                return x;
            }
        }
    }
}

/// Little-endian bytes of a slice.
pub(crate) trait Bytes {
    fn bytes(&self) -> Vec<u8>;
}

macro_rules! plain {
    ($($t:ty),*) => {
        $(impl Bytes for [$t] {
            fn bytes(&self) -> Vec<u8> {
                self.iter().flat_map(|x| x.to_le_bytes()).collect()
            }
        }
        impl FromBytes for $t {
            fn from_bytes(b: &[u8]) -> Self {
                Self::from_le_bytes(b.try_into().unwrap())
            }
        })*
    };
}

pub(crate) trait FromBytes: Sized {
    fn from_bytes(b: &[u8]) -> Self;
}
plain!(u8, i8, u16, i16, u32, i32, u64, i64, f32, f64);

/// Reads `n` values from device memory.
pub(crate) fn read<X: FromBytes>(memory: &tilewright_emulator::Memory, address: u64, n: usize) -> Vec<X> {
    let bytes = memory.read(address, n * size_of::<X>()).unwrap();
    bytes.chunks_exact(size_of::<X>()).map(X::from_bytes).collect()
}
