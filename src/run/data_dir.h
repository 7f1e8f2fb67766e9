/*
** data_dir.h - the folder of what is shipped: lua/ of a source tree, or where
** "make install" puts its contents.
*/
#ifndef RUN_DATA_DIR_H
#define RUN_DATA_DIR_H

#include "base/err.h"

/* Where shipped scenarios, models and data are: PEAKPROOF_DATA, or lua/
** beside the source tree the program was built in, or PREFIX/share/peakproof.
** ERR_RUN names the places that were tried. The result is malloc'ed. */
int data_dir(char **out, struct err *e) MUST_CHECK;

#endif
