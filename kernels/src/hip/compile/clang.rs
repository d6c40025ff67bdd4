//! A clang for amdgcn, wherever it comes from: ROCm, the distribution, or the PyPI package ziglang, which ships clang
//! and lld whole and needs neither ROCm nor root.
//!
//! Two commands make a code object: clang in HIP mode, device side only, whose output is made an object file by
//! `-Xclang -emit-obj` (the driver would otherwise look for an offload bundler and an lld of its own); then
//! `ld.lld -shared`.

use std::ffi::OsString;
use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::process::{End, Scratch, run};
use super::{CompileFault, Context, FLAGS, Toolchain};
use crate::hip::launch::Source;

/// Names a compiler: a clang, or a Python that has the package ziglang.
const VARIABLE: &str = "TILEWRIGHT_HIP_CLANG";
/// The oldest clang that knows gfx950 and the builtins that the kernels use.
const OLDEST: u32 = 20;

/// A clang and an lld that make code objects for gfx942 and gfx950.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Clang {
    /// Program and leading arguments.
    clang: Vec<OsString>,
    lld: Vec<OsString>,
    version: String,
}

/// Where a compiler was looked for, and why each place has none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotFound(pub Vec<String>);

impl fmt::Display for NotFound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no compiler for AMD GPUs:")?;
        for line in &self.0 {
            write!(f, "\n  {line}")?;
        }
        write!(f, "\n  help: install ROCm, or `pip install ziglang` and set {VARIABLE} to that Python's path")
    }
}

impl std::error::Error for NotFound {}

impl Clang {
    /// Whether `TILEWRIGHT_HIP_CLANG` is set: it then is the only compiler.
    pub fn is_named() -> bool {
        std::env::var_os(VARIABLE).is_some_and(|value| !value.is_empty())
    }

    /// The first that works of: what `TILEWRIGHT_HIP_CLANG` names (if set, nothing else is tried), ROCm's amdclang++,
    /// a clang on the path, a Python on the path with the package ziglang.
    ///
    /// # Errors
    /// If none does; what was tried is in the error.
    pub fn find() -> Result<Clang, NotFound> {
        if let Some(named) = std::env::var_os(VARIABLE).filter(|v| !v.is_empty()) {
            return Clang::at(Path::new(&named))
                .map_err(|why| NotFound(vec![format!("{VARIABLE}={}: {why}", named.display())]));
        }
        let mut tried = Vec::new();
        for place in places() {
            match Clang::at(&place) {
                Ok(clang) => return Ok(clang),
                Err(why) => tried.push(format!("{}: {why}", place.display())),
            }
        }
        Err(NotFound(tried))
    }

    /// The compiler at a path: a Python that has the package ziglang if its name begins with `python`, else a clang.
    ///
    /// # Errors
    /// Says what is missing.
    pub fn at(path: &Path) -> Result<Clang, String> {
        let python = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("python"));
        let (clang, lld) = if python {
            let zig = OsString::from(said(&[path.into(), "-c".into(), ZIG.into()])?);
            (vec![zig.clone(), "clang".into()], vec![zig, "ld.lld".into()])
        } else {
            let print: Vec<OsString> = vec![path.into(), "-print-prog-name=ld.lld".into()];
            let lld = said(&print)?;
            (vec![path.into()], vec![lld.into()])
        };
        let line = said(&[clang.as_slice(), &["--version".into()]].concat())?;
        let version = line.lines().next().unwrap_or_default();
        match major(version) {
            None => return Err(format!("its version line is {version:?}, not a clang's")),
            Some(major) if major < OLDEST => return Err(format!("{version}; at least {OLDEST} is needed")),
            Some(_) => {}
        }
        let linker = said(&[lld.as_slice(), &["--version".into()]].concat())
            .map_err(|why| format!("its linker: {why}"))?;
        let linker = linker.lines().next().unwrap_or_default();
        let place = Path::new(&clang[0]).display();
        Ok(Clang { version: format!("{version}, {linker} ({place})"), clang, lld })
    }
}

/// Python that prints the path of the package's program: started directly, it spares an interpreter for each command.
const ZIG: &str = "import os, ziglang; print(os.path.join(os.path.dirname(ziglang.__file__), 'zig'))";

/// Where a compiler may be, in the order of preference.
fn places() -> Vec<PathBuf> {
    let set = |name| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
    let mut places = Vec::new();
    for root in [set("ROCM_PATH"), set("HIP_PATH"), Some("/opt/rocm".into())].into_iter().flatten() {
        places.push(root.join("llvm/bin/amdclang++"));
    }
    places.extend(["amdclang++", "clang", "clang-22", "clang-21", "clang-20"].map(PathBuf::from));
    places.extend(["python3", "python"].map(PathBuf::from));
    places.dedup();
    places
}

/// What a command prints, trimmed.
fn said(command: &[OsString]) -> Result<String, String> {
    let output =
        Command::new(&command[0]).args(&command[1..]).stdin(Stdio::null()).output().map_err(|error| {
            if error.kind() == io::ErrorKind::NotFound { "not there".into() } else { error.to_string() }
        })?;
    if !output.status.success() {
        let text = String::from_utf8_lossy(&output.stderr);
        return Err(text.trim().lines().last().unwrap_or("it fails without a word").to_string());
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_string())
}

/// The major version in a line such as `clang version 22.1.8` or `AMD clang version 20.0.0git (…)`.
fn major(line: &str) -> Option<u32> {
    let rest = line.split_once("clang version ")?.1;
    rest.split(['.', ' ']).next()?.parse().ok()
}

impl Toolchain for Clang {
    fn version(&self) -> &str {
        &self.version
    }

    fn compile(&self, source: &Source, arch: &str, limit: Duration) -> Result<Vec<u8>, CompileFault> {
        self.build(source.file, source.text, &source.defines, arch, limit)
    }
}

impl Clang {
    /// The code object of a source text. `file` is the name that messages give it, `defines` are macros, `NAME=value`.
    ///
    /// # Errors
    /// As [`Toolchain::compile`].
    pub fn build(
        &self,
        file: &str,
        text: &str,
        defines: &[String],
        arch: &str,
        limit: Duration,
    ) -> Result<Vec<u8>, CompileFault> {
        let context = Context::new(file, defines, arch);
        let system = |error: io::Error| CompileFault::System(context.clone(), error.to_string());
        let scratch = Scratch::new().map_err(system)?;
        let deadline = Instant::now() + limit;
        let go = |command: &mut Command| match run(command, scratch.path(), deadline) {
            Ok(End::Done) => Ok(()),
            Ok(End::Refused(log)) => Err(CompileFault::Refused(context.clone(), log)),
            Ok(End::Crashed(how)) => Err(CompileFault::Crashed(context.clone(), how)),
            Ok(End::TimedOut) => Err(CompileFault::TimedOut(context.clone(), limit)),
            Err(error) => Err(CompileFault::System(
                context.clone(),
                format!("{}: {error}", Path::new(command.get_program()).display()),
            )),
        };
        // Messages name the source by its file name, and object files hold no path of this machine.
        fs::write(scratch.path().join(file), text).map_err(system)?;
        go(Command::new(&self.clang[0])
            .args(&self.clang[1..])
            .args(["-x", "hip", "--cuda-device-only", "-nogpuinc", "-nogpulib"])
            .arg(format!("--offload-arch={arch}"))
            .args(FLAGS)
            .args(defines.iter().map(|define| format!("-D{define}")))
            .args(["-S", "-Xclang", "-emit-obj", "-o", "kernel.o", file])
            .current_dir(scratch.path()))?;
        go(Command::new(&self.lld[0])
            .args(&self.lld[1..])
            .args(["-shared", "-s", "-z", "max-page-size=256", "-o", "kernel.co", "kernel.o"])
            .current_dir(scratch.path()))?;
        fs::read(scratch.path().join("kernel.co")).map_err(system)
    }
}
