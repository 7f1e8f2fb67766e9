/* wrong.h - see wrong.cu */
#ifndef PTX_WRONG_H
#define PTX_WRONG_H

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

enum wrong_kind { WRONG_RACE, WRONG_WARP, WRONG_BLOCKS, WRONG_BOUNDS,
                  WRONG_ALIGNMENT, WRONG_UNSET, WRONG_SHUFFLE, WRONG_BARRIER,
                  WRONG_COPY, WRONG_KINDS };

/* x: 64 ints to write, for WRONG_COPY 64 more to read. False: no launch. */
bool wrong_launch(enum wrong_kind kind, bool wrong, int *x);

#ifdef __cplusplus
}
#endif

#endif
