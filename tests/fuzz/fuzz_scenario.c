/* Any text as a scenario: it loads or is refused, within its limits, and
** what loads is in bounds. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "script/scenario.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char path[64];

static void remove_file(void)
{
    unlink(path);
}

/* One file for all inputs of a process. */
static FILE *open_file(void)
{
    if (*path == '\0') {
        snprintf(path, sizeof path, "/tmp/peakproof-fuzz-%ld.lua",
                 (long)getpid());
        atexit(remove_file);
    }
    return fopen(path, "wb");
}

static void look(const struct scenario_case *c)
{
    if (c->name == NULL || c->model_path == NULL || c->waves < 1 ||
        c->cp < 1 || c->cp > PLAN_MAX_RANKS || c->layers < 0)
        abort();
    if (c->batch_kind == BATCH_LAYOUT ? c->layout_tokens < 1
                                      : c->batch.tokens < 1)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct scenario_limits limits = {.memory_bytes = 16 << 20,
                                     .instructions = 200000};
    struct scenario *s;
    struct err e;
    FILE *f = open_file();
    int rc;

    if (f == NULL || fwrite(data, 1, size, f) != size || fclose(f) != 0)
        abort();
    rc = scenario_load(path, "lua", NULL, 0, &limits, &s, &e);
    if (rc == ERR_OK) {
        for (int64_t i = 0; i < s->n_case; i++) look(&s->kase[i]);
        scenario_free(s);
    } else if (rc != ERR_INPUT || e.code != ERR_INPUT || *e.text == '\0') {
        abort();
    }
    return 0;
}
