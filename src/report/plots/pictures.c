/* pictures.c - see pictures.h */
#include "report/plots/pictures.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

/* Each picture, and of which device's cases it is. */
static const struct {
    const char *device;
    bool (*make)(const struct view *v, struct plot *out);
} table[PICTURE_COUNT] = {
    [PICTURE_ERRORS] = {"dry", plot_errors},
    [PICTURE_TOKENS] = {"dry", plot_tokens},
    [PICTURE_COMPOSITION] = {"dry", plot_composition},
    [PICTURE_LOSSES] = {"cpu", plot_losses},
    [PICTURE_CHANGE] = {"dry", plot_change},
    [PICTURE_MEASURED] = {"dry", plot_measured},
};

/* A picture that stands there is of an earlier report. */
static int remove_old(const char *dir, const char *name, struct err *e)
{
    static const char *const ext[] = {"svg", "png"};
    int i;

    for (i = 0; i < 2; i++) {
        struct buf path = BUF_INIT;
        buf_printf(&path, "%s/%s.%s", dir, name, ext[i]);
        if (path.failed) return err_nomem(e);
        unlink(path.data);
        buf_free(&path);
    }
    return ERR_OK;
}

static int draw_one(const char *dir, const char *name, enum picture_state *to,
                    struct pictures *out, struct buf *written, struct err *e)
{
    struct err why;
    bool missing;

    if (out->no_gnuplot) return ERR_OK;
    if (plot_run(dir, name, &missing, &why) != ERR_OK) {
        buf_printf(&out->warning, "%s\n", why.text);
        return out->warning.failed ? err_nomem(e) : remove_old(dir, name, e);
    }
    out->no_gnuplot = missing;
    if (missing) return ERR_OK;
    *to = PICTURE_DRAWN;
    buf_printf(written, "%s.svg\n%s.png\n", name, name);
    return written->failed ? err_nomem(e) : ERR_OK;
}

/* Reports of one folder that run at once would remove each other's pictures,
** so they draw one after the other. -1 where there is no such lock. */
static int lock_folder(const char *dir)
{
    int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    while (fd >= 0 && flock(fd, LOCK_EX) != 0 && errno == EINTR) continue;
    return fd;
}

int pictures_make(const char *dir, bool draw, const struct record_set *set,
                  const struct figures *published, struct pictures *out,
                  struct buf *written, struct err *e)
{
    int i, rc = ERR_OK, lock = lock_folder(dir);

    for (i = 0; rc == ERR_OK && i < PICTURE_COUNT; i++) {
        struct view v = {.set = set, .published = published};
        struct plot p = {NULL, BUF_INIT, BUF_INIT};
        const char *name = view_picture_name((enum picture)i);
        rc = remove_old(dir, name, e);
        if (rc == ERR_OK) rc = view_open(&v, table[i].device, e);
        if (rc == ERR_OK && table[i].make(&v, &p)) {
            out->state[i] = PICTURE_SCRIPT;
            rc = plot_save(dir, &p, e);
            buf_printf(written, "%s.dat\n%s.gp\n", name, name);
            if (rc == ERR_OK && written->failed) rc = err_nomem(e);
            if (rc == ERR_OK && draw)
                rc = draw_one(dir, name, &out->state[i], out, written, e);
        }
        plot_free(&p);
        view_close(&v);
    }
    if (lock >= 0) close(lock);
    return rc;
}
