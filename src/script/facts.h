/*
** facts.h - price facts as a Lua table, with the keys of FACTS.json.
** Inside src/script.
*/
#ifndef SCRIPT_FACTS_H
#define SCRIPT_FACTS_H

#include <lua.h>

#include "price/price.h"
#include "script/scenario.h"

/* [-0, +1, raises] */
void facts_push(lua_State *L, const struct price_facts *f,
                const struct scenario_known *known);

#endif
