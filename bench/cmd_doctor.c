/*
** cmd_doctor.c - "peakproof doctor": what works here, what is missing, and
** what to do about it.
*/
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench/device.h"
#include "bench/command.h"

/* One line of the report. */
struct finding {
    const char *what;
    bool ok;
    char text[512];     /* what was found, or what is missing and the remedy */
};

static bool on_path(const char *program)
{
    const char *path = getenv("PATH");
    char full[4096];

    while (path != NULL && *path != '\0') {
        int n = (int)strcspn(path, ":");
        snprintf(full, sizeof full, "%.*s/%s", n, path, program);
        if (access(full, X_OK) == 0) return true;
        path += n;
        path += *path == ':';
    }
    return false;
}

static void find_data(struct finding *f)
{
    struct err e;
    char *dir = NULL;

    f->what = "data";
    f->ok = data_dir(&dir, &e) == ERR_OK;
    snprintf(f->text, sizeof f->text, "%.500s", f->ok ? dir : e.text);
    free(dir);
}

static void find_gnuplot(struct finding *f)
{
    f->what = "gnuplot";
    f->ok = on_path("gnuplot");
    snprintf(f->text, sizeof f->text, "%s", f->ok
             ? "found: reports get pictures"
             : "not found: reports have tables, .gp and .dat files, but no "
               "pictures (make deps, or apt-get install gnuplot-nox)");
}

static void find_device(const char *name, struct finding *f)
{
    const struct dev_ops *ops;
    struct err e;

    f->what = name;
    f->ok = device_find(name, &ops, &e) == ERR_OK;
    snprintf(f->text, sizeof f->text, "%.500s",
             f->ok ? device_about(name) : e.text);
}

static int print_json(const struct finding *f, int n, struct err *e)
{
    json_t *v = json_object(), *list = json_array();
    int i;

    for (i = 0; i < n; i++)
        json_array_append_new(list, json_pack("{s:s, s:b, s:s}", "what",
                                              f[i].what, "ok", f[i].ok,
                                              "text", f[i].text));
    json_object_set_new(v, "format", json_integer(1));
    json_object_set_new(v, "version", json_string(PEAKPROOF_VERSION));
    json_object_set_new(v, "findings", list);
    return out_json(v, e);
}

static int run(const struct args *a, struct err *e)
{
    struct finding f[8];
    struct buf b = BUF_INIT;
    int n = 0, i, rc;

    find_data(&f[n++]);
    find_gnuplot(&f[n++]);
    for (i = 0; device_names[i] != NULL; i++)
        find_device(device_names[i], &f[n++]);
    if (a->json) {
        rc = print_json(f, n, e);
    } else {
        for (i = 0; i < n; i++)
            buf_printf(&b, "%-8s %-3s %s\n", f[i].what, f[i].ok ? "ok" : "-",
                       f[i].text);
        rc = out_put(&b, e);
    }
    if (rc == ERR_OK && !f[0].ok)
        rc = err_set(e, ERR_RUN, "doctor: %.800s", f[0].text);
    return rc;
}

static const char *const examples[] = {
    "peakproof doctor", "peakproof doctor --json", NULL
};

const struct command cmd_doctor = {
    .name = "doctor",
    .synopsis = "[--json]",
    .about = "what works on this machine, what is missing, what to do about it",
    .text = "Looks for the data folder, gnuplot and each device. A device "
            "that is not there is no failure; a missing data folder is.",
    .operand = "nothing",
    .exits = {ERR_RUN},
    .examples = examples,
    .run = run,
};
