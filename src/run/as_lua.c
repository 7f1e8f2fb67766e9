/* as_lua.c - see run.h: a case as the text of a scenario */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "run/run.h"

static void put_ints(struct buf *out, const char *key, const int64_t *v,
                     int64_t n, int64_t step)
{
    int64_t i;

    buf_printf(out, "%s = {", key);
    for (i = 0; i < n; i++)
        buf_printf(out, "%s%" PRId64, i > 0 ? ", " : "",
                   *(const int64_t *)(const void *)((const char *)v
                                                    + i * step));
    buf_puts(out, "}");
}

static void put_batch(const struct batch *b, struct buf *out)
{
    const int64_t step = sizeof *b->seg;

    buf_puts(out, "   batch = batch.tree{");
    put_ints(out, "parents", &b->seg->parent, b->n_seg, step);
    buf_puts(out, ",\n     ");
    put_ints(out, "lengths", &b->seg->tokens, b->n_seg, step);
    buf_puts(out, "},\n");
}

/* With all digits, so that the case is the same when it is read again. */
static void put_routing(const struct routing *r, struct buf *out)
{
    switch (r->kind) {
    case ROUTING_CV:
        buf_printf(out, "{cv = %.17g, seed = %" PRIu64 ", drift = %.17g",
                   r->cv, r->seed, r->drift);
        if (r->burst > 0)
            buf_printf(out, ", burst = %.17g, factor = %.17g", r->burst,
                       r->factor);
        buf_puts(out, "}");
        return;
    case ROUTING_SHARE:
        buf_printf(out, "{share = %.17g, rank = %" PRId64 "}", r->share,
                   r->share_rank);
        return;
    case ROUTING_HOT:
        buf_printf(out, "{hot_expert = %" PRId64 ", factor = %.17g}",
                   r->expert, r->factor);
        return;
    case ROUTING_LIST:
        buf_puts(out, "{");
        for (int64_t i = 0; i < r->n_each; i++) {
            put_routing(&r->each[i], out);
            buf_puts(out, ", ");
        }
        buf_puts(out, "}");
        return;
    case ROUTING_HISTOGRAM:     /* whose file is not known any more */
        buf_puts(out, "{cv = 0, seed = 0} --[[ here; it was a file ]]");
        return;
    case ROUTING_BALANCED:
        buf_puts(out, "\"balanced\"");
    }
}

/* ---- what is not as it is by default ------------------------------------- */

static void put_int(struct buf *out, const char *key, int64_t v, int64_t usual)
{
    if (v != usual) buf_printf(out, "   %s = %" PRId64 ",\n", key, v);
}

static void put_flag(struct buf *out, const char *key, bool v, bool usual)
{
    if (v != usual) buf_printf(out, "   %s = %s,\n", key,
                               v ? "true" : "false");
}

static void put_word(struct buf *out, const char *key, const char *word,
                     const char *usual)
{
    if (strcmp(word, usual) != 0)
        buf_printf(out, "   %s = \"%s\",\n", key, word);
}

static void put_set(struct buf *out, const char *key, unsigned set,
                    const char *const *words)
{
    int i;

    if (set == 0) return;
    buf_printf(out, "   %s = {", key);
    for (i = 0; words[i] != NULL; i++)
        if ((set >> i & 1) != 0) buf_printf(out, "\"%s\", ", words[i]);
    buf_puts(out, "},\n");
}

static void put_mode(const struct mode *m, struct buf *out)
{
    put_word(out, "recompute", mode_recompute_words[m->recompute],
             mode_recompute_words[RECOMPUTE_FULL]);
    put_set(out, "recompute_modules", m->modules, mode_module_words);
    put_set(out, "otherwise", m->otherwise, mode_otherwise_words);
    put_word(out, "wave", mode_wave_words[m->wave],
             mode_wave_words[WAVE_TRAIN]);
    put_flag(out, "grad", !m->no_grad, true);
    put_flag(out, "compiled", !m->eager, true);
}

static void put_plan(const struct scenario_case *c, struct buf *out)
{
    if (c->cut > 0)
        buf_printf(out, "   plan = {cut = %" PRId64 "},\n", c->cut);
    else if (c->profile == PLAN_OLD)
        buf_puts(out, "   plan = {profile = \"old\"},\n");
}

/* n bytes of text as Lua writes a string. */
static void put_string(const char *text, size_t n, struct buf *out)
{
    size_t i;

    buf_putc(out, '"');
    for (i = 0; i < n; i++) {
        unsigned char c = (unsigned char)text[i];

        if (c == '"' || c == '\\') buf_printf(out, "\\%c", c);
        else if (c < 0x20 || c == 0x7f) buf_printf(out, "\\%03d", c);
        else buf_putc(out, text[i]);
    }
    buf_putc(out, '"');
}

/* The whole path: a name is looked for beside the scenario that is written, not
** beside the one that was read. */
static void put_path(const char *path, struct buf *out)
{
    char *whole = realpath(path, NULL);

    if (whole == NULL && errno == ENOMEM) out->failed = true;
    if (whole != NULL) path = whole;
    put_string(path, strlen(path), out);
    free(whole);
}

/* Of a model that ships, its name: other machines have it elsewhere. */
static void put_model(const char *path, const char *data, struct buf *out)
{
    size_t n = strlen(data), cut = strlen(".json"), len = strlen(path);
    static const char folder[] = "/models/";

    buf_puts(out, "model = ");
    if (strncmp(path, data, n) == 0
        && strncmp(path + n, folder, sizeof folder - 1) == 0
        && strcmp(path + len - cut, ".json") == 0) {
        path += n + sizeof folder - 1;
        put_string(path, strlen(path) - cut, out);
    } else {
        put_path(path, out);
    }
    buf_puts(out, ",\n");
}

/* Which rows have one decides what the head takes, and a step of the optimizer
** what stands beside a wave. */
static void put_training(const struct scenario_case *c, struct buf *out)
{
    if (c->learning_rate > 0)
        buf_printf(out, "   learning_rate = %.17g,\n", c->learning_rate);
    if (c->labels == NULL) return;
    buf_puts(out, "   labels = ");
    put_path(c->labels, out);
    buf_puts(out, ",\n");
}

void run_as_lua(const struct scenario_case *c, const char *data,
                struct buf *out)
{
    buf_printf(out, "  {name = \"%s\", ", c->name);
    put_model(c->model_path, data, out);
    buf_printf(out, "   cp = %" PRId64 ", ep = %" PRId64 ", lora_rank = %"
               PRId64 ", waves = %" PRId64 ", load_cv = %.17g,\n", c->cp,
               c->ep, c->lora_rank, c->waves, c->load_cv);
    put_int(out, "layers", c->layers, 0);
    put_int(out, "tp", c->tp, 1);
    put_int(out, "pp", c->pp, 1);
    put_int(out, "seed", (int64_t)c->seed, 0);
    put_int(out, "head_rows", c->head_rows, -1);
    put_int(out, "price_head_rows", c->price_head_rows, -1);
    put_int(out, "output_bytes", c->output_bytes, 0);
    put_int(out, "hybridep_held_rows", c->hybridep_held_rows, -1);
    put_int(out, "device_bytes", (int64_t)c->device_bytes, 0);
    put_word(out, "dtype", c->dtype, "bf16");
    put_flag(out, "softmax_offset", c->softmax_offset, false);
    put_flag(out, "cp_attention", c->cp_attention, true);
    put_training(c, out);
    put_mode(&c->mode, out);
    put_batch(&c->batch, out);
    put_plan(c, out);
    buf_puts(out, "   routing = ");
    put_routing(&c->routing, out);
    buf_puts(out, "},\n");
}
