/*
** api.h - what the parts of the emulated runtime share: runtime.cpp, which is
** compiled against the headers of this folder for emulated threads and
** against CUDA's own for the PTX interpreter (tests/ptx), and those that
** launch.
*/
#ifndef EMU_API_H
#define EMU_API_H

#include <functional>

#include "tests/emu/control.h"

/* Counts an API call; leaves the function where the test makes it fail. */
#define EMU_CALL(failure)                  \
    do {                                   \
        if (emu_api_fails()) return failure; \
    } while (0)

/* Adds work to a stream: it is called until it returns true, after what was
** added before. At once where the stream is idle. */
void emu_stream_push(struct CUstream_st *s, std::function<bool()> work);

/* Device memory is given out, or taken back: for who checks accesses. */
void emu_memory_given(void *p, size_t n);
void emu_memory_taken(void *p);

#endif
