/* miss_replay.c - see miss.h: a report priced again and compared */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/num.h"
#include "price/price_json.h"
#include "run/estimates.h"
#include "run/miss.h"

static const char *const keys[] = {
    "format", "miss", "facts", "input_layouts", "estimates", "segments",
    "peak", "note", "fingerprint", NULL
};

bool miss_is(const struct js *top)
{
    return json_object_get(top->v, "miss") != NULL ||
           json_object_get(top->v, "facts") != NULL;
}

static int differs(const struct js *at, const json_t *want, struct err *e)
{
    char *text = json_dumps(want, JSON_ENCODE_ANY | JSON_COMPACT |
                                  JSON_REAL_PRECISION(15));
    char *have = at->v == NULL ? NULL
                 : json_dumps(at->v, JSON_ENCODE_ANY | JSON_COMPACT |
                                     JSON_REAL_PRECISION(15));
    int rc = js_error(at, e, "the report says %.100s, its facts give %.100s",
                      have ? have : "nothing", text ? text : "nothing");

    free(text);
    free(have);
    return rc;
}

/* at must equal want; the first difference is named. */
static int compare(const struct js *at, const json_t *want, struct err *e)
{
    const char *key;
    json_t *v;
    size_t i;
    struct js part;
    int rc = ERR_OK;

    if (json_is_object(want) && json_is_object(at->v)) {
        json_object_foreach((json_t *)(uintptr_t)want, key, v) {
            part = js_get(at, key);
            if (rc == ERR_OK) rc = compare(&part, v, e);
        }
        json_object_foreach(at->v, key, v) {
            part = js_get(at, key);
            if (rc == ERR_OK && json_object_get(want, key) == NULL)
                rc = differs(&part, NULL, e);
        }
        return rc;
    }
    if (json_is_array(want) && json_is_array(at->v) &&
        json_array_size(want) == json_array_size(at->v)) {
        json_array_foreach(want, i, v) {
            part = js_item(at, (int64_t)i);
            if (rc == ERR_OK) rc = compare(&part, v, e);
        }
        return rc;
    }
    return json_equal(at->v, want) ? ERR_OK : differs(at, want, e);
}

/* A rank's categories sum to its allocated peak, and no rank is above the
** one that is named. */
static int check_rank(const struct js *rank, int64_t peak, struct err *e)
{
    struct js by;
    const char *key;
    json_t *v;
    int64_t sum = 0, allocated, bytes;
    int rc = js_need_int(rank, "allocated_bytes", 0, INT64_MAX, &allocated, e);

    if (rc == ERR_OK) rc = js_need(rank, "categories", &by, e);
    if (rc == ERR_OK) rc = js_object(&by, NULL, e);
    if (rc != ERR_OK) return rc;
    json_object_foreach(by.v, key, v) {
        rc = js_need_int(&by, key, INT64_MIN / 64, INT64_MAX / 64, &bytes, e);
        if (rc != ERR_OK) return rc;
        if (!num_add(sum, bytes, &sum))
            return js_error(&by, e, "do not fit 64-bit sizes");
    }
    if (sum != allocated)
        return js_error(&by, e, "sum to %" PRId64 ", allocated_bytes is %"
                        PRId64, sum, allocated);
    if (allocated > peak)
        return js_error(rank, e, "above the peak of %" PRId64 " bytes", peak);
    return ERR_OK;
}

/* The named rank must be the one with that peak, or the report was edited. */
static int check_peak(const struct js *top, struct err *e)
{
    struct js peak, ranks, rank;
    int64_t at, bytes, named, i;
    int rc = js_need(top, "peak", &peak, e);

    if (rc == ERR_OK && json_is_null(peak.v)) return ERR_OK;
    if (rc == ERR_OK) rc = js_need(&peak, "ranks", &ranks, e);
    if (rc == ERR_OK) rc = js_array(&ranks, -1, e);
    if (rc == ERR_OK)
        rc = js_need_int(&peak, "rank", 0, js_size(&ranks) - 1, &at, e);
    if (rc == ERR_OK)
        rc = js_need_int(&peak, "allocated_bytes", 0, INT64_MAX, &bytes, e);
    for (i = 0; rc == ERR_OK && i < js_size(&ranks); i++) {
        rank = js_item(&ranks, i);
        rc = check_rank(&rank, bytes, e);
    }
    if (rc != ERR_OK) return rc;
    rank = js_item(&ranks, at);
    rc = js_need_int(&rank, "allocated_bytes", 0, INT64_MAX, &named, e);
    if (rc == ERR_OK && named != bytes)
        rc = js_error(&rank, e, "is not the peak of %" PRId64 " bytes", bytes);
    return rc;
}

static int check_fingerprint(const struct js *top, struct err *e)
{
    const char *have;
    char mark[20];
    int rc = js_need_string(top, "fingerprint", &have, e);

    if (rc == ERR_OK) rc = miss_fingerprint(top->v, mark, e);
    if (js_refused()) rc = err_nomem(e);
    if (rc == ERR_OK && strcmp(have, mark) != 0)
        rc = js_error(top, e, "fingerprint %.20s does not fit (%s): the "
                      "report was changed", have, mark);
    return rc;
}

/* The stated estimate of our own estimator, priced again. */
static int check_estimate(const struct js *at, const struct price_facts *f,
                          const struct price_estimator *by, struct err *e)
{
    struct estimate *x = calloc(1, sizeof *x);
    const struct estimate *one = x;
    json_t *all = NULL;
    int rc = x == NULL ? err_nomem(e) : by->price(f, x, e);

    if (rc == ERR_OK) rc = price_estimates_to_json(&one, 1, &all, e);
    if (rc == ERR_OK)
        rc = compare(at, json_array_get(json_object_get(all, "estimates"), 0),
                     e);
    if (js_refused()) rc = err_nomem(e);
    json_decref(all);
    free(x);
    return rc;
}

/* Ours must come out again; a reader's own stand as they were said, and
** follow ours in what is printed. */
static int check_estimates(const struct js *at, const struct price_facts *f,
                           json_t *printed, struct err *e)
{
    struct js item;
    const char *name;
    int64_t i;
    int rc = js_array(at, -1, e);

    for (i = 0; rc == ERR_OK && i < js_size(at); i++) {
        const struct price_estimator *by;
        item = js_item(at, i);
        rc = js_need_string(&item, "name", &name, e);
        if (rc != ERR_OK) break;
        by = price_find(name);
        if (by != NULL) rc = check_estimate(&item, f, by, e);
        else if (json_array_append(printed, item.v) != 0) rc = err_nomem(e);
    }
    return rc;
}

/* The parts that the facts determine. *out is what price prints. */
static int check_priced(const struct js *top, const struct price_facts *f,
                        json_t **out, struct err *e)
{
    json_t *layouts = miss_layouts(f->model);
    struct js at;
    int rc = js_need(top, "input_layouts", &at, e);

    if (rc == ERR_OK) rc = compare(&at, layouts, e);
    if (js_refused()) rc = err_nomem(e);
    json_decref(layouts);
    if (rc == ERR_OK) rc = js_need(top, "estimates", &at, e);
    if (rc == ERR_OK) rc = estimates_json(f, out, e);
    if (rc != ERR_OK) return rc;
    rc = check_estimates(&at, f, json_object_get(*out, "estimates"), e);
    if (rc != ERR_OK) json_decref(*out);
    return rc;
}

int miss_replay(const struct js *top, const char *models_dir,
                json_t **estimates, struct err *e)
{
    struct price_facts f;
    json_t *priced;
    struct js at;
    int64_t format;
    int rc = js_object(top, keys, e);

    if (rc == ERR_OK) rc = js_need_int(top, "format", 1, 1, &format, e);
    if (rc == ERR_OK) rc = js_need(top, "facts", &at, e);
    if (rc == ERR_OK) rc = price_facts_from_json(&at, models_dir, &f, e);
    if (rc != ERR_OK) return rc;
    rc = check_priced(top, &f, &priced, e);
    price_facts_free(&f);
    if (rc != ERR_OK) return rc;
    rc = check_peak(top, e);
    if (rc == ERR_OK) rc = check_fingerprint(top, e);
    if (rc != ERR_OK) {
        json_decref(priced);
        return rc;
    }
    *estimates = priced;
    return ERR_OK;
}
