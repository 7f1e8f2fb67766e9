/*
** guard.h - the libraries that a script sees.
**
** Kept: base, string, table, math, utf8. Left out: io, os, debug, package,
** coroutine, and from base whatever reads files or drives the collector;
** load takes text only. Functions whose work grows with their arguments but
** not with the instructions executed are charged for it before they run.
** pairs visits keys in order, so that what a script builds does not depend
** on Lua's random hash seed. print writes to stderr. With unsafe all
** libraries are there, and nothing is charged for.
** Inside src/script.
*/
#ifndef SCRIPT_GUARD_H
#define SCRIPT_GUARD_H

#include <lua.h>

/* [-0, +0, raises] Opens the libraries and the scenario API: script_new is
** given it. */
int guard_open(lua_State *L);

#endif
