/* read_settings.c - the allocator_settings of a snapshot, see reading.h */
#include <stdio.h>
#include <string.h>

#include "base/clean.h"
#include "snapshot/reading.h"

char *reading_keep(struct reading *p, const struct pickle *v)
{
    char *s = ARENA_TAKE(p->s->text, (int64_t)v->len + 1, char);

    if (s == NULL) return NULL;
    if (v->len > 0) memcpy(s, v->v.s, v->len);
    text_clean(s);
    return s;
}

bool reading_true(const struct pickle *d, const char *key)
{
    const struct pickle *v = pickle_get(d, key);

    return v != NULL && v->type == PICKLE_BOOL && v->v.b;
}

/* The first reason is the one that is told. */
static void cannot(struct snapshot *s, const char *what, const char *value)
{
    if (s->reason[0] != '\0') return;
    snprintf(s->reason, sizeof s->reason, "%.60s%s%.60s", what,
             value[0] != '\0' ? ":" : "", value);
}

static void saw_setting(void *ctx, const char *key, const char *value,
                        enum setting_effect effect)
{
    struct reading *p = ctx;
    size_t n = strlen(p->s->idle);

    if (effect == SETTING_UNKNOWN)
        cannot(p->s, key, value);
    else if (effect == SETTING_IDLE
             && strcmp(key, "backend") != 0)
        snprintf(p->s->idle + n, sizeof p->s->idle - n, "%s%s:%.40s",
                 n > 0 ? "," : "", key, value);
}

/* Slot i belongs to 2^i MiB, which is its key. */
static void read_divisions(struct reading *p, const struct pickle *d)
{
    for (int i = 0; i < 16; i++) {
        const struct pickle *v;
        char key[8];

        snprintf(key, sizeof key, "%d", 1 << i);
        v = pickle_get(d, key);
        if (v == NULL) continue;
        if (v->type != PICKLE_INT || v->negative || v->v.u > UINT32_C(1) << 31
            || (v->v.u & (v->v.u - 1)) != 0)
            cannot(p->s, "roundup_power2_divisions", "not a power of two");
        else
            p->s->config.roundup_divisions[i] = (uint32_t)v->v.u;
    }
}

static int read_conf(struct reading *p, const struct pickle *v)
{
    struct mem_config c = p->s->config;
    struct err why;

    if (v == NULL || v->type != PICKLE_STRING) return ERR_OK;
    p->s->settings = reading_keep(p, v);
    if (p->s->settings == NULL) return err_nomem(p->e);
    if (settings_parse(&c, p->s->settings, saw_setting, p, &why) == ERR_OK)
        p->s->config = c;
    else
        cannot(p->s, why.text, "");
    return ERR_OK;
}

int reading_settings(struct reading *p, const struct pickle *top)
{
    const struct pickle *d = pickle_get(top, "allocator_settings"), *v;
    struct mem_config *c = &p->s->config;
    int rc;

    if (d == NULL || d->type != PICKLE_DICT) return ERR_OK;
    rc = read_conf(p, pickle_get(d, "PYTORCH_CUDA_ALLOC_CONF"));
    if (rc != ERR_OK) return rc;
    if (reading_true(d, "expandable_segments")) c->expandable = true;
    v = pickle_get(d, "max_split_size");
    if (v != NULL && v->type == PICKLE_INT && !v->negative
        && v->v.u < UINT64_C(1) << 50)
        c->max_split_bytes = v->v.u;
    v = pickle_get(d, "roundup_power2_divisions");
    if (v != NULL) read_divisions(p, v);
    p->s->overflowed = reading_true(d, "trace_alloc_overflowed");
    v = pickle_get(d, "trace_alloc_max_entries");
    if (v != NULL && v->type == PICKLE_INT && !v->negative
        && v->v.u <= INT64_MAX)
        p->s->max_entries = v->v.i;
    return ERR_OK;
}
