/* cmd_replay.c - "peakproof replay": PyTorch snapshots through our
** allocator, and what held the memory. */
#include <stdlib.h>
#include <string.h>

#include "base/clean.h"
#include "base/json.h"
#include "bench/snapshots.h"

/* What was asked for, apart from the points that the ask lists. */
struct request {
    struct account_ask ask;
    struct mem_config set;      /* the command line's, on the file's */
    struct patterns patterns;
    struct buf text, idle;      /* --set, echoed; and what of it is idle */
    bool changes;               /* some setting is not idle */
    int64_t device;             /* the only one; -1: all */
};

/* ---- settings ----------------------------------------------------------- */

/* --set key=value. limit=? is no setting but a question. */
static int one_setting(struct request *q, const char *set,
                       struct mem_config *c, bool first, struct err *e)
{
    enum setting_effect effect = SETTING_USED;
    const char *mark = strchr(set, '=');
    char key[64];
    int rc;

    if (mark == NULL || mark == set || (size_t)(mark - set) >= sizeof key)
        return err_set(e, ERR_USAGE, "--set %s: must be key=value, for "
                       "instance max_split_size_mb=128", set);
    memcpy(key, set, (size_t)(mark - set));
    key[mark - set] = '\0';
    if (strcmp(key, "limit") == 0 && strcmp(mark + 1, "?") == 0) {
        q->ask.least_limit = true;
        return ERR_OK;
    }
    rc = settings_set(c, key, mark + 1, &effect, e);
    if (rc == ERR_OK && effect == SETTING_UNKNOWN)
        rc = settings_set(c, key, mark + 1, NULL, e);
    if (rc != ERR_OK) return err_wrap(e, "--set");
    if (!first) return ERR_OK;
    if (effect == SETTING_USED) q->changes = true;
    buf_printf(&q->text, "%s%s", q->text.len > 0 ? " " : "", set);
    if (effect == SETTING_IDLE)
        buf_printf(&q->idle, "%s%s", q->idle.len > 0 ? ", " : "", set);
    return q->text.failed || q->idle.failed ? err_nomem(e) : ERR_OK;
}

/* Nobody could say which of two values of a key is meant. */
static int check_once(const char *const *set, int n, struct err *e)
{
    int i, k;

    for (i = 1; i < n; i++) {
        size_t key = strcspn(set[i], "=") + 1;
        for (k = 0; k < i; k++)
            if (strncmp(set[i], set[k], key) == 0)
                return err_set(e, ERR_USAGE, "--set: %.*s given twice (%s, "
                               "%s)", (int)key - 1, set[i], set[k], set[i]);
    }
    return ERR_OK;
}

/* The command line's settings over c. */
static int settings(const struct args *a, struct request *q,
                    struct mem_config *c, bool first, struct err *e)
{
    const char *const *set;
    int n, rc;

    set = args_list(a, "set", &n);
    rc = check_once(set, n, e);
    for (int i = 0; rc == ERR_OK && i < n; i++)
        rc = one_setting(q, set[i], c, first, e);
    return rc;
}

int snapshots_ask(const struct args *a, struct account_ask *ask,
                  struct patterns *p, struct err *e)
{
    const char *by = args_text(a, "by");
    int64_t rows = 12;
    int rc = args_int(a, "rows", 0, 1000000, &rows, e);

    ask->rows = (int)rows;
    for (int i = 0; by != NULL && compose_names[i] != NULL; i++)
        if (strcmp(by, compose_names[i]) == 0) ask->by = (enum compose_by)i;
    if (rc != ERR_OK || !args_has(a, "patterns")) return rc;
    if (by != NULL)
        return err_set(e, ERR_USAGE, "%s: --by or --patterns, not both",
                       a->command->name);
    ask->by = BY_PATTERN;
    ask->patterns = p;
    return patterns_load(args_text(a, "patterns"), p, e);
}

static int read_request(const struct args *a, struct request *q,
                        struct err *e)
{
    struct mem_config unused = {0};
    int rc = snapshots_ask(a, &q->ask, &q->patterns, e);

    if (rc == ERR_OK) rc = settings(a, q, &unused, true, e);
    q->device = -1;
    if (rc == ERR_OK) rc = args_int(a, "device", 0, 1023, &q->device, e);
    if (rc == ERR_OK && replay_writes(a) && a->n_operand > 1)
        rc = err_set(e, ERR_USAGE, "replay: --timeline, --perfetto and "
                     "--folded go with one snapshot");
    if (rc == ERR_OK) rc = replay_writes_check(a, e);
    q->ask.at = args_list(a, "at", &q->ask.n_at);
    q->ask.since = args_text(a, "since");
    q->ask.waves = args_text(a, "waves");
    q->ask.set_text = buf_text(&q->text);
    q->ask.idle = q->idle.len > 0 ? buf_text(&q->idle) : NULL;
    return rc;
}

/* ---- files -------------------------------------------------------------- */

/* One device of one file, to the text or to the list. */
static int put_device(const struct args *a, struct request *q,
                      const struct snapshot *s, int64_t device,
                      const char *path, struct buf *text, json_t *list,
                      struct err *e)
{
    struct account x = {0};
    json_t *v;
    int rc = account_device(s, device, path, &q->ask, &x, e);

    if (rc == ERR_USAGE) return err_wrap(e, "replay: %s", path);
    if (rc == ERR_OK && replay_writes(a))
        rc = replay_write(a, &x, &q->ask, path, e);
    if (rc != ERR_OK) {
        account_free(&x);
        return rc;
    }
    if (list == NULL) {
        if (text->len > 0) buf_putc(text, '\n');
        rc = account_tell(&x, &q->ask, path, text, e);
    } else {
        v = account_json(&x, &q->ask);
        if (json_array_append_new(list, v) != 0) rc = err_nomem(e);
    }
    account_free(&x);
    return rc;
}

static bool is_wanted(const struct request *q, const struct snapshot *s,
                      int64_t device)
{
    const struct snapshot_device *d = &s->device[device];

    return (q->device < 0 || q->device == device)
        && (d->n_event > 0 || d->n_segment > 0);
}

/* Settings are a file's own, so --set is applied to each anew. */
static int put_file(const struct args *a, struct request *q,
                    const char *path, struct buf *text, json_t *list,
                    struct err *e)
{
    struct snapshot s = {0};
    int rc = snapshot_load(path, &s, e);
    int64_t shown = 0;

    if (rc != ERR_OK) return rc;
    q->set = s.config;
    rc = settings(a, q, &q->set, false, e);
    q->ask.set = q->changes ? &q->set : NULL;
    for (int64_t i = 0; rc == ERR_OK && i < s.n_device; i++) {
        if (!is_wanted(q, &s, i)) continue;
        if (shown++ > 0 && replay_writes(a))
            rc = err_set(e, ERR_USAGE, "replay: %s has several devices: "
                         "--device N says whose files to write", path);
        else
            rc = put_device(a, q, &s, i, path, text, list, e);
    }
    if (rc == ERR_OK && shown == 0 && q->device >= 0)
        rc = err_set(e, ERR_INPUT, "%s: device %d (--device) holds no memory "
                     "and has no trace", path, (int)q->device);
    if (rc == ERR_OK && shown == 0 && list == NULL)
        buf_printf(text, "%s%s: no device holds memory or has a trace\n",
                   text->len > 0 ? "\n" : "", path);
    snapshot_free(&s);
    return rc;
}

/* A file that cannot be answered is one line; the others are. */
static int put_failure(const char *path, const struct err *why, json_t *files,
                       struct err *e)
{
    if (files == NULL) {
        say_error(why);
        return ERR_OK;
    }
    return json_array_append_new(files, json_pack("{s:o, s:o}", "file",
                                                  js_text(path), "error",
                                                  js_text(why->text))) == 0
         ? ERR_OK : err_nomem(e);
}

/* A file that cannot be read is told in its place; the others are answered. */
static int put_files(const struct args *a, struct request *q, json_t *files,
                     int *failed, struct err *e)
{
    int rc = ERR_OK;

    for (int i = 0; rc == ERR_OK && i < a->n_operand; i++) {
        const char *path = a->operand[i];
        json_t *list = files != NULL ? json_array() : NULL;
        struct buf text = BUF_INIT;
        struct err why = {0};
        int one = put_file(a, q, path, &text, list, &why);

        if (one == ERR_INPUT) {
            if (*failed == ERR_OK) *failed = one;
            json_decref(list);
            rc = put_failure(path, &why, files, e);
            buf_free(&text);
        } else if (one != ERR_OK) {
            json_decref(list);
            buf_free(&text);
            *e = why;
            return one;
        } else if (files != NULL) {
            rc = json_array_append_new(files, json_pack("{s:o, s:o}", "file",
                                                        js_text(path),
                                                        "devices", list)) == 0
                 ? ERR_OK : err_nomem(e);
        } else {
            if (i > 0) out_text("\n", 1);
            if (text.len > 0) text_clean_lines(text.data, text.len);
            rc = out_put(&text, e);
        }
    }
    return rc;
}

/* Exit 3 at the end where some file failed, after all has been printed. */
static int run(const struct args *a, struct err *e)
{
    struct request q = {.text = BUF_INIT, .idle = BUF_INIT};
    json_t *files = NULL, *top;
    int failed = ERR_OK, rc = read_request(a, &q, e);

    if (rc == ERR_OK && a->json) {
        files = json_array();
        if (files == NULL) rc = err_nomem(e);
    }
    if (rc == ERR_OK) rc = put_files(a, &q, files, &failed, e);
    buf_free(&q.text);
    buf_free(&q.idle);
    patterns_free(&q.patterns);
    if (rc != ERR_OK) {
        json_decref(files);
        return rc;
    }
    if (files != NULL) {
        top = json_pack("{s:i, s:o}", "format", 1, "files", files);
        rc = top == NULL ? err_nomem(e) : out_json(top, e);
    }
    if (rc != ERR_OK || failed == ERR_OK) return rc;
    e->text[0] = '\0';          /* each file has said why */
    e->code = (enum err_code)failed;
    return failed;
}

static const struct command_option options[] = {
    SNAPSHOTS_BY,
    SNAPSHOTS_PATTERNS,
    {.name = "at", .arg = "POINT", .repeats = true,
     .help = "what is allocated after an event (its number, or "
             "time=MICROSECONDS), at the peak, start, end, or first oom"},
    {.name = "since", .arg = "POINT",
     .help = "what grew from there to the first --at, or to the end"},
    {.name = "waves", .arg = "NAME",
     .help = "show only annotations whose name begins so: the peak of "
             "each"},
    SNAPSHOTS_ROWS,
    {.name = "device", .arg = "N", .help = "only this device"},
    {.name = "timeline", .arg = "FILE",
     .help = "draw allocated bytes by group over the events: an SVG, or a "
             "page when the name ends in .html"},
    {.name = "perfetto", .arg = "FILE",
     .help = "write the same as counters for ui.perfetto.dev"},
    {.name = "folded", .arg = "FILE",
     .help = "write the stacks at the peak (or the first --at) as lines for "
             "flame graphs"},
    {.name = "set", .arg = "KEY=VALUE", .repeats = true,
     .help = "replay under another allocator setting, named as in "
             "PYTORCH_CUDA_ALLOC_CONF (expandable_segments=True), or "
             "limit=BYTES of device memory; limit=? finds the least that "
             "suffices"},
    {.name = NULL}
};

static const char *const examples[] = {
    "peakproof replay snapshot.pickle",
    "peakproof replay --by module --at oom rank0.pickle",
    "peakproof replay --timeline peak.html rank0.pickle",
    "peakproof replay --set limit=? --set max_split_size_mb=128 rank0.pickle",
    NULL
};

const struct command cmd_replay = {
    .name = "replay",
    .synopsis = "[--by KEY] [--at POINT]... [--since POINT] "
                "[--set KEY=VALUE]... SNAPSHOT...",
    .about = "PyTorch memory snapshots: peaks, and what held the memory",
    .text =
        "Reads snapshots as torch.cuda.memory._dump_snapshot writes them "
        "(PyTorch 1.13 to current, pickles of protocol 2 to 5; anything that "
        "would run code is refused). Lines that begin with ! say what must be "
        "known before the numbers are believed. Then the peaks of allocated, "
        "reserved, requested and active bytes, and for the peak, each "
        "recorded out-of-memory, the end and every --at, which frames held "
        "how much.\n\n"
        "The trace is followed as recorded, which is exact also for "
        "expandable segments and private pools. Where our allocator is "
        "PyTorch's, every address is predicted as well and compared. A trace "
        "that begins in mid-run starts from the state that its end and its "
        "events imply. With --set the same requests are replayed under other "
        "settings, beside those recorded: what would have been.\n\n"
        "A file that cannot be read is one line, the others are answered, and "
        "the exit code is 3.",
    .option = options,
    .operand = "SNAPSHOT",
    .min_operands = 1,
    .max_operands = -1,
    .exits = {ERR_RUN, ERR_INPUT},
    .examples = examples,
    .run = run,
};
