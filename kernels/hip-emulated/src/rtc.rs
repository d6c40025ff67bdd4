//! The functions of `libhiprtc` that tilewright's host calls, through a clang. The contract of pointers is that of
//! [`crate::api`].
#![allow(non_snake_case, reason = "the names are the library's")]

use std::ffi::{CStr, c_char, c_int, c_void};
use std::path::Path;
use std::sync::OnceLock;

use tilewright_kernels::hip::compile::{Clang, TIME_LIMIT};

type Handle = *mut c_void;

/// `hiprtcResult`.
const INVALID_INPUT: c_int = 3;
const INVALID_PROGRAM: c_int = 4;
const COMPILATION: c_int = 6;

/// A program, behind the handle that the caller has.
struct Program {
    file: String,
    text: String,
    object: Vec<u8>,
    /// NUL-terminated.
    log: Vec<u8>,
}

fn clang() -> &'static Result<Clang, String> {
    static CLANG: OnceLock<Result<Clang, String>> = OnceLock::new();
    CLANG.get_or_init(|| match std::env::var_os("TILEWRIGHT_EMULATED_CLANG") {
        Some(path) => Clang::at(Path::new(&path)),
        None => Clang::find().map_err(|missing| missing.to_string()),
    })
}

/// # Safety
/// The handle is null or one that `hiprtcCreateProgram` gave and `hiprtcDestroyProgram` has not taken back.
unsafe fn program<'a>(handle: Handle) -> Option<&'a mut Program> {
    // SAFETY: by this function's contract.
    unsafe { handle.cast::<Program>().as_mut() }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn hiprtcVersion(major: *mut c_int, minor: *mut c_int) -> c_int {
    if major.is_null() || minor.is_null() {
        return INVALID_INPUT;
    }
    // SAFETY: places for two numbers.
    unsafe {
        major.write(9);
        minor.write(0);
    }
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn hiprtcCreateProgram(
    handle: *mut Handle,
    text: *const c_char,
    name: *const c_char,
    headers: c_int,
    _header_texts: *const *const c_char,
    _header_names: *const *const c_char,
) -> c_int {
    if handle.is_null() || text.is_null() || headers != 0 {
        return INVALID_INPUT;
    }
    // SAFETY: NUL-terminated texts, the name perhaps null; a place for the handle.
    unsafe {
        let file = if name.is_null() { "program.hip".into() } else { CStr::from_ptr(name).to_string_lossy() };
        let text = CStr::from_ptr(text).to_string_lossy().into_owned();
        let program = Program { file: file.into_owned(), text, object: Vec::new(), log: vec![0] };
        handle.write(Box::into_raw(Box::new(program)).cast());
    }
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn hiprtcCompileProgram(
    handle: Handle,
    count: c_int,
    options: *const *const c_char,
) -> c_int {
    // SAFETY: the C interface's contract.
    let Some(program) = (unsafe { program(handle) }) else { return INVALID_PROGRAM };
    let mut arch = None;
    let mut defines = Vec::new();
    for i in 0..count as usize {
        // SAFETY: `count` NUL-terminated texts.
        let option = unsafe { CStr::from_ptr(*options.add(i)) }.to_string_lossy().into_owned();
        if let Some(name) = option.strip_prefix("--offload-arch=") {
            arch = Some(name.to_string());
        } else if let Some(define) = option.strip_prefix("-D") {
            defines.push(define.to_string());
        } else if !tilewright_kernels::hip::compile::FLAGS.contains(&option.as_str()) {
            program.log = format!("option {option} is not known to this stand-in\0").into_bytes();
            return COMPILATION;
        }
    }
    let built = match (clang(), arch) {
        (Err(missing), _) => Err(missing.clone()),
        (_, None) => Err("no --offload-arch".into()),
        (Ok(clang), Some(arch)) => clang
            .build(&program.file, &program.text, &defines, &arch, TIME_LIMIT)
            .map_err(|fault| fault.to_string()),
    };
    match built {
        Ok(object) => {
            program.object = object;
            0
        }
        Err(log) => {
            program.log = [log.replace('\0', " ").into_bytes(), vec![0]].concat();
            COMPILATION
        }
    }
}

/// Gives a size or copies bytes of a program.
///
/// # Safety
/// As [`program`]; `size` is null or a place for one, `to` null or a place for the bytes.
unsafe fn give(handle: Handle, of: impl Fn(&Program) -> &[u8], size: *mut usize, to: *mut c_char) -> c_int {
    // SAFETY: by this function's contract.
    unsafe {
        let Some(program) = program(handle) else { return INVALID_PROGRAM };
        let bytes = of(program);
        if !size.is_null() {
            size.write(bytes.len());
        }
        if !to.is_null() {
            std::ptr::copy_nonoverlapping(bytes.as_ptr().cast(), to, bytes.len());
        }
    }
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn hiprtcGetCodeSize(handle: Handle, size: *mut usize) -> c_int {
    // SAFETY: the C interface's contract.
    unsafe { give(handle, |program| &program.object, size, std::ptr::null_mut()) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn hiprtcGetCode(handle: Handle, to: *mut c_char) -> c_int {
    // SAFETY: the C interface's contract.
    unsafe { give(handle, |program| &program.object, std::ptr::null_mut(), to) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn hiprtcGetProgramLogSize(handle: Handle, size: *mut usize) -> c_int {
    // SAFETY: the C interface's contract.
    unsafe { give(handle, |program| &program.log, size, std::ptr::null_mut()) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn hiprtcGetProgramLog(handle: Handle, to: *mut c_char) -> c_int {
    // SAFETY: the C interface's contract.
    unsafe { give(handle, |program| &program.log, std::ptr::null_mut(), to) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn hiprtcDestroyProgram(handle: *mut Handle) -> c_int {
    // SAFETY: a place that holds a handle of `hiprtcCreateProgram` or null, and is told that it is gone.
    unsafe {
        if handle.is_null() || (*handle).is_null() {
            return INVALID_INPUT;
        }
        drop(Box::from_raw((*handle).cast::<Program>()));
        handle.write(std::ptr::null_mut());
    }
    0
}

#[unsafe(no_mangle)]
extern "C" fn hiprtcGetErrorString(error: c_int) -> *const c_char {
    let text = match error {
        0 => c"success",
        INVALID_INPUT => c"invalid input",
        INVALID_PROGRAM => c"invalid program",
        COMPILATION => c"compilation error",
        _ => c"unknown error",
    };
    text.as_ptr()
}
