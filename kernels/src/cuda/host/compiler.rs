//! NVRTC with a cache on disk. A cubin is kept under a hash of source, options, architecture and compiler version; the
//! same text stands at the head of the file, so that a collision or a torn file is found and compiled anew.

use std::ffi::{CStr, CString, c_char};
use std::fs;
use std::path::{Path, PathBuf};
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use cudarc::nvrtc::sys;

use super::driver::Fault;
use crate::config::fnv1a;
use crate::cuda::archive::Archive;
use crate::cuda::source::Source;

/// Compiles for one architecture.
pub(crate) struct Compiler {
    archive: Archive,
    folder: Option<PathBuf>,
    version: OnceLock<Result<(i32, i32), Fault>>,
}

impl Compiler {
    /// A compiler that keeps cubins in `folder`, or nowhere. That NVRTC is missing is said with the first kernel asked
    /// for.
    pub(crate) fn new(folder: Option<PathBuf>) -> Compiler {
        Compiler { archive: Archive::default(), folder, version: OnceLock::new() }
    }

    /// A compiler for what the archive does not hold.
    pub(crate) fn with_archive(archive: Archive) -> Compiler {
        Compiler { archive, ..Compiler::new(None) }
    }

    fn version(&self) -> Result<(i32, i32), Fault> {
        let look = || {
            // SAFETY: only looks for the library.
            if !unsafe { sys::is_culib_present() } {
                return Err("no CUDA compiler: libnvrtc is not installed or not on the library path".into());
            }
            let (mut major, mut minor) = (0, 0);
            // SAFETY: valid places for the numbers.
            unsafe { sys::nvrtcVersion(&mut major, &mut minor) };
            Ok((major, minor))
        };
        self.version.get_or_init(look).clone()
    }

    /// The cubin of a kernel, from the cache if it is there.
    pub(crate) fn cubin(&self, source: &Source) -> Result<Vec<u8>, Fault> {
        if let Some(found) = self.archive.get(source) {
            return Ok(found.to_vec());
        }
        let (major, minor) = self.version()?;
        let key = format!(
            "{} {} nvrtc={major}.{minor} source={:016x}\n",
            source.file,
            options(source).join(" "),
            fnv1a(source.text.as_bytes())
        );
        let path =
            self.folder.as_ref().map(|folder| folder.join(format!("{:016x}.cubin", fnv1a(key.as_bytes()))));
        if let Some(found) = path.as_deref().and_then(|path| read(path, &key)) {
            return Ok(found);
        }
        let cubin = compile(source)?;
        if let Some(path) = &path {
            write(path, &key, &cubin);
        }
        Ok(cubin)
    }

    /// Compiles many kernels into the cache, on every core. Faults are left to whoever asks for the kernel.
    pub(crate) fn warm(&self, sources: &[Source]) {
        let next = AtomicUsize::new(0);
        let threads = std::thread::available_parallelism().map_or(1, usize::from).min(sources.len());
        std::thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| {
                    while let Some(source) = sources.get(next.fetch_add(1, Ordering::Relaxed)) {
                        let _ = self.cubin(source);
                    }
                });
            }
        });
    }
}

/// Length of the checksum and length fields after the key.
const HEAD: usize = 16;

fn read(path: &Path, key: &str) -> Option<Vec<u8>> {
    let bytes = fs::read(path).ok()?;
    let rest = bytes.strip_prefix(key.as_bytes())?;
    let (head, cubin) = rest.split_at_checked(HEAD)?;
    let sum = u64::from_le_bytes(head[..8].try_into().ok()?);
    let length = u64::from_le_bytes(head[8..].try_into().ok()?);
    (length == cubin.len() as u64 && sum == fnv1a(cubin)).then(|| cubin.to_vec())
}

/// Best effort: a cache that cannot be written is only slow.
fn write(path: &Path, key: &str, cubin: &[u8]) {
    static SERIAL: AtomicU64 = AtomicU64::new(0);
    let mut bytes = key.as_bytes().to_vec();
    bytes.extend(fnv1a(cubin).to_le_bytes());
    bytes.extend((cubin.len() as u64).to_le_bytes());
    bytes.extend(cubin);
    let serial = SERIAL.fetch_add(1, Ordering::Relaxed);
    let temporary = path.with_extension(format!("{}.{serial}", std::process::id()));
    let folder = path.parent().unwrap_or(Path::new("."));
    if fs::create_dir_all(folder).and_then(|()| fs::write(&temporary, &bytes)).is_ok() {
        let _ = fs::rename(&temporary, path);
    }
}

fn options(source: &Source) -> Vec<String> {
    let mut options = vec!["--gpu-architecture=sm_90a".to_string(), "--std=c++17".to_string()];
    options.extend(source.defines.iter().cloned());
    options
}

fn compile(source: &Source) -> Result<Vec<u8>, Fault> {
    let no_zero = |text: &str| CString::new(text).map_err(|_| "a source holds a zero byte".to_string());
    let (text, file) = (no_zero(source.text)?, no_zero(source.file)?);
    let options: Vec<CString> = options(source).iter().map(|o| no_zero(o)).collect::<Result<_, _>>()?;
    let pointers: Vec<*const c_char> = options.iter().map(|o| o.as_ptr()).collect();
    let mut program = ptr::null_mut();
    // SAFETY: text and name are NUL-terminated and outlive the program; no headers are passed.
    let status = unsafe {
        sys::nvrtcCreateProgram(&mut program, text.as_ptr(), file.as_ptr(), 0, ptr::null(), ptr::null())
    };
    status.result().map_err(|error| format!("NVRTC: {}: {error}", source.file))?;
    // SAFETY: the program lives until it is destroyed below; options outlive the call.
    let compiled = unsafe { sys::nvrtcCompileProgram(program, pointers.len() as i32, pointers.as_ptr()) };
    let result = match compiled.result() {
        Ok(()) => image(program),
        Err(error) => {
            let defines = source.defines.join(" ");
            Err(format!("NVRTC: {} with {defines}: {error}\n{}", source.file, log(program)))
        }
    };
    // SAFETY: created above, destroyed once.
    unsafe { sys::nvrtcDestroyProgram(&mut program) };
    result
}

fn image(program: sys::nvrtcProgram) -> Result<Vec<u8>, Fault> {
    let mut size = 0;
    // SAFETY: `size` is a valid place, and the buffer has the size the library asked for.
    unsafe {
        let known = sys::nvrtcGetCUBINSize(program, &mut size).result();
        let mut cubin = vec![0u8; size];
        known
            .and_then(|()| sys::nvrtcGetCUBIN(program, cubin.as_mut_ptr().cast()).result())
            .map_err(|error| format!("NVRTC: reading the cubin: {error}"))?;
        Ok(cubin)
    }
}

fn log(program: sys::nvrtcProgram) -> String {
    let mut size = 0;
    // SAFETY: `size` is a valid place, and the buffer has the size the library asked for, NUL included.
    unsafe {
        if sys::nvrtcGetProgramLogSize(program, &mut size).result().is_err() || size == 0 {
            return String::new();
        }
        let mut log = vec![0u8; size];
        if sys::nvrtcGetProgramLog(program, log.as_mut_ptr().cast()).result().is_err() {
            return String::new();
        }
        CStr::from_bytes_until_nul(&log).map(|log| log.to_string_lossy().into_owned()).unwrap_or_default()
    }
}
