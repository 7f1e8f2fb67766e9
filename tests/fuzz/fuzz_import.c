/* A user's measured peaks: any table is refused, or in bounds, both of the
** kind that goes beside a case (peaks.csv) and of the kind that makes cases
** (table.csv). */
#include "folder.h"
#include "run/import.h"
#include "script/scenario.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { CP = 2, WAVES = 2 };

static void check_wave(const struct import_wave *w)
{
    for (int64_t r = 0; r < CP && w->given; r++) {
        const struct mem_peak *p = &w->rank[r].peak;
        int64_t sum = 0;

        if (w->rank[r].absent) continue;
        for (int c = 0; c < CAT_COUNT; c++) sum += p->by[c];
        if (sum < 0 || (uint64_t)sum != p->allocated
            || p->requested > p->allocated)
            abort();
    }
}

static void read_peaks(const char *path)
{
    static const struct record_row row[] = {
        {.rank = 0, .source = "peak", .term = "boundaries", .measured = true,
         .bytes = 1000, .note = ""},
        {.rank = 1, .source = "peak", .term = "boundaries", .measured = true,
         .bytes = 1200, .note = ""},
    };
    static const struct record_peak peak[] = {
        {.rank = 0, .allocated = 5000, .beside.start_bytes = 100},
        {.rank = 1, .allocated = 6000, .beside.start_bytes = 100},
    };
    struct record_found f = {
        .shape = {.device = "dry", .scenario = "s", .name = "c", .cp = CP,
                  .tokens = 100},
        .waves = WAVES, .row = row, .n_row = 2, .peak = peak, .n_peak = 2
    };
    struct import m;
    struct err e;

    if (import_new(&f, path, &m, &e) != ERR_OK) abort();
    if (import_csv(&m, path, &e) == ERR_OK) {
        for (int64_t i = 0; i < WAVES; i++) check_wave(&m.wave[i]);
        if (import_check(&m, &e) != ERR_OK && e.code != ERR_INPUT) abort();
    } else if (e.code != ERR_INPUT || *e.text == '\0') {
        abort();
    }
    import_free(&m);
}

static void read_table(const char *path)
{
    struct scenario_limits limits = {.memory_bytes = 16 << 20,
                                     .instructions = 2000000};
    char setting[FOLDER_PATH + 8], *list[] = {setting};
    struct scenario *s = NULL;
    struct err e;

    snprintf(setting, sizeof setting, "data=%s", path);
    if (scenario_load("lua/scenarios/measured.lua", "lua", list, 1, &limits,
                      &s, &e) != ERR_OK) {
        if (e.code != ERR_INPUT || *e.text == '\0') abort();
        return;
    }
    for (int64_t i = 0; i < s->n_case; i++)
        if (s->kase[i].name == NULL || s->kase[i].batch.tokens < 1) abort();
    scenario_free(s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *p = (const char *)data, *end = p + size;
    char path[FOLDER_PATH];
    struct part x;

    folder_empty(folder());
    while (part_next(&p, end, &x)) {
        folder_put(folder(), x.name, "", 0, x.text, x.n, x.size);
        folder_join(path, folder(), x.name);
        if (strcmp(x.name, "table.csv") == 0) read_table(path);
        else read_peaks(path);
    }
    return 0;
}
