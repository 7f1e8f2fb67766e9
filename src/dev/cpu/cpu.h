/*
** cpu.h - what the files of the cpu device share.
**
** The kernels are written once, over a type "real", in the headers that
** kernels.h includes; f32.c and f64.c compile them for float and double.
** Device pointers are host pointers. A kernel that needs room takes the
** device's one scratch buffer, which lies outside the rank's allocator.
** Inside src/dev.
*/
#ifndef DEV_CPU_CPU_H
#define DEV_CPU_CPU_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "dev/dev.h"

struct cpu {
    struct dev dev;
    void *scratch;              /* grown as needed, freed at close */
    size_t scratch_bytes;
    uint64_t taken, limit;      /* bytes of segments; limit 0: none */
    char *room;                 /* addresses for segments; NULL: none */
    uint64_t room_used;
};

extern const struct kernels cpu_kernels_f32;    /* act bf16 or f32 */
extern const struct kernels cpu_kernels_f64;

/* At least bytes, aligned as malloc does, valid until the next call; what it
** held is lost. NULL when host memory is out. */
void *cpu_scratch(struct dev *d, size_t bytes);

/* What a view must be. */
enum cpu_kind { CPU_FLOAT, CPU_ACC, CPU_I64, CPU_U8, CPU_SAME };

/* Does m hold rows x cols of the kind (acc is the accumulator type)? */
bool cpu_fits(const struct mat *m, int64_t rows, int64_t cols,
              enum cpu_kind kind, enum dtype acc);
/* ERR_RUN: "cpu k_gemm: view a->c is 3 x 4 bf16, not 3 x 5 acc". */
int cpu_misfit(struct err *e, const char *kernel, const char *view,
               const struct mat *m, int64_t rows, int64_t cols,
               enum cpu_kind kind);
/* ERR_RUN: "cpu k_embed: ids[7] is 9, not in 0..7". */
int cpu_out_of_range(struct err *e, const char *kernel, const char *what,
                     int64_t at, int64_t is, int64_t n);

#endif
