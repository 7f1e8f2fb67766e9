/*
** scenarios.h - the scenario files that a command line names, loaded.
*/
#ifndef RUN_SCENARIOS_H
#define RUN_SCENARIOS_H

#include "script/scenario.h"

struct scenario_set {
    struct scenario **s;    /* [n] owned */
    int n;
    char *data;             /* data folder, owned */
};

/* Loads files with settings. A name without a slash that is no file here is
** looked for among the shipped scenarios. Two scenarios of one name are
** ERR_USAGE. */
int scenarios_load(char **path, int n, char **setting, int n_setting,
                   const struct scenario_limits *limits,
                   struct scenario_set *out, struct err *e) MUST_CHECK;
void scenarios_free(struct scenario_set *set);

/* Paths of the shipped scenarios in alphabetical order; each and the array
** are malloc'ed (scenarios_free_paths). */
int scenarios_shipped(const char *data, char ***out, int *n, struct err *e)
    MUST_CHECK;
void scenarios_free_paths(char **path, int n);

#endif
