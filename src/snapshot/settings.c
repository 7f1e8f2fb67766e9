/*
** settings.c - settings as PYTORCH_CUDA_ALLOC_CONF spells them, see snapshot.h
** (allocator.md A.1 and A.10).
*/
#include <ctype.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/num.h"
#include "snapshot/snapshot.h"

#define MIB (INT64_C(1) << 20)

static int bad_value(struct err *e, const char *key, const char *value,
                     const char *want)
{
    return err_set(e, ERR_USAGE, "%s: \"%.60s\" is not %s", key, value, want);
}

static int set_mib(uint64_t *to, const char *key, const char *value,
                   int64_t least, struct err *e)
{
    int64_t v;

    if (!num_parse(value, least, INT64_C(1) << 40, &v))
        return err_set(e, ERR_USAGE, "%s: \"%.60s\" is not a whole number of "
                       "MiB, at least %" PRId64, key, value, least);
    *to = (uint64_t)(v * MIB);
    return ERR_OK;
}

/* ---- roundup_power2_divisions ------------------------------------------- */

static const char *const power_of_two = "0 or a power of two";

static bool parse_divisions(const char *s, uint32_t *out)
{
    int64_t v;

    if (!num_parse(s, 0, INT64_C(1) << 31, &v) || (v & (v - 1)) != 0)
        return false;
    *out = (uint32_t)v;
    return true;
}

/* The slot of a key, a size in MiB: 1 is slot 0, 32768 the last, 15. */
static int slot_of(const char *key)
{
    int64_t mib;
    int slot = 0;

    if (!num_parse(key, 1, INT64_C(1) << 20, &mib) || (mib & (mib - 1)) != 0)
        return -1;
    while (mib > 1) {
        mib /= 2;
        slot++;
    }
    return slot < 15 ? slot : 15;
}

/* One "key:value" of the list. The first key also sets the slots below it;
** ">" sets every slot from the last key's on. */
static int set_division(struct mem_config *c, char *pair, int *last,
                        struct err *e)
{
    static const char name[] = "roundup_power2_divisions";
    char *colon = strchr(pair, ':');
    uint32_t d;
    int from, to;

    if (colon == NULL) return bad_value(e, name, pair, "a pair MIB:DIVISIONS");
    *colon = '\0';
    if (!parse_divisions(colon + 1, &d))
        return bad_value(e, name, colon + 1, power_of_two);
    if (strcmp(pair, ">") == 0) {
        from = *last < 0 ? 0 : *last;
        to = 15;
    } else {
        to = slot_of(pair);
        if (to < 0) return bad_value(e, name, pair, "a power of two in MiB");
        from = *last < 0 ? 0 : to;
        *last = to;
    }
    for (int i = from; i <= to; i++) c->roundup_divisions[i] = d;
    return ERR_OK;
}

/* One number for all sizes, or a list by size, as PyTorch spells it. */
static int set_divisions(struct mem_config *c, const char *value,
                         struct err *e)
{
    char text[512], *pair, *rest;
    size_t n = strlen(value);
    uint32_t d;
    int last = -1, rc = ERR_OK;

    if (value[0] != '[') {
        if (!parse_divisions(value, &d))
            return bad_value(e, "roundup_power2_divisions", value,
                             power_of_two);
        for (int i = 0; i < 16; i++) c->roundup_divisions[i] = d;
        return ERR_OK;
    }
    if (value[n - 1] != ']' || n >= sizeof text)
        return bad_value(e, "roundup_power2_divisions", value,
                         "a list [MIB:DIVISIONS,...]");
    memset(c->roundup_divisions, 0, sizeof c->roundup_divisions);
    memcpy(text, value + 1, n - 2);
    text[n - 2] = '\0';
    for (pair = strtok_r(text, ",", &rest); pair != NULL && rc == ERR_OK;
         pair = strtok_r(NULL, ",", &rest))
        rc = set_division(c, pair, &last, e);
    return rc;
}

/* ---- one setting -------------------------------------------------------- */

/* Settings that ours follows only at this value. */
static const struct { const char *key, *off; } unsupported[] = {
    {"backend", "native"},
};

/* Settings that move no block of a replay: what the threshold and the
** fraction gave back or refused stands in the trace. */
static const char *const idle[] = {
    "garbage_collection_threshold", "per_process_memory_fraction",
    "throw_on_cudamalloc_oom", "release_lock_on_cudamalloc",
    "pinned_use_cuda_host_register", "pinned_num_register_threads",
    "pinned_use_background_threads", "pinned_reserve_segment_size_mb",
    "graph_capture_record_stream_reuse",
};

/* Settings that move no block, and those that ours cannot follow. */
static int set_other(const char *key, const char *value,
                     enum setting_effect *effect, struct err *e)
{
    for (size_t i = 0; i < sizeof idle / sizeof *idle; i++) {
        if (strcmp(key, idle[i]) != 0) continue;
        if (effect != NULL) *effect = SETTING_IDLE;
        return ERR_OK;
    }
    if (effect != NULL) *effect = SETTING_UNKNOWN;
    for (size_t i = 0; i < sizeof unsupported / sizeof *unsupported; i++) {
        if (strcmp(key, unsupported[i].key) != 0) continue;
        if (strcmp(value, unsupported[i].off) == 0) {
            if (effect != NULL) *effect = SETTING_IDLE;
            return ERR_OK;
        }
        if (effect != NULL) return ERR_OK;
        return err_set(e, ERR_USAGE, "%s:%.60s: only %s can be replayed", key,
                       value, unsupported[i].off);
    }
    if (effect != NULL) return ERR_OK;
    return err_set(e, ERR_USAGE, "%.60s: not a setting of the allocator "
                   "(max_split_size_mb, max_non_split_rounding_mb, "
                   "large_segment_size_mb, roundup_power2_divisions, "
                   "expandable_segments, limit)", key);
}

int settings_set(struct mem_config *c, const char *key, const char *value,
                 enum setting_effect *effect, struct err *e)
{
    int64_t v;

    if (effect != NULL) *effect = SETTING_USED;
    if (strcmp(key, "max_split_size_mb") == 0)
        return set_mib(&c->max_split_bytes, key, value, 20, e);
    if (strcmp(key, "max_non_split_rounding_mb") == 0)
        return set_mib(&c->max_non_split_rounding, key, value, 20, e);
    if (strcmp(key, "large_segment_size_mb") == 0)
        return set_mib(&c->large_segment_bytes, key, value, 10, e);
    if (strcmp(key, "roundup_power2_divisions") == 0)
        return set_divisions(c, value, e);
    if (strcmp(key, "expandable_segments") == 0) {
        c->expandable = strcmp(value, "True") == 0;
        return c->expandable || strcmp(value, "False") == 0 ? ERR_OK
             : bad_value(e, key, value, "True or False");
    }
    if (strcmp(key, "limit") != 0)
        return set_other(key, value, effect, e);
    if (!num_parse_bytes(value, &v) || v < 1)
        return bad_value(e, key, value, "a number of bytes (80G, 80Gi)");
    c->limit_bytes = (uint64_t)v;
    return ERR_OK;
}

/* The end of the item that starts at s: a comma outside brackets. */
static const char *item_end(const char *s)
{
    int depth = 0;

    for (; *s != '\0' && (*s != ',' || depth > 0); s++) {
        if (*s == '[') depth++;
        if (*s == ']') depth--;
    }
    return s;
}

int settings_parse(struct mem_config *c, const char *text,
                   setting_seen *seen, void *ctx, struct err *e)
{
    enum setting_effect effect = SETTING_USED;
    int rc = ERR_OK;

    while (*text != '\0' && rc == ERR_OK) {
        const char *end = item_end(text);
        char item[600], *colon;
        size_t n = 0;

        for (; text < end; text++)
            if (!isspace((unsigned char)*text) && n < sizeof item - 1)
                item[n++] = *text;
        item[n] = '\0';
        colon = strchr(item, ':');
        if (*text == ',') text++;
        if (n == 0) continue;
        if (colon == NULL)
            return err_set(e, ERR_USAGE, "%.60s: not key:value", item);
        *colon = '\0';
        rc = settings_set(c, item, colon + 1, seen != NULL ? &effect : NULL,
                          e);
        if (rc == ERR_OK && seen != NULL) seen(ctx, item, colon + 1, effect);
    }
    return rc;
}
