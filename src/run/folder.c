/* folder.c - see folder.h */
#include "run/folder.h"

#include <dirent.h>
#include <jansson.h>
#include <lua.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/version.h"

/* The allow-listed part of the environment, and versions. */
#define MAX_PAIRS 16
static int64_t describe_environment(const char *pair[MAX_PAIRS][2])
{
    static const char *const names[] = {
        "CUDA_VISIBLE_DEVICES", "NCCL_DEBUG", "OMP_NUM_THREADS",
        "OPENBLAS_NUM_THREADS", "PEAKPROOF_DATA", NULL
    };
    int64_t n = 0;
    int i;

    pair[n][0] = "version", pair[n++][1] = peakproof_version;
    pair[n][0] = "lua", pair[n++][1] = LUA_RELEASE;
    pair[n][0] = "jansson", pair[n++][1] = jansson_version_str();
    pair[n][0] = "compiler", pair[n++][1] = __VERSION__;
    for (i = 0; names[i] != NULL; i++)
        if (getenv(names[i]) != NULL)
            pair[n][0] = names[i], pair[n++][1] = getenv(names[i]);
    return n;
}

static void put_command(const struct run_request *q, struct buf *out)
{
    int i;

    buf_puts(out, "peakproof");
    for (i = 0; i < q->n_word; i++) buf_printf(out, " %s", q->word[i]);
}

/* What a run writes below its folder, beside the records. */
static const struct { const char *folder, *end; } beside[] = {
    {"misses", ".json"}, {"histograms", ".csv"}
};
enum { N_BESIDE = sizeof beside / sizeof *beside };

/* Whether the folder has files of such names; they go where remove is. */
static bool find_beside(const char *dir, int which, bool remove)
{
    struct buf path = BUF_INIT;
    struct dirent *entry;
    size_t x = strlen(beside[which].end);
    bool found = false;
    DIR *d;

    buf_printf(&path, "%s/%s", dir, beside[which].folder);
    d = opendir(buf_text(&path));
    while (d != NULL && (entry = readdir(d)) != NULL) {
        size_t n = strlen(entry->d_name);
        if (n <= x || strcmp(entry->d_name + n - x, beside[which].end) != 0)
            continue;
        found = true;
        if (remove) unlinkat(dirfd(d), entry->d_name, 0);
    }
    if (d != NULL) closedir(d);
    buf_free(&path);
    return found;
}

/* A folder without a run.json is not a run's: what has the names of files
** that a run removes there is someone else's. */
static int check_beside(const char *dir, struct err *e)
{
    struct buf path = BUF_INIT;
    bool ours;
    int i;

    buf_printf(&path, "%s/run.json", dir);
    ours = access(buf_text(&path), F_OK) == 0;
    buf_free(&path);
    for (i = 0; i < N_BESIDE && !ours; i++)
        if (find_beside(dir, i, false))
            return err_set(e, ERR_USAGE, "%s/%s: holds *%s files that are "
                           "not of a run (choose another folder)", dir,
                           beside[i].folder, beside[i].end);
    return ERR_OK;
}

/* Nothing kept, nothing beside it counts: a run that is replaced, and one
** that was killed while it was. */
static void remove_beside(const char *dir, const struct record *r)
{
    int i;

    for (i = 0; i < N_BESIDE && record_count(r) == 0; i++)
        (void)find_beside(dir, i, true);
}

int run_folder_open(const char *dir, const struct run_request *q,
                    const struct run_context *x,
                    const struct scenario_set *set, struct record **out,
                    struct err *e)
{
    const char *pair[MAX_PAIRS][2];
    struct buf identity = BUF_INIT, command = BUF_INIT;
    struct record_info info = {.commit = peakproof_version,
                               .pair = (const char *const (*)[2])pair};
    int rc = run_identify(q, x, set, &identity, e);

    put_command(q, &command);
    info.n_pair = describe_environment(pair);
    info.identity = buf_text(&identity);
    info.command = buf_text(&command);
    if (rc == ERR_OK && (identity.failed || command.failed))
        rc = err_nomem(e);
    if (rc == ERR_OK) rc = check_beside(dir, e);
    if (rc == ERR_OK)
        rc = record_open(dir, q->resume ? RECORD_RESUME : RECORD_REPLACE,
                         &info, out, e);
    if (rc == ERR_OK) remove_beside(dir, *out);
    buf_free(&identity);
    buf_free(&command);
    return rc;
}

int run_folder_file(const char *dir, const char *snapshots,
                    const struct run_file *f, struct err *e)
{
    struct buf path = BUF_INIT;
    int rc = ERR_OK;

    if (f->kind == RUN_MISS)
        buf_printf(&path, "%s/misses", dir);
    else if (f->kind == RUN_HISTOGRAM)
        buf_printf(&path, "%s/histograms", dir);
    else
        buf_puts(&path, snapshots);
    if (!path.failed) rc = file_make_dirs(path.data, e);
    buf_printf(&path, "/%s", f->name);
    if (rc == ERR_OK)
        rc = path.failed ? err_nomem(e)
             : file_write(path.data, f->text.data, f->text.len, e);
    buf_free(&path);
    return rc;
}
