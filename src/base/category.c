/* category.c - see category.h: its lists as tables */
#include "base/category.h"

#include <assert.h>

#define ROW(constant, name, bar, help) \
    [CAT_##constant] = {name, help, BAR_##bar},
#define BAR(constant, name, colour) [BAR_##constant] = {name, colour},

static const struct { const char *name, *help; enum category_bar bar; }
category_table[CAT_COUNT] = {CATEGORIES(ROW)};

static const struct { const char *name, *colour; }
bar_table[BAR_COUNT] = {CATEGORY_BARS(BAR)};

const char *category_name(enum category c)
{
    assert(c < CAT_COUNT);
    return category_table[c].name;
}

const char *category_help(enum category c)
{
    assert(c < CAT_COUNT);
    return category_table[c].help;
}

enum category_bar category_bar(enum category c)
{
    return category_table[c].bar;
}

const char *category_bar_name(enum category_bar b)
{
    return bar_table[b].name;
}

const char *category_bar_colour(enum category_bar b)
{
    return bar_table[b].colour;
}
