//! A real small model, all of its GEMMs through dispatch: a BERT-style sentence encoder such as all-MiniLM-L6-v2.
//!
//! It embeds tokens, runs every layer (attention, GELU, layer norms) with each linear layer as one [`Engine::run`], and says
//! which rung of the ladder each GEMM's kernel came from. The sentence's embedding is compared with that of the same model in
//! float64 on the weights as they are in the file, which is what kernels and formats together cost.
//!
//! ```text
//! cargo run --release -p tilewright --example whole_model -- model.safetensors [--table TABLE.toml] [--m 7,32,96]
//! ```
//!
//! The table is loaded at run time; without one, every GEMM takes the default rung. `ci/whole_model.sh` fetches the model, tunes
//! it for a few seconds and runs this.

use std::collections::BTreeMap;
use std::error::Error;
use std::path::Path;

use safetensors::{Dtype, SafeTensors};
use tilewright_dispatch::exec::{Engine, LoadError, Weight};
use tilewright_dispatch::kernels::cpu::{Activation, Output};
use tilewright_dispatch::kernels::{Format, Layout};
use tilewright_dispatch::table::TableData;

/// Smallest cosine between the two embeddings of a sentence that passes.
const LEAST_COSINE: f64 = 0.99;

/// "The quick brown fox jumps over the lazy dog." in the vocabulary of bert-base-uncased; a batch repeats it.
const TOKENS: [usize; 12] = [101, 1996, 4248, 2829, 4419, 14523, 2058, 1996, 13971, 3899, 1012, 102];

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let file = arguments.next().ok_or("give a model.safetensors")?;
    let (mut table, mut sizes) = (&TableData::EMPTY, vec![7, 32, 96]);
    while let Some(argument) = arguments.next() {
        let value = arguments.next().ok_or_else(|| format!("{argument} needs a value"))?;
        match argument.as_str() {
            "--table" => table = tilewright::table::load(Path::new(&value))?,
            "--m" => sizes = value.split(',').map(str::parse).collect::<Result<Vec<u32>, _>>()?,
            _ => return Err(format!("{argument}: known are --table and --m").into()),
        }
    }
    let bytes = std::fs::read(&file).map_err(|error| format!("{file}: {error}"))?;
    let tensors = SafeTensors::deserialize(&bytes)?;
    let engine = Engine::new(table);
    let model = Model::read(&tensors, &engine)?;
    let (layers, hidden) = (model.layers.len(), model.hidden);
    println!(
        "{layers} layers of width {hidden}, {} of {} weights by a plan of the table",
        model.planned,
        6 * layers
    );
    for m in sizes {
        let ids: Vec<usize> = TOKENS.iter().copied().cycle().take(m as usize).collect();
        let mut rungs = BTreeMap::new();
        let fast = model.embed(&ids, &mut |linear, x| linear.run(&engine, x, m, &mut rungs))?;
        let exact = model.embed(&ids, &mut |linear, x| Ok(linear.exact(x)))?;
        let cosine = cosine(&fast, &exact);
        println!("m={m}: cosine {cosine:.5} with the model in float64");
        for (rung, (gemms, kernel)) in &rungs {
            println!("  {gemms:>3} GEMMs {rung:<24} for instance {kernel}");
        }
        if cosine.is_nan() || cosine < LEAST_COSINE {
            return Err(format!("m={m}: the embedding is off: cosine {cosine}, not {LEAST_COSINE}").into());
        }
    }
    println!("{:?}", engine.table().counters().read());
    Ok(())
}

/// How many GEMMs a rung answered, with one of its kernels.
type Rungs = BTreeMap<String, (usize, String)>;

/// Multiplies an activation (rows of `k`) with a linear layer.
type Multiply<'m> = dyn FnMut(&Linear, &[f64]) -> Result<Vec<f64>, Box<dyn Error>> + 'm;

/// A linear layer: N × K values, N biases, and the weight as the engine has it.
struct Linear {
    n: usize,
    k: usize,
    values: Vec<f32>,
    bias: Vec<f32>,
    weight: Weight,
}

impl Linear {
    fn run(&self, engine: &Engine, x: &[f64], m: u32, rungs: &mut Rungs) -> Result<Vec<f64>, Box<dyn Error>> {
        let x: Vec<f32> = x.iter().map(|value| *value as f32).collect();
        let mut y = vec![0.0f32; m as usize * self.n];
        let mut workspace = vec![0; engine.workspace_bytes(&self.weight, m)?];
        let output = Output::F32(&mut y);
        let choice =
            engine.run(&self.weight, Activation::F32(&x), m, Some(&self.bias), output, &mut workspace)?;
        // Distances differ from weight to weight: the rung is what is counted.
        let rung = choice.provenance.to_string();
        let rung = rung.split(" (").next().unwrap_or(&rung).to_owned();
        rungs.entry(rung).or_insert((0, choice.config.to_string())).0 += 1;
        Ok(y.into_iter().map(f64::from).collect())
    }

    fn exact(&self, x: &[f64]) -> Vec<f64> {
        let rows = x.chunks_exact(self.k);
        rows.flat_map(|x| {
            let outputs = self.values.chunks_exact(self.k).zip(&self.bias);
            outputs.map(move |(w, bias)| {
                x.iter().zip(w).map(|(x, w)| x * f64::from(*w)).sum::<f64>() + f64::from(*bias)
            })
        })
        .collect()
    }
}

/// Weight and bias of a layer norm.
struct Norm([Vec<f32>; 2]);

impl Norm {
    fn apply(&self, x: &mut [f64]) {
        let [weight, bias] = &self.0;
        for row in x.chunks_exact_mut(weight.len()) {
            let mean = row.iter().sum::<f64>() / row.len() as f64;
            let variance = row.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / row.len() as f64;
            for ((x, weight), bias) in row.iter_mut().zip(weight).zip(bias) {
                *x = (*x - mean) / (variance + 1e-12).sqrt() * f64::from(*weight) + f64::from(*bias);
            }
        }
    }
}

struct Layer {
    /// Query, key, value, attention output, up, down.
    linears: [Linear; 6],
    norms: [Norm; 2],
}

struct Model {
    hidden: usize,
    /// Words, positions and types.
    embeddings: [Vec<f32>; 3],
    norm: Norm,
    layers: Vec<Layer>,
    /// Weights that were loaded by a plan.
    planned: usize,
}

impl Model {
    fn read(file: &SafeTensors<'_>, engine: &Engine) -> Result<Self, Box<dyn Error>> {
        let embedding = |name: &str| tensor(file, &format!("embeddings.{name}_embeddings.weight"));
        let (words, shape) = embedding("word")?;
        let hidden = *shape.last().ok_or("word embeddings without a width")?;
        let embeddings = [words, embedding("position")?.0, embedding("token_type")?.0];
        let norm = |name: &str| -> Result<Norm, Box<dyn Error>> {
            Ok(Norm([
                tensor(file, &format!("{name}.LayerNorm.weight"))?.0,
                tensor(file, &format!("{name}.LayerNorm.bias"))?.0,
            ]))
        };
        let mut planned = 0;
        let mut linear = |name: String, plan: &str| -> Result<Linear, Box<dyn Error>> {
            let (values, shape) = tensor(file, &format!("{name}.weight"))?;
            let [n, k] = shape[..].try_into().map_err(|_| format!("{name}: not a matrix"))?;
            let (weight, by_plan) = load(engine, plan, n, k, &values)?;
            planned += usize::from(by_plan);
            Ok(Linear { n, k, bias: tensor(file, &format!("{name}.bias"))?.0, values, weight })
        };
        let mut layers = Vec::new();
        while tensor(file, &format!("encoder.layer.{}.output.dense.weight", layers.len())).is_ok() {
            let at = format!("encoder.layer.{}", layers.len());
            let own = |part: &str| format!("{at}.attention.self.{part}");
            layers.push(Layer {
                linears: [
                    linear(own("query"), "attn.q")?,
                    linear(own("key"), "attn.k")?,
                    linear(own("value"), "attn.v")?,
                    linear(format!("{at}.attention.output.dense"), "attn.out")?,
                    linear(format!("{at}.intermediate.dense"), "mlp.up")?,
                    linear(format!("{at}.output.dense"), "mlp.down")?,
                ],
                norms: [norm(&format!("{at}.attention.output"))?, norm(&format!("{at}.output"))?],
            });
        }
        if layers.is_empty() {
            return Err("no encoder.layer.0: this runs BERT-style encoders".into());
        }
        Ok(Model { hidden, embeddings, norm: norm("embeddings")?, layers, planned })
    }

    /// The mean of the last layer's rows.
    fn embed(&self, ids: &[usize], multiply: &mut Multiply<'_>) -> Result<Vec<f64>, Box<dyn Error>> {
        let width = self.hidden;
        let [words, positions, types] = &self.embeddings;
        let row = |table: &[f32], index: usize| -> Result<Vec<f64>, Box<dyn Error>> {
            let row = table.get(index * width..(index + 1) * width).ok_or("a token outside of the model")?;
            Ok(row.iter().map(|value| f64::from(*value)).collect())
        };
        let mut x = Vec::new();
        for (position, id) in ids.iter().enumerate() {
            let parts = [row(words, *id)?, row(positions, position)?, row(types, 0)?];
            x.extend((0..width).map(|i| parts[0][i] + parts[1][i] + parts[2][i]));
        }
        self.norm.apply(&mut x);
        for Layer { linears: [query, key, value, out, up, down], norms } in &self.layers {
            let (q, k, v) = (multiply(query, &x)?, multiply(key, &x)?, multiply(value, &x)?);
            let attended = multiply(out, &attention(&q, &k, &v, width))?;
            x.iter_mut().zip(attended).for_each(|(x, more)| *x += more);
            norms[0].apply(&mut x);
            let mut inner = multiply(up, &x)?;
            // The tanh form (Hendrycks and Gimpel 2016), within 1e-3 of the error-function form.
            let gelu =
                |x: f64| 0.5 * x * (1.0 + (0.797_884_560_802_865_4 * (x + 0.044_715 * x.powi(3))).tanh());
            inner.iter_mut().for_each(|x| *x = gelu(*x));
            let outer = multiply(down, &inner)?;
            x.iter_mut().zip(outer).for_each(|(x, more)| *x += more);
            norms[1].apply(&mut x);
        }
        let rows = ids.len() as f64;
        Ok((0..width).map(|i| x.iter().skip(i).step_by(width).sum::<f64>() / rows).collect())
    }
}

/// Attention of heads that are 32 wide, each row looking at all rows.
fn attention(q: &[f64], k: &[f64], v: &[f64], width: usize) -> Vec<f64> {
    const HEAD: usize = 32;
    let mut out = vec![0.0; q.len()];
    for head in 0..width / HEAD {
        let part = |x: &'_ [f64], row: usize| -> Vec<f64> { x[row * width + head * HEAD..][..HEAD].to_vec() };
        for row in 0..q.len() / width {
            let query = part(q, row);
            let score = |other: usize| {
                let dot: f64 = query.iter().zip(part(k, other)).map(|(q, k)| q * k).sum();
                dot / (HEAD as f64).sqrt()
            };
            let scores: Vec<f64> = (0..k.len() / width).map(score).collect();
            let most = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let weights: Vec<f64> = scores.iter().map(|score| (score - most).exp()).collect();
            let total: f64 = weights.iter().sum();
            for (other, weight) in weights.iter().enumerate() {
                for (i, value) in part(v, other).into_iter().enumerate() {
                    out[row * width + head * HEAD + i] += weight / total * value;
                }
            }
        }
    }
    out
}

/// By the table's plan if it has one of this shape (fused or not, a table's weight fits only if N and K do), else in a format
/// and layout that every processor runs.
fn load(
    engine: &Engine,
    name: &str,
    n: usize,
    k: usize,
    values: &[f32],
) -> Result<(Weight, bool), LoadError> {
    match engine.load(name, values) {
        Ok(weight) if (weight.packed().n(), weight.packed().k()) == (n, k) => Ok((weight, true)),
        Ok(_) | Err(LoadError::UnknownWeight | LoadError::Length { .. }) => {
            let format = if k.is_multiple_of(32) { Format::MxFp6E2m3 } else { Format::Fp8E4m3 };
            let weight = engine.load_unplanned(n as u32, k as u32, format, Layout::Panel16, values)?;
            Ok((weight, false))
        }
        Err(error) => Err(error),
    }
}

/// A tensor's values as f32 and its shape; names may have a prefix such as `bert.`.
fn tensor(file: &SafeTensors<'_>, name: &str) -> Result<(Vec<f32>, Vec<usize>), Box<dyn Error>> {
    let full = file.names().into_iter().find(|full| **full == *name || full.ends_with(&format!(".{name}")));
    let tensor = file.tensor(full.ok_or_else(|| format!("no tensor {name}"))?)?;
    let data = tensor.data();
    let values = match tensor.dtype() {
        Dtype::F32 => data.chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect(),
        Dtype::F16 => {
            let half = |b: &[u8]| half::f16::from_le_bytes([b[0], b[1]]).to_f32();
            data.chunks_exact(2).map(half).collect()
        }
        Dtype::BF16 => {
            let half = |b: &[u8]| half::bf16::from_le_bytes([b[0], b[1]]).to_f32();
            data.chunks_exact(2).map(half).collect()
        }
        other => return Err(format!("{name}: {other:?} is none of F32, F16 and BF16").into()),
    };
    Ok((values, tensor.shape().to_vec()))
}

fn cosine(a: &[f64], b: &[f64]) -> f64 {
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    dot(a, b) / (dot(a, a) * dot(b, b)).sqrt()
}
