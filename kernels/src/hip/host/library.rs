//! The functions of `libamdhip64` and `libhiprtc` that the host calls, found when first used: one binary runs on
//! machines with ROCm and without.
//!
//! Why not a bindings crate: the one that is maintained (`cubecl-hip-sys` 7.14) chooses its bindings by the ROCm it
//! finds when it is *built* and does not build beside one it does not list, wants hiprtc present for any call, looks
//! neither for the versioned libraries nor in `/opt/rocm`, and panics where a symbol is missing. Some thirty functions
//! whose signatures have not changed since ROCm 6.0 are simpler kept here.
//!
//! Signatures and numbers are those of `hip_runtime_api.h` and `hiprtc.h` of ROCm 6.1 to 7.14.

use std::ffi::{c_char, c_int, c_uint, c_ulonglong, c_void};
use std::path::PathBuf;
use std::sync::OnceLock;

use libloading::Library;

use super::runtime::Fault;

/// An opaque object of the runtime.
pub(super) type Handle = *mut c_void;

macro_rules! functions {
    ($(#[$meta:meta])* $name:ident { $($symbol:ident($($arg:ty),*) $(-> $result:ty)?;)* }) => {
        $(#[$meta])*
        #[allow(non_snake_case, reason = "the names are the library's")]
        pub(super) struct $name {
            $(pub(super) $symbol: unsafe extern "C" fn($($arg),*) $(-> $result)?,)*
        }

        impl $name {
            fn bind(library: &Library) -> Result<Self, libloading::Error> {
                // SAFETY: each symbol is taken at the signature that the library's header declares for it. The
                // library is never unloaded (see `load`), so the addresses stay good.
                unsafe { Ok($name { $($symbol: *library.get(concat!(stringify!($symbol), "\0"))?,)* }) }
            }
        }
    };
}

functions! {
    /// `libamdhip64`. Every function but the last returns a `hipError_t`.
    Runtime {
        hipInit(c_uint) -> c_int;
        hipGetDeviceCount(*mut c_int) -> c_int;
        hipGetDevicePropertiesR0600(*mut Properties, c_int) -> c_int;
        hipDeviceGetAttribute(*mut c_int, c_int, c_int) -> c_int;
        hipDeviceGetPCIBusId(*mut c_char, c_int, c_int) -> c_int;
        hipRuntimeGetVersion(*mut c_int) -> c_int;
        hipSetDevice(c_int) -> c_int;
        hipMalloc(*mut Handle, usize) -> c_int;
        hipFree(Handle) -> c_int;
        hipMemcpy(Handle, *const c_void, usize, c_int) -> c_int;
        hipMemset(Handle, c_int, usize) -> c_int;
        hipStreamCreateWithFlags(*mut Handle, c_uint) -> c_int;
        hipStreamDestroy(Handle) -> c_int;
        hipStreamSynchronize(Handle) -> c_int;
        hipStreamBeginCapture(Handle, c_int) -> c_int;
        hipStreamEndCapture(Handle, *mut Handle) -> c_int;
        hipGraphInstantiateWithFlags(*mut Handle, Handle, c_ulonglong) -> c_int;
        hipGraphDestroy(Handle) -> c_int;
        hipGraphExecDestroy(Handle) -> c_int;
        hipGraphLaunch(Handle, Handle) -> c_int;
        hipEventCreate(*mut Handle) -> c_int;
        hipEventDestroy(Handle) -> c_int;
        hipEventRecord(Handle, Handle) -> c_int;
        hipEventSynchronize(Handle) -> c_int;
        hipEventElapsedTime(*mut f32, Handle, Handle) -> c_int;
        hipModuleLoadData(*mut Handle, *const c_void) -> c_int;
        hipModuleUnload(Handle) -> c_int;
        hipModuleGetFunction(*mut Handle, Handle, *const c_char) -> c_int;
        hipModuleLaunchKernel(
            Handle, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, Handle, *mut *mut c_void, *mut *mut c_void
        ) -> c_int;
        hipGetErrorString(c_int) -> *const c_char;
    }
}

functions! {
    /// `libhiprtc`. Every function but the last returns a `hiprtcResult`.
    Rtc {
        hiprtcVersion(*mut c_int, *mut c_int) -> c_int;
        hiprtcCreateProgram(
            *mut Handle, *const c_char, *const c_char, c_int, *const *const c_char, *const *const c_char
        ) -> c_int;
        hiprtcCompileProgram(Handle, c_int, *const *const c_char) -> c_int;
        hiprtcGetCodeSize(Handle, *mut usize) -> c_int;
        hiprtcGetCode(Handle, *mut c_char) -> c_int;
        hiprtcGetProgramLogSize(Handle, *mut usize) -> c_int;
        hiprtcGetProgramLog(Handle, *mut c_char) -> c_int;
        hiprtcDestroyProgram(*mut Handle) -> c_int;
        hiprtcGetErrorString(c_int) -> *const c_char;
    }
}

/// `hipDeviceProp_tR0600`: the fields that are read, at their places, and more room than the 1472 bytes that libraries
/// write today.
#[repr(C)]
pub(super) struct Properties {
    pub(super) name: [c_char; 256],
    _identifiers: [u8; 28],
    pub(super) total_memory: usize,
    pub(super) lds_per_workgroup: usize,
    _limits: [u8; 856],
    /// `gfx942:sramecc+:xnack-`.
    pub(super) arch: [c_char; 256],
    _rest: [u8; 4096],
}

const _: () = {
    assert!(std::mem::offset_of!(Properties, total_memory) == 288);
    assert!(std::mem::offset_of!(Properties, lds_per_workgroup) == 296);
    assert!(std::mem::offset_of!(Properties, arch) == 1160);
};

/// `hipDeviceAttribute_t`.
pub(super) mod attribute {
    pub(in super::super) const CLOCK_KHZ: i32 = 5;
    pub(in super::super) const L2_BYTES: i32 = 19;
    pub(in super::super) const UNITS: i32 = 63;
    /// Since ROCm 7.0.
    pub(in super::super) const XCDS: i32 = 10018;
}

/// The runtime.
///
/// # Errors
/// Says where it was looked for.
pub(super) fn runtime() -> Result<&'static Runtime, Fault> {
    static FOUND: OnceLock<Result<Runtime, Fault>> = OnceLock::new();
    FOUND.get_or_init(|| load("amdhip64", Runtime::bind)).as_ref().map_err(Clone::clone)
}

/// The run-time compiler.
///
/// # Errors
/// Says where it was looked for.
pub(super) fn rtc() -> Result<&'static Rtc, Fault> {
    static FOUND: OnceLock<Result<Rtc, Fault>> = OnceLock::new();
    FOUND.get_or_init(|| load("hiprtc", Rtc::bind)).as_ref().map_err(Clone::clone)
}

/// Whether the runtime is the stand-in that emulates a GPU: it exports a name that ROCm's does not.
pub(super) fn is_simulated() -> bool {
    static FOUND: OnceLock<bool> = OnceLock::new();
    *FOUND.get_or_init(|| {
        let probe = |library: &Library| {
            // SAFETY: only the symbol's presence is asked for; nothing is called.
            unsafe { library.get::<*const c_void>("tilewright_emulated_device\0") }.map(|_| ())
        };
        load("amdhip64", probe).is_ok()
    })
}

fn load<T>(name: &str, bind: impl Fn(&Library) -> Result<T, libloading::Error>) -> Result<T, Fault> {
    let set = |name| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
    let roots = [set("ROCM_PATH"), set("HIP_PATH"), Some("/opt/rocm".into())];
    let folders = roots.into_iter().flatten().map(|root| root.join("lib"));
    // First where the loader looks by itself: LD_LIBRARY_PATH, then the system's folders.
    let mut tried = Vec::new();
    for folder in std::iter::once(PathBuf::new()).chain(folders) {
        for suffix in ["", ".7", ".6"] {
            let path = folder.join(format!("lib{name}.so{suffix}"));
            // SAFETY: the library is AMD's, or one put in its place on purpose; its initialisers have no
            // preconditions.
            let library = match unsafe { Library::new(&path) } {
                Ok(library) => library,
                Err(_) => {
                    tried.push(path.display().to_string());
                    continue;
                }
            };
            let bound = bind(&library)
                .map_err(|error| format!("HIP: {}: {error}; ROCm 6.1 or newer is needed", path.display()));
            // Never unloaded: the runtime keeps threads of its own, and function addresses are kept for good.
            std::mem::forget(library);
            return bound;
        }
    }
    Err(format!("no HIP runtime: none of {} can be loaded", tried.join(", ")))
}
