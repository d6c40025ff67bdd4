//! ROCm's run-time compiler as a [`Toolchain`].
//!
//! It compiles inside this process, so unlike a clang of its own it can be neither ended at a limit nor survived when
//! it crashes: setting `TILEWRIGHT_HIP_CLANG` to ROCm's `amdclang++` gives both back.

use std::ffi::{CStr, CString, c_char, c_int};
use std::ptr;
use std::time::Duration;

use super::library::{self, Handle, Rtc};
use crate::hip::compile::{CompileFault, Context, FLAGS, Toolchain};
use crate::hip::launch::Source;

/// The loaded `libhiprtc`.
pub(super) struct Hiprtc {
    api: &'static Rtc,
    version: String,
}

impl Hiprtc {
    /// The compiler, if its library can be loaded.
    pub(super) fn find() -> Result<Hiprtc, String> {
        let api = library::rtc()?;
        let (mut major, mut minor) = (0, 0);
        // SAFETY: valid places for the numbers.
        let status = unsafe { (api.hiprtcVersion)(&mut major, &mut minor) };
        if status != 0 {
            return Err(format!("hiprtc: {}", said(api, status)));
        }
        // The library's number stands still between releases of ROCm; the runtime's does not.
        let runtime = super::runtime_version().unwrap_or(0);
        Ok(Hiprtc { api, version: format!("hiprtc {major}.{minor} of HIP {runtime}") })
    }
}

fn said(api: &Rtc, status: c_int) -> String {
    // SAFETY: any number may be asked about; the answer is a static, NUL-terminated string.
    unsafe { CStr::from_ptr((api.hiprtcGetErrorString)(status)) }.to_string_lossy().into_owned()
}

/// A program under compilation.
struct Program<'a> {
    api: &'a Rtc,
    handle: Handle,
}

impl Drop for Program<'_> {
    fn drop(&mut self) {
        // SAFETY: created in `compile`, destroyed once.
        unsafe { (self.api.hiprtcDestroyProgram)(&mut self.handle) };
    }
}

impl Program<'_> {
    fn log(&self) -> String {
        let mut size = 0;
        // SAFETY: `size` is a valid place, and the buffer has the size the library asked for, NUL included.
        unsafe {
            if (self.api.hiprtcGetProgramLogSize)(self.handle, &mut size) != 0 || size == 0 {
                return String::new();
            }
            let mut log = vec![0u8; size];
            if (self.api.hiprtcGetProgramLog)(self.handle, log.as_mut_ptr().cast()) != 0 {
                return String::new();
            }
            let text = CStr::from_bytes_until_nul(&log).map(CStr::to_string_lossy);
            text.map(|text| text.trim_end().to_string()).unwrap_or_default()
        }
    }
}

impl Toolchain for Hiprtc {
    fn version(&self) -> &str {
        &self.version
    }

    fn compile(&self, source: &Source, arch: &str, _: Duration) -> Result<Vec<u8>, CompileFault> {
        let context = Context::new(source.file, &source.defines, arch);
        let system = |what: &str, status| {
            CompileFault::System(context.clone(), format!("hiprtc: {what}: {}", said(self.api, status)))
        };
        let no_zero = |text: &str| {
            CString::new(text)
                .map_err(|_| CompileFault::System(context.clone(), "the source holds a zero byte".into()))
        };
        let (text, file) = (no_zero(source.text)?, no_zero(source.file)?);
        let mut options = vec![format!("--offload-arch={arch}")];
        options.extend(FLAGS.map(String::from));
        options.extend(source.defines.iter().map(|define| format!("-D{define}")));
        let options: Vec<CString> = options.iter().map(|o| no_zero(o)).collect::<Result<_, _>>()?;
        let pointers: Vec<*const c_char> = options.iter().map(|o| o.as_ptr()).collect();
        let mut program = Program { api: self.api, handle: ptr::null_mut() };
        // SAFETY: text and name are NUL-terminated and are copied; no headers are passed.
        let status = unsafe {
            let (text, file) = (text.as_ptr(), file.as_ptr());
            (self.api.hiprtcCreateProgram)(&mut program.handle, text, file, 0, ptr::null(), ptr::null())
        };
        if status != 0 {
            return Err(system("making a program", status));
        }
        // SAFETY: the program lives; the options outlive the call.
        let status = unsafe {
            (self.api.hiprtcCompileProgram)(program.handle, pointers.len() as c_int, pointers.as_ptr())
        };
        if status != 0 {
            return Err(CompileFault::Refused(
                context.clone(),
                format!("{}\n{}", said(self.api, status), program.log()),
            ));
        }
        let mut size = 0;
        // SAFETY: `size` is a valid place, and the buffer has the size the library asked for.
        unsafe {
            let mut status = (self.api.hiprtcGetCodeSize)(program.handle, &mut size);
            let mut object = vec![0u8; size];
            if status == 0 {
                status = (self.api.hiprtcGetCode)(program.handle, object.as_mut_ptr().cast());
            }
            if status == 0 { Ok(object) } else { Err(system("reading the code object", status)) }
        }
    }
}
