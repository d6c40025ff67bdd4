//! The functions of `libamdhip64` that tilewright's host calls, with the signatures of `hip_runtime_api.h`.
//!
//! Every `unsafe` here is the same contract, that of the C interface: a pointer that a function writes through points at
//! a place of its type, one that it reads through at that many values. Handles and device addresses are looked up, never
//! followed.
#![allow(non_snake_case, reason = "the names are the library's")]

use std::collections::HashMap;
use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_ulonglong, c_void};
use std::sync::{Arc, Mutex, PoisonError};

use tilewright_emulator::{Arg, CodeObject, Grid};

use crate::device::{
    Device, INVALID_DEVICE, INVALID_HANDLE, INVALID_IMAGE, INVALID_VALUE, LAUNCH_FAILURE, Launch, NOT_FOUND,
    Object, device,
};
use crate::gpu::L2_KIB;

type Handle = *mut c_void;

/// Runs `body` on the device and turns its result into a `hipError_t`.
fn on(body: impl FnOnce(&mut Device) -> Result<(), i32>) -> c_int {
    match device() {
        None => INVALID_DEVICE,
        Some(mut device) => body(&mut device).err().unwrap_or(0),
    }
}

/// Writes a value through a pointer that the caller gave; a null pointer is an invalid value.
///
/// # Safety
/// `to` is null or points at a place for a `T`.
unsafe fn put<T>(to: *mut T, value: T) -> Result<(), i32> {
    if to.is_null() {
        return Err(INVALID_VALUE);
    }
    // SAFETY: not null, so by this function's contract a place for a `T`.
    unsafe { to.write(value) };
    Ok(())
}

/// By this name the host knows that nothing here is measured.
#[unsafe(no_mangle)]
extern "C" fn tilewright_emulated_device() -> c_int {
    1
}

#[unsafe(no_mangle)]
extern "C" fn hipInit(_flags: c_uint) -> c_int {
    on(|_| Ok(()))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn hipGetDeviceCount(count: *mut c_int) -> c_int {
    // SAFETY: the C interface's contract.
    on(|_| unsafe { put(count, 1) })
}

#[unsafe(no_mangle)]
extern "C" fn hipSetDevice(ordinal: c_int) -> c_int {
    on(|_| if ordinal == 0 { Ok(()) } else { Err(INVALID_DEVICE) })
}

/// The part of `hipDeviceProp_tR0600` that is filled in; its size is the whole structure's, 1472 bytes.
#[repr(C)]
struct Properties {
    name: [c_char; 256],
    identifiers: [u8; 28],
    total_memory: usize,
    lds_per_workgroup: usize,
    limits: [u8; 856],
    arch: [c_char; 256],
    lds_per_unit: usize,
    rest: [u8; 48],
}

const _: () = assert!(size_of::<Properties>() == 1472);

fn text<const N: usize>(text: &str) -> [c_char; N] {
    let mut chars = [0; N];
    for (to, byte) in chars[..N - 1].iter_mut().zip(text.bytes()) {
        *to = byte as c_char;
    }
    chars
}

#[unsafe(no_mangle)]
unsafe extern "C" fn hipGetDevicePropertiesR0600(properties: *mut Properties, ordinal: c_int) -> c_int {
    on(|device| {
        if ordinal != 0 {
            return Err(INVALID_DEVICE);
        }
        let lds = device.gpu.lds_kib as usize * 1024;
        let filled = Properties {
            name: text(device.gpu.name),
            identifiers: [0; 28],
            total_memory: device.gpu.memory_gib << 30,
            lds_per_workgroup: lds,
            limits: [0; 856],
            arch: text(device.gpu.arch),
            lds_per_unit: lds,
            rest: [0; 48],
        };
        // SAFETY: the C interface's contract.
        unsafe { put(properties, filled) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn hipDeviceGetAttribute(value: *mut c_int, attribute: c_int, ordinal: c_int) -> c_int {
    on(|device| {
        let found = match (ordinal, attribute) {
            (0, 5) => device.gpu.clock_mhz * 1000,
            (0, 19) => L2_KIB * 1024,
            (0, 63) => device.gpu.units,
            (0, 10018) => device.gpu.xcds,
            (0, _) => return Err(INVALID_VALUE),
            _ => return Err(INVALID_DEVICE),
        };
        // SAFETY: the C interface's contract.
        unsafe { put(value, found as c_int) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn hipDeviceGetPCIBusId(place: *mut c_char, length: c_int, ordinal: c_int) -> c_int {
    on(|_| {
        const PLACE: &CStr = c"ffff:ff:1f.0";
        let bytes = PLACE.to_bytes_with_nul();
        if ordinal != 0 || place.is_null() || (length as usize) < bytes.len() || length < 0 {
            return Err(INVALID_VALUE);
        }
        // SAFETY: the caller's place has `length` bytes, which are enough.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr().cast(), place, bytes.len()) };
        Ok(())
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn hipRuntimeGetVersion(version: *mut c_int) -> c_int {
    // SAFETY: the C interface's contract.
    on(|_| unsafe { put(version, 70_000_000) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn hipMalloc(address: *mut Handle, bytes: usize) -> c_int {
    on(|device| {
        let found = device.allocate(bytes)?;
        // SAFETY: the C interface's contract.
        unsafe { put(address, found as Handle) }
    })
}

#[unsafe(no_mangle)]
extern "C" fn hipFree(address: Handle) -> c_int {
    on(|device| if address.is_null() { Ok(()) } else { device.free(address as u64) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn hipMemcpy(to: Handle, from: *const c_void, bytes: usize, kind: c_int) -> c_int {
    on(|device| {
        let wrong = |fault: String, device: &mut Device| {
            device.fault = fault;
            Err(INVALID_VALUE)
        };
        let read = match kind {
            // SAFETY: the caller's memory has that many bytes.
            1 => Ok(unsafe { std::slice::from_raw_parts(from.cast::<u8>(), bytes) }.to_vec()),
            2 | 3 => device.memory.read(from as u64, bytes),
            _ => return Err(INVALID_VALUE),
        };
        let data = match read {
            Ok(data) => data,
            Err(fault) => return wrong(fault, device),
        };
        if kind == 2 {
            // SAFETY: the caller's memory has room for that many bytes.
            unsafe { std::ptr::copy_nonoverlapping(data.as_ptr(), to.cast::<u8>(), bytes) };
            return Ok(());
        }
        match device.memory.write(to as u64, &data) {
            Ok(()) => Ok(()),
            Err(fault) => wrong(fault, device),
        }
    })
}

#[unsafe(no_mangle)]
extern "C" fn hipMemset(to: Handle, value: c_int, bytes: usize) -> c_int {
    on(|device| {
        device.memory.write(to as u64, &vec![value as u8; bytes]).map_err(|fault| {
            device.fault = fault;
            INVALID_VALUE
        })
    })
}

/// Keeps an object and hands its handle out.
///
/// # Safety
/// As [`put`].
unsafe fn make(to: *mut Handle, object: Object) -> c_int {
    on(|device| {
        let handle = device.keep(object);
        // SAFETY: by this function's contract.
        unsafe { put(to, handle as Handle) }
    })
}

fn drop_object(handle: Handle) -> c_int {
    on(|device| device.forget(handle as u64))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn hipStreamCreateWithFlags(stream: *mut Handle, _flags: c_uint) -> c_int {
    // SAFETY: the C interface's contract.
    unsafe { make(stream, Object::Stream(None)) }
}

#[unsafe(no_mangle)]
extern "C" fn hipStreamDestroy(stream: Handle) -> c_int {
    drop_object(stream)
}

#[unsafe(no_mangle)]
extern "C" fn hipStreamSynchronize(stream: Handle) -> c_int {
    on(|device| if stream.is_null() { Ok(()) } else { device.object(stream as u64).map(|_| ()) })
}

#[unsafe(no_mangle)]
extern "C" fn hipStreamBeginCapture(stream: Handle, _mode: c_int) -> c_int {
    on(|device| match device.object(stream as u64)? {
        Object::Stream(captured @ None) => {
            *captured = Some(Vec::new());
            Ok(())
        }
        _ => Err(INVALID_HANDLE),
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn hipStreamEndCapture(stream: Handle, graph: *mut Handle) -> c_int {
    on(|device| {
        let Object::Stream(captured) = device.object(stream as u64)? else { return Err(INVALID_HANDLE) };
        let launches = captured.take().ok_or(INVALID_VALUE)?;
        let handle = device.keep(Object::Graph(launches));
        // SAFETY: the C interface's contract.
        unsafe { put(graph, handle as Handle) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn hipGraphInstantiateWithFlags(
    executable: *mut Handle,
    graph: Handle,
    _flags: c_ulonglong,
) -> c_int {
    on(|device| {
        let Object::Graph(launches) = device.object(graph as u64)? else { return Err(INVALID_HANDLE) };
        let copy = Object::Graph(launches.clone());
        let handle = device.keep(copy);
        // SAFETY: the C interface's contract.
        unsafe { put(executable, handle as Handle) }
    })
}

#[unsafe(no_mangle)]
extern "C" fn hipGraphDestroy(graph: Handle) -> c_int {
    drop_object(graph)
}

#[unsafe(no_mangle)]
extern "C" fn hipGraphExecDestroy(executable: Handle) -> c_int {
    drop_object(executable)
}

#[unsafe(no_mangle)]
extern "C" fn hipGraphLaunch(executable: Handle, _stream: Handle) -> c_int {
    on(|device| {
        let Object::Graph(launches) = device.object(executable as u64)? else { return Err(INVALID_HANDLE) };
        let launches = launches.clone();
        launches.iter().try_for_each(|launch| device.run(launch))
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn hipEventCreate(event: *mut Handle) -> c_int {
    // SAFETY: the C interface's contract.
    unsafe { make(event, Object::Event(None)) }
}

#[unsafe(no_mangle)]
extern "C" fn hipEventDestroy(event: Handle) -> c_int {
    drop_object(event)
}

#[unsafe(no_mangle)]
extern "C" fn hipEventRecord(event: Handle, _stream: Handle) -> c_int {
    on(|device| {
        let now = device.now_ns;
        let Object::Event(at) = device.object(event as u64)? else { return Err(INVALID_HANDLE) };
        *at = Some(now);
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn hipEventSynchronize(event: Handle) -> c_int {
    on(|device| device.object(event as u64).map(|_| ()))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn hipEventElapsedTime(milliseconds: *mut f32, begin: Handle, end: Handle) -> c_int {
    on(|device| {
        let mut at = |event: Handle| match device.object(event as u64)? {
            Object::Event(Some(at)) => Ok(*at),
            _ => Err(INVALID_HANDLE),
        };
        let (begin, end) = (at(begin)?, at(end)?);
        // SAFETY: the C interface's contract.
        unsafe { put(milliseconds, ((end - begin) * 1e-6) as f32) }
    })
}

/// Bytes of the ELF image at an address: it ends with its section headers.
///
/// # Safety
/// A whole ELF image lies there.
unsafe fn image<'a>(at: *const u8) -> Option<&'a [u8]> {
    // SAFETY: an ELF image begins with a header of 64 bytes.
    let header = unsafe { std::slice::from_raw_parts(at, 64) };
    if &header[..4] != b"\x7fELF" {
        return None;
    }
    let table = u64::from_le_bytes(header[40..48].try_into().ok()?) as usize;
    let field = |at: usize| usize::from(u16::from_le_bytes([header[at], header[at + 1]]));
    // SAFETY: the image goes as far as its headers say.
    Some(unsafe { std::slice::from_raw_parts(at, table + field(58) * field(60)) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn hipModuleLoadData(module: *mut Handle, data: *const c_void) -> c_int {
    on(|device| {
        // SAFETY: the C interface's contract.
        let bytes = unsafe { image(data.cast()) }.ok_or(INVALID_IMAGE)?;
        let code = match CodeObject::load(bytes) {
            Ok(code) if device.gpu.arch.starts_with(code.arch().name()) => code,
            Ok(code) => {
                device.fault = format!("the code object is for {}", code.arch().name());
                return Err(INVALID_IMAGE);
            }
            Err(error) => {
                device.fault = error.to_string();
                return Err(INVALID_IMAGE);
            }
        };
        let handle = device.keep(Object::Module(Arc::new(code)));
        // SAFETY: the C interface's contract.
        unsafe { put(module, handle as Handle) }
    })
}

#[unsafe(no_mangle)]
extern "C" fn hipModuleUnload(module: Handle) -> c_int {
    drop_object(module)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn hipModuleGetFunction(
    function: *mut Handle,
    module: Handle,
    name: *const c_char,
) -> c_int {
    on(|device| {
        // SAFETY: a NUL-terminated name.
        let name = unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned();
        let Object::Module(code) = device.object(module as u64)? else { return Err(INVALID_HANDLE) };
        let code = code.clone();
        if let Err(error) = code.kernel(&name) {
            device.fault = error.to_string();
            return Err(NOT_FOUND);
        }
        let handle = device.keep(Object::Function(code, name));
        // SAFETY: the C interface's contract.
        unsafe { put(function, handle as Handle) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn hipModuleLaunchKernel(
    function: Handle,
    grid_x: c_uint,
    grid_y: c_uint,
    grid_z: c_uint,
    block_x: c_uint,
    block_y: c_uint,
    block_z: c_uint,
    dynamic_lds: c_uint,
    stream: Handle,
    arguments: *mut *mut c_void,
    extra: *mut *mut c_void,
) -> c_int {
    on(|device| {
        let Object::Function(code, kernel) = device.object(function as u64)? else {
            return Err(INVALID_HANDLE);
        };
        let (code, kernel) = (code.clone(), kernel.clone());
        if !extra.is_null() {
            return Err(INVALID_VALUE);
        }
        let Ok(found) = code.kernel(&kernel) else { return Err(NOT_FOUND) };
        let Some(metadata) = &found.metadata else {
            device.fault = format!("{kernel}: the code object does not describe its arguments");
            return Err(LAUNCH_FAILURE);
        };
        let visible = metadata.args.iter().filter(|arg| !arg.kind.starts_with("hidden_"));
        let args = visible.enumerate().map(|(i, arg)| {
            // SAFETY: the caller gives a pointer for each argument of the kernel, to a value of the argument's size.
            let bytes =
                unsafe { std::slice::from_raw_parts((*arguments.add(i)).cast::<u8>(), arg.size as usize) };
            Arg::Bytes(bytes.to_vec())
        });
        let args = args.collect();
        let grid = Grid { grid: [grid_x, grid_y, grid_z], block: [block_x, block_y, block_z], dynamic_lds };
        device.submit(stream as u64, Launch { code, kernel, grid, args })
    })
}

#[unsafe(no_mangle)]
extern "C" fn hipGetErrorString(error: c_int) -> *const c_char {
    let name = match error {
        0 => "no error",
        1 => "invalid value",
        2 => "out of memory",
        101 => "invalid device",
        200 => "device kernel image is invalid",
        400 => "invalid resource handle",
        500 => "named symbol not found",
        719 => "unspecified launch failure",
        _ => "unknown error",
    };
    let fault = device().map(|device| device.fault.clone()).unwrap_or_default();
    let text = if error == 0 || fault.is_empty() { name.to_string() } else { format!("{name}: {fault}") };
    // Callers may keep the text for ever, and the same faults come again and again.
    static TEXTS: Mutex<Option<HashMap<String, &'static CStr>>> = Mutex::new(None);
    let mut texts = TEXTS.lock().unwrap_or_else(PoisonError::into_inner);
    let kept = texts.get_or_insert_default().entry(text).or_insert_with_key(|text| {
        let text = CString::new(text.replace('\0', " ")).unwrap_or_default();
        Box::leak(text.into_boxed_c_str())
    });
    kept.as_ptr()
}
