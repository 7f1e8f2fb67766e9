/*
** read.h - from the table that a scenario returns to struct scenario: the
** parts between load.c (order of calls), option.c and case.c. All
** functions raise and run inside script_protect.
** Inside src/script.
*/
#ifndef SCRIPT_READ_H
#define SCRIPT_READ_H

#include "script/decl.h"
#include "script/scenario.h"

/* What a load is about; light userdata at index 1 of protected functions. */
struct read {
    struct scenario *out;
    char **setting;         /* "name=value" */
    int n_setting;
    bool usage;             /* the complaint is about a setting */
};

/* [-0, +1] Reads the "options" of the opened scenario table and pushes the
** table that cases(opt) gets. */
void read_options(const struct decl *top, struct read *r);

/* [-0, +0] Reads the list of cases at index. */
void read_cases(lua_State *L, int index, struct read *r);
/* [-0, +0] The key routing of an opened case; c->ep is known. */
void read_routing(const struct decl *d, struct scenario_case *c);
void read_free_case(struct scenario_case *c);

/* [-0, +0] A case's keys tolerance, published and measured; estimators. */
void read_figures(const struct decl *d, struct scenario_case *c);
void read_estimators(const struct decl *d, struct scenario_case *c);

#endif
