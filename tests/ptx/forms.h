/*
** forms.h - what a lane does, by instruction: its name, the types of result
** and operands, and the result as an expression of a, b and c.
**
** Widths of operands follow from the types: 32 or 64 bits; 16-bit values live
** in 32. Where several PTX names mean the same they are listed as aliases of
** the first (build.cpp).
*/
#ifndef PTX_FORMS_H
#define PTX_FORMS_H

#define PTX_LANE1(X)                                                        \
    X(MOV_32, "mov.b32", u32, u32, a)                                       \
    X(MOV_64, "mov.b64", u64, u64, a)                                       \
    X(NOT_32, "not.b32", u32, u32, ~a)                                      \
    X(NOT_64, "not.b64", u64, u64, ~a)                                      \
    X(NEG_32, "neg.s32", u32, u32, 0u - a)                                  \
    X(NEG_64, "neg.s64", u64, u64, u64{0} - a)                              \
    X(NEG_F32, "neg.f32", f32, f32, -a)                                     \
    X(NEG_F64, "neg.f64", f64, f64, -a)                                     \
    X(ABS_32, "abs.s32", u32, s32, a < 0 ? 0u - static_cast<u32>(a)         \
                                         : static_cast<u32>(a))             \
    X(ABS_F32, "abs.f32", f32, f32, fabsf(a))                               \
    X(ABS_F64, "abs.f64", f64, f64, fabs(a))                                \
    X(POPC, "popc.b32", u32, u32, static_cast<u32>(__builtin_popcount(a)))  \
    X(CLZ, "clz.b32", u32, u32,                                             \
      a == 0 ? 32u : static_cast<u32>(__builtin_clz(a)))                    \
    X(SQRT_F32, "sqrt.rn.f32", f32, f32, sqrtf(a))                          \
    X(SQRT_F64, "sqrt.rn.f64", f64, f64, sqrt(a))                           \
    X(RCP_F32, "rcp.rn.f32", f32, f32, 1.0f / a)                            \
    X(RCP_F64, "rcp.rn.f64", f64, f64, 1.0 / a)                             \
    X(RSQRT_F32, "rsqrt.approx.f32", f32, f32, 1.0f / sqrtf(a))             \
    X(EX2, "ex2.approx.ftz.f32", f32, f32, exp2f(ptx_flush(a)))             \
    X(LG2, "lg2.approx.ftz.f32", f32, f32, log2f(ptx_flush(a)))             \
    X(TANH, "tanh.approx.f32", f32, f32, tanhf(a))                          \
    X(S64_S32, "cvt.s64.s32", s64, s32, s64{a})                             \
    X(U64_U32, "cvt.u64.u32", u64, u32, u64{a})                             \
    X(S64_LOW, "cvt.s64.s32 of 64 bits", s64, u64,                          \
      s64{static_cast<s32>(a)})                                             \
    X(U64_LOW, "cvt.u64.u32 of 64 bits", u64, u64, a & 0xffffffffu)         \
    X(U32_U64, "cvt.u32.u64", u32, u64, static_cast<u32>(a))                \
    X(S64_S16, "cvt.s64.s16", s64, s32, s64{static_cast<int16_t>(a)})       \
    X(S32_S16, "cvt.s32.s16", s32, s32, static_cast<int16_t>(a))            \
    X(S32_S8, "cvt.s32.s8", s32, s32, static_cast<int8_t>(a))               \
    X(U32_U16, "cvt.u32.u16", u32, u32, a & 0xffffu)                        \
    X(U32_U8, "cvt.u32.u8", u32, u32, a & 0xffu)                            \
    X(U64_U16, "cvt.u64.u16", u64, u32, u64{a & 0xffffu})                   \
    X(F32_S32, "cvt.rn.f32.s32", f32, s32, static_cast<f32>(a))             \
    X(F32_U32, "cvt.rn.f32.u32", f32, u32, static_cast<f32>(a))             \
    X(F32_S64, "cvt.rn.f32.s64", f32, s64, static_cast<f32>(a))             \
    X(F32_U64, "cvt.rn.f32.u64", f32, u64, static_cast<f32>(a))             \
    X(F64_S32, "cvt.rn.f64.s32", f64, s32, static_cast<f64>(a))             \
    X(F64_U32, "cvt.rn.f64.u32", f64, u32, static_cast<f64>(a))             \
    X(F64_S64, "cvt.rn.f64.s64", f64, s64, static_cast<f64>(a))             \
    X(F64_U64, "cvt.rn.f64.u64", f64, u64, static_cast<f64>(a))             \
    X(F64_F32, "cvt.f64.f32", f64, f32, f64{a})                             \
    X(F32_F64, "cvt.rn.f32.f64", f32, f64, static_cast<f32>(a))             \
    X(RNI_F32, "cvt.rni.f32.f32", f32, f32, rintf(a))                       \
    X(RMI_F32, "cvt.rmi.f32.f32", f32, f32, floorf(a))                      \
    X(RZI_F32, "cvt.rzi.f32.f32", f32, f32, truncf(a))                      \
    X(RNI_F64, "cvt.rni.f64.f64", f64, f64, rint(a))                        \
    X(RMI_F64, "cvt.rmi.f64.f64", f64, f64, floor(a))                       \
    X(RZI_F64, "cvt.rzi.f64.f64", f64, f64, trunc(a))                       \
    X(RNI_S32_F32, "cvt.rni.s32.f32", s32, f32, ptx_s32(rint(f64{a})))      \
    X(RZI_S32_F32, "cvt.rzi.s32.f32", s32, f32, ptx_s32(trunc(f64{a})))     \
    X(RZI_S32_F64, "cvt.rzi.s32.f64", s32, f64, ptx_s32(trunc(a)))          \
    X(SAT_F32, "cvt.sat.f32.f32", f32, f32,                                 \
      a > 0.0f ? (a < 1.0f ? a : 1.0f) : 0.0f)                              \
    X(BF16_F32, "cvt.rn.bf16.f32", u32, f32, ptx_bf16(a))                   \
    X(F32_BF16, "cvt.f32.bf16", u32, u32, a << 16)

#define PTX_LANE2(X)                                                        \
    X(ADD_32, "add.s32", u32, u32, u32, a + b)                              \
    X(ADD_64, "add.s64", u64, u64, u64, a + b)                              \
    X(SUB_32, "sub.s32", u32, u32, u32, a - b)                              \
    X(SUB_64, "sub.s64", u64, u64, u64, a - b)                              \
    X(MUL_32, "mul.lo.s32", u32, u32, u32, a * b)                           \
    X(MUL_64, "mul.lo.s64", u64, u64, u64, a * b)                           \
    X(MUL_WIDE_S32, "mul.wide.s32", s64, s32, s32, s64{a} * s64{b})         \
    X(MUL_WIDE_U32, "mul.wide.u32", u64, u32, u32, u64{a} * u64{b})         \
    X(MUL_HI_S32, "mul.hi.s32", s32, s32, s32,                              \
      static_cast<s32>((s64{a} * s64{b}) >> 32))                            \
    X(MUL_HI_U32, "mul.hi.u32", u32, u32, u32,                              \
      static_cast<u32>((u64{a} * u64{b}) >> 32))                            \
    X(DIV_S32, "div.s32", s32, s32, s32,                                    \
      b == 0 ? -1 : static_cast<s32>(s64{a} / s64{b}))                      \
    X(DIV_U32, "div.u32", u32, u32, u32, b == 0 ? ~0u : a / b)              \
    X(DIV_S64, "div.s64", s64, s64, s64,                                    \
      b == 0 || b == -1 ? static_cast<s64>(u64{0} - static_cast<u64>(a))    \
                        : a / b)                                            \
    X(DIV_U64, "div.u64", u64, u64, u64, b == 0 ? ~u64{0} : a / b)          \
    X(REM_S32, "rem.s32", s32, s32, s32,                                    \
      b == 0 ? a : static_cast<s32>(s64{a} % s64{b}))                       \
    X(REM_U32, "rem.u32", u32, u32, u32, b == 0 ? a : a % b)                \
    X(REM_S64, "rem.s64", s64, s64, s64, b == 0 || b == -1 ? 0 : a % b)     \
    X(REM_U64, "rem.u64", u64, u64, u64, b == 0 ? a : a % b)                \
    X(MIN_S32, "min.s32", s32, s32, s32, a < b ? a : b)                     \
    X(MIN_U32, "min.u32", u32, u32, u32, a < b ? a : b)                     \
    X(MIN_S64, "min.s64", s64, s64, s64, a < b ? a : b)                     \
    X(MIN_U64, "min.u64", u64, u64, u64, a < b ? a : b)                     \
    X(MAX_S32, "max.s32", s32, s32, s32, a > b ? a : b)                     \
    X(MAX_U32, "max.u32", u32, u32, u32, a > b ? a : b)                     \
    X(MAX_S64, "max.s64", s64, s64, s64, a > b ? a : b)                     \
    X(MAX_U64, "max.u64", u64, u64, u64, a > b ? a : b)                     \
    X(AND_32, "and.b32", u32, u32, u32, a & b)                              \
    X(AND_64, "and.b64", u64, u64, u64, a & b)                              \
    X(OR_32, "or.b32", u32, u32, u32, a | b)                                \
    X(OR_64, "or.b64", u64, u64, u64, a | b)                                \
    X(XOR_32, "xor.b32", u32, u32, u32, a ^ b)                              \
    X(XOR_64, "xor.b64", u64, u64, u64, a ^ b)                              \
    X(SHL_32, "shl.b32", u32, u32, u32, b > 31 ? 0u : a << b)               \
    X(SHL_64, "shl.b64", u64, u64, u32, b > 63 ? u64{0} : a << b)           \
    X(SHR_S32, "shr.s32", s32, s32, u32, a >> (b > 31 ? 31 : b))            \
    X(SHR_U32, "shr.u32", u32, u32, u32, b > 31 ? 0u : a >> b)              \
    X(SHR_S64, "shr.s64", s64, s64, u32, a >> (b > 63 ? 63 : b))            \
    X(SHR_U64, "shr.u64", u64, u64, u32, b > 63 ? u64{0} : a >> b)          \
    X(ADD_F32, "add.f32", f32, f32, f32, a + b)                             \
    X(ADD_RZ_F32, "add.rz.f32", f32, f32, f32, ptx_add_rz(a, b))            \
    X(SUB_F32, "sub.f32", f32, f32, f32, a - b)                             \
    X(MUL_F32, "mul.f32", f32, f32, f32, a * b)                             \
    X(DIV_F32, "div.rn.f32", f32, f32, f32, a / b)                          \
    X(MIN_F32, "min.f32", f32, f32, f32, fminf(a, b))                       \
    X(MAX_F32, "max.f32", f32, f32, f32, fmaxf(a, b))                       \
    X(ADD_F64, "add.f64", f64, f64, f64, a + b)                             \
    X(SUB_F64, "sub.f64", f64, f64, f64, a - b)                             \
    X(MUL_F64, "mul.f64", f64, f64, f64, a * b)                             \
    X(DIV_F64, "div.rn.f64", f64, f64, f64, a / b)                          \
    X(MIN_F64, "min.f64", f64, f64, f64, fmin(a, b))                        \
    X(MAX_F64, "max.f64", f64, f64, f64, fmax(a, b))                        \
    X(BF16X2, "cvt.rn.bf16x2.f32", u32, f32, f32,                           \
      ptx_bf16(a) << 16 | ptx_bf16(b))

#define PTX_LANE3(X)                                                        \
    X(FMA_F32, "fma.rn.f32", f32, f32, f32, f32, fmaf(a, b, c))             \
    X(FMA_RM_F32, "fma.rm.f32", f32, f32, f32, f32, ptx_fma_rm(a, b, c))    \
    X(FMA_F64, "fma.rn.f64", f64, f64, f64, f64, fma(a, b, c))              \
    X(MAD_32, "mad.lo.s32", u32, u32, u32, u32, a * b + c)                  \
    X(MAD_64, "mad.lo.s64", u64, u64, u64, u64, a * b + c)                  \
    X(MAD_WIDE_S32, "mad.wide.s32", s64, s32, s32, s64, s64{a} * s64{b} + c) \
    X(MAD_WIDE_U32, "mad.wide.u32", u64, u32, u32, u64, u64{a} * u64{b} + c) \
    X(PRMT, "prmt.b32", u32, u32, u32, u32, ptx_prmt(a, b, c))              \
    X(SHF_L, "shf.l.wrap.b32", u32, u32, u32, u32,                          \
      static_cast<u32>((u64{b} << 32 | a) << (c & 31) >> 32))               \
    X(SHF_R, "shf.r.wrap.b32", u32, u32, u32, u32,                          \
      static_cast<u32>((u64{b} << 32 | a) >> (c & 31)))                     \
    X(BFE_U32, "bfe.u32", u32, u32, u32, u32,                               \
      (b & 255) > 31 ? 0u : a >> (b & 255) & ptx_ones(c & 255))

/* Result: a predicate. */
#define PTX_SET(X, T, suffix)                                               \
    X(EQ_##T, "setp.eq." suffix, T, a == b)                                 \
    X(NE_##T, "setp.ne." suffix, T, a != b)                                 \
    X(LT_##T, "setp.lt." suffix, T, a < b)                                  \
    X(LE_##T, "setp.le." suffix, T, a <= b)                                 \
    X(GT_##T, "setp.gt." suffix, T, a > b)                                  \
    X(GE_##T, "setp.ge." suffix, T, a >= b)
#define PTX_SET_FLOAT(X, T, suffix)                                         \
    X(EQ_##T, "setp.eq." suffix, T, a == b)                                 \
    X(NE_##T, "setp.ne." suffix, T, a < b || a > b)                         \
    X(LT_##T, "setp.lt." suffix, T, a < b)                                  \
    X(LE_##T, "setp.le." suffix, T, a <= b)                                 \
    X(GT_##T, "setp.gt." suffix, T, a > b)                                  \
    X(GE_##T, "setp.ge." suffix, T, a >= b)                                 \
    X(EQU_##T, "setp.equ." suffix, T, !(a < b || a > b))                    \
    X(NEU_##T, "setp.neu." suffix, T, !(a == b))                            \
    X(LTU_##T, "setp.ltu." suffix, T, !(a >= b))                            \
    X(LEU_##T, "setp.leu." suffix, T, !(a > b))                             \
    X(GTU_##T, "setp.gtu." suffix, T, !(a <= b))                            \
    X(GEU_##T, "setp.geu." suffix, T, !(a < b))                             \
    X(NUM_##T, "setp.num." suffix, T, a == a && b == b)                     \
    X(NAN_##T, "setp.nan." suffix, T, a != a || b != b)
#define PTX_SETP(X)                                                         \
    PTX_SET(X, s32, "s32") PTX_SET(X, u32, "u32") PTX_SET(X, s64, "s64")    \
    PTX_SET(X, u64, "u64") PTX_SET(X, s16, "s16") PTX_SET(X, u16, "u16")    \
    PTX_SET_FLOAT(X, f32, "f32") PTX_SET_FLOAT(X, f64, "f64")

/* Of predicates: masks of lanes. */
#define PTX_PREDICATE(X)                                                    \
    X(MOV_PRED, "mov.pred", a)                                              \
    X(NOT_PRED, "not.pred", ~a)                                             \
    X(AND_PRED, "and.pred", a & b)                                          \
    X(OR_PRED, "or.pred", a | b)                                            \
    X(XOR_PRED, "xor.pred", a ^ b)

/* a where the predicate holds, else b. */
#define PTX_SELECT(X)                                                       \
    X(SELP_32, "selp.b32", u32)                                             \
    X(SELP_64, "selp.b64", u64)

#define PTX_ENUM1(name, form, D, A, e) LANE_##name,
#define PTX_ENUM2(name, form, D, A, B, e) LANE_##name,
#define PTX_ENUM3(name, form, D, A, B, C, e) LANE_##name,
#define PTX_ENUM_SET(name, form, T, e) LANE_SET_##name,
#define PTX_ENUM_SHORT(name, form, e) LANE_##name,
enum ptx_lane_op {
    LANE_FIRST = 100,           /* above enum ptx_control */
    PTX_LANE1(PTX_ENUM1) PTX_LANE2(PTX_ENUM2) PTX_LANE3(PTX_ENUM3)
    PTX_SETP(PTX_ENUM_SET) PTX_PREDICATE(PTX_ENUM_SHORT)
    PTX_SELECT(PTX_ENUM_SHORT)
    LANE_BFI_32, LANE_BFI_64, LANE_LOP3, LANE_LAST
};

#endif
