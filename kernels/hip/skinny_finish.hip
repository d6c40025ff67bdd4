// From a sum to an element of D: the scales of FP8, the bias, the output type.
#if OUT_BF16
typedef __bf16 Out;
#else
typedef float Out;
#endif

struct Finish {
  const float *weight_factors, *activation_factors, *bias;
  Out* d;
  u32 n;

  __device__ inline __attribute__((always_inline)) void operator()(float sum, u32 row, u32 column) const {
    // One after the other: their product may underflow where the result does not.
    if (WEIGHT == 1) sum = sum * weight_factors[column] * activation_factors[row];
    if (BIAS) sum += bias[column];
    d[(u64)row * n + column] = (Out)sum;
  }
};
