/* compare_snapshots.c - "peakproof compare A.pickle B.pickle" */
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>

#include "base/clean.h"
#include "base/json.h"
#include "bench/command.h"
#include "bench/snapshots.h"
#include "snapshot/differ.h"

struct pair {
    const struct args *a;
    const struct account_ask *ask;
    struct snapshot s[2];
    struct buf text;
    json_t *list;           /* NULL: text */
    int64_t compared, changed;
};

/* 1: a file or standard input, 0: a folder, -1: nothing is there. */
static int kind_of(const char *path)
{
    struct stat s;

    if (strcmp(path, "-") == 0) return 1;
    return stat(path, &s) != 0 ? -1 : !S_ISDIR(s.st_mode);
}

bool snapshots_are(const char *a, const char *b)
{
    int x = kind_of(a), y = kind_of(b);

    return x != 0 && y != 0 && (x > 0 || y > 0);
}

static bool has_memory(const struct snapshot *s, int64_t device)
{
    return device < s->n_device
        && (s->device[device].n_event > 0 || s->device[device].n_segment > 0);
}

static int put(struct pair *p, const struct account *x,
               const struct account *y, struct err *e)
{
    int any = differ_any(x, y);

    if (any < 0) return err_nomem(e);
    p->compared++;
    p->changed += any;
    if (p->list != NULL)
        return json_array_append_new(p->list, differ_json(x, y, p->ask)) == 0
             ? ERR_OK : err_nomem(e);
    if (p->text.len > 0) buf_putc(&p->text, '\n');
    return differ_tell(x, p->a->operand[0], y, p->a->operand[1], p->ask,
                       &p->text, e);
}

static int one_device(struct pair *p, int64_t device, struct err *e)
{
    struct account x = {0}, y = {0};
    int rc = account_device(&p->s[0], device, p->a->operand[0], p->ask, &x,
                            e);

    if (rc == ERR_OK)
        rc = account_device(&p->s[1], device, p->a->operand[1], p->ask, &y,
                            e);
    if (rc == ERR_OK) rc = put(p, &x, &y, e);
    account_free(&x);
    account_free(&y);
    return rc;
}

static int every_device(struct pair *p, struct err *e)
{
    int64_t n = p->s[0].n_device > p->s[1].n_device ? p->s[0].n_device
                                                    : p->s[1].n_device;
    int rc = ERR_OK;

    for (int64_t i = 0; i < n && rc == ERR_OK; i++) {
        bool in[2] = {has_memory(&p->s[0], i), has_memory(&p->s[1], i)};

        if (in[0] && in[1])
            rc = one_device(p, i, e);
        else if (in[0] || in[1])
            say_warning("compare: device %" PRId64 " is in %s alone", i,
                        p->a->operand[in[0] ? 0 : 1]);
    }
    if (rc == ERR_OK && p->compared == 0)
        rc = err_set(e, ERR_INPUT, "compare: no device is in both %s and %s",
                     p->a->operand[0], p->a->operand[1]);
    return rc;
}

int snapshots_compare(const struct args *a, const struct account_ask *ask,
                      int64_t *changed, struct err *e)
{
    struct pair p = {.a = a, .ask = ask, .text = BUF_INIT};
    int rc = snapshot_load(a->operand[0], &p.s[0], e);

    if (rc == ERR_OK) rc = snapshot_load(a->operand[1], &p.s[1], e);
    if (rc == ERR_OK && a->json) {
        p.list = json_array();
        if (p.list == NULL) rc = err_nomem(e);
    }
    if (rc == ERR_OK) rc = every_device(&p, e);
    snapshot_free(&p.s[0]);
    snapshot_free(&p.s[1]);
    *changed = p.changed;
    if (rc == ERR_OK && a->json)
        return out_json(json_pack("{s:i, s:[o, o], s:o}", "format", 1,
                                  "files", js_text(a->operand[0]),
                                  js_text(a->operand[1]), "devices",
                                  p.list), e);
    json_decref(p.list);
    if (rc == ERR_OK && p.text.len > 0)
        text_clean_lines(p.text.data, p.text.len);
    if (rc == ERR_OK) return out_put(&p.text, e);
    buf_free(&p.text);
    return rc;
}
