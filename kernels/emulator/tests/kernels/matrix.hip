// One kernel a matrix instruction; every lane's operands lie in memory as they lie in its registers.
#include "prelude.h"

#define DENSE(NAME, A, C, CALL)                                          \
  KERNEL(64) NAME(const A* pa, const A* pb, const C* pc, C* pd) {        \
    u32 t = thread();                                                    \
    A a = pa[t], b = pb[t];                                              \
    C c = pc[t];                                                         \
    pd[t] = __builtin_amdgcn_##CALL(a, b, c, 0, 0, 0);                   \
  }
#define SPARSE(NAME, A, B, C, CALL, SET)                                                \
  KERNEL(64) NAME(const A* pa, const B* pb, const C* pc, C* pd, const int* index) {     \
    u32 t = thread();                                                                   \
    pd[t] = __builtin_amdgcn_##CALL(pa[t], pb[t], pc[t], index[t], 0, SET);             \
  }

DENSE(f32_16x16x4, float, f32x4, mfma_f32_16x16x4f32)
DENSE(f32_32x32x2, float, f32x16, mfma_f32_32x32x2f32)
DENSE(f16_16x16x16, f16x4, f32x4, mfma_f32_16x16x16f16)
DENSE(f16_32x32x8, f16x4, f32x16, mfma_f32_32x32x8f16)
DENSE(f16_4x4x4_16b, f16x4, f32x4, mfma_f32_4x4x4f16)
DENSE(f16_16x16x4_4b, f16x4, f32x16, mfma_f32_16x16x4f16)
DENSE(f16_32x32x4_2b, f16x4, f32x32, mfma_f32_32x32x4f16)
DENSE(bf16_16x16x16, i16x4, f32x4, mfma_f32_16x16x16bf16_1k)
DENSE(bf16_32x32x8, i16x4, f32x16, mfma_f32_32x32x8bf16_1k)
DENSE(fp8_fp8_16x16x32, long, f32x4, mfma_f32_16x16x32_fp8_fp8)
DENSE(fp8_bf8_16x16x32, long, f32x4, mfma_f32_16x16x32_fp8_bf8)
DENSE(bf8_fp8_16x16x32, long, f32x4, mfma_f32_16x16x32_bf8_fp8)
DENSE(bf8_bf8_16x16x32, long, f32x4, mfma_f32_16x16x32_bf8_bf8)
DENSE(fp8_fp8_32x32x16, long, f32x16, mfma_f32_32x32x16_fp8_fp8)
DENSE(bf8_fp8_32x32x16, long, f32x16, mfma_f32_32x32x16_bf8_fp8)
DENSE(i8_16x16x32, long, i32x4, mfma_i32_16x16x32_i8)
DENSE(i8_32x32x16, long, i32x16, mfma_i32_32x32x16_i8)
SPARSE(sparse_fp8_16x16x64_set0, i32x2, i32x4, f32x4, smfmac_f32_16x16x64_fp8_fp8, 0)
SPARSE(sparse_fp8_16x16x64_set1, i32x2, i32x4, f32x4, smfmac_f32_16x16x64_fp8_fp8, 1)
SPARSE(sparse_fp8_32x32x32, i32x2, i32x4, f32x16, smfmac_f32_32x32x32_fp8_fp8, 0)
SPARSE(sparse_f16_16x16x32_set2, f16x4, f16x8, f32x4, smfmac_f32_16x16x32_f16, 2)
SPARSE(sparse_f16_32x32x16, f16x4, f16x8, f32x16, smfmac_f32_32x32x16_f16, 0)

#ifdef __gfx950__
DENSE(bf16_16x16x32, bf16x8, f32x4, mfma_f32_16x16x32_bf16)
DENSE(bf16_32x32x16, bf16x8, f32x16, mfma_f32_32x32x16_bf16)
DENSE(f16_16x16x32, f16x8, f32x4, mfma_f32_16x16x32_f16)
DENSE(i8_16x16x64, i32x4, i32x4, mfma_i32_16x16x64_i8)
DENSE(i8_32x32x32, i32x4, i32x16, mfma_i32_32x32x32_i8)
SPARSE(sparse_fp8_16x16x128, i32x4, i32x8, f32x4, smfmac_f32_16x16x128_fp8_fp8, 0)
SPARSE(sparse_fp8_32x32x64, i32x4, i32x8, f32x16, smfmac_f32_32x32x64_fp8_fp8, 0)
SPARSE(sparse_bf16_16x16x64_set1, bf16x8, bf16x16, f32x4, smfmac_f32_16x16x64_bf16, 1)

#define SCALED(NAME, CALL, C, FA, FB, SA, SB)                                                                     \
  KERNEL(64) NAME(const i32x8* pa, const i32x8* pb, const C* pc, C* pd, const int* sa, const int* sb) {           \
    u32 t = thread();                                                                                             \
    pd[t] = __builtin_amdgcn_mfma_scale_f32_##CALL##_f8f6f4(pa[t], pb[t], pc[t], FA, FB, SA, sa[t], SB, sb[t]);   \
  }
#define FORMATS(NAME, CALL, C)            \
  SCALED(NAME##_00, CALL, C, 0, 0, 0, 1)  \
  SCALED(NAME##_11, CALL, C, 1, 1, 1, 2)  \
  SCALED(NAME##_22, CALL, C, 2, 2, 2, 3)  \
  SCALED(NAME##_33, CALL, C, 3, 3, 3, 0)  \
  SCALED(NAME##_44, CALL, C, 4, 4, 1, 1)  \
  SCALED(NAME##_04, CALL, C, 0, 4, 0, 3)  \
  SCALED(NAME##_21, CALL, C, 2, 1, 3, 2)  \
  SCALED(NAME##_43, CALL, C, 4, 3, 2, 0)
FORMATS(scaled_16x16x128, 16x16x128, f32x4)
FORMATS(scaled_32x32x64, 32x32x64, f32x16)

KERNEL(64) unscaled_16x16x128_00(const i32x8* pa, const i32x8* pb, const f32x4* pc, f32x4* pd) {
  u32 t = thread();
  pd[t] = __builtin_amdgcn_mfma_scale_f32_16x16x128_f8f6f4(pa[t], pb[t], pc[t], 0, 0, 0, 0, 0, 0);
}
#endif
