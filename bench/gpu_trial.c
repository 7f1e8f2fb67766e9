/* gpu_trial.c - see gpu_trial.h */
#include "bench/gpu_trial.h"

enum { SIDE = 16, SEGMENT = 2 << 20 };

/* c = a a, all of a 0.5: all of c is SIDE / 4. */
static int compute(struct dev *d, uint64_t addr, struct err *e)
{
    float *p = (float *)(uintptr_t)addr, got = 0;
    struct mat a = {p, SIDE, SIDE, SIDE, DT_F32};
    struct mat c = {p + SIDE * SIDE, SIDE, SIDE, SIDE, DT_F32};
    struct k_fill fill = {a, 0.5};
    struct k_gemm gemm = {.c = c, .a = a, .b = a, .alpha = 1};
    int rc = d->k->fill(d, &fill, e);

    if (rc == ERR_OK) rc = d->k->gemm(d, &gemm, e);
    if (rc == ERR_OK) rc = d->ops->sync(d, e);
    if (rc == ERR_OK)
        rc = d->ops->download(d, &got, p + 2 * SIDE * SIDE - 1, sizeof got,
                              e);
    if (rc != ERR_OK || got == (float)SIDE / 4) return rc;
    return err_set(e, ERR_WRONG, "a product gives %g and not %d",
                   (double)got, SIDE / 4);
}

int gpu_trial(const struct cuda_module *m, int gpu, struct err *e)
{
    struct dev_options o = {.act = DT_F32, .gpu = gpu};
    uint64_t addr;
    struct dev *d;
    int rc = m->ops->open(&o, &d, e);

    if (rc != ERR_OK) return rc;
    rc = d->source.get(d->source.ctx, SEGMENT, &addr, e);
    if (rc == ERR_OK) {
        rc = compute(d, addr, e);
        d->source.put(d->source.ctx, addr, SEGMENT);
    }
    d->ops->close(d);
    return rc;
}
