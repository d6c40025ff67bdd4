//! Real weights from safetensors files.

use std::fs::File;
use std::path::{Path, PathBuf};

use half::{bf16, f16};
use memmap2::Mmap;
use safetensors::tensor::{Dtype, Metadata, SafeTensors};

use crate::diag::{BadInput, Fault};

/// Safetensors files, mapped into memory: one, or the shards of a model.
pub struct WeightFile {
    files: Vec<Mapped>,
}

/// One file, its header read.
struct Mapped {
    path: PathBuf,
    bytes: Mmap,
    header: Metadata,
    /// Where the tensors' data begin.
    data: usize,
}

/// A tensor of a file.
struct Tensor<'a> {
    dtype: Dtype,
    shape: &'a [usize],
    data: &'a [u8],
}

/// Which tensors make up a weight, and what it has to be.
#[derive(Clone, Copy, Debug)]
pub struct Stack<'a> {
    /// Name of the GEMM, for messages.
    pub gemm: &'a str,
    /// Names of the tensors, in order along N.
    pub tensors: &'a [String],
    /// Output channels of this rank.
    pub n: usize,
    /// Input channels of this rank.
    pub k: usize,
    /// Ranks the model is split over.
    pub shards: usize,
}

/// The rows of one tensor that belong to a weight.
struct Part<'a> {
    tensor: Tensor<'a>,
    rows: usize,
    decode: Decoder,
}

impl WeightFile {
    /// Maps the files and checks their headers.
    ///
    /// # Errors
    /// Every file that cannot be read or is not safetensors.
    pub fn open(paths: &[PathBuf]) -> Result<Self, BadInput> {
        let mut files = Vec::new();
        let mut faults = Vec::new();
        for path in paths {
            match map(path) {
                Ok(bytes) => match SafeTensors::read_metadata(&bytes) {
                    Ok((length, header)) => {
                        let data = size_of::<u64>() + length;
                        files.push(Mapped { path: path.clone(), bytes, header, data });
                    }
                    Err(error) => faults.push(Fault::of_file(
                        path,
                        format!("not a safetensors file: {error}"),
                        "give the model.safetensors of the model that the declaration describes",
                    )),
                },
                Err(error) => {
                    faults.push(Fault::of_file(path, error.to_string(), "check the path given to --weights"))
                }
            }
        }
        if faults.is_empty() { Ok(WeightFile { files }) } else { Err(BadInput(faults)) }
    }

    /// The files, as they were named.
    pub fn paths(&self) -> Vec<PathBuf> {
        self.files.iter().map(|file| file.path.clone()).collect()
    }

    /// The weight of one GEMM: the named tensors stacked along N, or this rank's part of them. `{layer}` in a name
    /// stands for the first layer that has them all, `{expert}` for expert 0. A tensor is taken whole, or as the first of `shards` parts: of its rows where K is whole
    /// (column-parallel), of its columns where K is a part (row-parallel).
    ///
    /// # Errors
    /// As [`WeightFile::check`].
    pub fn load(&self, stack: &Stack<'_>) -> Result<Vec<f32>, BadInput> {
        let mut values = Vec::with_capacity(stack.n * stack.k);
        for part in self.locate(stack)? {
            let columns = part.tensor.shape[1];
            for row in 0..part.rows {
                (part.decode)(&part.tensor, row * columns, stack.k, &mut values);
            }
        }
        Ok(values)
    }

    /// Whether [`WeightFile::load`] would succeed, without reading the values.
    ///
    /// # Errors
    /// Every tensor that is missing, has another shape or an element type without values, and a stack that does not
    /// have N rows.
    pub fn check(&self, stack: &Stack<'_>) -> Result<(), BadInput> {
        self.locate(stack).map(|_| ())
    }

    fn locate(&self, stack: &Stack<'_>) -> Result<Vec<Part<'_>>, BadInput> {
        let Stack { gemm, tensors, n, k, shards } = *stack;
        let help = format!("gemm {gemm:?} is declared with n = {n}, k = {k}; correct its `tensors`, n or k");
        let first = &self.files[0].path;
        let mut parts = Vec::new();
        let mut faults = Vec::new();
        let mut fault = |file: &Path, field: &str, message: String| {
            faults.push(Fault {
                file: file.into(),
                line: None,
                field: field.into(),
                message,
                help: help.clone(),
            });
        };
        let layer = self.first_layer(tensors);
        let names: Vec<String> = tensors.iter().map(|name| in_layer(name, layer)).collect();
        for name in &names {
            let Some((file, tensor)) = self.find(name) else {
                fault(first, name, "no tensor of that name".into());
                continue;
            };
            let [rows, columns] = *tensor.shape else {
                fault(file, name, format!("has shape {:?}, not two dimensions", tensor.shape));
                continue;
            };
            let rows = if columns == k && rows % shards == 0 {
                // The whole of K: column-parallel, or, where it has just N rows already, not sharded at all.
                if tensors.len() == 1 && rows == n { rows } else { rows / shards }
            } else if columns == k * shards {
                rows
            } else {
                fault(file, name, format!("has shape {:?}", tensor.shape));
                continue;
            };
            match decoder(tensor.dtype) {
                Some(decode) => parts.push(Part { tensor, rows, decode }),
                None => {
                    fault(file, name, format!("has element type {:?}, not F32, F16 or BF16", tensor.dtype))
                }
            }
        }
        let rows: usize = parts.iter().map(|part| part.rows).sum();
        if parts.len() == tensors.len() && rows != n {
            fault(first, &names.join(" + "), format!("{rows} rows together, not {n}"));
        }
        if faults.is_empty() { Ok(parts) } else { Err(BadInput(faults)) }
    }

    /// The first layer that has all the tensors: a weight may exist in some layers only. 0 if none has.
    fn first_layer(&self, tensors: &[String]) -> usize {
        const MOST_LAYERS: usize = 1024;
        let complete =
            |layer: &usize| tensors.iter().all(|name| self.find(&in_layer(name, *layer)).is_some());
        (0..MOST_LAYERS).find(complete).unwrap_or(0)
    }

    fn find(&self, name: &str) -> Option<(&Path, Tensor<'_>)> {
        self.files.iter().find_map(|file| {
            let info = file.header.info(name)?;
            let (from, to) = info.data_offsets;
            let data = &file.bytes[file.data + from..file.data + to];
            Some((file.path.as_path(), Tensor { dtype: info.dtype, shape: &info.shape, data }))
        })
    }
}

fn in_layer(name: &str, layer: usize) -> String {
    name.replace("{layer}", &layer.to_string()).replace("{expert}", "0")
}

fn map(path: &Path) -> std::io::Result<Mmap> {
    let file = File::open(path)?;
    if file.metadata()?.is_dir() {
        return Err(std::io::Error::other("is a folder"));
    }
    // SAFETY: the mapping is read-only and private to this value. Another process truncating the file meanwhile would
    // end this one with SIGBUS: no memory is corrupted, and the journal keeps what was measured.
    unsafe { Mmap::map(&file) }
}

type Decoder = fn(&Tensor<'_>, usize, usize, &mut Vec<f32>);

/// Appends `count` elements from element `first` on.
fn decoder(dtype: Dtype) -> Option<Decoder> {
    fn elements<const SIZE: usize>(
        tensor: &Tensor<'_>,
        first: usize,
        count: usize,
        out: &mut Vec<f32>,
        decode: impl Fn([u8; SIZE]) -> f32,
    ) {
        let bytes = &tensor.data[first * SIZE..(first + count) * SIZE];
        out.extend(bytes.chunks_exact(SIZE).map(|b| decode(b.try_into().expect("chunks have this size"))));
    }
    match dtype {
        Dtype::F32 => Some(|t, first, count, out| elements(t, first, count, out, f32::from_le_bytes)),
        Dtype::BF16 => {
            Some(|t, first, count, out| elements(t, first, count, out, |b| bf16::from_le_bytes(b).to_f32()))
        }
        Dtype::F16 => {
            Some(|t, first, count, out| elements(t, first, count, out, |b| f16::from_le_bytes(b).to_f32()))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use safetensors::tensor::TensorView;
    use std::collections::HashMap;

    fn file(dir: &Path, tensors: &[(&str, &[usize])]) -> PathBuf {
        let data: Vec<(String, Vec<u8>, Vec<usize>)> = tensors
            .iter()
            .map(|(name, shape)| {
                let count: usize = shape.iter().product();
                let bytes = (0..count).flat_map(|i| (i as f32).to_le_bytes()).collect();
                (name.to_string(), bytes, shape.to_vec())
            })
            .collect();
        let views: HashMap<String, TensorView<'_>> = data
            .iter()
            .map(|(name, bytes, shape)| {
                (name.clone(), TensorView::new(Dtype::F32, shape.clone(), bytes).unwrap())
            })
            .collect();
        let path = dir.join("model.safetensors");
        std::fs::write(&path, safetensors::serialize(views, None).unwrap()).unwrap();
        path
    }

    #[test]
    fn tensors_are_stacked_and_sharded() {
        let dir = tempfile::tempdir().unwrap();
        let path = file(dir.path(), &[("l.0.q", &[4, 2]), ("l.0.k", &[2, 2]), ("l.0.o", &[3, 4])]);
        let weights = WeightFile::open(&[path]).unwrap();
        let load = |tensors: &[&str], n, k, shards| {
            let tensors: Vec<String> = tensors.iter().map(|name| name.to_string()).collect();
            weights.load(&Stack { gemm: "g", tensors: &tensors, n, k, shards }).unwrap()
        };
        let whole = load(&["l.{layer}.q", "l.{layer}.k"], 6, 2, 1);
        assert_eq!(whole, [0., 1., 2., 3., 4., 5., 6., 7., 0., 1., 2., 3.]);
        assert_eq!(load(&["l.0.q", "l.0.k"], 3, 2, 2), [0., 1., 2., 3., 0., 1.]);
        assert_eq!(load(&["l.0.o"], 3, 2, 2), [0., 1., 4., 5., 8., 9.]);
    }

    #[test]
    fn other_shapes_and_missing_tensors_are_reported_together() {
        let dir = tempfile::tempdir().unwrap();
        let path = file(dir.path(), &[("q", &[4, 3])]);
        let weights = WeightFile::open(&[path]).unwrap();
        let (two, one) = (["q".to_string(), "missing".into()], ["q".to_string()]);
        let stack = |tensors, k| Stack { gemm: "qkv", tensors, n: 8, k, shards: 1 };
        let faults = weights.check(&stack(&two, 2)).unwrap_err();
        assert_eq!(faults.0.len(), 2);
        let text = faults.to_string();
        assert!(text.contains("q: has shape [4, 3]"), "{text}");
        assert!(text.contains("missing: no tensor of that name"), "{text}");
        assert!(text.contains("n = 8, k = 2"), "{text}");
        let short = weights.check(&stack(&one, 3)).unwrap_err().to_string();
        assert!(short.contains("4 rows together, not 8"), "{short}");
    }

    #[test]
    fn what_is_not_safetensors_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.safetensors");
        std::fs::write(&path, [0xffu8; 64]).unwrap();
        let both = WeightFile::open(&[path, dir.path().join("none")]).err().unwrap();
        assert_eq!(both.0.len(), 2);
    }
}
