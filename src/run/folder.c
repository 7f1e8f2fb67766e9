/* folder.c - see folder.h */
#include "run/folder.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <lua.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/hash.h"
#include "base/version.h"
#include "dev/dev.h"

#define MAX_PAIRS 16

/* The allow-listed part of the environment, and versions; of a device that
** multiplies by BLAS, which kernels: the last digits of a loss are theirs. */
static int64_t describe_environment(const char *device,
                                    const char *pair[MAX_PAIRS][2])
{
    static const char *const names[] = {
        "CUDA_VISIBLE_DEVICES", "NCCL_DEBUG", "OMP_NUM_THREADS",
        "OPENBLAS_CORETYPE", "OPENBLAS_NUM_THREADS", "PEAKPROOF_DATA", NULL
    };
    const char *blas;
    struct err ignored;
    int64_t n = 0;
    int i;

    pair[n][0] = "version", pair[n++][1] = peakproof_version;
    pair[n][0] = "lua", pair[n++][1] = LUA_RELEASE;
    pair[n][0] = "jansson", pair[n++][1] = jansson_version_str();
    pair[n][0] = "compiler", pair[n++][1] = __VERSION__;
    if (strcmp(device, "cpu") == 0 && dev_cpu_blas(&blas, &ignored) == ERR_OK)
        pair[n][0] = "blas", pair[n++][1] = blas;
    for (i = 0; names[i] != NULL; i++)
        if (getenv(names[i]) != NULL)
            pair[n][0] = names[i], pair[n++][1] = getenv(names[i]);
    return n;
}

/* As a shell would have to be given it. */
static void put_word(struct buf *out, const char *s)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyz"
        "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=./:,@%";

    if (*s != '\0' && s[strspn(s, plain)] == '\0') {
        buf_puts(out, s);
        return;
    }
    buf_putc(out, '\'');
    for (; *s != '\0'; s++) {
        if (*s == '\'') buf_puts(out, "'\\'");
        buf_putc(out, *s);
    }
    buf_putc(out, '\'');
}

static void put_command(const struct run_request *q, struct buf *out)
{
    int i;

    buf_puts(out, "peakproof");
    for (i = 0; i < q->n_word; i++) {
        buf_putc(out, ' ');
        put_word(out, q->word[i]);
    }
}

/* What a run writes below its folder, beside the records. */
static const char *const folder_of[] = {
    [RUN_MISS] = "misses", [RUN_HISTOGRAM] = "histograms"
};

/* The folder below top that holds "misses/NAME"; -1 where there is none, or a
** link. What a run.json says else is none of ours. */
static int open_listed(int top, const char *name)
{
    int k;

    for (k = 0; k < (int)(sizeof folder_of / sizeof *folder_of); k++)
        if (folder_of[k] != NULL &&
            strlen(folder_of[k]) == strcspn(name, "/") &&
            strncmp(name, folder_of[k], strlen(folder_of[k])) == 0)
            return openat(top, folder_of[k], O_RDONLY | O_DIRECTORY |
                          O_NOFOLLOW | O_CLOEXEC);
    errno = ENOENT;
    return -1;
}

/* Removes "misses/NAME" below the folder *ctx: a plain file, through no
** link. */
static int remove_listed(void *ctx, const char *name, struct err *e)
{
    const char *file = strchr(name, '/');
    struct stat st;
    int d, why = 0;

    if (file == NULL || strchr(++file, '/') != NULL) return ERR_OK;
    d = open_listed(*(int *)ctx, name);
    if (d < 0 && (errno == ENOENT || errno == ENOTDIR || errno == ELOOP))
        return ERR_OK;
    if (d < 0 ||
        (fstatat(d, file, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
         S_ISREG(st.st_mode) && unlinkat(d, file, 0) != 0)) why = errno;
    if (d >= 0) close(d);
    return why == 0 ? ERR_OK
           : err_set(e, ERR_RUN, "cannot remove %s of the run before: %s",
                     name, strerror(why));
}

/* Nothing kept, nothing beside it counts: a run that is replaced, and one
** that was killed while it was. */
static int remove_old(const char *dir, struct record *r, struct err *e)
{
    int top, rc;

    if (record_count(r) > 0) return ERR_OK;
    top = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (top < 0) return file_error(e, dir, errno);
    rc = record_disown(r, remove_listed, &top, e);
    close(top);
    return rc;
}

/* Is path the folder at top (both without links), or in it? */
static bool inside(const char *top, const char *path)
{
    size_t n = strlen(top);

    return strncmp(path, top, n) == 0 &&
           (path[n] == '\0' || path[n] == '/' || top[n - 1] == '/');
}

/* paths: each ended by a NUL, an empty one last; NULL: none. */
static int check_outside(const char *top, const char *dir, const char *paths,
                         struct err *e)
{
    for (; paths != NULL && *paths != '\0'; paths += strlen(paths) + 1) {
        char *real = realpath(paths, NULL);
        bool bad = real != NULL && inside(top, real);
        if (real == NULL && errno == ENOMEM) return err_nomem(e);
        free(real);
        if (bad)
            return err_set(e, ERR_USAGE, "run: %s: the run reads it, and it "
                           "lies in the folder %s, which the run writes "
                           "(choose another --out)", paths, dir);
    }
    return ERR_OK;
}

/* A run would replace what it reads. */
static int check_inputs(const char *dir, const struct run_context *x,
                        const struct scenario_set *set, struct err *e)
{
    char *top = realpath(dir, NULL);
    int64_t i;
    int k, rc = ERR_OK;

    if (top == NULL && errno == ENOMEM) return err_nomem(e);
    if (top == NULL) return ERR_OK;     /* nothing is in it yet */
    for (k = 0; k < set->n && rc == ERR_OK; k++)
        rc = check_outside(top, dir, set->s[k]->files, e);
    for (i = 0; i < x->n_extra && rc == ERR_OK; i++)
        rc = check_outside(top, dir, scenario_estimator_files(x->extra[i]),
                           e);
    free(top);
    return rc;
}

/* The hash of what makes two runs the same but for their shard, as run.json
** holds it where there is one. */
static void whole_of(const struct buf *identity, char out[20])
{
    snprintf(out, 20, "%016" PRIx64, hash_bytes(HASH_START,
                                                buf_text(identity),
                                                identity->len));
}

/* What merge goes by; shards of one run are then made different. */
static int64_t describe_shard(const struct run_request *q,
                              struct buf *identity,
                              const char *pair[MAX_PAIRS][2], int64_t n,
                              char whole[20], char shard[48])
{
    whole_of(identity, whole);
    snprintf(shard, 48, "%" PRId64 "/%" PRId64, q->shard, q->shards);
    buf_printf(identity, "shard %s\n", shard);
    pair[n][0] = "whole", pair[n++][1] = whole;
    pair[n][0] = "shard", pair[n++][1] = shard;
    return n;
}

/* Whole paths of the scenarios, NULL-ended; standard input stays "-". Free
** each, and the list. */
static int whole_paths(const struct scenario_set *set, char ***out,
                       struct err *e)
{
    char **list = calloc((size_t)set->n + 1, sizeof *list);
    int i, rc = list == NULL ? err_nomem(e) : ERR_OK;

    for (i = 0; rc == ERR_OK && i < set->n; i++) {
        list[i] = realpath(set->s[i]->path, NULL);
        if (list[i] == NULL && errno != ENOMEM)
            list[i] = strdup(set->s[i]->path);
        if (list[i] == NULL) rc = err_nomem(e);
    }
    *out = list;
    return rc;
}

static void free_list(char **list)
{
    char **p;

    for (p = list; p != NULL && *p != NULL; p++) free(*p);
    free(list);
}

/* What was opened is left, and what is wrong with it is known already. */
static void give_up(struct record **r)
{
    struct err ignored;

    (void)!record_close(*r, false, &ignored);
    *r = NULL;
}

int run_folder_open(const char *dir, const struct run_request *q,
                    const struct run_context *x,
                    const struct scenario_set *set, struct record **out,
                    struct err *e)
{
    const char *pair[MAX_PAIRS][2];
    char whole[20], shard[48];
    struct buf identity = BUF_INIT, command = BUF_INIT;
    struct record_info info = {.commit = peakproof_version,
                               .pair = (const char *const (*)[2])pair};
    char **setting = calloc((size_t)q->n_setting + 1, sizeof *setting);
    char **scenario = NULL;
    int rc = setting == NULL ? err_nomem(e)
                             : run_identify(q, x, set, &identity, e);

    if (rc == ERR_OK) rc = whole_paths(set, &scenario, e);
    if (rc == ERR_OK && q->n_setting > 0)
        memcpy(setting, q->setting, (size_t)q->n_setting * sizeof *setting);
    info.scenario = (const char *const *)scenario;
    info.setting = (const char *const *)setting;
    put_command(q, &command);
    info.n_pair = describe_environment(x->device, pair);
    if (q->shards > 0)
        info.n_pair = describe_shard(q, &identity, pair, info.n_pair, whole,
                                     shard);
    info.identity = buf_text(&identity);
    info.command = buf_text(&command);
    if (rc == ERR_OK && (identity.failed || command.failed))
        rc = err_nomem(e);
    if (rc == ERR_OK) rc = check_inputs(dir, x, set, e);
    if (rc == ERR_OK)
        rc = record_open(dir, q->resume ? RECORD_RESUME : RECORD_REPLACE,
                         &info, out, e);
    if (rc == ERR_OK) {
        rc = remove_old(dir, *out, e);
        if (rc != ERR_OK) give_up(out);
    }
    free_list(scenario);
    free(setting);
    buf_free(&identity);
    buf_free(&command);
    return rc;
}

static void put_path(struct buf *b, const char *snapshots,
                     const struct run_file *f)
{
    b->len = 0;
    buf_printf(b, "%s/%s", f->kind == RUN_SNAPSHOT ? snapshots
                                                   : folder_of[f->kind],
               f->name);
}

/* Puts those below the run's folder on its list. */
static int own_files(struct record *r, const struct run_file *f, int64_t n,
                     struct err *e)
{
    struct buf *name = calloc((size_t)n + 1, sizeof *name);
    const char **list = calloc((size_t)n + 1, sizeof *list);
    int64_t i, m = 0;
    bool bad = name == NULL || list == NULL;
    int rc;

    for (i = 0; i < n && !bad; i++) {
        if (f[i].kind == RUN_SNAPSHOT) continue;
        put_path(&name[i], NULL, &f[i]);
        list[m++] = buf_text(&name[i]);
        bad = name[i].failed;
    }
    rc = bad ? err_nomem(e) : record_own(r, list, m, e);
    for (i = 0; i < n && name != NULL; i++) buf_free(&name[i]);
    free(name);
    free(list);
    return rc;
}

/* Makes the file's folder, which may be no link where it is the run's. */
static int make_folder(const char *path, enum run_file_kind kind,
                       struct err *e)
{
    struct stat st;
    int rc = file_make_dirs(path, e);

    if (rc == ERR_OK && kind != RUN_SNAPSHOT &&
        (lstat(path, &st) != 0 || !S_ISDIR(st.st_mode)))
        rc = err_set(e, ERR_USAGE, "%s: a link, where a run writes a folder "
                     "(remove it, or choose another folder)", path);
    return rc;
}

/* Names come from cases: a folder on the way is made, a link is not
** followed. */
static int write_file(const char *dir, const char *snapshots,
                      const struct run_file *f, struct err *e)
{
    struct buf path = BUF_INIT, name = BUF_INIT;
    size_t folder;
    int rc;

    put_path(&name, snapshots, f);
    if (f->kind != RUN_SNAPSHOT) buf_printf(&path, "%s/", dir);
    buf_puts(&path, buf_text(&name));
    rc = path.failed || name.failed ? err_nomem(e) : ERR_OK;
    folder = path.len - strlen(f->name) - 1;
    if (rc == ERR_OK) {
        path.data[folder] = '\0';
        rc = make_folder(path.data, f->kind, e);
        path.data[folder] = '/';
    }
    if (rc == ERR_OK)
        rc = file_write(path.data, f->text.data, f->text.len, e);
    buf_free(&path);
    buf_free(&name);
    return rc;
}

int run_folder_files(const char *dir, const char *snapshots,
                     struct record *r, const struct run_file *f, int64_t n,
                     struct err *e)
{
    int rc = own_files(r, f, n, e);
    int64_t i;

    for (i = 0; i < n && rc == ERR_OK; i++)
        rc = write_file(dir, snapshots, &f[i], e);
    return rc;
}
