/* run_lists.c - see run_lists.h */
#include "bench/run_lists.h"

#include <inttypes.h>
#include <string.h>

#include "base/num.h"
#include "batch/batch.h"
#include "model/param.h"
#include "plan/plan.h"

enum { MOST = 1000 };           /* numbers of a list */

struct list { int64_t v[MOST], n; };

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

static int read_list(const struct rule *r, const char *text, struct list *out,
                     struct err *e)
{
    int rc = ERR_OK;

    out->n = 0;
    for (; rc == ERR_OK; text += strcspn(text, ",") + 1) {
        char item[64];
        snprintf(item, sizeof item, "%.*s", (int)strcspn(text, ","), text);
        rc = read_item(r, item, out, e);
        if (text[strcspn(text, ",")] == '\0') break;
    }
    return rc;
}

/* Of every pair the one must divide the other, or there is no case. */
static int check_pairs(const struct args *a, const struct list *cp,
                       const struct list *ep, struct err *e)
{
    int64_t i, k;

    for (i = 0; i < cp->n; i++)
        for (k = 0; k < ep->n; k++)
            if (cp->v[i] % ep->v[k] == 0) return ERR_OK;
    return err_set(e, ERR_USAGE, "run: --ep: none of %s divides --cp, %s",
                   args_text(a, "ep"),
                   args_has(a, "cp") ? args_text(a, "cp") : "2");
}

int run_lists_check(const struct args *a, struct err *e)
{
    static const struct list usual[] = {{{2}, 1}, {{1}, 1}};
    static struct list list, cp, ep;
    int64_t waves = 2;
    int i, rc = args_int(a, "waves", 1, 1000, &waves, e);

    cp = usual[0];
    ep = usual[1];
    for (i = 0; rc == ERR_OK && rules[i].name != NULL; i++) {
        const char *name = rules[i].name, *text = args_text(a, name);
        if (text == NULL) continue;
        rc = read_list(&rules[i], text, strcmp(name, "cp") == 0 ? &cp :
                       strcmp(name, "ep") == 0 ? &ep : &list, e);
    }
    return rc == ERR_OK ? check_pairs(a, &cp, &ep, e) : rc;
}
