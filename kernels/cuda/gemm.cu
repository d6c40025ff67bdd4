// GEMM for sm_90a over weights decoded in registers: D[M,N] = factor_a[m] * factor_w[n] * A[M,K] . W[N,K]^T.
//
//   W, layout mma64            one CTA's tile of W         a stage of the ring in shared memory
//   +--------- K ---------+    +--- TILE_K ---+            [ A: TILE_M x TILE_K | W: TILE_N x TILE_K ] x STAGES
//   | slab of 64 rows     |    | TILE_N rows  |  --TMA-->  filled by one thread (bulk copies of W, tensor copies of A,
//   | ...                 |    |              |            one mbarrier a stage), emptied by WARPS consumer warps
//   +---------------------+    +--------------+
//
// Consumer warp (wn, wk) owns ROW_PANELS panels of 16 rows and every (WARPS_K)-th supertile (16 x 128) along K. It
// decodes weights in registers to bf16 and multiplies them as the wide operand, tokens being the columns: with mma.m16n8k16
// (A through ldmatrix), or, four warps on 64 rows, with wgmma.m64nTk16 (A read from shared memory by the tensor cores;
// the fragments of W are the same). Every format is exact in bf16: an element's bits are placed into a bf16's exponent and mantissa fields, which
// gives its value times a power of two, subnormals included, and one multiplication by the block's scale undoes that.
//
// Work is TILES x CHUNKS units of TILE_N x TILE_M x TILE_K, numbered along K first, then M, then N. CTA c of G takes the units of
// [c*U/G, (c+1)*U/G): with G = TILES * S that is split-K by S, with any other G stream-K. A tile whose K is shared by
// several CTAs goes through `partial`; the CTA that arrives last adds the parts in the order of K, so that the result
// does not depend on timing.
//
// In a lane's share of a 16 x 32 tile, lane = 4*g + t holds of row g the pairs p = 0..3 at k = 8p + 2t and 8p + 2t + 1,
// and of row g+8 the same as p = 4..7: the fragments of two mma steps.
//
// A lies in shared memory as boxes of TILE_M rows x 64 in the 128-byte swizzle: 16-byte chunk c of row r at c ^ (r % 8).
// Rows past M and elements past K arrive as zeros.
//
// Dynamic shared memory: STAGES x (stage + 16 bytes of mbarriers), 16 bytes, (WARPS_K - 1) x TILE_M x TILE_N floats.
//
// Parameters (-D): WEIGHT 0 bf16, 1 e4m3, 2 e2m3, 3 e3m2; WARPGROUP 1 for wgmma; TILE_M TILE_N TILE_K WARPS ROW_PANELS STAGES CTAS;
// OUT_BF16, BIAS.

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;

constexpr int SUPER_K = 128;                      // K of a supertile, to which W is padded
constexpr int TOKENS = TILE_M / 8;                // column blocks of 8 tokens
constexpr int WARPS_N = TILE_N / 16 / ROW_PANELS; // warps side by side along N
constexpr int WARPS_K = WARPS / WARPS_N;          // warps that share a tile along K
constexpr int CONSUMERS = WARPS * 32;
constexpr int PRODUCERS = (WARPGROUP ? 4 : 1) * 32; // one of these threads works; registers are given by warpgroup
constexpr int SUPERS = TILE_K / SUPER_K;
constexpr int SUPER_BYTES = WEIGHT == 0 ? 4096 : WEIGHT == 1 ? 2048 : 1600;
constexpr int SLAB_PANELS = TILE_N < 64 ? TILE_N / 16 : 4; // panels of the tile that lie together in memory
constexpr int SLABS = TILE_N < 64 ? 1 : TILE_N / 64;
constexpr int SLAB_BYTES = SUPERS * SLAB_PANELS * SUPER_BYTES;
constexpr int BOX_BYTES = TILE_M * 128;                   // TILE_M rows x 64 of A
constexpr int A_BYTES = SUPERS * 2 * BOX_BYTES;
constexpr int STAGE_BYTES = (A_BYTES + SLABS * SLAB_BYTES + 1023) / 1024 * 1024; // boxes are swizzled in 1024 bytes
constexpr int VALUES = ROW_PANELS * TOKENS * 4;           // accumulators of a thread
static_assert(WARPS_N * WARPS_K == WARPS && SUPERS % WARPS_K == 0, "warps do not fit the tile");
static_assert(!WARPGROUP || WARPS_N % 4 == 0, "a warpgroup takes 64 rows");

struct alignas(64) TensorMap {
    u64 opaque[16];
};

struct Args {
    TensorMap activation;         // bf16, M x K, in boxes of TILE_M x 64
    const u8* weight;             // mma64
    const float* weight_factor;   // N rounded up to 64
    const float* activation_factor; // M, or null for 1
    const float* bias;            // N, with BIAS
    void* output;                 // M x N
    float* partial;               // 2 parts a CTA, of TILE_N x TILE_M floats
    u32* arrivals;                // one counter a tile, 0 before and after
    u32 m, n, k;
};

__device__ __forceinline__ u32 shared_address(const void* p) { return (u32)__cvta_generic_to_shared(p); }

__device__ __forceinline__ void barrier_init(u32 bar, u32 count) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(bar), "r"(count) : "memory");
}
__device__ __forceinline__ void barrier_expect(u32 bar, u32 bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(bar), "r"(bytes) : "memory");
}
__device__ __forceinline__ void barrier_arrive(u32 bar) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(bar) : "memory");
}
__device__ __forceinline__ void barrier_wait(u32 bar, u32 parity) {
    asm volatile("{\n.reg .pred done;\n"
                 "WAIT:\nmbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
                 "@done bra DONE;\nbra WAIT;\nDONE:\n}" ::"r"(bar), "r"(parity) : "memory");
}
__device__ __forceinline__ void box_copy(u32 to, const TensorMap* from, u32 k, u32 row, u32 bar) {
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];"
                 ::"r"(to), "l"(from), "r"(k), "r"(row), "r"(bar) : "memory");
}
__device__ __forceinline__ void bulk_copy_once(u32 to, const void* from, u32 bytes, u32 bar, u64 policy) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1], %2, [%3], %4;"
                 ::"r"(to), "l"(from), "r"(bytes), "r"(bar), "l"(policy) : "memory");
}
template <int ID, int THREADS> __device__ __forceinline__ void named_barrier() {
    asm volatile("bar.sync %0, %1;" ::"n"(ID), "n"(THREADS) : "memory");
}
// Four 8 x 8 matrices of 16 bits: lane l gives the address of row l % 8 of matrix l / 8.
__device__ __forceinline__ uint4 load_matrices(u32 at) {
    uint4 v;
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "r"(at));
    return v;
}
__device__ __forceinline__ uint4 load_shared(u32 at) {
    uint4 v;
    asm volatile("ld.shared.v4.u32 {%0,%1,%2,%3}, [%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "r"(at));
    return v;
}
__device__ __forceinline__ u32 load_shared_word(u32 at) {
    u32 v;
    asm volatile("ld.shared.u32 %0, [%1];" : "=r"(v) : "r"(at));
    return v;
}
// A subnormal operand keeps its value: decoding relies on it.
__device__ __forceinline__ u32 multiply_bf16x2(u32 a, u32 b) {
    u32 d;
    asm("mul.rn.bf16x2 %0, %1, %2;" : "=r"(d) : "r"(a), "r"(b));
    return d;
}
__device__ __forceinline__ void mma(float (&d)[4], u32 a0, u32 a1, u32 a2, u32 a3, u32 b0, u32 b1) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}

#if WARPGROUP
// wgmma with the fragments of W in registers and COLUMNS tokens from shared memory, added to d.
#define ACC4(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
template <int COLUMNS> struct Wgmma;
template <> struct Wgmma<8> {
    static __device__ __forceinline__ void run(float* d, u32 a0, u32 a1, u32 a2, u32 a3, u64 b) {
        asm volatile("wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {"
                     "%0,%1,%2,%3"
                     "}, {%4,%5,%6,%7}, %8, 1, 1, 1, 0;"
                     : ACC4(0)
                     : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "l"(b));
    }
};
template <> struct Wgmma<16> {
    static __device__ __forceinline__ void run(float* d, u32 a0, u32 a1, u32 a2, u32 a3, u64 b) {
        asm volatile("wgmma.mma_async.sync.aligned.m64n16k16.f32.bf16.bf16 {"
                     "%0,%1,%2,%3,%4,%5,%6,%7"
                     "}, {%8,%9,%10,%11}, %12, 1, 1, 1, 0;"
                     : ACC4(0), ACC4(4)
                     : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "l"(b));
    }
};
template <> struct Wgmma<32> {
    static __device__ __forceinline__ void run(float* d, u32 a0, u32 a1, u32 a2, u32 a3, u64 b) {
        asm volatile("wgmma.mma_async.sync.aligned.m64n32k16.f32.bf16.bf16 {"
                     "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15"
                     "}, {%16,%17,%18,%19}, %20, 1, 1, 1, 0;"
                     : ACC4(0), ACC4(4), ACC4(8), ACC4(12)
                     : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "l"(b));
    }
};
template <> struct Wgmma<64> {
    static __device__ __forceinline__ void run(float* d, u32 a0, u32 a1, u32 a2, u32 a3, u64 b) {
        asm volatile("wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {"
                     "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,"
                     "%25,%26,%27,%28,%29,%30,%31"
                     "}, {%32,%33,%34,%35}, %36, 1, 1, 1, 0;"
                     : ACC4(0), ACC4(4), ACC4(8), ACC4(12), ACC4(16), ACC4(20), ACC4(24), ACC4(28)
                     : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "l"(b));
    }
};
template <> struct Wgmma<128> {
    static __device__ __forceinline__ void run(float* d, u32 a0, u32 a1, u32 a2, u32 a3, u64 b) {
        asm volatile("wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {"
                     "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,"
                     "%25,%26,%27,%28,%29,%30,%31,%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,"
                     "%47,%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63"
                     "}, {%64,%65,%66,%67}, %68, 1, 1, 1, 0;"
                     : ACC4(0), ACC4(4), ACC4(8), ACC4(12), ACC4(16), ACC4(20), ACC4(24), ACC4(28),
                       ACC4(32), ACC4(36), ACC4(40), ACC4(44), ACC4(48), ACC4(52), ACC4(56), ACC4(60)
                     : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "l"(b));
    }
};
constexpr int COLUMNS = TILE_M % 128 == 0 ? 128 : TILE_M % 64 == 0 ? 64 : TILE_M % 32 == 0 ? 32 : TILE_M % 16 == 0 ? 16 : 8;

// A matrix of rows of 128 bytes, eight of them in 1024, in the 128-byte swizzle (PTX ISA, "matrix descriptor").
__device__ __forceinline__ u64 descriptor(u32 at) {
    return (u64)((at & 0x3ffff) >> 4) | 1ull << 16 | (u64)(1024 >> 4) << 32 | 1ull << 62;
}
__device__ __forceinline__ void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
// The compiler does not see that wgmma reads and writes registers after the statement that issued it: values are
// pinned to their registers before a group starts and after it has been waited for.
template <int COUNT> __device__ __forceinline__ void pin(float* v) {
#pragma unroll
    for (int i = 0; i < COUNT; i++) asm volatile("" : "+f"(v[i])::"memory");
}
template <int COUNT> __device__ __forceinline__ void pin(u32* v) {
#pragma unroll
    for (int i = 0; i < COUNT; i++) asm volatile("" : "+r"(v[i])::"memory");
}
template <int PENDING> __device__ __forceinline__ void wgmma_wait() {
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(PENDING) : "memory");
}
#endif

// One lane's weights of a supertile, as they lie in shared memory.
struct Encoded {
#if WEIGHT == 0
    uint4 v[8]; // tile j: row g in v[2j], row g+8 in v[2j+1]
#elif WEIGHT == 1
    uint4 v[4]; // tile j: row g in x and y, row g+8 in z and w; the bytes of a word are elements 0, 2, 1, 3 of four
#else
    uint4 v[3];      // tile j: words 3j (low 4 bits, row g), 3j+1 (row g+8), 3j+2 (top 2 bits)
    u32 scale[2];    // byte j: the bf16 exponent field of tile j's multiplier, rows g and g+8
#endif

    __device__ __forceinline__ void load(u32 super, int lane) {
        constexpr int VECTORS = WEIGHT == 0 ? 8 : WEIGHT == 1 ? 4 : 3;
#pragma unroll
        for (int i = 0; i < VECTORS; i++) v[i] = load_shared(super + i * 512 + lane * 16);
#if WEIGHT >= 2
        scale[0] = load_shared_word(super + 1536 + (lane >> 2) * 4);
        scale[1] = load_shared_word(super + 1536 + (lane >> 2) * 4 + 32);
#endif
    }

    // Tile j of the supertile as pairs of bf16.
    __device__ __forceinline__ void decode(int j, u32 (&pair)[8]) const {
#if WEIGHT == 0
        const uint4 a = v[2 * j], b = v[2 * j + 1];
        pair[0] = a.x, pair[1] = a.y, pair[2] = a.z, pair[3] = a.w;
        pair[4] = b.x, pair[5] = b.y, pair[6] = b.z, pair[7] = b.w;
#elif WEIGHT == 1
        // seeeemmm -> s0000eee emmm0000, the value times 2^-120.
        const u32 word[4] = {v[j].x, v[j].y, v[j].z, v[j].w};
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const u32 w = word[i];
            const u32 even = ((w << 8) & 0x80008000u) | ((w << 4) & 0x07f007f0u);
            const u32 odd = (w & 0x80008000u) | ((w >> 4) & 0x07f007f0u);
            pair[2 * i] = multiply_bf16x2(even, 0x7b807b80u);
            pair[2 * i + 1] = multiply_bf16x2(odd, 0x7b807b80u);
        }
#else
        const u32* words = &v[0].x;
        const u32 high = words[3 * j + 2];
#pragma unroll
        for (int row = 0; row < 2; row++) {
            const u32 low = words[3 * j + row];
            const u32 field = (scale[row] >> (8 * j)) & 0xffu;
            const u32 multiplier = field * 0x00800080u;
#pragma unroll
            for (int p = 0; p < 4; p++) {
                const int q = 4 * row + p;
#if WEIGHT == 2
                // s e1 e0 m2 m1 m0 -> s000000e emmm0000, the value times 2^-126.
                const u32 nibble = (p == 0 ? low << 4 : p == 1 ? low : p == 2 ? low >> 4 : low >> 8) & 0x00f000f0u;
                const u32 top = q < 7 ? (high << q) & 0x81008100u : ((high << 14) & 0x80008000u) | ((high << 8) & 0x01000100u);
#else
                // s e2 e1 e0 m1 m0 -> s00000ee emm00000, the value times 2^-124.
                const u32 nibble = (p == 0 ? low << 5 : p == 1 ? low << 1 : p == 2 ? low >> 3 : low >> 7) & 0x01e001e0u;
                const u32 top = q < 6 ? (high << q) & 0x82008200u
                              : q == 6 ? ((high << 12) & 0x80008000u) | ((high << 7) & 0x02000200u)
                                       : ((high << 14) & 0x80008000u) | ((high << 9) & 0x02000200u);
#endif
                pair[q] = multiply_bf16x2(nibble | top, multiplier);
            }
        }
#endif
    }
};

// Copies a unit's operands into a stage. One thread.
struct Producer {
    const Args& args;
    u32 super_count, panels;
    u64 once; // W passes through the L2 once

    __device__ __forceinline__ u32 supers(u32 chunk) const { return min((u32)SUPERS, super_count - chunk * SUPERS); }
    // Slabs of the tile that exist: N is padded to whole slabs.
    __device__ __forceinline__ u32 slabs(u32 tile) const { return min((u32)SLABS, (panels - tile * (TILE_N / 16) + 3) / 4); }

    __device__ __forceinline__ void weights(u32 tile, u32 chunk, u32 stage, u32 full) const {
        const u32 count = slabs(tile), depth = supers(chunk);
        barrier_expect(full, (count * SLAB_PANELS * SUPER_BYTES + 2 * BOX_BYTES) * depth);
        u32 to = stage + A_BYTES;
        if (TILE_N >= 64) {
            const u8* from = args.weight + ((u64)tile * SLABS * super_count + chunk * SUPERS) * (4 * SUPER_BYTES);
#pragma unroll 1
            for (u32 slab = 0; slab < count; slab++, to += SLAB_BYTES, from += (u64)super_count * (4 * SUPER_BYTES))
                bulk_copy_once(to, from, depth * (4 * SUPER_BYTES), full, once);
        } else {
            const u32 panel = tile * SLAB_PANELS;
            const u8* from = args.weight + (((u64)(panel / 4) * super_count + chunk * SUPERS) * 4 + panel % 4) * SUPER_BYTES;
#pragma unroll 1
            for (u32 super = 0; super < depth; super++, to += SLAB_PANELS * SUPER_BYTES, from += 4 * SUPER_BYTES)
                bulk_copy_once(to, from, SLAB_PANELS * SUPER_BYTES, full, once);
        }
    }
    __device__ __forceinline__ void activations(u32 row, u32 chunk, u32 stage, u32 full) const {
        const u32 boxes = supers(chunk) * 2;
#pragma unroll 1
        for (u32 box = 0; box < boxes; box++) box_copy(stage + box * BOX_BYTES, &args.activation, chunk * TILE_K + box * 64, row, full);
    }
};

__device__ __forceinline__ void store(const Args& args, u32 m, u32 n, float value) {
    if (m >= args.m || n >= args.n) return;
    if (args.activation_factor) value *= args.activation_factor[m];
#if BIAS
    value += args.bias[n];
#endif
    const u64 at = (u64)m * args.n + n;
#if OUT_BF16
    u16 rounded;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(rounded) : "f"(value));
    ((u16*)args.output)[at] = rounded;
#else
    ((float*)args.output)[at] = value;
#endif
}

// Where a panel's supertile lies in a stage's share of W.
__device__ __forceinline__ u32 panel_at(u32 weights, u32 super, u32 panel) {
    return weights + panel / SLAB_PANELS * SLAB_BYTES + (super * SLAB_PANELS + panel % SLAB_PANELS) * SUPER_BYTES;
}

extern "C" __global__ void __launch_bounds__(CONSUMERS + PRODUCERS, CTAS) gemm(const __grid_constant__ Args args) {
    extern __shared__ __align__(1024) u8 memory[];
    const u32 stages = shared_address(memory), bars = stages + STAGES * STAGE_BYTES;
    u32* arrived_last = (u32*)(memory + STAGES * STAGE_BYTES + STAGES * 16);
    float* reduce = (float*)(arrived_last + 4);
    auto full = [&](u32 s) { return bars + s * 16; };
    auto empty = [&](u32 s) { return bars + s * 16 + 8; };

    const u32 warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const u32 super_count = (args.k + SUPER_K - 1) / SUPER_K, panels = (args.n + 15) / 16;
    const u32 chunks = (super_count + SUPERS - 1) / SUPERS;
    const u32 tiles_n = (args.n + TILE_N - 1) / TILE_N, tiles_m = (args.m + TILE_M - 1) / TILE_M;
    const u64 units = (u64)tiles_n * tiles_m * chunks;
    const u32 begin = (u32)(blockIdx.x * units / gridDim.x), end = (u32)((blockIdx.x + 1) * units / gridDim.x);

    // The kernel after this one may fetch its first weights as soon as there is room for it.
    asm volatile("griddepcontrol.launch_dependents;");
    Producer p{args, super_count, panels, 0};
    const u32 ahead = min(end, begin + STAGES);
    if (warp == WARPS && lane == 0) {
        asm volatile("prefetch.tensormap [%0];" ::"l"(&args.activation) : "memory");
        for (int s = 0; s < STAGES; s++) barrier_init(full(s), 1), barrier_init(empty(s), WARPS);
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
        asm volatile("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(p.once));
        // Weights do not depend on the kernel before this one, so the ring is filled with them first.
#pragma unroll 1
        for (u32 unit = begin; unit < ahead; unit++)
            p.weights(unit / chunks / tiles_m, unit % chunks, stages + (unit - begin) * STAGE_BYTES, full(unit - begin));
    }
    __syncwarp();
    __syncthreads();
    asm volatile("griddepcontrol.wait;" ::: "memory");
    if (warp >= WARPS) {
#if WARPGROUP
        asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
#endif
        if (warp > WARPS || lane > 0) return;
#pragma unroll 1
        for (u32 unit = begin; unit < ahead; unit++)
            p.activations(unit / chunks % tiles_m * TILE_M, unit % chunks, stages + (unit - begin) * STAGE_BYTES, full(unit - begin));
        u32 s = 0, round = 0;
#pragma unroll 1
        for (u32 unit = ahead; unit < end; unit++) {
            barrier_wait(empty(s), round);
            p.weights(unit / chunks / tiles_m, unit % chunks, stages + s * STAGE_BYTES, full(s));
            p.activations(unit / chunks % tiles_m * TILE_M, unit % chunks, stages + s * STAGE_BYTES, full(s));
            if (++s == STAGES) s = 0, round ^= 1;
        }
        return;
    }
#if WARPGROUP
    constexpr int AT_ENTRY = 65536 / CTAS / (CONSUMERS + PRODUCERS) / 8 * 8; // registers a thread has, and then may have
    constexpr int TAKEN = (AT_ENTRY * (CONSUMERS + PRODUCERS) - 40 * PRODUCERS) / CONSUMERS / 8 * 8;
    if (AT_ENTRY < 240) asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(TAKEN < 240 ? TAKEN : 240));
#endif
    const u32 wn = warp % WARPS_N, wk = warp / WARPS_N, g = lane / 4, t = lane % 4;
#if !WARPGROUP
    // Row and chunk of a box that this lane addresses for ldmatrix, for the first and the second 32 along K.
    const u32 chunk_at[2] = {lane % 8 * 128 + (lane / 8 ^ lane % 8) * 16, lane % 8 * 128 + ((4 + lane / 8) ^ lane % 8) * 16};
#endif
    float sum[ROW_PANELS][TOKENS][4] = {};
    float factor[ROW_PANELS][2]; // fetched before they are needed
    u32 s = 0, round = 0;
    for (u32 unit = begin; unit < end; unit++) {
        const u32 tile = unit / chunks, chunk = unit % chunks;
        const u32 stage = stages + s * STAGE_BYTES;
        if (unit == begin || chunk == 0)
#pragma unroll
            for (int r = 0; r < ROW_PANELS; r++)
#pragma unroll
                for (int i = 0; i < 2; i++) {
                    const u32 n = tile / tiles_m * TILE_N + (r * WARPS_N + wn) * 16 + g + i * 8;
                    factor[r][i] = n < args.n ? args.weight_factor[n] : 0.0f;
                }
        barrier_wait(full(s), round);
        const u32 supers = min((u32)SUPERS, super_count - chunk * SUPERS);
#if WARPGROUP
        u32 pair[2][ROW_PANELS][8] = {};
#endif
#pragma unroll 1
        for (u32 super = wk; super < supers; super += WARPS_K) {
            Encoded w[ROW_PANELS];
#pragma unroll
            for (int r = 0; r < ROW_PANELS; r++)
                w[r].load(panel_at(stage + A_BYTES, super, r * WARPS_N + wn), lane);
            const u32 boxes = stage + super * (2 * BOX_BYTES);
#if WARPGROUP
#pragma unroll
            for (int j = 0; j < 4; j++) {
#pragma unroll
                for (int r = 0; r < ROW_PANELS; r++) w[r].decode(j, pair[j % 2][r]);
                pin<VALUES>(&sum[0][0][0]);
                pin<ROW_PANELS * 8>(&pair[j % 2][0][0]);
                wgmma_fence();
#pragma unroll
                for (int step = 0; step < 2; step++)
#pragma unroll
                    for (int column = 0; column < TILE_M; column += COLUMNS) {
                        const u64 a = descriptor(boxes + j / 2 * BOX_BYTES + column * 128 + (j % 2 * 2 + step) * 32);
#pragma unroll
                        for (int r = 0; r < ROW_PANELS; r++) {
                            const u32* f = pair[j % 2][r] + step * 2;
                            Wgmma<COLUMNS>::run(&sum[r][column / 8][0], f[0], f[4], f[1], f[5], a);
                        }
                    }
                wgmma_commit();
                // Decoding goes on while the tensor cores work on the tile before.
                wgmma_wait<1>();
                pin<ROW_PANELS * 8>(&pair[(j + 1) % 2][0][0]);
            }
#else
#pragma unroll
            for (int j = 0; j < 4; j++) {
                uint4 a[TOKENS];
#pragma unroll
                for (int b = 0; b < TOKENS; b++) a[b] = load_matrices(boxes + j / 2 * BOX_BYTES + b * 1024 + chunk_at[j % 2]);
#pragma unroll
                for (int r = 0; r < ROW_PANELS; r++) {
                    u32 pair[8];
                    w[r].decode(j, pair);
#pragma unroll
                    for (int b = 0; b < TOKENS; b++) {
                        mma(sum[r][b], pair[0], pair[4], pair[1], pair[5], a[b].x, a[b].y);
                        mma(sum[r][b], pair[2], pair[6], pair[3], pair[7], a[b].z, a[b].w);
                    }
                }
            }
#endif
        }
#if WARPGROUP
        wgmma_wait<0>();
        pin<ROW_PANELS * 16>(&pair[0][0][0]);
        pin<VALUES>(&sum[0][0][0]);
#endif
        __syncwarp();
        if (lane == 0) barrier_arrive(empty(s));
        if (++s == STAGES) s = 0, round ^= 1;
        if (chunk + 1 != chunks && unit + 1 != end) continue;

        // The tile, or this CTA's share of its K, is done. First add up the warps along K, in order.
        float* mine = &sum[0][0][0];
        if (WARPS_K > 1) {
            named_barrier<1, CONSUMERS>();
            if (wk > 0)
#pragma unroll
                for (int i = 0; i < VALUES; i++) reduce[(((wk - 1) * WARPS_N + wn) * VALUES + i) * 32 + lane] = mine[i];
            named_barrier<1, CONSUMERS>();
            if (wk == 0)
#pragma unroll
                for (int other = 0; other < WARPS_K - 1; other++)
#pragma unroll
                    for (int i = 0; i < VALUES; i++) mine[i] += reduce[((other * WARPS_N + wn) * VALUES + i) * 32 + lane];
        }
        if (wk == 0) {
            const u64 tile_begin = (u64)tile * chunks, tile_end = tile_begin + chunks;
            bool finish = true;
            if (begin > tile_begin || end < tile_end) {
                // The CTAs that share this tile: c owns unit u when c*U/G <= u < (c+1)*U/G.
                const u32 first = (u32)(((tile_begin + 1) * gridDim.x - 1) / units), last = (u32)((tile_end * gridDim.x - 1) / units);
                auto part = [&](u32 cta, u32 which) {
                    return args.partial + (((u64)cta * 2 + which) * WARPS_N + wn) * (VALUES * 32) + lane;
                };
                float* own = part(blockIdx.x, begin > tile_begin ? 0 : 1);
#pragma unroll
                for (int i = 0; i < VALUES; i++) __stcg(own + i * 32, mine[i]);
                named_barrier<2, WARPS_N * 32>();
                if (threadIdx.x == 0) {
                    // Releases what the barrier ordered before it, acquires what the other CTAs released.
                    u32 before;
                    asm volatile("atom.acq_rel.gpu.global.add.u32 %0, [%1], 1;" : "=r"(before) : "l"(args.arrivals + tile) : "memory");
                    *arrived_last = before == last - first;
                    if (*arrived_last) args.arrivals[tile] = 0;
                }
                named_barrier<2, WARPS_N * 32>();
                finish = *arrived_last;
                if (finish) {
#pragma unroll
                    for (int i = 0; i < VALUES; i++) mine[i] = 0;
                    // Several parts are on their way at a time; they are added one by one.
                    constexpr int TOGETHER = VALUES <= 16 ? 4 : VALUES <= 32 ? 2 : 1;
                    for (u32 cta = first; cta <= last; cta += TOGETHER) {
                        float theirs[TOGETHER][VALUES];
#pragma unroll
                        for (int q = 0; q < TOGETHER; q++) {
                            const bool starts_inside = (u64)(cta + q) * units / gridDim.x > tile_begin;
                            const float* from = part(cta + q, starts_inside ? 0 : 1);
#pragma unroll
                            for (int i = 0; i < VALUES; i++) theirs[q][i] = cta + q <= last ? __ldcg(from + i * 32) : 0.0f;
                        }
#pragma unroll
                        for (int q = 0; q < TOGETHER; q++)
#pragma unroll
                            for (int i = 0; i < VALUES; i++) mine[i] += theirs[q][i];
                    }
                }
                named_barrier<2, WARPS_N * 32>();
            }
            if (finish)
#pragma unroll
                for (int r = 0; r < ROW_PANELS; r++)
#pragma unroll
                    for (int b = 0; b < TOKENS; b++)
#pragma unroll
                        for (int i = 0; i < 4; i++) {
                            const u32 n = tile / tiles_m * TILE_N + (r * WARPS_N + wn) * 16 + g + (i / 2) * 8;
                            const u32 m = tile % tiles_m * TILE_M + b * 8 + t * 2 + i % 2;
                            store(args, m, n, sum[r][b][i] * factor[r][i / 2]);
                        }
        }
#pragma unroll
        for (int i = 0; i < VALUES; i++) mine[i] = 0;
    }
}
