/*
** Tokens and labels of a batch: any files x.ids, x.txt, x.jsonl and
** labels.safetensors (a JSON header, a line, and the data, as in
** fuzz_checkpoint.c) are refused, or every row has an id and every label a
** row, a target and a finite weight.
*/
#include <math.h>

#include "folder.h"
#include "run/labels.h"
#include "run/ranks.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { VOCAB = 300, CP = 2 };

/* A prefix of five rows with two branches, and a sequence beside them. */
static void make_plan(struct run_work *w, struct batch *b, struct plan *p)
{
    static const int64_t parent[] = {-1, 0, 0, -1}, rows[] = {5, 3, 4, 6};
    static enum layer_kind kinds[] = {LAYER_GDN, LAYER_ATTENTION};
    struct plan_options o = {.cp = CP, .ep = 1, .tp = 1, .owned_ms = -1};
    struct err e;

    w->model = (struct model){
        .layers = 2, .hidden = 64, .k_heads = 2, .k_dim = 16, .v_heads = 4,
        .v_dim = 16, .conv = 4, .experts = 8, .top_k = 2, .expert_ffn = 32,
        .shared_ffn = 32, .vocab = VOCAB, .kind = kinds
    };
    if (batch_from_tree(parent, rows, 4, b, &e) != ERR_OK
        || plan_make(&w->model, b, &o, p, &e) != ERR_OK)
        abort();
    w->plan = p;
}

static void check(const struct run_work *w, const struct step_data *d)
{
    for (int64_t i = 0; i < w->plan->tokens; i++) {
        if (d->ids[i] < 0 || d->ids[i] >= VOCAB) abort();
        if (d->target[i] >= VOCAB || !isfinite(d->weight[i])) abort();
    }
    for (int64_t i = 0; i < d->n_more; i++) {
        const struct step_label *x = &d->more[i];
        if (x->row < 0 || x->row >= w->plan->tokens || x->target < 0
            || x->target >= VOCAB || !isfinite(x->weight))
            abort();
    }
}

static void read_part(struct run_work *w, struct scenario_case *c,
                      const char *name)
{
    char path[FOLDER_PATH];
    struct step_data d = {0};
    struct run_labels *l = NULL;
    struct err e;

    folder_join(path, folder(), name);
    c->tokens = path;
    if (run_data_make(w, &d, &e) == ERR_OK) check(w, &d);
    else if (e.code != ERR_INPUT) abort();
    run_data_free(&d);
    c->labels = path;
    c->loss_sum = strchr(name, 'd') == NULL;
    if (run_labels_read(w, &l, &e) == ERR_OK) check(w, &l->data);
    else if (e.code != ERR_INPUT) abort();
    run_labels_free(l);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct batch batch;
    static struct plan plan;
    static struct run_work w;
    const char *p = (const char *)data, *end = p + size;
    struct scenario_case c = {.head_rows = -1};
    struct part x;

    if (w.plan == NULL) make_plan(&w, &batch, &plan);
    w.c = &c;
    folder_empty(folder());
    for (int i = 0; i < 3 && part_next(&p, end, &x); i++) {
        const char *line = memchr(x.text, '\n', x.n);
        uint64_t n = line != NULL ? (uint64_t)(line - x.text) : x.n;
        char head[8];

        for (int k = 0; k < 8; k++) head[k] = (char)(n >> 8 * k & 255);
        folder_put(folder(), x.name, head,
                   strcmp(x.name, "labels.safetensors") == 0 ? 8 : 0, x.text,
                   x.n, x.size);
        read_part(&w, &c, x.name);
    }
    return 0;
}
