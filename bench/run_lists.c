/* run_lists.c - see run_lists.h */
#include "bench/run_lists.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/num.h"
#include "batch/batch.h"
#include "model/param.h"
#include "plan/plan.h"

enum { MOST = 1000 };           /* numbers of a list */

struct list { int64_t n, v[MOST]; };

/* What each may hold; layers 0 are all. */
static const struct rule { const char *name; int64_t lo, hi; } rules[] = {
    {"lengths", 1, BATCH_MAX_TOKENS}, {"cp", 1, PLAN_MAX_RANKS},
    {"ep", 1, PLAN_MAX_RANKS}, {"lora-rank", 0, PARAM_MAX_LORA_RANK},
    {"layers", 0, 1 << 20}, {NULL, 0, 0}
};

/* 8192, 8k, 1M. */
static bool read_number(const char *text, int64_t *out)
{
    size_t n = strlen(text);
    int64_t unit = 1;
    char digits[20];

    if (n == 0 || n >= sizeof digits) return false;
    memcpy(digits, text, n + 1);
    if (digits[n - 1] == 'k') unit = 1000;
    if (digits[n - 1] == 'M') unit = 1000000;
    if (unit > 1) digits[n - 1] = '\0';
    if (!num_parse(digits, 0, INT64_MAX / unit, out)) return false;
    *out *= unit;
    return true;
}

static int add(const struct rule *r, int64_t v, struct list *out,
               struct err *e)
{
    int64_t i;

    if (v < r->lo || v > r->hi)
        return err_set(e, ERR_USAGE, "run: --%s: %" PRId64 " is not from %"
                       PRId64 " to %" PRId64, r->name, v, r->lo, r->hi);
    for (i = 0; i < out->n; i++)
        if (out->v[i] == v)
            return err_set(e, ERR_USAGE, "run: --%s: %" PRId64 " is there "
                           "twice", r->name, v);
    if (out->n == MOST)
        return err_set(e, ERR_USAGE, "run: --%s: more than %d numbers",
                       r->name, MOST);
    out->v[out->n++] = v;
    return ERR_OK;
}

/* A number, or A..B:xS and A..B:+S; text is taken apart. */
static int read_item(const struct rule *r, char *text, struct list *out,
                     struct err *e)
{
    char whole[64], *dots = strstr(text, ".."), *how;
    int64_t v, last, step;
    int rc = ERR_OK;

    snprintf(whole, sizeof whole, "%s", text);
    if (dots == NULL && read_number(text, &v)) return add(r, v, out, e);
    how = dots != NULL ? strchr(dots, ':') : NULL;
    if (how == NULL || (how[1] != 'x' && how[1] != '+')) goto neither;
    *dots = *how = '\0';
    if (!read_number(text, &v) || !read_number(dots + 2, &last) ||
        !read_number(how + 2, &step)) goto neither;
    if (v < 1 || v > last || step < (how[1] == 'x' ? 2 : 1))
        return err_set(e, ERR_USAGE, "run: --%s: '%s' holds nothing, or never "
                       "ends", r->name, whole);
    for (; rc == ERR_OK && v <= last;
         v = how[1] == 'x' ? num_smul(v, step) : num_sadd(v, step))
        rc = add(r, v, out, e);
    return rc;
neither:
    return err_set(e, ERR_USAGE, "run: --%s: '%s' is no whole number like "
                   "8192 or 8k, and no range like 8k..64k:x2 or 8k..64k:+8k",
                   r->name, whole);
}

static int fill(const struct rule *r, const char *text, struct list *out,
                struct err *e)
{
    int rc = ERR_OK;

    for (; rc == ERR_OK; text += strcspn(text, ",") + 1) {
        char item[64];
        snprintf(item, sizeof item, "%.*s", (int)strcspn(text, ","), text);
        rc = read_item(r, item, out, e);
        if (text[strcspn(text, ",")] == '\0') break;
    }
    return rc;
}

/* *out is the caller's to free, also when it fails. */
static int read_list(const struct rule *r, const char *text, struct list **out,
                     struct err *e)
{
    *out = calloc(1, sizeof **out);
    return *out == NULL ? err_nomem(e) : fill(r, text, *out, e);
}

static const struct rule *rule_of(const char *name)
{
    const struct rule *r = rules;

    while (r->name != NULL && strcmp(r->name, name) != 0) r++;
    return r->name != NULL ? r : NULL;
}

int run_lists_put(const struct args *a, const char *name, struct buf *out,
                  struct err *e)
{
    const struct rule *r = rule_of(name);
    struct list *list = NULL;
    int64_t i;
    int rc = ERR_OK;

    if (r == NULL) buf_puts(out, args_text(a, name));
    else rc = read_list(r, args_text(a, name), &list, e);
    for (i = 0; list != NULL && i < list->n; i++)
        buf_printf(out, "%s%" PRId64, i > 0 ? "," : "", list->v[i]);
    free(list);
    return rc;
}

static bool any_divides(const struct list *cp, const struct list *ep)
{
    int64_t i, k;

    for (i = 0; i < cp->n; i++)
        for (k = 0; k < ep->n; k++)
            if (cp->v[i] % ep->v[k] == 0) return true;
    return false;
}

int run_lists_check(const struct args *a, struct err *e)
{
    /* what is not given is as shapes.lua has it */
    const char *cps = args_has(a, "cp") ? args_text(a, "cp") : "2";
    const char *eps = args_has(a, "ep") ? args_text(a, "ep") : "1";
    struct list *cp = NULL, *ep = NULL;
    int rc = read_list(rule_of("cp"), cps, &cp, e);

    if (rc == ERR_OK) rc = read_list(rule_of("ep"), eps, &ep, e);
    if (rc == ERR_OK && !any_divides(cp, ep))
        rc = err_set(e, ERR_USAGE, "run: --ep: none of %s divides --cp, %s",
                     eps, cps);
    free(cp);
    free(ep);
    return rc;
}
