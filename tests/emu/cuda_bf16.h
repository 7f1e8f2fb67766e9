/*
** cuda_bf16.h - stand-in: bf16 storage with round to nearest even.
*/
#ifndef EMU_CUDA_BF16_H
#define EMU_CUDA_BF16_H

#include "cuda_runtime.h"

struct __nv_bfloat16 { uint16_t bits; };
struct __nv_bfloat162 { __nv_bfloat16 x, y; };

static inline float __bfloat162float(__nv_bfloat16 h)
{
    return __uint_as_float(unsigned{h.bits} << 16);
}
static inline __nv_bfloat16 __float2bfloat16(float f)
{
    unsigned w = __float_as_uint(f);

    if ((w & 0x7fffffffu) > 0x7f800000u)
        return {static_cast<uint16_t>(w >> 16 | 64)};
    w += 0x7fffu + (w >> 16 & 1);
    return {static_cast<uint16_t>(w >> 16)};
}
static inline __nv_bfloat16 __float2bfloat16_rn(float f)
{
    return __float2bfloat16(f);
}
static inline __nv_bfloat162 __floats2bfloat162_rn(float a, float b)
{
    return {__float2bfloat16(a), __float2bfloat16(b)};
}

#endif
