/* work.c - see work.h: time, status, percent, and files beside the records */
#include "run/work.h"

#include <assert.h>
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/num.h"

const char *const run_driver_rows[DRIVER_ROWS] = {
    "driver_before", "driver_highest", "driver_after", "rank", "libraries",
};

int64_t run_now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

void run_time(const struct run_work *w, struct run_wave *wave, int64_t rank,
              const char *what, int64_t ns)
{
    assert(rank >= -1 && ns >= 0);
    if (wave->n_timing == w->c->cp + RUN_WAVE_TIMINGS) return;
    wave->timing[wave->n_timing++] = (struct record_timing){rank, what, ns};
}

/* The most-loaded rank's allocated bytes, -1 where the wave has no peak. */
int64_t run_peak(const struct run_work *w, int64_t wave)
{
    const struct run_wave *v = &w->wave[wave];
    int64_t i, most = -1;

    for (i = 0; v->measured && i < w->c->cp; i++)
        if ((int64_t)v->rank[i].peak.allocated > most)
            most = (int64_t)v->rank[i].peak.allocated;
    return most;
}

int64_t run_taken(const struct run_work *w, int64_t wave)
{
    const struct run_wave *v = &w->wave[wave];
    int64_t i, most = -1;

    for (i = 0; v->measured && i < w->c->cp; i++)
        most = num_max(most, (int64_t)v->rank[i].peak.reserved +
                             num_max(v->rank[i].beside.hybridep_bytes, 0));
    return most;
}

struct plan_options run_plan_options(const struct scenario_case *c)
{
    return (struct plan_options){
        .cp = c->cp, .ep = c->ep, .tp = c->tp, .profile = c->profile,
        .owned_ms = -1, .cut_rows = c->cut
    };
}

double run_percent(int64_t estimate, int64_t peak)
{
    return ((double)estimate - (double)peak) / (double)peak * 100;
}

enum record_status run_status(int code)
{
    switch (code) {
    case ERR_OK: return STATUS_OK;
    case ERR_OOM: return STATUS_OOM;
    case ERR_WRONG: return STATUS_WRONG;
    case ERR_DEVICE: return STATUS_REFUSED;
    default: return STATUS_ERROR;
    }
}

static void put_name(struct buf *b, const char *s)
{
    for (; *s != '\0'; s++) {
        unsigned char c = (unsigned char)*s;
        if (c < 128 && (isalnum(c) || strchr("-_.", c) != NULL))
            buf_putc(b, *s);
        else
            buf_printf(b, "%%%02X", c);
    }
}

void run_put_name(const struct run_work *w, struct buf *b)
{
    put_name(b, w->s->name);
    buf_putc(b, '.');
    put_name(b, w->c->name);
}

int run_add_file(const struct run_work *w, enum run_file_kind kind,
                 const char *suffix, struct buf *text,
                 struct case_result *out, struct err *e)
{
    size_t n = (size_t)out->n_file + 1;
    struct run_file *all = realloc(out->file, n * sizeof *all);
    struct buf name = BUF_INIT;

    run_put_name(w, &name);
    buf_puts(&name, suffix);
    if (all != NULL) out->file = all;
    if (all == NULL || name.failed || text->failed) {
        buf_free(&name);
        buf_free(text);
        return err_nomem(e);
    }
    all[out->n_file++] = (struct run_file){kind, name.data, *text};
    *text = (struct buf)BUF_INIT;
    return ERR_OK;
}
