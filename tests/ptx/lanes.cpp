/* lanes.cpp - instructions that each lane does for itself; see forms.h */
#include <cfloat>
#include <cmath>
#include <cstring>

#include "run.h"

#include "forms.h"

typedef int16_t s16;
typedef uint16_t u16;
typedef int32_t s32;
typedef int64_t s64;
typedef float f32;
typedef double f64;

/* ---- functions that forms.h uses ---------------------------------------- */

static inline f32 float_of(u32 u)
{
    f32 f;
    memcpy(&f, &u, 4);
    return f;
}

static inline u32 bits_of(f32 f)
{
    u32 u;
    memcpy(&u, &f, 4);
    return u;
}

/* .ftz: what is not normal is zero */
static inline f32 ptx_flush(f32 a)
{
    return fabsf(a) < FLT_MIN ? copysignf(0.0f, a) : a;
}

static inline s32 ptx_s32(f64 a)
{
    return a >= 2147483647.0 ? INT32_MAX
         : a > -2147483648.0 ? static_cast<s32>(a)
         : a <= -2147483648.0 ? INT32_MIN : 0;
}

static inline u32 ptx_bf16(f32 a)
{
    u32 u = bits_of(a);
    u32 r = (u + 0x7fffu + (u >> 16 & 1)) >> 16;

    return (u & 0x7fffffffu) > 0x7f800000u ? 0x7fffu : r;
}

/* The float below, or nearer to zero. */
static inline f32 below(f32 a)
{
    u32 u = bits_of(a);
    u32 down = u >> 31 ? u + 1 : u - 1;

    return float_of((u & 0x7fffffffu) == 0 ? 0x80000001u : down);
}

static inline f32 nearer(f32 a)
{
    return float_of(bits_of(a) - 1);
}

/* a b + c rounded down: the product is exact in double, what its sum with c
** lost (Knuth's two-sum) decides where that is a float already. */
static inline f32 ptx_fma_rm(f32 a, f32 b, f32 c)
{
    f64 p = f64{a} * f64{b}, s = p + f64{c}, t = s - p;
    f64 lost = (p - (s - t)) + (f64{c} - t);
    f32 r = static_cast<f32>(s);
    bool above = f64{r} > s || (f64{r} == s && lost < 0);

    return above ? below(r) : r;
}

static inline f32 ptx_add_rz(f32 a, f32 b)
{
    f64 s = f64{a} + f64{b}, t = s - f64{a};
    f64 lost = (f64{a} - (s - t)) + (f64{b} - t);
    f32 r = static_cast<f32>(s);
    bool out = fabs(f64{r}) > fabs(s) ||
               (f64{r} == s && (r > 0 ? lost < 0 : lost > 0));

    return out && r != 0 ? nearer(r) : r;
}

static inline u32 ptx_ones(u32 n) { return n > 31 ? ~u32{0} : (1u << n) - 1; }

static inline u32 ptx_prmt(u32 a, u32 b, u32 c)
{
    u64 all = u64{b} << 32 | a;
    u32 r = 0;

    for (int k = 0; k < 4; k++) {
        u32 s = c >> (4 * k) & 15;
        u32 v = static_cast<u32>(all >> (8 * (s & 7)) & 255);
        if (s & 8) v = v & 128 ? 255 : 0;
        r |= v << (8 * k);
    }
    return r;
}

static inline u64 insert(u64 a, u64 b, u32 from, u32 n, u32 width)
{
    from &= 255;
    n &= 255;
    if (from >= width || n == 0) return b;
    u64 ones = (n > 63 ? ~u64{0} : (u64{1} << n) - 1) << from;
    return (b & ~ones) | (a << from & ones);
}

/* ---- the instructions --------------------------------------------------- */

template <typename T> struct room_of { typedef T type; };
template <> struct room_of<s16> { typedef u32 type; };
template <> struct room_of<u16> { typedef u32 type; };

/* Result and operands are different registers or the same, lane by lane. */
#define LANES _Pragma("GCC ivdep") for (int l = 0; l < 32; l++)
#define EACH(D, take, e)                                                     \
    do {                                                                     \
        D *d = ptx_at<D>(w, i.d);                                            \
        if (mask == ~u32{0}) {                                               \
            LANES { take; d[l] = e; }                                        \
        } else {                                                             \
            LANES { take; D r = e; d[l] = mask >> l & 1 ? r : d[l]; }        \
        }                                                                    \
    } while (0)

#define RUN1(name, text, D, A, e)                                            \
    case LANE_##name: {                                                      \
        const A *pa = ptx_at<A>(w, i.a);                                     \
        EACH(D, A a = pa[l], e);                                             \
        break;                                                               \
    }
#define RUN2(name, text, D, A, B, e)                                         \
    case LANE_##name: {                                                      \
        const A *pa = ptx_at<A>(w, i.a);                                     \
        const B *pb = ptx_at<B>(w, i.b);                                     \
        EACH(D, A a = pa[l]; B b = pb[l], e);                                \
        break;                                                               \
    }
#define RUN3(name, text, D, A, B, C, e)                                      \
    case LANE_##name: {                                                      \
        const A *pa = ptx_at<A>(w, i.a);                                     \
        const B *pb = ptx_at<B>(w, i.b);                                     \
        const C *pc = ptx_at<C>(w, i.c);                                     \
        EACH(D, A a = pa[l]; B b = pb[l]; C c = pc[l], e);                   \
        break;                                                               \
    }
#define RUN_SET(name, text, T, e)                                            \
    case LANE_SET_##name: {                                                  \
        typedef room_of<T>::type R;                                          \
        const R *pa = ptx_at<R>(w, i.a), *pb = ptx_at<R>(w, i.b);            \
        u32 is = 0;                                                          \
        for (int l = 0; l < 32; l++) {                                       \
            T a = static_cast<T>(pa[l]), b = static_cast<T>(pb[l]);          \
            is |= static_cast<u32>(e) << l;                                  \
        }                                                                    \
        u32 &p = w.pred[i.d];                                                \
        p = (p & ~mask) | (is & mask);                                       \
        break;                                                               \
    }
#define RUN_PREDICATE(name, text, e)                                         \
    case LANE_##name: {                                                      \
        u32 a = i.n ? (i.imm ? ~u32{0} : 0) : w.pred[i.a];                   \
        u32 b = two ? w.pred[i.b] : 0, &p = w.pred[i.d];                     \
        (void)b;                                                             \
        p = (p & ~mask) | ((e) & mask);                                      \
        break;                                                               \
    }
#define RUN_SELECT(name, text, T)                                            \
    case LANE_##name: {                                                      \
        const T *pa = ptx_at<T>(w, i.a), *pb = ptx_at<T>(w, i.b);            \
        u32 first = w.pred[i.c];                                             \
        EACH(T, T a = pa[l]; T b = pb[l], first >> l & 1 ? a : b);           \
        break;                                                               \
    }

static void run_insert(ptx_warp &w, const ptx_ins &i, u32 mask)
{
    const u32 *at = ptx_at<u32>(w, i.c);
    const u32 *n = ptx_at<u32>(w, static_cast<u32>(i.imm));
    bool wide = i.op == LANE_BFI_64;

    for (int l = 0; l < 32; l++) {
        if (!(mask >> l & 1)) continue;
        if (wide)
            ptx_at<u64>(w, i.d)[l] = insert(ptx_at<u64>(w, i.a)[l],
                                            ptx_at<u64>(w, i.b)[l], at[l],
                                            n[l], 64);
        else
            ptx_at<u32>(w, i.d)[l] = static_cast<u32>(
                insert(ptx_at<u32>(w, i.a)[l], ptx_at<u32>(w, i.b)[l], at[l],
                       n[l], 32));
    }
}

static void run_lop3(ptx_warp &w, const ptx_ins &i, u32 mask)
{
    for (int l = 0; l < 32; l++) {
        u32 a = ptx_at<u32>(w, i.a)[l], b = ptx_at<u32>(w, i.b)[l];
        u32 c = ptx_at<u32>(w, i.c)[l], r = 0;

        if (!(mask >> l & 1)) continue;
        for (int k = 0; k < 8; k++)
            if (i.imm >> k & 1)
                r |= (k & 4 ? a : ~a) & (k & 2 ? b : ~b) & (k & 1 ? c : ~c);
        ptx_at<u32>(w, i.d)[l] = r;
    }
}

void ptx_lanes(ptx_warp &w, const ptx_ins &i, u32 mask)
{
    bool two = i.op == LANE_AND_PRED || i.op == LANE_OR_PRED ||
               i.op == LANE_XOR_PRED;

    switch (i.op) {
    PTX_LANE1(RUN1) PTX_LANE2(RUN2) PTX_LANE3(RUN3) PTX_SETP(RUN_SET)
    PTX_PREDICATE(RUN_PREDICATE) PTX_SELECT(RUN_SELECT)
    case LANE_BFI_32:
    case LANE_BFI_64: run_insert(w, i, mask); break;
    case LANE_LOP3: run_lop3(w, i, mask); break;
    default: ptx_fault("an instruction without a meaning");
    }
}
