/* launch.c - see launch.h */
#include "comm/launch.h"

#include <stddef.h>

#include "base/num.h"

#define MAX_PROCESSES 4096

struct family { const char *rank, *size, *local; };

static const struct family families[] = {
    {"RANK", "WORLD_SIZE", "LOCAL_RANK"},
    {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
     "OMPI_COMM_WORLD_LOCAL_RANK"},
    {"SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID"},
};
#define N_FAMILY (sizeof families / sizeof families[0])

struct reader {
    const char *(*get)(const char *name, void *ctx);
    void *ctx;
    struct err *e;
};

static int number(const struct reader *r, const char *name, int64_t lo,
                  int64_t hi, int *out)
{
    const char *text = r->get(name, r->ctx);
    int64_t v;

    if (text == NULL)
        return err_set(r->e, ERR_USAGE, "%s is not set, though a launcher's "
                       "other variables are", name);
    if (!num_parse(text, lo, hi, &v))
        return err_set(r->e, ERR_USAGE, "%s: must be a number from %lld to "
                       "%lld, not '%s'", name, (long long)lo, (long long)hi,
                       text);
    *out = (int)v;
    return ERR_OK;
}

static int read_family(const struct reader *r, const struct family *f,
                       struct launch *l)
{
    int rc = number(r, f->size, 1, MAX_PROCESSES, &l->size);

    if (rc == ERR_OK) rc = number(r, f->rank, 0, l->size - 1, &l->rank);
    if (rc == ERR_OK)
        rc = number(r, f->local, 0, l->size - 1, &l->local_rank);
    l->from = f->rank;
    return rc;
}

static int read_master(const struct reader *r, struct launch *l)
{
    l->master_addr = r->get("MASTER_ADDR", r->ctx);
    if (l->master_addr == NULL || l->master_addr[0] == '\0')
        return err_set(r->e, ERR_USAGE, "MASTER_ADDR is not set: it must "
                       "name the host of rank 0");
    return number(r, "MASTER_PORT", 1, 65535, &l->master_port);
}

static const char *read_token(const struct reader *r)
{
    static const char *const names[] = {
        "PEAKPROOF_TOKEN", "TORCHELASTIC_RUN_ID", "SLURM_JOB_ID",
        "PMIX_NAMESPACE"
    };
    size_t i;

    for (i = 0; i < sizeof names / sizeof *names; i++) {
        const char *text = r->get(names[i], r->ctx);
        if (text != NULL && *text != '\0') return text;
    }
    return "";
}

int launch_read(const char *(*get)(const char *name, void *ctx), void *ctx,
                struct launch *out, struct err *e)
{
    struct reader r = {get, ctx, e};
    struct launch l = {0, 1, 0, NULL, NULL, 0, ""};
    size_t i;
    int rc = ERR_OK;

    for (i = 0; i < N_FAMILY && l.from == NULL; i++)
        if (get(families[i].rank, ctx) != NULL)
            rc = read_family(&r, &families[i], &l);
    if (rc == ERR_OK && l.size > 1) rc = read_master(&r, &l);
    l.token = read_token(&r);
    if (rc == ERR_OK) *out = l;
    return rc;
}
