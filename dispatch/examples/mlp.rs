//! A small inference engine: one transformer MLP through generated dispatch tables.
//!
//! It links tilewright-dispatch and tilewright-tables and nothing of the tuner. Weights come from a safetensors file
//! (a Llama-style `gate_proj`, `up_proj`, `down_proj` with SiLU, or a BERT-style `intermediate`, `output` with GELU);
//! without a file it makes up weights of the table's shapes. The output is checked against the MLP in float64 twice: on
//! the dequantised weights, which shows the kernels' error, and on the weights as given, which adds the formats'.
//!
//! ```text
//! cargo run --release -p tilewright-dispatch --example mlp -- [--model NAME] [--weights FILE] [--layer N] [--m 1,16,64]
//! ```

use std::error::Error;
use std::fs;

use safetensors::{Dtype, SafeTensors};
use tilewright_dispatch::Choice;
use tilewright_dispatch::exec::{Engine, LoadError, RunError, Weight};
use tilewright_dispatch::kernels::cpu::{Activation, Output};
use tilewright_dispatch::kernels::format::quantize::{QuantizeOptions, Quantized};
use tilewright_dispatch::kernels::{Format, Layout, OutType};
use tilewright_dispatch::table::TableData;

/// Largest error of the kernels, relative to the output's norm: both GEMMs round their activation to bf16 (2⁻⁹), or
/// quantise it further if the plan says so, and the output to bf16 where it was tuned so.
const fn kernel_tolerance(activation: Format) -> f64 {
    if matches!(activation, Format::Bf16) { 0.01 } else { 0.1 }
}

/// Largest error of kernels and formats together, for weights of 6 bits and more.
const TOLERANCE: f64 = 0.15;

fn main() -> Result<(), Box<dyn Error>> {
    let options = Options::parse(std::env::args().skip(1))?;
    let table = pick_table(&options.model);
    let engine = Engine::new(table);
    let place = if engine.is_tuned_here() { "tuned on this device" } else { "not tuned on this device" };
    match table.model {
        "" => println!("no table of {}: default kernels", options.model),
        model => println!("table of {model} for {}, {place}", table.device),
    }
    for fault in engine.table().faults() {
        println!("  {fault}");
    }
    let mlp = match &options.weights {
        Some(file) => Mlp::read(&fs::read(file).map_err(|e| format!("{file}: {e}"))?, options.layer)?,
        None => Mlp::made_up(table),
    };
    println!("{} MLP, hidden {}, intermediate {}", mlp.activation_name(), mlp.hidden, mlp.intermediate);
    let loaded = Loaded::new(&engine, &mlp)?;
    for m in options.m {
        let errors = loaded.run_and_check(&engine, &mlp, m)?;
        let widest = [&loaded.up, &loaded.down].map(|weight| kernel_tolerance(weight.key_at(m).a));
        let limits = [widest[0].max(widest[1]), TOLERANCE];
        // Written so that NaN fails too.
        if !(errors[0] <= limits[0] && errors[1] <= limits[1]) {
            return Err(format!("m={m}: relative errors of {errors:.4?} are over {limits:?}").into());
        }
    }
    println!("{:?}", engine.table().counters().read());
    Ok(())
}

struct Options {
    model: String,
    weights: Option<String>,
    layer: usize,
    m: Vec<u32>,
}

impl Options {
    fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Self, Box<dyn Error>> {
        let mut options =
            Options { model: "smollm2-135m".into(), weights: None, layer: 0, m: vec![1, 7, 16, 64] };
        while let Some(argument) = arguments.next() {
            let value = arguments.next().ok_or_else(|| format!("{argument} needs a value"))?;
            match argument.as_str() {
                "--model" => options.model = value,
                "--weights" => options.weights = Some(value),
                "--layer" => options.layer = value.parse()?,
                "--m" => options.m = value.split(',').map(str::parse).collect::<Result<_, _>>()?,
                _ => return Err(format!("{argument}: known are --model, --weights, --layer and --m").into()),
            }
        }
        Ok(options)
    }
}

/// The model's table for this device, else for another one, else one that knows nothing.
fn pick_table(model: &str) -> &'static TableData<'static> {
    let here = Engine::new(&TableData::EMPTY).fingerprint().key();
    let any = || tilewright_tables::of_model(model).next();
    tilewright_tables::find(&here, model).or_else(any).unwrap_or(&TableData::EMPTY)
}

/// The weights of one MLP, row-major, as f32.
struct Mlp {
    hidden: usize,
    intermediate: usize,
    /// Gate and up stacked, 2·intermediate × hidden, or up alone, intermediate × hidden.
    up: Vec<f32>,
    up_bias: Option<Vec<f32>>,
    /// hidden × intermediate.
    down: Vec<f32>,
    down_bias: Option<Vec<f32>>,
}

impl Mlp {
    fn is_gated(&self) -> bool {
        self.up.len() == 2 * self.intermediate * self.hidden
    }

    fn activation_name(&self) -> &'static str {
        if self.is_gated() { "SiLU-gated" } else { "GELU" }
    }

    fn read(bytes: &[u8], layer: usize) -> Result<Self, Box<dyn Error>> {
        let file = SafeTensors::deserialize(bytes)?;
        let find = |suffix: &str| {
            let names = file.names().into_iter().filter(|name| name.ends_with(suffix));
            names.min_by_key(|name| name.len()).map(|name| tensor(&file, name))
        };
        let need = |suffix: &str| find(suffix).unwrap_or_else(|| Err(format!("no tensor …{suffix}").into()));
        let llama = format!("layers.{layer}.mlp.");
        let bert = format!("layer.{layer}.");
        let (up, up_bias, down, down_bias) = if let Some(gate) = find(&format!("{llama}gate_proj.weight")) {
            let (mut up, rest) = (gate?, need(&format!("{llama}up_proj.weight"))?);
            up.0.extend(rest.0);
            (up, None, need(&format!("{llama}down_proj.weight"))?, None)
        } else {
            let bias = |name: String| find(&name).transpose().map(|bias| bias.map(|(values, _)| values));
            (
                need(&format!("{bert}intermediate.dense.weight"))?,
                bias(format!("{bert}intermediate.dense.bias"))?,
                need(&format!("{bert}output.dense.weight"))?,
                bias(format!("{bert}output.dense.bias"))?,
            )
        };
        let ([_, hidden], [out, intermediate]) = (up.1[..].try_into()?, down.1[..].try_into()?);
        if out != hidden || !matches!(up.0.len() / (hidden * intermediate), 1 | 2) {
            return Err(format!("{:?} and {:?} are not the shapes of one MLP", up.1, down.1).into());
        }
        Ok(Mlp { hidden, intermediate, up: up.0, up_bias, down: down.0, down_bias })
    }

    /// Weights of the table's shapes, or of SmolLM2-135M where there is no table.
    fn made_up(table: &TableData<'_>) -> Self {
        let shape = |name: &str| {
            let key = table.groups[table.weight(name)?.group as usize].key;
            Some((key.n as usize, key.k as usize))
        };
        let (rows, hidden) = shape("mlp.gate_up").or_else(|| shape("mlp.up")).unwrap_or((3072, 576));
        let intermediate = shape("mlp.down").map_or(1536, |(_, k)| k);
        // A trained weight keeps the scale of what it is multiplied with.
        let scaled = |count, seed, k: usize| -> Vec<f32> {
            values(count, seed).into_iter().map(|value| value * (3.0 / k as f32).sqrt()).collect()
        };
        let up = scaled(rows * hidden, 1, hidden);
        let down = scaled(hidden * intermediate, 2, intermediate);
        Mlp { hidden, intermediate, up, up_bias: None, down, down_bias: None }
    }

    /// The MLP in float64, with these weights in place of its own.
    fn reference(&self, x: &[f32], m: usize, up: &[f64], down: &[f64]) -> Vec<f64> {
        let up = linear(&wide(x), up, self.up_bias.as_deref(), m);
        let h = activate(&up, m, self.intermediate, self.is_gated());
        linear(&h, down, self.down_bias.as_deref(), m)
    }
}

/// The MLP's weights as the engine has them.
struct Loaded {
    up: Weight,
    down: Weight,
}

impl Loaded {
    fn new(engine: &Engine, mlp: &Mlp) -> Result<Self, Box<dyn Error>> {
        let rows = mlp.up.len() / mlp.hidden;
        let up = if mlp.is_gated() { "mlp.gate_up" } else { "mlp.up" };
        Ok(Loaded {
            up: load(engine, up, rows, mlp.hidden, &mlp.up)?,
            down: load(engine, "mlp.down", mlp.hidden, mlp.intermediate, &mlp.down)?,
        })
    }

    /// Runs `m` rows, prints where the kernels came from, and gives the errors of the kernels and of kernels and
    /// formats, relative to the output's norm.
    fn run_and_check(&self, engine: &Engine, mlp: &Mlp, m: u32) -> Result<[f64; 2], Box<dyn Error>> {
        let rows = m as usize;
        let x = values(rows * mlp.hidden, 3);
        let mut workspace =
            vec![0; engine.workspace_bytes(&self.up, m)?.max(engine.workspace_bytes(&self.down, m)?)];
        let mut up = vec![0.0f32; rows * mlp.up.len() / mlp.hidden];
        let mut y = vec![0.0f32; rows * mlp.hidden];
        let bias = mlp.up_bias.as_deref();
        let first = multiply(engine, &self.up, &x, m, bias, &mut up, &mut workspace)?;
        let h: Vec<f32> = activate(&wide(&up), rows, mlp.intermediate, mlp.is_gated())
            .iter()
            .map(|value| *value as f32)
            .collect();
        let bias = mlp.down_bias.as_deref();
        let second = multiply(engine, &self.down, &h, m, bias, &mut y, &mut workspace)?;

        let stored = mlp.reference(
            &x,
            rows,
            &dequantised(&self.up, &mlp.up, m)?,
            &dequantised(&self.down, &mlp.down, m)?,
        );
        let given = mlp.reference(&x, rows, &wide(&mlp.up), &wide(&mlp.down));
        let errors = [distance(&y, &stored), distance(&y, &given)];
        println!("m={m}: relative error {:.5} of the kernels, {:.5} with the formats'", errors[0], errors[1]);
        println!("  up    {} by {}", first.provenance, first.config);
        println!("  down  {} by {}", second.provenance, second.config);
        Ok(errors)
    }
}

/// Runs a weight into the output type it was tuned for, and widens that to f32.
fn multiply<'e>(
    engine: &'e Engine,
    weight: &Weight,
    x: &[f32],
    m: u32,
    bias: Option<&[f32]>,
    output: &mut [f32],
    workspace: &mut [u8],
) -> Result<Choice<'e>, RunError> {
    if weight.key_at(m).out == OutType::F32 {
        return engine.run(weight, Activation::F32(x), m, bias, Output::F32(output), workspace);
    }
    let mut narrow = vec![0u16; output.len()];
    let choice = engine.run(weight, Activation::F32(x), m, bias, Output::Bf16(&mut narrow), workspace)?;
    for (wide, narrow) in output.iter_mut().zip(narrow) {
        *wide = f32::from_bits(u32::from(narrow) << 16);
    }
    Ok(choice)
}

/// The values that a loaded weight stands for with `m` rows.
fn dequantised(weight: &Weight, values: &[f32], m: u32) -> Result<Vec<f64>, Box<dyn Error>> {
    let (key, n, k) = (weight.key_at(m), weight.packed().n(), weight.packed().k());
    let quantized = Quantized::quantize(values, n, k, key.b, key.scaling, &QuantizeOptions::default())?;
    let mut all = vec![0.0; n * k];
    for (row, values) in all.chunks_exact_mut(k).enumerate() {
        quantized.dequantize_row_f64(row, values);
    }
    Ok(all)
}

fn distance(found: &[f32], expected: &[f64]) -> f64 {
    let wrong: f64 = expected.iter().zip(found).map(|(e, f)| (e - f64::from(*f)).powi(2)).sum();
    let norm: f64 = expected.iter().map(|e| e * e).sum();
    (wrong / norm).sqrt()
}

fn wide(values: &[f32]) -> Vec<f64> {
    values.iter().map(|value| f64::from(*value)).collect()
}

/// By the table's plan if it has one of this shape, else in a format and layout that every processor runs.
fn load(engine: &Engine, name: &str, n: usize, k: usize, values: &[f32]) -> Result<Weight, LoadError> {
    match engine.load(name, values) {
        Ok(weight) if (weight.packed().n(), weight.packed().k()) == (n, k) => Ok(weight),
        Ok(_) | Err(LoadError::UnknownWeight | LoadError::Length { .. }) => {
            let format = if k.is_multiple_of(32) { Format::MxFp6E2m3 } else { Format::Fp8E4m3 };
            engine.load_unplanned(n as u32, k as u32, format, Layout::Panel16, values)
        }
        Err(error) => Err(error),
    }
}

/// `x · wᵀ + bias`, with K taken from `x`.
fn linear(x: &[f64], w: &[f64], bias: Option<&[f32]>, m: usize) -> Vec<f64> {
    let k = x.len() / m;
    let rows = || w.chunks_exact(k).enumerate();
    let dot = |x: &[f64], w: &[f64]| x.iter().zip(w).map(|(x, w)| x * w).sum::<f64>();
    let with_bias = |n: usize| bias.map_or(0.0, |bias| f64::from(bias[n]));
    x.chunks_exact(k).flat_map(|x| rows().map(move |(n, w)| dot(x, w) + with_bias(n))).collect()
}

/// SiLU(gate)·up of rows `[gate, up]`, or GELU of rows `[up]`.
fn activate(up: &[f64], m: usize, intermediate: usize, gated: bool) -> Vec<f64> {
    let silu = |x: f64| x / (1.0 + (-x).exp());
    if gated {
        let halves = up.chunks_exact(up.len() / m).map(|row| row.split_at(intermediate));
        return halves.flat_map(|(gate, up)| gate.iter().zip(up).map(|(g, u)| silu(*g) * u)).collect();
    }
    // The tanh form (Hendrycks and Gimpel 2016), within 1e-3 of the error-function form.
    let gelu = |x: f64| 0.5 * x * (1.0 + (0.797_884_560_802_865_4 * (x + 0.044_715 * x * x * x)).tanh());
    up.iter().map(|x| gelu(*x)).collect()
}

/// A tensor's values as f32, and its shape.
fn tensor(file: &SafeTensors<'_>, name: &str) -> Result<(Vec<f32>, Vec<usize>), Box<dyn Error>> {
    let tensor = file.tensor(name)?;
    let data = tensor.data();
    let values = match tensor.dtype() {
        Dtype::F32 => data.chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect(),
        Dtype::BF16 => data
            .chunks_exact(2)
            .map(|b| f32::from_bits(u32::from(u16::from_le_bytes([b[0], b[1]])) << 16))
            .collect(),
        other => return Err(format!("{name}: {other:?} is neither F32 nor BF16").into()),
    };
    Ok((values, tensor.shape().to_vec()))
}

/// Values in [-1, 1), the same on every host.
fn values(count: usize, seed: u64) -> Vec<f32> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let step = |_| {
        state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        (state >> 40) as f32 / (1 << 23) as f32 - 1.0
    };
    (0..count).map(step).collect()
}
