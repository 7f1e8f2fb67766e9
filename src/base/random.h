/*
** random.h - numbers that are a pure function of (seed, stream, index), the
** same on every device and in every order of evaluation.
**
** Integers: the finalizer of splitmix64 over a counter, all arithmetic
** modulo 2^64. Reals: the upper 24 bits as a fraction, which f32 holds
** exactly, so that runs in different precisions start from the same numbers.
** f64 products and sums are rounded one by one (no fused multiply-add).
**
** Weights. Element i of a tensor is random_value(seed, stream, i, scale,
** offset) with stream = random_stream(full name), for instance of
** "model.language_model.layers.3.self_attn.q_proj.lora_A.weight", i counting
** through the whole tensor, row-major, all experts included, and
**
**   norms, zero-centred (w of 1 + w)   offset 0    scale 0.1
**   norms, plain                       offset 1    scale 0.1
**   biases                             offset 0    scale 0.1
**   linear_attn.A_log                  offset 0    scale 1
**   linear_attn.dt_bias                offset -2   scale 1
**   embed_tokens                       offset 0    scale 1
**   lora_B                             offset 0    scale 0.02
**   every other tensor                 offset 0    scale sqrt(3 / in)
**
** with in the width that the tensor is multiplied with: the last dimension
** ([out, in], conv [channels, 1, 4]), or the middle one of routed adapters,
** which are stored transposed ([experts, in, r]). An adapter's B is not zero
** here: with B = 0 the gradient of A would be zero and hide errors.
*/
#ifndef BASE_RANDOM_H
#define BASE_RANDOM_H

#include <stdint.h>

#include "base/hash.h"

static inline uint64_t random_mix(uint64_t z)
{
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

/* splitmix64: the next 64 bits of a sequence whose whole state is *state. */
static inline uint64_t random_next(uint64_t *state)
{
    return random_mix(*state += 0x9E3779B97F4A7C15u);
}

/* 64 random bits. */
static inline uint64_t random_bits(uint64_t seed, uint64_t stream, uint64_t i)
{
    const uint64_t golden = 0x9E3779B97F4A7C15u;
    uint64_t key = random_mix(seed + golden * (stream + 1));

    return random_mix(key + golden * (i + 1));
}

/* Uniform in offset + [-scale, scale). */
static inline double random_value(uint64_t seed, uint64_t stream, uint64_t i,
                                  double scale, double offset)
{
    int64_t u = (int64_t)(random_bits(seed, stream, i) >> 40) - (1 << 23);
    double part = scale * ((double)u * 0x1p-23);

    return offset + part;
}

/* The stream of a name: FNV-1a, 64 bits. */
static inline uint64_t random_stream(const char *name)
{
    return hash_text(HASH_START, name);
}

#endif
