/* file.c - see file.h */
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

static int read_all(FILE *f, size_t limit, struct buf *out)
{
    char chunk[65536];
    size_t n;

    while ((n = fread(chunk, 1, sizeof chunk, f)) > 0) {
        if (n > limit - out->len) return EFBIG;
        buf_put(out, chunk, n);
        if (out->failed) return ENOMEM;
    }
    return ferror(f) ? EIO : 0;
}

int file_error(struct err *e, const char *path, int why)
{
    bool machine = why == ENOMEM || why == EMFILE || why == ENFILE ||
                   why == EIO;

    return err_set(e, machine ? ERR_RUN : ERR_INPUT, "%s: %s", path,
                   strerror(why));
}

/* Opening a FIFO would wait for a writer, so it is opened without waiting
** and then refused. */
int file_open(const char *path, int *fd, struct err *e)
{
    struct stat st;
    int why = 0;

    *fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (*fd < 0) return file_error(e, path, errno);
    if (fstat(*fd, &st) != 0) why = errno;
    else if (S_ISDIR(st.st_mode)) why = EISDIR;
    else if (S_ISREG(st.st_mode)) return ERR_OK;
    close(*fd);
    if (why != 0) return file_error(e, path, why);
    return err_set(e, ERR_INPUT, "%s: not a regular file", path);
}

int file_stream(const char *path, FILE **f, struct err *e)
{
    int fd, rc = file_open(path, &fd, e);

    if (rc != ERR_OK) return rc;
    *f = fdopen(fd, "rb");
    if (*f != NULL) return ERR_OK;
    close(fd);
    return err_nomem(e);
}

int file_read(const char *path, size_t limit, struct buf *out, struct err *e)
{
    bool std = strcmp(path, "-") == 0;
    FILE *f = stdin;
    int rc = std ? ERR_OK : file_stream(path, &f, e);

    if (rc != ERR_OK) return rc;
    errno = 0;
    rc = read_all(f, limit, out);
    if (rc == EIO && errno != 0) rc = errno;
    if (!std) fclose(f);
    if (rc == ENOMEM) return err_nomem(e);
    if (rc == EFBIG)
        return err_set(e, ERR_INPUT, "%s: larger than %zu bytes", path, limit);
    return rc != 0 ? file_error(e, path, rc) : ERR_OK;
}

static int write_all(int fd, const char *data, size_t len)
{
    while (len > 0) {
        ssize_t n = write(fd, data, len);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return errno;
        data += n;
        len -= (size_t)n;
    }
    return fsync(fd) == 0 || errno == EINVAL || errno == EROFS ? 0 : errno;
}

/* Opens a new file in path's folder, under a name that none can foresee. */
static int open_beside(const char *path, struct buf *name)
{
    const char *slash = strrchr(path, '/');
    int folder = slash == NULL ? 0 : (int)(slash + 1 - path);
    int fd = -1, tries;
    uint64_t n;

    errno = EEXIST;
    for (tries = 0; fd < 0 && errno == EEXIST && tries < 8; tries++) {
        errno = EIO;
        if (getrandom(&n, sizeof n, 0) != (ssize_t)sizeof n) return -1;
        name->len = 0;
        buf_printf(name, "%.*s.peakproof-%016" PRIx64, folder, path, n);
        errno = ENOMEM;
        if (name->failed) return -1;
        fd = open(name->data, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW |
                  O_CLOEXEC, 0644);
    }
    return fd;
}

/* A device, a pipe, or what such a name stands for (/dev/stdout): a file that
** took its place would break what others do with it. */
static bool is_special(const char *path)
{
    struct stat st;

    if (lstat(path, &st) != 0) return false;
    if (S_ISLNK(st.st_mode) && (strncmp(path, "/dev/", 5) == 0 ||
                                strncmp(path, "/proc/", 6) == 0)) return true;
    return stat(path, &st) == 0 && !S_ISREG(st.st_mode) &&
           !S_ISDIR(st.st_mode);
}

/* Into what is there; not waiting for a reader of a pipe. */
static int write_into(const char *path, const char *data, size_t len)
{
    int fd = open(path, O_WRONLY | O_APPEND | O_NONBLOCK | O_CLOEXEC), rc;

    if (fd < 0) return errno;
    rc = fcntl(fd, F_SETFL, O_APPEND) == 0 ? write_all(fd, data, len) : errno;
    return close(fd) != 0 && rc == 0 ? errno : rc;
}

/* A new file, whole, in the place of path. */
static int write_over(const char *path, const char *data, size_t len)
{
    struct buf tmp = BUF_INIT;
    int fd = open_beside(path, &tmp), rc = 0;

    if (fd < 0) {
        rc = errno;
    } else {
        rc = write_all(fd, data, len);
        if (close(fd) != 0 && rc == 0) rc = errno;
        if (rc == 0 && rename(tmp.data, path) != 0) rc = errno;
        if (rc != 0) unlink(tmp.data);
    }
    buf_free(&tmp);
    return rc;
}

int file_write(const char *path, const char *data, size_t len, struct err *e)
{
    int rc = is_special(path) ? write_into(path, data, len)
                              : write_over(path, data, len);

    if (rc == ENOMEM) return err_nomem(e);
    if (rc != 0)
        return err_set(e, ERR_RUN, "cannot write %s: %s", path, strerror(rc));
    return ERR_OK;
}

int file_make_dirs(const char *path, struct err *e)
{
    char *copy = strdup(path), *p;
    struct stat st;
    int rc = 0;

    if (copy == NULL) return err_nomem(e);
    if (*copy == '\0') {
        free(copy);
        return err_set(e, ERR_USAGE, "a folder's name is empty");
    }
    for (p = copy + 1; rc == 0; p++) {
        if (*p != '/' && *p != '\0') continue;
        bool last = *p == '\0';
        *p = '\0';
        if (mkdir(copy, 0777) != 0 && errno != EEXIST) rc = errno;
        if (last) break;
        *p = '/';
    }
    free(copy);
    if (rc == 0 && stat(path, &st) != 0) rc = errno;
    if (rc == 0 && !S_ISDIR(st.st_mode)) rc = ENOTDIR;
    if (rc != 0)
        return err_set(e, ERR_RUN, "cannot make folder %s: %s", path,
                       strerror(rc));
    return ERR_OK;
}
