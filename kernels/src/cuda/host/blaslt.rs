//! cuBLASLt behind owned types: what a problem is to the library, which algorithms it has for it, and their launch.
//!
//! The library's matrices are column-major, so that it multiplies the weight (N × K, transposed) by the activation (K × M)
//! into D (N × M), which is our row-major M × N.

use std::ffi::{CStr, c_void};
use std::ptr;

use cudarc::cublaslt::sys;
use sys::cublasLtMatmulAlgoConfigAttributes_t as Part;
use sys::cublasLtMatmulDescAttributes_t as Attribute;
use sys::cublasLtMatmulPreferenceAttributes_t as Preference;

use super::driver::{Buffer, Context, Fault};
use crate::config::Config;
use crate::cuda::library::{CHOICE, FAMILY, FIXED};
use crate::family::Domain;
use crate::format::Format;
use crate::problem::{OutType, Problem, Scaling};

/// Bytes that the library may use between the parts of K: what cuBLAS itself takes on Hopper.
const WORKSPACE: usize = 32 << 20;
/// Algorithms asked for of one problem.
const MOST_ALGORITHMS: usize = 64;
/// All reductions but the one that adds in the order of arrival.
const REDUCTIONS: u32 = 2 | 4;

/// A parameter of the family, the attribute it sets, and whether that has 16 bits instead of 32.
const PARTS: [(&str, Part, bool); 9] = [
    ("algo", Part::CUBLASLT_ALGO_CONFIG_ID, false),
    ("cluster", Part::CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID, true),
    ("custom", Part::CUBLASLT_ALGO_CONFIG_CUSTOM_OPTION, false),
    ("inner", Part::CUBLASLT_ALGO_CONFIG_INNER_SHAPE_ID, true),
    ("reduction", Part::CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME, false),
    ("split_k", Part::CUBLASLT_ALGO_CONFIG_SPLITK_NUM, false),
    ("stages", Part::CUBLASLT_ALGO_CONFIG_STAGES_ID, false),
    ("swizzle", Part::CUBLASLT_ALGO_CONFIG_CTA_SWIZZLING, false),
    ("tile", Part::CUBLASLT_ALGO_CONFIG_TILE_ID, false),
];

fn check(status: sys::cublasStatus_t, call: &str) -> Result<(), Fault> {
    if status == sys::cublasStatus_t::CUBLAS_STATUS_SUCCESS {
        return Ok(());
    }
    // SAFETY: the library gives a static, NUL-terminated name for every status.
    let name = unsafe { CStr::from_ptr(sys::cublasLtGetStatusName(status)) }.to_string_lossy();
    Err(format!("cuBLASLt: {call}: {name}"))
}

/// The loaded library with its workspace.
pub(crate) struct Library {
    handle: sys::cublasLtHandle_t,
    workspace: Buffer,
}

// SAFETY: the library's handle may be used from any thread.
unsafe impl Send for Library {}
// SAFETY: as above; the workspace is touched by launches on one stream alone, one after another.
unsafe impl Sync for Library {}

impl Library {
    /// Loads the library for the current context.
    pub(crate) fn open() -> Result<Library, Fault> {
        // SAFETY: only looks for the library.
        if !unsafe { sys::is_culib_present() } {
            return Err("no cuBLASLt: libcublasLt is not installed or not on the library path".into());
        }
        let mut handle = ptr::null_mut();
        // SAFETY: a valid place for the handle.
        check(unsafe { sys::cublasLtCreate(&mut handle) }, "opening the library")?;
        Ok(Library { handle, workspace: Buffer::new(WORKSPACE)? })
    }

    /// The library's algorithms for a problem, its favourite first, as configs. Those with a number that the family's
    /// domains do not have are left out.
    pub(crate) fn algorithms(&self, problem: &Problem) -> Result<Vec<Config>, Fault> {
        let product = Product::new(problem, &self.workspace)?;
        let found = self.ask(&product, MOST_ALGORITHMS)?;
        Ok(found.iter().filter_map(describe).collect())
    }

    /// Readies the algorithm of a config.
    pub(crate) fn matmul(&self, problem: &Problem, config: &Config) -> Result<Matmul, Fault> {
        let product = Product::new(problem, &self.workspace)?;
        let algorithm = if config.value(CHOICE) == FIXED {
            self.described(&product, config)?
        } else {
            *self.ask(&product, 1)?.first().ok_or("cuBLASLt has no algorithm for this problem")?
        };
        Ok(Matmul { product, algorithm })
    }

    fn ask(&self, product: &Product, most: usize) -> Result<Vec<sys::cublasLtMatmulAlgo_t>, Fault> {
        let mut preference = ptr::null_mut();
        // SAFETY: plain data, for which all zeros is a value.
        let mut results: Vec<sys::cublasLtMatmulHeuristicResult_t> =
            vec![unsafe { std::mem::zeroed() }; most];
        let mut found = 0;
        // SAFETY: the preference lives until it is destroyed; attributes are passed with their sizes; `results` has
        // room for as many as are asked for.
        let status = unsafe {
            check(sys::cublasLtMatmulPreferenceCreate(&mut preference), "making a preference")?;
            let set = |attribute, value: *const c_void, bytes| {
                check(
                    sys::cublasLtMatmulPreferenceSetAttribute(preference, attribute, value, bytes),
                    "setting a preference",
                )
            };
            let workspace = Preference::CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES;
            let reductions = Preference::CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK;
            let status = set(workspace, ptr::from_ref(&WORKSPACE).cast(), size_of::<usize>())
                .and_then(|()| set(reductions, ptr::from_ref(&REDUCTIONS).cast(), 4))
                .map(|()| {
                    sys::cublasLtMatmulAlgoGetHeuristic(
                        self.handle,
                        product.description,
                        product.weight,
                        product.activation,
                        product.output,
                        product.output,
                        preference,
                        most as i32,
                        results.as_mut_ptr(),
                        &mut found,
                    )
                });
            sys::cublasLtMatmulPreferenceDestroy(preference);
            status?
        };
        if status == sys::cublasStatus_t::CUBLAS_STATUS_NOT_SUPPORTED {
            return Ok(Vec::new());
        }
        check(status, "asking for algorithms")?;
        let usable =
            |r: &&sys::cublasLtMatmulHeuristicResult_t| r.state == sys::cublasStatus_t::CUBLAS_STATUS_SUCCESS;
        Ok(results[..found as usize].iter().filter(usable).map(|result| result.algo).collect())
    }

    /// Builds the algorithm that a config describes, and asks the library whether it can run it.
    fn described(&self, product: &Product, config: &Config) -> Result<sys::cublasLtMatmulAlgo_t, Fault> {
        let number = |name| config.get(name).unwrap_or(0);
        let [weight, output] = [product.element, product.out];
        // SAFETY: plain data, for which all zeros is a value.
        let mut algorithm: sys::cublasLtMatmulAlgo_t = unsafe { std::mem::zeroed() };
        // SAFETY: as above.
        let mut result: sys::cublasLtMatmulHeuristicResult_t = unsafe { std::mem::zeroed() };
        // SAFETY: the algorithm is initialised first; values are passed with the sizes the attributes have.
        unsafe {
            check(
                sys::cublasLtMatmulAlgoInit(
                    self.handle,
                    COMPUTE,
                    SCALE,
                    weight,
                    weight,
                    output,
                    output,
                    number("algo") as i32,
                    &mut algorithm,
                ),
                "making an algorithm",
            )?;
            for (name, part, short) in PARTS.iter().skip(1) {
                let value = number(name);
                let half = value as u16;
                let (from, bytes) =
                    if *short { (ptr::from_ref(&half).cast(), 2) } else { (ptr::from_ref(&value).cast(), 4) };
                check(
                    sys::cublasLtMatmulAlgoConfigSetAttribute(&mut algorithm, *part, from, bytes),
                    &format!("setting {name}={value}"),
                )?;
            }
            check(
                sys::cublasLtMatmulAlgoCheck(
                    self.handle,
                    product.description,
                    product.weight,
                    product.activation,
                    product.output,
                    product.output,
                    &algorithm,
                    &mut result,
                ),
                "the installed version refuses the algorithm",
            )?;
        }
        if result.workspaceSize > WORKSPACE {
            return Err(format!("cuBLASLt: the algorithm needs {} bytes of workspace", result.workspaceSize));
        }
        Ok(algorithm)
    }
}

impl Drop for Library {
    fn drop(&mut self) {
        // SAFETY: made in `open`, destroyed once.
        unsafe { sys::cublasLtDestroy(self.handle) };
    }
}

/// An algorithm as a config.
fn describe(algorithm: &sys::cublasLtMatmulAlgo_t) -> Option<Config> {
    let mut values = vec![0; FAMILY.params.len()];
    values[CHOICE] = FIXED;
    for (name, part, short) in PARTS {
        let (mut value, mut half, mut written) = (0u32, 0u16, 0usize);
        let (to, bytes) =
            if short { (ptr::from_mut(&mut half).cast(), 2) } else { (ptr::from_mut(&mut value).cast(), 4) };
        // SAFETY: the place has the attribute's size.
        let status =
            unsafe { sys::cublasLtMatmulAlgoConfigGetAttribute(algorithm, part, to, bytes, &mut written) };
        check(status, name).ok()?;
        let index = FAMILY.param_index(name)?;
        values[index] = if short { half.into() } else { value };
        let Domain::Numbers(_) = FAMILY.params[index].domain else { return None };
        FAMILY.params[index].domain.position(values[index])?;
    }
    Some(Config::from_values(&FAMILY, &values))
}

/// `CUBLAS_OP_T` of the library's headers.
const TRANSPOSED: i32 = 1;
const COMPUTE: sys::cublasComputeType_t = sys::cublasComputeType_t::CUBLAS_COMPUTE_32F;
const SCALE: sys::cudaDataType_t = sys::cudaDataType_t::CUDA_R_32F;

/// A problem in the library's terms.
struct Product {
    description: sys::cublasLtMatmulDesc_t,
    weight: sys::cublasLtMatrixLayout_t,
    activation: sys::cublasLtMatrixLayout_t,
    output: sys::cublasLtMatrixLayout_t,
    element: sys::cudaDataType_t,
    out: sys::cudaDataType_t,
    scaled: bool,
}

impl Product {
    fn new(problem: &Problem, workspace: &Buffer) -> Result<Product, Fault> {
        let element = match problem.b {
            Format::Fp8E4m3 => sys::cudaDataType_t::CUDA_R_8F_E4M3,
            _ => sys::cudaDataType_t::CUDA_R_16BF,
        };
        let out = match problem.out {
            OutType::F32 => sys::cudaDataType_t::CUDA_R_32F,
            OutType::Bf16 => sys::cudaDataType_t::CUDA_R_16BF,
        };
        let [m, n, k] = [problem.m, problem.n, problem.k].map(u64::from);
        let mut made = Product {
            description: ptr::null_mut(),
            weight: ptr::null_mut(),
            activation: ptr::null_mut(),
            output: ptr::null_mut(),
            element,
            out,
            scaled: problem.scaling != Scaling::None,
        };
        // SAFETY: valid places for the handles, which `Drop` destroys.
        unsafe {
            check(
                sys::cublasLtMatmulDescCreate(&mut made.description, COMPUTE, SCALE),
                "describing a product",
            )?;
            check(sys::cublasLtMatrixLayoutCreate(&mut made.weight, element, k, n, k as i64), "the weight")?;
            check(sys::cublasLtMatrixLayoutCreate(&mut made.activation, element, k, m, k as i64), "A")?;
            check(sys::cublasLtMatrixLayoutCreate(&mut made.output, out, n, m, n as i64), "D")?;
        }
        made.set(Attribute::CUBLASLT_MATMUL_DESC_TRANSA, &TRANSPOSED)?;
        if made.scaled {
            use sys::cublasLtMatmulMatrixScale_t as Mode;
            let mode = match problem.scaling {
                Scaling::Channel => Mode::CUBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F,
                _ => Mode::CUBLASLT_MATMUL_MATRIX_SCALE_SCALAR_32F,
            };
            made.set(Attribute::CUBLASLT_MATMUL_DESC_A_SCALE_MODE, &mode)?;
            made.set(Attribute::CUBLASLT_MATMUL_DESC_B_SCALE_MODE, &mode)?;
            // Whether there are scales decides which algorithms there are; where they are is said with each launch.
            made.point([workspace.address(); 2])?;
        }
        Ok(made)
    }

    /// Says where the scales of weight and activation are.
    fn point(&self, scales: [u64; 2]) -> Result<(), Fault> {
        self.set(Attribute::CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, &scales[0])?;
        self.set(Attribute::CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, &scales[1])
    }

    fn set<T>(&self, attribute: Attribute, value: &T) -> Result<(), Fault> {
        // SAFETY: the description lives, and the value is passed with its size.
        let status = unsafe {
            let from = ptr::from_ref(value).cast();
            sys::cublasLtMatmulDescSetAttribute(self.description, attribute, from, size_of::<T>())
        };
        check(status, "describing a product")
    }
}

impl Drop for Product {
    fn drop(&mut self) {
        // SAFETY: each was made in `new` or is null, which the library ignores.
        unsafe {
            sys::cublasLtMatmulDescDestroy(self.description);
            for layout in [self.weight, self.activation, self.output] {
                sys::cublasLtMatrixLayoutDestroy(layout);
            }
        }
    }
}

/// Where the operands of a launch are.
pub(crate) struct Places {
    /// Codes of the weight, N rows of K.
    pub(crate) weight: u64,
    /// Codes of the activation, M rows of K.
    pub(crate) activation: u64,
    /// f32 scales of both, where the formats have any.
    pub(crate) scales: [u64; 2],
    /// D.
    pub(crate) output: u64,
}

/// A product with its algorithm.
pub(crate) struct Matmul {
    product: Product,
    algorithm: sys::cublasLtMatmulAlgo_t,
}

impl Matmul {
    /// Launches it.
    pub(crate) fn launch(&self, library: &Library, context: &Context, places: &Places) -> Result<(), Fault> {
        let Matmul { product, algorithm } = self;
        if product.scaled {
            product.point(places.scales)?;
        }
        let (alpha, beta) = (1.0f32, 0.0f32);
        // SAFETY: the buffers have the sizes of the layouts and outlive the launch (sessions synchronise before they
        // free); the workspace has the bytes that every algorithm was limited to; both constants are copied.
        let status = unsafe {
            sys::cublasLtMatmul(
                library.handle,
                product.description,
                ptr::from_ref(&alpha).cast(),
                places.weight as *const c_void,
                product.weight,
                places.activation as *const c_void,
                product.activation,
                ptr::from_ref(&beta).cast(),
                places.output as *const c_void,
                product.output,
                places.output as *mut c_void,
                product.output,
                algorithm,
                library.workspace.address() as *mut c_void,
                WORKSPACE,
                context.stream().cast(),
            )
        };
        check(status, "launching")
    }
}
