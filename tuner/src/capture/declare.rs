//! From recorded requests to a declaration.

use std::collections::BTreeMap;
use std::path::PathBuf;

use tilewright_kernels::{Format, OutType};

use super::Request;
use crate::diag::BadInput;
use crate::shapes::{Declaration, Gemm, MPoint, Notes, name_of};

/// How requests are declared.
#[derive(Clone, Debug)]
pub struct Options {
    /// The model's name; the recorded one if there is none.
    pub name: Option<String>,
    /// Most values of M for one GEMM.
    pub points: usize,
    /// The model's declaration, for names, formats and quality bounds of the GEMMs it has.
    pub like: Option<Declaration>,
}

/// What makes one GEMM: formats and layouts are the tuner's to choose among.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Shape {
    n: u32,
    k: u32,
    out: OutType,
    bias: bool,
    deterministic: bool,
    activation: Format,
}

/// Calls of one shape.
#[derive(Debug, Default)]
struct Calls {
    by_m: BTreeMap<u32, u64>,
    by_format: BTreeMap<Format, u64>,
}

impl Calls {
    fn all(&self) -> u64 {
        self.by_m.values().sum()
    }
}

/// Makes a declaration, and its text.
///
/// # Errors
/// If nothing was recorded, or the declaration would be faulty.
pub fn declare(requests: &[Request], options: &Options) -> Result<(Declaration, String), BadInput> {
    let mut shapes: BTreeMap<Shape, Calls> = BTreeMap::new();
    for request in requests.iter().filter(|request| request.calls > 0) {
        let calls = shapes.entry(shape(request)).or_default();
        *calls.by_m.entry(request.m).or_default() += request.calls;
        *calls.by_format.entry(request.format).or_default() += request.calls;
    }
    let recorded = requests.iter().find(|request| !request.model.is_empty());
    let model = match (&options.name, recorded) {
        (Some(name), _) => name.clone(),
        (None, Some(request)) => format!("{}-captured", name_of(&request.model)),
        (None, None) => "captured".to_owned(),
    };
    let file = PathBuf::from(format!("{model}.toml"));
    if shapes.is_empty() {
        return Err(BadInput::one(
            &file,
            "nothing was recorded",
            "let the engine run with TILEWRIGHT_RECORD set",
        ));
    }
    let common = shapes.values().map(Calls::all).fold(0, gcd);
    let gemms = shapes.iter().map(|(shape, calls)| gemm(shape, calls, common, options)).collect();
    let declaration = Declaration {
        file,
        model,
        tensor_parallel: recorded.map_or(1, |request| request.tensor_parallel.max(1)),
        source: Some("requests recorded by an engine".into()),
        gemms: unique(gemms),
        hash: 0,
    };
    let header = format!(
        "Made by `tilewright shapes from-capture`. `count` is the calls of a GEMM over {common}, what all counts have in common; the \
         weights of `m` are shares of the rows."
    );
    let text = declaration.to_toml_with(&Notes { header: vec![header], gemms: Vec::new() });
    Ok((Declaration::parse(&declaration.file, &text)?, text))
}

fn shape(request: &Request) -> Shape {
    let Request { n, k, out, bias, deterministic, activation, .. } = *request;
    // Where both are of one MX format, the tuner chose to quantise a bf16 activation.
    let activation =
        if activation.is_mx() && activation == request.format { Format::Bf16 } else { activation };
    Shape { n, k, out, bias, deterministic, activation }
}

fn gemm(shape: &Shape, calls: &Calls, common: u64, options: &Options) -> Gemm {
    let Shape { n, k, out, bias, deterministic, activation } = *shape;
    let mut formats: Vec<(Format, u64)> = calls.by_format.iter().map(|(f, calls)| (*f, *calls)).collect();
    formats.sort_by_key(|(format, calls)| (u64::MAX - calls, *format));
    let known = options.like.as_ref().and_then(|like| {
        let same = |gemm: &&Gemm| (gemm.n, gemm.k, gemm.out, gemm.bias) == (n, k, out, bias);
        like.gemms.iter().find(same)
    });
    Gemm {
        name: known.map_or_else(|| format!("n{n}-k{k}"), |gemm| gemm.name.clone()),
        line: 0,
        n,
        k,
        count: (calls.all() / common).max(1),
        m: points(&calls.by_m, options.points),
        formats: known
            .map_or_else(|| formats.iter().map(|(format, _)| *format).collect(), |gemm| gemm.formats.clone()),
        activation: known.map_or(activation, |gemm| gemm.activation),
        out,
        bias,
        max_error: known.and_then(|gemm| gemm.max_error),
        two_copies_mib: known.and_then(|gemm| gemm.two_copies_mib),
        deterministic: deterministic || known.is_some_and(|gemm| gemm.deterministic),
        tensors: known.map_or_else(Vec::new, |gemm| gemm.tensors.clone()),
    }
}

/// At most `most` values of M with the rows that passed at them or near them: equal steps on a logarithmic scale, each
/// standing for the M of its own that most rows passed at.
fn points(by_m: &BTreeMap<u32, u64>, most: usize) -> Vec<MPoint> {
    let rows = |m: u32, calls: u64| f64::from(m) * calls as f64;
    let steps = |count: usize| -> Vec<MPoint> {
        let low = f64::from(*by_m.first_key_value().map_or(&1, |(m, _)| m)).ln();
        let high = f64::from(*by_m.last_key_value().map_or(&1, |(m, _)| m)).ln();
        let step = |m: u32| {
            let share = if high > low { (f64::from(m).ln() - low) / (high - low) } else { 0.0 };
            ((share * count as f64) as usize).min(count - 1)
        };
        let mut points: Vec<(usize, MPoint, f64)> = Vec::new();
        for (m, calls) in by_m {
            let own = rows(*m, *calls);
            match points.last_mut() {
                Some((at, point, most)) if *at == step(*m) => {
                    point.weight += own;
                    if own > *most {
                        (point.m, *most) = (*m, own);
                    }
                }
                _ => points.push((step(*m), MPoint { m: *m, weight: own }, own)),
            }
        }
        points.into_iter().map(|(_, point, _)| point).collect()
    };
    let mut points = if by_m.len() <= most {
        by_m.iter().map(|(m, calls)| MPoint { m: *m, weight: rows(*m, *calls) }).collect()
    } else {
        steps(most.max(1))
    };
    let all: f64 = points.iter().map(|point| point.weight).sum();
    for point in &mut points {
        // Four digits, for it is a share of what happened once; never 0, for it did happen.
        point.weight = (point.weight / all * 1e4).round().max(1.0) / 1e4;
    }
    points
}

/// Names told apart by a number.
fn unique(mut gemms: Vec<Gemm>) -> Vec<Gemm> {
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    for gemm in &mut gemms {
        let times = seen.entry(gemm.name.clone()).or_default();
        *times += 1;
        if *times > 1 {
            gemm.name = format!("{}-{times}", gemm.name);
        }
    }
    gemms
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_values_of_m_become_few_and_no_row_is_lost() {
        let by_m: BTreeMap<u32, u64> = (1..=1000).map(|m| (m, if m == 512 { 1000 } else { 1 })).collect();
        let few = points(&by_m, 10);
        assert!(few.len() <= 10 && few.windows(2).all(|pair| pair[0].m < pair[1].m));
        assert!(few.iter().any(|point| point.m == 512), "{few:?}");
        let all: f64 = few.iter().map(|point| point.weight).sum();
        assert!((all - 1.0).abs() < 1e-3);
        assert_eq!(points(&by_m, 2000).len(), 1000);
    }

    #[test]
    fn one_value_of_m_is_one_point() {
        assert_eq!(points(&BTreeMap::from([(7, 3)]), 4), [MPoint { m: 7, weight: 1.0 }]);
    }
}
