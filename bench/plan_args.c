/* plan_args.c - see plan_args.h */
#include "bench/plan_args.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/num.h"
#include "base/suggest.h"
#include "run/data_dir.h"

#define DEFAULT_MODEL "Qwen3.6-35B-A3B.json"

const char *const plan_args_profiles[] = {"new", "old", NULL};

static const char *const names[] = {
    "lengths", "tree", "sequences", "select", "cp", "ep", "model", "layers",
    "profile", "lora-rank", "head-rows", NULL
};

bool plan_args_given(const struct args *a)
{
    int i;

    for (i = 0; names[i] != NULL; i++)
        if (args_has(a, names[i])) return true;
    return false;
}

/* ---- files -------------------------------------------------------------- */

/* name, else name and suffix, in a folder ("": here); what is there goes into
** b. A folder is no file. */
static bool look(const char *folder, const char *name, const char *suffix,
                 struct buf *b)
{
    struct stat st;
    int i;

    for (i = 0; i < 2; i++) {
        b->len = 0;
        buf_printf(b, "%s%s%s%s", folder, *folder != '\0' ? "/" : "", name,
                   i > 0 ? suffix : "");
        if (!b->failed && stat(b->data, &st) == 0 && !S_ISDIR(st.st_mode))
            return true;
    }
    return false;
}

/* Where a file is: here, else the shipped one in the data folder's sub, both
** also without the suffix; name where it is nowhere. *out is malloc'ed;
** *shipped may be NULL. */
static int find_file(const char *name, const char *sub, const char *suffix,
                     bool *shipped, char **out, struct err *e)
{
    struct buf b = BUF_INIT, folder = BUF_INIT;
    bool here = strcmp(name, "-") != 0 && look("", name, suffix, &b), found;
    char *data;

    if (!here && strchr(name, '/') == NULL && strcmp(name, "-") != 0) {
        int rc = data_dir(&data, e);
        if (rc != ERR_OK) {
            buf_free(&b);
            return rc;
        }
        buf_printf(&folder, "%s/%s", data, sub);
        free(data);
    }
    found = !here && folder.len > 0 && look(folder.data, name, suffix, &b);
    if (!found && !here) {
        b.len = 0;
        buf_puts(&b, name);
    }
    if (shipped != NULL) *shipped = found;
    b.failed |= folder.failed;
    buf_free(&folder);
    if (b.failed) {
        buf_free(&b);
        return err_nomem(e);
    }
    *out = b.data;
    return ERR_OK;
}

/* Names what may have been meant. */
static int no_model(const char *name, struct err *e)
{
    char near[64] = "", *data;
    struct err ignored;
    struct buf dir = BUF_INIT;

    if (data_dir(&data, &ignored) == ERR_OK) {
        buf_printf(&dir, "%s/models", data);
        suggest_file(buf_text(&dir), name, ".json", near, sizeof near);
        free(data);
    }
    buf_free(&dir);
    return err_set(e, ERR_INPUT, "%s: no such model, here or shipped (%s%s%s"
                   "peakproof list --models names those; of a folder name "
                   "its config.json)", name, *near ? "did you mean " : "",
                   near, *near ? "? " : "");
}

/* The path of a config, malloc'ed, or "-". */
static int find_model(const char *name, bool *shipped, char **out,
                      struct err *e)
{
    struct stat st;
    int rc = find_file(name != NULL ? name : DEFAULT_MODEL, "models", ".json",
                       shipped, out, e);

    if (rc != ERR_OK || strcmp(*out, "-") == 0) return rc;
    if (stat(*out, &st) == 0 && !S_ISDIR(st.st_mode)) return ERR_OK;
    rc = no_model(*out, e);
    free(*out);
    *out = NULL;
    return rc;
}

int plan_args_model(const char *name, char **path, struct err *e)
{
    return find_model(name, NULL, path, e);
}

int plan_args_model_named(const char *name, char **out, struct err *e)
{
    char *path;
    bool shipped;
    int rc = find_model(name, &shipped, &path, e);

    if (rc == ERR_OK && strcmp(path, "-") == 0) {
        rc = no_model(path, e);     /* it can be read once, cases are many */
        free(path);
    }
    if (rc != ERR_OK) return rc;
    *out = shipped ? strdup(name != NULL ? name : DEFAULT_MODEL)
                   : realpath(path, NULL);
    free(path);
    return *out != NULL ? ERR_OK : err_nomem(e);
}

/* A shipped model by name, or a file; which one decides how facts name it. */
static int read_model(const struct args *a, struct shape *out,
                      struct err *e)
{
    const char *name = args_text(a, "model");
    int64_t layers = 0;
    char *path = NULL;
    bool shipped = true;
    int rc = args_int(a, "layers", 1, 1 << 20, &layers, e);

    if (rc == ERR_OK) rc = find_model(name, &shipped, &path, e);
    if (rc == ERR_OK) rc = model_load(path, layers, &out->model, e);
    if (shipped) free(path);
    else out->model_ref = path;
    if (rc == ERR_OK && out->model.experts == 0 && out->options.ep > 1)
        rc = err_set(e, ERR_USAGE, "--ep: %s is dense, it has no experts to "
                     "split (use 1)", out->model.name);
    if (rc == ERR_OK && out->model.experts % out->options.ep != 0)
        rc = err_set(e, ERR_USAGE, "--ep: %" PRId64 " does not divide the %"
                     PRId64 " experts of %s", out->options.ep,
                     out->model.experts,
                     name != NULL ? name : DEFAULT_MODEL);
    if (rc == ERR_OK && out->options.cp % out->options.ep != 0)
        rc = err_set(e, ERR_USAGE, "--ep: %" PRId64 " does not divide --cp, %"
                     PRId64 " (groups of ep ranks share the experts)",
                     out->options.ep, out->options.cp);
    return rc;
}

/* ---- batches ------------------------------------------------------------ */

/* "A,B,...": numbers of at least 1; *out is malloc'ed. */
static int parse_lengths(const char *text, int64_t **out, int64_t *n,
                         struct err *e)
{
    int64_t *v = calloc(strlen(text) / 2 + 1, sizeof *v);
    const char *p = text;
    int rc = v == NULL ? err_nomem(e) : ERR_OK;

    *n = 0;
    do {
        char item[24];
        size_t len = strcspn(p, ",");
        if (rc != ERR_OK) break;
        if (len >= sizeof item) len = sizeof item - 1;
        memcpy(item, p, len);
        item[len] = '\0';
        if (strpbrk(item, ".B") != NULL || !num_parse_bytes(item, &v[*n]) ||
            v[*n] < 1 || v[(*n)++] > BATCH_MAX_TOKENS)
            rc = err_set(e, ERR_USAGE, "--lengths: '%s' is not a number of "
                         "tokens (1 to %" PRId64 ", as in 64k,9000)", item,
                         BATCH_MAX_TOKENS);
        p += strcspn(p, ",");
    } while (*p++ == ',');
    if (rc != ERR_OK)
        free(v);
    else
        *out = v;
    return rc;
}

static int read_lengths(const char *text, struct batch *out, struct err *e)
{
    int64_t *v = NULL, n;
    int rc = parse_lengths(text, &v, &n, e);

    if (rc == ERR_OK) rc = batch_from_lengths(v, n, out, e);
    free(v);
    return rc == ERR_INPUT ? err_wrap(e, "--lengths") : rc;
}

static int pick_sequences(const struct args *a, const struct corpus *c,
                          struct batch *out, struct err *e)
{
    const char *text = args_text(a, "select");
    int64_t count = corpus_count(c), n = 0;
    int64_t *pick = calloc((size_t)count, sizeof *pick);
    int rc = ERR_OK;

    if (pick == NULL) return err_nomem(e);
    for (; text == NULL && n < count; n++) pick[n] = n;
    if (text != NULL && !num_parse_ranges(text, count - 1, count, pick, &n))
        rc = err_set(e, ERR_USAGE, "--select: bad selection '%s' (as in "
                     "0-19,25, each once, numbers below %" PRId64 ")", text,
                     count);
    if (rc == ERR_OK) rc = corpus_batch(c, pick, n, out, e);
    free(pick);
    if (rc != ERR_INPUT || text == NULL) return rc;
    e->code = ERR_USAGE;        /* it is the option that is wrong */
    return err_wrap(e, "--select");
}

/* Recorded sequences: the tree beside them is found where none is named. */
static int read_sequences(const struct args *a, struct batch *out,
                          struct err *e)
{
    const char *tree_name = args_text(a, "tree");
    char *path = NULL, *tree = NULL;
    struct corpus *c = NULL;
    int rc = find_file(args_text(a, "sequences"), "data", ".csv", NULL,
                       &path, e);

    if (rc == ERR_OK && tree_name != NULL)
        rc = find_file(tree_name, "data", ".csv", NULL, &tree, e);
    else if (rc == ERR_OK)
        rc = corpus_find_tree(path, &tree, e);
    if (rc == ERR_OK) rc = corpus_load(path, tree, &c, e);
    if (rc == ERR_OK && corpus_lacks_tree(c))
        say_warning("%s: no --tree for its leaf_segment: the sequences are "
                    "planned as if they shared nothing", path);
    if (rc == ERR_OK) rc = pick_sequences(a, c, out, e);
    corpus_free(c);
    free(path);
    free(tree);
    return rc;
}

/* Three ways to say a batch exclude each other, before any file is read. */
static int read_batch(const struct args *a, struct batch *out, struct err *e)
{
    const char *lengths = args_text(a, "lengths");
    const char *tree = args_text(a, "tree");
    bool sequences = args_has(a, "sequences");
    char *path = NULL;
    int rc;

    if (lengths != NULL && (tree != NULL || sequences))
        return err_set(e, ERR_USAGE, "--lengths and --%s exclude each other",
                       tree != NULL ? "tree" : "sequences");
    if (args_has(a, "select") && !sequences)
        return err_set(e, ERR_USAGE, "--select needs --sequences");
    if (lengths != NULL) return read_lengths(lengths, out, e);
    if (sequences) return read_sequences(a, out, e);
    if (tree == NULL)
        return err_set(e, ERR_USAGE, "nothing to plan (give --lengths, --tree "
                       "or --sequences)");
    rc = find_file(tree, "data", ".csv", NULL, &path, e);
    if (rc == ERR_OK) rc = batch_load_tree(path, out, e);
    free(path);
    return rc;
}

/* ---- all ---------------------------------------------------------------- */

static int read_shape(const struct args *a, struct shape *out,
                      struct err *e)
{
    const char *profile = args_text(a, "profile");
    int rc = args_int(a, "cp", 1, PLAN_MAX_RANKS, &out->options.cp, e);

    if (rc == ERR_OK)
        rc = args_int(a, "ep", 1, PLAN_MAX_RANKS, &out->options.ep, e);
    if (rc == ERR_OK)
        rc = args_int(a, "lora-rank", 0, 65536, &out->lora_rank, e);
    if (rc == ERR_OK)
        rc = args_int(a, "head-rows", 0, BATCH_MAX_TOKENS, &out->head_rows, e);
    if (profile != NULL && strcmp(profile, "old") == 0)
        out->options.profile = PLAN_OLD;
    return rc;
}

int plan_args_read(const struct args *a, struct shape *out, struct err *e)
{
    struct shape p = {
        .options = {.cp = 2, .ep = 1, .tp = 1, .profile = PLAN_NEW,
                    .owned_ms = -1},
        .lora_rank = 8, .head_rows = -1
    };
    int rc = read_shape(a, &p, e);

    if (rc == ERR_OK) rc = read_batch(a, &p.batch, e);
    if (rc == ERR_OK) rc = read_model(a, &p, e);
    if (rc != ERR_OK) {
        shape_free(&p);
        return rc;
    }
    *out = p;
    return ERR_OK;
}
