//! Kernel sources to code objects, without ROCm and without a GPU.
//!
//! A [`Compiler`] pairs a [`Toolchain`] (a clang found by [`Clang::find`], or the host's hiprtc) with a cache on disk.
//! The toolchain runs in processes of its own, so that a crash or a hang of the compiler costs one candidate:
//! [`CompileFault`] says which, with the signal or the time allowed.
//!
//! One architecture a code object. The flags pin what results depend on: no contraction of a·b + c into one rounding,
//! no libraries (kernels include nothing), O3.
//!
//! Invariants: same source, definitions, architecture, flags and compiler version give the same cache entry, any
//! difference gives another; a torn or foreign cache file is compiled anew, never used.

mod cache;
mod clang;
mod process;

use std::collections::HashMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

pub use self::clang::{Clang, NotFound};
use super::launch::Source;
use crate::config::fnv1a;

/// What the front end of every toolchain is told, beside architecture and definitions.
pub const FLAGS: [&str; 3] = ["-std=c++20", "-O3", "-ffp-contract=off"];

/// How long one kernel may take to compile.
pub const TIME_LIMIT: Duration = Duration::from_secs(120);

/// Something that compiles one source for one architecture (`gfx942`, `gfx950`).
pub trait Toolchain: Send + Sync {
    /// Name, version and place, on one line: part of the cache's key, and what people are shown.
    fn version(&self) -> &str;

    /// The code object, an ELF file.
    ///
    /// # Errors
    /// If the source is refused, or the compiler fails or takes longer than `limit`.
    fn compile(&self, source: &Source, arch: &str, limit: Duration) -> Result<Vec<u8>, CompileFault>;
}

/// A toolchain with its caches: code objects on disk, faults in memory.
pub struct Compiler {
    toolchain: Box<dyn Toolchain>,
    folder: Option<PathBuf>,
    limit: Duration,
    faults: Mutex<HashMap<String, CompileFault>>,
}

impl Compiler {
    /// Keeps code objects in `folder`, or nowhere.
    pub fn new(toolchain: Box<dyn Toolchain>, folder: Option<PathBuf>) -> Compiler {
        Compiler { toolchain, folder, limit: TIME_LIMIT, faults: Mutex::default() }
    }

    /// The folder that code objects are usually kept in, if the user has a home.
    pub fn usual_cache() -> Option<PathBuf> {
        let set = |name| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
        set("XDG_CACHE_HOME")
            .or_else(|| Some(set("HOME")?.join(".cache")))
            .map(|base| base.join("tilewright/hip"))
    }

    /// Another limit than [`TIME_LIMIT`] for one kernel.
    #[must_use]
    pub fn with_limit(mut self, limit: Duration) -> Compiler {
        self.limit = limit;
        self
    }

    /// The toolchain's version line.
    pub fn version(&self) -> &str {
        self.toolchain.version()
    }

    /// The code object of a kernel, from the cache if it is there. A fault is remembered: the same kernel is not
    /// compiled again to fail again.
    ///
    /// # Errors
    /// As [`Toolchain::compile`].
    pub fn object(&self, source: &Source, arch: &str) -> Result<Vec<u8>, CompileFault> {
        let key = self.key(source, arch);
        let path =
            self.folder.as_ref().map(|folder| folder.join(format!("{:016x}.co", fnv1a(key.as_bytes()))));
        if let Some(found) = path.as_deref().and_then(|path| cache::read(path, &key)) {
            return Ok(found);
        }
        let known = self.faults.lock().unwrap_or_else(PoisonError::into_inner).get(&key).cloned();
        if let Some(fault) = known {
            return Err(fault);
        }
        match self.toolchain.compile(source, arch, self.limit) {
            Ok(object) => {
                if let Some(path) = &path {
                    cache::write(path, &key, &object);
                }
                Ok(object)
            }
            Err(fault) => {
                self.faults.lock().unwrap_or_else(PoisonError::into_inner).insert(key, fault.clone());
                Err(fault)
            }
        }
    }

    /// Compiles many kernels into the cache, on every core. Faults are left to whoever asks for the kernel.
    pub fn warm(&self, sources: &[Source], arch: &str) {
        let next = AtomicUsize::new(0);
        let threads = std::thread::available_parallelism().map_or(1, usize::from).min(sources.len());
        std::thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| {
                    while let Some(source) = sources.get(next.fetch_add(1, Ordering::Relaxed)) {
                        let _ = self.object(source, arch);
                    }
                });
            }
        });
    }

    /// One line that holds all that the code object depends on. Not the entry: an object holds a source's kernels all.
    fn key(&self, source: &Source, arch: &str) -> String {
        format!(
            "{} {arch} {} {} source={:016x} by {}\n",
            source.file,
            FLAGS.join(" "),
            source.defines.join(" "),
            fnv1a(source.text.as_bytes()),
            self.version()
        )
    }
}

/// Why there is no code object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CompileFault {
    /// The compiler refused the source: its messages.
    Refused(Arc<Context>, String),
    /// The compiler crashed: by which signal, or with which exit code.
    Crashed(Arc<Context>, String),
    /// The compiler took longer than this and was ended.
    TimedOut(Arc<Context>, Duration),
    /// A process could not be started, or a file not be written or read.
    System(Arc<Context>, String),
}

/// What was being compiled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Context {
    file: String,
    defines: String,
    arch: String,
}

impl Context {
    /// What to tell of a source in a fault.
    pub fn new(file: &str, defines: &[String], arch: &str) -> Arc<Context> {
        Arc::new(Context { file: file.into(), defines: defines.join(" "), arch: arch.into() })
    }
}

impl fmt::Display for CompileFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (context, what) = match self {
            CompileFault::Refused(context, log) => (context, format!("the compiler refused it:\n{log}")),
            CompileFault::Crashed(context, how) => (context, format!("the compiler crashed: {how}")),
            CompileFault::TimedOut(context, limit) => {
                (context, format!("the compiler was ended after {} s", limit.as_secs_f64()))
            }
            CompileFault::System(context, what) => (context, what.clone()),
        };
        let Context { file, defines, arch } = &**context;
        write!(f, "{file} for {arch}")?;
        if !defines.is_empty() {
            write!(f, " with {defines}")?;
        }
        write!(f, ": {what}")
    }
}

impl std::error::Error for CompileFault {}
