/* suggest.c - see suggest.h */
#include "base/suggest.h"

#include <assert.h>
#include <dirent.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define LONGEST 63      /* letters compared; longer words are never near */

static int min3(int a, int b, int c)
{
    int m = a < b ? a : b;
    return m < c ? m : c;
}

/* Optimal string alignment distance; both words at most LONGEST letters. */
static int distance(const char *a, int n, const char *b, int m)
{
    int row[3][LONGEST + 1];
    int *two = row[0], *one = row[1], *now = row[2], *old;
    int i, j;

    for (j = 0; j <= m; j++) one[j] = j;
    memcpy(two, one, sizeof row[0]);
    for (i = 1; i <= n; i++) {
        now[0] = i;
        for (j = 1; j <= m; j++) {
            int change = one[j - 1] + (a[i - 1] != b[j - 1]);
            now[j] = min3(one[j] + 1, now[j - 1] + 1, change);
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] &&
                a[i - 2] == b[j - 1] && two[j - 2] + 1 < now[j])
                now[j] = two[j - 2] + 1;
        }
        old = two;
        two = one;
        one = now;
        now = old;
    }
    return one[m];
}

const char *suggest(const char *word, const char *const *list)
{
    size_t n = strlen(word);
    int best = n < 6 ? 2 : (int)(n / 3) + 1;    /* first distance too far */
    const char *found = NULL, *begins = NULL;

    if (n == 0 || n > LONGEST) return NULL;
    for (; *list != NULL; list++) {
        size_t m = strlen(*list);
        int d;
        if (m > LONGEST) continue;
        if (n >= 3 && strncmp(*list, word, n) == 0 &&
            (begins == NULL || m < strlen(begins))) begins = *list;
        d = distance(word, (int)n, *list, (int)m);
        if (d < best && 2 * d <= (int)(n > m ? n : m)) {
            best = d;
            found = *list;
        }
    }
    return begins != NULL ? begins : found;
}

/* Makes file the best candidate if it is nearer to name than the one there,
** or as near and before it in the alphabet. */
static void consider(const char *name, const char *file, char *best,
                     size_t size)
{
    const char *both[3] = {file, NULL, NULL};

    if (*best != '\0') {
        both[0] = strcmp(file, best) < 0 ? file : best;
        both[1] = strcmp(file, best) < 0 ? best : file;
    }
    if (suggest(name, both) == file) snprintf(best, size, "%s", file);
}

void suggest_file(const char *folder, const char *name, const char *suffix,
                  char *out, size_t size)
{
    DIR *d = opendir(folder);
    struct dirent *entry;
    size_t cut = strlen(suffix), n = strlen(name);
    bool whole = n > cut && strcmp(name + n - cut, suffix) == 0;

    assert(size > 0);
    *out = '\0';
    while (d != NULL && (entry = readdir(d)) != NULL) {
        char file[sizeof entry->d_name];
        size_t len = strlen(entry->d_name);
        if (len <= cut || strcmp(entry->d_name + len - cut, suffix) != 0)
            continue;
        snprintf(file, sizeof file, "%.*s",
                 (int)(whole ? len : len - cut), entry->d_name);
        consider(name, file, out, size);
    }
    if (d != NULL) closedir(d);
}
