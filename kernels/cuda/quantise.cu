// Snaps an activation to the format it is multiplied in, for kernels that multiply in bf16: every snapped element is
// exact in bf16, so the result is a bf16 matrix of the same shape (and, for FP8, one f32 scale a token).
//
//   FORMAT 1: FP8 E4M3, one scale a row: amax / 448 over the finite elements (1 if they are all 0), elements by division.
//             An infinity or NaN becomes NaN. One CTA a row: a pass for amax, a pass that rounds.
//             With CODES the result is the E4M3 bytes, for kernels that multiply in FP8.
//   FORMAT 2, 3: MXFP6 E2M3, E3M2, blocks of 32: scale 2^(floor(log2(amax)) - emax), round to nearest even, saturate.
//             A block with an infinity or NaN is NaN. One warp a block.
//
// The next kernel may start at once (programmatic dependent launch): it waits where it reads the result.

typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;

__device__ __forceinline__ float widen(u16 bits) { return __uint_as_float((u32)bits << 16); }
__device__ __forceinline__ u16 narrow(float exact) { return (u16)(__float_as_uint(exact) >> 16); }
__device__ __forceinline__ bool is_finite(float v) { return fabsf(v) < __int_as_float(0x7f800000); }
constexpr u16 BF16_NAN = 0x7fc0;

#if FORMAT == 1
// The nearest E4M3 code, saturating at 448. |v| finite.
__device__ __forceinline__ u32 encode(float v) {
    u16 pair;
    asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(0.0f), "f"(v));
    return pair & 0xff;
}
__device__ __forceinline__ float snap(float v) {
    const u32 code = encode(v), magnitude = code & 0x7f;
    // seeeemmm placed into an f32: the value times 2^-120.
    const float unscaled = __uint_as_float(magnitude << 20) * 0x1p120f;
    return code & 0x80 ? -unscaled : unscaled;
}

extern "C" __global__ void __launch_bounds__(512) quantise(const u16* from, u16* to, float* scales, u32 m, u32 k) {
    asm volatile("griddepcontrol.launch_dependents;");
    __shared__ float maxima[16];
    const uint4* row = (const uint4*)(from + (u64)blockIdx.x * k);
    float amax = 0;
    for (u32 i = threadIdx.x; i < k / 8; i += blockDim.x) {
        const uint4 v = row[i];
        const u32 words[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
        for (int j = 0; j < 4; j++) {
            const float a = fabsf(widen((u16)words[j])), b = fabsf(widen((u16)(words[j] >> 16)));
            if (is_finite(a)) amax = fmaxf(amax, a);
            if (is_finite(b)) amax = fmaxf(amax, b);
        }
    }
#pragma unroll
    for (int d = 16; d; d /= 2) amax = fmaxf(amax, __shfl_xor_sync(~0u, amax, d));
    if (threadIdx.x % 32 == 0) maxima[threadIdx.x / 32] = amax;
    __syncthreads();
    for (u32 i = 0; i < blockDim.x / 32; i++) amax = fmaxf(amax, maxima[i]);
    const float scale = amax == 0 ? 1.0f : fmaxf(amax / 448.0f, 0x1p-126f);
    if (threadIdx.x == 0) scales[blockIdx.x] = scale;
#if CODES
    uint2* codes = (uint2*)((unsigned char*)to + (u64)blockIdx.x * k);
    for (u32 i = threadIdx.x; i < k / 8; i += blockDim.x) {
        const uint4 v = row[i];
        const u32 words[4] = {v.x, v.y, v.z, v.w};
        u32 halves[4];
#pragma unroll
        for (int j = 0; j < 4; j++) {
            const float a = widen((u16)words[j]), b = widen((u16)(words[j] >> 16));
            const u32 low = is_finite(a) ? encode(a / scale) : 0x7f, high = is_finite(b) ? encode(b / scale) : 0x7f;
            halves[j] = low | high << 8;
        }
        codes[i] = make_uint2(halves[0] | halves[1] << 16, halves[2] | halves[3] << 16);
    }
    return;
#endif
    uint4* out = (uint4*)(to + (u64)blockIdx.x * k);
    for (u32 i = threadIdx.x; i < k / 8; i += blockDim.x) {
        const uint4 v = row[i];
        u32 words[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
        for (int j = 0; j < 4; j++) {
            const float a = widen((u16)words[j]), b = widen((u16)(words[j] >> 16));
            const u32 low = is_finite(a) ? narrow(snap(a / scale)) : BF16_NAN;
            const u32 high = is_finite(b) ? narrow(snap(b / scale)) : BF16_NAN;
            words[j] = low | high << 16;
        }
        out[i] = make_uint4(words[0], words[1], words[2], words[3]);
    }
}
#else
constexpr int EMAX = FORMAT == 2 ? 2 : 4, EMIN = FORMAT == 2 ? 0 : -2, MANTISSA = FORMAT == 2 ? 3 : 2;
constexpr float LARGEST = FORMAT == 2 ? 7.5f : 28.0f;

// 2^e for e in -149 .. 127.
__device__ __forceinline__ float power(int e) {
    return e >= -126 ? __int_as_float((e + 127) << 23) : __int_as_float(1 << (e + 149));
}
// floor(log2(v)) of a positive f32.
__device__ __forceinline__ int exponent(float v) {
    const u32 bits = __float_as_uint(v);
    return bits >> 23 ? (int)(bits >> 23) - 127 : 31 - __clz((int)bits) - 149;
}

extern "C" __global__ void __launch_bounds__(512) quantise(const u16* from, u16* to, float* scales, u32 m, u32 k) {
    asm volatile("griddepcontrol.launch_dependents;");
    const u64 at = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= (u64)m * k) return; // K is a multiple of 32: whole warps leave
    const float v = widen(from[at]);
    float amax = is_finite(v) ? fabsf(v) : __int_as_float(0x7f800000);
#pragma unroll
    for (int d = 16; d; d /= 2) amax = fmaxf(amax, __shfl_xor_sync(~0u, amax, d));
    if (!is_finite(amax)) {
        to[at] = BF16_NAN;
        return;
    }
    const int scale = amax == 0 ? -127 : max(exponent(amax) - EMAX, -127);
    // v / 2^scale in two exact steps, as 2^-scale may exceed the largest f32.
    const float x = fabsf(v) * power(-scale / 2) * power(-scale - -scale / 2);
    const int e = x == 0 ? EMIN : max(exponent(x), EMIN);
    const float quantum = power(e - MANTISSA);
    const float snapped = fminf(rintf(x / quantum) * quantum, LARGEST) * power(scale / 2) * power(scale - scale / 2);
    to[at] = narrow(copysignf(snapped, v));
}
#endif
