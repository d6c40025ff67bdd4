//! Declarations from Hugging Face configs.
//!
//! A `config.json` says a model's sizes and its type; the type says which matrix multiplications it runs. Shapes are
//! those of one device under tensor parallelism, with q, k, v fused into one weight and gate, up into another.
//!
//! Left out: embeddings (look-ups), attention's own products of q, k and v (no weights), norms, vision and audio towers,
//! pooling and task heads, and MLA's absorbed products per head. Routers are in, with bf16 weights alone.
//!
//! Sources: the modeling files of each type in the transformers library, for names, biases and assumed sizes.

mod bert;
mod blocks;
mod build;
mod config;
mod decoder;
mod deepseek;

use std::path::{Path, PathBuf};

use tilewright_kernels::{Format, OutType};

use super::{Declaration, Notes, names, read_text};
use crate::diag::BadInput;
use build::Builder;
use config::Config;

/// The model types that are understood.
pub const MODEL_TYPES: &[&str] = &[
    "llama",
    "mistral",
    "mixtral",
    "qwen2",
    "qwen3",
    "qwen3_moe",
    "gemma",
    "gemma2",
    "gemma3",
    "gemma3_text",
    "deepseek_v2",
    "deepseek_v3",
    "gpt_oss",
    "bert",
];

/// The M values of a declaration where none are asked for.
pub const DEFAULT_M: &[u32] = &[1, 8, 16, 32, 64, 128, 256, 1024, 4096];

/// The largest error of a format where none is asked for.
pub const DEFAULT_MAX_ERROR: f64 = 0.05;

/// What a declaration is made for.
#[derive(Clone, Debug)]
pub struct Options {
    /// Devices that each weight is sharded over.
    pub tensor_parallel: u32,
    /// The model's name; otherwise it follows from the config.
    pub name: Option<String>,
    /// Values of M.
    pub m: Vec<u32>,
    /// Formats, most wanted first.
    pub formats: Vec<Format>,
    /// The largest error of a format.
    pub max_error: Option<f64>,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            tensor_parallel: 1,
            name: None,
            m: DEFAULT_M.into(),
            formats: super::DEFAULT_FORMATS.into(),
            max_error: Some(DEFAULT_MAX_ERROR),
        }
    }
}

/// A declaration made from a config, with the comments that explain it.
#[derive(Clone, Debug)]
pub struct Imported {
    /// The declaration.
    pub declaration: Declaration,
    /// Its comments.
    pub notes: Notes,
}

impl Imported {
    /// The file to write.
    pub fn to_toml(&self) -> String {
        self.declaration.to_toml_with(&self.notes)
    }
}

/// Reads a config and makes a declaration of it.
///
/// # Errors
/// Every key that is missing or unusable; after that, every size that `tensor_parallel` does not divide.
pub fn read(path: &Path, options: &Options) -> Result<Imported, BadInput> {
    parse(path, &read_text(path)?, options)
}

/// The same from a config's text; `path` is what messages name it by.
///
/// # Errors
/// As [`read`].
pub fn parse(path: &Path, text: &str, options: &Options) -> Result<Imported, BadInput> {
    if options.tensor_parallel == 0 {
        return Err(BadInput::one(path, "--tp 0 is no number of devices", "leave it out for one device"));
    }
    let mut config = Config::parse(path, text)?;
    let Some(model_type) = config.string("model_type").map(str::to_owned) else {
        config.fault("model_type", "missing", format!("known types: {}", MODEL_TYPES.join(", ")));
        return Err(config.finish().expect_err("a fault was noted"));
    };
    let name = options.name.clone().unwrap_or_else(|| name_of(path, &config, &model_type, options));
    if let Some(why) = names::fault(&name) {
        return Err(BadInput::one(path, format!("--name {name:?} {why}"), names::HELP));
    }
    let source = config
        .string("_name_or_path")
        .filter(|origin| !origin.starts_with(['/', '.', '~']) && !origin.contains(['\\', ':']))
        .map(|origin| format!("Hugging Face config of {origin}"));
    let dtype = config.string("torch_dtype").or(config.string("dtype"));
    let out = if matches!(dtype, Some("bfloat16" | "float16")) { OutType::Bf16 } else { OutType::F32 };
    let (gemms, mut notes) = (Vec::new(), Notes::default());
    notes.header = vec![command(&name, options)];
    let mut builder = Builder { config: &mut config, options, out, gemms, notes };
    match model_type.as_str() {
        "deepseek_v2" | "deepseek_v3" => deepseek::gemms(&mut builder)?,
        "bert" => bert::gemms(&mut builder)?,
        other => match decoder::traits(other) {
            Some(traits) => decoder::gemms(&mut builder, &traits)?,
            None => {
                let message = format!("{} is no known type of model", super::document::quoted(other));
                let help = format!("known types: {}; or declare the GEMMs by hand", MODEL_TYPES.join(", "));
                builder.config.fault("model_type", message, help);
            }
        },
    }
    builder.read()?;
    builder.general_remarks();
    let Builder { gemms, notes, .. } = builder;
    let file = PathBuf::from(format!("{name}.toml"));
    let declaration =
        Declaration { file, model: name, tensor_parallel: options.tensor_parallel, source, gemms, hash: 0 };
    let text = declaration.to_toml_with(&notes);
    match Declaration::parse(&declaration.file, &text) {
        Ok(declaration) => Ok(Imported { declaration, notes }),
        // Sizes beyond bounds, or options that a declaration does not allow: the file would be refused when read.
        Err(BadInput(mut faults)) => {
            for fault in &mut faults {
                (fault.file, fault.line) = (path.into(), None);
                fault.message.insert_str(0, "the declaration made from it would be refused: ");
            }
            Err(BadInput(faults))
        }
    }
}

/// A name from the model's own, the file's or the folder's, with the number of devices where there are several.
fn name_of(path: &Path, config: &Config<'_>, model_type: &str, options: &Options) -> String {
    let tp = options.tensor_parallel;
    let suffix = if tp > 1 { format!("-tp{tp}") } else { String::new() };
    let own = config.string("_name_or_path").and_then(|origin| origin.rsplit('/').next());
    let stem = path.file_stem().and_then(|stem| stem.to_str()).filter(|stem| *stem != "config");
    let folder = path.parent().and_then(Path::file_name).and_then(|folder| folder.to_str());
    let name = [own, stem, folder, Some(model_type), Some("model")]
        .into_iter()
        .flatten()
        .map(names::sanitised)
        .find(|name| !name.is_empty())
        .unwrap_or_default();
    let kept: String = name.chars().take(names::LONGEST - suffix.len()).collect();
    kept + &suffix
}

/// How the file was made: what differs from the defaults.
fn command(name: &str, options: &Options) -> String {
    let plain = Options::default();
    let mut command = format!("tilewright shapes from-hf config.json --name {name}");
    if options.tensor_parallel != plain.tensor_parallel {
        command += &format!(" --tp {}", options.tensor_parallel);
    }
    if options.m != plain.m {
        let m: Vec<String> = options.m.iter().map(u32::to_string).collect();
        command += &format!(" --m {}", m.join(","));
    }
    if options.formats != plain.formats {
        let formats: Vec<&str> = options.formats.iter().map(|format| format.name()).collect();
        command += &format!(" --formats {}", formats.join(","));
    }
    if let Some(error) = options.max_error.filter(|_| options.max_error != plain.max_error) {
        command += &format!(" --max-error {error}");
    }
    format!("Made by `{command}`. Edit it freely.")
}
