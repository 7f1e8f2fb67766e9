/*
** mma.cuh - the one way a kernel multiplies matrices on tensor cores.
**
** mma_bf16 is a warp's d[16 x 8] += a[16 x 16] b[16 x 8] with bf16 operands
** and f32 sums: mma.sync.m16n8k16 and its fragment layout. With g = lane / 4
** and t = lane % 4 a lane holds
**
**   a[0]: row g,     columns 2t, 2t + 1      a[1]: row g + 8, the same
**   a[2]: row g,     columns 2t + 8, 2t + 9  a[3]: row g + 8, the same
**   b[0]: rows 2t, 2t + 1 of column g        b[1]: rows 2t + 8, 2t + 9
**   d[0], d[1]: row g, columns 2t, 2t + 1    d[2], d[3]: row g + 8
**
** a pair of bf16 in 32 bits, the lower index in the lower half.
**
** mma_load4 and mma_load2 fill such registers from shared memory: ldmatrix.
** Lane i names a row of eight bf16 (16 bytes, aligned), lanes 8n..8n + 7 the
** rows of the n-th 8 x 8 matrix; register n of a lane gets row g, columns 2t
** and 2t + 1 of the n-th, or with TRANS rows 2t and 2t + 1 of column g. Rows
** are named by a mma_row, to which bytes may be added.
*/
#ifndef CUDA_MMA_CUH
#define CUDA_MMA_CUH

#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <cstdint>
#include <cstring>

static __device__ __forceinline__ uint32_t mma_pack(float lo, float hi)
{
    __nv_bfloat162 h = __floats2bfloat162_rn(lo, hi);
    uint32_t u;

    memcpy(&u, &h, 4);
    return u;
}

#ifdef EMU_H

/* What ldmatrix does, with the rows that the lanes named. */
template <bool TRANS>
static inline uint32_t mma_element(const void *const *left, int n)
{
    int g = static_cast<int>(emu_lane()) / 4;
    int t = static_cast<int>(emu_lane()) % 4;
    uint16_t pair[2];

    for (int i = 0; i < 2; i++) {
        int row = TRANS ? 2 * t + i : g, col = TRANS ? g : 2 * t + i;
        const unsigned char *p;

        memcpy(&p, left[8 * n + row], sizeof p);
        memcpy(&pair[i], p + 2 * col, 2);
    }
    return uint32_t{pair[1]} << 16 | pair[0];
}

template <bool TRANS>
static inline void mma_load(uint32_t *r, int n, const void *row)
{
    const void *left[32];

    if (reinterpret_cast<uintptr_t>(row) % 16 != 0) abort();
    emu_warp(0xffffffffu, &row, sizeof row, left);
    for (int i = 0; i < n; i++) r[i] = mma_element<TRANS>(left, i);
}

typedef const char *mma_row;
static inline mma_row mma_row_of(const void *p)
{
    return static_cast<const char *>(p);
}

template <bool TRANS>
static inline void mma_load4(uint32_t r[4], mma_row row)
{
    mma_load<TRANS>(r, 4, row);
}

template <bool TRANS>
static inline void mma_load2(uint32_t r[2], mma_row row)
{
    mma_load<TRANS>(r, 2, row);
}

struct mma_left { uint32_t a[4], b[2]; };

static inline float mma_half(uint32_t pair, int upper)
{
    return __uint_as_float((upper ? pair >> 16 : pair & 0xffffu) << 16);
}

/* a[row, k] and b[k, col] from what the lanes left. */
static inline float mma_a(const void *const *left, int row, int k)
{
    int lane = (row % 8) * 4 + (k % 8) / 2;
    int reg = row / 8 + 2 * (k / 8);

    return mma_half(static_cast<const mma_left *>(left[lane])->a[reg], k & 1);
}

static inline float mma_b(const void *const *left, int k, int col)
{
    int lane = col * 4 + (k % 8) / 2;

    return mma_half(static_cast<const mma_left *>(left[lane])->b[k / 8],
                    k & 1);
}

static inline void mma_bf16(float d[4], const uint32_t a[4],
                            const uint32_t b[2])
{
    mma_left mine = {{a[0], a[1], a[2], a[3]}, {b[0], b[1]}};
    const void *left[32];
    int g = static_cast<int>(emu_lane()) / 4;
    int t = static_cast<int>(emu_lane()) % 4;

    emu_warp(0xffffffffu, &mine, sizeof mine, left);
    for (int i = 0; i < 4; i++) {
        int row = g + 8 * (i / 2), col = 2 * t + i % 2;
        float sum = 0;

        for (int k = 0; k < 16; k++)
            sum += mma_a(left, row, k) * mma_b(left, k, col);
        d[i] += sum;
    }
}

#else

typedef uint32_t mma_row;
static __device__ __forceinline__ mma_row mma_row_of(const void *p)
{
    return static_cast<uint32_t>(__cvta_generic_to_shared(p));
}

template <bool TRANS>
static __device__ __forceinline__ void mma_load4(uint32_t r[4], mma_row at)
{
    if (TRANS)
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 "
                     "{%0, %1, %2, %3}, [%4];\n"
                     : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                     : "r"(at) : "memory");
    else
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 "
                     "{%0, %1, %2, %3}, [%4];\n"
                     : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                     : "r"(at) : "memory");
}

template <bool TRANS>
static __device__ __forceinline__ void mma_load2(uint32_t r[2], mma_row at)
{
    if (TRANS)
        asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 "
                     "{%0, %1}, [%2];\n"
                     : "=r"(r[0]), "=r"(r[1]) : "r"(at) : "memory");
    else
        asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 "
                     "{%0, %1}, [%2];\n"
                     : "=r"(r[0]), "=r"(r[1]) : "r"(at) : "memory");
}

static __device__ __forceinline__ void mma_bf16(float d[4],
                                                const uint32_t a[4],
                                                const uint32_t b[2])
{
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};\n"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

#endif

#endif
