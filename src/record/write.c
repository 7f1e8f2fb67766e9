/*
** write.c - a run's folder: opened, appended to case by case, closed.
**
** Process death needs no sync: what write() took is the kernel's. Power loss
** does, so files are synced when a second has passed since the last time,
** and at the end; recovery (recover.c) trusts a commit mark only when its
** rows are there.
*/
#include "record/write.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "record/columns.h"

#define FILE_LIMIT ((size_t)1 << 32)

static int io_error(struct err *e, const struct record *r, enum record_file f,
                    int code)
{
    return err_set(e, ERR_RUN, "cannot write %s/%s: %s", r->dir,
                   record_file_name(f), strerror(code));
}

/* dir/name, "" when out of memory. */
static void path_of(const struct record *r, const char *name, struct buf *out)
{
    out->len = 0;
    buf_printf(out, "%s/%s", r->dir, name);
}

/* Appends with one write (more only when the kernel takes part of it);
** returns 0 or an errno. */
static int write_some(int fd, const char *s, size_t len)
{
    while (len > 0) {
        ssize_t n = write(fd, s, len);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return errno;
        s += n;
        len -= (size_t)n;
    }
    return 0;
}

static int cut(struct record *r, enum record_file f, uint64_t len,
               struct err *e)
{
    if (ftruncate(r->fd[f], (off_t)len) != 0) return io_error(e, r, f, errno);
    r->len[f] = len;
    return ERR_OK;
}

static int sync_file(const struct record *r, enum record_file f,
                     struct err *e)
{
    if (fdatasync(r->fd[f]) == 0 || errno == EINVAL || errno == EROFS)
        return ERR_OK;
    return io_error(e, r, f, errno);
}

static int sync_all(struct record *r, struct err *e)
{
    int f, rc = ERR_OK;

    for (f = 0; rc == ERR_OK && f < RECORD_FILES; f++)
        rc = sync_file(r, (enum record_file)f, e);
    if (rc == ERR_OK) clock_gettime(CLOCK_MONOTONIC, &r->synced);
    return rc;
}

static int sync_now_and_then(struct record *r, struct err *e)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec - r->synced.tv_sec < 2 ? ERR_OK : sync_all(r, e);
}

/* Does the text begin with the file's header, or is it the first part of it
** (a crash while it was written)? */
static bool header_fits(const struct buf *text, const struct buf *header)
{
    size_t n = text->len < header->len ? text->len : header->len;
    return memcmp(buf_text(text), buf_text(header), n) == 0;
}

int record_look(const char *path, bool *there, struct err *e)
{
    struct stat st;

    *there = lstat(path, &st) == 0;
    if (!*there && errno == ENOENT) return ERR_OK;
    if (!*there) return err_set(e, ERR_RUN, "%s: %s", path, strerror(errno));
    if (!S_ISREG(st.st_mode))
        return err_set(e, ERR_USAGE, "%s: not a regular file, which a run "
                       "writes (choose another folder)", path);
    if (st.st_nlink > 1)
        return err_set(e, ERR_USAGE, "%s: has another name too (a hard link), "
                       "whose bytes would change (choose another folder)",
                       path);
    return ERR_OK;
}

/* Reads what is there already; refuses what another program wrote. */
static int read_file(const struct record *r, enum record_file f,
                     struct buf *text, struct err *e)
{
    struct buf path = BUF_INIT, header = BUF_INIT;
    bool there = false;
    int rc;

    path_of(r, record_file_name(f), &path);
    record_put_header(&header, f);
    rc = path.failed || header.failed ? err_nomem(e)
                                      : record_look(path.data, &there, e);
    if (rc == ERR_OK && there)
        rc = file_read(path.data, FILE_LIMIT, text, e);
    if (rc == ERR_OK && !header_fits(text, &header))
        rc = err_set(e, ERR_USAGE, "%s: not the columns of this version "
                     "(choose another folder, or remove it)", path.data);
    if (rc == ERR_OK && !r->is_run && text->len > header.len)
        rc = err_set(e, ERR_USAGE, "%s: no run.json beside it says that it is "
                     "a run's (choose another folder, or remove it)",
                     path.data);
    buf_free(&path);
    buf_free(&header);
    return rc;
}

/* Workers of a run that was killed share its lock until they have ended, a
** moment later. */
static bool lock(int fd)
{
    static const struct timespec pause = {0, 50000000};
    int tries;

    for (tries = 0; flock(fd, LOCK_EX | LOCK_NB) != 0; tries++) {
        if (tries == 20) return false;
        nanosleep(&pause, NULL);
    }
    return true;
}

/* Opens a file; the lock on the first keeps a second run out. */
static int open_file(struct record *r, enum record_file f, uint64_t seen,
                     struct err *e)
{
    struct buf path = BUF_INIT;
    struct stat st;
    int rc = ERR_OK;

    path_of(r, record_file_name(f), &path);
    if (path.failed) return err_nomem(e);
    r->fd[f] = open(path.data, O_RDWR | O_CREAT | O_APPEND | O_NOFOLLOW |
                    O_CLOEXEC, 0666);
    buf_free(&path);
    if (r->fd[f] < 0) return io_error(e, r, f, errno);
    if ((f == 0 && !lock(r->fd[f])) ||
        fstat(r->fd[f], &st) != 0 || (uint64_t)st.st_size != seen)
        rc = err_set(e, ERR_USAGE, "%s: another run writes there now "
                     "(choose another folder)", r->dir);
    r->len[f] = seen;
    return rc;
}

/* Leaves keep bytes of a file, or just the header when that is less. */
static int reset(struct record *r, enum record_file f, uint64_t keep,
                 struct err *e)
{
    struct buf h = BUF_INIT;
    int rc, code;

    record_put_header(&h, f);
    if (h.failed) {
        rc = err_nomem(e);
    } else if (keep >= h.len) {
        rc = keep == r->len[f] ? ERR_OK : cut(r, f, keep, e);
    } else {
        rc = cut(r, f, 0, e);
        code = rc == ERR_OK ? write_some(r->fd[f], h.data, h.len) : 0;
        if (code != 0) rc = io_error(e, r, f, code);
        r->len[f] = h.len;
    }
    buf_free(&h);
    return rc;
}

static int recover_files(struct record *r, const struct buf *text,
                         enum record_mode mode, struct err *e)
{
    bool append = mode == RECORD_APPEND;
    int rc, f;

    rc = recover(text, append, &r->had, e);
    if (rc == ERR_OK && append && r->had.altered != NULL)
        rc = err_set(e, ERR_INPUT, "%s: case %s has other rows than the run "
                     "wrote (run it again)", r->dir, r->had.altered);
    /* marks before rows: none may stand without its rows */
    for (f = RECORD_CASES; rc == ERR_OK && f >= 0; f--)
        rc = reset(r, (enum record_file)f, r->had.keep[f], e);
    if (rc == ERR_OK)
        rc = reset(r, RECORD_CHECKS, append ? r->len[RECORD_CHECKS] : 0, e);
    return rc;
}

/* A run that is replaced loses its commit marks, for good, before the new
** identity stands beside them: killed here, a folder says that nothing is
** done, and never passes old cases off as those of the new run. */
static int replace(struct record *r, const struct buf *old, struct err *e)
{
    int rc = reset(r, RECORD_CASES, 0, e);

    if (rc == ERR_OK) rc = sync_file(r, RECORD_CASES, e);
    if (rc == ERR_OK) rc = record_run_write(r, e);
    if (rc == ERR_OK) return ERR_OK;
    /* it is still the old run, and gets its marks back as well as we can */
    if (ftruncate(r->fd[RECORD_CASES], 0) == 0)
        (void)write_some(r->fd[RECORD_CASES], buf_text(old), old->len);
    return rc;
}

/* Nothing is made or changed before everything has been looked at. */
static int open_files(struct record *r, enum record_mode mode, struct err *e)
{
    struct buf text[RECORD_FILES];
    int rc, f;

    memset(text, 0, sizeof text);
    rc = record_run_check(r, mode, e);
    for (f = 0; rc == ERR_OK && f < RECORD_FILES; f++)
        rc = read_file(r, (enum record_file)f, &text[f], e);
    for (f = 0; rc == ERR_OK && f < RECORD_FILES; f++)
        rc = open_file(r, (enum record_file)f, text[f].len, e);
    if (rc == ERR_OK && mode == RECORD_REPLACE)
        rc = replace(r, &text[RECORD_CASES], e);
    else if (rc == ERR_OK)
        rc = record_run_write(r, e);
    if (rc == ERR_OK && mode != RECORD_REPLACE)
        rc = recover_files(r, text, mode, e);
    for (f = 0; rc == ERR_OK && mode == RECORD_REPLACE && f < RECORD_FILES;
         f++)
        rc = reset(r, (enum record_file)f, 0, e);
    for (f = 0; f < RECORD_FILES; f++) buf_free(&text[f]);
    return rc;
}

void record_leave(struct record *r)
{
    int f;

    for (f = 0; r != NULL && f < RECORD_FILES; f++) {
        if (r->fd[f] >= 0) close(r->fd[f]);
        r->fd[f] = -1;
    }
}

static void record_free(struct record *r)
{
    record_leave(r);
    recovered_free(&r->had);
    json_decref(r->run);
    json_decref(r->owned);
    free(r->dir);
    free(r);
}

int record_open(const char *dir, enum record_mode mode,
                const struct record_info *info, struct record **out,
                struct err *e)
{
    struct record *r = calloc(1, sizeof *r);
    int rc, f;

    if (r == NULL) return err_nomem(e);
    for (f = 0; f < RECORD_FILES; f++) r->fd[f] = -1;
    r->dir = strdup(dir);
    rc = r->dir == NULL ? err_nomem(e) : ERR_OK;
    if (rc == ERR_OK) rc = record_run_describe(r, info, e);
    if (rc == ERR_OK && mode != RECORD_APPEND) rc = file_make_dirs(dir, e);
    if (rc == ERR_OK) rc = open_files(r, mode, e);
    if (rc == ERR_OK) rc = sync_all(r, e);
    if (rc != ERR_OK) {
        record_free(r);
        return rc;
    }
    *out = r;
    return ERR_OK;
}

bool record_has(const struct record *r, const char *device,
                const char *scenario, const char *name,
                enum record_status *status)
{
    struct buf key = BUF_INIT;
    const int64_t *at = NULL;

    csv_put(&key, device);
    buf_putc(&key, ',');
    csv_put(&key, scenario);
    buf_putc(&key, ',');
    csv_put(&key, name);
    if (!key.failed) at = keyset_find(&r->had.cases, buf_text(&key), key.len);
    buf_free(&key);
    if (at == NULL) return false;
    *status = (enum record_status)*at;
    return true;
}

int64_t record_count(const struct record *r)
{
    return (int64_t)r->had.cases.n;
}

const char *record_altered(const struct record *r)
{
    return r->had.altered;
}

/* Takes back what was appended to the files up to f. */
static void undo(struct record *r, int f)
{
    for (; f >= 0; f--)
        if (ftruncate(r->fd[f], (off_t)r->len[f]) != 0)
            continue;   /* recovery will cut it: there is no commit mark */
}

static int append_all(struct record *r, const struct record_text *t,
                      struct err *e)
{
    int f, code;

    for (f = 0; f < RECORD_CASE_FILES; f++) {
        code = write_some(r->fd[f], buf_text(&t->file[f]), t->file[f].len);
        if (code == 0) continue;
        undo(r, f);
        return io_error(e, r, (enum record_file)f, code);
    }
    for (f = 0; f < RECORD_CASE_FILES; f++) r->len[f] += t->file[f].len;
    return ERR_OK;
}

int record_append(struct record *r, const struct record_text *t,
                  struct err *e)
{
    const char *key;
    size_t len;
    int rc;

    if (!recover_key(&t->file[RECORD_CASES], &key, &len))
        return err_set(e, ERR_RUN, "a case without a row for cases.csv");
    if (keyset_find(&r->had.cases, key, len) != NULL)
        return err_set(e, ERR_USAGE, "%s: case %.*s stands twice (give "
                       "scenarios and cases names of their own)", r->dir,
                       (int)len, key);
    if (!keyset_add(&r->had.cases, key, len, STATUS_OK)) return err_nomem(e);
    rc = append_all(r, t, e);
    return rc == ERR_OK ? sync_now_and_then(r, e) : rc;
}

int record_case(struct record *r, const struct record_case *c, struct err *e)
{
    struct record_text t;
    int rc;

    memset(&t, 0, sizeof t);
    rc = record_render(c, &t, e);
    if (rc == ERR_OK) rc = record_append(r, &t, e);
    record_text_free(&t);
    return rc;
}

int record_check(struct record *r, const struct record_check *c,
                 struct err *e)
{
    struct buf b = BUF_INIT;
    int code;

    column_put(&b, RECORD_CHECKS, NULL, c);
    if (b.failed) {
        buf_free(&b);
        return err_nomem(e);
    }
    code = write_some(r->fd[RECORD_CHECKS], b.data, b.len);
    if (code == 0) r->len[RECORD_CHECKS] += b.len;
    buf_free(&b);
    if (code == 0) return ERR_OK;
    (void)!ftruncate(r->fd[RECORD_CHECKS], (off_t)r->len[RECORD_CHECKS]);
    return io_error(e, r, RECORD_CHECKS, code);
}

int record_close(struct record *r, bool done, struct err *e)
{
    int rc;

    if (r == NULL) return ERR_OK;
    rc = sync_all(r, e);
    if (rc == ERR_OK) rc = record_run_end(r, done, e);
    record_free(r);
    return rc;
}
