/* check.c - what kernels of the cpu device need: room, and views that fit */
#include "dev/cpu/cpu.h"

#include <assert.h>
#include <stdlib.h>

void *cpu_scratch(struct dev *d, size_t bytes)
{
    struct cpu *c = (struct cpu *)d;
    size_t room = bytes + bytes / 4 + 64;

    if (bytes <= c->scratch_bytes && c->scratch != NULL) return c->scratch;
    free(c->scratch);
    c->scratch = malloc(room);
    c->scratch_bytes = c->scratch != NULL ? room : 0;
    return c->scratch;
}

static bool kind_fits(enum dtype t, enum cpu_kind kind, enum dtype acc)
{
    switch (kind) {
    case CPU_FLOAT: return t == DT_BF16 || t == DT_F32 || t == DT_F64;
    case CPU_ACC: return t == acc;
    case CPU_I64: return t == DT_I64;
    case CPU_U8: return t == DT_U8;
    case CPU_SAME: return true;
    }
    return false;
}

bool cpu_fits(const struct mat *m, int64_t rows, int64_t cols,
              enum cpu_kind kind, enum dtype acc)
{
    if (m->rows != rows || m->cols != cols || rows < 0 || cols < 0)
        return false;
    if (rows == 0 || cols == 0) return true;
    return m->p != NULL && m->ld >= cols && kind_fits(m->t, kind, acc);
}

static const char *type_name(enum dtype t)
{
    static const char *const name[] = {
        [DT_BF16] = "bf16", [DT_F32] = "f32", [DT_F64] = "f64",
        [DT_I32] = "i32", [DT_I64] = "i64", [DT_U8] = "u8"
    };
    return name[t];
}

int cpu_misfit(struct err *e, const char *kernel, const char *view,
               const struct mat *m, int64_t rows, int64_t cols,
               enum cpu_kind kind)
{
    static const char *const want[] = {
        [CPU_FLOAT] = "float", [CPU_ACC] = "acc", [CPU_I64] = "i64",
        [CPU_U8] = "u8", [CPU_SAME] = "the same type"
    };
    return err_set(e, ERR_RUN, "cpu %s: view %s is %lld x %lld %s%s, not "
                   "%lld x %lld %s", kernel, view, (long long)m->rows,
                   (long long)m->cols, type_name(m->t),
                   m->p == NULL ? " (absent)"
                   : m->ld < m->cols ? " (rows overlap)" : "",
                   (long long)rows, (long long)cols, want[kind]);
}

int cpu_out_of_range(struct err *e, const char *kernel, const char *what,
                     int64_t at, int64_t is, int64_t n)
{
    assert(at >= 0);
    return err_set(e, ERR_RUN, "cpu %s: %s[%lld] is %lld, not in 0..%lld",
                   kernel, what, (long long)at, (long long)is,
                   (long long)n - 1);
}
