// From a sum to an element of D: scales, bias, output type.
#if OUT_BF16
typedef __bf16 Out;
#else
typedef float Out;
#endif

struct Finish {
    const float *weight_factors, *activation_factors, *bias;
    Out* d;
    u32 n;

    DEVICE void operator()(float sum, u32 row, u32 column) const;
};

inline __device__ __attribute__((always_inline)) void store_out(const Finish& f, float sum, u32 row, u32 column) {
#if WEIGHT == 1
    sum = sum * f.weight_factors[column] * f.activation_factors[row];
#endif
    if (f.bias) sum += f.bias[column];
    f.d[(u64)row * f.n + column] = (Out)sum;
}
