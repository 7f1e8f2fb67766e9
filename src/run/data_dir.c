/* data_dir.c - see data_dir.h */
#include "run/data_dir.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/version.h"

static bool is_data_dir(const char *path)
{
    char models[4300];
    struct stat st;
    int n = snprintf(models, sizeof models, "%s/models", path);

    return n > 0 && n < (int)sizeof models && stat(models, &st) == 0 &&
           S_ISDIR(st.st_mode);
}

/* The folder the program lies in, without a final slash; "" if unknown. */
static void program_dir(char *out, size_t cap)
{
    ssize_t n = readlink("/proc/self/exe", out, cap - 1);
    char *slash;

    out[n > 0 ? n : 0] = '\0';
    slash = strrchr(out, '/');
    if (slash != NULL) *slash = '\0';
}

int data_dir(char **out, struct err *e)
{
    const char *set = getenv("PEAKPROOF_DATA");
    char exe[4096], place[3][4200];
    int i;

    if (set != NULL && *set != '\0') {
        if (!is_data_dir(set))
            return err_set(e, ERR_RUN, "PEAKPROOF_DATA: %s has no folder "
                           "models (unset it, or name the data folder)", set);
        *out = strdup(set);
        return *out != NULL ? ERR_OK : err_nomem(e);
    }
    program_dir(exe, sizeof exe);
    snprintf(place[0], sizeof place[0], "%s/../lua", exe);
    snprintf(place[1], sizeof place[1], "%s/../share/peakproof", exe);
    snprintf(place[2], sizeof place[2], "%s/share/peakproof",
             peakproof_prefix);
    for (i = 0; i < 3 && !is_data_dir(place[i]); i++) continue;
    if (i == 3)
        return err_set(e, ERR_RUN, "no data folder: neither %s nor %s nor %s "
                       "(set PEAKPROOF_DATA)", place[0], place[1], place[2]);
    *out = realpath(place[i], NULL);
    return *out != NULL ? ERR_OK : err_nomem(e);
}
