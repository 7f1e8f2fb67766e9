/*
** bench_measured.c - the measured cells on one core: all of them, four waves a
** rank, and one wave of the 27B at tp 8 by itself. Best of five.
*/
#include <time.h>

#include "../unit/measured.h"

enum { RUNS = 5, WAVES = 40 };

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static double all_cells(const struct measured *m)
{
    double t = now();
    struct ours o;
    int i;

    for (i = 0; i < m->n; i++)
        if (measured_is_dense(&m->cell[i])) measured_run(&m->cell[i], &o);
    return now() - t;
}

/* Seconds of a forward to hidden states, or with the loss and its backward. */
static double one_wave(const struct cell *c, enum wave_kind wave)
{
    struct plan_options po = {.cp = 1, .tp = c->tp, .ep = 1,
                              .profile = PLAN_NEW, .owned_ms = -1};
    struct dev_options o = {.act = DT_BF16};
    struct mem_config mc = {0};
    struct step_result res;
    struct step_config k;
    struct step *s;
    struct dev *dev;
    struct mem *mem;
    struct batch b;
    struct model m;
    struct plan p;
    struct err e;
    double t;
    int i;

    measured_model(c, &m);
    measured_batch(c, &b);
    measured_need(plan_make(&m, &b, &po, &p, &e), &e);
    k = measured_config(c, &m, &p, 0);
    k.mode.wave = wave;
    measured_need(dev_dry.open(&o, &dev, &e), &e);
    measured_need(mem_new(&mc, dev->source, &mem, &e), &e);
    measured_need(step_new(&k, dev, mem, NULL, &s, &e), &e);
    measured_need(step_wave(s, 0, NULL, &res, &e), &e);
    t = now();
    for (i = 1; i <= WAVES; i++)
        measured_need(step_wave(s, i, NULL, &res, &e), &e);
    t = (now() - t) / WAVES;
    step_free(s);
    mem_free_all(mem);
    dev->ops->close(dev);
    plan_free(&p);
    batch_free(&b);
    model_free(&m);
    return t;
}

static double smaller(double best, double t)
{
    return best == 0 || t < best ? t : best;
}

int main(void)
{
    double all = 0, forward = 0, both = 0;
    struct measured m;
    int run, i;

    measured_load(&m);
    for (i = 0; i < m.n; i++)
        if (strcmp(m.cell[i].id, "M052") == 0) break;
    if (i == m.n) abort();
    for (run = 0; run < RUNS; run++) {
        all = smaller(all, all_cells(&m));
        forward = smaller(forward, one_wave(&m.cell[i], WAVE_HIDDEN));
        both = smaller(both, one_wave(&m.cell[i], WAVE_HIDDEN_LOSS));
    }
    printf("measured: all dense cells, four waves a rank, in %.2f s; a 27B "
           "wave at tp 8, 13,928 rows: %.2f ms a rank, %.2f with backward\n",
           all, 1e3 * forward, 1e3 * both);
    measured_free(&m);
    return 0;
}
