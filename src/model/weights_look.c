/* weights_look.c - see weights_look.h */
#include "model/weights_look.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "model/weights_map.h"

enum { MAX_TROUBLE = 5, MAX_GROUPS = 8 };

struct look {
    struct model m;
    struct checkpoint *c;
    bool *used;             /* [tensors] */
    int64_t n_trouble;
    struct stored_look *out;
};

/* ---- what the model asks for --------------------------------------------- */

static void add_trouble(struct look *l, const struct err *e)
{
    const char *text = e->text, *folder = checkpoint_folder(l->c);
    size_t n = strlen(folder);

    if (l->n_trouble++ >= MAX_TROUBLE) return;
    if (strncmp(text, folder, n) == 0 && text[n] == ':') text += n + 2;
    buf_printf(&l->out->trouble, "%.*s\n",
               (int)strcspn(text, "("), text);
}

static void mark(struct look *l, const struct checkpoint_tensor *t)
{
    l->used[t - checkpoint_at(l->c, 0)] = true;
}

static void check_param(struct look *l, const struct param *p)
{
    const struct checkpoint_tensor *t;
    enum param_pack form;
    struct err e;
    int64_t i, n;

    if (stored_form(l->c, &l->m, p, &form, &e) != ERR_OK) {
        add_trouble(l, &e);
        return;
    }
    n = stored_tensors(&l->m, p, form);
    for (i = 0; i < n; i++)
        if (stored_find(l->c, &l->m, p, form, i, &t, &e) == ERR_OK)
            mark(l, t);
        else
            add_trouble(l, &e);
}

static int check_all(struct look *l, struct err *e)
{
    struct param_list list;
    int64_t i;
    int rc = param_list_make(&l->m, 1, 0, &list, e);

    if (rc != ERR_OK) return rc;
    for (i = 0; i < list.n; i++) check_param(l, &list.p[i]);
    param_list_free(&list);
    if (l->n_trouble > MAX_TROUBLE)
        buf_printf(&l->out->trouble, "and %" PRId64 " more\n",
                   l->n_trouble - MAX_TROUBLE);
    return ERR_OK;
}

/* ---- what is there ------------------------------------------------------- */

/* A line on a folder: types and bytes tell a quantized one at once. */
static void put_held(struct look *l)
{
    static const char *const type[] = {"BF16", "F16", "F32", "F64", "I32",
                                       "I64", "others"};
    int64_t n = checkpoint_count(l->c), bytes[CKPT_OTHER + 1] = {0}, i;
    struct buf *b = &l->out->held;
    const char *sep = "";

    for (i = 0; i < n; i++) {
        const struct checkpoint_tensor *t = checkpoint_at(l->c, i);

        bytes[t->type] += t->bytes;
    }
    buf_printf(b, "%s, %" PRId64 " layers, %" PRId64 " tensors: ",
               l->m.family, l->m.layers, n);
    for (i = 0; i <= CKPT_OTHER; i++) {
        if (bytes[i] == 0) continue;
        buf_puts(b, sep);
        buf_put_grouped(b, bytes[i]);
        buf_printf(b, " bytes of %s", type[i]);
        sep = ", ";
    }
}

/* Length of the first two words of a name, "model.visual." */
static size_t group_length(const char *name)
{
    size_t n = strcspn(name, ".");

    if (name[n] == '.') n += 1 + strcspn(name + n + 1, ".");
    return n;
}

/* Names are sorted, so that a group's stand together. */
static void put_beside(struct look *l)
{
    int64_t n = checkpoint_count(l->c), i, count = 0, groups = 0, all = 0;
    struct buf *b = &l->out->beside, list = BUF_INIT;
    const char *last = NULL;

    for (i = 0; i <= n; i++) {
        const char *name = i < n ? checkpoint_at(l->c, i)->name : "";
        size_t len = group_length(name);

        if (i < n && l->used[i]) continue;
        if (last != NULL && (i == n || strncmp(last, name, len) != 0
                             || group_length(last) != len)) {
            if (groups++ < MAX_GROUPS)
                buf_printf(&list, "%s%.*s... (%" PRId64 ")",
                           groups > 1 ? ", " : "", (int)group_length(last),
                           last, count);
            count = 0;
        }
        if (i == n) break;
        last = name;
        count++;
        all++;
    }
    if (all > 0)
        buf_printf(b, "%" PRId64 " tensors that the model does not use: %s%s",
                   all, buf_text(&list), groups > MAX_GROUPS ? ", ..." : "");
    b->failed |= list.failed;
    buf_free(&list);
}

/* ---- the folder ---------------------------------------------------------- */

static int look(struct look *l, const char *folder, struct err *e)
{
    struct buf config = BUF_INIT;
    int rc;

    buf_printf(&config, "%s/config.json", folder);
    rc = config.failed ? err_nomem(e)
                       : model_load(config.data, 0, &l->m, e);
    buf_free(&config);
    if (rc == ERR_OK) rc = checkpoint_open(folder, &l->c, e);
    if (rc != ERR_OK) return rc;
    l->used = calloc((size_t)checkpoint_count(l->c) + 1, sizeof *l->used);
    if (l->used == NULL) return err_nomem(e);
    rc = check_all(l, e);
    put_held(l);
    put_beside(l);
    return rc;
}

int stored_look(const char *folder, struct stored_look *out, struct err *e)
{
    struct look l = {.out = out};
    int rc;

    *out = (struct stored_look){BUF_INIT, BUF_INIT, BUF_INIT};
    rc = look(&l, folder, e);
    if (rc == ERR_OK && (out->held.failed || out->trouble.failed ||
                         out->beside.failed)) rc = err_nomem(e);
    if (l.m.kind != NULL) model_free(&l.m);
    checkpoint_close(l.c);
    free(l.used);
    return rc;
}

void stored_look_free(struct stored_look *w)
{
    buf_free(&w->held);
    buf_free(&w->trouble);
    buf_free(&w->beside);
}
