/* import_table.c - see import_table.h */
#include "bench/import_table.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "record/read.h"
#include "run/data_dir.h"

static const char scenario[] = "measured";

extern const struct command cmd_run, cmd_report;

/* A command as it would be called from outside. */
static int call(const struct command *c, int argc, char **argv, struct err *e)
{
    bool help = false;
    struct args a;
    int rc = args_parse(c, argc, argv, &a, &help, e);

    if (rc != ERR_OK) return rc;
    rc = c->run(&a, e);
    args_free(&a);
    return rc;
}

/* Other records in the folder would be replaced by the run. */
static int check_folder(const char *dir, struct err *e)
{
    struct buf path = BUF_INIT;
    struct record_set *set = NULL;
    int64_t i;
    int rc = ERR_OK;

    buf_printf(&path, "%s/records.csv", dir);
    if (path.failed) return err_nomem(e);
    if (access(path.data, F_OK) == 0) rc = record_read(dir, &set, e);
    for (i = 0; rc == ERR_OK && set != NULL && i < set->n_case; i++)
        if (strcmp(set->kase[i].shape.scenario, scenario) != 0)
            rc = err_set(e, ERR_USAGE, "import: %s holds other cases ('%s'): "
                         "name a folder of its own", dir,
                         set->kase[i].shape.name);
    record_set_free(set);
    buf_free(&path);
    return rc;
}

/* Mutes what the run prints: the report has it. */
static int run_table(char *dir, char *lua, char *data, struct err *e)
{
    char run[] = "run", out[] = "--out", end[] = "--";
    char *argv[] = {run, out, dir, lua, end, data, NULL};
    int rc;

    out_mute(true);
    rc = call(&cmd_run, 6, argv, e);
    out_mute(false);
    return rc;
}

static int write_report(const struct args *a, struct err *e)
{
    char report[] = "report", json[] = "--json";
    char *argv[] = {report, a->operand[0], json, NULL};

    return call(&cmd_report, a->json ? 3 : 2, argv, e);
}

/* The table under the name that was given, not the path under which the
** scenario read it; and where in the scenario anything was raised is nothing
** to who wrote a table. */
static void point_at_table(const char *table, const char *path, struct err *e)
{
    char text[sizeof e->text], *at, *frames;

    snprintf(text, sizeof text, "%s", e->text);
    frames = strchr(text, '\n');
    if (frames != NULL) *frames = '\0';
    at = strstr(text, path);
    if (at != NULL)
        snprintf(e->text, sizeof e->text, "%.400s%.600s", table,
                 at + strlen(path));
}

int import_table(const struct args *a, struct err *e)
{
    const char *table = args_text(a, "table");
    char *dir = a->operand[0];
    struct buf lua = BUF_INIT, data = BUF_INIT;
    char *folder = NULL, *path = realpath(table, NULL);
    int rc, failed;

    if (path == NULL) return file_error(e, table, errno);
    rc = check_folder(dir, e);
    if (rc == ERR_OK) rc = data_dir(&folder, e);
    buf_printf(&lua, "%s/scenarios/%s.lua", folder ? folder : "", scenario);
    buf_printf(&data, "data=%s", path);
    if (rc == ERR_OK && (lua.failed || data.failed)) rc = err_nomem(e);
    if (rc == ERR_OK) {
        failed = run_table(dir, lua.data, data.data, e);
        /* cases that failed have said so, and are in the records */
        rc = failed == ERR_OK || e->text[0] == '\0' ? write_report(a, e)
                                                    : failed;
        if (rc == ERR_OK) rc = failed;
        if (failed == ERR_INPUT) point_at_table(table, path, e);
    }
    free(path);
    free(folder);
    buf_free(&lua);
    buf_free(&data);
    return rc;
}
