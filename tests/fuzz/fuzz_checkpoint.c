/*
** A folder of weights: any headers, index, config and adapters are refused,
** or every tensor lies in its file, is found by its name, and can be read.
** A part X.safetensors is the JSON header, a line, and the data; the eight
** bytes of its length are put before it, unless the name begins with "raw".
*/
#include "base/file.h"
#include "folder.h"
#include "model/peft.h"
#include "model/weights_look.h"
#include "model/weights_map.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MOST = 600 };        /* elements read of a tensor */

static bool is_plain_tensors(const struct part *x)
{
    size_t n = strlen(x->name);

    return n > 12 && strcmp(x->name + n - 12, ".safetensors") == 0
        && strncmp(x->name, "raw", 3) != 0;
}

static void put_files(const uint8_t *data, size_t size)
{
    const char *p = (const char *)data, *end = p + size;
    struct part x;

    folder_empty(folder());
    while (part_next(&p, end, &x)) {
        const char *line = memchr(x.text, '\n', x.n);
        uint64_t n = line != NULL ? (uint64_t)(line - x.text) : x.n;
        char head[8];

        for (int i = 0; i < 8; i++) head[i] = (char)(n >> 8 * i & 255);
        folder_put(folder(), x.name, head, is_plain_tensors(&x) ? 8 : 0,
                   x.text, x.n, x.size);
    }
}

static void read_tensor(const struct checkpoint *c,
                        const struct checkpoint_tensor *t)
{
    static double out[MOST];
    struct err e;
    struct stat st;

    if (checkpoint_get(c, t->name) != t) abort();
    if (stat(checkpoint_path(c, t), &st) != 0) abort();
    if (t->at < 8 || t->bytes < 0 || t->at + t->bytes > st.st_size) abort();
    if (t->type == CKPT_OTHER) return;
    if (checkpoint_read(c, t, 0, t->count < MOST ? t->count : MOST, out, &e)
        != ERR_OK && e.code != ERR_INPUT)
        abort();
    if (checkpoint_read(c, t, t->count, 1, out, &e) == ERR_OK) abort();
}

static void find_weights(const struct checkpoint *c, const struct model *m)
{
    const struct checkpoint_tensor *t;
    struct param_list l;
    enum param_pack form;
    struct err e;

    if (param_list_make(m, 1, 0, &l, &e) != ERR_OK) return;
    for (int64_t i = 0; i < l.n && i < 100; i++) {
        if (stored_form(c, m, &l.p[i], &form, &e) != ERR_OK) continue;
        int64_t n = stored_tensors(m, &l.p[i], form);
        for (int64_t k = 0; k < n && k < 100; k++)
            if (stored_find(c, m, &l.p[i], form, k, &t, &e) == ERR_OK)
                read_tensor(c, t);
    }
    param_list_free(&l);
}

static void look_at_weights(const struct model *m)
{
    struct checkpoint *c = NULL;
    struct stored_look look;
    struct err e;

    if (stored_look(folder(), &look, &e) != ERR_OK && *e.text == '\0')
        abort();
    stored_look_free(&look);
    if (checkpoint_open(folder(), &c, &e) != ERR_OK) {
        if (e.code != ERR_INPUT) abort();
        return;
    }
    for (int64_t i = 0; i < checkpoint_count(c); i++)
        read_tensor(c, checkpoint_at(c, i));
    find_weights(c, m);
    checkpoint_close(c);
}

static void read_adapters(const struct peft *f, const struct model *m)
{
    struct param_list l;
    struct err e;

    if (param_list_make(m, 1, 2, &l, &e) != ERR_OK) return;
    for (int64_t i = 0; i < l.n; i++) {
        double *out;

        if (l.p[i].role == PARAM_BASE || l.p[i].count > 100000) continue;
        out = malloc((size_t)l.p[i].count * sizeof *out);
        for (int k = 0; k < (peft_has_moments(f) ? PEFT_PARTS : 1); k++)
            if (peft_read(f, &l.p[i], 0, (enum peft_part)k, out, &e)
                != ERR_OK && e.code != ERR_INPUT)
                abort();
        free(out);
    }
    param_list_free(&l);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct model tiny;
    struct model m = {0};
    struct peft *f = NULL;
    char path[FOLDER_PATH];
    struct err e;
    bool own;

    if (tiny.layers == 0
        && model_load("lua/models/tiny.json", 0, &tiny, &e) != ERR_OK)
        abort();
    put_files(data, size);
    folder_join(path, folder(), "config.json");
    own = model_load(path, 0, &m, &e) == ERR_OK;
    look_at_weights(own ? &m : &tiny);
    if (peft_open(folder(), own ? &m : &tiny, 2, 4, &f, &e) == ERR_OK)
        read_adapters(f, own ? &m : &tiny);
    peft_close(f);
    if (own) model_free(&m);
    return 0;
}
