/* import_check.c - peaks that were measured against the case that they are said
** to be of, see import.h */
#include <inttypes.h>
#include <stdio.h>

#include "run/import.h"

/* What the case provably holds on a rank when it is at its peak: the inputs of
** all layers that wait for their backward. 0: not known. */
static int64_t least_of(const struct record_found *f, int64_t wave,
                        int64_t rank)
{
    int64_t bytes;

    return record_bytes(f, wave, rank, "peak", "boundaries", &bytes) ? bytes
                                                                     : 0;
}

/* A peak below what the rank must hold is of another run: better refused. */
static int check_rank(struct import *m, int64_t wave, int64_t rank,
                      struct err *e)
{
    const struct record_found *f = m->found;
    const struct record_rank *k = &m->wave[wave].rank[rank];
    const struct record_peak *p = record_peak_of(f, wave, rank);
    int64_t least = least_of(f, wave, rank);
    int64_t have = (int64_t)k->peak.allocated;

    if (have < least)
        return err_set(e, ERR_INPUT, "import: rank %" PRId64 " of wave %"
                       PRId64 ": a peak of %" PRId64 " B, but case '%s' holds "
                       "%" PRId64 " B of boundaries there alone: another "
                       "model, other tokens, or no whole wave", rank, wave,
                       have, f->shape.name, least);
    if (p == NULL || p->allocated <= 0) return ERR_OK;
    if (have > 2 * p->allocated || have < p->allocated / 2)
        import_warn(m, "rank %" PRId64 " of wave %" PRId64 ": a peak of %"
                    PRId64 " B, the step of this case has %" PRId64 ": other "
                    "tokens, layers or ranks?", rank, wave, have,
                    p->allocated);
    if (k->beside.start_bytes >= 0 && p->beside.start_bytes > 0
        && k->beside.start_bytes < p->beside.start_bytes / 2)
        import_warn(m, "rank %" PRId64 " of wave %" PRId64 ": begins with %"
                    PRId64 " B allocated, the case with %" PRId64 " (weights "
                    "and optimizer): what comes later counts into the peak",
                    rank, wave, k->beside.start_bytes, p->beside.start_bytes);
    return ERR_OK;
}

static int check_wave(struct import *m, int64_t wave, struct err *e)
{
    int64_t ranks = m->found->shape.cp, absent = 0;
    int rc = ERR_OK;

    for (int64_t r = 0; r < ranks && rc == ERR_OK; r++) {
        absent += m->wave[wave].rank[r].absent;
        if (!m->wave[wave].rank[r].absent) rc = check_rank(m, wave, r, e);
    }
    if (absent > 0)
        import_warn(m, "wave %" PRId64 ": %" PRId64 " of %" PRId64 " ranks "
                    "are missing: the most-loaded one may be among them",
                    wave, absent, ranks);
    return rc;
}

int import_check(struct import *m, struct err *e)
{
    int rc = ERR_OK;

    for (int64_t i = 0; i < m->found->waves && rc == ERR_OK; i++)
        if (m->wave[i].given) rc = check_wave(m, i, e);
    return rc;
}
