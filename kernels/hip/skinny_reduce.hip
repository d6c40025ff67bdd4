// The second pass of a split skinny GEMM: adds the parts' sums, f32 [parts][M][N], in the order of the parts, so that D has
// the same bits on every run. One work-item an element of D.
KERNEL(256, 1) reduce(const float* partial,
#if WEIGHT == 1
                      const float* weight_factors, const float* activation_factors,
#endif
                      const float* bias, Out* d, u32 m, u32 n, u32 parts) {
#if WEIGHT != 1
  const float *weight_factors = nullptr, *activation_factors = nullptr;
#endif
  const u32 at = __builtin_amdgcn_workgroup_id_x() * 256 + thread(), size = m * n;
  if (at >= size) return;
  float sum = 0;
#pragma unroll 8
  for (u32 part = 0; part < parts; part++) sum += partial[(u64)part * size + at];
  Finish{weight_factors, activation_factors, bias, d, n}(sum, at / n, at % n);
}
