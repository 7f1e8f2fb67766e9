/*
** find.h - where the files lie that a script names.
** Inside src/script.
*/
#ifndef SCRIPT_FIND_H
#define SCRIPT_FIND_H

#include <lua.h>

#include "script/state.h"

/* [-0, +(0|1), raises] Pushes the path of a file that the script calls name:
** absolute, or in the script's own folder, or in data_dir/folder ("" is
** data_dir itself); with suffix added where the name alone is not there. Of a
** file that may have a suffix, folders of that name come last. False, and
** nothing pushed, when there is none. */
bool find_file(lua_State *L, const char *name, const char *folder,
               const char *suffix);
/* [-0, +0, raises] Adds a path to s->found, where it is not there yet;
** find_file does so by itself. An error once the script is closed. */
void find_note(lua_State *L, const char *path);
/* [-0, +0, raises] The file in data_dir/folder whose name, with or without
** suffix, is nearest to a mistyped one, into out; "" when none is near. */
void find_nearest(lua_State *L, const char *name, const char *folder,
                  const char *suffix, char *out, size_t size);

/* Reads a file of at most 16 MiB ("-": standard input) and pushes it as a
** function; its keys go into s->source. chunk is what Lua calls it. For use
** outside of any Lua call. */
int find_load(struct script *s, const char *path, const char *chunk,
              struct err *e) MUST_CHECK;

/* require(name): name.lua from the script's own folder, else from data_dir,
** run once. */
int find_require(lua_State *L);

#endif
