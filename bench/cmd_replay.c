/* cmd_replay.c - "peakproof replay": PyTorch snapshots through our
** allocator. */
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "bench/command.h"
#include "snapshot/replay.h"

#define SNAPSHOT_LIMIT ((size_t)4 << 30)

/* Settings of the file, then those of the command line, in order. */
static int settings(const struct args *a, struct mem_config *c, struct err *e)
{
    const char *const *set;
    int n, i, rc = ERR_OK;

    set = args_list(a, "set", &n);
    for (i = 0; rc == ERR_OK && i < n; i++) {
        const char *mark = strchr(set[i], '=');
        char key[64];

        if (mark == NULL || mark == set[i] ||
            (size_t)(mark - set[i]) >= sizeof key)
            return err_set(e, ERR_USAGE, "--set %s: must be key=value, for "
                           "instance max_split_size_mb=128", set[i]);
        memcpy(key, set[i], (size_t)(mark - set[i]));
        key[mark - set[i]] = '\0';
        rc = mem_config_set(c, key, mark + 1, e);
        if (rc != ERR_OK) rc = err_wrap(e, "--set");
    }
    return rc;
}

static int replay_all(const struct args *a, const struct snapshot *s,
                      const char *path, json_t *files, struct err *e)
{
    struct replay *r = calloc((size_t)s->n_device + 1, sizeof *r);
    struct mem_config c = s->config;
    int64_t i, n = 0;
    int rc = r == NULL ? err_nomem(e) : settings(a, &c, e);

    for (i = 0; rc == ERR_OK && i < s->n_device; i++) {
        const struct snapshot_device *d = &s->device[i];

        if (d->n_event == 0 && d->n_segment == 0) continue;
        rc = replay_device(s, i, path, &c, &r[n], e);
        n += rc == ERR_OK;
    }
    if (rc == ERR_OK &&
        json_array_append_new(files, replay_json(path, r, n)) != 0)
        rc = err_nomem(e);
    free(r);
    return rc;
}

static int replay_file(const struct args *a, const char *path, json_t *files,
                       struct err *e)
{
    struct buf b = BUF_INIT;
    struct snapshot s = {0};
    int rc = file_read(path, SNAPSHOT_LIMIT, &b, e);

    if (rc == ERR_OK) rc = snapshot_read(buf_text(&b), b.len, path, &s, e);
    buf_free(&b);
    if (rc != ERR_OK) return rc;
    rc = replay_all(a, &s, path, files, e);
    snapshot_free(&s);
    return rc;
}

static int run(const struct args *a, struct err *e)
{
    json_t *files = json_array(), *top;
    struct mem_config unused = {0};
    int i, rc = files == NULL ? err_nomem(e) : settings(a, &unused, e);

    for (i = 0; rc == ERR_OK && i < a->n_operand; i++)
        rc = replay_file(a, a->operand[i], files, e);
    if (rc != ERR_OK) {
        json_decref(files);
        return rc;
    }
    top = json_pack("{s:i, s:o}", "format", 1, "files", files);
    return top == NULL ? err_nomem(e) : out_json(top, e);
}

static const struct command_option options[] = {
    {.name = "set", .arg = "KEY=VALUE", .repeats = true,
     .help = "replay under another allocator setting, named as in "
             "PYTORCH_CUDA_ALLOC_CONF, or limit=BYTES of device memory"},
    {.name = NULL}
};

static const char *const examples[] = {
    "peakproof replay snapshot.pickle",
    "peakproof replay --set max_split_size_mb=128 rank0.pickle rank1.pickle",
    NULL
};

const struct command cmd_replay = {
    .name = "replay",
    .synopsis = "[--set KEY=VALUE]... SNAPSHOT...",
    .about = "PyTorch memory snapshots through our allocator",
    .text =
        "Reads snapshots as torch.cuda.memory._dump_snapshot writes them "
        "(pickles of protocol 2 to 5; anything that would run code is "
        "refused) and replays every device's trace: each allocation is "
        "predicted and compared with the record. Prints JSON: peaks of "
        "allocated, reserved, requested and active bytes, how many blocks "
        "and segments fell elsewhere than recorded (0 where our allocator is "
        "PyTorch's), and the state at the end.\n\n"
        "A trace that begins in mid-run starts from the state that its end "
        "and its events imply; assumed_sizes counts blocks whose unsplit "
        "slack they do not tell. With --set the same requests are replayed "
        "under other settings: what would have been. Expandable segments and "
        "private pools are refused by name.",
    .option = options,
    .operand = "SNAPSHOT",
    .min_operands = 1,
    .max_operands = -1,
    .exits = {ERR_RUN, ERR_INPUT},
    .examples = examples,
    .run = run,
};
