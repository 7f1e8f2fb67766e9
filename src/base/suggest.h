/*
** suggest.h - "did you mean": the nearest known word to a mistyped one.
*/
#ifndef BASE_SUGGEST_H
#define BASE_SUGGEST_H

#include <stddef.h>

/* The word of the NULL-terminated list that begins with word (three letters at
** least; the shortest such, the first of equals), else the one that is fewest
** edits (insert, delete, replace, swap of neighbours) away from it, the first
** of equals; NULL when none is near enough to be meant (a third of its letters,
** at least one, and half of them kept). */
const char *suggest(const char *word, const char *const *list);

/* The file of a folder that ends in suffix and whose name, with the suffix or
** without it as name has it, is nearest to a mistyped one, into out (of equals
** the first in the alphabet); "" when none is near, or there is no such
** folder. */
void suggest_file(const char *folder, const char *name, const char *suffix,
                  char *out, size_t size);

#endif
