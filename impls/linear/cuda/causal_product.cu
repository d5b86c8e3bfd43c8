// Causal linear attention by running sums over the tokens, and its gradient.
//
// Katharopoulos et al. 2020, Algorithm 1 and eq. 13-15. All four passes are one recurrence: every token t adds an outer
// product to the state S and reads the state by a row vector,
//
//     S += b_t c_tᵀ        z += β_t c_t        y_t = a_tᵀ S + α_t z
//
//     pass      a      b      c        α   β   result             tokens
//     FORWARD   φ(q)   φ(k)   v        -   -   o  = y / d         first to last; d_t = φ(q_t)·Σ_{j≤t} φ(k_j) + eps
//     QUERIES   g      v      φ(k)     δ   1   dq = y / d · φ'(q)  first to last
//     KEYS      v      g      φ(q)/d   1   δ   dk = y · φ'(k)      last to first
//     VALUES    φ(k)   φ(q)   g/d      -   -   dv = y             last to first
//
// with g = dL/do and δ = -g·o: through o = n / d come dL/dn = g / d and dL/dd = δ / d. In KEYS the sum holds dL/dn of the
// tokens i ≥ j, as the supplement's eq. 27 has it; eq. 14 of the main text prints that of j there.
//
// S stays in registers; the state after a token is never stored. A lane holds ROWS / LANES rows of 4 columns: LANES lanes of a warp
// share a column, a warp has 32 / LANES · 4 columns, and a block of WARPS warps covers BLOCK_COLUMNS of them (a slice). Tokens come
// in tiles: a, b and c are staged in shared memory in float32 with φ applied, while the next tile is on its way to registers.
// Within a tile no warp waits for another, and the 8 · ROWS / LANES multiply-adds of a lane and a token hide each other's latency.
// Where batch · heads is small, the sequence is cut into segments: `attend<…, false>` sums up the state of each, `accumulate` those
// before each, and `attend<…, true>` starts from there. Without atomics, every run gives the same bits.
//
// As NVRTC 13.5 compiles it for sm_80 and sm_90: no spills at the widths that the slow tests try; at D = M = 64 and 128, of
// any dtype, 130 to 164 registers, 12 or 20 KB of shared memory, and so 12 warps a multiprocessor. 128 to 132 of the 160 to 184
// instructions of a token are FFMA (9 LDS.128, 8 or 12 SHFL); some 50 more stage it. The products are float32 on CUDA cores,
// because tensor cores would round φ and S to bfloat16 or TF32.
//
// Set from outside: D key width, M value width, SCALAR element type, PHI feature map, REAL type of sums.

#ifndef REAL
#define REAL float
#endif

using Real = REAL;
using Index = long long;

// element types

struct bfloat16 {
    unsigned short bits;
};

struct float16 {
    unsigned short bits;
};

__device__ inline Real widen(float x) { return x; }
__device__ inline Real widen(double x) { return Real(x); }
__device__ inline Real widen(bfloat16 x) { return __uint_as_float(static_cast<unsigned>(x.bits) << 16); }
__device__ inline Real widen(float16 x) {
    float y;
    asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x.bits));
    return y;
}

__device__ inline void narrow(Real x, float& y) { y = float(x); }
__device__ inline void narrow(Real x, double& y) { y = x; }
__device__ inline void narrow(Real x, bfloat16& y) {
    const unsigned u = __float_as_uint(float(x));
    // to the nearest, ties to even; a NaN must not be rounded into an infinity
    y.bits = x == x ? (u + 0x7fff + (u >> 16 & 1)) >> 16 : 0x7fff;
}
__device__ inline void narrow(Real x, float16& y) { asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y.bits) : "f"(float(x))); }

using Scalar = SCALAR;

template <class T, int V>
struct alignas(V * sizeof(T) <= 16 ? V * sizeof(T) : 16) Vector {
    T x[V];
};
using Quad = Vector<Real, 4>;

// feature maps; φ(-inf) = 0, so keys of -inf are hidden, and φ(NaN) = NaN

struct elu_plus_one {
    __device__ static Real value(Real x) { return x > 0 ? x + 1 : exp(x); }
    __device__ static Real slope(Real x) { return x > 0 ? Real(1) : exp(x); }
};

struct relu {
    __device__ static Real value(Real x) { return x < 0 ? 0 : x; }
    __device__ static Real slope(Real x) { return x > 0 ? 1 : 0; }
};

struct squared_relu {
    __device__ static Real value(Real x) { return x < 0 ? 0 : x * x; }
    __device__ static Real slope(Real x) { return x > 0 ? 2 * x : 0; }
};

struct identity {
    __device__ static Real value(Real x) { return x; }
};

// what a pass is, and how it is laid over threads

enum { FORWARD, QUERIES, KEYS, VALUES };

template <class T, class F, bool>
struct Either {
    using Type = T;
};
template <class T, class F>
struct Either<T, F, false> {
    using Type = F;
};

template <int PASS_, int LANES_, int WARPS_, int TOKENS_>
struct Plan {
    static constexpr int PASS = PASS_, LANES = LANES_, WARPS = WARPS_, TOKENS = TOKENS_;
    static constexpr bool FEATURES_ARE_ROWS = PASS == FORWARD || PASS == VALUES;
    static constexpr bool REVERSED = PASS == KEYS || PASS == VALUES;
    static constexpr bool SUMS_COLUMNS = PASS == QUERIES || PASS == KEYS;
    static constexpr int ROWS = FEATURES_ARE_ROWS ? D : M, COLUMNS = FEATURES_ARE_ROWS ? M : D;
    using RowMap = typename Either<PHI, identity, FEATURES_ARE_ROWS>::Type;
    using ColumnMap = typename Either<identity, PHI, FEATURES_ARE_ROWS>::Type;

    static constexpr int THREADS = 32 * WARPS;
    // 12 warps a multiprocessor leave 170 registers a thread: room for 64 of S and a tile on its way. Tiles are shorter for
    // widths that are fetched number by number, which takes more registers.
    static constexpr int BLOCKS = (TOKENS < 16 ? 8 : 12) / WARPS;
    static constexpr int QUADS = (ROWS + 4 * LANES - 1) / (4 * LANES);
    static constexpr int PADDED_ROWS = 4 * LANES * QUADS;
    static constexpr int BLOCK_COLUMNS = WARPS * (32 / LANES) * 4;
    static constexpr int SLICES = (COLUMNS + BLOCK_COLUMNS - 1) / BLOCK_COLUMNS;
    static constexpr int PADDED_COLUMNS = SLICES * BLOCK_COLUMNS;
    // the state of a segment as it is stored: S, then Σ φ(k) by rows, or z by columns
    static constexpr int BESIDE = PADDED_ROWS * PADDED_COLUMNS;
    static constexpr int STATE = BESIDE + (PASS == FORWARD ? PADDED_ROWS : SUMS_COLUMNS ? PADDED_COLUMNS : 0);
};

template <class P>
struct Tile {
    Real a[P::TOKENS][P::PADDED_ROWS];
    Real b[P::TOKENS][P::PADDED_ROWS];
    // y replaces c, token by token
    Real c[P::TOKENS][P::BLOCK_COLUMNS];
    Real reciprocal[P::TOKENS];
    Real delta[P::TOKENS];
};

// Tokens of one segment of one head, in the order in which the pass meets them.
template <class P>
struct Walk {
    Index head, start, length;

    __device__ Walk(Index N, Index segment)
        : head(blockIdx.x / P::SLICES * N), start(blockIdx.y * segment), length(min(segment, N - start)) {}

    __device__ Index row(Index step) const { return head + start + (P::REVERSED ? length - 1 - step : step); }
    __device__ int count(Index done) const { return int(min(Index(P::TOKENS), length - done)); }
};

// TOKENS × LOADED numbers from column FIRST of rows of WIDTH: on their way in registers, then in shared memory.
template <class P, int WIDTH, int LOADED>
struct Stage {
    static constexpr int FULL = 16 / int(sizeof(Scalar)), V = WIDTH % FULL == 0 ? FULL : 1;
    static constexpr int PER_ROW = LOADED / V, COUNT = (P::TOKENS * PER_ROW + P::THREADS - 1) / P::THREADS;
    static_assert(LOADED % V == 0, "a vector lies in one row");
    using Packed = Vector<Scalar, V>;
    Packed held[COUNT];

    // f(i, t, n): the vector i of this thread lies at token t of the tile, column n of the block
    template <class F>
    __device__ static void each(F f) {
#pragma unroll
        for (int i = 0; i < COUNT; ++i) {
            const int e = int(threadIdx.x) + i * P::THREADS;
            if (P::TOKENS * PER_ROW % P::THREADS == 0 || e < P::TOKENS * PER_ROW) f(i, e / PER_ROW, e % PER_ROW * V);
        }
    }

    __device__ void fetch(const Scalar* from, const Walk<P>& walk, Index done, int first) {
        const int count = walk.count(done);
        each([&](int i, int t, int n) {
            if (t < count && first + n < WIDTH)
                held[i] = *reinterpret_cast<const Packed*>(from + walk.row(done + t) * WIDTH + first + n);
        });
    }

    // zeros beyond the width, after the map: φ(0) is not 0
    template <class Map>
    __device__ void store(Real* to, int first) const {
        each([&](int i, int t, int n) {
            Vector<Real, V> x;
#pragma unroll
            for (int m = 0; m < V; ++m) x.x[m] = first + n < WIDTH ? Map::value(widen(held[i].x[m])) : Real(0);
            *reinterpret_cast<Vector<Real, V>*>(to + t * LOADED + n) = x;
        });
    }
};

__device__ inline Real sum_over_lanes(Real x, int lanes) {
    for (int m = 1; m < lanes; m *= 2) x += __shfl_xor_sync(0xffffffff, x, m);
    return x;
}

// A lane's part of the state.
template <class P, bool READS>
struct State {
    static constexpr int OWN = P::PASS == FORWARD ? (P::PADDED_ROWS + 31) / 32 : 1;
    // which of the lanes that share columns, and which columns of the block
    const int lane = threadIdx.x % 32, part = lane % P::LANES;
    const int column = (threadIdx.x / 32 * (32 / P::LANES) + lane / P::LANES) * 4;
    Real S[4 * P::QUADS][4] = {};
    Real z[4] = {};
    // FORWARD: Σ φ(k), rows lane, lane + 32, …
    Real normaliser[OWN] = {};

    // quads of rows alternate between lanes, so that together they read shared memory in one piece
    __device__ int row(int quad) const { return (quad * P::LANES + part) * 4; }

    __device__ void step(Tile<P>& tile, int t) {
        Quad c = *reinterpret_cast<const Quad*>(&tile.c[t][column]), y = {};
        if (P::REVERSED)
            for (int n = 0; n < 4; ++n) c.x[n] *= tile.reciprocal[t];
#pragma unroll
        for (int quad = 0; quad < P::QUADS; ++quad) {
            const Quad b = *reinterpret_cast<const Quad*>(&tile.b[t][row(quad)]);
#pragma unroll
            for (int m = 0; m < 4; ++m)
#pragma unroll
                for (int n = 0; n < 4; ++n) S[4 * quad + m][n] += b.x[m] * c.x[n];
            if (READS) read(tile, t, quad, y);
        }
        if (P::SUMS_COLUMNS)
            for (int n = 0; n < 4; ++n) z[n] += P::PASS == KEYS ? tile.delta[t] * c.x[n] : c.x[n];
        if (READS) write(tile, t, y);
    }

    __device__ void read(const Tile<P>& tile, int t, int quad, Quad& y) const {
        const Quad a = *reinterpret_cast<const Quad*>(&tile.a[t][row(quad)]);
#pragma unroll
        for (int m = 0; m < 4; ++m)
#pragma unroll
            for (int n = 0; n < 4; ++n) y.x[n] += a.x[m] * S[4 * quad + m][n];
    }

    __device__ void write(Tile<P>& tile, int t, Quad& y) const {
#pragma unroll
        for (int n = 0; n < 4; ++n) {
            y.x[n] = sum_over_lanes(y.x[n], P::LANES);
            if (P::PASS == QUERIES) y.x[n] = (y.x[n] + tile.delta[t] * z[n]) * tile.reciprocal[t];
            if (P::PASS == KEYS) y.x[n] += z[n];
        }
        // the lanes that share c[t] have read it, and their sums are in y
        if (part == 0) *reinterpret_cast<Quad*>(&tile.c[t][column]) = y;
    }

    // FORWARD: 1 / d of the tokens of a tile, by the warps in turn. All keep the running sum Σ φ(k).
    __device__ void normalise(Tile<P>& tile, const Walk<P>& walk, Index done, Real eps, Real* denominators) {
        const int count = walk.count(done);
        for (int t = 0; t < count; ++t) {
            Real d = 0;
#pragma unroll
            for (int i = 0; i < OWN; ++i)
                if (const int r = lane + 32 * i; r < P::PADDED_ROWS) {
                    normaliser[i] += tile.b[t][r];
                    d += tile.a[t][r] * normaliser[i];
                }
            if (!READS || t % P::WARPS != int(threadIdx.x) / 32) continue;
            d = sum_over_lanes(d, 32) + eps;
            if (lane == 0) tile.reciprocal[t] = 1 / d;
            if (lane == 0 && blockIdx.x % P::SLICES == 0) denominators[walk.row(done + t)] = d;
        }
    }

    // f(register, place in the stored state), for all that this lane keeps; lanes that share a register all name it.
    template <class F>
    __device__ void each(int first, F f) {
#pragma unroll
        for (int quad = 0; quad < P::QUADS; ++quad)
#pragma unroll
            for (int m = 0; m < 4; ++m)
#pragma unroll
                for (int n = 0; n < 4; ++n) f(S[4 * quad + m][n], (row(quad) + m) * P::PADDED_COLUMNS + first + column + n);
        if (P::SUMS_COLUMNS)
            for (int n = 0; n < 4; ++n) f(z[n], P::BESIDE + first + column + n);
        if (P::PASS == FORWARD)
#pragma unroll
            for (int i = 0; i < OWN; ++i)
                if (lane + 32 * i < P::PADDED_ROWS) f(normaliser[i], P::BESIDE + lane + 32 * i);
    }
};

// y · φ'(x), or y / d, from the tile to memory; each thread reads what it will overwrite at its next `store`.
template <class P, class Columns>
__device__ void write_tile(const Tile<P>& tile, const Walk<P>& walk, Index done, int first, const Scalar* x, Scalar* out) {
    const int count = walk.count(done);
    Columns::each([&](int, int t, int n) {
        if (t >= count || first + n >= P::COLUMNS) return;
        const Index at = walk.row(done + t) * P::COLUMNS + first + n;
        typename Columns::Packed scaled = {}, y;
        if (P::SUMS_COLUMNS) scaled = *reinterpret_cast<const typename Columns::Packed*>(x + at);
#pragma unroll
        for (int m = 0; m < Columns::V; ++m) {
            Real value = tile.c[t][n + m];
            if (P::PASS == FORWARD) value *= tile.reciprocal[t];
            if (P::SUMS_COLUMNS) value *= PHI::slope(widen(scaled.x[m]));
            narrow(value, y.x[m]);
        }
        *reinterpret_cast<typename Columns::Packed*>(out + at) = y;
    });
}

// Walk one segment of one head for one slice of columns: block (head · SLICES + slice, segment).
//
// a, b [heads, N, ROWS], c, x, out [heads, N, COLUMNS], denominators and deltas [heads, N]; FORWARD writes the
// denominators, the others read them. Where `segment` < N, `states` [heads, segments, STATE] has what each segment starts from.
// Without READS, a, x and out are not touched, and the sum over the segment is written to `states`.
template <class P, bool READS>
__global__ void __launch_bounds__(P::THREADS, P::BLOCKS)
    attend(const Scalar* a, const Scalar* b, const Scalar* c, const Scalar* x, Real* denominators, const Real* deltas,
           Real* states, Scalar* out, Index N, Index segment, double eps) {
    using Rows = Stage<P, P::ROWS, P::PADDED_ROWS>;
    using Columns = Stage<P, P::COLUMNS, P::BLOCK_COLUMNS>;
    alignas(16) extern __shared__ char block_shared[];
    Tile<P>& tile = *reinterpret_cast<Tile<P>*>(block_shared);
    const Walk<P> walk(N, segment);
    const int first = blockIdx.x % P::SLICES * P::BLOCK_COLUMNS;
    Real* const stored = states + (Index(blockIdx.x / P::SLICES) * gridDim.y + blockIdx.y) * P::STATE;
    State<P, READS> state;
    if (READS && segment < N) state.each(first, [&](Real& held, int place) { held = stored[place]; });

    Rows staged_a, staged_b;
    Columns staged_c;
    Real reciprocal = 0, delta = 0;
    auto fetch = [&](Index done) {
        if (READS) staged_a.fetch(a, walk, done, 0);
        staged_b.fetch(b, walk, done, 0);
        staged_c.fetch(c, walk, done, first);
        if (P::PASS != FORWARD && int(threadIdx.x) < walk.count(done)) {
            reciprocal = 1 / denominators[walk.row(done + threadIdx.x)];
            if (P::SUMS_COLUMNS) delta = deltas[walk.row(done + threadIdx.x)];
        }
    };

    fetch(0);
    for (Index done = 0; done < walk.length; done += P::TOKENS) {
        if (READS) staged_a.template store<typename P::RowMap>(tile.a[0], 0);
        staged_b.template store<typename P::RowMap>(tile.b[0], 0);
        staged_c.template store<typename P::ColumnMap>(tile.c[0], first);
        if (P::PASS != FORWARD && int(threadIdx.x) < P::TOKENS) {
            tile.reciprocal[threadIdx.x] = reciprocal;
            tile.delta[threadIdx.x] = delta;
        }
        __syncthreads();
        if (done + P::TOKENS < walk.length) fetch(done + P::TOKENS);
        const int count = walk.count(done);
        for (int t = 0; t < count; ++t) state.step(tile, t);
        if constexpr (P::PASS == FORWARD) state.normalise(tile, walk, done, Real(eps), denominators);
        __syncthreads();
        if (READS) write_tile<P, Columns>(tile, walk, done, first, x, out);
    }
    if (!READS) state.each(first, [&](Real& held, int place) { stored[place] = held; });
}

// Turn the sums over each segment into those over the segments before it (after it, where tokens come last to first), in place.
// states [heads, segments, STATE]: block (places, head).
template <class P>
__global__ void accumulate(Real* states, Index segments) {
    const Index place = Index(blockIdx.x) * blockDim.x + threadIdx.x;
    if (place >= P::STATE) return;
    Real sum = 0;
    for (Index i = 0; i < segments; ++i) {
        const Index segment = P::REVERSED ? segments - 1 - i : i;
        Real& stored = states[(blockIdx.y * segments + segment) * P::STATE + place];
        const Real own = stored;
        stored = sum;
        sum += own;
    }
}

// Compute δ = -g·o of each row [rows, M] -> [rows], with a warp for each row.
__global__ void contract(const Scalar* g, const Scalar* o, Real* deltas, Index rows) {
    const Index row = Index(blockIdx.x) * (blockDim.x / 32) + threadIdx.x / 32;
    if (row >= rows) return;
    Real sum = 0;
    for (int m = threadIdx.x % 32; m < M; m += 32) sum -= widen(g[row * M + m]) * widen(o[row * M + m]);
    sum = sum_over_lanes(sum, 32);
    if (threadIdx.x % 32 == 0) deltas[row] = sum;
}
