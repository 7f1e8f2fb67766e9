/*
** report_fixture.h - a folder of made-up records that has something for
** every section of the report. The figures are invented.
*/
#ifndef TESTS_REPORT_FIXTURE_H
#define TESTS_REPORT_FIXTURE_H

#include "record_fixture.h"

static inline int fixture_add(struct record *r, struct fixture *f,
                              struct err *e)
{
    struct record_text t;
    int rc;

    memset(&t, 0, sizeof t);
    rc = record_render(&f->kase, &t, e);
    if (rc == ERR_OK) rc = record_append(r, &t, e);
    record_text_free(&t);
    return rc;
}

static inline void fixture_publish(struct fixture *f, double before,
                                   double after)
{
    f->kase.published_before_cold = before;
    f->kase.published_before_warm = before + 1;
    f->kase.published_after_cold = after;
    f->kase.published_after_warm = after + 2;
    f->variant[3] = (struct record_variant){"busiest-rank/no-allowance",
        f->estimate[0].raw - 8000000};
    f->wave[0].n_variant = f->wave[1].n_variant = 4;
}

static inline int fixture_published(struct record *r, struct err *e)
{
    static const struct { const char *name; int64_t unit; double b, a; } k[] = {
        {"real-40", 360000000, 18.2, 18.2},
        {"random-8", 520000000, 26.5, 26.6},
        {"random-40", 740000000, 19.7, 18.8},
    };
    struct fixture f;
    size_t i;
    int rc = ERR_OK;

    for (i = 0; rc == ERR_OK && i < 3; i++) {
        fixture_case(&f, "pr-accuracy", k[i].name, k[i].unit);
        fixture_publish(&f, k[i].b, k[i].a);
        f.kase.n_tensor = i == 0 ? 4 : 0;
        f.attention_rows[0] -= (int64_t)i * 100;
        rc = fixture_add(r, &f, e);
    }
    for (i = 0; rc == ERR_OK && i < 2; i++) {
        fixture_case(&f, "routing", i ? "real-40-share" : "real-40-cv",
                     370000000 + (int64_t)i * 5000000);
        f.kase.routing = i ? "share 1.1 rank 0" : "cv 1 seed 1";
        f.kase.n_tensor = 0;
        rc = fixture_add(r, &f, e);
    }
    return rc;
}

/* Waves of one sequence each at EP1 and EP2; one is under. */
static inline int fixture_stack(struct record *r, struct err *e)
{
    struct fixture f;
    char name[32];
    int i, rc = ERR_OK;

    for (i = 0; rc == ERR_OK && i < 24; i++) {
        int64_t tokens = 500 + 300 * (i / 2) * (i / 2);
        snprintf(name, sizeof name, "seq-%03d-ep%d", i / 2, i % 2 + 1);
        fixture_case(&f, "full-stack", name, tokens * 4000 +
                     (i == 6 ? 0 : i % 5 * tokens));
        f.kase.ep = i % 2 + 1;
        f.kase.tokens = tokens;
        f.kase.n_tensor = 0;
        f.kase.n_wave = 1;
        if (i < 6) {
            f.rank[0][1].peak.tag.layer = 0;
            f.rank[0][1].peak.by[CAT_ADAPTER_GRADIENTS] = 850000000 + i;
            f.rank[0][1].peak.allocated += 850000000u + (unsigned)i;
            f.estimate[1].term[CAT_ADAPTER_GRADIENTS] = 853000000;
            f.estimate[1].raw += 853000000;
            f.estimate[1].admitted = f.estimate[1].raw / 10 * 11;
        }
        if (i == 8) {
            f.estimate[1].term[CAT_MOE_EXPERTS] -= 3 * tokens * 4000;
            f.estimate[1].raw -= 3 * tokens * 4000;
        }
        rc = fixture_add(r, &f, e);
    }
    return rc;
}

/* A case of each status that has no peak. */
static inline int fixture_failed(struct record *r, const char *scenario,
                                 struct err *e)
{
    static const enum record_status status[] = {
        STATUS_OOM, STATUS_REFUSED, STATUS_SKIPPED, STATUS_ERROR
    };
    struct fixture f;
    int i, rc = ERR_OK;

    for (i = 0; rc == ERR_OK && i < 4; i++) {
        fixture_case(&f, scenario, record_status_name(status[i]), 1000000);
        f.kase.n_tensor = 0;
        f.kase.n_wave = 1;
        f.wave[0].n_rank = 0;
        f.wave[0].status = f.kase.status = status[i];
        f.wave[0].note = f.kase.note = "as planned";
        rc = fixture_add(r, &f, e);
    }
    return rc;
}

/* A refused estimate, a full device, a name that is markup. */
static inline int fixture_odd(struct record *r, struct err *e)
{
    struct fixture f;
    int rc;

    fixture_case(&f, "my|own", "a|b `c` <d>", 1000000);
    f.estimate[1].supported = false;
    snprintf(f.estimate[1].reason, sizeof f.estimate[1].reason,
             "cp is 4, not 2 | see help");
    rc = fixture_add(r, &f, e);
    if (rc != ERR_OK) return rc;
    fixture_case(&f, "my|own", "too big", 1000000);
    f.kase.n_wave = 1;
    f.wave[0].n_rank = 0;
    f.wave[0].status = f.kase.status = STATUS_OOM;
    f.wave[0].note = "rank 0: 80 GB";
    return fixture_add(r, &f, e);
}

/* One measured case: so many percent of ours. */
static inline void fixture_cell(struct fixture *f, const char *name,
                                int64_t unit, int64_t percent)
{
    bool loss = strstr(name, ".loss") != NULL;
    int64_t measured;

    fixture_case(f, "measured", name, unit);
    f->kase.model = "Qwen3.6-27B";
    f->kase.cp = 1;
    f->kase.ep = 1;
    f->kase.lora_rank = 1;
    f->kase.top_k = 0;
    f->kase.routed_rows = -1;
    f->kase.tokens = 4096;
    f->kase.recompute = "selective";
    f->kase.modules = "core_attn";
    f->kase.kind = loss ? "hidden-loss" : "hidden";
    f->kase.series = "S";
    measured = (int64_t)f->rank[1][0].peak.allocated / 100 * percent;
    f->kase.measured_peak = measured;
    f->kase.measured_first = loss ? -1 : measured + 67109888;
    f->kase.measured_retained = measured - 1000000;
    f->kase.n_tensor = 0;
    f->wave[0].n_rank = f->wave[1].n_rank = 1;
    f->wave[0].n_variant = f->wave[1].n_variant = 0;
    strcpy(f->estimate[0].name, "retained-states");
    strcpy(f->estimate[1].name, "kept-rank");
    f->estimate[1].n_rank = 0;
}

/* A cell as the estimates say, one that is short of rows and did not run with
** its loss, a first shape, a MoE, one that the margin hides. */
static inline int fixture_measured(struct record *r, struct err *e)
{
    static const struct {
        const char *name, *note;
        int64_t percent, tokens, top_k;
    } k[] = {
        {"M1", NULL, 100, 4096, 0}, {"M1.loss", NULL, 99, 4096, 0},
        {"M2", NULL, 104, 300, 0}, {"M2.loss", NULL, 97, 300, 0},
        {"M3", NULL, 98, 8192, 0},
        {"M3.loss", "first shape: cold bytes", 120, 8192, 0},
        {"M4", "random routing", 70, 4096, 8},
        {"M5", NULL, 135, 4096, 0}, {"M5.loss", NULL, 90, 4096, 0},
    };
    struct fixture f;
    size_t i;
    int rc = ERR_OK;

    for (i = 0; rc == ERR_OK && i < sizeof k / sizeof *k; i++) {
        fixture_cell(&f, k[i].name, 360000000, k[i].percent);
        f.kase.measured_note = k[i].note;
        f.kase.tokens = k[i].tokens;
        f.kase.top_k = k[i].top_k;
        if (strcmp(k[i].name, "M1") == 0 || strcmp(k[i].name, "M5") == 0) {
            f.kase.printed_estimate = f.estimate[0].admitted;
            f.kase.printed_by = "retained-states";
        }
        if (i == 3) {
            f.kase.n_wave = 1;
            f.wave[0].n_rank = 0;
            f.wave[0].status = f.kase.status = STATUS_OOM;
            f.wave[0].note = f.kase.note = "rank 0: 80 GB";
        }
        rc = fixture_add(r, &f, e);
    }
    if (rc != ERR_OK) return rc;
    fixture_cell(&f, "M1.norm-freed", 360000000, 108);
    f.kase.otherwise = "norm-freed";
    return fixture_add(r, &f, e);
}

static inline int fixture_checks(struct record *r, struct err *e)
{
    static const struct record_check k[] = {
        {"mirror-executor", 10000, 1, 0, 0, "bytes, outside the one "
         "stated exception"},
        {"lower-bound", 10000, 2, 0, 1234, "bytes between bound and cost"},
    };
    int rc = record_check(r, &k[0], e);

    return rc == ERR_OK ? record_check(r, &k[1], e) : rc;
}

/* All of it, in a finished folder; 0 or an error. */
static inline int fixture_report(const char *dir, struct err *e)
{
    struct record *r = NULL;
    int rc = record_open(dir, RECORD_REPLACE, &fixture_info, &r, e);

    if (rc == ERR_OK) rc = fixture_published(r, e);
    if (rc == ERR_OK) rc = fixture_stack(r, e);
    if (rc == ERR_OK) rc = fixture_odd(r, e);
    if (rc == ERR_OK) rc = fixture_measured(r, e);
    if (rc == ERR_OK) rc = fixture_checks(r, e);
    if (rc != ERR_OK) {
        struct err ignored;
        (void)!record_close(r, false, &ignored);
        return rc;
    }
    return record_close(r, true, e);
}

#endif
