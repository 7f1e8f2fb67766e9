/*
** folder.h - an input that is several files: lines "== NAME" or "== NAME SIZE",
** each followed by that file's bytes up to the next such line; a SIZE makes
** the file at least so long. They are written into a folder of this process,
** in memory where there is such a file system.
*/
#ifndef TESTS_FUZZ_FOLDER_H
#define TESTS_FUZZ_FOLDER_H

#include <ctype.h>
#include <dirent.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FOLDER_PATH 600

struct part {
    char name[40];          /* letters, digits, '.', '-', '_'; no first '.' */
    int64_t size;
    const char *text;
    size_t n;
};

static inline bool part_starts(const char *s, const char *end)
{
    return end - s >= 3 && memcmp(s, "== ", 3) == 0;
}

/* The next part from *p on; false where none begins. */
static inline bool part_next(const char **p, const char *end, struct part *x)
{
    const char *s = *p;
    size_t n = 0;

    memset(x, 0, sizeof *x);
    if (!part_starts(s, end)) return false;
    for (s += 3; s < end && *s != '\n' && *s != ' '; s++)
        if (n + 1 < sizeof x->name)
            x->name[n] = isalnum((unsigned char)*s) || *s == '-'
                         || (*s == '.' && n > 0) ? *s : '_', n++;
    if (n == 0) x->name[0] = '_';
    for (; s < end && *s != '\n'; s++)
        if (isdigit((unsigned char)*s) && x->size < 1000000)
            x->size = 10 * x->size + (*s - '0');
    if (s < end) s++;
    for (x->text = s; s < end; s++)
        if ((s == x->text || s[-1] == '\n') && part_starts(s, end)) break;
    x->n = (size_t)(s - x->text);
    *p = s;
    return true;
}

static inline void folder_join(char out[FOLDER_PATH], const char *dir,
                               const char *name)
{
    if (snprintf(out, FOLDER_PATH, "%s/%s", dir, name) >= FOLDER_PATH) abort();
}

/* Removes what is in the folder, and the folders in it. */
static inline void folder_empty(const char *dir)
{
    char path[FOLDER_PATH];
    struct dirent *x;
    DIR *d = opendir(dir);

    while (d != NULL && (x = readdir(d)) != NULL) {
        if (strcmp(x->d_name, ".") == 0 || strcmp(x->d_name, "..") == 0)
            continue;
        folder_join(path, dir, x->d_name);
        if (unlink(path) == 0) continue;
        folder_empty(path);
        rmdir(path);
    }
    if (d != NULL) closedir(d);
}

static char folder_path[64];

static inline void folder_remove(void)
{
    folder_empty(folder_path);
    rmdir(folder_path);
}

/* The process's folder, made at the first call. */
static inline const char *folder(void)
{
    if (*folder_path != '\0') return folder_path;
    snprintf(folder_path, sizeof folder_path, "%s/peakproof-fuzz-XXXXXX",
             access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    if (mkdtemp(folder_path) == NULL) abort();
    atexit(folder_remove);
    return folder_path;
}

/* Writes dir/name: head, then the bytes, then zeros up to size. */
static inline void folder_put(const char *dir, const char *name,
                              const char *head, size_t n_head,
                              const char *data, size_t n, int64_t size)
{
    char path[FOLDER_PATH];
    FILE *f;

    folder_join(path, dir, name);
    f = fopen(path, "wb");
    if (f == NULL || fwrite(head, 1, n_head, f) != n_head
        || fwrite(data, 1, n, f) != n || fflush(f) != 0)
        abort();
    if (size > (int64_t)(n_head + n) && ftruncate(fileno(f), size) != 0)
        abort();
    fclose(f);
}

#endif
