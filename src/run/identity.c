/* identity.c - see folder.h: what makes two runs the same */
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/hash.h"
#include "base/version.h"
#include "run/folder.h"

static int cannot_read(const char *path, struct err *e)
{
    return file_error(e, path, errno);
}

static int identify_text(const char *path, struct buf *out, struct err *e)
{
    uint64_t hash = HASH_START;
    unsigned char chunk[65536];
    ssize_t n;
    int fd, rc = file_open(path, &fd, e);

    if (rc != ERR_OK) return rc;
    while ((n = read(fd, chunk, sizeof chunk)) > 0)
        hash = hash_bytes(hash, chunk, (size_t)n);
    if (n < 0) rc = cannot_read(path, e);
    close(fd);
    buf_printf(out, "file %s %016" PRIx64 "\n", path, hash);
    return rc;
}

/* Weights are large: their times stand for their bytes. */
static int identify_folder(const char *path, struct buf *out, struct err *e)
{
    struct dirent **entry = NULL;
    int n = scandir(path, &entry, NULL, alphasort), i;

    if (n < 0) return cannot_read(path, e);
    buf_printf(out, "folder %s\n", path);
    for (i = 0; i < n; i++) {
        struct buf full = BUF_INIT;
        struct stat st;
        buf_printf(&full, "%s/%s", path, entry[i]->d_name);
        if (full.failed)
            out->failed = true;
        else if (stat(full.data, &st) == 0 && S_ISREG(st.st_mode))
            buf_printf(out, "%s %lld %lld.%09ld\n", entry[i]->d_name,
                       (long long)st.st_size, (long long)st.st_mtim.tv_sec,
                       st.st_mtim.tv_nsec);
        buf_free(&full);
        free(entry[i]);
    }
    free(entry);
    return ERR_OK;
}

static int identify_path(const char *path, struct buf *out, struct err *e)
{
    struct stat st;

    if (stat(path, &st) != 0) return cannot_read(path, e);
    return S_ISDIR(st.st_mode) ? identify_folder(path, out, e)
                               : identify_text(path, out, e);
}

/* paths: each ended by a NUL, an empty one last; NULL: none. */
static int identify_found(const char *paths, struct buf *out, struct err *e)
{
    int rc = ERR_OK;

    for (; paths != NULL && *paths != '\0' && rc == ERR_OK;
         paths += strlen(paths) + 1)
        rc = identify_path(paths, out, e);
    return rc;
}

int run_identify(const struct run_request *q, const struct run_context *x,
                 const struct scenario_set *set, struct buf *out,
                 struct err *e)
{
    int i, rc = ERR_OK;

    buf_printf(out, "version %s\ndevice %s\nonly %s\nmisses %s\n",
               peakproof_version, x->device, q->only ? q->only : "",
               q->misses ? q->misses : "");
    if (x->totals) buf_puts(out, "totals\n");
    for (i = 0; i < q->n_setting; i++)
        buf_printf(out, "set %s\n", q->setting[i]);
    for (i = 0; i < q->n_estimator && rc == ERR_OK; i++) {
        rc = identify_path(q->estimator[i], out, e);
        if (rc == ERR_OK)
            rc = identify_found(scenario_estimator_files(x->extra[i]), out,
                                e);
    }
    for (i = 0; i < set->n && rc == ERR_OK; i++) {
        if (strcmp(q->scenario[i], "-") != 0)
            rc = identify_path(set->s[i]->path, out, e);
        if (rc == ERR_OK) rc = identify_found(set->s[i]->files, out, e);
    }
    return rc;
}
