//! A plan whose kernels are loaded and whose scratch is there: what sessions and engines launch.

use std::collections::HashMap;
use std::ffi::c_void;

use super::runtime::{Buffer, Fault, Gpu, Kernel};
use crate::hip::launch::{Arg, Plan, Source};

/// A plan ready to launch, any number of times, one at a time: launches share the scratch.
pub(super) struct Loaded {
    plan: Plan,
    kernels: Vec<Kernel>,
    scratch: Vec<Buffer>,
}

/// Device addresses of a launch's operands.
#[derive(Clone, Copy)]
pub(super) struct Operands<'a> {
    pub(super) weight: &'a [Buffer],
    pub(super) activation: u64,
    /// 0 where the problem has none.
    pub(super) bias: u64,
    pub(super) output: u64,
}

impl Loaded {
    /// Loads the plan's kernels from the code objects that `object` gives.
    pub(super) fn new(
        plan: Plan,
        mut object: impl FnMut(&Source) -> Result<Vec<u8>, Fault>,
    ) -> Result<Loaded, Fault> {
        let mut seen: HashMap<&Source, Kernel> = HashMap::new();
        let mut kernels = Vec::new();
        for step in &plan.steps {
            let kernel = match seen.get(&step.source) {
                Some(kernel) => kernel.clone(),
                None => Kernel::load(&object(&step.source)?, step.source.entry)?,
            };
            seen.insert(&step.source, kernel.clone());
            kernels.push(kernel);
        }
        let mut scratch = Vec::new();
        for wanted in &plan.scratch {
            let buffer = Buffer::new(wanted.bytes)?;
            if wanted.zeroed {
                buffer.fill(0)?;
            }
            scratch.push(buffer);
        }
        Ok(Loaded { plan, kernels, scratch })
    }

    /// Sets every byte of the scratch that no launch may rely on, so that results of an earlier one cannot pass for
    /// this one's.
    pub(super) fn poison(&self, byte: u8) -> Result<(), Fault> {
        let scratch = self.plan.scratch.iter().zip(&self.scratch);
        scratch.filter(|(wanted, _)| !wanted.zeroed).try_for_each(|(_, buffer)| buffer.fill(byte))
    }

    /// Whether the scratch that has to be zeros between launches is.
    pub(super) fn is_clean(&self) -> Result<bool, Fault> {
        for (_, buffer) in self.plan.scratch.iter().zip(&self.scratch).filter(|(wanted, _)| wanted.zeroed) {
            if buffer.bytes()?.iter().any(|byte| *byte != 0) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Puts all steps into the stream.
    pub(super) fn launch(&self, gpu: &Gpu, operands: &Operands<'_>) -> Result<(), Fault> {
        for (step, kernel) in self.plan.steps.iter().zip(&self.kernels) {
            let values = step.args.iter().map(|arg| self.value(arg, operands));
            let mut values: Vec<u64> = values.collect::<Result<_, _>>()?;
            // A 32-bit parameter is read from the low half: AMD GPUs and the hosts they plug into are little-endian.
            let mut pointers: Vec<*mut c_void> =
                values.iter_mut().map(|value| std::ptr::from_mut(value).cast()).collect();
            gpu.launch(kernel, step.grid, step.threads, step.lds_bytes, &mut pointers)?;
        }
        Ok(())
    }

    fn value(&self, arg: &Arg, operands: &Operands<'_>) -> Result<u64, Fault> {
        let missing = |what: &str, i: usize| format!("the plan names {what} {i}, which is not there");
        Ok(match *arg {
            Arg::Weight(i) => {
                operands.weight.get(i).ok_or_else(|| missing("part of the weight", i))?.address()
            }
            Arg::Scratch(i) => self.scratch.get(i).ok_or_else(|| missing("scratch", i))?.address(),
            Arg::Activation => operands.activation,
            Arg::Bias => operands.bias,
            Arg::Output => operands.output,
            Arg::U32(number) => u64::from(number),
        })
    }
}
