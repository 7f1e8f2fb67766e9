/* kept.c - see run.h: what cases that --resume keeps say again */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "run/work.h"
#include "record/read.h"

/* The code that a case once ended with. */
static int code_of(const struct record_case *c)
{
    static const int code[STATUS_COUNT] = {
        [STATUS_OOM] = ERR_OOM, [STATUS_REFUSED] = ERR_DEVICE,
        [STATUS_WRONG] = ERR_WRONG, [STATUS_ERROR] = ERR_RUN
    };
    const char *note = c->note != NULL ? c->note : "";
    size_t n = strlen(RECORD_EXIT);
    char *end;
    long said;

    if (c->status != STATUS_ERROR || strncmp(note, RECORD_EXIT, n) != 0)
        return code[c->status];
    said = strtol(note + n, &end, 10);
    return *end == ':' && said > 0 && said < 256 ? (int)said : ERR_RUN;
}

/* The job's case. Cases stand in the order of jobs, so the search begins
** behind the last one found. */
static const struct record_found *find(const struct record_set *set,
                                       const struct run_context *x,
                                       const struct run_job *j, int64_t *at)
{
    int64_t i;

    for (i = 0; i < set->n_case; i++) {
        const struct record_found *f = &set->kase[*at];
        *at = (*at + 1) % set->n_case;
        if (strcmp(f->shape.device, x->device) == 0 &&
            strcmp(f->shape.scenario, j->scenario->name) == 0 &&
            strcmp(f->shape.name, j->scenario->kase[j->index].name) == 0)
            return f;
    }
    return NULL;
}

/* Estimates are in a wave's rows "NAME, raw" of all ranks, behind its peak;
** "NAME/..." is something else. Returns how many are outside. */
static int64_t check(const struct run_job *j, const struct record_found *f,
                     struct buf *complaint)
{
    int64_t i, peak = -1, wave = -1, n = 0;

    for (i = 0; i < f->n_row; i++) {
        const struct record_row *r = &f->row[i];
        if (r->rank != RECORD_MAX || !r->measured) continue;
        if (strcmp(r->source, "peak") == 0 && strcmp(r->term, "total") == 0) {
            peak = r->bytes;
            wave = r->wave;
        }
        if (r->wave != wave || r->status != STATUS_OK ||
            strcmp(r->term, "raw") != 0 || strchr(r->source, '/') != NULL)
            continue;
        n += run_outside(j->scenario, &j->scenario->kase[j->index], r->wave,
                         r->source, r->bytes, peak, complaint);
    }
    return n;
}

static void judge(const struct run_context *x, const struct run_job *j,
                  const struct record_found *f, struct run_kept *out)
{
    int code = code_of(&f->shape);
    int64_t n = x->check ? check(j, f, &out->complaint) : 0;

    if (code != ERR_OK && out->warning.len == 0)
        buf_printf(&out->warning, "%s/%s failed before (%s, cases.csv says "
                   "why) and is kept (leave out --resume to run it again)",
                   f->shape.scenario, f->shape.name,
                   record_status_name(f->shape.status));
    out->n_outside += n;
    if (code == ERR_OK && n > 0) code = ERR_CHECK;
    if (out->first_code == ERR_OK) out->first_code = code;
    out->n_wrong += f->shape.status == STATUS_WRONG;
    out->n_ran += f->shape.status == STATUS_WRONG ||
                  f->shape.status == STATUS_OK;
}

int run_kept(const char *dir, const struct run_context *x,
             const struct run_job *job, int64_t n_job, struct run_kept *out,
             struct err *e)
{
    struct record_set *set = NULL;
    int64_t i, at = 0;
    int rc;

    *out = (struct run_kept){0};
    if (n_job == 0) return ERR_OK;
    rc = record_read(dir, &set, e);
    for (i = 0; i < n_job && rc == ERR_OK; i++) {
        const struct record_found *f = find(set, x, &job[i], &at);
        if (f == NULL)
            rc = err_set(e, ERR_RUN, "%s: changed while it was read", dir);
        else
            judge(x, &job[i], f, out);
    }
    record_set_free(set);
    if (rc == ERR_OK && (out->warning.failed || out->complaint.failed))
        rc = err_nomem(e);
    return rc;
}

void run_kept_free(struct run_kept *k)
{
    buf_free(&k->warning);
    buf_free(&k->complaint);
}
