//! The C interface of tilewright-dispatch: engines in C, C++ and Python load weights and run GEMMs through the ladder.
//!
//! `include/tilewright.h` is the interface and its documentation; it is written by hand, and a test compares its functions
//! and the size of its struct with this file and builds and runs a C program against it.
//!
//! Invariants: no panic crosses the boundary (it becomes a failure of the call); every failure leaves its reason in
//! [`tw_last_error`]; an engine is not changed after it is opened, so that threads may share it.

use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::ptr;

use tilewright_dispatch::exec::{Engine, Weight};
use tilewright_dispatch::kernels::backend::Backend;
use tilewright_dispatch::kernels::cpu::{Activation, Cpu, Output};
use tilewright_dispatch::kernels::{Format, Layout};
use tilewright_dispatch::{Choice, Provenance, Request, TableData};

/// An open engine: `tw_engine`.
pub struct TwEngine(Engine);

/// A loaded weight: `tw_weight`.
pub struct TwWeight(Weight);

/// `tw_choice`.
#[repr(C)]
pub struct TwChoice {
    /// Hash of the kernel's text.
    pub kernel_id: u64,
    /// The rung, numbered as in the header.
    pub rung: i32,
    /// Rank in the row.
    pub rank: u32,
    /// Octaves to the measured weight.
    pub distance: f32,
    /// 0.
    pub reserved: u32,
    /// The kernel's text, ends with 0.
    pub kernel: [c_char; 256],
}

impl TwChoice {
    fn of(choice: &Choice<'_>) -> Self {
        let (rung, distance) = match choice.provenance {
            Provenance::Exact => (0, 0.0),
            Provenance::Interval { extrapolated: false } => (1, 0.0),
            Provenance::Interval { extrapolated: true } => (2, 0.0),
            Provenance::Nearest { distance } => (3, distance),
            Provenance::Analytic => (4, 0.0),
            Provenance::Default => (5, 0.0),
        };
        let mut kernel = [0; 256];
        let text = choice.config.to_string();
        for (to, from) in kernel[..255].iter_mut().zip(text.bytes()) {
            *to = from as c_char;
        }
        let kernel_id = choice.config.id().0;
        TwChoice { kernel_id, rung, rank: choice.rank.into(), distance, reserved: 0, kernel }
    }
}

thread_local! {
    static LAST_ERROR: RefCell<CString> = RefCell::default();
}

/// Runs `body`; on an error or a panic notes why and gives `failed`.
fn guarded<T>(failed: T, body: impl FnOnce() -> Result<T, String>) -> T {
    let reason = match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(value)) => return value,
        Ok(Err(reason)) => reason,
        Err(_) => "tilewright panicked: please report it".to_owned(),
    };
    LAST_ERROR.with_borrow_mut(|last| *last = CString::new(reason.replace('\0', " ")).unwrap_or_default());
    failed
}

/// A text argument.
///
/// # Safety
/// `text` is null or ends with 0 and stays as it is for `'a`.
unsafe fn text<'a>(text: *const c_char, what: &str) -> Result<&'a str, String> {
    if text.is_null() {
        return Err(format!("{what} is null"));
    }
    // SAFETY: it is not null; the rest is the caller's promise.
    unsafe { CStr::from_ptr(text) }.to_str().map_err(|_| format!("{what} is not UTF-8"))
}

/// An array argument.
///
/// # Safety
/// `values` is null or points to `count` values that stay as they are for `'a`.
unsafe fn array<'a>(values: *const f32, count: usize, what: &str) -> Result<&'a [f32], String> {
    if values.is_null() || !values.is_aligned() || count > isize::MAX as usize / 4 {
        return Err(format!("{what} is null, not aligned or too large"));
    }
    // SAFETY: it is not null, aligned and not too large; the rest is the caller's promise.
    Ok(unsafe { std::slice::from_raw_parts(values, count) })
}

/// Version of the header that this library answers to.
#[unsafe(no_mangle)]
pub extern "C" fn tw_abi_version() -> u32 {
    1
}

/// Why this thread's last failed call failed.
#[unsafe(no_mangle)]
pub extern "C" fn tw_last_error() -> *const c_char {
    LAST_ERROR.with_borrow(|last| last.as_ptr())
}

/// Opens an engine.
///
/// # Safety
/// As in the header: `model` is null or ends with 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tw_engine_open(model: *const c_char, miss_capacity: usize) -> *mut TwEngine {
    guarded(ptr::null_mut(), || {
        // SAFETY: the caller's promise.
        let model = if model.is_null() { "" } else { unsafe { text(model, "the model")? } };
        let cpu = Cpu::detect();
        let table = tilewright_tables::find(&cpu.fingerprint().key(), model)
            .or_else(|| tilewright_tables::of_model(model).next());
        let mut engine = Engine::on(&cpu, table.unwrap_or(&TableData::EMPTY));
        if miss_capacity > 0 {
            engine.record_misses(miss_capacity);
        }
        Ok(Box::into_raw(Box::new(TwEngine(engine))))
    })
}

/// Closes an engine.
///
/// # Safety
/// `engine` is null or from [`tw_engine_open`], and is not used again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tw_engine_free(engine: *mut TwEngine) {
    if !engine.is_null() {
        // SAFETY: it was made by `Box::into_raw`, and the caller gives it back.
        drop(unsafe { Box::from_raw(engine) });
    }
}

/// Whether the table was made on this kind of device.
///
/// # Safety
/// `engine` is open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tw_engine_is_tuned_here(engine: *const TwEngine) -> i32 {
    // SAFETY: the caller's promise.
    unsafe { engine.as_ref() }.is_some_and(|engine| engine.0.is_tuned_here()).into()
}

/// Loads a weight by its plan.
///
/// # Safety
/// `engine` is open, `name` ends with 0, and there are `count` values.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tw_weight_load(
    engine: *const TwEngine,
    name: *const c_char,
    values: *const f32,
    count: usize,
) -> *mut TwWeight {
    guarded(ptr::null_mut(), || {
        // SAFETY: the caller's promises.
        let (engine, name, values) = unsafe {
            (engine.as_ref(), text(name, "the name")?, array(values, count, "the array of values")?)
        };
        let weight = engine.ok_or("the engine is null")?.0.load(name, values).map_err(|e| e.to_string())?;
        Ok(Box::into_raw(Box::new(TwWeight(weight))))
    })
}

/// Loads a weight that the table does not know.
///
/// # Safety
/// `engine` is open, the texts end with 0, and there are `count` values.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tw_weight_load_unplanned(
    engine: *const TwEngine,
    n: u32,
    k: u32,
    format: *const c_char,
    layout: *const c_char,
    values: *const f32,
    count: usize,
) -> *mut TwWeight {
    guarded(ptr::null_mut(), || {
        // SAFETY: the caller's promises.
        let (engine, format, layout, values) = unsafe {
            (
                engine.as_ref().ok_or("the engine is null")?,
                text(format, "the format")?,
                text(layout, "the layout")?,
                array(values, count, "the array of values")?,
            )
        };
        let format = Format::from_name(format).ok_or_else(|| format!("there is no format {format:?}"))?;
        let layout = Layout::from_name(layout).ok_or_else(|| format!("there is no layout {layout:?}"))?;
        let weight = engine.0.load_unplanned(n, k, format, layout, values).map_err(|e| e.to_string())?;
        Ok(Box::into_raw(Box::new(TwWeight(weight))))
    })
}

/// Frees a weight.
///
/// # Safety
/// `weight` is null or from a load, and is not used again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tw_weight_free(weight: *mut TwWeight) {
    if !weight.is_null() {
        // SAFETY: it was made by `Box::into_raw`, and the caller gives it back.
        drop(unsafe { Box::from_raw(weight) });
    }
}

/// Workspace for up to `max_m` rows.
///
/// # Safety
/// `engine` and `weight` are open, and `bytes` can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tw_workspace_bytes(
    engine: *const TwEngine,
    weight: *const TwWeight,
    max_m: u32,
    bytes: *mut usize,
) -> i32 {
    guarded(-1, || {
        // SAFETY: the caller's promises.
        let (engine, weight, bytes) = unsafe { (engine.as_ref(), weight.as_ref(), bytes.as_mut()) };
        let (Some(engine), Some(weight), Some(bytes)) = (engine, weight, bytes) else {
            return Err("the engine, the weight or the result is null".into());
        };
        *bytes = engine.0.workspace_bytes(&weight.0, max_m).map_err(|e| e.to_string())?;
        Ok(0)
    })
}

/// What would run.
///
/// # Safety
/// `engine` and `weight` are open, and `choice` can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tw_choose(
    engine: *const TwEngine,
    weight: *const TwWeight,
    m: u32,
    choice: *mut TwChoice,
) -> i32 {
    guarded(-1, || {
        // SAFETY: the caller's promises.
        let (engine, weight) = unsafe { (engine.as_ref(), weight.as_ref()) };
        let (Some(engine), Some(weight), false) = (engine, weight, choice.is_null()) else {
            return Err("the engine, the weight or the choice is null".into());
        };
        let key = weight.0.key_at(m);
        let request =
            Request { problem: key.problem(m), layout: key.layout, deterministic: weight.0.deterministic() };
        let found = engine.0.table().lookup(&request).map_err(|e| e.to_string())?;
        // SAFETY: it is not null, and the caller lets us write it.
        unsafe { choice.write(TwChoice::of(&found)) };
        Ok(0)
    })
}

/// Multiplies.
///
/// # Safety
/// As in the header: the arrays have the lengths it says, and output and workspace overlap nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tw_run(
    engine: *const TwEngine,
    weight: *const TwWeight,
    activation: *const f32,
    m: u32,
    bias: *const f32,
    output: *mut f32,
    workspace: *mut c_void,
    workspace_bytes: usize,
    choice: *mut TwChoice,
) -> i32 {
    guarded(-1, || {
        // SAFETY: the caller's promises.
        let (engine, weight) = unsafe { (engine.as_ref(), weight.as_ref()) };
        let (Some(engine), Some(weight)) = (engine, weight) else {
            return Err("the engine or the weight is null".into());
        };
        let (rows, n, k) = (m as usize, weight.0.packed().n(), weight.0.packed().k());
        // SAFETY: the caller's promises.
        let activation = unsafe { array(activation, rows * k, "the activation")? };
        let bias = if bias.is_null() {
            None
        } else {
            // SAFETY: it is not null; the rest is the caller's promise.
            Some(unsafe { array(bias, n, "the bias")? })
        };
        // SAFETY: the length is checked by `array`, and the caller lets nobody else use it meanwhile.
        let output = unsafe {
            array(output, rows * n, "the output")?;
            std::slice::from_raw_parts_mut(output, rows * n)
        };
        let workspace: &mut [u8] = if workspace_bytes == 0 {
            &mut []
        } else if workspace.is_null() || workspace_bytes > isize::MAX as usize {
            return Err("the workspace is null or too large".into());
        } else {
            // SAFETY: it is not null and not too large; the caller lets nobody else use it meanwhile.
            unsafe { std::slice::from_raw_parts_mut(workspace.cast(), workspace_bytes) }
        };
        let ran = engine
            .0
            .run(&weight.0, Activation::F32(activation), m, bias, Output::F32(output), workspace)
            .map_err(|e| e.to_string())?;
        if !choice.is_null() {
            // SAFETY: it is not null, and the caller lets us write it.
            unsafe { choice.write(TwChoice::of(&ran)) };
        }
        Ok(0)
    })
}

/// Writes what was missed.
///
/// # Safety
/// `engine` is open and `path` ends with 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tw_write_misses(engine: *const TwEngine, path: *const c_char) -> i32 {
    guarded(-1, || {
        // SAFETY: the caller's promises.
        let (engine, path) =
            unsafe { (engine.as_ref().ok_or("the engine is null")?, text(path, "the path")?) };
        let table = engine.0.table();
        let misses = table.misses().ok_or("the engine was opened to remember no misses")?;
        let written = misses.write(table.data(), Path::new(path));
        written.map(i32::from).map_err(|error| format!("{path} cannot be written: {error}"))
    })
}
