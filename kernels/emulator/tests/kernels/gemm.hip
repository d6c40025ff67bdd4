// Tiled GEMMs, D[M,N] = A[M,K] · B[N,K]^T: 64 x 64 a workgroup, four waves of 32 x 32, fragments in lane order.
//
// Operands are stored as fragments: [16 rows][K step][lane][bytes of a lane], so that a wave reads 64 lanes in a line.
// gfx950 streams them to LDS without registers, STAGES deep, counting vmcnt; gfx942 goes through registers.
#include "prelude.h"

template <int BYTES> struct Raw;
template <> struct Raw<8> { typedef i32x2 type; };
template <> struct Raw<16> { typedef i32x4 type; };
template <> struct Raw<24> { typedef i32x6 type; };
template <> struct Raw<32> { typedef i32x8 type; };

struct Fp8 {
#ifdef __gfx950__
  static constexpr int BYTES = 32, WIDTH = 16;
  DEVICE f32x4 multiply(i32x8 a, i32x8 b, f32x4 c, int, int) {
    return __builtin_amdgcn_mfma_scale_f32_16x16x128_f8f6f4(a, b, c, 0, 0, 0, 0, 0, 0);
  }
#else
  static constexpr int BYTES = 8;
  DEVICE f32x4 multiply(i32x2 a, i32x2 b, f32x4 c, int, int) {
    return __builtin_amdgcn_mfma_f32_16x16x32_fp8_fp8(__builtin_bit_cast(long, a), __builtin_bit_cast(long, b), c, 0, 0, 0);
  }
#endif
};

struct Bf16 {
#ifdef __gfx950__
  static constexpr int BYTES = 16, WIDTH = 16;
  DEVICE f32x4 multiply(i32x4 a, i32x4 b, f32x4 c, int, int) {
    return __builtin_amdgcn_mfma_f32_16x16x32_bf16(__builtin_bit_cast(bf16x8, a), __builtin_bit_cast(bf16x8, b), c, 0, 0, 0);
  }
#else
  static constexpr int BYTES = 8;
  DEVICE f32x4 multiply(i32x2 a, i32x2 b, f32x4 c, int, int) {
    return __builtin_amdgcn_mfma_f32_16x16x16bf16_1k(__builtin_bit_cast(i16x4, a), __builtin_bit_cast(i16x4, b), c, 0, 0, 0);
  }
#endif
};

#ifdef __gfx950__
struct Mxfp6 {
  static constexpr int BYTES = 24, WIDTH = 12;
  DEVICE f32x4 multiply(i32x6 a, i32x6 b, f32x4 c, int sa, int sb) {
    i32x8 wa = {a[0], a[1], a[2], a[3], a[4], a[5], 0, 0}, wb = {b[0], b[1], b[2], b[3], b[4], b[5], 0, 0};
    return __builtin_amdgcn_mfma_scale_f32_16x16x128_f8f6f4(wa, wb, c, 2, 2, 0, sa, 0, sb);
  }
};
#endif

// A lane of D holds four rows of one column; with B as first operand these are four neighbours in N.
DEVICE void store(__bf16* d, u32 n, u32 row, u32 column, f32x4 x) {
  *(bf16x4*)(d + (u64)row * n + column) = __builtin_convertvector(x, bf16x4);
}

#ifdef __gfx950__
template <int VM> DEVICE void wait() { asm volatile("s_waitcnt vmcnt(%0)" ::"n"(VM) : "memory"); }

template <class T, int STAGES, bool SCALED, int SLACK>
DEVICE void gemm(const u8* a, const u8* b, const u8* sa, const u8* sb, __bf16* d, u32 n, u32 steps) {
  constexpr int FRAGMENT = 64 * T::BYTES, STAGE = 8 * FRAGMENT + (SCALED ? 8 * 256 : 0);
  constexpr int WIDTH = T::WIDTH, PARTS = T::BYTES / WIDTH;
  constexpr int LOADS = 2 * PARTS + (SCALED ? 2 : 0);
  __shared__ __attribute__((aligned(1024))) u8 memory[STAGES * STAGE];
  LDS u8* lds = (LDS u8*)memory;
  u32 lane = thread() & 63, wave = __builtin_amdgcn_readfirstlane(thread() >> 6);
  u32 bm = block(), bn = __builtin_amdgcn_workgroup_id_y();
  // Wave w brings fragments 2w and 2w + 1 of the eight that a step needs: four of A, then four of B.
  auto issue = [&](u32 step, u32 stage) {
#pragma unroll
    for (u32 i = 0; i < 2; i++) {
      u32 f = wave * 2 + i;
      const u8* from = f < 4 ? a + ((u64)(bm * 4 + f) * steps + step) * FRAGMENT
                             : b + ((u64)(bn * 4 + f - 4) * steps + step) * FRAGMENT;
#pragma unroll
      for (int p = 0; p < PARTS; p++)
        __builtin_amdgcn_global_load_lds((GLOBAL void*)(from + p * 64 * WIDTH + lane * WIDTH),
                                         (LDS void*)(lds + stage * STAGE + f * FRAGMENT + p * 64 * WIDTH), T::WIDTH, 0, 0);
      if (SCALED) {
        const u8* scale = f < 4 ? sa + ((u64)(bm * 4 + f) * steps + step) * 256
                                : sb + ((u64)(bn * 4 + f - 4) * steps + step) * 256;
        __builtin_amdgcn_global_load_lds((GLOBAL void*)(scale + lane * 4),
                                         (LDS void*)(lds + stage * STAGE + 8 * FRAGMENT + f * 256), 4, 0, 0);
      }
    }
  };
  f32x4 sum[2][2] = {};
#pragma unroll
  for (u32 s = 0; s < STAGES - 1; s++) issue(s < steps ? s : steps - 1, s);
  u32 stage = 0;
#pragma unroll 1
  for (u32 step = 0; step < steps; step++) {
    wait<(STAGES - 2) * LOADS + SLACK>();
    __builtin_amdgcn_sched_barrier(0);
    __builtin_amdgcn_s_barrier();
    asm volatile("" ::: "memory");
    __builtin_amdgcn_sched_barrier(0);
    u32 ahead = step + STAGES - 1, into = stage + STAGES - 1;
    issue(ahead < steps ? ahead : steps - 1, into >= STAGES ? into - STAGES : into);
    __builtin_amdgcn_sched_barrier(0);
    LDS u8* base = lds + stage * STAGE;
    typename Raw<T::BYTES>::type fa[2], fb[2];
    int xa[2], xb[2];
#pragma unroll
    for (u32 i = 0; i < 2; i++) {
      u32 ia = (wave >> 1) * 2 + i, ib = 4 + (wave & 1) * 2 + i;
#pragma unroll
      for (int p = 0; p < PARTS; p++)
#pragma unroll
        for (int w = 0; w < WIDTH / 4; w++) {
          fa[i][p * WIDTH / 4 + w] = *(LDS int*)(base + ia * FRAGMENT + p * 64 * WIDTH + lane * WIDTH + w * 4);
          fb[i][p * WIDTH / 4 + w] = *(LDS int*)(base + ib * FRAGMENT + p * 64 * WIDTH + lane * WIDTH + w * 4);
        }
      xa[i] = SCALED ? *(LDS int*)(base + 8 * FRAGMENT + ia * 256 + lane * 4) : 0;
      xb[i] = SCALED ? *(LDS int*)(base + 8 * FRAGMENT + ib * 256 + lane * 4) : 0;
    }
#pragma unroll
    for (u32 i = 0; i < 2; i++)
#pragma unroll
      for (u32 j = 0; j < 2; j++) sum[i][j] = T::multiply(fb[j], fa[i], sum[i][j], xb[j], xa[i]);
    stage = stage + 1 == STAGES ? 0 : stage + 1;
  }
#pragma unroll
  for (u32 i = 0; i < 2; i++)
#pragma unroll
    for (u32 j = 0; j < 2; j++)
      store(d, n, bm * 64 + ((wave >> 1) * 2 + i) * 16 + (lane & 15), bn * 64 + ((wave & 1) * 2 + j) * 16 + (lane >> 4) * 4,
            sum[i][j]);
}

KERNEL(256) gemm_fp8(const u8* a, const u8* b, __bf16* d, u32 n, u32 steps) { gemm<Fp8, 3, false, 0>(a, b, 0, 0, d, n, steps); }
KERNEL(256) gemm_bf16(const u8* a, const u8* b, __bf16* d, u32 n, u32 steps) { gemm<Bf16, 3, false, 0>(a, b, 0, 0, d, n, steps); }
KERNEL(256) gemm_mxfp6(const u8* a, const u8* b, __bf16* d, u32 n, u32 steps, const u8* sa, const u8* sb) {
  gemm<Mxfp6, 3, true, 0>(a, b, sa, sb, d, n, steps);
}
// Waits for one load too few: right only while data happens to land early.
KERNEL(256) gemm_fp8_short_wait(const u8* a, const u8* b, __bf16* d, u32 n, u32 steps) {
  gemm<Fp8, 3, false, 1>(a, b, 0, 0, d, n, steps);
}
#else
template <class T> DEVICE void gemm(const u8* a, const u8* b, __bf16* d, u32 n, u32 steps) {
  constexpr int FRAGMENT = 64 * T::BYTES;
  typedef typename Raw<T::BYTES>::type raw;
  __shared__ __attribute__((aligned(1024))) u8 lds[2][8 * FRAGMENT];
  u32 lane = thread() & 63, wave = __builtin_amdgcn_readfirstlane(thread() >> 6);
  u32 bm = block(), bn = __builtin_amdgcn_workgroup_id_y();
  auto fetch = [&](u32 step, u32 i) {
    u32 f = wave * 2 + i;
    const u8* from = f < 4 ? a + ((u64)(bm * 4 + f) * steps + step) * FRAGMENT
                           : b + ((u64)(bn * 4 + f - 4) * steps + step) * FRAGMENT;
    return ((const raw*)from)[lane];
  };
  f32x4 sum[2][2] = {};
  raw next[2] = {fetch(0, 0), fetch(0, 1)};
  for (u32 step = 0; step < steps; step++) {
    u8* base = lds[step & 1];
    for (u32 i = 0; i < 2; i++) ((raw*)(base + (wave * 2 + i) * FRAGMENT))[lane] = next[i];
    sync();
    u32 ahead = step + 1 < steps ? step + 1 : step;
    next[0] = fetch(ahead, 0);
    next[1] = fetch(ahead, 1);
#pragma unroll
    for (u32 i = 0; i < 2; i++)
#pragma unroll
      for (u32 j = 0; j < 2; j++)
        sum[i][j] = T::multiply(((raw*)(base + (4 + (wave & 1) * 2 + j) * FRAGMENT))[lane],
                                ((raw*)(base + ((wave >> 1) * 2 + i) * FRAGMENT))[lane], sum[i][j], 0, 0);
  }
  for (u32 i = 0; i < 2; i++)
    for (u32 j = 0; j < 2; j++)
      store(d, n, bm * 64 + ((wave >> 1) * 2 + i) * 16 + (lane & 15), bn * 64 + ((wave & 1) * 2 + j) * 16 + (lane >> 4) * 4,
            sum[i][j]);
}
KERNEL(256) gemm_fp8(const u8* a, const u8* b, __bf16* d, u32 n, u32 steps) { gemm<Fp8>(a, b, d, n, steps); }
KERNEL(256) gemm_bf16(const u8* a, const u8* b, __bf16* d, u32 n, u32 steps) { gemm<Bf16>(a, b, d, n, steps); }
#endif
