// What bare clang, ROCm's compilers and hiprtc have not in common, and names for what every kernel here uses. Put in
// front of a kernel's text; needs C++20 and no header.
#ifndef __global__
#define __global__ __attribute__((global))
#define __device__ __attribute__((device))
#define __shared__ __attribute__((shared))
#endif
#define DEVICE static __device__ inline __attribute__((always_inline))
// Kernels are compiled for exactly the work-items they are launched with; `__launch_bounds__` is not to be had
// everywhere. WAVES is the number of waves that share a SIMD: it sets how many registers a wave may have.
#define KERNEL(THREADS, WAVES)                                                                                         \
  extern "C" __global__ __attribute__((amdgpu_flat_work_group_size(THREADS, THREADS), amdgpu_waves_per_eu(WAVES, WAVES))) void
#define LDS __attribute__((address_space(3)))
#define VECTOR(NAME, TYPE, N) typedef TYPE NAME __attribute__((ext_vector_type(N)))

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
VECTOR(u32x2, u32, 2);
VECTOR(u32x3, u32, 3);
VECTOR(u32x4, u32, 4);
VECTOR(i32x2, int, 2);
VECTOR(i32x4, int, 4);
VECTOR(i32x8, int, 8);
VECTOR(i16x4, short, 4);
VECTOR(f32x4, float, 4);
VECTOR(f32x16, float, 16);
VECTOR(bf16x8, __bf16, 8);

DEVICE u32 thread() { return __builtin_amdgcn_workitem_id_x(); }
DEVICE u32 lane_id() { return thread() % 64; }
// Equal in all lanes, and the compiler knows it: branches and addresses on it are scalar.
DEVICE u32 wave_id() { return __builtin_amdgcn_readfirstlane(thread() / 64); }
// A barrier after which every wave sees what the others wrote to LDS.
DEVICE void sync() {
  __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup", "local");
  __builtin_amdgcn_s_barrier();
  __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup", "local");
}
